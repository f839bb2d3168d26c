"""ICMP errors that a gateway owes its guests. Pure: the offending frame in, the answer out.

RFC 792 (messages), RFC 1122 3.2.2 and RFC 1812 4.3.2.7 (when not to send), RFC 1191 (next-hop MTU).
"""

from __future__ import annotations

import enum
import struct

from dataplane.ovs import ipv4

_ICMP = 1
_QUERIES = frozenset({0, 8, 13, 14})
_TTL = 64
_QUOTED = 548
"""Bytes of the offending packet in the answer: as many as keep it within 576 (RFC 1812 4.3.2.3)."""


class IcmpError(enum.Enum):
    """(type, code)."""

    TIME_EXCEEDED = (11, 0)
    NET_UNREACHABLE = (3, 0)
    FRAGMENTATION_NEEDED = (3, 4)


def icmp_error(
    frame: bytes, error: IcmpError, guest_mac: bytes, gateway_mac: bytes, gateway_address: bytes, mtu: int
) -> bytes | None:
    """The Ethernet frame that tells the sender of `frame` (untagged IPv4) about the error.

    None if none must be sent: about ICMP errors, later fragments, group addresses, packets that may be fragmented
    (for FRAGMENTATION_NEEDED), or what does not parse. `mtu` is in bytes.
    """
    packet = ipv4.parse(frame)
    if packet is None or packet.flags & ipv4.OFFSET or len(packet.payload) < 8:
        return None
    if frame[0] & 1 or not _is_host(packet.source) or not _is_host(packet.target):
        return None
    if packet.protocol == _ICMP and packet.payload[0] not in _QUERIES:
        return None
    if error is IcmpError.FRAGMENTATION_NEEDED and not packet.flags & ipv4.DONT_FRAGMENT:
        return None
    icmp_type, code = error.value
    next_mtu = mtu if error is IcmpError.FRAGMENTATION_NEEDED else 0
    quoted = (packet.header + packet.payload)[:_QUOTED]
    body = ipv4.with_checksum(struct.pack("!BBHHH", icmp_type, code, 0, 0, next_mtu) + quoted, at=2)
    length = 20 + len(body)
    head = struct.pack("!BBHHHBBH4s4s", 0x45, 0xC0, length, 0, 0, _TTL, _ICMP, 0, gateway_address, packet.source)
    return guest_mac + gateway_mac + b"\x08\x00" + ipv4.with_checksum(head, at=10) + body


def _is_host(address: bytes) -> bool:
    return 0 < address[0] < 224 and address[0] != 127
