"""Goal states in files or from standard input: text (.txtpb), JSON or binary, in either layout."""

from __future__ import annotations

import enum
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from google.protobuf import json_format, text_format
from google.protobuf.message import DecodeError

from aca.cli.console import CommandError
from goalstate_proto.goalstate_pb2 import GoalState, GoalStateV2


class Layout(enum.Enum):
    V1 = "v1"
    V2 = "v2"


class _Form(enum.Enum):
    TEXT = "text"
    JSON = "JSON"
    BINARY = "binary"


_FORM_OF_SUFFIX = {
    ".txtpb": _Form.TEXT,
    ".textproto": _Form.TEXT,
    ".textpb": _Form.TEXT,
    ".pbtxt": _Form.TEXT,
    ".json": _Form.JSON,
    ".pb": _Form.BINARY,
    ".binpb": _Form.BINARY,
    ".bin": _Form.BINARY,
}
_LAYOUT_IN_NAME = re.compile(r"\.(v1|v2)(?:\.|$)")
_STANDARD_INPUT = Path("-")
# What protobuf's JSON parser says: where it was, one field in another, and what is wrong, with every known field.
_JSON_FIELDS = re.compile(r"(?:Failed to parse \w+ field: )+")
_JSON_UNKNOWN = re.compile(r'Message type "[^"]*" has no field named "([^"]*)" at "([^"]*)"')


@dataclass(frozen=True, slots=True)
class GoalStateFile:
    path: Path
    """'-' for standard input."""
    layout: Layout
    message: GoalState | GoalStateV2

    @property
    def name(self) -> str:
        """The path as given, for people."""
        return name_of(self.path)

    @property
    def is_empty(self) -> bool:
        """No resource is in it."""
        return not _holds_states(self.message)


def name_of(path: Path) -> str:
    return "standard input" if path == _STANDARD_INPUT else str(path)


def layout_option(v1: bool, v2: bool) -> Layout | None:
    """What --v1 and --v2 say; None to find out. Raises CommandError when both are given."""
    if v1 and v2:
        raise CommandError("--v1 and --v2 exclude each other")
    if v1:
        return Layout.V1
    return Layout.V2 if v2 else None


def read_goal_state(path: Path, layout: Layout | None) -> GoalStateFile:
    """The goal state in a file, or in standard input if the path is '-'.

    Without `layout`, '.v1.' or '.v2.' in the name decides, else what the content fits.

    Raises CommandError naming the file and what is wrong with it.
    """
    try:
        data = sys.stdin.buffer.read() if path == _STANDARD_INPUT else path.read_bytes()
    except OSError as error:
        raise CommandError(f"{name_of(path)}: cannot be read: {error.strerror}") from None
    if layout is None and (named := _LAYOUT_IN_NAME.search(path.name)):
        layout = Layout(named[1])
    form = _FORM_OF_SUFFIX.get(path.suffix) or _form_of(data)
    fitting: list[GoalStateFile] = []
    reasons: list[str] = []
    for candidate in [layout] if layout else list(Layout):
        try:
            fitting.append(GoalStateFile(path, candidate, _parse(data, form, candidate)))
        except (DecodeError, text_format.ParseError, json_format.ParseError, UnicodeDecodeError) as error:
            reasons.append(f"as {candidate.value}: {_sentence(error)}")
    if not fitting:
        raise CommandError("\n  ".join([f"{name_of(path)}: is not a goal state in {form.value} form", *reasons]))
    return fitting[0] if len(fitting) == 1 else _better(path, data, fitting)


def _sentence(error: Exception) -> str:
    """What a parser says, in short: 'no field "idd" at GoalState.port_states[0].configuration'."""
    text = str(error)
    if not isinstance(error, json_format.ParseError):
        return text
    text = text.partition("\n")[0].rstrip(".")
    if unknown := _JSON_UNKNOWN.search(text):
        return f'no field "{unknown[1]}" at {unknown[2]}'
    if (fields := _JSON_FIELDS.match(text)) is None:
        return text
    path = ".".join(re.findall(r"parse (\w+) field", fields[0]))
    return f"{path}: {text[fields.end() :]}"


def _form_of(data: bytes) -> _Form:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return _Form.BINARY
    if text.lstrip().startswith("{"):
        return _Form.JSON
    # Of the control characters text has only these, and length bytes of short fields soon are others.
    return _Form.BINARY if any(char < " " and char not in "\t\r\n" for char in text) else _Form.TEXT


def _parse(data: bytes, form: _Form, layout: Layout) -> GoalState | GoalStateV2:
    message: GoalState | GoalStateV2 = GoalState() if layout is Layout.V1 else GoalStateV2()
    if form is _Form.BINARY:
        message.ParseFromString(data)
    elif form is _Form.JSON:
        json_format.Parse(data.decode(), message)
    else:
        text_format.Parse(data.decode(), message)
    return message


def _better(path: Path, data: bytes, fitting: list[GoalStateFile]) -> GoalStateFile:
    """Bytes of one layout often parse as the other too, but then leave unknown fields and keys that nobody wrote."""
    if not any(_holds_states(file.message) for file in fitting):
        return fitting[-1]
    misfits = [_misfit(data, file.layout) for file in fitting]
    if misfits[0] == misfits[1]:
        raise CommandError(f"{name_of(path)}: could be either layout; say --v1 or --v2")
    return fitting[misfits.index(min(misfits))]


def _holds_states(message: GoalState | GoalStateV2) -> bool:
    return any(field.name != "format_version" for field, _ in message.ListFields())


def _misfit(data: bytes, layout: Layout) -> int:
    known = _parse(data, _Form.BINARY, layout)
    known.DiscardUnknownFields()
    return abs(len(data) - known.ByteSize())
