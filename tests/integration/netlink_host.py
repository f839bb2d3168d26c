"""A network namespace as a host of the netlink data plane by itself, and what it is told in tests."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from dataplane.addresses import parse_address, parse_prefix
from dataplane.base import Applied, Batch, Event, Ready
from dataplane.devices.settings import DeviceSettings
from dataplane.model import (
    FixedIp,
    Kind,
    Layer,
    Neighbor,
    NeighborWanted,
    NetworkType,
    Port,
    PortWanted,
    RoutedSubnet,
    Router,
    RouterWanted,
    Segment,
    Subnet,
    SubnetRef,
    SubnetWanted,
)
from dataplane.netlink.plane import NetlinkDataPlane
from dataplane.netlink.settings import NetlinkSettings
from tests.lab.netns import Namespace, create_namespaces, delete_namespaces, namespaces_of

OWN_ADDRESS = parse_address("192.0.2.1")
NO_DEVICES = DeviceSettings()
SEGMENT = Segment(NetworkType.VXLAN, 4097)


def subnet(name: str, cidr: str, gateway: str, number: int) -> SubnetWanted:
    mac = bytes((0xAA, 0xFF, 0, 0, 0, number))
    address = parse_address(gateway)
    made = Subnet(name, 1, "vpc", "", NetworkType.VXLAN, 4097, parse_prefix(cidr), address, mac, False, (), (), "")
    return SubnetWanted(made, SubnetRef(name, SEGMENT))


BLUE, GREEN = subnet("blue", "10.0.1.0/24", "10.0.1.1", 1), subnet("green", "10.0.2.0/24", "10.0.2.1", 2)
ROUTER = RouterWanted(Router("router", 1, None, ()), (RoutedSubnet(BLUE, (), ()), RoutedSubnet(GREEN, (), ())))
OWN = FixedIp("blue", parse_address("10.0.1.11"))
PORT = PortWanted(
    Port("churn-port-1", 1, "vpc", "", "vm", "compute", bytes((0xAA, 0xBB, 0, 0, 0, 1)), True, (OWN,), (), ()),
    (BLUE,),
    (OWN,),
    frozenset({"blue"}),
)


def neighbor(number: int) -> NeighborWanted:
    fixed = FixedIp("green", bytes((10, 0, 2, number)))
    mac = bytes((0xAA, 0xBB, 0, 0, 1, number))
    made = Neighbor(f"n{number}", 1, "vpc", mac, parse_address("192.0.2.9"), (fixed,), Layer.L3, ())
    return NeighborWanted(made, (GREEN.ref,))


@contextmanager
def netlink_host() -> Iterator[Namespace]:
    (made,) = create_namespaces([f"acanl-{uuid.uuid4().hex[:8]}"])
    try:
        tap = PORT.port.device_name
        made.ip("link set lo up", "addr add 192.0.2.1/32 dev lo", f"link add {tap} type veth peer name p")
        made.ip(f"link set {tap} up")
        yield made
    finally:
        delete_namespaces([*namespaces_of(made.name), made.name])


def open_plane(
    host: Namespace, address: bytes = OWN_ADDRESS, devices: DeviceSettings = NO_DEVICES
) -> tuple[NetlinkDataPlane, list[Event]]:
    """Its threads live in the namespace that they are started from."""
    events: list[Event] = []
    ready = threading.Event()

    def listen(event: Event) -> None:
        events.append(event)
        if isinstance(event, Ready):
            ready.set()

    plane = NetlinkDataPlane(NetlinkSettings(address, namespace_prefix=f"{host.name}-", devices=devices))
    host.call(lambda: plane.open(listen))
    assert ready.wait(10.0), events
    return plane, events


WHOLE = (
    Batch(Kind.SUBNET, (BLUE, GREEN)),
    Batch(Kind.ROUTER, (ROUTER,)),
    Batch(Kind.PORT, (PORT,)),
    Batch(Kind.NEIGHBOR, tuple(neighbor(number) for number in range(2, 22))),
)
"""Two routed subnets, a port in one and neighbours in the other."""


def apply(host: Namespace, plane: NetlinkDataPlane, batches: Sequence[Batch]) -> Applied:
    return host.call(lambda: plane.apply(batches))


def removals(batches: Sequence[Batch]) -> list[Batch]:
    return [Batch(one.kind, (), [wanted.id for wanted in one.upserts]) for one in reversed(batches)]
