"""What wanted values become on a netlink host."""

from __future__ import annotations

from dataclasses import replace

from dataplane.addresses import Prefix, parse_address, parse_mac, parse_prefix
from dataplane.kernel.rtnl import MAIN_TABLE
from dataplane.model import (
    AddressPair,
    FixedIp,
    Layer,
    Neighbor,
    NeighborWanted,
    NetworkType,
    Port,
    PortWanted,
    Route,
    RoutedSubnet,
    Router,
    RouterWanted,
    Segment,
    Subnet,
    SubnetRef,
    SubnetWanted,
)
from dataplane.netlink.filter import number
from dataplane.netlink.items import (
    ElementItem,
    FloodItem,
    LegItem,
    MacItem,
    RouteItem,
    RouterItem,
    RouteValue,
    RuleItem,
    SegmentItem,
    Tap,
    TapItem,
    Via,
)
from dataplane.netlink.names import host_number, mark_of
from dataplane.netlink.nft import key_bytes
from dataplane.netlink.render import neighbor_items, only_items, port_items, router_items, subnet_items

SEGMENT = Segment(NetworkType.VXLAN, 4097)
HOST = parse_address("172.16.0.2")
MAC = parse_mac("aa:bb:00:00:00:11")
SHARED = parse_mac("00:00:5e:00:01:07")
MTU = 1450


def subnet(name: str, cidr: str) -> SubnetWanted:
    prefix = parse_prefix(cidr)
    gateway = (int.from_bytes(prefix.address, "big") + 1).to_bytes(4, "big")
    mac = b"\xaa\xff\0\0\0" + name.encode()[:1]
    made = Subnet(name, 1, "vpc", name, NetworkType.VXLAN, 4097, prefix, gateway, mac, False, (), (), "")
    return SubnetWanted(made, SubnetRef(name, SEGMENT))


BLUE, GREEN = subnet("blue", "10.0.1.0/24"), subnet("green", "10.0.2.0/24")
OWN = FixedIp("blue", parse_address("10.0.1.11"))
PORT = Port("port-1", 1, "vpc", "", "vm", "compute", MAC, True, (OWN,), (), ())
WANTED = PortWanted(PORT, (BLUE,), (OWN,), frozenset({"blue"}))


def neighbor(*pairs: AddressPair) -> NeighborWanted:
    far = FixedIp("green", parse_address("10.0.2.12"))
    return NeighborWanted(Neighbor("n", 1, "vpc", MAC, HOST, (far,), Layer.L2, pairs), (GREEN.ref,))


def element(name: str, subnet_id: str, *parts: bytes) -> ElementItem:
    return ElementItem(name, key_bytes(number(mark_of(subnet_id)), *parts))


def test_a_subnet_has_its_gateways_answers() -> None:
    items = subnet_items(BLUE)
    gateway, mac = BLUE.subnet.gateway_address, BLUE.subnet.gateway_mac
    assert gateway is not None and mac is not None
    assert items[element("addresses", "blue", gateway)] == mac
    assert element("gateways", "blue", mac, gateway) in items
    without = SubnetWanted(replace(BLUE.subnet, gateway_mac=None, gateway_address=None), BLUE.ref)
    assert subnet_items(without) == {SegmentItem(SEGMENT): None}


def test_a_port_is_a_member_of_its_subnet_and_no_other() -> None:
    items = port_items(WANTED, 7, "tap1", hands_up_dhcp=False)
    assert items[MacItem(SEGMENT, MAC)] == Via(ifindex=7)
    assert items[element("addresses", "blue", OWN.address)] == MAC
    for name, rest in (("members", MAC), ("listeners", number(7))):
        assert element(name, "blue", rest) in items
        assert element(name, "green", rest) not in items


def test_a_port_that_is_down_is_in_the_bridge_and_in_nothing_else() -> None:
    down = replace(WANTED, port=replace(PORT, admin_state_up=False))
    items = port_items(down, 7, "tap1", hands_up_dhcp=False)
    assert set(items) == {SegmentItem(SEGMENT), TapItem(7), ElementItem("ports", number(7))}
    assert items[TapItem(7)] == Tap(SEGMENT, "tap1", ())


def test_an_address_that_another_has_claimed_is_not_answered() -> None:
    items = port_items(replace(WANTED, held=()), 7, "tap1", hands_up_dhcp=False)
    assert element("addresses", "blue", OWN.address) not in items
    assert MacItem(SEGMENT, MAC) in items


def test_dhcp_that_is_handed_up_goes_no_other_way() -> None:
    plain, handed = (port_items(WANTED, 7, "tap1", hands_up_dhcp=one) for one in (False, True))
    assert set(handed) - set(plain) == {ElementItem("dhcp", number(7))}


def test_a_port_may_speak_with_its_own_addresses_only() -> None:
    items = port_items(WANTED, 7, "tap1", hands_up_dhcp=False)
    assert items[TapItem(7)] == Tap(SEGMENT, "tap1", ())
    told = {item.key for item in items if isinstance(item, ElementItem) and item.set_name == "sources"}
    assert told == {key_bytes(number(7), MAC, OWN.address)}


def test_a_port_with_whole_prefixes_has_a_chain_of_its_own() -> None:
    port = replace(PORT, allowed_pairs=(AddressPair(parse_prefix("10.9.0.0/16"), None),))
    items = port_items(replace(WANTED, port=port), 7, "tap1", hands_up_dhcp=False)
    tap = items[TapItem(7)]
    assert isinstance(tap, Tap) and tap.rules
    assert ElementItem("apart", number(7)) in items


def test_a_mac_that_several_may_own_has_no_place() -> None:
    pair = AddressPair(parse_prefix("10.0.2.200"), SHARED)
    items = neighbor_items(neighbor(pair))
    assert MacItem(SEGMENT, SHARED) not in items
    assert element("shared", "green", SHARED) in items
    assert element("members", "green", SHARED) not in items


def test_a_neighbour_is_reached_resolved_and_flooded_to() -> None:
    items = neighbor_items(neighbor())
    assert items[MacItem(SEGMENT, MAC)] == Via(HOST)
    assert FloodItem(SEGMENT, HOST) in items
    assert items[element("addresses", "green", parse_address("10.0.2.12"))] == MAC
    assert items[ElementItem("senders", MAC, SEGMENT)] == number(mark_of("green"))


def test_only_a_lone_subnet_gets_what_unknown_senders_say() -> None:
    assert ElementItem("only", b"", SEGMENT) in only_items(SEGMENT, ["blue"])
    assert only_items(SEGMENT, ["blue", "green"]) == {}
    assert only_items(SEGMENT, []) == {}


def router(*routes: Route) -> RouterWanted:
    return RouterWanted(Router("r", 1, None, ()), (RoutedSubnet(BLUE, routes, ()), RoutedSubnet(GREEN, (), ())))


def routes_of(items: object, table: int) -> dict[Prefix, RouteValue]:
    assert isinstance(items, dict)
    return {one.destination: value for one, value in items.items() if isinstance(one, RouteItem) and one.table == table}


def test_frames_for_a_neighbour_on_geneve_are_marked_with_its_host() -> None:
    geneve = Segment(NetworkType.GENEVE, 4097)
    there = NeighborWanted(neighbor().neighbor, (SubnetRef("green", geneve),))
    assert neighbor_items(there)[ElementItem("hosts", MAC, geneve)] == number(host_number(HOST))
    assert host_number(HOST) == 0xAC100002
    assert 0 < host_number(parse_address("fd00::2")) < 1 << 32
    assert not any(item.set_name == "hosts" for item in neighbor_items(neighbor()) if isinstance(item, ElementItem))


def test_a_router_connects_its_subnets_through_tunnels_but_not_to_the_neighbours_here() -> None:
    items = router_items(router(), {"blue": {OWN.address}}, MTU)
    assert {RouterItem("r"), LegItem("blue"), LegItem("green")} <= set(items)
    assert not any(isinstance(item, RuleItem) for item in items)
    routes = routes_of(items, MAIN_TABLE)
    assert {str(prefix): value.mtu for prefix, value in routes.items()} == {
        "10.0.1.0/24": MTU,
        "10.0.2.0/24": MTU,
        "10.0.1.11/32": 0,
    }


def test_rules_are_for_the_subnet_that_has_them_and_a_connected_subnet_is_stronger() -> None:
    hop = parse_address("10.0.2.12")
    rules = [Route(parse_prefix(text), hop, GREEN.ref) for text in ("0.0.0.0/0", "10.0.2.0/24", "10.0.1.0/28")]
    items = router_items(router(*rules), {"blue": {OWN.address, parse_address("10.0.1.99")}}, MTU)
    table = mark_of("blue")
    assert [item for item in items if isinstance(item, RuleItem)] == [RuleItem("r", "blue", table)]
    routes = {str(prefix): value.via for prefix, value in routes_of(items, table).items()}
    assert routes == {
        "10.0.1.0/24": b"",
        "10.0.2.0/24": b"",
        "0.0.0.0/0": hop,
        "10.0.1.0/28": hop,
        # 10.0.1.11 is in the longer rule, so it goes where the rule says.
        "10.0.1.99/32": b"",
    }
