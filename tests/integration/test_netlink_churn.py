"""The netlink data plane by itself, in a namespace of its own: what is made and removed again leaves nothing."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dataplane.addresses import parse_address, parse_prefix
from dataplane.base import Batch, Event, Ready
from dataplane.model import (
    FixedIp,
    Key,
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
from tests.lab import wait_until
from tests.lab.netns import Namespace, create_namespaces, delete_namespaces, namespaces_of

pytestmark = pytest.mark.lab

SEGMENT = Segment(NetworkType.VXLAN, 4097)
ROUNDS = 50


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


@pytest.fixture
def host() -> Iterator[Namespace]:
    (made,) = create_namespaces([f"acachurn-{uuid.uuid4().hex[:8]}"])
    made.ip("link set lo up", "addr add 192.0.2.1/32 dev lo", f"link add {PORT.port.device_name} type veth peer name p")
    yield made
    delete_namespaces([*namespaces_of(made.name), made.name])


def open_plane(host: Namespace) -> tuple[NetlinkDataPlane, list[Event]]:
    """Its threads live in the namespace that they are started from."""
    events: list[Event] = []
    ready = threading.Event()

    def listen(event: Event) -> None:
        events.append(event)
        if isinstance(event, Ready):
            ready.set()

    plane = NetlinkDataPlane(NetlinkSettings(parse_address("192.0.2.1"), namespace_prefix=f"{host.name}-"))
    host.call(lambda: plane.open(listen))
    assert ready.wait(10.0), events
    return plane, events


def descriptors_open() -> int:
    """Those that a data plane could leak: network namespaces. (Sockets of other tests' threads come and go.)"""
    count = 0
    for one in Path("/proc/self/fd").iterdir():
        try:
            count += "net:[" in str(one.readlink())
        except OSError:  # closed since it was listed
            continue
    return count


def traces(host: Namespace) -> tuple[list[str], list[str], list[str], str]:
    return (
        # By name: whether the kernel has seen a carrier yet is not ours.
        [line.split()[1] for line in host.run("ip", "-o", "link").splitlines()],
        namespaces_of(host.name),
        # Not the kernel's own entries for groups, which come and go with the carrier.
        [line for line in host.run("bridge", "fdb").splitlines() if " dst " in line or " master " in line],
        host.run("nft", "list", "ruleset"),
    )


def test_rounds_of_making_and_removing_leave_nothing(host: Namespace) -> None:
    plane, _ = open_plane(host)

    def once() -> None:
        whole = [
            Batch(Kind.SUBNET, [BLUE, GREEN]),
            Batch(Kind.PORT, [PORT]),
            Batch(Kind.NEIGHBOR, [neighbor(number) for number in range(2, 22)]),
            Batch(Kind.ROUTER, [ROUTER]),
        ]
        assert host.call(lambda: plane.apply(whole)).problems == {}
        gone = [Batch(batch.kind, (), [wanted.id for wanted in batch.upserts]) for batch in whole]
        assert host.call(lambda: plane.apply(gone)).problems == {}

    once()
    before, descriptors = traces(host), descriptors_open()
    for _ in range(ROUNDS):
        once()
    assert descriptors_open() <= descriptors
    wait_until(lambda: traces(host) == before, 5.0, "as before")
    plane.close()


def test_what_the_kernel_refuses_is_told_with_its_object_and_tried_again(host: Namespace) -> None:
    plane, _ = open_plane(host)
    # Somebody else has the tunnel's number and port.
    host.ip("link add foreign type vxlan id 4097 dstport 4789 local 192.0.2.1", "link set foreign up")
    problems = host.call(lambda: plane.apply([Batch(Kind.SUBNET, [BLUE])])).problems
    reason = problems[Key(Kind.SUBNET, "blue")].reason
    assert "VXLAN device" in reason and "VXLAN/4097" in reason

    host.ip("link del foreign")
    assert host.call(lambda: plane.apply([Batch(Kind.SUBNET, [BLUE])])).problems == {}
    assert host.call(lambda: plane.apply([Batch(Kind.SUBNET, (), ["blue"])])).problems == {}
    plane.close()


def test_a_device_taken_out_of_its_bridge_is_put_back(host: Namespace) -> None:
    plane, events = open_plane(host)
    both = [Batch(Kind.SUBNET, [BLUE]), Batch(Kind.PORT, [PORT])]
    assert host.call(lambda: plane.apply(both)).problems == {}
    host.ip(f"link set {PORT.port.device_name} nomaster")
    wait_until(lambda: any(PORT.id in getattr(event, "port_ids", ()) for event in events), 5.0, "noticed")
    assert host.call(lambda: plane.apply([Batch(Kind.PORT, [PORT])])).problems == {}
    assert "master" in host.run("ip", "-o", "link", "show", PORT.port.device_name)
    assert PORT.port.mac.hex(":") in host.run("bridge", "fdb", "show", "dev", PORT.port.device_name)
    plane.close()


def test_a_port_in_subnets_of_two_tunnels_is_refused(host: Namespace) -> None:
    plane, _ = open_plane(host)
    other = SubnetWanted(GREEN.subnet, SubnetRef("green", Segment(NetworkType.VXLAN, 4098)))
    problems = host.call(lambda: plane.apply([Batch(Kind.PORT, [replace(PORT, subnets=(BLUE, other))])])).problems
    assert "different tunnels" in problems[Key(Kind.PORT, PORT.id)].reason
    plane.close()
