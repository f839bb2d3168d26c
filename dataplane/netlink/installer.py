"""Carries changes out: devices first, then the filter, then what sends traffic there; removal in the opposite order."""

from __future__ import annotations

import socket
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from dataplane.model import NetworkType, Segment
from dataplane.netlink import nft, rtnl
from dataplane.netlink.book import NOTHING, Change
from dataplane.netlink.channel import NETFILTER, ROUTE, Channel
from dataplane.netlink.filter import SETS, leg_rules, number, static_requests
from dataplane.netlink.geneve import Geneve
from dataplane.netlink.inheritance import Inheritance, read_inheritance
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
    TABLE,
    bridge_name,
    leg_inside,
    leg_name,
    namespace_name,
    port_chain,
    segment_id,
    tunnel_name,
)
from dataplane.netlink.namespaces import Namespace
from dataplane.netlink.nft import key_bytes
from dataplane.netlink.settings import NetlinkSettings
from dataplane.netlink.wire import KernelError, Request

_LEG_MTU = 9000
_EEXIST = 17
_TRANSACTION_BYTES = 4 << 20


class _SegmentDevices(NamedTuple):
    bridge: int
    tunnel: int
    has_hosts: bool
    """Whether the tunnel device itself knows where each MAC is, as a VXLAN device does."""


class _LegDevices(NamedTuple):
    outside: int
    inside: int
    router_id: str
    mark: bytes


Work = list[tuple[Item, Request]]


class Installer:
    """One thread at a time."""

    def __init__(self, settings: NetlinkSettings) -> None:
        """In the host's network namespace. Raises OSError."""
        self._settings = settings
        self._route = Channel(ROUTE)
        self._filter = Channel(NETFILTER)
        self._segments: dict[Segment, _SegmentDevices] = {}
        self._legs: dict[str, _LegDevices] = {}
        self._legs_by_mark: dict[bytes, str] = {}
        self._routers: dict[str, Namespace] = {}
        self._inherited = Inheritance({}, {})
        self._geneve = Geneve(settings, self._route)
        self._failed: dict[Item, str] = {}

    def close(self) -> None:
        """What is installed stays."""
        self._route.close()
        self._filter.close()
        for router in self._routers.values():
            router.close()
        self._routers.clear()

    # -- before anything

    def prepare(self) -> None:
        """The filter's fixed part, if it is not there; else what there is already. Raises KernelError, OSError."""
        try:
            self._transact(static_requests())
        except KernelError as failure:
            if failure.code != _EEXIST:
                raise
        self._inherited = read_inheritance(self._route, self._filter)
        self._geneve.inherit(self._inherited.devices)

    def _transact(self, requests: Sequence[Request]) -> None:
        if requests:
            self._filter.transact(requests, nft.BEGIN, nft.END)

    # -- changes

    def apply(self, changes: Sequence[Change]) -> dict[Item, str]:
        """Carry the changes out; returns what failed and why, by object. Raises OSError if the kernel does not answer.
        """
        self._failed = {}
        added, removed = _by_kind(changes, gone=False), _by_kind(changes, gone=True)
        self._each(added[SegmentItem], lambda change: self._add_segment(change.item))
        self._each(added[RouterItem], lambda change: self._add_router(change.item))
        self._each(added[LegItem], self._add_leg)
        self._filter_work(self._filter_additions([*added[TapItem], *added[ElementItem]]))
        self._do(self._route, self._enslave(added[TapItem]))
        self._do(self._route, self._forwarding([*added[MacItem], *added[FloodItem]]))
        self._in_routers([*added[RouteItem], *added[RuleItem]])
        self._forget_resolved([*added[ElementItem], *removed[ElementItem]])
        self._in_routers([*removed[RouteItem], *removed[RuleItem]])
        self._do(self._route, self._forwarding([*removed[MacItem], *removed[FloodItem]]))
        self._do(self._route, self._release(removed[TapItem]))
        self._filter_work(self._filter_removals([*removed[TapItem], *removed[ElementItem]]))
        self._each(removed[LegItem], self._remove_leg)
        self._each(removed[RouterItem], lambda change: self._remove_router(change.item))
        self._each(removed[SegmentItem], lambda change: self._remove_segment(change.item))
        return self._failed

    def _each(self, changes: Sequence[Change], action: Callable[[Change], None]) -> None:
        for change in changes:
            try:
                action(change)
            except (KernelError, OSError) as problem:
                self._failed[change.item] = str(problem)

    def _do(self, channel: Channel, work: Work) -> None:
        if not work:
            return
        refused = channel.submit([request for _, request in work])
        for index, problem in refused.items():
            self._failed[work[index][0]] = str(problem)

    # -- segments

    def _add_segment(self, item: Item) -> None:
        assert isinstance(item, SegmentItem)
        segment, settings = item.segment, self._settings
        bridge, tunnel, alias = bridge_name(segment), tunnel_name(segment), ALIAS + segment_id(segment)
        known = [self._inherited.devices.pop(name, None) for name in (bridge, tunnel)]
        ours = [link for link in known if link is not None and link.alias == alias and link.up]
        vxlan = segment.network_type is NetworkType.VXLAN
        if len(ours) == 2 and ours[1].master == ours[0].ifindex and ours[1].mtu == settings.tunnel_mtu:
            if not vxlan:
                self._geneve.connect(segment, ours[1].ifindex)
            self._segments[segment] = _SegmentDevices(ours[0].ifindex, ours[1].ifindex, vxlan)
            return
        self._route.demand([rtnl.delete_link(link.name) for link in known if link is not None])
        self._route.demand([rtnl.add_bridge(bridge, alias)])
        try:
            bridge_index = socket.if_nametoindex(bridge)
            self._route.demand(_finish(bridge_index, alias, bridge))
            index = self._add_vxlan(segment, bridge_index) if vxlan else self._geneve.add_device(segment, bridge_index)
            self._transact(list(nft.add_elements(TABLE, SETS["tunnels"], [(number(index), b"")])))
            self._route.demand([rtnl.no_learning(index, tunnel), *_finish(index, alias, tunnel)])
            if not vxlan:
                self._geneve.connect(segment, index)
        except (KernelError, OSError):
            self._route.submit([rtnl.delete_link(tunnel), rtnl.delete_link(bridge)])
            raise
        self._segments[segment] = _SegmentDevices(bridge_index, index, vxlan)

    def _add_vxlan(self, segment: Segment, bridge: int) -> int:
        name, settings = tunnel_name(segment), self._settings
        request = rtnl.add_vxlan(
            name,
            ALIAS + segment_id(segment),
            bridge,
            segment.tunnel_id,
            settings.tunnel_address,
            settings.vxlan_port,
            settings.tunnel_mtu,
        )
        self._route.demand([request])
        return socket.if_nametoindex(name)

    def _remove_segment(self, item: Item) -> None:
        assert isinstance(item, SegmentItem)
        devices = self._segments.pop(item.segment, None)
        if devices is None:
            return
        if not devices.has_hosts:
            self._geneve.disconnect(item.segment)
        self._route.demand(
            [rtnl.delete_link(tunnel_name(item.segment)), rtnl.delete_link(bridge_name(item.segment))]
        )
        self._transact(list(nft.delete_elements(TABLE, SETS["tunnels"], [(number(devices.tunnel), b"")])))

    # -- routers

    def _add_router(self, item: Item) -> None:
        assert isinstance(item, RouterItem)
        self._routers[item.router_id] = Namespace(namespace_name(self._settings.namespace_prefix, item.router_id))

    def _remove_router(self, item: Item) -> None:
        assert isinstance(item, RouterItem)
        router = self._routers.pop(item.router_id, None)
        if router is not None:
            router.remove()

    def _add_leg(self, change: Change) -> None:
        assert isinstance(change.item, LegItem) and isinstance(change.after, Leg)
        subnet_id, leg = change.item.subnet_id, change.after
        router, segment = self._routers.get(leg.router_id), self._segments.get(leg.segment)
        if router is None or segment is None:
            raise KernelError(19, f"no place for the router's leg in subnet {subnet_id}")
        name, inside = leg_name(subnet_id), leg_inside(subnet_id)
        about = f"router leg {name} in subnet {subnet_id}"
        known = self._inherited.devices.pop(name, None)
        twin = self._inside(router, inside)
        if known is None or twin is None or known.master != segment.bridge or twin.mac != leg.mac:
            make = rtnl.add_leg(name, inside, leg.mac, router.fd, segment.bridge, _LEG_MTU, about)
            self._route.demand([*([rtnl.delete_link(name)] if known is not None else []), make])
        try:
            index = socket.if_nametoindex(name)
            self._transact(_chain(index, name, leg_rules(leg.mark)))
            self._route.demand([rtnl.no_learning(index, about), *_finish(index, ALIAS + subnet_id, about)])
            born = self._inside(router, inside)
            inside_index = born.ifindex if born is not None else 0
            router.channel.demand([rtnl.set_up(inside_index, about)])
            if leg.address:
                router.channel.demand([rtnl.add_address(inside_index, leg.address)])
        except (KernelError, OSError):
            self._route.submit([rtnl.delete_link(name)])
            raise
        self._legs[subnet_id] = _LegDevices(index, inside_index, leg.router_id, number(leg.mark))
        self._legs_by_mark[number(leg.mark)] = subnet_id

    def _inside(self, router: Namespace, name: str) -> rtnl.Link | None:
        links = map(rtnl.link_of, router.channel.dump(rtnl.list_links()))
        return next((link for link in links if link.name == name), None)

    def _remove_leg(self, change: Change) -> None:
        assert isinstance(change.item, LegItem)
        leg = self._legs.pop(change.item.subnet_id, None)
        if leg is None:
            return
        self._legs_by_mark.pop(leg.mark, None)
        self._route.demand([rtnl.delete_link(leg_name(change.item.subnet_id))])
        self._transact(_without_chain(leg.outside))

    def _in_routers(self, changes: Iterable[Change]) -> None:
        """Routes and rules, in few sends per router."""
        by_router: dict[str, Work] = {}
        for item, _before, after in changes:
            if isinstance(item, RouteItem):
                work = by_router.setdefault(item.router_id, [])
                if not isinstance(after, RouteValue):
                    work.append((item, rtnl.delete_route(item.table, item.destination)))
                elif (leg := self._legs.get(after.leg)) is None:
                    self._failed[item] = f"route to {item.destination}: no leg in subnet {after.leg}"
                else:
                    route = rtnl.add_route(
                        item.table,
                        item.destination,
                        leg.inside,
                        via=after.via,
                        source=after.source,
                        mtu=after.mtu,
                    )
                    work.append((item, route))
            elif isinstance(item, RuleItem):
                make = rtnl.delete_rule if after is NOTHING else rtnl.add_rule
                request = make(leg_inside(item.subnet_id), item.table)
                by_router.setdefault(item.router_id, []).append((item, request))
        for router_id, work in by_router.items():
            router = self._routers.get(router_id)
            if router is not None:
                self._do(router.channel, work)
            else:
                self._failed.update((item, f"router {router_id} has no namespace") for item, _ in work)

    def _forget_resolved(self, changes: Iterable[Change]) -> None:
        """An address that is elsewhere now: the routers resolve it again."""
        by_router: dict[str, list[Request]] = {}
        for item, before, _ in changes:
            if isinstance(item, ElementItem) and item.set_name == "addresses" and before is not NOTHING:
                subnet_id = self._legs_by_mark.get(item.key[:4])
                if subnet_id is not None:
                    leg = self._legs[subnet_id]
                    request = rtnl.forget_neighbor(leg.inside, item.key[4:])
                    by_router.setdefault(leg.router_id, []).append(request)
        for router_id, requests in by_router.items():
            self._routers[router_id].channel.submit(requests)

    # -- ports in bridges, forwarding entries

    def _enslave(self, added: Iterable[Change]) -> Work:
        work: Work = []
        for item, _, after in added:
            if isinstance(item, TapItem) and isinstance(after, Tap) and item not in self._failed:
                segment = self._segments.get(after.segment)
                if segment is None:
                    self._failed[item] = f"device {after.name}: its segment has no bridge"
                    continue
                about = f"device {after.name}"
                work.append((item, rtnl.enslave(item.ifindex, segment.bridge, about)))
                work.append((item, rtnl.no_learning(item.ifindex, about)))
                work.append((item, rtnl.set_up(item.ifindex, about)))
        return work

    def _release(self, removed: Iterable[Change]) -> Work:
        return [
            (item, rtnl.enslave(item.ifindex, 0, f"device {before.name}"))
            for item, before, _ in removed
            if isinstance(item, TapItem) and isinstance(before, Tap)
        ]

    def _forwarding(self, changes: Iterable[Change]) -> Work:
        work: Work = []
        for item, before, after in changes:
            if isinstance(item, MacItem):
                segment = self._segments.get(item.segment)
                if segment is None:
                    self._lacks_bridge(item, after)
                    continue
                new = after if isinstance(after, Via) else None
                old = before if isinstance(before, Via) else None
                if old is not None and (new is None or (old.host and not new.host)):
                    work += [(item, request) for request in self._mac_gone(segment, item.mac, old)]
                if new is not None:
                    work.append((item, self._mac_here(segment, item.mac, new)))
            elif isinstance(item, FloodItem):
                segment = self._segments.get(item.segment)
                if segment is None:
                    self._lacks_bridge(item, after)
                    continue
                work += [(item, request) for request in self._flood(item, segment, gone=after is NOTHING)]
        return work

    def _flood(self, item: FloodItem, segment: _SegmentDevices, *, gone: bool) -> list[Request]:
        if segment.has_hosts:
            return [(rtnl.delete_flood if gone else rtnl.add_flood)(segment.tunnel, item.host)]
        if gone:
            return self._geneve.delete_host(segment.tunnel, item.host)
        return self._geneve.add_host(item.segment, segment.tunnel, item.host)

    def _lacks_bridge(self, item: Item, after: object) -> None:
        if after is not NOTHING:
            self._failed[item] = "its segment has no bridge"

    def _device(self, via: Via) -> int:
        leg = self._legs.get(via.leg)
        return via.ifindex or (leg.outside if leg is not None else 0)

    def _mac_here(self, segment: _SegmentDevices, mac: bytes, via: Via) -> Request:
        if via.host and segment.has_hosts:
            return rtnl.add_remote_mac(segment.tunnel, mac, via.host)
        return rtnl.add_local_mac(segment.tunnel if via.host else self._device(via), mac)

    def _mac_gone(self, segment: _SegmentDevices, mac: bytes, via: Via) -> list[Request]:
        if via.host and segment.has_hosts:
            return rtnl.delete_remote_mac(segment.tunnel, mac)
        return [rtnl.delete_local_mac(segment.tunnel if via.host else self._device(via), mac)]

    # -- the filter

    def _filter_additions(self, added: Iterable[Change]) -> list[tuple[list[Item], list[Request]]]:
        """Groups of requests, each with the objects it is about."""
        groups: list[tuple[list[Item], list[Request]]] = []
        gone: dict[str, list[tuple[bytes, bytes]]] = {}
        new: dict[str, list[tuple[bytes, bytes]]] = {}
        items: dict[str, list[Item]] = {}
        for item, before, after in added:
            if isinstance(item, TapItem) and isinstance(after, Tap):
                groups.append(([item], _chain(item.ifindex, after.name, after.rules)))
            elif isinstance(item, ElementItem):
                key = self._key(item)
                if key is None:
                    self._failed[item] = "the device it is about is not there"
                    continue
                stands = self._inherited.elements.pop((item.set_name, key), None)
                if stands is not None and before is NOTHING:
                    if stands == _data(after):
                        continue
                    gone.setdefault(item.set_name, []).append((key, stands))
                elif before is not NOTHING:
                    gone.setdefault(item.set_name, []).append((key, _data(before)))
                new.setdefault(item.set_name, []).append((key, _data(after)))
                items.setdefault(item.set_name, []).append(item)
        for name, elements in new.items():
            requests = [
                *nft.delete_elements(TABLE, SETS[name], gone.get(name, ())),
                *nft.add_elements(TABLE, SETS[name], elements),
            ]
            groups.append((items[name], requests))
        return groups

    def _filter_removals(self, removed: Iterable[Change]) -> list[tuple[list[Item], list[Request]]]:
        groups: list[tuple[list[Item], list[Request]]] = []
        gone: dict[str, list[tuple[bytes, bytes]]] = {}
        items: dict[str, list[Item]] = {}
        for item, before, _ in removed:
            if isinstance(item, TapItem):
                groups.append(([item], _without_chain(item.ifindex)))
            elif isinstance(item, ElementItem) and (key := self._key(item)) is not None:
                gone.setdefault(item.set_name, []).append((key, _data(before)))
                items.setdefault(item.set_name, []).append(item)
        for name, elements in gone.items():
            groups.append((items[name], list(nft.delete_elements(TABLE, SETS[name], elements))))
        return groups

    def _filter_work(self, groups: list[tuple[list[Item], list[Request]]]) -> None:
        """All in one transaction; if it is refused, each group for itself, so that one does not keep the others."""
        if not groups:
            return
        try:
            self._transact_in_parts([request for _, requests in groups for request in requests])
        except KernelError:
            for items, requests in groups:
                try:
                    self._transact_in_parts(requests)
                except KernelError as problem:
                    self._failed.update((item, str(problem)) for item in items)

    def _transact_in_parts(self, requests: Sequence[Request]) -> None:
        """One transaction, but for what is too large for one message to the kernel."""
        part: list[Request] = []
        size = 0
        for request in requests:
            size += len(request.body)
            if size > _TRANSACTION_BYTES and part:
                self._transact(part)
                part, size = [], len(request.body)
            part.append(request)
        self._transact(part)

    def _key(self, item: ElementItem) -> bytes | None:
        match item.device:
            case None:
                return item.key
            case Segment():
                segment = self._segments.get(item.device)
                return None if segment is None else key_bytes(number(segment.tunnel), item.key)
            case _:
                leg = self._legs.get(item.device)
                return None if leg is None else key_bytes(item.key, number(leg.outside))


def _by_kind(changes: Sequence[Change], *, gone: bool) -> dict[type, list[Change]]:
    found: dict[type, list[Change]] = defaultdict(list)
    for change in changes:
        if (change.after is NOTHING) is gone:
            found[type(change.item)].append(change)
    return found


def _finish(index: int, alias: str, about: str) -> list[Request]:
    return [rtnl.set_alias(index, alias), rtnl.no_ipv6_address(index, about), rtnl.set_up(index, about)]


def _data(value: Value | object) -> bytes:
    return value if isinstance(value, bytes) else b""


def _chain(index: int, device: str, rules: Iterable[bytes]) -> list[Request]:
    chain = port_chain(index)
    requests = [
        nft.add_base_chain(nft.NETDEV, TABLE, chain, 0, 0, nft.DROP, device),
        nft.flush_chain(nft.NETDEV, TABLE, chain),
    ]
    return requests + [nft.add_rule(nft.NETDEV, TABLE, chain, rule) for rule in rules]


def _without_chain(index: int) -> list[Request]:
    """Some kernels remove a chain with its device; so it is made first, which is nothing if it is there."""
    chain = port_chain(index)
    return [
        nft.add_chain(nft.NETDEV, TABLE, chain),
        nft.flush_chain(nft.NETDEV, TABLE, chain),
        nft.delete_chain(nft.NETDEV, TABLE, chain),
    ]
