"""Netlink messages (linux/netlink.h): headers, attributes, acknowledgements.

All pure. Integers are in host order but where the kernel wants them otherwise (nftables: network order).
"""

from __future__ import annotations

import errno
import os
import struct
import sys
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

REQUEST, ACK, DUMP = 0x1, 0x4, 0x300
EXCL, CREATE, APPEND, REPLACE = 0x200, 0x400, 0x800, 0x100
ERROR, DONE = 2, 3
CAPPED, ACK_TLVS = 0x100, 0x200
NESTED = 0x8000
_TYPE_MASK = 0x3FFF
_EXTACK_MESSAGE = 1

_HEADER = struct.Struct("=IHHII")
_ATTRIBUTE = struct.Struct("=HH")
_ORDER: Final = sys.byteorder
_PADDING = (b"", b"\0\0\0", b"\0\0", b"\0")


_WORDS: Final = {errno.EXFULL: "the bridge has as many ports as it can have (1023)"}
"""Where the kernel's own words say nothing (net/bridge/br_if.c, find_portno)."""


class KernelError(Exception):
    """The kernel refused a request: `code` is the errno, the message what the kernel said and about what."""

    def __init__(self, code: int, text: str, about: str = "") -> None:
        said = text or _WORDS.get(code) or os.strerror(code)
        super().__init__(f"{about}: {said}" if about else said)
        self.code = code


class Request(NamedTuple):
    """A message without its sequence number, and what it is about in words for people."""

    kind: int
    flags: int
    body: bytes
    about: str = ""
    forgiven: tuple[int, ...] = ()
    """Error numbers that are as good as success (what is to be deleted is gone already...)."""


class Message(NamedTuple):
    kind: int
    flags: int
    sequence: int
    body: bytes


def attribute(kind: int, value: bytes) -> bytes:
    size = len(value)
    return _ATTRIBUTE.pack(size + 4, kind) + value + _PADDING[size & 3]


def nested(kind: int, *parts: bytes) -> bytes:
    return attribute(kind | NESTED, b"".join(parts))


def text(kind: int, value: str) -> bytes:
    return attribute(kind, value.encode() + b"\0")


def u8(kind: int, value: int) -> bytes:
    return attribute(kind, bytes((value,)))


def u32(kind: int, value: int) -> bytes:
    return attribute(kind, value.to_bytes(4, _ORDER))


def be32(kind: int, value: int) -> bytes:
    return attribute(kind, (value & 0xFFFFFFFF).to_bytes(4, "big"))


def encode(request: Request, sequence: int) -> bytes:
    body = request.body
    return _HEADER.pack(16 + len(body), request.kind, request.flags | REQUEST, sequence, 0) + body


def encode_alike(kind: int, flags: int, bodies: Sequence[bytes], first: int) -> list[bytes]:
    """encode() of requests whose bodies are of one length, numbered from `first`."""
    before = _HEADER.pack(16 + len(bodies[0]), kind, flags | REQUEST, 0, 0)[:8]
    number = struct.Struct("=II").pack
    return [before + number(n, 0) + body for n, body in enumerate(bodies, first)]


def messages(data: bytes) -> Iterator[Message]:
    """The messages of one datagram."""
    offset = 0
    while offset + 16 <= len(data):
        length, kind, flags, sequence, _ = _HEADER.unpack_from(data, offset)
        if length < 16:
            return
        yield Message(kind, flags, sequence, data[offset + 16 : offset + length])
        offset += (length + 3) & ~3


def attributes(data: bytes, offset: int = 0) -> dict[int, bytes]:
    """Attribute values by type; of several of one type the last."""
    found: dict[int, bytes] = {}
    while offset + 4 <= len(data):
        length, kind = _ATTRIBUTE.unpack_from(data, offset)
        if length < 4:
            break
        found[kind & _TYPE_MASK] = data[offset + 4 : offset + length]
        offset += (length + 3) & ~3
    return found


def answer_of(message: Message) -> tuple[int, str]:
    """(errno, the kernel's text) of an NLMSG_ERROR; errno 0: acknowledged. The text may be empty."""
    (code,) = struct.unpack_from("=i", message.body)
    if not message.flags & ACK_TLVS:
        return -code, ""
    (length,) = struct.unpack_from("=I", message.body, 4)
    start = 4 + (16 if message.flags & CAPPED else (length + 3) & ~3)
    said = attributes(message.body, start).get(_EXTACK_MESSAGE, b"")
    return -code, said.rstrip(b"\0").decode(errors="replace")


def chars(value: bytes) -> str:
    return value.rstrip(b"\0").decode(errors="replace")
