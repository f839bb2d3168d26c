"""What is to be programmed of a desired state, and what is said where that is not everything."""

from __future__ import annotations

from typing import Any

import pytest

from aca.dispatch.plan import Absence, batches_of
from dataplane.addresses import parse_address
from dataplane.base import Batch, Outcome, Status
from dataplane.model import (
    DhcpWanted,
    Key,
    Kind,
    Layer,
    NeighborWanted,
    NetworkType,
    RouterWanted,
    Segment,
    SubnetWanted,
)
from tests.unit.desired_world import (
    HERE,
    YONDER,
    FollowingHost,
    delete,
    gateway,
    neighbor,
    new_state,
    port,
    router,
    rule,
    subnet,
    table,
    vpc,
)


@pytest.fixture
def host() -> FollowingHost:
    return FollowingHost(ofports={"p": 5})


def _wanted(host: FollowingHost, kind: Kind, name: str) -> Any:
    return host.wanted.get(Key(kind, name))


def test_upserts_go_in_order_of_dependence_before_removals_in_reverse() -> None:
    item: Any = DhcpWanted("x")
    kinds = (Kind.DHCP, Kind.NEIGHBOR, Kind.PORT, Kind.ROUTER, Kind.SUBNET)
    batches = batches_of({kind: {"new": item, "old": Absence.DELETED, "off": Absence.WITHHELD} for kind in kinds})
    order = [Kind.SUBNET, Kind.ROUTER, Kind.PORT, Kind.NEIGHBOR, Kind.DHCP]
    assert batches == [Batch(kind, upserts=[item]) for kind in order] + [
        Batch(kind, removals=["old"], withheld=["off"]) for kind in reversed(order)
    ]


# -- segments


def test_a_subnet_without_a_tunnel_id_has_its_vpcs_and_follows_it(host: FollowingHost) -> None:
    host.push(subnet(tunnel=0), neighbor("n", "s 10.0.0.5"), port("p", "s 10.0.0.6"))
    assert host.verdict(Kind.SUBNET, "s").startswith("pending: SUBNET s: tunnel_id is 0, waits")
    assert host.verdict(Kind.NEIGHBOR, "n").startswith("pending: its subnet s: ")
    assert not host.wanted
    host.push(vpc(tunnel=7))
    assert _wanted(host, Kind.SUBNET, "s").ref.segment == Segment(NetworkType.VXLAN, 7)
    host.push(vpc(tunnel=8, revision=2))
    refs = {
        _wanted(host, Kind.SUBNET, "s").ref,
        _wanted(host, Kind.NEIGHBOR, "n").mac_subnets[0],
        _wanted(host, Kind.PORT, "p").subnets[0].ref,
    }
    assert {ref.segment.tunnel_id for ref in refs} == {8}
    host.push(vpc(tunnel=0, revision=3))
    assert host.verdict(Kind.SUBNET, "s").startswith("invalid: ")
    assert not host.wanted and host.ovs.flows == host.ovs.bare


def test_an_unsupported_encapsulation_is_refused_and_its_dependents_say_why(host: FollowingHost) -> None:
    host.push(subnet(kind=NetworkType.GRE), port("p", "s 10.0.0.5"))
    assert "GRE is not supported here (GENEVE, VXLAN are)" in host.verdict(Kind.SUBNET, "s")
    assert "GRE is not supported" in host.verdict(Kind.PORT, "p")
    host.push(subnet(kind=NetworkType.GENEVE, revision=2))
    assert host.verdict(Kind.PORT, "p") == ""
    assert _wanted(host, Kind.PORT, "p").subnets[0].ref.segment.network_type is NetworkType.GENEVE


def test_a_data_plane_says_why_it_has_not_an_encapsulation() -> None:
    lacks = {NetworkType.GENEVE: "not supported by this kernel"}
    host = FollowingHost(new_state(network_types=frozenset({NetworkType.VXLAN}), lacks=lacks))
    host.push(subnet(kind=NetworkType.GENEVE), port("p", "s 10.0.0.5"))
    for kind, name in ((Kind.SUBNET, "s"), (Kind.PORT, "p")):
        said = host.verdict(kind, name)
        assert said.startswith("invalid: ")
        assert "network_type GENEVE is not supported by this kernel (VXLAN is)" in said


def test_a_changed_gateway_reaches_ports_and_leaves_neighbours_alone(host: FollowingHost) -> None:
    host.push(subnet(gateway="10.0.0.1"), port("p", "s 10.0.0.5"), neighbor("n", "s 10.0.0.6"), router("r", "s"))
    plan = host.push(subnet(gateway="10.0.0.2", revision=2))
    assert set(plan.lanes["v"]) == {Kind.SUBNET, Kind.PORT, Kind.ROUTER, Kind.DHCP}
    assert _wanted(host, Kind.PORT, "p").subnets[0].subnet.gateway_address == parse_address("10.0.0.2")


def test_a_changed_encapsulation_reaches_neighbours(host: FollowingHost) -> None:
    host.push(subnet(), neighbor("n", "s 10.0.0.6"))
    host.push(subnet(kind=NetworkType.GENEVE, revision=2))
    assert _wanted(host, Kind.NEIGHBOR, "n").mac_subnets[0].segment.network_type is NetworkType.GENEVE


def test_a_deleted_subnet_takes_flows_away_until_it_returns(host: FollowingHost) -> None:
    host.push(subnet(), port("p", "s 10.0.0.5"), neighbor("n", "s 10.0.0.6"))
    before = dict(host.ovs.flows)
    host.push(delete(Kind.SUBNET, "s", 2))
    assert host.ovs.flows == host.ovs.bare
    assert host.verdict(Kind.PORT, "p") == host.verdict(Kind.NEIGHBOR, "n") == "pending: waits for subnet s"
    host.push(subnet(revision=3))
    assert host.ovs.flows == before


# -- misfits


@pytest.mark.parametrize("value", [port("p", "s fd00::5"), neighbor("n", "s fd00::5")], ids=["port", "neighbor"])
def test_an_address_of_another_family_is_invalid(host: FollowingHost, value: Any) -> None:
    host.push(subnet(), value)
    kind = Kind.PORT if value.id == "p" else Kind.NEIGHBOR
    assert "fd00::5 does not fit subnet s, which is IPv4" in host.verdict(kind, value.id)


def test_ipv6_is_invalid_where_it_is_not_programmed_and_programmed_where_it_is() -> None:
    values = [subnet(cidr="fd00::/64"), port("p", "s fd00::5"), neighbor("n", "s fd00::6")]
    without, with_ipv6 = FollowingHost(), FollowingHost(new_state(ipv6=True))
    without.push(*values)
    with_ipv6.push(*values)
    assert "IPv6 is not programmed" in without.verdict(Kind.PORT, "p")
    assert "IPv6 is not programmed" in without.verdict(Kind.NEIGHBOR, "n")
    assert not with_ipv6.verdicts


def test_the_addresses_that_fit_are_programmed_all_the_same(host: FollowingHost) -> None:
    host.push(subnet(), port("p", "s fd00::5", "s 10.0.0.5"))
    assert host.verdict(Kind.PORT, "p").startswith("invalid: ")
    assert [fixed.address for fixed in _wanted(host, Kind.PORT, "p").held] == [parse_address("10.0.0.5")]


@pytest.mark.parametrize("alone", [True, False])
def test_a_subnet_of_another_vpc_is_invalid(host: FollowingHost, alone: bool) -> None:
    """Also in the company of neighbours that belong there."""
    host.push(subnet())
    company = [] if alone else [neighbor("m", "s 10.0.0.7")]
    host.push(*company, port("p", "s 10.0.0.5", vpc="w"), neighbor("n", "s 10.0.0.6", vpc="w"))
    for kind, name in ((Kind.PORT, "p"), (Kind.NEIGHBOR, "n")):
        assert "subnet s is in VPC v, not w" in host.verdict(kind, name)
        assert _wanted(host, kind, name) is None


def test_a_neighbour_on_this_host_needs_nothing(host: FollowingHost) -> None:
    host.push(subnet(), neighbor("n", "s 10.0.0.5", host=HERE))
    assert _wanted(host, Kind.NEIGHBOR, "n") is None and not host.verdicts


def test_a_tunnel_end_with_ipv6_is_invalid(host: FollowingHost) -> None:
    host.push(subnet(), neighbor("n", "s 10.0.0.5", host=parse_address("2001:db8::1")))
    assert "host_ip_address 2001:db8::1" in host.verdict(Kind.NEIGHBOR, "n")


def test_a_neighbour_moves_with_its_host_and_mac(host: FollowingHost) -> None:
    host.push(subnet(), neighbor("n", "s 10.0.0.5"))
    moved = neighbor("n", "s 10.0.0.5", host=YONDER, mac="fa:16:3e:00:02:99", revision=2)
    host.push(moved)
    fresh = FollowingHost()
    fresh.push(subnet(), moved)
    assert host.ovs.flows == fresh.ovs.flows


# -- L3


def test_an_l3_neighbour_waits_for_a_router_and_is_released(host: FollowingHost) -> None:
    host.push(subnet(gateway="10.0.0.1"), neighbor("n", "s 10.0.0.5", layer=Layer.L3))
    assert host.verdict(Kind.NEIGHBOR, "n") == "pending: waits for a router on subnet s"
    host.push(router("r", "s"))
    assert host.verdict(Kind.NEIGHBOR, "n") == ""
    assert isinstance(_wanted(host, Kind.NEIGHBOR, "n"), NeighborWanted)
    host.push(delete(Kind.ROUTER, "r"))
    assert host.verdict(Kind.NEIGHBOR, "n") == "pending: waits for a router on subnet s"


# -- routers


def _routes(host: FollowingHost, name: str = "r") -> dict[str, str]:
    wanted = _wanted(host, Kind.ROUTER, name)
    assert isinstance(wanted, RouterWanted)
    return {
        str(route.destination): route.next_hop_subnet.subnet_id
        for routed in wanted.subnets
        for route in routed.routes
    }


def test_a_router_waits_for_its_subnets_and_their_gateways(host: FollowingHost) -> None:
    host.push(router("r", "s", "t"))
    assert host.verdict(Kind.ROUTER, "r") == "pending: waits for subnet s; waits for subnet t"
    host.push(subnet("s", gateway="10.0.0.1"), subnet("t", "10.1.0.0/24"))
    assert host.verdict(Kind.ROUTER, "r") == "pending: waits for a gateway (address and MAC) of subnet t"
    host.push(subnet("t", "10.1.0.0/24", gateway="10.1.0.1", revision=2))
    assert host.verdict(Kind.ROUTER, "r") == ""


@pytest.mark.parametrize("hop_first", [True, False])
def test_a_next_hop_may_be_a_guest_that_comes_later(host: FollowingHost, hop_first: bool) -> None:
    host.push(subnet("s", gateway="10.0.0.1"), subnet("t", "10.1.0.0/24", gateway="10.1.0.1"))
    guest = neighbor("n", "t 172.16.0.9")
    if hop_first:
        host.push(guest)
    host.push(router("r", table("s", rule("10.9.0.0/16", "172.16.0.9")), "t"))
    if not hop_first:
        assert "next hop 172.16.0.9 of 10.9.0.0/16 is not known" in host.verdict(Kind.ROUTER, "r")
        assert _routes(host) == {}
        host.push(guest)
    assert host.verdict(Kind.ROUTER, "r") == "" and _routes(host) == {"10.9.0.0/16": "t"}
    host.push(delete(Kind.NEIGHBOR, "n"))
    assert "is not known" in host.verdict(Kind.ROUTER, "r")


def test_an_unknown_next_hop_within_a_subnet_is_routed_there_and_pending(host: FollowingHost) -> None:
    host.push(subnet(gateway="10.0.0.1"), router("r", table("s", rule("10.9.0.0/16", "10.0.0.99"))))
    assert _routes(host) == {"10.9.0.0/16": "s"}
    assert "next hop 10.0.0.99" in host.verdict(Kind.ROUTER, "r")
    host.push(port("p", "s 10.0.0.99"))
    assert host.verdict(Kind.ROUTER, "r") == ""


def test_a_rule_without_a_next_hop_waits_for_a_gateway(host: FollowingHost) -> None:
    host.push(subnet(gateway="10.0.0.1"), router("r", table("s", rule("0.0.0.0/0", None, name="out"))))
    assert host.verdict(Kind.ROUTER, "r") == "pending: rule out: 0.0.0.0/0 has no next hop, waits for a gateway"


def test_an_ipv6_rule_is_invalid_and_the_others_are_programmed(host: FollowingHost) -> None:
    """Even if somebody in a subnet of IPv4 claims the next hop."""
    rules = (rule("fd01::/64", "fd00::5"), rule("10.9.0.0/16", "10.0.0.6"))
    host.push(subnet(gateway="10.0.0.1"), port("p", "s 10.0.0.6", "s fd00::5"), router("r", table("s", *rules)))
    assert "next" not in host.verdict(Kind.ROUTER, "r") and "IPv6" in host.verdict(Kind.ROUTER, "r")
    assert _routes(host) == {"10.9.0.0/16": "s"}


def test_the_strongest_rule_of_a_destination_is_programmed(host: FollowingHost) -> None:
    rules = (
        rule("10.9.0.0/16", "10.0.0.7", name="weak", priority=500),
        rule("10.9.0.0/16", "10.0.0.8", name="strong", priority=100),
        rule("10.9.0.0/16", "10.0.0.9", name="unset"),
    )
    host.push(subnet(gateway="10.0.0.1"), router("r", table("s", *rules)))
    (route,) = _wanted(host, Kind.ROUTER, "r").subnets[0].routes
    assert route.next_hop == parse_address("10.0.0.8")


@pytest.mark.parametrize("value", [port("p", "s 172.16.0.5"), neighbor("n", "s 172.16.0.5")], ids=["port", "neighbor"])
@pytest.mark.parametrize("router_first", [True, False])
def test_addresses_outside_the_cidr_get_host_routes(host: FollowingHost, value: Any, router_first: bool) -> None:
    values = [router("r", "s"), value]
    host.push(subnet(gateway="10.0.0.1"))
    for one in values if router_first else values[::-1]:
        host.push(one)

    def outliers() -> tuple[bytes, ...]:
        found: tuple[bytes, ...] = _wanted(host, Kind.ROUTER, "r").subnets[0].outliers
        return found

    assert outliers() == (parse_address("172.16.0.5"),)
    host.push(subnet(cidr="172.16.0.0/16", gateway="172.16.0.1", revision=2))
    assert outliers() == ()
    host.push(subnet(gateway="10.0.0.1", revision=3))
    assert outliers() == (parse_address("172.16.0.5"),)
    host.push(delete(Kind.PORT if value.id == "p" else Kind.NEIGHBOR, value.id))
    assert outliers() == ()


def test_of_two_routers_of_a_subnet_one_serves_and_the_other_takes_over(host: FollowingHost) -> None:
    host.push(subnet(gateway="10.0.0.1"), router("r2", "s"))
    alone = dict(host.ovs.flows)
    host.push(router("r1", "s"))
    assert "subnet s is already served by router r1" in host.verdict(Kind.ROUTER, "r2")
    host.push(delete(Kind.ROUTER, "r1"))
    assert host.verdict(Kind.ROUTER, "r2") == ""
    assert host.ovs.flows == alone


# -- outcomes


def test_one_outcome_tells_the_gravest_problem_with_all_its_reasons(host: FollowingHost) -> None:
    host.push(subnet(), port("p", "s fd00::5", "s fd00::6", "unknown 10.0.0.5"))
    outcome = host.verdicts[Key(Kind.PORT, "p")]
    assert outcome.status is Status.INVALID
    assert "fd00::5" in outcome.reason and "fd00::6" in outcome.reason and "unknown" not in outcome.reason


def test_gateways_are_remembered_and_said_not_to_be_programmed(host: FollowingHost) -> None:
    host.push(gateway("w"))
    assert "ZETA gateways are not programmed" in host.verdict(Kind.GATEWAY, "w")
    able = FollowingHost(new_state(gateways=True))
    assert set(able.push(gateway("w")).settled.values()) == {Outcome(Status.DONE)}


def test_a_subnet_is_wanted_as_long_as_a_port_is_in_it(host: FollowingHost) -> None:
    host.push(subnet())
    assert _wanted(host, Kind.SUBNET, "s") is None
    host.push(port("p", "s 10.0.0.5"))
    assert isinstance(_wanted(host, Kind.SUBNET, "s"), SubnetWanted)
    host.push(port("p", "t 10.1.0.5", full=True))
    assert _wanted(host, Kind.SUBNET, "s") is None
