"""The sockets on which RPC messages travel. Thin edges: what is sent is made elsewhere. Each belongs to one user at a
time; every wait has an end and can be broken off by a Waker."""

from __future__ import annotations

import os
import selectors
import socket
import time
from collections.abc import Sequence
from typing import Final, Protocol

from dataplane.mizar.errors import MizarError
from dataplane.mizar.rpc import MOST_IN_REPLY, Records, datagram, record

_BUFFER: Final = 1 << 20
_AT_ONCE: Final = 64 << 10


class Broken(Exception):  # noqa: N818
    """The connection is gone or cannot be made."""


class Woken(Exception):  # noqa: N818
    """The waker was used."""


class Overdue(Exception):  # noqa: N818
    """Nothing came in time."""


class Waker:
    """Breaks off waits, for good. Its owner closes it after those who wait have left."""

    def __init__(self) -> None:
        self._fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)

    def fileno(self) -> int:
        return self._fd

    def wake(self) -> None:
        os.eventfd_write(self._fd, 1)

    def close(self) -> None:
        os.close(self._fd)


class MessageSocket(Protocol):
    """One socket to one peer."""

    def send(self, calls: Sequence[tuple[int, bytes]], deadline: float) -> None:
        """Sends calls, each an xid and a body, in this order. `deadline`: of time.monotonic(). Raises Broken, Woken,
        Overdue."""

    def receive(self, deadline: float) -> list[bytes]:
        """Messages that came, at least one. Raises Broken, Woken, Overdue."""

    def close(self) -> None: ...


class _Waiting:
    """A connected, non-blocking socket and the waits on it."""

    def __init__(self, connected: socket.socket, waker: Waker) -> None:
        self.socket = connected
        self._selector = selectors.DefaultSelector()
        self._selector.register(connected, selectors.EVENT_READ)
        self._selector.register(waker.fileno(), selectors.EVENT_READ)

    def wait(self, deadline: float, events: int = selectors.EVENT_READ) -> None:
        """Raises Woken, Overdue."""
        if events != selectors.EVENT_READ:
            self._selector.modify(self.socket, events)
        try:
            ready = self._selector.select(max(0.0, deadline - time.monotonic()))
        finally:
            if events != selectors.EVENT_READ:
                self._selector.modify(self.socket, selectors.EVENT_READ)
        if any(key.fileobj is not self.socket for key, _ in ready):
            raise Woken
        if not ready:
            raise Overdue

    def close(self) -> None:
        self._selector.close()
        self.socket.close()


class StreamSocket:
    """TCP. Calls that are given together leave in one write, so that the daemon, which reads a record to its end
    before it does anything else, never waits for the rest of one."""

    def __init__(self, address: tuple[str, int], deadline: float, waker: Waker) -> None:
        """Raises Broken, Woken, Overdue."""
        made = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
        self._records = Records()
        self._waiting = _Waiting(made, waker)
        try:
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER)
            try:
                made.connect(address)
            except BlockingIOError:
                self._waiting.wait(deadline, selectors.EVENT_WRITE)
                if error := made.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                    raise OSError(error, os.strerror(error)) from None
            if made.getsockname() == made.getpeername():
                raise Broken("nobody listens there: the connection met itself")
        except OSError as error:
            self.close()
            raise Broken(str(error)) from error
        except BaseException:
            self.close()
            raise

    def send(self, calls: Sequence[tuple[int, bytes]], deadline: float) -> None:
        data = memoryview(b"".join([record(xid, body) for xid, body in calls]))
        while data:
            try:
                data = data[self._waiting.socket.send(data, socket.MSG_NOSIGNAL) :]
            except BlockingIOError:
                self._waiting.wait(deadline, selectors.EVENT_WRITE)
            except OSError as error:
                raise Broken(str(error)) from error

    def receive(self, deadline: float) -> list[bytes]:
        while True:
            try:
                data = self._waiting.socket.recv(_AT_ONCE)
            except BlockingIOError:
                self._waiting.wait(deadline)
                continue
            except OSError as error:
                raise Broken(str(error)) from error
            if not data:
                raise Broken("the daemon closed the connection")
            try:
                found = self._records.feed(data)
            except MizarError as error:
                raise Broken(str(error)) from error
            if found:
                return found
            if time.monotonic() >= deadline:
                raise Overdue

    def close(self) -> None:
        self._waiting.close()


class DatagramSocket:
    """UDP, connected, so that a port nobody listens on is told."""

    def __init__(self, address: tuple[str, int], waker: Waker) -> None:
        """Raises Broken."""
        made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
        self._waiting = _Waiting(made, waker)
        try:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER)
            made.connect(address)
        except OSError as error:
            self.close()
            raise Broken(str(error)) from error

    def send(self, calls: Sequence[tuple[int, bytes]], deadline: float) -> None:
        for xid, body in calls:
            message = datagram(xid, body)
            while True:
                try:
                    self._waiting.socket.send(message)
                    break
                except BlockingIOError:
                    self._waiting.wait(deadline, selectors.EVENT_WRITE)
                except OSError as error:
                    raise Broken(str(error)) from error

    def receive(self, deadline: float) -> list[bytes]:
        while True:
            try:
                return [self._waiting.socket.recv(MOST_IN_REPLY)]
            except BlockingIOError:
                self._waiting.wait(deadline)
            except OSError as error:
                raise Broken(str(error)) from error

    def close(self) -> None:
        self._waiting.close()
