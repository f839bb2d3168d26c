"""ONC RPC messages, version 2, without authentication (RFC 5531 sections 9 and 11). Pure functions."""

from __future__ import annotations

import struct
from typing import Final

from dataplane.mizar.errors import ACCEPT_STATES, ReplyError

_CALL: Final = struct.Struct(">9I")
_WORDS: Final = struct.Struct(">II")
_WORD: Final = struct.Struct(">I")
_ACCEPTED: Final = bytes((0, 0, 0, 1)) + bytes(16)
"""An accepted, successful reply behind its xid, with the null verifier."""
_VERIFIER_MOST: Final = 400
_LAST: Final = 0x80000000
MOST_IN_REPLY: Final = 64 << 10
"""Bytes. The longest answer, agent metadata with two full arrays, has 2.3 kB."""


def call_head(program: int, version: int, procedure: int) -> bytes:
    """What stands between the xid and the arguments of a call."""
    return _CALL.pack(0, 2, program, version, procedure, 0, 0, 0, 0)


def datagram(xid: int, body: bytes) -> bytes:
    """A call for UDP; `body` is the head and the arguments."""
    return _WORD.pack(xid) + body


def record(xid: int, body: bytes) -> bytes:
    """A call for TCP, as a record of one fragment."""
    return _WORDS.pack(_LAST | len(body) + 4, xid) + body


def xid_of(reply: bytes) -> int | None:
    """The xid of a message, or None if it is too short for one."""
    return _WORD.unpack_from(reply)[0] if len(reply) >= 4 else None


def results_of(name: str, reply: bytes) -> bytes:
    """The results of a reply to the procedure of this name. Raises ReplyError."""
    if reply[4:24] == _ACCEPTED:
        return reply[24:]
    try:
        return _results_of(name, reply)
    except struct.error:
        raise ReplyError(name, f"a reply of {len(reply)} bytes ends in its header") from None


def _results_of(name: str, reply: bytes) -> bytes:
    kind, state = _WORDS.unpack_from(reply, 4)
    if kind != 1:
        raise ReplyError(name, f"answered with a message of type {kind}")
    if state == 1:
        reason, detail = _WORDS.unpack_from(reply, 12)
        what = "version of RPC" if reason == 0 else "authentication"
        raise ReplyError(name, f"the call was denied for its {what} ({reason}, {detail})")
    if state != 0:
        raise ReplyError(name, f"a reply of state {state}")
    _, length = _WORDS.unpack_from(reply, 12)
    if length > _VERIFIER_MOST:
        raise ReplyError(name, f"a verifier of {length} bytes")
    place = 20 + length + (-length & 3)
    (accepted,) = _WORD.unpack_from(reply, place)
    if accepted != 0:
        raise ReplyError(name, ACCEPT_STATES.get(accepted, f"accept state {accepted}"), accepted)
    return reply[place + 4 :]


class Records:
    """The messages of a stream (RFC 5531 section 11). `feed` gives those that are whole."""

    def __init__(self) -> None:
        self._data = b""
        self._fragments = b""

    def feed(self, data: bytes) -> list[bytes]:
        """Raises ReplyError on a record that is too long to be an answer: the stream is lost then."""
        data = self._data + data if self._data else data
        found: list[bytes] = []
        offset, end = 0, len(data)
        while end - offset >= 4:
            (mark,) = _WORD.unpack_from(data, offset)
            length = mark & ~_LAST
            if length + len(self._fragments) > MOST_IN_REPLY:
                raise ReplyError("the daemon", f"sent a record of {length} bytes")
            if end - offset - 4 < length:
                break
            piece = data[offset + 4 : offset + 4 + length]
            offset += 4 + length
            if mark & _LAST:
                found.append(self._fragments + piece)
                self._fragments = b""
            else:
                self._fragments += piece
        self._data = data[offset:]
        return found
