"""What a port's binding offers: the defaults from the subnet with the user's options merged over them.

The texts of `Binding.options` are never trusted. One that cannot be used is left out and explained, so that a user's
mistake never costs a guest its lease.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol

from aca.dhcp import values
from aca.dhcp.message import NO_ADDRESS, Option, encode_option
from aca.dhcp.registry import BOOT_FILE_NAME, LISTS, NEXT_SERVER, SERVER_NAME, find_option
from aca.dhcp.values import Parser

LEASE_FOREVER = 0xFFFFFFFF
"""The lease time that means "infinity" (RFC 2131 section 3.3)."""

_SMALLEST_MTU = 68
_SNAME_ROOM, _FILE_ROOM = 63, 127
# With an empty value the user says that there shall be no such option.
_REMOVABLE = frozenset((Option.ROUTER, Option.CLASSLESS_ROUTES, Option.MS_CLASSLESS_ROUTES))


class Source(Protocol):
    """The part of a binding that options are made from; see `aca.dhcp.binding.Binding`."""

    @property
    def address(self) -> bytes: ...
    @property
    def prefix_length(self) -> int: ...
    @property
    def router(self) -> bytes | None: ...
    @property
    def dns(self) -> tuple[bytes, ...]: ...
    @property
    def mtu(self) -> int: ...
    @property
    def host_name(self) -> str: ...
    @property
    def domain(self) -> str: ...
    @property
    def options(self) -> tuple[tuple[str, str], ...]: ...
    @property
    def lease_seconds(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Offer:
    """All that can be offered.

    `encoded` has each option as it goes on the wire, by number and in falling importance; the protocol's own options
    (message type, server and client id, relay agent) are not among them. `explicit` are the numbers that the user
    asked for. `siaddr` is 4 bytes, `sname` at most 63, `file` at most 127. `errors` says what was left out.
    """

    encoded: Mapping[int, bytes]
    explicit: tuple[int, ...]
    siaddr: bytes
    sname: bytes
    file: bytes
    errors: tuple[str, ...]


def prepare(source: Source) -> Offer:
    """The offer of a binding. Never raises for a bad text."""
    errors: list[str] = []
    offered = _defaults(source, errors)
    chosen = _chosen(source.options, errors)
    next_server = chosen.pop(NEXT_SERVER, None)
    sname = chosen.pop(SERVER_NAME, chosen.get(Option.TFTP_SERVER, b""))
    file = chosen.pop(BOOT_FILE_NAME, chosen.get(Option.BOOT_FILE, b""))
    offered.update(chosen)
    for code in _REMOVABLE:
        if not offered.get(code, b"\0"):
            del offered[code]
    _set_broadcast(offered, source.address)
    _set_times(offered, source.lease_seconds, errors)
    _complete_routes(offered)
    # A name that is too long for its field is still given as an option.
    return Offer(
        encoded=MappingProxyType({code: encode_option(code, value) for code, value in offered.items()}),
        explicit=tuple(code for code in chosen if code in offered),
        siaddr=next_server or _next_server(chosen),
        sname=sname if len(sname) <= _SNAME_ROOM else b"",
        file=file if len(file) <= _FILE_ROOM else b"",
        errors=tuple(errors),
    )


def _defaults(source: Source, errors: list[str]) -> dict[int, bytes]:
    # The order is that of importance for a client without a parameter request list.
    offered: dict[int, bytes] = {Option.SUBNET_MASK: values.prefix_mask(source.prefix_length)}
    if source.router is not None:
        offered[Option.ROUTER] = source.router
    if source.mtu >= _SMALLEST_MTU:
        offered[Option.MTU] = source.mtu.to_bytes(2, "big")
    elif source.mtu:
        errors.append(f"mtu: {source.mtu} is below {_SMALLEST_MTU}")
    if source.dns:
        offered[Option.DNS] = b"".join(source.dns)
    _add_name(offered, Option.DOMAIN, values.domain_name, source.domain, errors)
    _add_name(offered, Option.HOST_NAME, values.host_name, source.host_name, errors)
    return offered


def _add_name(offered: dict[int, bytes], code: Option, parse: Parser, name: str, errors: list[str]) -> None:
    if not name:
        return
    try:
        offered[code] = parse(name)
    except ValueError as error:
        errors.append(f"{code.name.lower()}: {error}")


def _chosen(options: tuple[tuple[str, str], ...], errors: list[str]) -> dict[int, bytes]:
    """The user's options in their order; an empty value asks for an option's removal."""
    chosen: dict[int, bytes] = {}
    for name, value in options:
        try:
            _add_chosen(chosen, name, value)
        except ValueError as error:
            shown = name[:60]
            errors.append(f"{shown if shown.isprintable() else ascii(shown)}: {error}")
    return chosen


def _add_chosen(chosen: dict[int, bytes], name: str, value: str) -> None:
    found = find_option(name)
    if value.strip():
        packed = found.parse(value)
    elif found.code in _REMOVABLE:
        packed = b""
    else:
        raise ValueError("the value is empty")
    if found.code == SERVER_NAME and len(packed) > _SNAME_ROOM:
        raise ValueError(f"longer than {_SNAME_ROOM} bytes")
    if found.code == BOOT_FILE_NAME and len(packed) > _FILE_ROOM:
        raise ValueError(f"longer than {_FILE_ROOM} bytes")
    earlier = chosen.get(found.code)
    if earlier is not None:
        if found.parse not in LISTS:
            raise ValueError(f"{found.name} is given more than once, the first value counts")
        packed = earlier + packed
    if len(packed) > values.LONGEST:
        raise ValueError(f"the value has {len(packed)} bytes, more than {values.LONGEST}")
    chosen[found.code] = packed


def _set_broadcast(offered: dict[int, bytes], address: bytes) -> None:
    host_bits = int.from_bytes(offered[Option.SUBNET_MASK], "big") ^ 0xFFFFFFFF
    if host_bits > 1:  # networks of one or two addresses have no broadcast address (RFC 3021)
        offered.setdefault(Option.BROADCAST, (int.from_bytes(address, "big") | host_bits).to_bytes(4, "big"))


def _set_times(offered: dict[int, bytes], lease_seconds: int, errors: list[str]) -> None:
    """Lease time, T1 at 50 % and T2 at 87.5 % (RFC 2131 section 4.4.5), unless the user wants other, sound ones."""
    lease_bytes = offered.setdefault(Option.LEASE_TIME, lease_seconds.to_bytes(4, "big"))
    lease = int.from_bytes(lease_bytes, "big")
    forever = lease == LEASE_FOREVER
    defaults = {
        Option.RENEWAL_TIME: lease if forever else lease // 2,
        Option.REBINDING_TIME: lease if forever else lease * 7 // 8,
    }
    times = {code: int.from_bytes(offered.get(code, b""), "big") or default for code, default in defaults.items()}
    renewal, rebinding = times[Option.RENEWAL_TIME], times[Option.REBINDING_TIME]
    if not renewal <= rebinding <= lease:
        errors.append(f"renewal-time {renewal} and rebinding-time {rebinding} are not in order within lease {lease}")
        times = defaults
    for code, seconds in times.items():
        offered[code] = seconds.to_bytes(4, "big")


def _complete_routes(offered: dict[int, bytes]) -> None:
    """Add the default route to classless routes, and each of the two route options for a client of the other one.

    A client that takes classless routes ignores the router option (RFC 3442), so it must find the default there.
    """
    router = offered.get(Option.ROUTER)
    pair = (Option.CLASSLESS_ROUTES, Option.MS_CLASSLESS_ROUTES)
    for code in pair:
        routes = offered.get(code)
        if routes is not None and router is not None and not values.has_default_route(routes):
            offered[code] = routes + b"\0" + router[:4]
    for code, other in (pair, pair[::-1]):
        if code not in offered and other in offered:
            offered[code] = offered[other]


def _next_server(chosen: Mapping[int, bytes]) -> bytes:
    """The boot server's address for clients that only look at siaddr: a TFTP server given as an address."""
    name = chosen.get(Option.TFTP_SERVER)
    if name is not None:
        try:
            return values.address(name.decode())
        except ValueError:
            pass
    return chosen.get(Option.TFTP_ADDRESS, NO_ADDRESS)[:4]
