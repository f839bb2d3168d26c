"""Binding gRPC servers to addresses, with errors that people understand."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc

_CONNECT_TIMEOUT_S = 1.0


class ListenError(Exception):
    """An address cannot be listened on; the message says which and why."""


def bind(server: grpc.aio.Server, address: str) -> str:
    """Bind `server` to `HOST:PORT`, `[IPv6]:PORT` or `unix:/PATH` and return the address with its real port.

    A Unix socket's directory is made, a stale socket file is replaced, and only the owner may use the socket (mode
    0600). Raises ListenError.
    """
    if address.startswith("unix:"):
        path = Path(address.removeprefix("unix:"))
        _clear_socket_path(path)
        with _private_files():
            _add_port(server, address)
        return address
    host, _, port = address.rpartition(":")
    # Asked beforehand: gRPC itself says no reason.
    _probe(address, host.strip("[]"), int(port))
    return f"{host}:{_add_port(server, address)}"


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
    """Make the directory and take away a socket file that nobody answers on. Raises ListenError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        mode = path.stat().st_mode
    except FileNotFoundError:
        return
    except OSError as error:
        raise ListenError(f"cannot listen on unix:{path}: {error.strerror}") from None
    if not stat.S_ISSOCK(mode):
        raise ListenError(f"cannot listen on unix:{path}: something that is not a socket is there")
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(_CONNECT_TIMEOUT_S)
        try:
            probe.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            path.unlink(missing_ok=True)
            return
        except OSError as error:
            raise ListenError(f"cannot listen on unix:{path}: {error.strerror}") from None
    raise ListenError(f"cannot listen on unix:{path}: another agent answers there")


@contextmanager
def _private_files() -> Iterator[None]:
    """Files made inside are for the owner only, from their first moment (a later chmod would leave a gap)."""
    before = os.umask(0o177)
    try:
        yield
    finally:
        os.umask(before)
