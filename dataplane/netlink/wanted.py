"""Whether an object that stands is wanted by somebody, also if it is not installed yet."""

from __future__ import annotations

from dataplane.netlink.filter import number
from dataplane.netlink.items import (
    ElementItem,
    FloodItem,
    Item,
    MacItem,
    RouteItem,
    RouterItem,
    RuleItem,
    SegmentItem,
    TapItem,
    Via,
)
from dataplane.netlink.leftovers import item_of
from dataplane.netlink.names import ALIAS, leg_inside, shared_chain
from dataplane.netlink.objects import Objects
from dataplane.netlink.places import Places
from dataplane.netlink.standing import ElementKey
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
)


class Wanted:
    """For a moment: the caller's lock is held."""

    def __init__(self, book: Objects, places: Places) -> None:
        self._book = book
        self._tunnels = {devices.tunnel: segment for segment, devices in places.segments.items()}
        self._bridges = {devices.bridge: segment for segment, devices in places.segments.items()}
        self._legs = {leg.outside: subnet_id for subnet_id, leg in places.legs.items()}
        self._insides = {leg_inside(subnet_id): subnet_id for subnet_id in places.legs}

    def has_device(self, index: int) -> bool:
        """A port's or leg's."""
        return index in self._legs or self._book.wants(TapItem(index))

    def has(self, trace: Trace) -> bool:
        match trace:
            case ElementTrace(set_name, key, data):
                return any(map(self._book.wants, self.as_items((set_name, key), data)))
            case ChainTrace(index) | MemberTrace(index):
                return self.has_device(index)
            case HookTrace(index, chain, _):
                return self._book.wants(TapItem(index)) and shared_chain(index) == chain
            case LocalTrace(bridge, _, mac):
                segment = self._bridges.get(bridge)
                return segment is not None and self._book.wants(MacItem(segment, mac))
            case RemoteTrace(tunnel, mac):
                segment = self._tunnels.get(tunnel)
                via = self._book.wanted_value(MacItem(segment, mac)) if segment is not None else None
                return isinstance(via, Via) and bool(via.host)
            case FloodTrace(tunnel, host):
                segment = self._tunnels.get(tunnel)
                return segment is not None and self._book.wants(FloodItem(segment, host))
            case DeviceTrace(_, _, alias):
                return self._book.wants(item_of(alias))
            case NamespaceTrace(_, alias):
                return self._book.wants(RouterItem(alias.removeprefix(ALIAS)))
            case RouteTrace(router_id, table, destination):
                return self._book.wants(RouteItem(router_id, table, destination))
            case RuleTrace(router_id, device, table):
                return self._book.wants(RuleItem(router_id, self._insides.get(device, ""), table))

    def as_items(self, element: ElementKey, data: bytes) -> list[Item]:
        """The objects that an element may be."""
        name, key = element
        what = about(element, data)
        found: list[Item] = [ElementItem(name, key)]
        if what.device in self._legs:
            found.append(ElementItem(name, what.mark if name == "listeners" else b"", self._legs[what.device]))
        if what.tunnel in self._tunnels:
            segment = self._tunnels[what.tunnel]
            found.append(ElementItem(name, what.mac, segment))
            if key == number(what.tunnel) and name == "tunnels":
                found.append(SegmentItem(segment))
        return found
