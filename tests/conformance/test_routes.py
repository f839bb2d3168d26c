"""Routing rules, and routers that change."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest

from goalstate_proto import common_pb2
from tests.conformance.cloud import SETTLE, Cloud
from tests.conformance.frames import has, udp_frame
from tests.conformance.network import (
    Nic,
    Rule,
    Subnet,
    deletion,
    neighbor_state,
    port_state,
    router_state,
    subnet_state,
)
from tests.lab import Guest

pytestmark = pytest.mark.lab

QUIET = 0.04


class Routed:
    """Two subnets behind a router: a guest that sends (host one, blue) and possible next hops."""

    def __init__(self, cloud: Cloud) -> None:
        self.cloud = cloud
        self.vpc = cloud.vpc()
        self.blue, self.green = self.vpc.subnet("10.0.1.0/24"), self.vpc.subnet("10.0.2.0/24")
        self.sender = self.vpc.nic(cloud.one, self.blue)
        self.beside = self.vpc.nic(cloud.one, self.blue)
        self.near = self.vpc.nic(cloud.one, self.green)
        self.far = self.vpc.nic(cloud.two, self.green)
        self.far_beside = self.vpc.nic(cloud.two, self.blue)
        nics = (self.sender, self.beside, self.near, self.far, self.far_beside)
        self.guests = dict(zip(nics, cloud.guests(*nics), strict=True))
        self.router_id = f"router-of-{self.vpc.id}"
        cloud.announce(self.vpc, router=(self.blue, self.green))

    def tell(self, *rules: Rule, update_type: int = common_pb2.DELTA) -> None:
        """The rules of subnet blue, to both hosts."""
        tables: list[Subnet | tuple[Subnet, tuple[Rule, ...]]] = [(self.blue, rules)]
        if update_type == common_pb2.FULL:
            tables.append(self.green)
        state = router_state(self.router_id, tables, update_type=update_type)
        for site in self.cloud.sites:
            site.program(state)

    def expect(self, to_ip: str, *receivers: Nic, source: Nic | None = None) -> None:
        """A packet to this address is received once by these and by nobody else; soon, since a switch has caches."""
        deadline = time.monotonic() + SETTLE
        while (got := self._receivers(to_ip, source or self.sender, receivers)) != [*receivers]:
            assert time.monotonic() < deadline, f"{to_ip} goes to {got}"

    def _receivers(self, to_ip: str, source: Nic, expected: Sequence[Nic]) -> list[Nic]:
        """Which guests get a packet to this address from the source (through its gateway)."""
        mark = f"to {to_ip} by the router".encode()
        frame = udp_frame(source.subnet.gateway_mac, source.mac, source.ip, to_ip, mark)
        captures = {nic: guest.capture() for nic, guest in self.guests.items() if nic is not source}
        try:
            self.guests[source].send_raw(frame)
            arrived = {nic: captures[nic].frames(has(mark), count=1, within=1.0) for nic in expected}
            for nic, capture in captures.items():
                arrived.setdefault(nic, []).extend(capture.frames(has(mark), count=2, within=QUIET))
        finally:
            for capture in captures.values():
                capture.close()
        for nic, frames in arrived.items():
            for one in frames:
                assert one[:6].hex(":") == nic.mac
                assert one[6:12].hex(":") == nic.subnet.gateway_mac
                assert one[22] == 63, "the TTL is one less"
        return [nic for nic, frames in arrived.items() for _ in frames]


@pytest.fixture
def routed(cloud: Cloud) -> Routed:
    return Routed(cloud)


def test_a_next_hop_gets_what_is_not_its_own(routed: Routed) -> None:
    for hop in (routed.far, routed.near, routed.beside, routed.far_beside):
        routed.tell(Rule("10.99.0.0/16", hop.ip, "r1"))
        routed.expect("10.99.3.4", hop)
    routed.expect("10.98.3.4")


def test_the_longest_prefix_wins_whatever_the_priority(routed: Routed) -> None:
    routed.tell(
        Rule("0.0.0.0/0", routed.near.ip, "default", priority=1),
        Rule("10.99.0.0/16", routed.far.ip, "wide", priority=100),
        Rule("10.99.7.0/24", routed.far_beside.ip, "narrow", priority=500),
        Rule("10.99.7.7/32", routed.beside.ip, "one", priority=900),
    )
    routed.expect("203.0.113.5", routed.near)
    routed.expect("10.99.1.1", routed.far)
    routed.expect("10.99.7.1", routed.far_beside)
    routed.expect("10.99.7.7", routed.beside)
    routed.expect(routed.far.ip, routed.far)  # a connected subnet is longer than the default


def test_of_one_destination_the_smaller_priority_wins(routed: Routed) -> None:
    routed.tell(
        Rule("10.99.0.0/16", routed.near.ip, "low", priority=500),
        Rule("10.99.0.0/16", routed.far.ip, "high", priority=100),
    )
    routed.expect("10.99.1.1", routed.far)
    routed.tell(Rule("10.99.0.0/16", routed.far.ip, "high", priority=100, operation=common_pb2.DELETE))
    # Withdrawn by id: the weaker one takes its place.
    routed.expect("10.99.1.1", routed.near)


def test_rules_are_those_of_the_senders_subnet(routed: Routed) -> None:
    routed.tell(Rule("10.99.0.0/16", routed.far_beside.ip, "r1"))
    routed.expect("10.99.1.1", source=routed.near)
    routed.expect("10.99.1.1", routed.far_beside, source=routed.sender)


def test_a_rule_is_changed_and_withdrawn_under_another_id(routed: Routed) -> None:
    routed.tell(Rule("10.99.0.0/16", routed.far.ip, "as created"))
    routed.expect("10.99.1.1", routed.far)
    routed.tell(Rule("10.99.0.0/16", routed.near.ip, "as created", operation=common_pb2.UPDATE))
    routed.expect("10.99.1.1", routed.near)
    routed.tell(Rule("10.99.0.0/16", "", "as the database calls it", operation=common_pb2.DELETE))
    routed.expect("10.99.1.1")
    routed.tell(Rule("10.99.0.0/16", "", "never seen", operation=common_pb2.DELETE))
    routed.expect("10.99.1.1")


def test_delta_adds_and_full_replaces(routed: Routed) -> None:
    routed.tell(Rule("10.97.0.0/16", routed.far.ip, "one"))
    routed.tell(Rule("10.98.0.0/16", routed.far.ip, "two"))
    routed.expect("10.97.1.1", routed.far)
    routed.expect("10.98.1.1", routed.far)

    routed.tell(Rule("10.96.0.0/16", routed.far.ip, "three"), update_type=common_pb2.FULL)
    routed.expect("10.96.1.1", routed.far)
    routed.expect("10.97.1.1")
    routed.expect("10.98.1.1")
    routed.expect(routed.far.ip, routed.far)


def test_full_without_a_subnet_takes_it_off_the_router(routed: Routed) -> None:
    state = router_state(routed.router_id, [routed.blue], update_type=common_pb2.FULL)
    (site, _) = routed.cloud.sites
    reply = site.push(state)
    assert reply.status(state) == "SUCCESS"
    routed.expect(routed.near.ip)
    routed.expect(routed.beside.ip, routed.beside)


def test_a_next_hop_that_is_not_known_yet(cloud: Cloud, routed: Routed) -> None:
    hop = routed.vpc.nic(cloud.two, (routed.green, 77))
    guest = cloud.guest(hop)
    routed.guests[hop] = guest
    state = router_state(routed.router_id, [(routed.blue, [Rule("10.99.0.0/16", hop.ip, "r1")])])
    for site in cloud.sites:
        reply = site.push(state)
        assert reply.status(state) == "PENDING"
        assert hop.ip in reply.reason(state)
    routed.expect("10.99.1.1")

    cloud.two.program(port_state(hop))
    for site in cloud.sites:
        site.program(neighbor_state(hop, layer=1))
    routed.expect("10.99.1.1", hop)
    cloud.one.wait_programmed(state)


def test_a_next_hop_that_moves(cloud: Cloud, routed: Routed) -> None:
    routed.tell(Rule("10.99.0.0/16", routed.far.ip, "r1"))
    routed.expect("10.99.1.1", routed.far)
    cloud.one.program(deletion(neighbor_state(routed.far)))
    routed.expect("10.99.1.1")
    takes_over = routed.near.but(addresses=(*routed.near.addresses, (routed.green, routed.far.ip)))
    routed.guests[takes_over] = routed.guests.pop(routed.near)
    cloud.one.program(port_state(takes_over))
    routed.expect("10.99.1.1", takes_over)


def test_a_default_route_through_a_guest_that_forwards(cloud: Cloud, routed: Routed) -> None:
    """End to end: the next hop is a firewall with an address of its own behind it."""
    routed.tell(Rule("0.0.0.0/0", routed.far.ip, "default"))
    hop: Guest = routed.guests[routed.far]
    hop.namespace.ip("addr add 203.0.113.77/32 dev lo")
    pairs = [("203.0.113.0/24", "")]
    cloud.two.program(port_state(routed.far, pairs=pairs))

    assert routed.guests[routed.sender].ping("203.0.113.77", count=2).received == 2
    assert routed.guests[routed.beside].ping("203.0.113.77").received == 1


def test_a_router_is_deleted_and_comes_back(cloud: Cloud, routed: Routed) -> None:
    state = router_state(routed.router_id, [routed.blue, routed.green])
    for site in cloud.sites:
        reply = site.push(deletion(state))
        assert reply.status(state) == "SUCCESS"
    routed.expect(routed.far.ip)
    assert routed.guests[routed.sender].ping(routed.blue.gateway).received == 1

    for site in cloud.sites:
        assert site.push(state).status(state) == "SUCCESS"
    routed.expect(routed.far.ip, routed.far)


def test_a_subnet_that_changes_its_router(cloud: Cloud, routed: Routed) -> None:
    red = routed.vpc.subnet("10.0.3.0/24")
    one, two = router_state("r-first", [red]), router_state("r-second", [red])
    cloud.one.program(subnet_state(red), one)
    reply = cloud.one.push(two)
    assert reply.status(two) == "INVALID_ARG"
    assert "r-first" in reply.reason(two)
    cloud.one.program(deletion(one))
    cloud.one.wait_programmed(two)
