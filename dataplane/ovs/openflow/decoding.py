"""OpenFlow 1.4 messages we receive, from their bodies.

Every decoder takes any bytes and returns a value or raises ``DecodeError``; none reads past what it was given.
"""

from __future__ import annotations

import builtins
import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from dataplane.ovs.openflow import oxm
from dataplane.ovs.openflow.actions import NICIRA
from dataplane.ovs.openflow.errors import DecodeError, OpenFlowError

_HELLO_BITMAP: Final = 1
_PACKET_IN2: Final = 30
_MORE: Final = 1
_VENDOR_ERROR: Final = 0xFFFF

_ERROR = struct.Struct("!HH")
_PROPERTY = struct.Struct("!HH")
_PACKET_IN = struct.Struct("!IHBBQ")
_MATCH_HEAD = struct.Struct("!HH")
_VENDOR_HEAD = struct.Struct("!II")
_MULTIPART = struct.Struct("!HH4x")
_BUNDLE_CONTROL = struct.Struct("!IHH")
_FLOW = struct.Struct("!HBxIIHHHHHxxQQQHH")
_AGGREGATE = struct.Struct("!QQI4x")
_FLOW_BEFORE_MATCH: Final = 48
_UPDATE = struct.Struct("!HH")
_UPDATE_COOKIE = struct.Struct("!Q")
_FULL_UPDATES: Final = frozenset({0, 1, 2, 3})
_UPDATES_PAUSED: Final = 5

_OXM_IN_PORT: Final = 0x80000004
_OXM_TUNNEL_ID: Final = 0x80004C08


# The values below are tuples, not dataclasses, since they are made by the hundred thousand.
class PacketIn(NamedTuple):
    """A packet the bridge punted to us.

    ``in_port`` is an OpenFlow port number, ``tunnel_id`` the key it came with (0: none), ``registers`` the 16
    registers at the time, ``userdata`` what the flow's controller action gave, ``data`` the frame.
    """

    reason: int
    table: int
    cookie: int
    userdata: bytes
    in_port: int
    metadata: int
    tunnel_id: int
    registers: tuple[int, ...]
    data: bytes


class FlowStat(NamedTuple):
    """A flow as the bridge reports it: ``match`` and ``instructions`` as bytes without padding."""

    table: int
    priority: int
    cookie: int
    match: builtins.bytes
    instructions: builtins.bytes
    packets: int
    bytes: int


class AggregateStats(NamedTuple):
    """Sums over a set of flows."""

    packets: int
    bytes: int
    flows: int


class FlowUpdates(NamedTuple):
    """Cookies of flows that were changed; `incomplete` if the bridge could not keep up and left some out for now."""

    cookies: list[int]
    incomplete: bool


class BundleReply(NamedTuple):
    """An answer to a bundle control message; ``control`` is OFPBCT_*_REPLY."""

    bundle_id: int
    control: int


class MultipartPart(NamedTuple):
    """One part of a multipart reply; ``more`` says that others follow."""

    kind: int
    more: bool
    payload: bytes


_NO_REGISTERS: Final = (0,) * 16


def decode_hello(version: int, body: bytes) -> frozenset[int]:
    """The versions a HELLO offers: those of its bitmap, else all up to the header's (7.5.1)."""
    offset = 0
    while len(body) - offset >= _PROPERTY.size:
        kind, size = _PROPERTY.unpack_from(body, offset)
        if size < _PROPERTY.size or size > len(body) - offset:
            raise DecodeError("hello element of a wrong length")
        if kind == _HELLO_BITMAP:
            words = body[offset + 4 : offset + size]
            if len(words) % 4:
                raise DecodeError("version bitmap of a wrong length")
            return frozenset(
                word * 32 + bit
                for word in range(len(words) // 4)
                for bit in range(32)
                if int.from_bytes(words[4 * word : 4 * word + 4], "big") >> bit & 1
            )
        offset += (size + 7) & ~7
    return frozenset(range(1, version + 1))


def decode_error(xid: int, body: bytes) -> OpenFlowError:
    """A refusal; ``xid`` is that of the message's header, which is the refused message's (7.5.4)."""
    if len(body) < _ERROR.size:
        raise DecodeError("error message too short")
    kind, code = _ERROR.unpack_from(body)
    # An experimenter error has a vendor id before the data.
    return OpenFlowError(kind, code, xid, body[8 if kind == _VENDOR_ERROR else 4 :])


def decode_packet_in(body: bytes) -> PacketIn:
    """OFPT_PACKET_IN (7.4.1)."""
    if len(body) < _PACKET_IN.size + 4:
        raise DecodeError("packet-in too short")
    _buffer, _total, reason, table, cookie = _PACKET_IN.unpack_from(body)
    kind, size = _MATCH_HEAD.unpack_from(body, _PACKET_IN.size)
    start = _PACKET_IN.size + ((size + 7) & ~7) + 2
    if kind != 1 or size < 4 or start > len(body):
        raise DecodeError("packet-in with a wrong match")
    fields = _packet_fields(body[_PACKET_IN.size + 4 : _PACKET_IN.size + size])
    return PacketIn(reason, table, cookie, b"", *fields, body[start:])


def decode_nicira_packet_in(body: bytes) -> PacketIn | None:
    """NXT_PACKET_IN2 from the body of an experimenter message; None if it is another experimenter message."""
    if len(body) < _VENDOR_HEAD.size:
        raise DecodeError("experimenter message too short")
    if _VENDOR_HEAD.unpack_from(body) != (NICIRA, _PACKET_IN2):
        return None
    reason = table = cookie = 0
    userdata = data = fields = b""
    for kind, value in _properties(body, _VENDOR_HEAD.size):
        if kind == 0:
            data = value
        elif kind == 3:
            table = _first_byte(value)
        elif kind == 4:
            cookie = _last_eight(value)
        elif kind == 5:
            reason = _first_byte(value)
        elif kind == 6:
            fields = value
        elif kind == 7:
            userdata = value
    return PacketIn(reason, table, cookie, userdata, *_packet_fields(fields), data)


def _properties(body: bytes, offset: int) -> Iterator[tuple[int, bytes]]:
    end = len(body)
    while offset < end:
        if end - offset < _PROPERTY.size:
            raise DecodeError("stray bytes after the last property")
        kind, size = _PROPERTY.unpack_from(body, offset)
        if size < _PROPERTY.size or size > end - offset:
            raise DecodeError(f"property {kind} of a wrong length")
        yield kind, body[offset + 4 : offset + size]
        offset += (size + 7) & ~7


def _first_byte(value: bytes) -> int:
    if not value:
        raise DecodeError("empty property")
    return value[0]


def _last_eight(value: bytes) -> int:
    # 64 bit properties have 4 bytes of padding between head and value.
    if len(value) != 12:
        raise DecodeError("64 bit property of a wrong length")
    return int.from_bytes(value[4:], "big")


def _packet_fields(match: bytes) -> tuple[int, int, int, tuple[int, ...]]:
    """(in port, metadata, tunnel id, registers) of a packet's pipeline fields."""
    in_port = metadata = tunnel_id = 0
    registers: tuple[int, ...] = _NO_REGISTERS
    for header, value, _mask in oxm.split(match):
        if header == _OXM_IN_PORT or header == oxm.IN_PORT.header:
            in_port = int.from_bytes(value, "big")
        elif header == oxm.METADATA.header:
            metadata = int.from_bytes(value, "big")
        elif header == _OXM_TUNNEL_ID or header == oxm.TUN_ID.header:
            tunnel_id = int.from_bytes(value, "big")
        else:
            first = oxm.first_register(header)
            if first is not None:
                words = [int.from_bytes(value[i : i + 4], "big") for i in range(0, len(value), 4)]
                registers = registers[:first] + tuple(words) + registers[first + len(words) :]
    return in_port, metadata, tunnel_id, registers


def decode_bundle_reply(body: bytes) -> BundleReply:
    """OFPT_BUNDLE_CONTROL as an answer (7.3.9.1)."""
    if len(body) < _BUNDLE_CONTROL.size:
        raise DecodeError("bundle control too short")
    bundle_id, control, _flags = _BUNDLE_CONTROL.unpack_from(body)
    return BundleReply(bundle_id, control)


def decode_multipart(body: bytes) -> MultipartPart:
    """One part of a multipart reply (7.3.5)."""
    if len(body) < _MULTIPART.size:
        raise DecodeError("multipart reply too short")
    kind, flags = _MULTIPART.unpack_from(body)
    return MultipartPart(kind, bool(flags & _MORE), body[_MULTIPART.size :])


def decode_flow_stats(payload: bytes) -> Iterator[FlowStat]:
    """The flows in a part of an OFPMP_FLOW reply (7.3.5.2)."""
    unpack = _FLOW.unpack_from
    offset, end = 0, len(payload)
    while offset < end:
        if end - offset < _FLOW.size:
            raise DecodeError("flow entry too short")
        size, table, _s, _ns, priority, _i, _h, _f, _imp, cookie, packets, octets, kind, match_size = unpack(
            payload, offset
        )
        match_end = offset + _FLOW_BEFORE_MATCH + match_size
        start = offset + _FLOW_BEFORE_MATCH + ((match_size + 7) & ~7)
        stop = offset + size
        if kind != 1 or match_size < 4 or start > stop or stop > end:
            raise DecodeError("flow entry with a wrong length")
        match = payload[offset + _FLOW_BEFORE_MATCH + 4 : match_end]
        yield FlowStat(table, priority, cookie, match, payload[start:stop], packets, octets)
        offset = stop


def decode_aggregate(payload: bytes) -> AggregateStats:
    """The payload of an OFPMP_AGGREGATE reply (7.3.5.3)."""
    if len(payload) < _AGGREGATE.size:
        raise DecodeError("aggregate reply too short")
    return AggregateStats(*_AGGREGATE.unpack_from(payload))


def decode_flow_updates(payload: bytes) -> FlowUpdates:
    """The updates in a part of an OFPMP_FLOW_MONITOR reply (7.3.5.17.2)."""
    cookies: list[int] = []
    incomplete = False
    offset, end = 0, len(payload)
    while offset < end:
        if end - offset < _UPDATE.size:
            raise DecodeError("flow update too short")
        size, event = _UPDATE.unpack_from(payload, offset)
        if size < 8 or size > end - offset:
            raise DecodeError("flow update of a wrong length")
        if event in _FULL_UPDATES:
            if size < 24:
                raise DecodeError("flow update without a cookie")
            cookies.append(_UPDATE_COOKIE.unpack_from(payload, offset + 16)[0])
        elif event == _UPDATES_PAUSED:
            incomplete = True
        offset += size
    return FlowUpdates(cookies, incomplete)
