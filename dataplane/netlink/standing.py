"""What stands in the kernel, read back: forwarding entries, the filter's chains and elements, routers' inside.

Numbers are those of linux/neighbour.h, rtnetlink.h, fib_rules.h and netfilter/nf_tables.h.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import NamedTuple

from dataplane.addresses import Prefix
from dataplane.kernel.channel import NETFILTER, ROUTE, Channel
from dataplane.kernel.rtnl import Link, link_of, list_links
from dataplane.kernel.wire import KernelError, Message, Request, attributes, chars, messages, text
from dataplane.netlink.alike import read_alike
from dataplane.netlink.filter import SETS
from dataplane.netlink.names import TABLE, hook_name, is_shared_chain
from dataplane.netlink.nft import BRIDGE, NETDEV, SetShape, SetSpec, read_shape
from dataplane.netlink.tc import Way, list_filters, way_of

_GET_ADDRESS, _GET_ROUTE, _GET_NEIGHBOR, _GET_RULE = 22, 26, 30, 34
_READ_WITHIN_S = 60.0
_GET_CHAIN, _GET_RULES, _GET_SET, _GET_ELEMENTS = 10 << 8 | 4, 10 << 8 | 7, 10 << 8 | 10, 10 << 8 | 13
_SELF, _MASTER = 0x02, 0x04
_NOARP, _PERMANENT = 0x40, 0x80
_ENOENT = 2
_INTERRUPTED = 0x10
"""A dump during which things changed (NLM_F_DUMP_INTR)."""
_PROTOCOL_STATIC, _UNICAST = 4, 1
_TRIES = 5
_HEADER, _SEQUENCE, _NEW_NEIGHBOR, _NO_MAC = 16, (8, 4), 28, bytes(6)

ElementKey = tuple[str, bytes]
"""A set's name and the key of an element."""
ChainKey = tuple[int, str]
"""An nftables family and the name of a chain in our table."""
EntryKey = tuple[int, bytes]
"""A device's index and a MAC, or a host's address."""


class Route(NamedTuple):
    device: int
    via: bytes
    source: bytes
    mtu: int


@dataclass(slots=True)
class Inside:
    """What is in a router's namespace; rules are (device, table), without a device if they are for all."""

    links: dict[str, Link] = field(default_factory=dict)
    addresses: set[tuple[int, bytes]] = field(default_factory=set)
    routes: dict[tuple[int, Prefix], Route] = field(default_factory=dict)
    rules: set[tuple[str, int]] = field(default_factory=set)


@dataclass(slots=True)
class Entries:
    """Static forwarding entries: bridges' as (bridge, MAC) -> port, tunnels' as (tunnel, MAC) -> host, and the hosts
    that group frames go to as (tunnel, host)."""

    local: dict[EntryKey, int] = field(default_factory=dict)
    remote: dict[EntryKey, bytes] = field(default_factory=dict)
    floods: set[EntryKey] = field(default_factory=set)


class Chains(NamedTuple):
    """`uses`: of ports' chains how often they are used, of others how many rules they have (they are jumped to from
    elsewhere); and the devices of chains that ports share, each once: see `names.hook_name`. `rules` of all but ports'
    own chains: number and contents as the kernel has them."""

    uses: dict[ChainKey, int]
    rules: dict[ChainKey, tuple[bytes, ...]]


@dataclass(slots=True)
class Filter:
    """Elements with their data, and chains."""

    elements: dict[ElementKey, bytes] = field(default_factory=dict)
    chains: Chains = field(default_factory=lambda: Chains({}, {}))


class Reader:
    """Sockets of its own, so that a long answer keeps no change waiting. One thread at a time."""

    def __init__(self) -> None:
        """In the host's network namespace. Raises OSError."""
        self._route = Channel(ROUTE)
        try:
            self._filter = Channel(NETFILTER)
        except OSError:
            self._route.close()
            raise

    def close(self) -> None:
        self._route.close()
        self._filter.close()

    def links(self) -> dict[int, Link]:
        """By index. Raises KernelError, OSError, as all of these do."""
        return {link.ifindex: link for link in map(link_of, self._route.dump(list_links()))}

    def entries(self, bridges: Iterable[int], tunnels: Iterable[int], port: int = 0) -> Entries:
        """Those of these devices; of one bridge port only if there is one given."""
        of_bridges, of_tunnels = set(bridges), set(tunnels)
        # With the head of a message about links the kernel looks at the port (net/core/rtnetlink.c).
        head = struct.pack("=BxxxiHBB", socket.AF_BRIDGE, 0, 0, 0, 0)
        if port:
            head = struct.pack("=BxHiII", socket.AF_BRIDGE, 0, port, 0, 0)
        found = Entries()
        for part in _consistent_parts(self._route, Request(_GET_NEIGHBOR, 0, head, "forwarding entries")):
            _note_part(found, part, of_bridges, of_tunnels)
        return found

    def entries_of(self, macs: Mapping[tuple[int, int], Sequence[bytes]]) -> Entries:
        """Those of these MACs, by (bridge, tunnel); a dump costs the kernel the square of how many there are."""
        found = Entries()
        for (bridge, tunnel), asked in macs.items():
            for flag in (_SELF, _MASTER):
                head = struct.pack("=BxxxiHBB", socket.AF_BRIDGE, tunnel, 0, flag, 0)
                bodies = [head + _attribute(2, mac) for mac in asked]
                for answers in self._route.look_up_alike(_GET_NEIGHBOR, bodies):
                    _note_part(found, b"".join(answers), {bridge}, {tunnel})
        return found

    def ways(self, geneve: int, devices: Iterable[int]) -> list[Way]:
        """Of the host's Geneve device and of segments' devices."""
        requests = [list_filters(geneve, received=True)] if geneve else []
        requests += [list_filters(device, received=False) for device in devices]
        found = (way_of(message) for request in requests for message in self._route.dump(request))
        return [way for way in found if way is not None]

    def filter(self) -> Filter:
        return Filter(self.elements(SETS.values()), self.chains())

    def all_of(self, bridges: Iterable[int], tunnels: Iterable[int]) -> tuple[Entries, Filter]:
        """entries() and filter() at once: most of the time is the kernel's."""
        with ThreadPoolExecutor(1, "netlink-reader") as beside:
            entries = beside.submit(self.entries, bridges, tunnels)
            stands = self.filter()
            return entries.result(_READ_WITHIN_S), stands

    def elements(self, specs: Iterable[SetSpec]) -> dict[ElementKey, bytes]:
        found: dict[ElementKey, bytes] = {}
        for spec in specs:
            for message in self._of_table(_GET_ELEMENTS, spec.family, text(2, spec.name), f"nftables set {spec.name}"):
                found.update(elements_of(message))
        return found

    def counts(self) -> dict[str, int]:
        """Elements by set, as far as this kernel counts them."""
        found = {}
        for family in (NETDEV, BRIDGE):
            for message in self._of_table(_GET_SET, family, b"", "nftables sets"):
                parts = attributes(message.body, 4)
                if 20 in parts:
                    found[chars(parts[2])] = int.from_bytes(parts[20], "big")
        return found

    def shapes(self) -> dict[tuple[int, str], SetShape]:
        """Of the sets in our tables, by family and name."""
        found = {}
        for family in (NETDEV, BRIDGE):
            for message in self._of_table(_GET_SET, family, b"", "nftables sets"):
                parts = attributes(message.body, 4)
                if chars(parts.get(1, b"")) == TABLE:
                    found[family, chars(parts[2])] = read_shape(parts)
        return found

    def chains(self) -> Chains:
        found: dict[ChainKey, int] = {}
        rules: dict[ChainKey, tuple[bytes, ...]] = {}
        for family in (NETDEV, BRIDGE):
            for message in self._of_table(_GET_CHAIN, family, b"", "nftables chains"):
                parts = attributes(message.body, 4)
                if chars(parts.get(1, b"")) == TABLE:
                    name = chars(parts[3])
                    found[family, name] = int.from_bytes(parts.get(6, b""), "big")
                    if is_shared_chain(name):
                        devices = _devices_of(parts.get(4, b""))
                        found.update(((family, hook_name(name, device)), 1) for device in devices)
        for family, name in list(found):
            if " " in name or name.startswith("port-"):
                continue
            listed = self._of_table(_GET_RULES, family, text(2, name), f"rules of nftables chain {name}")
            rules[family, name] = tuple(map(_rule_of, listed))
            if not is_shared_chain(name):
                found[family, name] = len(listed)
        return Chains(found, rules)

    def _of_table(self, kind: int, family: int, more: bytes, about: str) -> list[Message]:
        request = Request(kind, 0, struct.pack(">BBH", family, 0, 0) + text(1, TABLE) + more, about)
        try:
            return _consistent(self._filter, request)
        except KernelError as problem:
            if problem.code == _ENOENT:
                return []
            raise

    # -- one by one

    def look_up_entries(self, keys: Sequence[tuple[int, bytes, int]]) -> list[Message | None]:
        """The answers about forwarding entries, as (device, MAC, flag of who has it); None where there is none."""
        requests = [
            Request(
                _GET_NEIGHBOR,
                0,
                struct.pack("=BxxxiHBB", socket.AF_BRIDGE, device, 0, flag, 0) + _attribute(2, mac),
            )
            for device, mac, flag in keys
        ]
        return self._route.look_up(requests)

    def look_up_elements(self, keys: Sequence[ElementKey]) -> list[Message | None]:
        requests = []
        for name, key in keys:
            element = _attribute(0x8001, _attribute(0x8001, _attribute(1, key)))
            head = struct.pack(">BBH", SETS[name].family, 0, 0) + text(1, TABLE) + text(2, name)
            requests.append(Request(_GET_ELEMENTS, 0, head + _attribute(0x8003, element)))
        return self._filter.look_up(requests)


def _rule_of(message: Message) -> bytes:
    parts = attributes(message.body, 4)
    return parts.get(3, b"") + parts.get(4, b"")


def _devices_of(hook: bytes) -> list[str]:
    """Names of the devices that a chain is hooked to (NFTA_HOOK_DEVS)."""
    listed = attributes(hook).get(4, b"")
    return [chars(device) for device in _list(listed)]


def _attribute(kind: int, value: bytes) -> bytes:
    return struct.pack("=HH", len(value) + 4, kind) + value + bytes(-len(value) % 4)


def _consistent_parts(channel: Channel, request: Request) -> list[bytes]:
    """The same as they came: each with some messages."""
    found: list[bytes] = []
    for _ in range(_TRIES):
        found = channel.dump_parts(request)
        # A part is of one moment: its first message says as much as any.
        if not any(len(part) >= _HEADER and part[6] & _INTERRUPTED for part in found):
            break
    return found


def _note_part(found: Entries, part: bytes, bridges: set[int], tunnels: set[int]) -> None:
    if not _note_alike(found, part, bridges, tunnels):
        for message in messages(part):
            if message.kind == _NEW_NEIGHBOR:
                note_entry(found, message, bridges, tunnels)


def _note_alike(found: Entries, part: bytes, bridges: set[int], tunnels: set[int]) -> bool:
    """Sort in a part whose messages have one shape, that of bridges' or tunnels' entries. False: it has not."""
    if len(part) < _HEADER + 12:
        return False
    length, kind = struct.unpack_from("=IH", part)
    places = _places(part[_HEADER:length], 12)
    has_host = 1 in places
    if kind != _NEW_NEIGHBOR or 2 not in places or has_host == (9 in places) or 5 in places:
        return False
    if has_host and places[1][1] != 4:
        return False
    second = places[1] if has_host else places[9]
    fields = sorted([(4, 4), (8, 2), (10, 1), places[2], second])
    values = [(_HEADER + offset, size) for offset, size in fields]
    ignored = [(_HEADER + offset, size) for number, (offset, size) in places.items() if number not in (1, 2, 9)]
    ignored.append(_SEQUENCE)
    records = read_alike(part, length, values, ignored)
    if records is None:
        return False
    mac_first = places[2] < second
    local, remote, floods = found.local, found.remote, found.floods
    number = struct.Struct("=I").unpack
    state_of = struct.Struct("=H").unpack
    for index, state, flags, one, other in records:
        if not state_of(state)[0] & _NOARP or state_of(state)[0] & _PERMANENT:
            continue
        mac, where = (one, other) if mac_first else (other, one)
        (port,) = number(index)
        if not has_host:
            (bridge,) = number(where)
            if bridge in bridges:
                local[bridge, mac] = port
        elif port in tunnels and flags[0] & _SELF:
            if mac != _NO_MAC:
                remote[port, mac] = where
            else:
                floods.add((port, where))
    return True


def _places(data: bytes, offset: int) -> dict[int, tuple[int, int]]:
    """(offset, size) of attributes' values by type."""
    found = {}
    while offset + 4 <= len(data):
        length, kind = struct.unpack_from("=HH", data, offset)
        if length < 4:
            break
        found[kind & 0x3FFF] = offset + 4, length - 4
        offset += (length + 3) & ~3
    return found


def _consistent(channel: Channel, request: Request) -> list[Message]:
    """A dump that nothing has come in between of, if there is one to be had."""
    found: list[Message] = []
    for _ in range(_TRIES):
        found = channel.dump(request)
        if not any(message.flags & _INTERRUPTED for message in found):
            break
    return found


def note_entry(found: Entries, message: Message, bridges: set[int], tunnels: set[int]) -> None:
    """Sort a forwarding entry (RTM_NEWNEIGH) in, if it is a static one of these devices."""
    body = message.body
    _, port, state, flags, _ = struct.unpack_from("=BxxxiHBB", body)
    if not state & _NOARP or state & _PERMANENT:
        return
    parts = attributes(body, 12)
    mac = parts.get(2, b"")
    # 5: the VLAN. A bridge that knows of VLANs has each entry once more for its default one.
    if 5 in parts or len(mac) != 6:
        return
    if 9 in parts:
        (bridge,) = struct.unpack("=I", parts[9])
        if bridge in bridges:
            found.local[bridge, mac] = port
    elif port in tunnels and flags & _SELF:
        host = parts.get(1, b"")
        if any(mac):
            found.remote[port, mac] = host
        else:
            found.floods.add((port, host))


def elements_of(message: Message) -> Iterator[tuple[ElementKey, bytes]]:
    """The elements in a message about a set of our tables."""
    parts = attributes(message.body, 4)
    name = chars(parts.get(2, b""))
    listed = parts.get(3, b"")
    alike = _elements_alike(listed)
    if alike is not None:
        for key, data in alike:
            yield (name, key), data
        return
    for element in _list(listed):
        inner = attributes(element)
        if 1 not in inner:
            continue
        data = attributes(inner[2]).get(1, b"") if 2 in inner else b""
        yield (name, attributes(inner[1])[1]), data


def _elements_alike(listed: bytes) -> Iterator[tuple[bytes, bytes]] | None:
    """(key, data) of elements that have nothing else, as nearly all; None if there are others among them."""
    if len(listed) < 12:
        return None
    (length,) = struct.unpack_from("=H", listed)
    first = listed[:length]
    parts = _places(first, 4)
    if 1 not in parts or parts.keys() - {1, 2} or length & 3:
        return None
    found = []
    for offset, size in (parts[number] for number in sorted(parts)):
        inner = _places(first[: offset + size], offset).get(1)
        if inner is None:
            return None
        found.append(inner)
    records = read_alike(listed, length, found)
    if records is None:
        return None
    return ((key, b"") for (key,) in records) if len(found) == 1 else ((key, data) for key, data in records)


def _list(data: bytes) -> Iterator[bytes]:
    """The contents of all list elements, which have one and the same attribute number."""
    offset = 0
    while offset + 4 <= len(data):
        (length,) = struct.unpack_from("=H", data, offset)
        if length < 4:
            break
        yield data[offset + 4 : offset + length]
        offset += (length + 3) & ~3


# -- inside a router


def read_links(channel: Channel) -> dict[str, Link]:
    """The devices by name, where the socket is. Raises KernelError, OSError."""
    return {link.name: link for link in map(link_of, channel.dump(list_links()))}


def read_inside(channel: Channel) -> Inside:
    """By a socket in a router's namespace. Raises KernelError, OSError."""
    found = Inside()
    found.links = read_links(channel)
    for message in channel.dump(Request(_GET_ADDRESS, 0, struct.pack("=BBBBi", socket.AF_INET, 0, 0, 0, 0))):
        (index,) = struct.unpack_from("=i", message.body, 4)
        found.addresses.add((index, attributes(message.body, 8).get(2, b"")))
    for message in channel.dump(Request(_GET_ROUTE, 0, struct.pack("=BBBBBBBBI", socket.AF_INET, *bytes(7), 0))):
        _note_route(found, message)
    for message in channel.dump(Request(_GET_RULE, 0, struct.pack("=BBBBBBBBI", socket.AF_INET, *bytes(7), 0))):
        parts = attributes(message.body, 12)
        if 15 in parts:
            found.rules.add((chars(parts.get(3, b"")), struct.unpack("=I", parts[15])[0]))
    return found


def _note_route(found: Inside, message: Message) -> None:
    _, length, _, _, _, protocol, _, kind, _ = struct.unpack_from("=BBBBBBBBI", message.body)
    if protocol != _PROTOCOL_STATIC or kind != _UNICAST:
        return
    parts = attributes(message.body, 12)
    (table,) = struct.unpack("=I", parts[15])
    metrics = attributes(parts.get(8, b""))
    (device,) = struct.unpack("=I", parts.get(4, bytes(4)))
    (mtu,) = struct.unpack("=I", metrics.get(2, bytes(4)))
    route = Route(device, parts.get(5, b""), parts.get(7, b""), mtu)
    found.routes[table, Prefix(parts.get(1, bytes(4)), length)] = route
