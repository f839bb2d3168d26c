"""One non-blocking stream of OpenFlow messages. No thread: its owner calls it."""

from __future__ import annotations

import struct
from collections import deque
from typing import Final, NamedTuple

from dataplane.ovs.stream import Stream, StreamError

_HEADER = struct.Struct("!BBHI")
_NEWEST_VERSION: Final = 6
_RECEIVE: Final = 1 << 18
_GATHER: Final = 1 << 17
_SEND_PER_TURN: Final = 1 << 20


class Message(NamedTuple):
    """A received message; ``body`` is what follows the 8 byte header."""

    version: int
    type: int
    xid: int
    body: bytes


class ChannelError(Exception):
    """The stream ended, broke, or is not OpenFlow."""


class Channel:
    """Framing, sending and receiving on one connection.

    There are two queues of whole messages: urgent ones overtake bulk ones between messages.
    """

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._pending = b""
        self._urgent: deque[bytes] = deque()
        self._bulk: deque[bytes] = deque()
        self._current = memoryview(b"")
        self.urgent_bytes = 0
        self.blocked = False

    def fileno(self) -> int:
        """The socket's descriptor, for a selector; -1 after close."""
        return self._stream.fileno()

    @property
    def interest(self) -> int:
        """Events of `selectors` to wait for."""
        return self._stream.receive_on | (self._stream.send_on if self.blocked else 0)

    def woken(self, events: int) -> bool:
        """Take in what the selector reports; whether to receive."""
        if events & self._stream.send_on:
            self.blocked = False
        return bool(events & self._stream.receive_on)

    @property
    def sending(self) -> bool:
        """Whether anything waits to be sent."""
        return bool(self._current or self._urgent or self._bulk)

    def queue(self, data: bytes) -> None:
        """Queue whole messages behind everything else."""
        self._bulk.append(data)

    def queue_urgent(self, data: bytes) -> None:
        """Queue whole messages before bulk that is not yet under way."""
        self._urgent.append(data)
        self.urgent_bytes += len(data)

    def send(self) -> None:
        """Send what the socket takes, a bounded amount; sets ``blocked``. Raises ChannelError."""
        sent = 0
        while sent < _SEND_PER_TURN:
            if not self._current:
                self._current = memoryview(self._gather())
                if not self._current:
                    break
            try:
                count = self._stream.send(self._current)
            except StreamError as error:
                raise ChannelError(str(error)) from error
            if not count:
                self.blocked = True
                return
            self._current = self._current[count:]
            sent += count
        self.blocked = False

    def _gather(self) -> bytes:
        parts: list[bytes] = []
        size = 0
        for queue in (self._urgent, self._bulk):
            while queue and size < _GATHER:
                parts.append(queue.popleft())
                size += len(parts[-1])
        if not self._urgent:
            self.urgent_bytes = 0
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def receive(self) -> list[Message]:
        """The messages that are complete after one read. Raises ChannelError at the end of the stream."""
        try:
            data = self._stream.receive(_RECEIVE)
        except StreamError as error:
            raise ChannelError(str(error)) from error
        if data is None:
            return []
        if not data:
            raise ChannelError("closed by the bridge")
        if self._pending:
            data = self._pending + data
        messages: list[Message] = []
        offset, end = 0, len(data)
        while end - offset >= _HEADER.size:
            version, kind, size, xid = _HEADER.unpack_from(data, offset)
            if size < _HEADER.size or not 1 <= version <= _NEWEST_VERSION:
                raise ChannelError(f"a message of version {version} and {size} bytes, which is no OpenFlow")
            if end - offset < size:
                break
            messages.append(Message(version, kind, xid, data[offset + _HEADER.size : offset + size]))
            offset += size
        self._pending = data[offset:]
        return messages

    def close(self) -> None:
        """Close the socket; again is harmless."""
        self._stream.close()
