"""Compares what stands with what was installed. All pure, but that what was accounted for is taken out of what stands:
the rest is in no book."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from dataplane.addresses import format_address, format_mac
from dataplane.kernel.rtnl import USUAL_TABLES, Link, Vxlan
from dataplane.model import Segment
from dataplane.netlink.filter import number, shared_counts, static_counts
from dataplane.netlink.items import (
    ElementItem,
    FloodItem,
    Item,
    Leg,
    LegItem,
    MacItem,
    RouteItem,
    RouterItem,
    RouteValue,
    RuleItem,
    SegmentItem,
    Tap,
    TapItem,
    Value,
    Via,
)
from dataplane.netlink.names import (
    ALIAS,
    bridge_name,
    hook_name,
    host_number,
    leg_inside,
    leg_name,
    port_chain,
    segment_id,
    shared_chain,
    tunnel_name,
)
from dataplane.netlink.nft import NETDEV
from dataplane.netlink.places import LegDevices, Places
from dataplane.netlink.settings import NetlinkSettings
from dataplane.netlink.standing import ChainKey, Chains, ElementKey, Entries, Inside
from dataplane.netlink.tc import BACK, BY_MARK, TO_ALL, Way

Installed = Mapping[type[Item], Mapping[Item, Value]]
"""By kind."""


def of_kinds(installed: Installed, *kinds: type[Item]) -> Iterator[tuple[Item, Value]]:
    for kind in kinds:
        yield from installed.get(kind, {}).items()


@dataclass(slots=True)
class Findings:
    """Objects of the book that are gone or otherwise than they should be, each with what is the matter.

    `elements` are the altered ones as they stand; `static` says what of the filter's fixed part is not as it should be;
    `lost` are indexes of devices that are gone.
    """

    standing: int = 0
    missing: dict[Item, str] = field(default_factory=dict)
    altered: dict[Item, str] = field(default_factory=dict)
    elements: dict[ElementKey, bytes] = field(default_factory=dict)
    static: list[str] = field(default_factory=list)
    lost: set[int] = field(default_factory=set)

    @property
    def clean(self) -> bool:
        return not (self.missing or self.altered or self.static)

    @property
    def items(self) -> list[Item]:
        return list({**self.missing, **self.altered})

    def miss(self, item: Item, what: str) -> None:
        self.altered.pop(item, None)
        self.missing.setdefault(item, f"{what} was gone")

    def alter(self, item: Item, what: str) -> None:
        if item not in self.missing:
            self.altered.setdefault(item, what)


# -- devices


def compare_links(
    found: Findings, installed: Installed, places: Places, links: Mapping[int, Link], settings: NetlinkSettings
) -> None:
    """Bridges, tunnels, legs and ports' devices; a port's device that is gone is no drift, its port waits for it."""
    for item, value in of_kinds(installed, SegmentItem, LegItem, TapItem):
        match item:
            case SegmentItem():
                _compare_segment(found, item, places, links, settings)
            case LegItem():
                assert isinstance(value, Leg)
                _compare_leg(found, item, value, places, links)
            case TapItem():
                assert isinstance(value, Tap)
                _compare_tap(found, item, value, places, links)


def _compare_segment(
    found: Findings, item: SegmentItem, places: Places, links: Mapping[int, Link], settings: NetlinkSettings
) -> None:
    devices, segment = places.segments[item.segment], item.segment
    bridge, tunnel = links.get(devices.bridge), links.get(devices.tunnel)
    alias = ALIAS + segment_id(segment)
    if bridge is None:
        found.miss(item, f"bridge {bridge_name(segment)} of {segment_id(segment)}")
        found.lost.add(devices.bridge)
    elif not bridge.up or bridge.alias != alias or bridge.odd:
        found.alter(item, f"bridge {bridge.name} of {segment_id(segment)} was {_state(bridge)}")
    if tunnel is None:
        found.miss(item, f"tunnel device {tunnel_name(segment)} of {segment_id(segment)}")
        found.lost.add(devices.tunnel)
        return
    vxlan = Vxlan(segment.tunnel_id, settings.tunnel_address, settings.vxlan_port)
    identity = vxlan if devices.has_hosts else None
    if not devices.has_hosts and places.geneve not in links:
        found.alter(item, f"the Geneve device of {segment_id(segment)} was gone")
        found.lost.add(places.geneve)
    if (
        (tunnel.master, tunnel.mtu, tunnel.alias) != (devices.bridge, settings.tunnel_mtu, alias)
        or not tunnel.up
        or tunnel.learns
        or tunnel.vxlan != identity
    ):
        found.alter(item, f"tunnel device {tunnel.name} of {segment_id(segment)} was {_state(tunnel)}")
    if tunnel.vxlan != identity:
        found.lost.add(devices.tunnel)
    found.standing += 2


def _state(link: Link) -> str:
    words = ["up" if link.up else "down", f"MTU {link.mtu}"]
    if link.learns:
        words.append("learning")
    words += link.odd
    words.append("in another's bridge or none" if not link.master else f"in bridge {link.master}")
    return ", ".join(words)


def _compare_leg(
    found: Findings, item: LegItem, leg: Leg, places: Places, links: Mapping[int, Link]
) -> None:
    outside = places.legs[item.subnet_id].outside
    link, segment = links.get(outside), places.segments.get(leg.segment)
    name = f"router leg {leg_name(item.subnet_id)} in subnet {item.subnet_id}"
    if link is None:
        found.miss(item, name)
        found.lost.add(outside)
        return
    bridge = segment.bridge if segment is not None else 0
    if link.master != bridge or not link.up or link.learns or link.alias != ALIAS + item.subnet_id:
        found.alter(item, f"{name} was {_state(link)}")
    found.standing += 1


def _compare_tap(found: Findings, item: TapItem, tap: Tap, places: Places, links: Mapping[int, Link]) -> None:
    link, segment = links.get(item.ifindex), places.segments.get(tap.segment)
    if link is None or segment is None:
        return
    if link.master != segment.bridge or link.learns:
        found.alter(item, f"device {link.name} was {_state(link)}")
    found.standing += 1


def add_dependents(found: Findings, installed: Installed, places: Places) -> set[ElementKey]:
    """With a device that is gone goes what is said of it by its index. Returns the elements to be taken away."""
    if not found.lost:
        return set()
    stale: set[ElementKey] = {("tunnels", number(index)) for index in found.lost}
    subnets = {name for name, leg in places.legs.items() if leg.outside in found.lost}
    segments = {segment for segment, devices in places.segments.items() if devices.tunnel in found.lost}
    through_geneve = {segment for segment, devices in places.segments.items() if not devices.has_hosts}
    sending = segments | (through_geneve if places.geneve in found.lost else set())
    for item, what in dependents(installed, segments, subnets, sending):
        if isinstance(item, ElementItem) and (key := places.key_of(item)) is not None:
            stale.add((item.set_name, key))
        found.miss(item, what)
    return stale


def dependents(
    installed: Installed, segments: Collection[Segment], subnets: Collection[str], sending: Collection[Segment]
) -> Iterator[tuple[Item, str]]:
    """What is on the tunnels of these segments and on the legs in these subnets, or speaks of them, each with what it
    is; and where the segments in `sending` send to."""
    for item, value in of_kinds(installed, ElementItem, RouteItem, RuleItem, MacItem, FloodItem):
        match item:
            case ElementItem(name, _, device):
                if device is not None and (device in segments if isinstance(device, Segment) else device in subnets):
                    yield item, f"the device of an element of set {name}"
            case RouteItem():
                if isinstance(value, RouteValue) and value.leg in subnets:
                    yield item, f"route to {item.destination}"
            case RuleItem():
                if item.subnet_id in subnets:
                    yield item, f"routing rule of {leg_inside(item.subnet_id)}"
            case MacItem(segment, mac):
                if isinstance(value, Via) and (value.leg in subnets or segment in segments):
                    yield item, f"MAC {format_mac(mac)}"
            case FloodItem(segment, host):
                if segment in sending:
                    yield item, f"flooding to {format_address(host)}"


# -- forwarding entries


def compare_entries(found: Findings, installed: Installed, places: Places, entries: Entries) -> None:
    for item, value in of_kinds(installed, MacItem, FloodItem):
        match item:
            case MacItem(segment, mac):
                devices = places.segments.get(segment)
                if devices is None or not isinstance(value, Via):
                    continue
                leg = places.legs.get(value.leg)
                port = devices.tunnel if value.host else value.ifindex or (leg.outside if leg is not None else 0)
                stands = entries.local.pop((devices.bridge, mac), None)
                known = value.host and devices.has_hosts
                host = entries.remote.pop((devices.tunnel, mac), None) if known else value.host
                if stands is None or host is None:
                    found.miss(item, f"MAC {format_mac(mac)} of {segment_id(segment)}")
                elif (stands, host) != (port, value.host):
                    where = format_address(host) if host else f"device {stands}"
                    found.alter(item, f"MAC {format_mac(mac)} of {segment_id(segment)} was at {where}")
            case FloodItem(segment, host):
                devices = places.segments.get(segment)
                if devices is None or not devices.has_hosts:
                    continue
                if (devices.tunnel, host) in entries.floods:
                    entries.floods.discard((devices.tunnel, host))
                else:
                    found.miss(item, f"flooding to {format_address(host)} of {segment_id(segment)}")
            case _:
                continue
        found.standing += 1


# -- Geneve


def compare_sending(
    found: Findings, installed: Installed, places: Places, sending: Iterable[Way], settings: NetlinkSettings
) -> None:
    """Filters of traffic control: out of segments' devices into the host's, and back."""
    stand = set(sending)
    local, port = settings.tunnel_address, settings.geneve_port
    for item, _ in of_kinds(installed, FloodItem):
        if isinstance(item, FloodItem) and (devices := places.segments.get(item.segment)) and not devices.has_hosts:
            there = host_number(item.host), item.segment.tunnel_id, local, item.host, port
            ways = {Way(devices.tunnel, order, *there, places.geneve) for order in (BY_MARK, TO_ALL)}
            if not ways <= stand:
                found.alter(item, f"sending to {format_address(item.host)} of {segment_id(item.segment)} was otherwise")
            found.standing += len(ways)
    for segment, devices in places.segments.items():
        if not devices.has_hosts:
            back = Way(places.geneve, BACK, segment.tunnel_id, segment.tunnel_id, out=devices.tunnel)
            if back not in stand:
                found.alter(SegmentItem(segment), f"receiving of {segment_id(segment)} was otherwise")
            found.standing += 1


# -- the filter


def compare_chains(
    found: Findings,
    installed: Installed,
    places: Places,
    stands: Chains,
    distrusted: Iterable[ChainKey] = (),
) -> None:
    """The fixed ones by their very rules, ports' by the number of rules, and `distrusted` in any case."""
    altered, chains = set(distrusted), stands.uses
    static = static_counts() | (shared_counts() if places.ports_share_chains else {})
    for chain, fixed in static.items():
        is_ours = stands.rules.get(chain) == places.rules.get(chain)
        if chains.pop(chain, None) != fixed or not is_ours or chain in altered:
            found.static.append(f"nftables chain {chain[1]} of family {'netdev' if chain[0] == NETDEV else 'bridge'}")
        found.standing += 1
    for item, value in of_kinds(installed, TapItem, LegItem):
        match item:
            case TapItem(index):
                assert isinstance(value, Tap)
                rules = len(value.rules)
                if places.ports_share_chains:
                    there = shared_chain(index)
                    if chains.pop((NETDEV, hook_name(there, value.name)), None) is None:
                        found.alter(item, f"device {value.name} was not in nftables chain {there}")
                    if not rules:
                        found.standing += 1
                        continue
                rules = rules or 1
            case LegItem(subnet_id):
                index, rules = places.legs[subnet_id].outside, 1
            case _:
                continue
        chain = (NETDEV, port_chain(index))
        count = chains.pop(chain, None)
        if count != rules or chain in altered:
            found.alter(item, f"nftables chain {chain[1]} was {'gone' if count is None else 'altered'}")
        found.standing += 1


def compare_elements(
    found: Findings,
    installed: Installed,
    places: Places,
    elements: dict[ElementKey, bytes],
    sets: Iterable[str],
) -> None:
    """Of these sets."""
    looked_at = set(sets)
    if not looked_at:
        return
    for item, value in of_kinds(installed, ElementItem, SegmentItem):
        if isinstance(item, ElementItem):
            name, key = item.set_name, places.key_of(item)
            if key is None or name not in looked_at:
                continue
            expected = value if isinstance(value, bytes) else b""
        elif isinstance(item, SegmentItem):
            name, key, expected = "tunnels", number(places.segments[item.segment].tunnel), b""
            if name not in looked_at:
                continue
        else:
            continue
        stands = elements.pop((name, key), None)
        found.standing += 1
        if stands is None and isinstance(item, SegmentItem):
            found.alter(item, f"element {key.hex()} of nftables set {name} was gone")
        elif stands is None:
            found.miss(item, f"element {key.hex()} of nftables set {name}")
        elif stands != expected:
            found.alter(item, f"element {key.hex()} of nftables set {name} was {stands.hex()}")
            found.elements[name, key] = stands


# -- routers


def compare_inside(
    found: Findings, installed: Installed, places: Places, insides: Mapping[str, Inside]
) -> None:
    """Of these routers."""
    for router_id, inside in insides.items():
        usual = {("", table) for table in USUAL_TABLES.values()}
        if not usual <= inside.rules:
            found.alter(RouterItem(router_id), f"the usual routing rules of router {router_id} were gone")
        inside.rules = {rule for rule in inside.rules if rule[0]}
    for item, value in of_kinds(installed, LegItem, RouteItem, RuleItem):
        match item:
            case LegItem(subnet_id):
                leg = places.legs[subnet_id]
                if leg.router_id in insides and isinstance(value, Leg):
                    _compare_leg_inside(found, item, value, leg, insides[leg.router_id])
            case RouteItem(router_id, table, destination):
                if router_id not in insides or not isinstance(value, RouteValue):
                    continue
                stands = insides[router_id].routes.pop((table, destination), None)
                way = places.legs.get(value.leg)
                if stands is None:
                    found.miss(item, f"route to {destination} of router {router_id}")
                elif way is None or stands != (way.inside, value.via, value.source, value.mtu):
                    found.alter(item, f"route to {destination} of router {router_id} was another")
                found.standing += 1
            case RuleItem(router_id, subnet_id, table):
                if router_id not in insides:
                    continue
                rule = (leg_inside(subnet_id), table)
                if rule not in insides[router_id].rules:
                    found.miss(item, f"routing rule of {rule[0]} of router {router_id}")
                insides[router_id].rules.discard(rule)
                found.standing += 1


def _compare_leg_inside(found: Findings, item: LegItem, leg: Leg, devices: LegDevices, inside: Inside) -> None:
    name, index = leg_inside(item.subnet_id), devices.inside
    link = inside.links.get(name)
    about = f"device {name} of router {leg.router_id}"
    if link is None or link.ifindex != index:
        found.miss(item, about)
        found.lost.add(devices.outside)
    elif not link.up or link.mac != leg.mac:
        found.alter(item, f"{about} was {_state(link)}, {format_mac(link.mac)}")
    elif leg.address and (index, leg.address) not in inside.addresses:
        found.alter(item, f"{about} was without its address")


def compare_settings(found: Findings, places: Places, router_id: str) -> None:
    """Of one router's namespace. Raises OSError."""
    router = places.routers[router_id]
    altered = router.altered_settings()
    if altered:
        found.alter(RouterItem(router_id), f"{', '.join(altered)} in network namespace {router.path.name} was another")


def compare_names(found: Findings, installed: Installed, places: Places) -> None:
    for item, _ in of_kinds(installed, RouterItem):
        if isinstance(item, RouterItem):
            router = places.routers[item.router_id]
            if not router.is_named:
                found.alter(item, f"the name of network namespace {router.path.name} was gone")
            found.standing += 1
