"""Ethernet, IPv4 and UDP around a DHCP message (RFC 894, 791, 768)."""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct

BROADCAST_ADDRESS = b"\xff\xff\xff\xff"
BROADCAST_MAC = b"\xff\xff\xff\xff\xff\xff"
SERVER_PORT = 67
CLIENT_PORT = 68
IP_UDP_SIZE = 28
"""Bytes of the IPv4 and UDP headers of a reply (no IP options)."""

_ETHERTYPE_IPV4 = b"\x08\x00"
_ETHERTYPE_VLAN = b"\x81\x00"
_UDP = 17
_TTL = 64
_DONT_FRAGMENT = 0x4000
_MORE_OR_OFFSET = 0x3FFF
_IP_HEADER = Struct(">BBHHHBBH4s4s")
_UDP_HEADER = Struct(">HHHH")
_PSEUDO_HEADER = Struct(">4s4sHH")


@dataclass(frozen=True, slots=True)
class Datagram:
    """A UDP datagram that came to the DHCP server port. MAC 6 bytes, addresses 4 bytes."""

    source_mac: bytes
    source: bytes
    destination: bytes
    payload: bytes


def decode(frame: bytes) -> Datagram | None:
    """The datagram in a guest's Ethernet frame, or None if it is not a whole, sound one for UDP port 67.

    A priority tag (VLAN id 0, IEEE 802.1Q) is passed over; a frame tagged with a VLAN id belongs to another network.
    Fragments are not reassembled. Bytes behind the IPv4 datagram are Ethernet padding.
    """
    start = 14
    if frame[12:14] == _ETHERTYPE_VLAN:
        if len(frame) < 18 or (frame[14] & 0x0F or frame[15]):
            return None
        start = 18
    if frame[start - 2 : start] != _ETHERTYPE_IPV4 or len(frame) < start + IP_UDP_SIZE:
        return None
    version, _, total, _, fragment, _, protocol, _, source, destination = _IP_HEADER.unpack_from(frame, start)
    header_size = (version & 0x0F) * 4
    if version >> 4 != 4 or header_size < 20 or protocol != _UDP or fragment & _MORE_OR_OFFSET:
        return None
    udp_start, end = start + header_size, start + total
    if end > len(frame) or udp_start + 8 > end:
        return None
    _, port, udp_size, checksum = _UDP_HEADER.unpack_from(frame, udp_start)
    if port != SERVER_PORT or udp_size < 8 or udp_start + udp_size > end:
        return None
    if _sum(frame[start:udp_start]):
        return None
    udp = frame[udp_start : udp_start + udp_size]
    if checksum and not _udp_checksum_holds(_PSEUDO_HEADER.pack(source, destination, _UDP, udp_size), udp, checksum):
        return None
    return Datagram(frame[6:12], source, destination, udp[8:])


def encode(
    source_mac: bytes, destination_mac: bytes, source: bytes, destination: bytes, port: int, payload: bytes
) -> bytes:
    """An Ethernet frame with `payload` in a UDP datagram from the server port to `port`, checksums filled in."""
    size = 8 + len(payload)
    pseudo = _PSEUDO_HEADER.pack(source, destination, _UDP, size)
    # 0xffff less the sum is never 0 here, which in UDP would mean "no checksum" (RFC 768).
    checksum = 0xFFFF - _sum(pseudo + _UDP_HEADER.pack(SERVER_PORT, port, size, 0) + payload)
    total = 20 + size
    # Identification 0 is right for a datagram that is never fragmented (RFC 6864 section 4.1).
    header = _IP_HEADER.pack(0x45, 0, total, 0, _DONT_FRAGMENT, _TTL, _UDP, 0, source, destination)
    header = header[:10] + ((0xFFFF - _sum(header)) % 0xFFFF).to_bytes(2, "big") + header[12:]
    return b"".join(
        (
            destination_mac,
            source_mac,
            _ETHERTYPE_IPV4,
            header,
            _UDP_HEADER.pack(SERVER_PORT, port, size, checksum),
            payload,
        )
    )


def _sum(data: bytes) -> int:
    """The ones' complement sum of 16-bit words (RFC 1071), as 0..0xfffe: 0 stands for 0xffff too.

    2**16 is 1 modulo 65535, so the remainder of the whole as one number is the sum of its words.
    """
    if len(data) % 2:
        data += b"\0"
    return int.from_bytes(data, "big") % 0xFFFF


def _udp_checksum_holds(pseudo: bytes, udp: bytes, checksum: int) -> bool:
    # A guest with checksum offload leaves the pseudo header's sum in the field for a network card to complete;
    # on a virtual port nobody does. Such frames are not damaged.
    return _sum(pseudo + udp) == 0 or checksum % 0xFFFF == _sum(pseudo)
