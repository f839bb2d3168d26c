"""Segments' bridges and tunnel devices: made, taken over, moved to another address of the host, removed."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterable
from pathlib import Path

from dataplane.kernel import rtnl
from dataplane.kernel.channel import Channel
from dataplane.kernel.wire import KernelError, Request
from dataplane.model import NetworkType, Segment
from dataplane.netlink import nft
from dataplane.netlink.filter import SETS, number
from dataplane.netlink.filtering import FilterWork, elements_group
from dataplane.netlink.geneve import Geneve
from dataplane.netlink.inheritance import Inheritance
from dataplane.netlink.items import FloodItem, Item, SegmentItem
from dataplane.netlink.names import ALIAS, TABLE, bridge_name, segment_id, tunnel_name
from dataplane.netlink.places import SegmentDevices
from dataplane.netlink.settings import NetlinkSettings

_FORGET_WAYS = Path("/proc/sys/net/ipv4/route/flush")


class Tunnels:
    """One thread at a time."""

    def __init__(self, settings: NetlinkSettings, route: Channel, filters: FilterWork) -> None:
        self._settings = settings
        self._route = route
        self._filter = filters
        self._geneve = Geneve(settings, route)
        self._inherited = Inheritance({}, {}, {})
        self.segments: dict[Segment, SegmentDevices] = {}
        """What stands."""

    def inherit(self, inherited: Inheritance) -> None:
        """What is taken over is taken out."""
        self._inherited = inherited
        self._geneve.inherit(inherited.devices)

    @property
    def geneve(self) -> int:
        """See `Geneve.device`."""
        return self._geneve.device

    def release_geneve(self) -> None:
        """Raises KernelError, OSError."""
        self._geneve.release()

    def add(self, item: Item) -> None:
        """Raises KernelError, OSError; nothing is left then that was made."""
        assert isinstance(item, SegmentItem)
        segment = item.segment
        self.segments.pop(segment, None)
        made: list[Request] = []
        try:
            self.segments[segment] = self._make(segment, made)
        except (KernelError, OSError):
            self._route.submit(made[::-1])
            raise

    def _make(self, segment: Segment, made: list[Request]) -> SegmentDevices:
        """`made` gets what removes what was made."""
        settings, alias = self._settings, ALIAS + segment_id(segment)
        vxlan = segment.network_type is NetworkType.VXLAN
        bridge, tunnel = bridge_name(segment), tunnel_name(segment)
        old_bridge, old_tunnel = (self._inherited.take_device(name, alias) for name in (bridge, tunnel))
        if old_bridge is None:
            self._route.demand([rtnl.add_bridge(bridge, alias)])
            made.append(rtnl.delete_index(socket.if_nametoindex(bridge), bridge))
        bridge_index = socket.if_nametoindex(bridge) if old_bridge is None else old_bridge.ifindex
        kept = rtnl.keep_bridge(bridge_index, old_bridge.odd if old_bridge is not None else (), bridge)
        self._route.demand([*kept, *rtnl.finish(bridge_index, alias, bridge)])
        identity = rtnl.Vxlan(segment.tunnel_id, settings.tunnel_address, settings.vxlan_port) if vxlan else None
        if old_tunnel is not None and old_tunnel.vxlan != identity and not self._moved(old_tunnel, identity):
            self._route.demand([rtnl.delete_index(old_tunnel.ifindex, tunnel)])
            old_tunnel = None
        if old_tunnel is not None:
            index = old_tunnel.ifindex
        elif identity is not None:
            self._route.demand([rtnl.add_vxlan(tunnel, alias, bridge_index, identity, settings.tunnel_mtu)])
            index = socket.if_nametoindex(tunnel)
        else:
            index = self._geneve.add_device(segment, bridge_index)
        made += [rtnl.delete_index(index, tunnel)] if old_tunnel is None else []
        self._filter.transact(list(nft.add_elements(TABLE, SETS["tunnels"], [(number(index), b"")])))
        self._inherited.elements.pop(("tunnels", number(index)), None)
        if old_tunnel is not None:
            joined = rtnl.enslave(index, bridge_index, tunnel)
            self._route.demand([joined, rtnl.set_mtu(index, settings.tunnel_mtu, tunnel)])
            self._route.demand([rtnl.keep_vxlan(index, tunnel)] if vxlan else [])
        self._route.demand([rtnl.no_learning(index, tunnel), *rtnl.finish(index, alias, tunnel)])
        if not vxlan:
            self._geneve.connect(segment, index)
        return SegmentDevices(bridge_index, index, vxlan)

    def remove(self, item: Item) -> dict[Item, str]:
        """Returns what is refused of the filter. Raises KernelError, OSError."""
        assert isinstance(item, SegmentItem)
        devices = self.segments.pop(item.segment, None)
        if devices is None:
            return {}
        if not devices.has_hosts:
            self._geneve.disconnect(item.segment)
        self._route.demand(
            [
                rtnl.delete_index(devices.tunnel, tunnel_name(item.segment)),
                rtnl.delete_index(devices.bridge, bridge_name(item.segment)),
            ]
        )
        return self._filter.do([elements_group([item], "tunnels", [(number(devices.tunnel), b"")], [])])

    # -- hosts that group frames go to, and all of a Geneve segment's

    def flood(self, item: FloodItem) -> list[Request]:
        devices = self.segments[item.segment]
        if devices.has_hosts:
            return [rtnl.add_flood(devices.tunnel, item.host)]
        return self._geneve.add_host(item.segment, devices.tunnel, item.host)

    def no_flood(self, item: FloodItem) -> list[Request]:
        devices = self.segments[item.segment]
        if devices.has_hosts:
            return [rtnl.delete_flood(devices.tunnel, item.host)]
        return self._geneve.delete_host(devices.tunnel, item.host)

    # -- the host has another address

    def move(self, settings: NetlinkSettings, floods: Iterable[FloodItem]) -> dict[int, KernelError]:
        """Tunnels end at the address of these settings now, as they are: nothing of what they know is lost. Returns
        what is refused. Raises OSError."""
        self._settings = settings
        self._geneve.settings = settings
        requests = [
            rtnl.set_local(devices.tunnel, settings.tunnel_address, f"tunnel device {tunnel_name(segment)}")
            for segment, devices in self.segments.items()
            if devices.has_hosts
        ]
        for item in floods:
            devices = self.segments.get(item.segment)
            requests += self.flood(item) if devices is not None and not devices.has_hosts else []
        refused = self._route.submit(requests)
        # The kernel remembers with each remote host what address to send from.
        with contextlib.suppress(OSError):
            _FORGET_WAYS.write_text("0")
        return refused

    def _moved(self, link: rtnl.Link, identity: rtnl.Vxlan | None) -> bool:
        """Whether an earlier agent's tunnel ends at the right address now, where nothing else was wrong with it."""
        if identity is None or link.vxlan is None or link.vxlan._replace(local=identity.local) != identity:
            return False
        return not self._route.submit([rtnl.set_local(link.ifindex, identity.local, f"tunnel device {link.name}")])
