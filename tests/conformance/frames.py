"""Frames made by hand, and predicates for those that arrive."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable

from tests.lab.wire import ARP_IPV4, ETH_P_ARP, mac_bytes

BROADCAST = "ff:ff:ff:ff:ff:ff"
LOCAL_EXPERIMENT = 0x88B5
"""An EtherType for private use (IEEE 802, clause 9)."""

Match = Callable[[bytes], bool]


def ethernet(to_mac: str, from_mac: str, ethertype: int, body: bytes) -> bytes:
    """A frame, padded to the least length."""
    return (mac_bytes(to_mac) + mac_bytes(from_mac) + struct.pack("!H", ethertype) + body).ljust(60, b"\0")


def udp_frame(
    to_mac: str, from_mac: str, from_ip: str, to_ip: str, body: bytes, *, ttl: int = 64, port: int = 9, df: bool = False
) -> bytes:
    """UDP over IPv4 (no UDP checksum) from and to `port`."""
    udp = struct.pack("!HHHH", port, port, 8 + len(body), 0) + body
    packet = ip_packet(from_ip, to_ip, socket.IPPROTO_UDP, udp, ttl=ttl, flags=0x4000 if df else 0)
    return ethernet(to_mac, from_mac, 0x0800, packet)


def fragments(
    to_mac: str, from_mac: str, from_ip: str, to_ip: str, body: bytes, *, identification: int, port: int = 9
) -> tuple[bytes, bytes]:
    """A UDP datagram (RFC 791, 3.2) in two frames; the first ends in the middle of the body, at a multiple of 8."""
    udp = struct.pack("!HHHH", port, port, 8 + len(body), 0) + body
    cut = len(udp) // 16 * 8
    parts = ((udp[:cut], 0x2000), (udp[cut:], cut // 8))
    first, last = (
        ethernet(
            *(to_mac, from_mac, 0x0800),
            ip_packet(from_ip, to_ip, socket.IPPROTO_UDP, part, flags=flags, identification=identification),
        )
        for part, flags in parts
    )
    return first, last


def echo_request(to_mac: str, from_mac: str, from_ip: str, to_ip: str) -> bytes:
    """A ping (RFC 792)."""
    body = b"\x08\x00" + bytes(2) + b"\x00\x07\x00\x01" + b"are you there?!!"
    body = body[:2] + checksum(body) + body[4:]
    return ethernet(to_mac, from_mac, 0x0800, ip_packet(from_ip, to_ip, socket.IPPROTO_ICMP, body))


def ip_packet(
    from_ip: str, to_ip: str, protocol: int, body: bytes, *, ttl: int = 64, flags: int = 0, identification: int = 0
) -> bytes:
    """IPv4; `flags` is the 16-bit word of flags and fragment offset."""
    source, target = socket.inet_aton(from_ip), socket.inet_aton(to_ip)
    head = struct.pack(
        "!BBHHHBBH4s4s", 0x45, 0, 20 + len(body), identification, flags, ttl, protocol, 0, source, target
    )
    return head[:10] + checksum(head) + head[12:] + body


def checksum(data: bytes) -> bytes:
    """RFC 1071, of data of even length."""
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    total = (total & 0xFFFF) + (total >> 16)
    total = (total & 0xFFFF) + (total >> 16)
    return struct.pack("!H", ~total & 0xFFFF)


def arp_frame(
    operation: int,
    sender: tuple[str, str],
    target: tuple[str, str],
    *,
    to_mac: str = BROADCAST,
    from_mac: str = "",
) -> bytes:
    """ARP (RFC 826); `sender` and `target` are (MAC, IP); `from_mac` is the frame's source if not the sender."""
    body = ARP_IPV4.pack(
        *(1, 0x0800, 6, 4, operation),
        *(mac_bytes(sender[0]), socket.inet_aton(sender[1]), mac_bytes(target[0]), socket.inet_aton(target[1])),
    )
    return ethernet(to_mac, from_mac or sender[0], ETH_P_ARP, body)


def gratuitous(mac: str, ip: str, operation: int = 1) -> bytes:
    """A gratuitous ARP (RFC 5227): "I have this address"."""
    return arp_frame(operation, (mac, ip), ("00:00:00:00:00:00" if operation == 1 else BROADCAST, ip))


def tagged(frame: bytes, vlan: int) -> bytes:
    """The frame with an 802.1Q tag."""
    return frame[:12] + struct.pack("!HH", 0x8100, vlan) + frame[12:]


def has(text: bytes) -> Match:
    """Frames with these bytes in them."""
    return lambda frame: text in frame


def is_arp(frame: bytes) -> bool:
    return frame[12:14] == b"\x08\x06"
