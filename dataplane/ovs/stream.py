"""A non-blocking stream of bytes to a part of Open vSwitch, whatever leads there. No thread: its owner calls it."""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
from collections.abc import Callable
from selectors import EVENT_READ, EVENT_WRITE
from typing import Final

from dataplane.ovs.remote import Remote, Scheme, TlsFiles
from dataplane.ovs.tls import TlsError, TlsIdentity

_SOCKET_BUFFER: Final = 1 << 20
_SILENCE_S: Final = 2
_PROBE_EVERY_S: Final = 1
_PROBES: Final = 4
_UNANSWERED_MS: Final = 6000
"""A peer that has gone without a word (power, cable) is noticed after about so long, idle or not: tcp(7)."""

_LATER = (BlockingIOError, InterruptedError)


class StreamError(Exception):
    """The connection could not be made, or is gone. The message is the reason."""


class Dialer:
    """Opens streams to one remote."""

    def __init__(
        self, remote: Remote, tls: TlsFiles | None = None, on_data: Callable[[], None] = lambda: None
    ) -> None:
        """Raises StreamError naming the TLS file that cannot be used. `tls` is needed for ssl: only.

        `on_data` is called whenever something has come; what it raises of OSError is taken for the stream's own.
        """
        self._remote = remote
        self._on_data = on_data
        self._identity: TlsIdentity | None = None
        if remote.scheme is Scheme.SSL:
            if tls is None:
                raise StreamError("ssl: needs tls_ca, tls_certificate and tls_key")
            try:
                self._identity = TlsIdentity(tls)
            except TlsError as error:
                raise StreamError(str(error)) from error

    def open(self) -> Stream:
        """Begin to connect; whatever is asked of the stream goes on with it.

        Raises OSError; BlockingIOError means that the backlog of a Unix socket is full: try later.
        """
        remote = self._remote
        if remote.scheme is Scheme.UNIX:
            return _connected(socket.AF_UNIX, remote.path, None, self._on_data)
        family = socket.AF_INET6 if ":" in remote.address else socket.AF_INET
        return _connected(family, (remote.address, remote.port), self._identity, self._on_data)


def _connected(
    family: int, address: str | tuple[str, int], identity: TlsIdentity | None, on_data: Callable[[], None]
) -> Stream:
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        if family != socket.AF_UNIX:
            _set_tcp(sock)
        else:
            # Larger than the default means fewer turns of the owner's loop; TCP finds its own size.
            with contextlib.suppress(OSError):
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SOCKET_BUFFER)
        try:
            sock.connect(address)
        except BlockingIOError:
            if family == socket.AF_UNIX:
                raise
        return Stream(sock, identity, on_data)
    except BaseException:
        sock.close()
        raise


def _set_tcp(sock: socket.socket) -> None:
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _SILENCE_S)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _PROBE_EVERY_S)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _PROBES)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _UNANSWERED_MS)


class Stream:
    """Connects, shakes hands, sends and receives; every call does what can be done without waiting.

    After a call that could not do its work, `receive_on` or `send_on` (events of `selectors`) say what to wait for:
    TLS may have to write in order to read, and the other way round.
    """

    def __init__(self, sock: socket.socket, identity: TlsIdentity | None, on_data: Callable[[], None]) -> None:
        """`sock` is non-blocking, connected or on the way to it."""
        self._on_data = on_data
        self.receive_on = self.send_on = EVENT_WRITE
        self._sock = sock
        self._identity = identity
        self._tls: ssl.SSLSocket | None = None
        self._is_open = False
        self._has_heard = False

    def fileno(self) -> int:
        """The same number from the first to the last; -1 after close."""
        return self._sock.fileno()

    def receive(self, size: int) -> bytes | None:
        """What has come, at most about `size` bytes (TLS: at least 16 KiB); None: nothing yet; empty: the end.

        Raises StreamError.
        """
        if not self._is_open and not self._establish():
            return None
        try:
            data = self._sock.recv(size)
            # A rest that TLS has decoded already would not wake a selector.
            while self._tls is not None and self._tls.pending():
                data += self._sock.recv(size)
            self._on_data()
        except (*_LATER, ssl.SSLWantReadError):
            self.receive_on = EVENT_READ
            return None
        except ssl.SSLWantWriteError:
            self.receive_on = EVENT_WRITE
            return None
        except OSError as error:
            raise StreamError(self._explain("receiving failed", error)) from error
        self.receive_on = EVENT_READ
        if not data and self._identity is not None and not self._has_heard:
            raise StreamError(self._identity.explain_end())
        self._has_heard = True
        return data

    def send(self, data: bytes | memoryview) -> int:
        """How many bytes were taken, 0: none now; what is offered next must then begin with the same bytes.

        Raises StreamError.
        """
        if not self._is_open and not self._establish():
            return 0
        try:
            count = self._sock.send(data)
        except (*_LATER, ssl.SSLWantWriteError):
            self.send_on = EVENT_WRITE
            return 0
        except ssl.SSLWantReadError:
            self.send_on = EVENT_READ
            return 0
        except OSError as error:
            raise StreamError(self._explain("sending failed", self._last_words(error))) from error
        self.send_on = EVENT_WRITE
        return count

    def close(self) -> None:
        """Again is harmless."""
        self._sock.close()

    def _establish(self) -> bool:
        if self._identity is None or self._tls is None:
            if not self._connect():
                return False
            if self._identity is not None:
                try:
                    self._sock = self._tls = self._identity.wrap(self._sock)
                except OSError as error:
                    raise StreamError(self._explain("the handshake failed", error)) from error
        if self._tls is not None and not self._shake_hands(self._tls):
            return False
        self.receive_on, self.send_on = EVENT_READ, EVENT_WRITE
        self._is_open = True
        return True

    def _connect(self) -> bool:
        try:
            self._sock.getpeername()
        except OSError:
            error = self._sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if error:
                raise StreamError(f"cannot connect: {os.strerror(error)}") from None
            return False
        return True

    def _shake_hands(self, tls: ssl.SSLSocket) -> bool:
        try:
            tls.do_handshake()
        except ssl.SSLWantReadError:
            self.receive_on = self.send_on = EVENT_READ
        except ssl.SSLWantWriteError:
            self.receive_on = self.send_on = EVENT_WRITE
        except OSError as error:
            raise StreamError(self._explain("the handshake failed", error)) from error
        else:
            return True
        return False

    def _last_words(self, error: OSError) -> OSError:
        """Why the switch hung up on us, if it said so: in TLS 1.3 it may refuse us when we take it to be open."""
        if self._tls is None or self._has_heard:
            return error
        try:
            self._tls.recv(1)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return error
        except ssl.SSLError as alert:
            return alert
        except OSError:
            return error
        return error

    def _explain(self, what: str, error: OSError) -> str:
        if self._identity is not None and (isinstance(error, ssl.SSLError) or not self._has_heard):
            return self._identity.explain(error)
        return f"{what}: {error.strerror}"
