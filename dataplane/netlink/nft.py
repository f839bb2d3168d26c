"""nftables in its netlink form (linux/netfilter/nf_tables.h): expressions, rules, chains, sets, elements. All pure.

Encoded here and not by libnftables, which reads the whole ruleset back before each change: a change must cost the same
with 10 and with 5,000 ports.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from dataplane.kernel.wire import CREATE, Request, attribute, be32, nested, text

BRIDGE, NETDEV = 7, 5
DROP, ACCEPT, JUMP, GOTO = 0, 1, -3, -4
LINK, NETWORK, TRANSPORT = 0, 1, 2
META_PROTOCOL, META_MARK, META_IIF, META_OIF, META_L4PROTO = 1, 3, 4, 5, 16
EQUAL, NOT_EQUAL = 0, 1
REG_1 = 8
"""The first of sixteen registers of 4 bytes (NFT_REG32_00)."""
TYPE_IPV4, TYPE_IPV6, TYPE_ETHER, TYPE_MARK, TYPE_IFINDEX = 7, 8, 9, 19, 20

_SUBSYSTEM = 10 << 8
_NEW_TABLE, _DEL_TABLE, _NEW_CHAIN, _DEL_CHAIN = 0, 2, 3, 5
_NEW_RULE, _DEL_RULE, _NEW_SET, _DEL_SET, _NEW_ELEMENT, _DEL_ELEMENT = 6, 8, 9, 11, 12, 14
_VERDICT_REGISTER = 0
_APPEND = 0x800
_MAP = 0x8
_PADDING = (b"", b"\0\0\0", b"\0\0", b"\0")

BEGIN = Request(0x10, 0, struct.pack(">BBH", 0, 0, 10))
END = Request(0x11, 0, struct.pack(">BBH", 0, 0, 10))


class SetSpec(NamedTuple):
    """A set (data None) or map: the (type, length) of each part of its key, and of its data."""

    family: int
    name: str
    key: tuple[tuple[int, int], ...]
    data: tuple[int, int] | None = None


def key_bytes(*parts: bytes) -> bytes:
    """A concatenated key: each part padded to 4 bytes."""
    return b"".join([part + _PADDING[len(part) & 3] for part in parts])


def mac_key(first: bytes, mac: bytes) -> bytes:
    """key_bytes() of 4 bytes and a MAC."""
    return first + mac + b"\0\0"


# -- expressions
#
# A port has a dozen rules of some hundred parts, nearly all of them equal among ports: parts are remembered.

_remembered = lru_cache(maxsize=4096)


def _expression(name: str, *data: bytes) -> bytes:
    return nested(1, text(1, name), nested(2, *data))


@_remembered
def load(base: int, offset: int, length: int, register: int = REG_1) -> bytes:
    return _expression("payload", be32(1, register), be32(2, base), be32(3, offset), be32(4, length))


def store(base: int, offset: int, length: int, register: int = REG_1, checksum_at: int | None = None) -> bytes:
    """Write a register into the packet; `checksum_at`: where in the same header the checksum is to be kept right."""
    fixed = () if checksum_at is None else (be32(6, 1), be32(7, checksum_at))
    return _expression("payload", be32(5, register), be32(2, base), be32(3, offset), be32(4, length), *fixed)


def compare(value: bytes, register: int = REG_1, operation: int = EQUAL) -> bytes:
    size = len(value)
    return _before_value(size, register, operation) + value + _PADDING[size & 3]


@_remembered
def _before_value(size: int, register: int, operation: int) -> bytes:
    """The value is the last of a comparison."""
    whole = _expression("cmp", be32(1, register), be32(2, operation), nested(3, attribute(1, bytes(size))))
    return whole[: len(whole) - size - len(_PADDING[size & 3])]


@_remembered
def masked(mask: bytes, register: int = REG_1, xor: bytes = b"") -> bytes:
    """register = register & mask ^ xor."""
    size = len(mask)
    return _expression(
        "bitwise",
        be32(1, register),
        be32(2, register),
        be32(3, size),
        nested(4, attribute(1, mask)),
        nested(5, attribute(1, xor or bytes(size))),
    )


def constant(value: bytes, register: int = REG_1) -> bytes:
    return _expression("immediate", be32(1, register), nested(2, attribute(1, value)))


@_remembered
def verdict(code: int, chain: str = "") -> bytes:
    where = (text(2, chain),) if chain else ()
    return _expression("immediate", be32(1, _VERDICT_REGISTER), nested(2, nested(2, be32(1, code), *where)))


@_remembered
def meta(key: int, register: int = REG_1) -> bytes:
    return _expression("meta", be32(1, register), be32(2, key))


@_remembered
def set_mark(register: int = REG_1) -> bytes:
    return _expression("meta", be32(2, META_MARK), be32(3, register))


@_remembered
def lookup(name: str, register: int = REG_1, into: int | None = None) -> bytes:
    """Go on if the set has the register's value; a map's data goes to register `into`."""
    data = () if into is None else (be32(3, into),)
    return _expression("lookup", text(1, name), be32(2, register), *data)


def forward(register: int = REG_1) -> bytes:
    """Send the frame out of the device whose index is in the register; the end of the rule."""
    return _expression("fwd", be32(1, register))


def matches(base: int, offset: int, value: bytes) -> bytes:
    return load(base, offset, len(value)) + compare(value)


def matches_prefix(base: int, offset: int, address: bytes, length: int) -> bytes:
    size = len(address)
    if length == size * 8:
        return matches(base, offset, address)
    mask = (((1 << length) - 1) << (size * 8 - length)).to_bytes(size, "big")
    return load(base, offset, size) + masked(mask) + compare(address)


# -- objects


def _request(kind: int, family: int, flags: int, body: bytes, about: str) -> Request:
    return Request(_SUBSYSTEM | kind, flags, struct.pack(">BBH", family, 0, 0) + body, about)


def add_table(family: int, table: str) -> Request:
    return _request(_NEW_TABLE, family, CREATE, text(1, table), f"nftables table {table}")


def delete_table(family: int, table: str) -> Request:
    """With all that is in it."""
    return _request(_DEL_TABLE, family, 0, text(1, table), f"nftables table {table}")


def add_chain(family: int, table: str, chain: str) -> Request:
    return _request(_NEW_CHAIN, family, CREATE, text(1, table) + text(3, chain), f"nftables chain {chain}")


def add_base_chain(
    family: int, table: str, chain: str, hook: int, priority: int, policy: int, device: str = ""
) -> Request:
    where = (text(3, device),) if device else ()
    body = text(1, table) + text(3, chain) + nested(4, be32(1, hook), be32(2, priority), *where)
    body += be32(5, policy) + text(7, "filter")
    return _request(_NEW_CHAIN, family, CREATE, body, f"nftables chain {chain} on {device or 'bridges'}")


def add_device(table: str, chain: str, priority: int, device: str) -> Request:
    """A base chain of family netdev sees what comes in at this device too (Linux 6.4)."""
    return _request(_NEW_CHAIN, NETDEV, 0, _device(table, chain, priority, device), f"device {device} in {chain}")


def delete_device(table: str, chain: str, priority: int, device: str) -> Request:
    return _request(_DEL_CHAIN, NETDEV, 0, _device(table, chain, priority, device), f"device {device} in {chain}")


def _device(table: str, chain: str, priority: int, device: str) -> bytes:
    head, ingress = _chain_of(table, chain, priority)
    return head + nested(4, ingress, nested(4, text(1, device)))


@lru_cache(maxsize=128)
def _chain_of(table: str, chain: str, priority: int) -> tuple[bytes, bytes]:
    """What the devices of a chain have in common."""
    return text(1, table) + text(3, chain), be32(1, 0) + be32(2, priority)


def delete_chain(family: int, table: str, chain: str) -> Request:
    return _request(_DEL_CHAIN, family, 0, text(1, table) + text(3, chain), f"nftables chain {chain}")


def add_rule(family: int, table: str, chain: str, expressions: bytes) -> Request:
    head, about = _rule_of(family, table, chain)
    return Request(_SUBSYSTEM | _NEW_RULE, CREATE | _APPEND, head + nested(4, expressions), about)


@lru_cache(maxsize=16)
def _rule_of(family: int, table: str, chain: str) -> tuple[bytes, str]:
    """What the rules of a chain, which come one after the other, have in common."""
    head = struct.pack(">BBH", family, 0, 0) + text(1, table) + text(2, chain)
    return head, f"a rule of nftables chain {chain}"


def flush_chain(family: int, table: str, chain: str) -> Request:
    return _request(_DEL_RULE, family, 0, text(1, table) + text(2, chain), f"nftables chain {chain}")


class SetShape(NamedTuple):
    """What the kernel makes of a SetSpec: whether it is a map; type and length of its keys and of its data."""

    is_map: bool
    key_type: int
    key_length: int
    data_type: int
    data_length: int


def shape_of(spec: SetSpec) -> SetShape:
    key_type = 0
    for kind, _ in spec.key:
        key_type = key_type << 6 | kind
    size = sum(length + (-length % 4) for _, length in spec.key) if len(spec.key) > 1 else spec.key[0][1]
    return SetShape(spec.data is not None, key_type, size, *(spec.data or (0, 0)))


def read_shape(parts: Mapping[int, bytes]) -> SetShape:
    """From the attributes of a set (NFTA_SET_*)."""
    flags, *numbers = (int.from_bytes(parts.get(kind, b""), "big") for kind in (3, 4, 5, 6, 7))
    return SetShape(bool(flags & _MAP), *numbers)


def add_set(table: str, spec: SetSpec, number: int) -> Request:
    shape = shape_of(spec)
    body = text(1, table) + text(2, spec.name) + be32(3, _MAP if shape.is_map else 0)
    body += be32(4, shape.key_type) + be32(5, shape.key_length)
    # So that `nft list` shows device indexes and marks as they are (libnftnl's user data: byte orders).
    orders = _byte_order(0, spec.key[0]) if len(spec.key) == 1 else b""
    if spec.data:
        body += be32(6, spec.data[0]) + be32(7, spec.data[1])
        orders += _byte_order(1, spec.data)
    if orders:
        body += attribute(13, orders)
    return _request(_NEW_SET, spec.family, CREATE, body + be32(10, number), f"nftables set {spec.name}")


def delete_set(family: int, table: str, name: str) -> Request:
    return _request(_DEL_SET, family, 0, text(1, table) + text(2, name), f"nftables set {name}")


def _byte_order(which: int, part: tuple[int, int]) -> bytes:
    host, network = 1, 2
    order = host if part[0] in (TYPE_MARK, TYPE_IFINDEX) else network
    return bytes((which, 4)) + order.to_bytes(4, sys.byteorder)


_ELEMENTS_PER_MESSAGE = 500


def add_elements(table: str, spec: SetSpec, elements: Sequence[tuple[bytes, bytes]]) -> Iterable[Request]:
    """`elements` are (key, data); the data of a set's is empty."""
    return _elements(_NEW_ELEMENT, CREATE, table, spec, elements)


def delete_elements(table: str, spec: SetSpec, elements: Sequence[tuple[bytes, bytes]]) -> Iterable[Request]:
    return _elements(_DEL_ELEMENT, 0, table, spec, elements)


def _elements(
    kind: int, flags: int, table: str, spec: SetSpec, elements: Sequence[tuple[bytes, bytes]]
) -> Iterable[Request]:
    if not elements:
        return
    head = text(1, table) + text(2, spec.name)
    # All elements of a set have one shape: what stands before key and data is cut from the first.
    key, data = elements[0]
    with_data = nested(2, attribute(1, data)) if data else b""
    first = nested(1, nested(1, attribute(1, key)), with_data)
    before_key = first[:12]
    padding = bytes(-len(key) % 4)
    before_data, after_data = padding + with_data[:8], bytes(-len(data) % 4)
    for start in range(0, len(elements), _ELEMENTS_PER_MESSAGE):
        part = elements[start : start + _ELEMENTS_PER_MESSAGE]
        encoded = [before_key + key + before_data + data + after_data for key, data in part]
        yield _request(kind, spec.family, flags, head + nested(3, *encoded), f"elements of nftables set {spec.name}")
