"""The text of an option's value as its bytes on the wire, one function per format (RFC 2132 and its successors).

Every function takes the text as the user wrote it and raises ValueError, with a reason to show, if it does not fit.
Lists may be separated by commas, semicolons or white space, and may stand in brackets.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from socket import AF_INET, inet_pton

Parser = Callable[[str], bytes]

LONGEST = 2048
"""Bytes of the longest value taken; nothing of that size fits an Ethernet frame."""

_SEPARATORS = re.compile(r"[\s,;]+")
_NUMBER = re.compile(r"-?(?:0x[0-9a-f]+|[0-9]{1,20})", re.IGNORECASE | re.ASCII)
_DURATION = re.compile(r"([0-9]{1,10})([smhdw]?)", re.IGNORECASE | re.ASCII)
_HEX_PAIRS = re.compile(r"[0-9a-f]{1,2}(?:[:-][0-9a-f]{1,2})+", re.IGNORECASE | re.ASCII)
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?", re.IGNORECASE | re.ASCII)
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_TRUE = frozenset({"1", "true", "yes", "on", "enable", "enabled"})
_FALSE = frozenset({"0", "false", "no", "off", "disable", "disabled"})
_FOREVER = 0xFFFFFFFF


def address(value: str) -> bytes:
    """One IPv4 address, 4 bytes."""
    value = value.strip()
    try:
        return inet_pton(AF_INET, value)
    except (OSError, ValueError):
        raise ValueError(f"{_shown(value)} is not an IPv4 address") from None


def addresses(value: str) -> bytes:
    """A list of IPv4 addresses, 4 bytes each."""
    return b"".join(map(address, _items(value)))


def address_pairs(value: str) -> bytes:
    """A list of pairs of IPv4 addresses, 8 bytes each."""
    packed = addresses(value)
    if len(packed) % 8:
        raise ValueError("an even number of addresses is needed")
    return packed


def mask(value: str) -> bytes:
    """A subnet mask, 4 bytes; dotted or as a prefix length."""
    if value.strip().isdecimal():
        return prefix_mask(_prefix_length(value.strip()))
    packed = address(value)
    inverse = int.from_bytes(packed, "big") ^ 0xFFFFFFFF
    if inverse & (inverse + 1):
        raise ValueError(f"{_shown(value)} is not a subnet mask")
    return packed


def prefix_mask(length: int) -> bytes:
    """The subnet mask of a prefix length 0..32, 4 bytes."""
    return (0xFFFFFFFF << (32 - length) & 0xFFFFFFFF).to_bytes(4, "big")


def classless_routes(value: str) -> bytes:
    """Pairs of destination prefix and router (RFC 3442): `10.0.0.0/8,10.1.0.1` or `10.0.0.0/8 via 10.1.0.1`.

    A destination without a length is a host, `default` is 0.0.0.0/0. Host bits are cleared, as the RFC asks.
    """
    items = [item for item in _items(value) if item.lower() != "via"]
    if len(items) % 2:
        raise ValueError("a router is missing: destination and router must come in pairs")
    return b"".join(
        _destination(destination) + address(router) for destination, router in zip(items[::2], items[1::2], strict=True)
    )


def has_default_route(routes: bytes) -> bool:
    """Whether encoded classless routes hold one of length 0."""
    position = 0
    while position < len(routes):
        if routes[position] == 0:
            return True
        position += 5 + (routes[position] + 7) // 8
    return False


def boolean(value: str) -> bytes:
    """One byte, 0 or 1."""
    word = value.strip().lower()
    if word in _TRUE:
        return b"\x01"
    if word in _FALSE:
        return b"\x00"
    raise ValueError(f"{_shown(value)} is neither true nor false")


def unsigned8(value: str) -> bytes:
    """One byte."""
    return _number(value, 0, 0xFF).to_bytes(1, "big")


def unsigned16(value: str) -> bytes:
    """Two bytes."""
    return _number(value, 0, 0xFFFF).to_bytes(2, "big")


def unsigned16_list(value: str) -> bytes:
    """Two bytes per number."""
    return b"".join(map(unsigned16, _items(value)))


def datagram_size(value: str) -> bytes:
    """A size of an interface's or path's datagram, at least 68 (RFC 2132 section 5.1), two bytes."""
    return _number(value, 68, 0xFFFF).to_bytes(2, "big")


def datagram_size_list(value: str) -> bytes:
    """Datagram sizes of at least 68, two bytes each."""
    return b"".join(map(datagram_size, _items(value)))


def reassembly_size(value: str) -> bytes:
    """A size of a reassembled datagram, at least 576 (RFC 2132 section 4.4), two bytes."""
    return _number(value, 576, 0xFFFF).to_bytes(2, "big")


def time_to_live(value: str) -> bytes:
    """1..255, one byte."""
    return _number(value, 1, 0xFF).to_bytes(1, "big")


def unsigned32(value: str) -> bytes:
    """Four bytes."""
    return _number(value, 0, 0xFFFFFFFF).to_bytes(4, "big")


def signed32(value: str) -> bytes:
    """Four bytes, two's complement."""
    return _number(value, -(2**31), 2**31 - 1).to_bytes(4, "big", signed=True)


def duration(value: str) -> bytes:
    """Seconds above 0, with an optional unit s, m, h, d or w, or `infinite`; four bytes."""
    word = value.strip()
    if word.lower() in ("infinite", "infinity"):
        return _FOREVER.to_bytes(4, "big")
    match = _DURATION.fullmatch(word)
    seconds = int(match[1]) * _SECONDS[match[2].lower()] if match else 0
    if not 1 <= seconds <= _FOREVER:
        raise ValueError(f"{_shown(value)} is not a time of 1..{_FOREVER} seconds")
    return seconds.to_bytes(4, "big")


def text(value: str) -> bytes:
    """UTF-8 without a terminator; a pair of double quotes around it is not part of it."""
    value = value.strip()
    if len(value) >= 2 and value[0] == value[-1] == '"':
        value = value[1:-1]
    if not value or "\0" in value:
        raise ValueError("the text is empty or holds a zero byte")
    return _bounded(value.encode("utf-8"))


def boot_text(value: str) -> bytes:
    """The name of a boot server or file, as text: nothing but printable characters."""
    packed = text(value)
    if not packed.decode().isprintable():
        raise ValueError("the text holds characters that cannot be printed")
    return packed


def host_name(value: str) -> bytes:
    """A host name, with or without a domain, as text (RFC 2132 section 3.14)."""
    return _name_text(value)


def domain_name(value: str) -> bytes:
    """A domain name as text (RFC 2132 section 3.17)."""
    return _name_text(value)


def domain_list(value: str) -> bytes:
    """Domain names in DNS form, uncompressed, one after the other (RFC 3397; RFC 1035 section 3.1)."""
    return b"".join(map(_dns_name, _items(value)))


def sip_servers(value: str) -> bytes:
    """SIP servers (RFC 3361): 1 and addresses, or 0 and names in DNS form."""
    try:
        return b"\x01" + addresses(value)
    except ValueError:
        return b"\x00" + domain_list(value)


def binary(value: str) -> bytes:
    """Bytes: `0x` and digits, pairs of digits with colons, or else the text itself."""
    packed = _hexadecimal(value.strip())
    return text(value) if packed is None else packed


def inferred(value: str) -> bytes:
    """The value of an option of no known format.

    In this order: quoted text, `0x...` or `01:02:...` bytes, IPv4 addresses, a number in the fewest of 1, 2 or 4 bytes,
    or text.
    """
    value = value.strip()
    if value.startswith('"'):
        return text(value)
    packed = _hexadecimal(value)
    if packed is not None:
        return packed
    try:
        return addresses(value)
    except ValueError:
        pass
    if value.isdecimal() and value.isascii() and len(value) <= 10:
        number = int(value)
        for size in (1, 2, 4):
            if number < 1 << (8 * size):
                return number.to_bytes(size, "big")
    return text(value)


def _items(value: str) -> list[str]:
    items = [item for item in _SEPARATORS.split(value.strip().strip("{}[]()")) if item]
    if not items:
        raise ValueError("the list is empty")
    if len(items) > LONGEST:
        raise ValueError("the list is too long")
    return items


def _shown(value: str) -> str:
    return repr(value if len(value) <= 60 else value[:57] + "...")


def _bounded(value: bytes) -> bytes:
    if len(value) > LONGEST:
        raise ValueError(f"the value has {len(value)} bytes, more than {LONGEST}")
    return value


def _number(value: str, low: int, high: int) -> int:
    word = value.strip()
    number = None
    if len(word) <= 24 and _NUMBER.fullmatch(word):
        number = int(word, 16) if "x" in word.lower() else int(word)
    if number is None or not low <= number <= high:
        raise ValueError(f"{_shown(value)} is not a number {low}..{high}")
    return number


def _prefix_length(value: str) -> int:
    return _number(value, 0, 32)


def _destination(value: str) -> bytes:
    if value.lower() == "default":
        return b"\0"
    network, slash, length_text = value.partition("/")
    length = _prefix_length(length_text) if slash else 32
    packed = int.from_bytes(address(network), "big") & int.from_bytes(prefix_mask(length), "big")
    # Only the octets that the length covers are sent.
    return bytes((length,)) + packed.to_bytes(4, "big")[: (length + 7) // 8]


def _labels(value: str) -> list[str]:
    name = value.strip().removesuffix(".")
    labels = name.split(".")
    # 255 bytes in DNS form are 253 as text.
    if len(name) > 253 or not all(map(_LABEL.fullmatch, labels)):
        raise ValueError(f"{_shown(value)} is not a domain name")
    return labels


def _name_text(value: str) -> bytes:
    return ".".join(_labels(value)).encode("ascii")


def _dns_name(value: str) -> bytes:
    return b"".join(bytes((len(label),)) + label.encode("ascii") for label in _labels(value)) + b"\0"


def _hexadecimal(value: str) -> bytes | None:
    if value[:2].lower() == "0x":
        try:
            return _bounded(bytes.fromhex(value[2:])) if len(value) > 2 else None
        except ValueError:
            raise ValueError(f"{_shown(value)} is not a whole number of bytes in hexadecimal") from None
    if _HEX_PAIRS.fullmatch(value):
        return _bounded(bytes(int(pair, 16) for pair in re.split("[:-]", value)))
    return None
