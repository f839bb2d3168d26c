"""Ports in bridges, and forwarding entries: what is to be asked of the kernel, by the devices that there are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dataplane.kernel import rtnl
from dataplane.kernel.wire import Request
from dataplane.model import Segment
from dataplane.netlink.book import NOTHING, Change
from dataplane.netlink.items import Failed, FloodItem, Item, MacItem, Tap, TapItem, Via
from dataplane.netlink.places import LegDevices, SegmentDevices
from dataplane.netlink.tunnels import Tunnels

Work = list[tuple[Item, Request]]


class EntryWork:
    """Makes requests and sends none. Any thread, while no segment or leg comes or goes."""

    def __init__(self, tunnels: Tunnels, legs: Mapping[str, LegDevices]) -> None:
        """`legs` is a view."""
        self._tunnels = tunnels
        self._legs = legs

    def joining(self, taps: Iterable[Change], failed: Failed) -> Work:
        """Put devices into their bridges, but for those that have failed already."""
        segments = self._tunnels.segments
        return [
            (item, request)
            for item, _, after in taps
            if isinstance(item, TapItem) and isinstance(after, Tap) and item not in failed
            for request in rtnl.join(item.ifindex, segments[after.segment].bridge, f"device {after.name}")
        ]

    def leaving(self, taps: Iterable[Change]) -> Work:
        return [
            (item, rtnl.enslave(item.ifindex, 0, f"device {before.name}"))
            for item, before, _ in taps
            if isinstance(item, TapItem) and isinstance(before, Tap)
        ]

    def forwarding(self, changes: Iterable[Change], failed: Failed) -> Work:
        """Of MACs and floods."""
        work: Work = []
        for item, before, after in changes:
            if not isinstance(item, MacItem | FloodItem):
                continue
            segment = self._tunnels.segments.get(item.segment)
            if segment is None:
                if after is not NOTHING:
                    failed[item] = "its segment has no bridge"
            elif isinstance(item, MacItem):
                new = after if isinstance(after, Via) else None
                old = before if isinstance(before, Via) else None
                if old is not None and (new is None or (old.host and not new.host)):
                    work += [(item, request) for request in self._mac_gone(segment, item.mac, old)]
                if new is not None:
                    work.append((item, self._mac_here(segment, item.mac, new)))
            else:
                flood = self._tunnels.no_flood if after is NOTHING else self._tunnels.flood
                work += [(item, request) for request in flood(item)]
        return work

    def _device(self, via: Via) -> int:
        leg = self._legs.get(via.leg)
        return via.ifindex or (leg.outside if leg is not None else 0)

    def _mac_here(self, segment: SegmentDevices, mac: bytes, via: Via) -> Request:
        if via.host and segment.has_hosts:
            return rtnl.add_remote_mac(segment.tunnel, mac, via.host)
        return rtnl.add_local_mac(segment.tunnel if via.host else self._device(via), mac)

    def _mac_gone(self, segment: SegmentDevices, mac: bytes, via: Via) -> list[Request]:
        if via.host and segment.has_hosts:
            return rtnl.delete_remote_mac(segment.tunnel, mac)
        return [rtnl.delete_local_mac(segment.tunnel if via.host else self._device(via), mac)]


def without_moved(macs: Iterable[Change], taps: Iterable[Change], failed: Failed) -> list[Change]:
    """Without the MACs of devices that are in another bridge now: what the old one had of a device went with it, and
    to remove a MAC of a device is to remove it where the device is."""
    bridges = {
        item.ifindex: tap.segment
        for item, _, tap in taps
        if isinstance(item, TapItem) and isinstance(tap, Tap) and item not in failed
    }
    return [change for change in macs if not _is_elsewhere(change, bridges)]


def _is_elsewhere(mac: Change, bridges: Mapping[int, Segment]) -> bool:
    item, before, _ = mac
    if not isinstance(item, MacItem) or not isinstance(before, Via):
        return False
    return bridges.get(before.ifindex, item.segment) != item.segment
