"""Which requests move tunnels to another address of the host."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from dataplane.addresses import parse_address
from dataplane.kernel.channel import Channel
from dataplane.kernel.wire import KernelError, Request
from dataplane.model import NetworkType, Segment
from dataplane.netlink.filtering import FilterWork
from dataplane.netlink.items import FloodItem
from dataplane.netlink.places import SegmentDevices
from dataplane.netlink.settings import NetlinkSettings
from dataplane.netlink.tunnels import Tunnels

OLD, NEW, HOST = (parse_address(text) for text in ("192.0.2.1", "192.0.2.2", "192.0.2.99"))
VXLAN, GENEVE = Segment(NetworkType.VXLAN, 5), Segment(NetworkType.GENEVE, 6)


class Recorder:
    """In the place of a channel."""

    def __init__(self) -> None:
        self.requests: list[Request] = []

    def submit(self, requests: Sequence[Request]) -> dict[int, KernelError]:
        self.requests += requests
        return {}


def test_every_tunnel_gets_the_new_address_and_geneve_filters_are_said_again() -> None:
    recorder, settings = Recorder(), NetlinkSettings(OLD)
    tunnels = Tunnels(settings, cast(Channel, recorder), cast(FilterWork, None))
    tunnels.segments[VXLAN] = SegmentDevices(10, 11)
    tunnels.segments[GENEVE] = SegmentDevices(12, 13, has_hosts=False)
    floods = [FloodItem(VXLAN, HOST), FloodItem(GENEVE, HOST)]
    assert tunnels.move(replace(settings, tunnel_address=NEW), floods) == {}
    change, *filters = recorder.requests
    assert NEW in change.body
    assert filters == tunnels.flood(FloodItem(GENEVE, HOST)) and len(filters) == 2
    for request in filters:
        assert NEW in request.body and HOST in request.body and OLD not in request.body
