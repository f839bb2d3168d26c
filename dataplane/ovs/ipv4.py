"""The little of IPv4 that answering and fragmenting packets needs. Pure."""

from __future__ import annotations

import struct
from typing import NamedTuple

ETHERNET = 14
DONT_FRAGMENT = 0x4000
MORE_FRAGMENTS = 0x2000
OFFSET = 0x1FFF
_COPIED = 0x80
_END, _NOP = 0, 1


class Packet(NamedTuple):
    """An untagged IPv4 frame taken apart; `header` with options, `flags` with the fragment offset (RFC 791 3.1)."""

    ethernet: bytes
    header: bytes
    payload: bytes
    flags: int
    protocol: int
    source: bytes
    target: bytes


def parse(frame: bytes) -> Packet | None:
    """None if the frame is no whole IPv4 packet. What follows the packet is Ethernet's padding and left out."""
    received = frame[ETHERNET:]
    if len(received) < 20 or frame[12:14] != b"\x08\x00" or received[0] >> 4 != 4:
        return None
    header_length, length = (received[0] & 0xF) * 4, int.from_bytes(received[2:4], "big")
    if header_length < 20 or not header_length <= length <= len(received):
        return None
    return Packet(
        frame[:ETHERNET],
        received[:header_length],
        received[header_length:length],
        int.from_bytes(received[6:8], "big"),
        received[9],
        received[12:16],
        received[16:20],
    )


def fragments(packet: Packet, mtu: int) -> list[bytes]:
    """The packet as frames whose IP packets are at most `mtu` bytes (RFC 791 3.2). Empty if it must not be fragmented.

    A packet that is a fragment itself is divided further.
    """
    if packet.flags & DONT_FRAGMENT:
        return []
    frames = []
    offset = 0
    while offset < len(packet.payload):
        header = packet.header if offset == 0 else _header_of_later(packet.header)
        room = (mtu - len(header)) // 8 * 8
        if room < 8:
            return []
        part = packet.payload[offset : offset + room]
        last = offset + len(part) == len(packet.payload)
        flags = (packet.flags & OFFSET) + offset // 8
        if not last or packet.flags & MORE_FRAGMENTS:
            flags |= MORE_FRAGMENTS
        head = header[:2] + struct.pack("!H", len(header) + len(part)) + header[4:6] + struct.pack("!H", flags)
        head += header[8:10] + b"\0\0" + header[12:]
        frames.append(packet.ethernet + with_checksum(head, at=10) + part)
        offset += len(part)
    return frames


def _header_of_later(header: bytes) -> bytes:
    """The header of the fragments behind the first: with the options that are to be copied."""
    options, kept, position = header[20:], b"", 0
    while position < len(options) and options[position] != _END:
        length = 1 if options[position] == _NOP else max(2, options[position + 1] if position + 1 < len(options) else 2)
        if options[position] & _COPIED:
            kept += options[position : position + length]
        position += length
    kept += bytes(-len(kept) % 4)
    return bytes([0x40 | (20 + len(kept)) // 4]) + header[1:20] + kept


def with_checksum(data: bytes, *, at: int) -> bytes:
    """The data with its Internet checksum (RFC 1071) put in at an offset, where it has zeros now."""
    padded = data + b"\0" * (len(data) % 2)
    total: int = sum(struct.unpack(f"!{len(padded) // 2}H", padded))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return data[:at] + (~total & 0xFFFF).to_bytes(2, "big") + data[at + 2 :]
