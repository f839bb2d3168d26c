"""Carries changes out: devices first, then the filter, then what sends traffic there; removal in the opposite order."""

from __future__ import annotations

import socket
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import AbstractContextManager, nullcontext

from dataplane.kernel import rtnl
from dataplane.kernel.channel import ROUTE, Channel
from dataplane.kernel.wire import KernelError, Request
from dataplane.netlink.book import NOTHING, Change
from dataplane.netlink.carrier import Carrier
from dataplane.netlink.entries import EntryWork, Work, without_moved
from dataplane.netlink.filter import leg_rules, number, static_requests
from dataplane.netlink.filterchanges import FilterChanges
from dataplane.netlink.filtering import FilterWork, Group
from dataplane.netlink.hooks import Hooks, own_chain
from dataplane.netlink.inheritance import Inheritance, read_inheritance, read_layout
from dataplane.netlink.items import (
    ElementItem,
    Failed,
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
    TapItem,
)
from dataplane.netlink.layout import give_way
from dataplane.netlink.names import (
    ALIAS,
    leg_inside,
    leg_name,
    namespace_name,
)
from dataplane.netlink.namespaces import Namespace
from dataplane.netlink.notices import EVERY, Notices
from dataplane.netlink.places import LegDevices, Places
from dataplane.netlink.settings import NetlinkSettings
from dataplane.netlink.standing import ChainKey, Reader, read_links
from dataplane.netlink.traces import without_chain
from dataplane.netlink.tunnels import Tunnels

_LEG_MTU = 9000
_FEW = 200
"""Changes whose notices are worth hearing."""
_MANY_PORTS = 12
_JOIN_TIMEOUT_S = 60.0


class Installer:
    """One thread at a time. Owns its sockets, `reader` and `notices`."""

    def __init__(self, settings: NetlinkSettings, notices: Notices) -> None:
        """In the host's network namespace. Raises OSError."""
        self._settings = settings
        self._legs: dict[str, LegDevices] = {}
        self._legs_by_mark: dict[bytes, str] = {}
        self._routers: dict[str, Namespace] = {}
        self._failed: dict[Item, str] = {}
        self._rules: Mapping[ChainKey, tuple[bytes, ...]] = {}
        self._inherited = Inheritance({}, {}, {})
        self._notices = notices
        self._route = Channel(ROUTE)
        self.reader = Reader()
        self._filter = FilterWork(self.reader)
        self._tunnels = Tunnels(settings, self._route, self._filter)
        self._segments = self._tunnels.segments
        self._hooks = Hooks(self._filter.transact)
        self._changes = FilterChanges(self._hooks, lambda: self.places)
        self._entries = EntryWork(self._tunnels, self._legs)
        self._joiner = ThreadPoolExecutor(1, thread_name_prefix="netlink-join")
        self._joining: list[tuple[list[Change], Future[Failed]]] = []
        self._late: Failed = {}

    def close(self) -> None:
        """What is installed stays."""
        self._notices.close()
        self._joiner.shutdown(wait=False, cancel_futures=True)
        self._route.close()
        self._filter.close()
        self.reader.close()
        for router in self._routers.values():
            router.close()
        self._routers.clear()

    @property
    def places(self) -> Places:
        return Places(self._segments, self._legs, self._routers, self._tunnels.geneve, self._hooks.shared, self._rules)

    @property
    def inherited(self) -> Inheritance:
        """What stands and is in no book; whoever removes such a thing takes it out."""
        return self._inherited

    # -- before anything

    def prepare(self) -> None:
        """The filter's fixed part; what there is already is read. Raises KernelError, OSError, and LayoutError before
        anything is touched."""
        older = give_way(read_layout(self.reader))
        self._notices.open(self._filter.number)
        self._filter.transact([*older, *static_requests()])
        self._hooks.prepare()
        chains = self.reader.chains()
        self._rules = chains.rules
        self._inherited = read_inheritance(self.reader, self._settings.namespace_prefix)
        self._tunnels.inherit(self._inherited)
        self._hooks.inherit(self._inherited.elements, chains.uses)

    @property
    def settings(self) -> NetlinkSettings:
        """As they are now: see `move_tunnels`."""
        return self._settings

    def move_tunnels(self, settings: NetlinkSettings, floods: Iterable[FloodItem]) -> dict[int, KernelError]:
        """These settings have another tunnel address; `floods` are all that are installed. Returns what is refused.
        Raises OSError."""
        self._settings = settings
        return self._tunnels.move(settings, floods)

    def prepare_filter(self) -> None:
        """Put the filter's fixed part back. Raises KernelError, OSError."""
        self._filter.transact(static_requests())
        self._hooks.prepare()
        self._rules = self.reader.chains().rules

    def dismiss(self, requests: Sequence[Request], filters: Sequence[Request]) -> dict[int, KernelError]:
        """Remove what is in no book: devices and entries one by one (returns the refused), of the filter all or
        nothing. Raises KernelError, OSError."""
        with self.muted(len(requests)):
            refused = self._route.submit(requests)
            self._filter.transact_in_parts(filters)
        return refused

    def release_geneve(self) -> None:
        """The host's Geneve device goes with the last segment that used it, whoever made that. Raises KernelError,
        OSError."""
        self._tunnels.release_geneve()

    # -- what those need who install neighbours

    @property
    def route(self) -> Channel:
        return self._route

    @property
    def filter(self) -> FilterWork:
        return self._filter

    def muted(self, count: int, devices: Collection[int] = (EVERY,)) -> AbstractContextManager[None]:
        """See Notices.muted(). While few entries are changed all is heard, and found to be as it should."""
        return nullcontext() if count <= _FEW else self._notices.muted(devices)

    def take_unheard(self) -> set[int]:
        """See Notices."""
        return self._notices.take_unheard()

    def forget_resolved(self, mark: bytes, addresses: Iterable[bytes]) -> None:
        """Addresses of the subnet with this mark that are elsewhere now: its router resolves them again."""
        leg = self._legs.get(self._legs_by_mark.get(mark, ""))
        if leg is not None:
            requests = [rtnl.forget_neighbor(leg.inside, address) for address in addresses]
            self._routers[leg.router_id].channel.submit(requests)

    # -- changes

    def apply(self, changes: Sequence[Change]) -> dict[Item, str]:
        """Carry the changes out; returns what failed and why, by object. Of many ports, putting them into bridges goes
        on when it returns: see `settle`. Raises OSError if the kernel does not answer.
        """
        entries = sum(1 for change in changes if isinstance(change.item, MacItem | FloodItem))
        with self.muted(entries):
            return self._apply(changes)

    def settle(self) -> dict[Item, str]:
        """Wait for what goes on; returns what of it failed and why, by object."""
        self._await_joining()
        late, self._late = self._late, {}
        return late

    def _await_joining(self) -> None:
        joining, self._joining = self._joining, []
        for joined, future in joining:
            try:
                late = future.result(_JOIN_TIMEOUT_S)
            except (OSError, FutureTimeout, CancelledError) as problem:
                late = {change.item: f"the kernel does not answer: {problem!r}" for change in joined}
            self._unhook_failed(joined, late)
            self._late.update(late)

    def _apply(self, changes: Sequence[Change]) -> dict[Item, str]:
        self._failed = {}
        added, removed = _by_kind(changes, gone=False), _by_kind(changes, gone=True)
        self._each(added[SegmentItem], lambda change: self._tunnels.add(change.item))
        self._each(added[RouterItem], lambda change: self._add_router(change.item))
        self._each(added[LegItem], self._add_leg)
        faults = self._settings.faults
        faults.at("netlink.devices")
        filtered = [*added[TapItem], *added[ElementItem]]
        self._filter_all(self._changes.additions(filtered, self._inherited, self._failed))
        faults.at("netlink.filter")
        self._join(added[TapItem], added[MacItem])
        self._do(self._route, self._entries.forwarding(added[FloodItem], self._failed))
        self._in_routers([*added[RouteItem], *added[RuleItem]])
        faults.at("netlink.removal")
        self._forget_resolved([*added[ElementItem], *removed[ElementItem]])
        if any(removed.values()):
            self._remove(removed, added[TapItem])
        return self._failed

    def _remove(self, removed: Mapping[type, Sequence[Change]], taps: Sequence[Change]) -> None:
        self._await_joining()
        self._in_routers([*removed[RouteItem], *removed[RuleItem]])
        macs = without_moved(removed[MacItem], taps, self._failed | self._late)
        self._do(self._route, self._entries.forwarding([*macs, *removed[FloodItem]], self._failed))
        self._do(self._route, self._entries.leaving(removed[TapItem]))
        self._filter_all(self._changes.removals([*removed[TapItem], *removed[ElementItem]]))
        self._each(removed[LegItem], self._remove_leg)
        self._each(removed[RouterItem], lambda change: self._remove_router(change.item))
        self._each(removed[SegmentItem], self._remove_segment)

    def _join(self, taps: Sequence[Change], macs: Sequence[Change]) -> None:
        """Ports into their bridges, and their MACs. For many a thread of its own does it: the kernel takes longer for
        it than for all else."""
        work = self._entries.joining(taps, self._failed) + self._entries.forwarding(macs, self._failed)
        if len(taps) < _MANY_PORTS and not self._joining:
            self._do(self._route, work)
            self._unhook_failed(taps, self._failed)
        else:
            try:
                future = self._joiner.submit(_submit, self._route, work)
            except RuntimeError as closed:
                raise OSError("the data plane is closing") from closed
            self._joining.append(([*taps, *macs], future))

    def _unhook_failed(self, taps: Iterable[Change], refused: Failed) -> None:
        """A port that the bridge refuses keeps no chain."""
        refused.update(self._filter.do(self._changes.unhook((tap, to) for tap, _, to in taps if tap in refused)))

    def _each(self, changes: Sequence[Change], action: Callable[[Change], None]) -> None:
        for change in changes:
            try:
                action(change)
            except (KernelError, OSError) as problem:
                self._failed[change.item] = str(problem)

    def _remove_segment(self, change: Change) -> None:
        self._failed.update(self._tunnels.remove(change.item))

    def _do(self, channel: Channel, work: Work) -> None:
        for item, why in _submit(channel, work).items():
            self._failed.setdefault(item, why)

    def _filter_all(self, groups: Sequence[Group]) -> None:
        self._failed.update(self._filter.do(groups))

    # -- routers

    def _add_router(self, item: Item) -> None:
        assert isinstance(item, RouterItem)
        known = self._routers.get(item.router_id)
        if known is not None:
            known.name_again()
            known.keep_settings()
            known.channel.demand(rtnl.usual_rules())
            return
        name = namespace_name(self._settings.namespace_prefix, item.router_id)
        router = Namespace(name, ALIAS + item.router_id)
        try:
            router.channel.demand(rtnl.usual_rules())
            self._notices.follow(item.router_id, router)
        except (KernelError, OSError):
            router.remove()
            raise
        self._routers[item.router_id] = router
        self._inherited.namespaces.pop(name, None)

    def _remove_router(self, item: Item) -> None:
        assert isinstance(item, RouterItem)
        router = self._routers.pop(item.router_id, None)
        if router is not None:
            self._notices.unfollow(item.router_id)
            router.remove()

    def _add_leg(self, change: Change) -> None:
        assert isinstance(change.item, LegItem) and isinstance(change.after, Leg)
        subnet_id, leg = change.item.subnet_id, change.after
        self._legs.pop(subnet_id, None)
        router, segment = self._routers.get(leg.router_id), self._segments.get(leg.segment)
        if router is None or segment is None:
            raise KernelError(19, f"no place for the router's leg in subnet {subnet_id}")
        name, inside = leg_name(subnet_id), leg_inside(subnet_id)
        about = f"router leg {name} in subnet {subnet_id}"
        known = self._inherited.take_device(name, ALIAS + subnet_id)
        twin = self._inside(router, inside)
        if known is not None and twin is None:
            self._route.demand([rtnl.delete_index(known.ifindex, name)])
            known = None
        if known is None:
            make = rtnl.add_leg(name, inside, leg.mac, router.fd, segment.bridge, _LEG_MTU, about)
            self._route.demand([make])
        index = socket.if_nametoindex(name) if known is None else known.ifindex
        try:
            if twin is not None and known is not None:
                self._route.demand([rtnl.enslave(index, segment.bridge, about)])
                router.channel.demand([rtnl.set_mac(twin.ifindex, leg.mac, about)] if twin.mac != leg.mac else [])
            self._filter.transact(own_chain(index, name, leg_rules(leg.mark)))
            self._route.demand([rtnl.no_learning(index, about), *rtnl.finish(index, ALIAS + subnet_id, about)])
            born = self._inside(router, inside)
            inside_index = born.ifindex if born is not None else 0
            with Carrier() as carrier:
                router.channel.demand([rtnl.set_up(inside_index, about)])
                carrier.wait(self._route, index, about)
            if leg.address:
                router.channel.demand([rtnl.add_address(inside_index, leg.address)])
        except (KernelError, OSError):
            self._route.submit([rtnl.delete_index(index, name)] if known is None else [])
            raise
        self._legs[subnet_id] = LegDevices(index, inside_index, leg.router_id, number(leg.mark))
        self._legs_by_mark[number(leg.mark)] = subnet_id

    def _inside(self, router: Namespace, name: str) -> rtnl.Link | None:
        return read_links(router.channel).get(name)

    def _remove_leg(self, change: Change) -> None:
        assert isinstance(change.item, LegItem)
        leg = self._legs.pop(change.item.subnet_id, None)
        if leg is None:
            return
        self._legs_by_mark.pop(leg.mark, None)
        self._route.demand([rtnl.delete_index(leg.outside, leg_name(change.item.subnet_id))])
        self._filter.transact(without_chain(leg.outside))

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
        by_mark: dict[bytes, list[bytes]] = {}
        for item, before, _ in changes:
            if isinstance(item, ElementItem) and item.set_name == "addresses" and before is not NOTHING:
                by_mark.setdefault(item.key[:4], []).append(item.key[4:])
        for mark, addresses in by_mark.items():
            self.forget_resolved(mark, addresses)


def _by_kind(changes: Sequence[Change], *, gone: bool) -> dict[type, list[Change]]:
    found: dict[type, list[Change]] = defaultdict(list)
    for change in changes:
        if (change.after is NOTHING) is gone:
            found[type(change.item)].append(change)
    return found


def _submit(channel: Channel, work: Work) -> Failed:
    """Returns what is refused, and why."""
    refused: Failed = {}
    problems = channel.submit([request for _, request in work]) if work else {}
    for index in sorted(problems):
        # What comes after the first of an object is its consequence.
        refused.setdefault(work[index][0], str(problems[index]))
    return refused
