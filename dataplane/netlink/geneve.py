"""Geneve tunnels: one device of the host for all of them, and for each segment a device in its bridge from which
filters send into it.

The kernel's Geneve devices (drivers/net/geneve.c) have one remote host and the source address that the route gives, or
each frame brings tunnel id, remote host and source address along: here it is one device of the second kind. Which host
a frame is for says the mark that the bridge's filter has given it.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping

from dataplane.kernel import rtnl
from dataplane.kernel.channel import ROUTE, Channel
from dataplane.kernel.rtnl import Link
from dataplane.kernel.wire import KernelError, Request
from dataplane.model import Segment
from dataplane.netlink import tc
from dataplane.netlink.names import ALIAS, GENEVE_DEVICE, host_number, segment_id, tunnel_name
from dataplane.netlink.settings import NetlinkSettings

_EOPNOTSUPP = 95
_NEEDED = ("geneve", "dummy")


def why_no_geneve() -> str:
    """Why this kernel cannot make Geneve tunnels, in words that follow "is"; empty if it can, or if it does not say.
    In the calling thread's network namespace.

    The kernel is asked for devices that it would refuse to make in any case: nothing is changed.
    """
    try:
        channel = Channel(ROUTE)
    except OSError:
        return ""
    try:
        refused = channel.submit([rtnl.impossible_device(kind) for kind in _NEEDED])
    except OSError:
        return ""
    finally:
        channel.close()
    lacks = [_NEEDED[index] for index, problem in refused.items() if problem.code == _EOPNOTSUPP]
    return f"not supported by this kernel, which lacks {' and '.join(lacks)} devices" if lacks else ""


class Geneve:
    """One thread at a time."""

    def __init__(self, settings: NetlinkSettings, route: Channel) -> None:
        self.settings = settings
        """May be exchanged: what is added from then on is as they say."""
        self._route = route
        self._device = 0
        self._segments: dict[Segment, int] = {}
        self._inherited: Mapping[str, Link] = {}

    def inherit(self, devices: dict[str, Link]) -> None:
        """Take over the host's device of an earlier agent, if it is as this one's would be. Of the others, those that
        are taken over later are to be taken out of `devices` then."""
        self._inherited = devices
        link = devices.pop(GENEVE_DEVICE, None)
        if link is not None and link.alias == self._alias and link.up:
            self._device = link.ifindex

    @property
    def device(self) -> int:
        """The index of the host's device while segments use it, else 0."""
        return self._device if self._segments else 0

    @property
    def _alias(self) -> str:
        return f"{ALIAS}geneve/{self.settings.geneve_port}"

    def add_device(self, segment: Segment, bridge: int) -> int:
        """The segment's device in its bridge, yet down; returns its index. Raises KernelError, OSError."""
        name = tunnel_name(segment)
        about = f"Geneve device {name} ({segment_id(segment)})"
        self._route.demand([rtnl.add_dummy(name, bridge, self.settings.tunnel_mtu, about)])
        index = socket.if_nametoindex(name)
        self._route.demand([tc.add_classifier(index, about)])
        return index

    def connect(self, segment: Segment, index: int) -> None:
        """Frames that come out of the segment's tunnel enter its device. Raises KernelError, OSError."""
        self._segments[segment] = index
        try:
            if not self._device or not _is(self._device):
                self._device = self._make()
                self._route.demand([self._receive(*one) for one in self._segments.items()])
            else:
                self._route.demand([self._receive(segment, index)])
        except (KernelError, OSError):
            self.disconnect(segment)
            raise

    def disconnect(self, segment: Segment) -> None:
        """The last one takes the host's device away. Raises KernelError, OSError."""
        self._segments.pop(segment, None)
        if self._in_use:
            self._route.demand([tc.receive_no_more(self._device, segment.tunnel_id, _about(segment))])
        self.release()

    @property
    def _in_use(self) -> bool:
        """Segments of an earlier agent that nobody has wanted again still use it."""
        return bool(self._segments) or any(link.kind == "dummy" for link in self._inherited.values())

    def release(self) -> None:
        """Take the host's device away if no segment uses it. Raises KernelError, OSError."""
        if self._device and not self._in_use:
            self._device = 0
            self._route.demand([rtnl.delete_link(GENEVE_DEVICE)])

    def _receive(self, segment: Segment, index: int) -> Request:
        return tc.receive(self._device, segment.tunnel_id, index, _about(segment))

    def _make(self) -> int:
        self._route.demand([rtnl.delete_link(GENEVE_DEVICE)])
        port = self.settings.geneve_port
        about = f"Geneve device {GENEVE_DEVICE} (UDP port {port})"
        self._route.demand([rtnl.add_geneve(GENEVE_DEVICE, port, self.settings.tunnel_mtu, about)])
        try:
            index = socket.if_nametoindex(GENEVE_DEVICE)
            self._route.demand(
                [
                    tc.add_classifier(index, about),
                    rtnl.set_alias(index, self._alias),
                    rtnl.no_ipv6_address(index, about),
                    rtnl.set_up(index, about),
                ]
            )
        except (KernelError, OSError):
            self._route.submit([rtnl.delete_link(GENEVE_DEVICE)])
            raise
        return index

    def add_host(self, segment: Segment, device: int, host: bytes) -> list[Request]:
        """The segment's device sends to the host, and a copy of every group frame."""
        settings = self.settings
        return tc.add_host(
            device,
            host_number(host),
            self._device,
            segment.tunnel_id,
            settings.tunnel_address,
            host,
            settings.geneve_port,
        )

    def delete_host(self, device: int, host: bytes) -> list[Request]:
        return tc.delete_host(device, host_number(host), host)


def _about(segment: Segment) -> str:
    return f"Geneve tunnel {segment.tunnel_id}"


def _is(index: int) -> bool:
    try:
        return socket.if_indextoname(index) == GENEVE_DEVICE
    except OSError:
        return False
