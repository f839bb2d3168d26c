"""Where an agent is: what a user wrote, and whether anyone is there."""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Iterable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from aca.cli.console import CommandError

_HOST_PORT = re.compile(r"(?:\[(?P<v6>[^\]]+)\]|(?P<host>[^:\[\]/]+)):(?P<port>\d{1,5})")
_Place = tuple[int, Any]
"""Address family, and the address as sockets take it."""


def check_target(target: str) -> None:
    """Raises CommandError unless `target` is HOST:PORT, [IPv6]:PORT or unix:/PATH."""
    if target.startswith("unix:") and len(target) > len("unix:"):
        return
    match = _HOST_PORT.fullmatch(target)
    if match is None or not 1 <= int(match["port"]) <= 65535:
        raise CommandError(f"{target}: needs HOST:PORT, e.g. 127.0.0.1:50001")


def reach(target: str, timeout: float) -> None:
    """Connect once, within `timeout` seconds, to know why if nobody is there: gRPC does not tell, it tries again.

    Raises CommandError saying that the name is unknown, the connection is refused, or nobody answers.
    """
    deadline = time.monotonic() + timeout
    errors: list[OSError] = []
    for family, address in _places(target, timeout):
        try:
            with socket.socket(family, socket.SOCK_STREAM) as trial:
                trial.settimeout(max(0.01, deadline - time.monotonic()))
                trial.connect(address)
                return
        except OSError as error:
            errors.append(error)
    raise CommandError(f"{target}: {_why(errors, timeout)}")


def _places(target: str, timeout: float) -> Iterable[_Place]:
    if target.startswith("unix:"):
        # unix:PATH and unix:///PATH, as in gRPC.
        path = target.removeprefix("unix:").removeprefix("//")
        return [(socket.AF_UNIX, str(Path(path)))]
    match = _HOST_PORT.fullmatch(target)
    assert match is not None, "to be checked before"
    host = match["v6"] or match["host"]
    try:
        found = _look_up(host, int(match["port"])).result(timeout)
    except (OSError, UnicodeError, TimeoutError) as error:
        why = f": {error.strerror}" if isinstance(error, OSError) and error.strerror else ""
        raise CommandError(f"{target}: cannot resolve {host}{why}") from None
    return [(family, address) for family, _, _, _, address in found]


def _look_up(host: str, port: int) -> Future[list[Any]]:
    """On a thread of its own: the system's resolver cannot be told how long it may take."""
    found: Future[list[Any]] = Future()

    def work() -> None:
        try:
            found.set_result(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
        except Exception as error:
            found.set_exception(error)

    threading.Thread(target=work, name="look-up", daemon=True).start()
    return found


def _why(errors: Iterable[OSError], timeout: float) -> str:
    """The error that tells most: a host that refuses is up, one that is silent may not be there."""
    told = list(errors)
    if any(isinstance(error, ConnectionRefusedError) for error in told):
        return "connection refused; is the agent running?"
    if any(isinstance(error, FileNotFoundError) for error in told):
        return "there is no such socket; is the agent running?"
    reasons = [error.strerror for error in told if not isinstance(error, TimeoutError) and error.strerror]
    return reasons[0] if reasons else f"no agent answers there ({timeout:g} s)"
