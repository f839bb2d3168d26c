"""XDR (RFC 4506) as the transit daemon has it: kinds of fields, and structures as tables of them.

Where the daemon departs from what one would expect: whatever is smaller than a word takes a word, each byte of a MAC
too; an IPv4 address is held in network order and sent as the host's integer; a port is swapped to network order in 16
bits and then sent as a number.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Final, Generic, TypeVar

from dataplane.mizar.errors import ValueRefused, XdrError
from dataplane.mizar.limits import ARRAY_ON_WIRE, ARRAY_STORED

T = TypeVar("T")
Decode = Callable[[bytes, int], tuple[Any, int]]
_WORD: Final = struct.Struct(">I")
_SIGNED: Final = struct.Struct(">i")
_LONG: Final = struct.Struct(">Q")
_MAC: Final = struct.Struct(">6I")
_PADDING: Final = (b"", b"\0\0\0", b"\0\0", b"\0")
_SWAPS: Final = sys.byteorder == "little"


@dataclass(frozen=True, slots=True)
class Kind:
    """How one field travels. `encode` raises ValueError with the reason alone; `decode` gives the value and the offset
    behind it, or raises XdrError or struct.error."""

    encode: Callable[[Any], bytes]
    decode: Decode


def whole(packing: struct.Struct, most: int, least: int = 0) -> Kind:
    """A number from `least` to `most`. Decoding takes all that the wire can hold."""

    def encode(value: int) -> bytes:
        if not isinstance(value, int) or not least <= value <= most:
            raise ValueError(f"not a number from {least} to {most}")
        return packing.pack(value)

    def decode(data: bytes, offset: int) -> tuple[int, int]:
        (value,) = packing.unpack_from(data, offset)
        return value, offset + packing.size

    return Kind(encode, decode)


def unsigned(bits: int) -> Kind:
    """A number of so many bits, in one word or, with 64, two."""
    return whole(_LONG if bits == 64 else _WORD, (1 << bits) - 1)


def number_to(most: int) -> Kind:
    """A word of which only 0 to `most` mean something."""
    return whole(_WORD, most)


def signed_to(most: int) -> Kind:
    """The same where the structure says `int`."""
    return whole(_SIGNED, most)


def _encode_port(value: int) -> bytes:
    if not isinstance(value, int) or not 0 <= value <= 0xFFFF:
        raise ValueError("not a port from 0 to 65535")
    return _WORD.pack((value & 0xFF) << 8 | value >> 8 if _SWAPS else value)


def _decode_port(data: bytes, offset: int) -> tuple[int, int]:
    (word,) = _WORD.unpack_from(data, offset)
    if word > 0xFFFF:
        raise XdrError(f"a port of {word:#x}")
    return ((word & 0xFF) << 8 | word >> 8) if _SWAPS else word, offset + 4


def _encode_ip(value: bytes) -> bytes:
    if not isinstance(value, bytes) or len(value) != 4:
        raise ValueError("not an IPv4 address of 4 bytes")
    return value[::-1] if _SWAPS else value


def _decode_ip(data: bytes, offset: int) -> tuple[bytes, int]:
    value, end = _decode_natural_ip(data, offset)
    return value[::-1] if _SWAPS else value, end


def _encode_natural_ip(value: bytes) -> bytes:
    if not isinstance(value, bytes) or len(value) != 4:
        raise ValueError("not an IPv4 address of 4 bytes")
    return value


def _decode_natural_ip(data: bytes, offset: int) -> tuple[bytes, int]:
    value = data[offset : offset + 4]
    if len(value) != 4:
        raise XdrError("ends inside an address")
    return value, offset + 4


def _encode_ips(values: tuple[bytes, ...]) -> bytes:
    if not isinstance(values, tuple):
        raise ValueError("not a tuple of addresses")
    if len(values) > ARRAY_STORED:
        raise ValueError(f"{len(values)} addresses, where the daemon keeps {ARRAY_STORED}")
    return _WORD.pack(len(values)) + b"".join([_encode_ip(value) for value in values])


def _decode_ips(data: bytes, offset: int) -> tuple[tuple[bytes, ...], int]:
    (count,) = _WORD.unpack_from(data, offset)
    if count > ARRAY_ON_WIRE:
        raise XdrError(f"an array of {count}, over {ARRAY_ON_WIRE}")
    start, end = offset + 4, offset + 4 + 4 * count
    return tuple(_decode_ip(data, place)[0] for place in range(start, end, 4)), end


def _encode_mac(value: bytes) -> bytes:
    if not isinstance(value, bytes) or len(value) != 6:
        raise ValueError("not a MAC of 6 bytes")
    return _MAC.pack(*value)


def _decode_mac(data: bytes, offset: int) -> tuple[bytes, int]:
    words = _MAC.unpack_from(data, offset)
    if max(words) > 0xFF:
        raise XdrError("a MAC of more than bytes")
    return bytes(words), offset + 24


def string(bound: int) -> Kind:
    """Text of at most `bound` bytes. What is no UTF-8 in an answer comes with backslashes."""

    def encode(value: str) -> bytes:
        if not isinstance(value, str):
            raise ValueError("not a text")
        try:
            text = value.encode()
        except UnicodeEncodeError:
            raise ValueError("not a text that can be sent") from None
        if len(text) > bound:
            raise ValueError(f"{len(text)} bytes, over {bound}")
        if b"\0" in text:
            raise ValueError("holds a NUL")
        return _WORD.pack(len(text)) + text + _PADDING[len(text) & 3]

    def decode(data: bytes, offset: int) -> tuple[str, int]:
        (length,) = _WORD.unpack_from(data, offset)
        if length > bound:
            raise XdrError(f"a string of {length} bytes, over {bound}")
        end = offset + 4 + length
        padded = end + (-length & 3)
        if padded > len(data):
            raise XdrError("ends inside a string")
        return data[offset + 4 : end].decode(errors="backslashreplace"), padded

    return Kind(encode, decode)


U8: Final = unsigned(8)
U32: Final = unsigned(32)
U64: Final = unsigned(64)
PORT: Final = Kind(_encode_port, _decode_port)
IP: Final = Kind(_encode_ip, _decode_ip)
NATURAL_IP: Final = Kind(_encode_natural_ip, _decode_natural_ip)
IPS: Final = Kind(_encode_ips, _decode_ips)
MAC: Final = Kind(_encode_mac, _decode_mac)


class Layout(Generic[T]):
    """A structure: its class and the kind of each field, in the order of the wire."""

    __slots__ = ("_encoders", "_get", "fields", "structure")

    def __init__(self, structure: type[T], **fields: Kind) -> None:
        self.structure = structure
        self.fields = fields
        names = tuple(fields)
        self._encoders = tuple(kind.encode for kind in fields.values())
        self._get: Callable[[T], tuple[Any, ...]] = (
            attrgetter(*names) if len(names) > 1 else lambda value: (getattr(value, names[0]),)
        )

    def encode(self, value: T) -> bytes:
        """The bytes of the structure. Raises ValueRefused, which names the field."""
        if not isinstance(value, self.structure):
            raise ValueRefused(self.structure.__name__, "*", value, "not this structure")
        try:
            return b"".join([encode(field) for encode, field in zip(self._encoders, self._get(value), strict=True)])
        except (ValueError, ValueRefused):
            self._refuse(value)
            raise

    def _refuse(self, value: T) -> None:
        for name, kind in self.fields.items():
            field = getattr(value, name)
            try:
                kind.encode(field)
            except ValueError as error:
                raise ValueRefused(self.structure.__name__, name, field, str(error)) from None
            except ValueRefused as error:
                inner = f"{name}.{error.field}"
                raise ValueRefused(self.structure.__name__, inner, error.value, error.reason) from None

    def decode(self, data: bytes, offset: int = 0) -> tuple[T, int]:
        """The structure at `offset` and the offset behind it. Raises XdrError."""
        found: dict[str, Any] = {}
        for name, kind in self.fields.items():
            try:
                found[name], offset = kind.decode(data, offset)
            except struct.error:
                raise XdrError(f"{self.structure.__name__}.{name}: the answer ends before") from None
            except XdrError as error:
                raise XdrError(f"{self.structure.__name__}.{name}: {error}") from None
        return self.structure(**found), offset

    def nested(self) -> Kind:
        """The kind of a field that holds this structure."""
        return Kind(self.encode, self.decode)
