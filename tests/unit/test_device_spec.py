"""What a made device is to be like, and what it and its namespace are called."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dataplane.addresses import parse_address, parse_prefix
from dataplane.devices.requests import Inside, furnish, refurnish
from dataplane.devices.spec import DeviceSpec, device_names, namespace_name, spec_of
from dataplane.kernel.rtnl import Link
from dataplane.model import FixedIp, NetworkType, Port, PortWanted, Segment, Subnet, SubnetRef, SubnetWanted

SEGMENT = Segment(NetworkType.VXLAN, 7)
MAC = bytes.fromhex("aabb00000001")


def subnet(name: str, cidr: str, gateway: str | None) -> SubnetWanted:
    address = parse_address(gateway) if gateway is not None else None
    made = Subnet(name, 1, "vpc", "", None, 7, parse_prefix(cidr), address, None, False, (), (), "")
    return SubnetWanted(made, SubnetRef(name, SEGMENT))


def port(*fixed: tuple[str, str], subnets: tuple[SubnetWanted, ...]) -> PortWanted:
    ips = tuple(FixedIp(name, parse_address(address)) for name, address in fixed)
    made = Port("port", 1, "vpc", "", "", "", MAC, True, ips, (), ())
    return PortWanted(made, subnets, ips, frozenset())


def addresses(spec: DeviceSpec) -> list[str]:
    return [str(prefix) for prefix in spec.addresses]


BLUE = subnet("blue", "10.0.1.0/24", "10.0.1.1")
GREEN = subnet("green", "10.0.2.0/23", "10.0.2.1")
SIX = subnet("six", "2001:db8::/64", "2001:db8::1")


def test_every_address_has_its_subnets_length_and_each_family_its_first_gateway() -> None:
    wanted = port(("green", "10.0.2.5"), ("blue", "10.0.1.5"), ("six", "2001:db8::5"), subnets=(GREEN, BLUE, SIX))
    spec = spec_of(wanted)
    assert addresses(spec) == ["10.0.2.5/23", "10.0.1.5/24", "2001:db8::5/64"]
    assert spec.gateways == (parse_address("10.0.2.1"), parse_address("2001:db8::1"))


def test_a_subnet_that_is_not_known_yet_is_left_out() -> None:
    spec = spec_of(port(("blue", "10.0.1.5"), ("green", "10.0.2.5"), subnets=(GREEN,)))
    assert addresses(spec) == ["10.0.2.5/23"]


def test_a_port_that_is_the_gateway_has_no_default_route_to_itself() -> None:
    assert spec_of(port(("blue", "10.0.1.1"), subnets=(BLUE,))).gateways == ()
    assert spec_of(port(("x", "10.0.1.5"), subnets=(subnet("x", "10.0.1.0/24", None),))).gateways == ()


def test_an_address_of_another_family_than_its_subnet_is_a_host_address() -> None:
    assert addresses(spec_of(port(("blue", "2001:db8::5"), subnets=(BLUE,)))) == ["2001:db8::5/128"]


@given(st.text(min_size=1, max_size=80))
def test_there_are_names_for_every_id(port_id: str) -> None:
    names = device_names(port_id)
    assert names and all(len(name.encode()) <= 15 and name.isascii() and "/" not in name for name in names)
    namespace = namespace_name("acaport-", port_id)
    assert "/" not in namespace and "\0" not in namespace and len(namespace) < 255


def test_a_usual_id_is_in_both_names() -> None:
    port_id = "27b791d7-3467-4f95-b1c0-c63a6a748ed3"
    assert device_names(port_id)[0] == "tap27b791d7-34"
    assert namespace_name("acaport-", port_id) == f"acaport-{port_id}"
    assert len({*device_names("same-eleven-1"), *device_names("same-eleven-2")}) == 3


def test_what_is_as_it_should_be_is_not_touched() -> None:
    spec = spec_of(port(("blue", "10.0.1.5"), subnets=(BLUE,)))
    link = Link(2, "eth0", spec.alias, 0, MAC, "veth", True, 1450)
    there = Inside(
        ((link, 9),), frozenset((2, one) for one in spec.addresses), frozenset((2, one) for one in spec.gateways)
    )
    assert refurnish(spec, link, 1450, there, "eth0") == []
    assert len(refurnish(spec, link, 1400, there, "eth0")) == 1
    nothing = Inside(((link, 9),), frozenset(), frozenset())
    missing = refurnish(spec, link._replace(up=False, alias=""), 1450, nothing, "eth0")
    assert missing == furnish(spec, 2, "eth0")
