"""Where things are on this host: the indexes of devices and the namespaces that the kernel gave what was made."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from dataplane.model import Segment
from dataplane.netlink.filter import number
from dataplane.netlink.items import ElementItem
from dataplane.netlink.namespaces import Namespace
from dataplane.netlink.nft import key_bytes
from dataplane.netlink.standing import ChainKey


class SegmentDevices(NamedTuple):
    """Indexes of a segment's bridge and of its tunnel device."""

    bridge: int
    tunnel: int
    has_hosts: bool = True
    """Whether the tunnel device itself knows where each MAC is, as a VXLAN device does."""


class LegDevices(NamedTuple):
    """Indexes of a leg's ends, the inside one in the router's namespace; `mark` as it stands in registers."""

    outside: int
    inside: int
    router_id: str
    mark: bytes


class Places(NamedTuple):
    """Views, not copies: they change with what is installed."""

    segments: Mapping[Segment, SegmentDevices]
    legs: Mapping[str, LegDevices]
    routers: Mapping[str, Namespace]
    geneve: int = 0
    """The index of the device that all Geneve segments share; 0 if there are none."""
    ports_share_chains: bool = True
    """See `hooks.Hooks`."""
    rules: Mapping[ChainKey, tuple[bytes, ...]] = MappingProxyType({})
    """The rules of the filter's fixed part, as the kernel had them when it was made."""

    @property
    def bridges(self) -> list[int]:
        return [devices.bridge for devices in self.segments.values()]

    @property
    def tunnels(self) -> list[int]:
        return [devices.tunnel for devices in self.segments.values()]

    @property
    def devices(self) -> set[int]:
        """All that are ours."""
        return {*self.bridges, *self.tunnels, *(leg.outside for leg in self.legs.values()), self.geneve} - {0}

    def key_of(self, item: ElementItem) -> bytes | None:
        """The whole key of an element; None while the device it is about is not there."""
        match item.device:
            case None:
                return item.key
            case Segment():
                segment = self.segments.get(item.device)
                return None if segment is None else key_bytes(number(segment.tunnel), item.key)
            case _:
                leg = self.legs.get(item.device)
                return None if leg is None else key_bytes(item.key, number(leg.outside))
