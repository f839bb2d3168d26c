"""What is wrong is refused with a reason that names it; the valid rest is applied and the agent lives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import grpc
import pytest

from goalstate_proto import common_pb2
from tests.conformance.cloud import Cloud
from tests.conformance.network import (
    Nic,
    Rule,
    State,
    Subnet,
    dhcp_state,
    neighbor_state,
    port_state,
    router_state,
    subnet_state,
    v1,
    v2,
    vpc_state,
)

pytestmark = pytest.mark.lab

UNARY = "/alcor.schema.GoalStateProvisioner/PushNetworkResourceStates"
RULE = "subnet_routing_tables.0.routing_rules.0"
STREAM = "/alcor.schema.GoalStateProvisioner/PushGoalStatesStream"


def broken(state: State, change: Callable[[Any], object]) -> State:
    change(state)
    return state


def put(path: str, value: object) -> Callable[[Any], object]:
    """Set a field of the configuration, e.g. put("fixed_ips.0.ip_address", "x"); "!x" is a field of the state."""

    def change(state: Any) -> None:
        *way, last = path.lstrip("!").split(".")
        target = state if path.startswith("!") else state.configuration
        for step in way:
            target = target[int(step)] if step.isdigit() else getattr(target, step)
        setattr(target, last, value)

    return change


def clear(field: str) -> Callable[[Any], object]:
    return lambda state: state.configuration.ClearField(field)


# (what, which kind of state, how it is broken, what the reason must name)
REFUSED: list[tuple[str, str, Callable[[Any], object], str]] = [
    ("port-mac", "port", put("mac_address", "aa:bb:cc:dd:ee"), "aa:bb:cc:dd:ee"),
    ("port-mac-group", "port", put("mac_address", "01:00:5e:00:00:01"), "01:00:5e:00:00:01"),
    ("port-mac-empty", "port", put("mac_address", ""), "mac_address"),
    ("port-ip", "port", put("fixed_ips.0.ip_address", "10.0.1.300"), "10.0.1.300"),
    ("port-ip-empty", "port", put("fixed_ips.0.ip_address", ""), "ip_address"),
    ("port-ip-group", "port", put("fixed_ips.0.ip_address", "224.0.0.1"), "224.0.0.1"),
    ("port-ipv6-in-ipv4-subnet", "port", put("fixed_ips.0.ip_address", "fd00::5"), "fd00::5"),
    ("port-no-address", "port", clear("fixed_ips"), "fixed_ips"),
    ("port-subnet-empty", "port", put("fixed_ips.0.subnet_id", ""), "subnet_id"),
    ("port-vpc-empty", "port", put("vpc_id", ""), "vpc_id"),
    ("port-pair", "port", lambda s: s.configuration.allow_address_pairs.add(ip_address="10.0.0.0/33"), "10.0.0.0/33"),
    ("port-update-type", "port", put("update_type", 9), "9"),
    ("port-operation", "port", put("!operation_type", 77), "77"),
    ("port-get", "port", put("!operation_type", common_pb2.GET), "GET"),
    ("port-id-300-bytes", "port", put("id", "x" * 300), "300"),
    ("neighbor-mac", "neighbor", put("mac_address", "no mac"), "no mac"),
    ("neighbor-ip", "neighbor", put("fixed_ips.0.ip_address", "10.0.1"), "10.0.1"),
    ("neighbor-ipv6-in-ipv4-subnet", "neighbor", put("fixed_ips.0.ip_address", "fd00::5"), "fd00::5"),
    ("neighbor-host", "neighbor", put("host_ip_address", "the other one"), "the other one"),
    ("neighbor-host-empty", "neighbor", put("host_ip_address", ""), "host_ip_address"),
    ("neighbor-type", "neighbor", put("fixed_ips.0.neighbor_type", 5), "5"),
    ("subnet-cidr", "subnet", put("cidr", "10.0.1.0/40"), "10.0.1.0/40"),
    ("subnet-cidr-empty", "subnet", put("cidr", ""), "cidr"),
    ("subnet-tunnel-too-big", "subnet", put("tunnel_id", 1 << 24), str(1 << 24)),
    ("subnet-tunnel-huge", "subnet", put("tunnel_id", 1 << 63), str(1 << 63)),
    ("subnet-type", "subnet", put("network_type", 42), "42"),
    ("subnet-gateway", "subnet", put("gateway.ip_address", "10.0.1.256"), "10.0.1.256"),
    ("subnet-gateway-mac", "subnet", put("gateway.mac_address", "zz:00:00:00:00:01"), "zz:00"),
    ("subnet-gateway-ipv6", "subnet", put("gateway.ip_address", "fd00::1"), "fd00::1"),
    ("router-mac", "router", put("host_dvr_mac_address", "zz"), "zz"),
    ("router-destination", "router", put(f"{RULE}.destination", "10.99.0/16"), "10.99.0/16"),
    ("router-next-hop", "router", put(f"{RULE}.next_hop_ip", "10.0.1.999"), "10.0.1.999"),
    ("router-next-hop-ipv6", "router", put(f"{RULE}.next_hop_ip", "fd00::9"), "fd00::9"),
    ("dhcp-mac", "dhcp", put("mac_address", "nope"), "nope"),
    ("dhcp-ip", "dhcp", put("ipv4_address", "10.0.0.0.1"), "10.0.0.0.1"),
    ("dhcp-subnet-empty", "dhcp", put("subnet_id", ""), "subnet_id"),
    ("vpc-tunnel", "vpc", put("tunnel_id", 1 << 24), str(1 << 24)),
    ("vpc-cidr", "vpc", put("cidr", "everything"), "everything"),
]


def victim(kind: str, net: Subnet, nic: Nic) -> State:
    """A valid state of the kind that is to be broken."""
    match kind:
        case "port":
            return port_state(nic)
        case "neighbor":
            return neighbor_state(nic)
        case "subnet":
            return subnet_state(net)
        case "router":
            return router_state("victim", [(net, [Rule("10.99.0.0/16", nic.ip, "r1")])])
        case "dhcp":
            state = dhcp_state(nic)
            state.configuration.id = "binding"
            return state
        case _:
            return vpc_state(f"victim-{net.vpc_id}")


@pytest.mark.parametrize(
    ("kind", "change", "named"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED]
)
def test_is_refused(cloud: Cloud, kind: str, change: Callable[[Any], object], named: str) -> None:
    """A field that is missing, malformed or out of its range, in any kind of state."""
    vpc = cloud.vpc()
    net, other = vpc.subnet("10.0.1.0/24"), vpc.subnet("10.0.2.0/24")
    good, bad = vpc.nic(cloud.two, net), vpc.nic(cloud.two, (other if kind == "subnet" else net, 40))
    state = broken(victim(kind, other if kind == "subnet" else net, bad), change)

    for push in (cloud.one.push, cloud.one.push_v1):
        reply = push(subnet_state(net), state, neighbor_state(good))
        assert reply.status(state) == "INVALID_ARG", reply.statuses
        assert named in reply.reason(state)
        assert reply.status(neighbor_state(good)) == "SUCCESS"


def test_ids_that_are_empty(cloud: Cloud) -> None:
    vpc = cloud.vpc()
    net = vpc.subnet("10.0.1.0/24")
    nic = vpc.nic(cloud.two, net)
    nameless = subnet_state(net)
    nameless.configuration.id = ""
    reply = cloud.one.send(
        v1(port_state(nic.but(id="")), neighbor_state(nic.but(id="")), router_state("", [net]), nameless)
    )
    assert [(kind, name, status) for kind, name, _, status in reply.statuses] == [
        (kind, "", "INVALID_ARG") for kind in ("SUBNET", "ROUTER", "PORT", "NEIGHBOR")
    ]
    assert all("id is empty" in reason for reason in reply.reasons.values())


def test_a_revision_of_zero_is_fine(cloud: Cloud) -> None:
    vpc = cloud.vpc()
    net = vpc.subnet("10.0.1.0/24")
    a, b = vpc.nic(cloud.one, net), vpc.nic(cloud.one, net)
    guest, _ = cloud.guests(a, b)
    subnet = subnet_state(net)
    subnet.configuration.revision_number = 0
    cloud.one.program(subnet, port_state(a, revision=0), port_state(b, revision=0))
    assert guest.ping(b.ip).received == 1


def test_a_tunnel_id_of_zero_waits_for_the_vpcs(cloud: Cloud) -> None:
    vpc = cloud.vpc()
    state = subnet_state(vpc.subnet("10.0.1.0/24"))
    state.configuration.tunnel_id = 0
    reply = cloud.one.push(state)
    assert reply.status(state) == "PENDING"
    assert "tunnel" in reply.reason(state)


def test_a_missing_subnet_is_waited_for_by_name(cloud: Cloud) -> None:
    vpc = cloud.vpc()
    nic = vpc.nic(cloud.two, vpc.subnet("10.0.1.0/24"))
    state = neighbor_state(nic)
    reply = cloud.one.push(state)
    assert reply.status(state) == "PENDING"
    assert nic.subnet.id in reply.reason(state)


@pytest.mark.parametrize("length", [15, 255])
def test_long_ids_and_names_work(cloud: Cloud, length: int) -> None:
    vpc = cloud.vpc()
    net = vpc.subnet("10.0.1.0/24")
    a, b = vpc.nic(cloud.one, net), vpc.nic(cloud.one, net)
    a, b = (nic.but(id=nic.id[:11].ljust(length, "x")) for nic in (a, b))
    guest, _ = cloud.guests(a, b)
    states = [port_state(a), port_state(b)]
    for state in states:
        state.configuration.name = "n" * 300
    cloud.one.program(subnet_state(net), *states)
    assert guest.ping(b.ip).received == 1


def test_macs_in_any_common_form(cloud: Cloud) -> None:
    vpc = cloud.vpc()
    net = vpc.subnet("10.0.1.0/24")
    nics = [vpc.nic(cloud.one, net) for _ in range(4)]
    guests = cloud.guests(*nics)
    forms: list[Callable[[str], str]] = [
        str.upper,
        lambda mac: mac.replace(":", "-"),
        lambda mac: mac.replace(":", ""),
        lambda mac: ".".join(mac.replace(":", "")[i : i + 4] for i in (0, 4, 8)),
    ]
    cloud.one.program(subnet_state(net), *(port_state(n.but(mac=f(n.mac))) for n, f in zip(nics, forms, strict=True)))
    for guest, other in zip(guests, reversed(nics), strict=True):
        assert guest.ping(other.ip).received == 1


def test_a_vpc_may_not_change_under_a_resource(cloud: Cloud) -> None:
    vpc, other = cloud.vpc(), cloud.vpc()
    net = vpc.subnet("10.0.1.0/24")
    nic = vpc.nic(cloud.two, net)
    cloud.one.program(subnet_state(net), neighbor_state(nic))
    moved = neighbor_state(nic.but(vpc_id=other.id))
    reply = cloud.one.push(moved)
    assert reply.status(moved) == "INVALID_ARG"
    assert other.id in reply.reason(moved) or vpc.id in reply.reason(moved)


def test_a_port_in_a_subnet_of_another_vpc(cloud: Cloud) -> None:
    vpc, other = cloud.vpc(), cloud.vpc()
    net, foreign = vpc.subnet("10.0.1.0/24"), other.subnet("10.0.1.0/24")
    a, b = vpc.nic(cloud.one, net), other.nic(cloud.one, foreign)
    intruder = vpc.nic(cloud.one, (foreign, 99))
    guest, *_ = cloud.guests(intruder, a, b)
    state = port_state(intruder)
    reply = cloud.one.push(subnet_state(net), subnet_state(foreign), port_state(a), port_state(b), state)
    assert reply.status(state) == "INVALID_ARG"
    assert foreign.id in reply.reason(state)
    assert guest.cannot_reach(b.ip, for_=0.3)


def test_two_states_of_which_one_is_wrong(cloud: Cloud) -> None:
    vpc = cloud.vpc()
    net = vpc.subnet("10.0.1.0/24")
    a, b, c = vpc.nic(cloud.one, net), vpc.nic(cloud.one, net), vpc.nic(cloud.one, net)
    guest, *_ = cloud.guests(a, b, c)
    wrong = port_state(c.but(mac="nonsense"))
    reply = cloud.one.push_v1(subnet_state(net), port_state(a), wrong, port_state(b))
    assert reply.status(wrong) == "INVALID_ARG"
    assert guest.ping(b.ip).received == 1
    cloud.one.program(port_state(c))
    assert guest.can_reach(c.ip)
    # A refused update leaves what was there before.
    assert cloud.one.push(wrong).status(wrong) == "INVALID_ARG"
    assert guest.ping(c.ip).received == 1


@pytest.mark.parametrize(
    "data", [b"\xff\xff\xff\xff", b"\x12\x7f\x01", bytes(range(7, 200))], ids=["tags", "cut", "noise"]
)
def test_bytes_that_are_no_goal_state(cloud: Cloud, data: bytes) -> None:
    channel = cloud.one.agent.channel()
    with pytest.raises(grpc.RpcError) as unary:
        channel.unary_unary(UNARY)(data, timeout=5.0)
    assert unary.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    with pytest.raises(grpc.RpcError) as stream:
        list(channel.stream_stream(STREAM)(iter([data]), timeout=5.0))
    assert stream.value.code() == grpc.StatusCode.INVALID_ARGUMENT

    vpc = cloud.vpc()
    net = vpc.subnet("10.0.1.0/24")
    cloud.one.program(subnet_state(net), neighbor_state(vpc.nic(cloud.two, net)))


def test_a_rest_of_a_stream_is_answered_before_the_bytes_that_break_it(cloud: Cloud) -> None:
    vpc = cloud.vpc()
    net = vpc.subnet("10.0.1.0/24")

    state = neighbor_state(vpc.nic(cloud.two, net))
    cloud.one.remember([subnet_state(net), state])
    messages = iter([v2(subnet_state(net), state).SerializeToString(), b"\xff\xff\xff"])
    replies = cloud.one.agent.channel().stream_stream(STREAM)(messages, timeout=5.0)
    assert next(replies)
    with pytest.raises(grpc.RpcError):
        next(replies)
    assert cloud.one.agent.status()["resources"]["NEIGHBOR"]["programmed"] == 1
