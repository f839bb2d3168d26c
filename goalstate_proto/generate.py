"""Writes the generated modules of this package anew: ``python -m goalstate_proto.generate``.

Needs grpcio-tools, which only developers have installed. The result does not depend on its version as long as
its code generators write the same code: the only thing that then differs are version stamps, the oldest runtime
that the modules agree to load with, and those are set to the oldest that the project supports.
"""

import re
import sys
import tempfile
from pathlib import Path

from grpc_tools import protoc

PACKAGE = Path(__file__).resolve().parent
PROTOBUF_FLOOR = (7, 34, 0)
GRPC_FLOOR = (1, 81, 0)

_SERVICE = re.compile(r"^service\s", re.MULTILINE)
_PROTOBUF_COMMENT = re.compile(r"^# Protobuf Python Version: [\d.]+$", re.MULTILINE)
_PROTOBUF_CHECK = re.compile(r"(?<=Domain\.PUBLIC,\n)    \d+,\n    \d+,\n    \d+,\n    '[^']*',\n")
_GRPC_STAMP = re.compile(r"^GRPC_GENERATED_VERSION = '[\d.]+'$", re.MULTILINE)


class GenerationError(Exception):
    """The compiler refused the .proto files, or wrote code in a form that is not known here."""


def generate(out: Path) -> list[Path]:
    """Compiles every .proto file of the package into the directory ``out``; returns the files written, sorted.

    Message modules (``X_pb2.py`` with ``X_pb2.pyi``) are written for all, service modules (``X_pb2_grpc.py``)
    for those that have a service. Raises GenerationError.
    """
    sources = sorted(PACKAGE.glob("*.proto"))
    with_service = [path for path in sources if _SERVICE.search(path.read_text(encoding="utf-8"))]
    with tempfile.TemporaryDirectory() as scratch:
        # The root is the directory above the package: imports then read "goalstate_proto.X_pb2".
        _compile(sources, [f"--python_out={scratch}", f"--pyi_out={scratch}"])
        _compile(with_service, [f"--grpc_python_out={scratch}"])
        written = []
        for path in sorted(Path(scratch, PACKAGE.name).iterdir()):
            target = out / path.name
            target.write_text(_restamp(path.name, path.read_text(encoding="utf-8")), encoding="utf-8")
            written.append(target)
    return written


def generated_files(directory: Path) -> list[Path]:
    """The files in ``directory`` that ``generate`` has written there, sorted."""
    patterns = ("*_pb2.py", "*_pb2.pyi", "*_pb2_grpc.py")
    return sorted(path for pattern in patterns for path in directory.glob(pattern))


def _compile(sources: list[Path], outputs: list[str]) -> None:
    root = PACKAGE.parent
    names = [path.relative_to(root).as_posix() for path in sources]
    if protoc.main(["protoc", f"-I{root}", *outputs, *names]) != 0:
        raise GenerationError("protoc failed; its messages are above")


def _restamp(name: str, text: str) -> str:
    if name.endswith("_pb2_grpc.py"):
        return _replace_once(_GRPC_STAMP, f"GRPC_GENERATED_VERSION = '{_dotted(GRPC_FLOOR)}'", name, text)
    if name.endswith("_pb2.py"):
        check = "".join(f"    {number},\n" for number in PROTOBUF_FLOOR) + "    '',\n"
        text = _replace_once(_PROTOBUF_CHECK, check, name, text)
        comment = f"# Protobuf Python Version: {_dotted(PROTOBUF_FLOOR)}"
        return _replace_once(_PROTOBUF_COMMENT, comment, name, text)
    return text


def _replace_once(pattern: re.Pattern[str], by: str, name: str, text: str) -> str:
    text, count = pattern.subn(by, text)
    if count != 1:
        raise GenerationError(f"{name}: {count} version stamps of the form {pattern.pattern!r} instead of 1")
    return text


def _dotted(version: tuple[int, int, int]) -> str:
    return ".".join(map(str, version))


def main() -> int:
    """Replaces the package's generated modules; returns the exit status."""
    try:
        written = generate(PACKAGE)
    except GenerationError as error:
        print(f"goalstate_proto: {error}", file=sys.stderr)
        return 1
    for stale in set(generated_files(PACKAGE)) - set(written):
        stale.unlink()
    print(f"goalstate_proto: {len(written)} files written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
