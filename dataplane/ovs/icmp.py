"""ICMP errors that a gateway owes its guests. Pure: the offending frame in, the answer out.

RFC 792 (messages), RFC 1122 3.2.2 and RFC 1812 4.3.2.7 (when not to send), RFC 1191 (next-hop MTU).
"""

from __future__ import annotations

import enum
import struct

_ETHERNET = 14
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


def icmp_error(frame: bytes, error: IcmpError, gateway_mac: bytes, gateway_address: bytes, mtu: int) -> bytes | None:
    """The Ethernet frame that tells the sender of `frame` (untagged IPv4) about the error.

    None if none must be sent: about ICMP errors, later fragments, group addresses, packets that may be fragmented
    (for FRAGMENTATION_NEEDED), or what does not parse. `mtu` is in bytes.
    """
    received = frame[_ETHERNET:]
    if len(received) < 20 or frame[12:14] != b"\x08\x00" or received[0] >> 4 != 4:
        return None
    length = int.from_bytes(received[2:4], "big")
    if length > len(received):
        return None
    # What follows is Ethernet's padding.
    packet = received[:length]
    header_length = (received[0] & 0xF) * 4
    flags = int.from_bytes(packet[6:8], "big")
    source, target = packet[12:16], packet[16:20]
    if header_length < 20 or len(packet) < header_length + 8 or flags & 0x1FFF:
        return None
    if frame[0] & 1 or not _is_host(source) or not _is_host(target):
        return None
    if packet[9] == _ICMP and packet[header_length] not in _QUERIES:
        return None
    if error is IcmpError.FRAGMENTATION_NEEDED and not flags & 0x4000:
        return None
    icmp_type, code = error.value
    next_mtu = mtu if error is IcmpError.FRAGMENTATION_NEEDED else 0
    body = _with_checksum(struct.pack("!BBHHH", icmp_type, code, 0, 0, next_mtu) + packet[:_QUOTED], at=2)
    head = struct.pack("!BBHHHBBH4s4s", 0x45, 0xC0, 20 + len(body), 0, 0, _TTL, _ICMP, 0, gateway_address, source)
    return frame[6:12] + gateway_mac + b"\x08\x00" + _with_checksum(head, at=10) + body


def _is_host(address: bytes) -> bool:
    return 0 < address[0] < 224 and address[0] != 127


def _with_checksum(data: bytes, *, at: int) -> bytes:
    """The data with its Internet checksum (RFC 1071) put in at an offset, where it has zeros now."""
    padded = data + b"\0" * (len(data) % 2)
    total: int = sum(struct.unpack(f"!{len(padded) // 2}H", padded))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return data[:at] + (~total & 0xFFFF).to_bytes(2, "big") + data[at + 2 :]
