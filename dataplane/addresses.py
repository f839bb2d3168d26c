"""Addresses in their packed form.

Past decode every address is packed bytes in network order: a MAC is 6 bytes, an IPv4 address 4, an IPv6 address
16. Packed bytes are what the wire, the kernel and OpenFlow want, they hash and compare fast, and a million of
them fit in memory.
"""

from __future__ import annotations

import socket
from typing import NamedTuple


class AddressError(ValueError):
    """A text is not an address of the wanted form. The message names the text."""


class Prefix(NamedTuple):
    """A CIDR prefix: `address` (4 or 16 bytes, host bits zero) and `length` in bits."""

    address: bytes
    length: int

    def contains(self, address: bytes) -> bool:
        """True if `address` (same family) lies inside; False for another family."""
        size = len(self.address)
        if len(address) != size:
            return False
        shift = size * 8 - self.length
        return int.from_bytes(address, "big") >> shift == int.from_bytes(self.address, "big") >> shift

    @property
    def is_ipv4(self) -> bool:
        return len(self.address) == 4

    def __str__(self) -> str:
        return f"{format_address(self.address)}/{self.length}"


def parse_mac(text: str) -> bytes:
    """Parse a MAC in any common form (`aa:bb:..`, `AA-BB-..`, `aabb.ccdd.eeff`, 12 digits) to 6 bytes.

    Raises AddressError if the text has anything else in it.
    """
    digits = text
    if len(text) == 17:
        separator = text[2]
        if separator in ":-" and text[2::3] == separator * 5:
            digits = text.replace(separator, "")
    elif len(text) == 14 and text[4] == "." and text[9] == ".":
        digits = text.replace(".", "")
    if len(digits) == 12:
        try:
            # int() would also take signs, spaces and underscores.
            if digits.isalnum() and digits.isascii():
                return bytes.fromhex(digits)
        except ValueError:
            pass
    raise AddressError(f"{text!r} is not a MAC address")


def format_mac(mac: bytes) -> str:
    return mac.hex(":")


def parse_address(text: str) -> bytes:
    """Parse an IPv4 or IPv6 address to 4 or 16 bytes. Raises AddressError."""
    try:
        if ":" in text:
            return socket.inet_pton(socket.AF_INET6, text)
        return socket.inet_pton(socket.AF_INET, text)
    except (OSError, ValueError):
        raise AddressError(f"{text!r} is not an IP address") from None


def format_address(address: bytes) -> str:
    return socket.inet_ntop(socket.AF_INET if len(address) == 4 else socket.AF_INET6, address)


def parse_prefix(text: str) -> Prefix:
    """Parse `ADDRESS/LENGTH`, or a bare address as a host prefix; host bits are cleared. Raises AddressError."""
    head, slash, tail = text.partition("/")
    address = parse_address(head)
    bits = len(address) * 8
    length = bits
    if slash:
        if not (tail.isascii() and tail.isdigit() and len(tail) <= 3 and int(tail) <= bits):
            raise AddressError(f"{text!r} has no valid prefix length")
        length = int(tail)
    mask = ((1 << length) - 1) << (bits - length)
    return Prefix((int.from_bytes(address, "big") & mask).to_bytes(bits // 8, "big"), length)


def host_prefix(address: bytes) -> Prefix:
    """The prefix that holds this one address."""
    return Prefix(address, len(address) * 8)


def is_unicast_mac(mac: bytes) -> bool:
    """True for a MAC that one interface may own: the group bit is clear and not all bits are zero."""
    return not mac[0] & 1 and any(mac)


def is_unicast_address(address: bytes) -> bool:
    """True for an address that one host may own (not unspecified, multicast, broadcast or loopback)."""
    if len(address) == 4:
        return 0 < address[0] < 224 and address[0] != 127
    return address[0] != 0xFF and address != bytes(16) and address != bytes(15) + b"\x01"


def link_local_from_mac(mac: bytes) -> bytes:
    """The fe80::/64 address that a host forms from its MAC (RFC 4291 appendix A, modified EUI-64)."""
    return b"\xfe\x80\0\0\0\0\0\0" + bytes([mac[0] ^ 2]) + mac[1:3] + b"\xff\xfe" + mac[3:6]
