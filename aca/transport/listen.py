"""Binding gRPC servers to addresses, with errors that people understand."""

from __future__ import annotations

import os
import secrets
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import grpc

_CONNECT_TIMEOUT_S = 1.0


class ListenError(Exception):
    """An address cannot be listened on; the message says which and why."""


class ListenDeniedError(ListenError):
    """This process may not listen there."""


@dataclass(frozen=True, slots=True)
class SocketFile:
    """One certain file: another that has taken its name is not it."""

    path: Path
    device: int
    inode: int

    @classmethod
    def at(cls, path: Path) -> SocketFile:
        """The file that has this name now. Raises OSError."""
        found = path.lstat()
        return cls(path, found.st_dev, found.st_ino)

    def remove(self) -> None:
        """Take the file away if it is still there. Raises OSError."""
        try:
            if SocketFile.at(self.path) == self:
                self.path.unlink()
        except FileNotFoundError:
            pass


@dataclass(frozen=True, slots=True)
class Bound:
    """An address listened on, with its real port; `file` is the socket file if there is one."""

    address: str
    file: SocketFile | None = None

    def release(self) -> None:
        """To be called when the server has stopped: takes away the socket file, if it is still ours."""
        if self.file is None:
            return
        try:
            self.file.remove()
        except OSError:
            pass  # what is left is replaced by the next agent


def bind(server: grpc.aio.Server, address: str) -> Bound:
    """Bind `server` to `HOST:PORT`, `[IPv6]:PORT` or `unix:/PATH`.

    A Unix socket's directory is made, a stale socket file is replaced, and only the owner may use the socket (mode
    0600). Raises ListenError.
    """
    if address.startswith("unix:"):
        return _bind_unix(server, Path(address.removeprefix("unix:")))
    host, _, port = address.rpartition(":")
    # Asked beforehand: gRPC itself says no reason.
    _probe(address, host.strip("[]"), int(port))
    return Bound(f"{host}:{_add_port(server, address)}")


def _bind_unix(server: grpc.aio.Server, path: Path) -> Bound:
    """Bound under a passing name and then linked to its own: gRPC, when it stops, takes away whatever has the name that
    it was given, and a link does not replace a socket that another agent has made meanwhile."""
    address = f"unix:{path}"
    passing = path.with_name(f".{secrets.token_hex(3)}")
    try:
        _clear_socket_path(path)
        with _private_files():
            _probe_unix(passing)
            _add_port(server, f"unix:{passing}")
        try:
            file = SocketFile.at(passing)
            os.link(passing, path)
        finally:
            passing.unlink(missing_ok=True)
    except PermissionError as error:
        raise ListenDeniedError(f"cannot listen on {address}: {error.strerror}") from None
    except FileExistsError:
        raise ListenError(f"cannot listen on {address}: another agent answers there") from None
    except OSError as error:
        raise ListenError(f"cannot listen on {address}: {error.strerror or error}") from None
    return Bound(address, SocketFile(path, file.device, file.inode))


def _probe_unix(path: Path) -> None:
    """Raises OSError with the reason why no socket can be made there."""
    with socket.socket(socket.AF_UNIX) as trial:
        trial.bind(str(path))
    path.unlink()


def _add_port(server: grpc.aio.Server, address: str) -> int:
    try:
        return server.add_insecure_port(address)
    except RuntimeError as error:
        raise ListenError(f"cannot listen on {address}: {error}") from None


def _probe(address: str, host: str, port: int) -> None:
    try:
        family, kind, protocol, _, where = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            trial.bind(where)
            # Two sockets may share a bound port as long as neither listens.
            trial.listen(1)
    except OSError as error:
        raise ListenError(f"cannot listen on {address}: {error.strerror}") from None


def _clear_socket_path(path: Path) -> None:
    """Make the directory and take away a socket file that nobody answers on. Raises ListenError and OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        mode, found = path.stat().st_mode, SocketFile.at(path)
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise ListenError(f"cannot listen on unix:{path}: something that is not a socket is there")
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(_CONNECT_TIMEOUT_S)
        try:
            probe.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            found.remove()
            return
    raise ListenError(f"cannot listen on unix:{path}: another agent answers there")


@contextmanager
def _private_files() -> Iterator[None]:
    """Files made inside are for the owner only, from their first moment (a later chmod would leave a gap)."""
    before = os.umask(0o177)
    try:
        yield
    finally:
        os.umask(before)
