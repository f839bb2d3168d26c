"""What an earlier agent left: of resources that are deleted now, and of those that nobody wants. All pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from dataplane.devices.spec import ALIAS as MADE
from dataplane.kernel.rtnl import Link
from dataplane.model import Key, Kind, NetworkType, Segment
from dataplane.netlink.filter import number
from dataplane.netlink.inheritance import TUNNELS, is_ours
from dataplane.netlink.items import LegItem, RouterItem, SegmentItem
from dataplane.netlink.names import (
    ALIAS,
    GENEVE_DEVICE,
    LEG_INSIDE,
    LEG_OUTSIDE,
    leg_name,
    mark_of,
    namespace_name,
    shared_chain,
)
from dataplane.netlink.namespaces import Found
from dataplane.netlink.nft import NETDEV, key_bytes
from dataplane.netlink.places import Places
from dataplane.netlink.standing import ChainKey, ElementKey, Entries, Filter, Inside
from dataplane.netlink.traces import (
    ChainTrace,
    DeviceTrace,
    ElementTrace,
    FloodTrace,
    HookTrace,
    LocalTrace,
    MemberTrace,
    NamespaceTrace,
    RemoteTrace,
    RouteTrace,
    RuleTrace,
    Trace,
    about,
    marks_and_macs,
)

Links = Mapping[int, Link]
Namespaces = Mapping[str, Found]
Wants = Callable[[SegmentItem | LegItem | RouterItem], bool]


class Left(NamedTuple):
    """All that stands and is in no book; links and namespaces are all there are."""

    links: Links
    entries: Entries
    filter: Filter
    insides: Mapping[str, Inside]
    namespaces: Namespaces


def item_of(alias: str) -> SegmentItem | LegItem:
    """What a device of ours is, by its alias."""
    name = alias.removeprefix(ALIAS)
    kind, _, tunnel_id = name.partition("/")
    if kind in NetworkType.__members__ and tunnel_id.isdigit():
        return SegmentItem(Segment(NetworkType[kind], int(tunnel_id)))
    return LegItem(name)


def device_of_port(port_id: str, links: Links) -> int:
    """The index of the device that a port has by its alias, else by its name; 0 if there is none."""
    name = f"tap{port_id[:11]}"
    by_name = 0
    for link in links.values():
        if link.alias in (port_id, MADE + port_id):
            return link.ifindex
        if link.name == name and not link.alias:
            by_name = link.ifindex
    return by_name


def device_named(name: str, links: Links) -> int:
    return next((link.ifindex for link in links.values() if link.name == name and is_ours(link)), 0)


def _tunnel_of(bridge: int, links: Links) -> int:
    ours = (one for one in links.values() if one.master == bridge and one.kind in TUNNELS and is_ours(one))
    return next((one.ifindex for one in ours), 0)


# -- of resources that are deleted


@dataclass(slots=True)
class Gone:
    """`devices` are ports' and legs' indexes, of which `legs` are ours to remove."""

    devices: set[int] = field(default_factory=set)
    legs: set[int] = field(default_factory=set)
    marks: set[bytes] = field(default_factory=set)
    namespaces: dict[str, str] = field(default_factory=dict)


def gone_with(removed: Iterable[Key], links: Links, namespaces: Namespaces, prefix: str) -> Gone:
    found = Gone()
    for kind, resource_id in ((key.kind, key.id) for key in removed):
        legs: list[str] = []
        if kind is Kind.PORT:
            found.devices.add(device_of_port(resource_id, links))
        elif kind is Kind.SUBNET:
            found.marks.add(number(mark_of(resource_id)))
            legs = [leg_name(resource_id)]
        elif kind is Kind.ROUTER:
            name = namespace_name(prefix, resource_id)
            known = namespaces.get(name)
            if known is not None and known.alias == ALIAS + resource_id:
                found.namespaces[name] = known.alias
                legs = [_outside(inside) for inside in known.legs]
        indexes = {device_named(name, links) for name in legs} - {0}
        found.legs |= indexes
        found.devices |= indexes
    found.devices.discard(0)
    return found


def _outside(inside: str) -> str:
    return LEG_OUTSIDE + inside.removeprefix(LEG_INSIDE)


def traces_of(
    gone: Gone, elements: Mapping[ElementKey, bytes], entries: Entries, links: Links, wants: Wants
) -> list[Trace]:
    """`elements` are those in no book, `entries` those at the devices."""
    found: dict[Trace, None] = {}
    members = marks_and_macs(elements, gone.devices) | _of_legs(gone, elements, entries)
    left_tunnels: set[int] = set()
    for element, data in elements.items():
        what = about(element, data)
        if what.device in gone.devices or what.mark in gone.marks or (what.mark, what.mac) in members:
            found[ElementTrace(*element, data)] = None
            if what.tunnel and what.mac:
                found[RemoteTrace(what.tunnel, what.mac)] = None
        elif what.tunnel and element[0] not in ("tunnels", "hosts"):
            left_tunnels.add(what.tunnel)
    for trace in list(found):
        if isinstance(trace, RemoteTrace):
            host = ("hosts", key_bytes(number(trace.tunnel), trace.mac))
            found.update({ElementTrace(*host, elements[host]): None} if host in elements else {})
    for (bridge, mac), port in entries.local.items():
        if port in gone.devices:
            found[LocalTrace(bridge, port, mac)] = None
    for index in gone.devices:
        found[ChainTrace(index)] = None
        link = links.get(index)
        if link is None:
            continue
        if index in gone.legs:
            found[DeviceTrace(index, link.name, link.alias)] = None
        elif link.master in links and is_ours(links[link.master]):
            found[MemberTrace(index, link.name)] = None
    found.update(dict.fromkeys(NamespaceTrace(*one) for one in gone.namespaces.items()))
    found.update(dict.fromkeys(_empty_segments(gone, elements, links, left_tunnels, wants)))
    return list(found)


def _of_legs(gone: Gone, elements: Mapping[ElementKey, bytes], entries: Entries) -> set[tuple[bytes, bytes]]:
    """A leg's MAC is in no element that names the leg."""
    macs = {mac for (_, mac), port in entries.local.items() if port in gone.legs}
    listening = (about(element, data) for element, data in elements.items() if element[0] == "listeners")
    return {(what.mark, mac) for what in listening if what.device in gone.legs for mac in macs}


def _empty_segments(
    gone: Gone, elements: Mapping[ElementKey, bytes], links: Links, left_tunnels: set[int], wants: Wants
) -> Iterator[Trace]:
    """Bridges that nobody is in any more, with their tunnels."""
    for bridge in links.values():
        if bridge.kind != "bridge" or not is_ours(bridge):
            continue
        item = item_of(bridge.alias)
        tunnel = _tunnel_of(bridge.ifindex, links)
        members = {link.ifindex for link in links.values() if link.master == bridge.ifindex} - {tunnel}
        if wants(item) or members - gone.devices or tunnel in left_tunnels:
            continue
        for link in (links.get(tunnel), bridge):
            if link is not None:
                yield DeviceTrace(link.ifindex, link.name, link.alias)
        for element, data in elements.items():
            if tunnel and about(element, data).tunnel == tunnel:
                yield ElementTrace(*element, data)


# -- what nobody wants


def hooks_of(chains: Iterable[ChainKey], links: Links) -> Iterator[HookTrace]:
    """The devices in chains that ports share."""
    indexes = {link.name: link.ifindex for link in links.values()}
    for _, name in chains:
        chain, there, device = name.partition(" ")
        if there:
            yield HookTrace(indexes.get(device, 0), chain, device)


def vanished(elements: Iterable[tuple[ElementKey, bytes]], chains: Iterable[ChainKey], links: Links) -> list[Trace]:
    """What speaks of devices that are gone, by their numbers, which are not given again soon; and hooks of a name that
    another device has now, in the chain of the former."""
    found: dict[Trace, None] = {}
    for element, data in elements:
        device = about(element, data).device
        if device and device not in links:
            found[ElementTrace(*element, data)] = None
    chains = list(chains)
    for family, name in chains:
        index = name.removeprefix("port-")
        if family == NETDEV and index != name and index.isdigit() and int(index) not in links:
            found[ChainTrace(int(index))] = None
    for hook in hooks_of(chains, links):
        if hook.ifindex == 0 or hook.chain != shared_chain(hook.ifindex):
            found[hook] = None
    return list(found)


@dataclass(slots=True)
class _Kept:
    """What has to do with resources that are wanted but not programmed now."""

    devices: set[int] = field(default_factory=set)
    marks: set[bytes] = field(default_factory=set)
    members: set[tuple[bytes, bytes]] = field(default_factory=set)
    namespaces: set[str] = field(default_factory=set)
    remote: bool = False
    """A neighbour's id is not on what stands of it, so all that might be a neighbour's is kept."""


def _kept(left: Left, unsettled: Collection[Key], prefix: str) -> _Kept:
    kept = _Kept()
    legs: list[str] = []
    for key in unsettled:
        match key.kind:
            case Kind.PORT | Kind.DHCP:
                kept.devices.add(device_of_port(key.id, left.links))
            case Kind.SUBNET:
                kept.marks.add(number(mark_of(key.id)))
                legs.append(leg_name(key.id))
            case Kind.ROUTER:
                name = namespace_name(prefix, key.id)
                kept.namespaces.add(name)
                if name in left.namespaces:
                    legs += map(_outside, left.namespaces[name].legs)
            case Kind.NEIGHBOR:
                kept.remote = True
    kept.devices |= {device_named(name, left.links) for name in legs}
    kept.devices.discard(0)
    kept.members = marks_and_macs(left.filter.elements, kept.devices)
    for element, data in left.filter.elements.items():
        what = about(element, data)
        if element[0] == "listeners" and what.device in kept.devices:
            kept.marks |= {what.mark} if is_ours(left.links.get(what.device, _NOBODY)) else set()
    bridges = {left.links[index].master for index in kept.devices if index in left.links} - {0}
    bridges |= {
        left.links[what.tunnel].master
        for what in (about(*one) for one in left.filter.elements.items())
        if what.tunnel in left.links and (what.mark in kept.marks or kept.remote)
    }
    kept.devices |= bridges | {_tunnel_of(bridge, left.links) for bridge in bridges}
    return kept


_NOBODY = Link(0, "", "", 0, b"", "", False, 0)


def leftovers(left: Left, places: Places, unsettled: Collection[Key], prefix: str, wants: Wants) -> Iterator[Trace]:
    kept = _kept(left, unsettled, prefix)
    elements, chains = left.filter.elements, left.filter.chains.uses
    of_chains = {int(name[5:]) for family, name in chains if family == NETDEV and name[5:].isdigit()}
    marked = {about(element, data).device for element, data in elements.items() if element[0] == "ports"} | of_chains
    in_places = places.devices
    if any(link.kind == "dummy" for link in left.links.values() if link.ifindex in kept.devices):
        kept.devices.add(device_named(GENEVE_DEVICE, left.links))
    removed: set[int] = set()
    for link in left.links.values():
        if is_ours(link) and link.ifindex not in in_places | kept.devices and not wants(item_of(link.alias)):
            removed.add(link.ifindex)
            yield DeviceTrace(link.ifindex, link.name, link.alias)
    ours = {link.ifindex for link in left.links.values() if is_ours(link)}
    for index in sorted(of_chains - kept.devices):
        yield ChainTrace(index)
    yield from (hook for hook in hooks_of(chains, left.links) if hook.ifindex not in kept.devices)
    for index in sorted(marked - kept.devices - ours):
        member = left.links.get(index)
        if member is not None and member.master in ours:
            yield MemberTrace(index, member.name)
    yield from _elements_left(elements, kept)
    for (bridge, mac), port in left.entries.local.items():
        if port in kept.devices or port in removed or bridge in removed:
            continue
        if port in marked | in_places and not (kept.remote and port in ours):
            yield LocalTrace(bridge, port, mac)
    if not kept.remote:
        for tunnel, mac in left.entries.remote:
            if tunnel not in kept.devices | removed:
                yield RemoteTrace(tunnel, mac)
        for tunnel, host in left.entries.floods:
            if tunnel not in kept.devices | removed:
                yield FloodTrace(tunnel, host)
    yield from _routing_left(left, places)
    names = {router.path.name for router in places.routers.values()} | kept.namespaces
    for name, found in left.namespaces.items():
        if name not in names and not wants(RouterItem(found.alias.removeprefix(ALIAS))):
            yield NamespaceTrace(name, found.alias)


def _elements_left(elements: Mapping[ElementKey, bytes], kept: _Kept) -> Iterator[Trace]:
    for element, data in elements.items():
        what = about(element, data)
        of_kept = what.device in kept.devices or what.mark in kept.marks or (what.mark, what.mac) in kept.members
        if of_kept or (element[0] == "tunnels" and what.tunnel in kept.devices):
            continue
        if not (kept.remote and (what.tunnel or what.mac) and not what.device):
            yield ElementTrace(*element, data)


def _routing_left(left: Left, places: Places) -> Iterator[Trace]:
    for router_id, inside in left.insides.items():
        for table, destination in inside.routes:
            yield RouteTrace(router_id, table, destination)
        for device, table in inside.rules:
            yield RuleTrace(router_id, device, table)
