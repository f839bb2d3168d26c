"""Checks of single fields. Each returns the checked value or raises `Refused` naming the field and what it holds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NoReturn, Protocol

from dataplane.addresses import (
    AddressError,
    Prefix,
    is_unicast_address,
    is_unicast_mac,
    parse_address,
    parse_mac,
    parse_prefix,
)
from dataplane.model import AddressPair

MAX_ID_BYTES: Final = 255
MAX_NAME_CHARACTERS: Final = 255
MAX_TUNNEL_ID: Final = 0xFFFFFF
MAX_VLAN_ID: Final = 4094
MAX_UDP_PORT: Final = 0xFFFF
_SHOWN_CHARACTERS: Final = 80


class Refused(ValueError):  # noqa: N818 - it is a verdict, not a fault
    """A resource is refused. The message is the field, its value and what is wrong with it, without the resource."""


def shown(value: str) -> str:
    """`value` quoted for an error message: control characters escaped, cut so that it fits on a line."""
    return repr(value if len(value) <= _SHOWN_CHARACTERS else value[: _SHOWN_CHARACTERS - 3] + "...")


def refuse(field: str, value: str, problem: str) -> NoReturn:
    """Raises Refused: "<field> '<value>' <problem>", or "<field> is empty"."""
    raise Refused(f"{field} {shown(value)} {problem}" if value else f"{field} is empty")


def identifier(field: str, value: str) -> str:
    """An id: 1 to 255 bytes (UTF-8) of printable text. Raises Refused."""
    if not value:
        refuse(field, value, "")
    if len(value) > MAX_ID_BYTES or len(value.encode()) > MAX_ID_BYTES:
        refuse(field, value, f"has {len(value.encode())} bytes, more than {MAX_ID_BYTES}")
    if not value.isprintable():
        refuse(field, value, "has characters that cannot be printed")
    return value


def optional_identifier(field: str, value: str) -> str:
    """An id or the empty text. Raises Refused."""
    return identifier(field, value) if value else value


def display_text(value: str) -> str:
    """A text that is only shown: any text is accepted, cut to 255 characters."""
    return value[:MAX_NAME_CHARACTERS]


def mac(field: str, text: str) -> bytes:
    """The 6 bytes of a MAC in any common form that one interface may own. Raises Refused."""
    try:
        parsed = parse_mac(text)
    except AddressError:
        refuse(field, text, "is not a MAC address")
    if not is_unicast_mac(parsed):
        refuse(field, text, "is not the MAC address of a single interface")
    return parsed


def address(field: str, text: str) -> bytes:
    """The 4 or 16 bytes of an IP address, of any scope. Raises Refused."""
    try:
        return parse_address(text)
    except AddressError:
        refuse(field, text, "is not an IP address")


def unicast_address(field: str, text: str) -> bytes:
    """The 4 or 16 bytes of an IP address that one host may own. Raises Refused."""
    parsed = address(field, text)
    if not is_unicast_address(parsed):
        refuse(field, text, "is not the address of a single host")
    return parsed


def prefix(field: str, text: str) -> Prefix:
    """A CIDR prefix, or an address as a host prefix; host bits are cleared. Raises Refused."""
    try:
        return parse_prefix(text)
    except AddressError:
        refuse(field, text, "is not an IP address or prefix")


def at_most(field: str, value: int, limit: int) -> int:
    """A number of 0 to `limit`. Raises Refused."""
    if value > limit:
        raise Refused(f"{field} {value} is above {limit}")
    return value


def one_of(field: str, value: int, known: Iterable[int]) -> int:
    """An enum number that the contract has (proto3 enums are open: any number can arrive). Raises Refused."""
    if value not in known:
        raise Refused(f"{field} {value} is unknown")
    return value


class _WirePair(Protocol):
    @property
    def ip_address(self) -> str: ...
    @property
    def mac_address(self) -> str: ...


def address_pairs(pairs: Iterable[_WirePair], own_mac: bytes) -> tuple[AddressPair, ...]:
    """Allowed address pairs, each once; a MAC that is empty or `own_mac` becomes None. Raises Refused."""
    found: dict[AddressPair, None] = {}
    for index, pair in enumerate(pairs):
        field = f"allow_address_pairs[{index}]"
        allowed = prefix(f"{field}.ip_address", pair.ip_address)
        pair_mac = mac(f"{field}.mac_address", pair.mac_address) if pair.mac_address else None
        found[AddressPair(allowed, None if pair_mac == own_mac else pair_mac)] = None
    return tuple(found)
