"""What the ovs package's JSON-RPC (RFC 7047 section 4) needs to run over a stream of ours.

Its own TLS streams keep the files in a class, know the cause of a refusal as a number only, and may sleep on what TLS
has decoded already.
"""

from __future__ import annotations

import errno
import select
from collections.abc import Mapping
from selectors import EVENT_READ, EVENT_WRITE
from typing import Any, Final

import ovs.jsonrpc
import ovs.reconnect
import ovs.timeval

from dataplane.ovs.stream import Stream, StreamError

_RECEIVE: Final = 1 << 16
_POLL: Mapping[int, int] = {EVENT_READ: select.POLLIN, EVENT_WRITE: select.POLLOUT}


class RpcStream:
    """A stream in the shape of ovs.stream.Stream. `problem` is why it ended, as far as it is known."""

    def __init__(self, stream: Stream, name: str) -> None:
        self.name = name
        self.problem = ""
        self._stream = stream

    def run(self) -> None:
        pass

    def run_wait(self, poller: Any) -> None:
        pass

    def send(self, data: str | bytes) -> int:
        """How many bytes were taken, or a negative errno."""
        octets = data.encode() if isinstance(data, str) else data
        if not octets:
            return 0
        try:
            return self._stream.send(octets) or -errno.EAGAIN
        except StreamError as error:
            self.problem = str(error)
            return -errno.EPIPE

    def recv(self, _at_most: int) -> tuple[int, bytes]:
        """(errno, data); no data and no error mean the end. More may come than was asked for, which nobody minds."""
        try:
            data = self._stream.receive(_RECEIVE)
        except StreamError as error:
            self.problem = str(error)
            return errno.EPIPE, b""
        return (errno.EAGAIN, b"") if data is None else (0, data)

    def recv_wait(self, poller: Any) -> None:
        poller.fd_wait(self._stream.fileno(), _POLL[self._stream.receive_on])

    def send_wait(self, poller: Any) -> None:
        poller.fd_wait(self._stream.fileno(), _POLL[self._stream.send_on])

    def close(self) -> None:
        self._stream.close()


def session_over(connection: Any, name: str, probe_interval_ms: int) -> Any:
    """A JSON-RPC session over an open connection, that ends with it.

    The IDL would open its own, and only probe where a loss is silent; but a server that hangs is as bad as one that is
    gone.
    """
    now = ovs.timeval.msec()
    reconnect = ovs.reconnect.Reconnect(now)
    reconnect.set_name(name)
    reconnect.set_quiet(True)
    reconnect.set_max_tries(0)
    reconnect.set_probe_interval(probe_interval_ms)
    reconnect.connected(now)
    return ovs.jsonrpc.Session(reconnect, connection, [name])
