"""Things arrive in any order, and devices come and go."""

from __future__ import annotations

import pytest

from goalstate_proto import common_pb2
from tests.conformance.cloud import Cloud, eventually, severed
from tests.conformance.network import (
    State,
    deletion,
    neighbor_state,
    port_state,
    router_state,
    subnet_state,
    vpc_state,
)

pytestmark = pytest.mark.lab


def test_a_routed_neighbour_before_its_subnet_and_router(cloud: Cloud) -> None:
    vpc = cloud.vpc()
    blue, green = vpc.subnet("10.0.1.0/24"), vpc.subnet("10.0.2.0/24")
    a, b = vpc.nic(cloud.one, blue), vpc.nic(cloud.two, green)
    guest, _ = cloud.guests(a, b)
    router = router_state("late", [blue, green])
    cloud.two.program(
        subnet_state(blue), subnet_state(green), router, port_state(b), neighbor_state(a, layer=1)
    )

    waiting = neighbor_state(b, layer=1)
    cloud.one.program(subnet_state(blue), port_state(a))
    reply = cloud.one.push(waiting)
    assert reply.status(waiting) == "PENDING"
    assert green.id in reply.reason(waiting)
    assert "router" in reply.reason(waiting)
    assert guest.cannot_reach(b.ip, for_=0.2)

    cloud.one.program(subnet_state(green))
    problem = cloud.one.problem(waiting)
    assert problem is not None
    assert "router" in problem["reason"]
    cloud.one.program(router)
    assert guest.can_reach(b.ip)
    cloud.one.wait_programmed(waiting)


def test_a_subnet_after_its_ports_and_neighbours(cloud: Cloud) -> None:
    vpc = cloud.vpc()
    net = vpc.subnet("10.0.1.0/24")
    a, b, c = vpc.nic(cloud.one, net), vpc.nic(cloud.one, net), vpc.nic(cloud.two, net)
    guest, *_ = cloud.guests(a, b, c)
    cloud.two.program(subnet_state(net), port_state(c), neighbor_state(a), neighbor_state(b))

    states: list[State] = [port_state(a), port_state(b), neighbor_state(c)]
    reply = cloud.one.push_v1(*states)
    for state in states:
        assert reply.status(state) == "PENDING"
        assert net.id in reply.reason(state)

    cloud.one.program(subnet_state(net))
    assert guest.can_reach(b.ip)
    assert guest.can_reach(c.ip)
    for state in states:
        cloud.one.wait_programmed(state)


def test_a_router_after_its_neighbours(cloud: Cloud) -> None:
    vpc = cloud.vpc()
    blue, green = vpc.subnet("10.0.1.0/24"), vpc.subnet("10.0.2.0/24")
    a, b = vpc.nic(cloud.one, blue), vpc.nic(cloud.two, green)
    guest, _ = cloud.guests(a, b)
    cloud.announce(vpc)
    router = router_state("after-all", [blue, green])
    assert guest.cannot_reach(b.ip, for_=0.2)

    for site in cloud.sites:
        site.program(router)
    assert guest.can_reach(b.ip)


def test_a_router_before_its_subnets(cloud: Cloud) -> None:
    vpc = cloud.vpc()
    blue, green = vpc.subnet("10.0.1.0/24"), vpc.subnet("10.0.2.0/24")
    a, b = vpc.nic(cloud.one, blue), vpc.nic(cloud.one, green)
    guest, _ = cloud.guests(a, b)
    router = router_state("before-all", [blue, green])
    reply = cloud.one.push(router)
    assert reply.status(router) == "PENDING"
    assert blue.id in reply.reason(router)
    assert green.id in reply.reason(router)

    cloud.one.program(port_state(a), port_state(b), subnet_state(blue), subnet_state(green))
    assert guest.can_reach(b.ip)
    cloud.one.wait_programmed(router)


def test_a_subnet_whose_vpc_brings_the_tunnel_id(cloud: Cloud) -> None:
    vpc = cloud.vpc()
    net = vpc.subnet("10.0.1.0/24")
    a, b = vpc.nic(cloud.one, net), vpc.nic(cloud.two, net)
    guest, _ = cloud.guests(a, b)
    bare = subnet_state(net)
    bare.configuration.tunnel_id = 0
    for site, own, other in ((cloud.one, a, b), (cloud.two, b, a)):
        reply = site.push(bare, port_state(own), neighbor_state(other))
        assert reply.status(port_state(own)) == "PENDING"
        assert reply.status(neighbor_state(other)) == "PENDING"
        assert vpc.id in reply.reason(port_state(own)) or net.id in reply.reason(port_state(own))
        site.program(vpc_state(vpc.id, tunnel_id=vpc.tunnel_id))
    assert guest.can_reach(b.ip)


def test_a_subnet_is_deleted_under_its_ports_and_comes_back(cloud: Cloud) -> None:
    vpc = cloud.vpc()
    net = vpc.subnet("10.0.1.0/24")
    a, b, c = vpc.nic(cloud.one, net), vpc.nic(cloud.one, net), vpc.nic(cloud.two, net)
    guest, *_ = cloud.guests(a, b, c)
    cloud.announce(vpc)
    assert guest.ping(b.ip).received == 1

    cloud.one.program(deletion(subnet_state(net)))
    assert severed(guest, b.ip)
    problem = cloud.one.problem(port_state(a))
    assert problem is not None
    assert net.id in problem["reason"]

    cloud.one.program(subnet_state(net))
    assert guest.can_reach(b.ip)
    assert guest.can_reach(c.ip)


def test_a_subnet_that_changes_its_tunnel_id(cloud: Cloud) -> None:
    vpc = cloud.vpc()
    net = vpc.subnet("10.0.1.0/24")
    a, b, c = vpc.nic(cloud.one, net), vpc.nic(cloud.one, net), vpc.nic(cloud.two, net)
    guest, *_ = cloud.guests(a, b, c)
    cloud.announce(vpc)
    assert guest.ping(c.ip).received == 1

    moved = subnet_state(net)
    moved.configuration.tunnel_id = vpc.tunnel_id + 0x2000
    cloud.one.program(moved)
    assert severed(guest, c.ip)
    assert guest.can_reach(b.ip)
    cloud.two.program(moved)
    assert guest.can_reach(c.ip)


def test_a_port_whose_device_comes_later(cloud: Cloud) -> None:
    vpc = cloud.vpc()
    net = vpc.subnet("10.0.1.0/24")
    a, b, c = vpc.nic(cloud.one, net), vpc.nic(cloud.one, net), vpc.nic(cloud.two, net)
    near, far = cloud.guests(b, c)
    state = port_state(a)
    everybody = [neighbor_state(nic) for nic in vpc.nics]
    reply = cloud.one.push(subnet_state(net), state, port_state(b), *everybody)
    assert reply.status(state) == "PENDING"
    assert "device" in reply.reason(state)
    cloud.one.wait_programmed(port_state(b))
    cloud.two.program(subnet_state(net), port_state(c), *everybody)

    cloud.guest(a)
    assert near.can_reach(a.ip)
    assert far.can_reach(a.ip)
    cloud.one.wait_programmed(state)


def test_a_device_that_vanishes_and_returns(cloud: Cloud) -> None:
    vpc = cloud.vpc()
    net = vpc.subnet("10.0.1.0/24")
    a, b, c = vpc.nic(cloud.one, net), vpc.nic(cloud.one, net), vpc.nic(cloud.two, net)
    near, far = cloud.guests(b, c)
    cloud.one.program(subnet_state(net), port_state(b), neighbor_state(c))
    without = cloud.one.footprint()
    guest = cloud.guest(a)
    for site in cloud.sites:
        site.push(subnet_state(net), *(neighbor_state(nic) for nic in vpc.nics))
    cloud.two.program(port_state(c))
    state = port_state(a)
    cloud.one.program(state)
    assert near.can_reach(a.ip)

    guest.detach()
    eventually(lambda: cloud.one.problem(state) is not None, "PENDING again")
    problem = cloud.one.problem(state)
    assert problem is not None
    assert problem["status"] == "pending"
    eventually(lambda: cloud.one.footprint() == without, "no flow of the port is left")
    assert severed(near, a.ip)

    guest.attach()
    cloud.one.wait_programmed(state)
    for other in (near, far):
        assert other.can_reach(a.ip)


def test_a_device_whose_switch_port_number_changes(cloud: Cloud) -> None:
    vpc = cloud.vpc()
    net = vpc.subnet("10.0.1.0/24")
    a, b, c = vpc.nic(cloud.one, net), vpc.nic(cloud.one, net), vpc.nic(cloud.two, net)
    guest, near, far = cloud.guests(a, b, c)
    cloud.announce(vpc)
    assert far.ping(a.ip).received == 1

    for _ in range(3):
        # Both swap, so that each may get a number that was the other's.
        guest.detach()
        near.detach()
        near.attach()
        guest.attach()
        for other, ip in ((far, a.ip), (far, b.ip), (near, a.ip), (guest, c.ip)):
            assert other.can_reach(ip)
            assert other.ping(ip, count=2).duplicates == 0


def test_update_without_device_deletes_and_with_device_creates(cloud: Cloud) -> None:
    vpc = cloud.vpc()
    net = vpc.subnet("10.0.1.0/24")
    a, b = vpc.nic(cloud.one, net), vpc.nic(cloud.one, net)
    guest, near = cloud.guests(a, b)
    cloud.one.program(subnet_state(net), port_state(b))
    for push in (cloud.one.push_v1, cloud.one.push):
        bound = port_state(a, operation=common_pb2.UPDATE)
        cloud.one.succeeds(push(bound))
        assert near.can_reach(a.ip)
        unbound = port_state(a, operation=common_pb2.UPDATE, device_id="", device_owner="")
        reply = push(unbound)
        assert reply.status(unbound) == "SUCCESS"
        assert severed(near, a.ip)
        assert cloud.one.agent.status()["resources"]["PORT"]["desired"] == 1
    assert severed(guest, b.ip)


def test_a_port_with_one_of_two_subnets_missing(cloud: Cloud) -> None:
    vpc = cloud.vpc()
    blue, green = vpc.subnet("10.0.1.0/24"), vpc.subnet("10.0.2.0/24")
    both, b = vpc.nic(cloud.one, (blue, 50), (green, 50)), vpc.nic(cloud.one, blue)
    c = vpc.nic(cloud.one, green)
    guest, *_ = cloud.guests(both, b, c)
    state = port_state(both)
    reply = cloud.one.push(subnet_state(blue), state, port_state(b))
    assert reply.status(state) == "PENDING"
    assert green.id in reply.reason(state)
    cloud.one.push(port_state(c), subnet_state(green))
    assert guest.can_reach(b.ip)
    assert guest.can_reach(c.ip)
    cloud.one.wait_programmed(state)


def test_a_device_that_only_its_name_tells(cloud: Cloud) -> None:
    vpc = cloud.vpc()
    net = vpc.subnet("10.0.1.0/24")
    a, b = vpc.nic(cloud.one, net), vpc.nic(cloud.one, net)
    near = cloud.guest(b)
    state = port_state(a)
    assert cloud.one.push(subnet_state(net), port_state(b), state).status(state) == "PENDING"
    cloud.one.backend.attach_by_name(cloud.guest(a, attach=False))
    cloud.one.wait_programmed(state)
    assert near.can_reach(a.ip)


def test_two_ports_whose_devices_would_have_one_name(cloud: Cloud) -> None:
    vpc = cloud.vpc()
    net = vpc.subnet("10.0.1.0/24")
    a, b = vpc.nic(cloud.one, net), vpc.nic(cloud.one, net)
    twin = vpc.nic(cloud.one, net).but(id=a.id[:11] + "-twin")
    guest, near = cloud.guests(a, b)
    for states in ([port_state(twin), port_state(a)], [port_state(a), port_state(twin)]):
        reply = cloud.one.push(subnet_state(net), port_state(b), *states)
        cloud.one.wait_programmed(port_state(a))
        assert reply.status(port_state(twin)) == "PENDING"
        assert near.can_reach(a.ip)
        assert guest.ping(b.ip).received == 1
        cloud.one.program(*map(deletion, states))


def test_a_device_that_dies_with_its_guest(cloud: Cloud) -> None:
    vpc = cloud.vpc()
    net = vpc.subnet("10.0.1.0/24")
    a, b = vpc.nic(cloud.one, net), vpc.nic(cloud.one, net)
    guest, near = cloud.guests(a, b)
    state = port_state(a)
    cloud.one.program(subnet_state(net), state, port_state(b))
    assert near.can_reach(a.ip)
    guest.unplug()
    eventually(lambda: cloud.one.problem(state) is not None, "PENDING again")
    assert near.arp(a.ip, within=0.3) is None or severed(near, a.ip)
    guest.detach()
    guest.plug()
    guest.attach()
    cloud.one.wait_programmed(state)
    assert near.can_reach(a.ip)
