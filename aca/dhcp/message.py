"""The BOOTP/DHCP message: fixed fields and options, both ways (RFC 2131 section 2, RFC 2132, RFC 3396)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from struct import Struct

MAGIC_COOKIE = b"\x63\x82\x53\x63"
FIXED_SIZE = 240
"""Bytes in front of the first option, magic cookie included."""
MINIMUM_SIZE = 300
"""BOOTP messages are never shorter (RFC 951; RFC 1542 section 2.1)."""
BROADCAST_FLAG = 0x8000
NO_ADDRESS = b"\0\0\0\0"

_PAD, _END = 0, 255
_BOOT_REQUEST, _BOOT_REPLY = 1, 2
_ETHERNET = 1
_MAC_SIZE = 6
_FIXED = Struct(">BBBB4sHH4s4s4s4s16s64s128s4s")
_SNAME = (44, 108)
_FILE = (108, 236)


class Option(IntEnum):
    """Numbers of the options that the protocol itself needs (RFC 2132 unless said otherwise)."""

    SUBNET_MASK = 1
    ROUTER = 3
    DNS = 6
    HOST_NAME = 12
    DOMAIN = 15
    MTU = 26
    BROADCAST = 28
    REQUESTED_ADDRESS = 50
    LEASE_TIME = 51
    OVERLOAD = 52
    MESSAGE_TYPE = 53
    SERVER_ID = 54
    PARAMETER_REQUEST = 55
    MESSAGE = 56
    MAXIMUM_SIZE = 57
    RENEWAL_TIME = 58
    REBINDING_TIME = 59
    CLIENT_ID = 61
    TFTP_SERVER = 66
    BOOT_FILE = 67
    RELAY_AGENT = 82  # RFC 3046
    IPV6_ONLY = 108  # RFC 8925
    CLASSLESS_ROUTES = 121  # RFC 3442
    TFTP_ADDRESS = 150  # RFC 5859
    MS_CLASSLESS_ROUTES = 249  # the same as 121, from before it had a number


class MessageType(IntEnum):
    """Values of option 53 that the responder handles."""

    DISCOVER = 1
    OFFER = 2
    REQUEST = 3
    ACK = 5
    NAK = 6
    INFORM = 8


@dataclass(frozen=True, slots=True)
class Message:
    """A client's message. `xid` and addresses are 4 bytes, `chaddr` 16, `options` the joined bytes by number."""

    xid: bytes
    flags: int
    ciaddr: bytes
    giaddr: bytes
    chaddr: bytes
    options: Mapping[int, bytes]

    @property
    def mac(self) -> bytes:
        return self.chaddr[:_MAC_SIZE]


@dataclass(frozen=True, slots=True)
class ReplyFields:
    """The fixed fields of a reply that are not an echo. Addresses are 4 bytes; sname < 64, file < 128 bytes."""

    flags: int
    ciaddr: bytes = NO_ADDRESS
    yiaddr: bytes = NO_ADDRESS
    siaddr: bytes = NO_ADDRESS
    sname: bytes = b""
    file: bytes = b""


def decode(payload: bytes) -> Message | None:
    """The request of an Ethernet client in a UDP payload, or None if it is something else or malformed.

    A message with one truncated option is refused as a whole: without, say, its server identifier a REQUEST would
    mean something else. A missing end option is forgiven, padding is not needed.
    """
    if len(payload) < FIXED_SIZE:
        return None
    (op, htype, hlen, _, xid, _, flags, ciaddr, _, _, giaddr, chaddr, _, _, cookie) = _FIXED.unpack_from(payload)
    if op != _BOOT_REQUEST or htype != _ETHERNET or hlen != _MAC_SIZE or cookie != MAGIC_COOKIE:
        return None
    options: dict[int, bytes] = {}
    if not _collect(payload, FIXED_SIZE, len(payload), options):
        return None
    overload = options.get(Option.OVERLOAD)
    if overload is not None:
        # The order of the areas matters for an option split over them (RFC 3396 section 5).
        areas = {b"\x01": (_FILE,), b"\x02": (_SNAME,), b"\x03": (_FILE, _SNAME)}.get(overload)
        if areas is None or not all(_collect(payload, start, end, options) for start, end in areas):
            return None
    return Message(xid, flags, ciaddr, giaddr, chaddr, options)


def encode(request: Message, fields: ReplyFields, options: bytes) -> bytes:
    """A BOOTREPLY to `request`, `options` (already encoded, no end) behind it, padded to the BOOTP minimum.

    hops and secs are 0, the rest is an echo or from `fields` (RFC 2131 table 3).
    """
    fixed = _FIXED.pack(
        _BOOT_REPLY,
        _ETHERNET,
        _MAC_SIZE,
        0,
        request.xid,
        0,
        fields.flags,
        fields.ciaddr,
        fields.yiaddr,
        fields.siaddr,
        request.giaddr,
        request.chaddr,
        fields.sname,
        fields.file,
        MAGIC_COOKIE,
    )
    return (fixed + options + b"\xff").ljust(MINIMUM_SIZE, b"\0")


def encode_option(code: int, value: bytes) -> bytes:
    """One option; a value longer than 255 bytes becomes several with the same number (RFC 3396 section 7)."""
    size = len(value)
    if size <= 255:
        return bytes((code, size)) + value
    return b"".join(bytes((code, min(255, size - start))) + value[start : start + 255] for start in range(0, size, 255))


def _collect(data: bytes, position: int, end: int, options: dict[int, bytes]) -> bool:
    """Add the options in data[position:end]; equal numbers are joined (RFC 3396). False if one is cut off."""
    while position < end:
        code = data[position]
        if code == _END:
            return True
        if code == _PAD:
            position += 1
            continue
        value_start = position + 2
        if value_start > end:
            return False
        position = value_start + data[position + 1]
        if position > end:
            return False
        value = data[value_start:position]
        earlier = options.get(code)
        options[code] = value if earlier is None else earlier + value
    return True
