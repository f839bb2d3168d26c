"""What the renderers make: flows that a switch takes, the same for the same, and nothing where nothing belongs."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterable, Sequence

import pytest

from dataplane.addresses import host_prefix, parse_address, parse_mac, parse_prefix
from dataplane.base import Batch
from dataplane.model import (
    FixedIp,
    Kind,
    Layer,
    Neighbor,
    NeighborWanted,
    NetworkType,
    PortWanted,
    Route,
    RoutedSubnet,
    Router,
    RouterWanted,
    Segment,
    SubnetRef,
    SubnetWanted,
)
from dataplane.ovs.openflow import messages, oxm
from dataplane.ovs.pipeline.dhcp import dhcp_flows
from dataplane.ovs.pipeline.flood import MAX_REMOTE, Membership, flood_flows, segment_flows
from dataplane.ovs.pipeline.layout import COOKIE_MARK, Feature, Flow, Table, cookie, cookie_feature, subnet_key
from dataplane.ovs.pipeline.neighbor import body_maker, neighbor_flows
from dataplane.ovs.pipeline.port import port_flows, subnet_of
from dataplane.ovs.pipeline.router import router_flows
from dataplane.ovs.pipeline.static import punt_flows, static_flows
from dataplane.ovs.pipeline.subnet import subnet_flows
from dataplane.ovs.pipeline.unknown import PORT_METERS, meter_of, unknown_flows, unresolved_flows
from tests.unit.desired_world import THERE, pair, port, subnet
from tests.unit.fake_plane import SwitchlessOvs

SEGMENT = Segment(NetworkType.VXLAN, 10)
TUNNELS = {NetworkType.VXLAN: 65001, NetworkType.GENEVE: 65002}
GOTO = 1


def wanted_subnet(
    name: str = "s", cidr: str = "10.0.0.0/24", gateway: str = "10.0.0.1", tunnel: int = 10
) -> SubnetWanted:
    return SubnetWanted(subnet(name, cidr, gateway=gateway), SubnetRef(name, Segment(NetworkType.VXLAN, tunnel)))


S = wanted_subnet()
T = wanted_subnet("t", "10.1.0.0/24", "10.1.0.1")
U = wanted_subnet("u", "10.2.0.0/24", "10.2.0.1", tunnel=11)
"""All of them have the same gateway MAC."""


def wanted_port(*subnets: SubnetWanted, up: bool = True, held: tuple[FixedIp, ...] | None = None) -> PortWanted:
    ips = [f"{one.id} {str(one.subnet.cidr).replace('.0/24', '.5')}" for one in subnets]
    value = port("p", *ips, up=up, pairs=(pair("10.0.0.200", "00:00:5e:00:01:01"), pair("fd00::/64")))
    mac_held = frozenset(one.id for one in subnets)
    return PortWanted(value, subnets, value.fixed_ips if held is None else held, mac_held)


def wanted_router(
    *subnets: SubnetWanted, routes: tuple[Route, ...] = (), outliers: tuple[bytes, ...] = ()
) -> RouterWanted:
    """Rules and outliers are the first subnet's."""
    first, *more = subnets
    routed = (RoutedSubnet(first, routes, outliers), *(RoutedSubnet(one, (), ()) for one in more))
    return RouterWanted(Router("r", 1, None, ()), routed)


ROUTE = Route(parse_prefix("10.9.0.0/16"), parse_address("10.1.0.9"), T.ref)
MEMBERS = Membership(S.ref, (5, 6), (THERE,), (parse_mac("00:00:5e:00:01:01"),))

def remote(name: str, ref: SubnetRef, address: bytes) -> NeighborWanted:
    mac = parse_mac("fa:16:3e:00:02:01")
    return NeighborWanted(Neighbor(name, 1, "v", mac, THERE, (FixedIp(ref.subnet_id, address),), Layer.L2, ()), (ref,))


RENDERED: dict[str, Sequence[Flow]] = {
    "static": static_flows(TUNNELS, 1450) + [flow for _, flow in punt_flows(True)],
    "subnet": subnet_flows(S),
    "port": port_flows(wanted_port(S), 5),
    "port in two subnets": port_flows(wanted_port(S, T), 5),
    "dhcp": dhcp_flows(wanted_port(S), 5, True),
    "router": router_flows(wanted_router(S, T, routes=(ROUTE,), outliers=(parse_address("172.16.0.9"),))),
    "flood": flood_flows(MEMBERS, 65001),
    "segment": segment_flows(SEGMENT, [MEMBERS]),
    "segment of two": segment_flows(SEGMENT, [MEMBERS, Membership(T.ref, (7,), (), ())]),
    "neighbor": neighbor_flows(remote("n", S.ref, parse_address("10.0.0.7"))),
}


def goto_of(instructions: bytes) -> int | None:
    """The table that instructions go on to; raises if they do not parse (OpenFlow 1.4, 7.2.4)."""
    offset, found = 0, None
    while offset < len(instructions):
        kind, length = struct.unpack_from("!HH", instructions, offset)
        assert length >= 8 and length % 8 == 0
        if kind == GOTO:
            found = instructions[offset + 4]
        offset += length
    assert offset == len(instructions)
    return found


def matches(flow: Flow) -> dict[int, tuple[bytes, bytes | None]]:
    return {header: (value, mask) for header, value, mask in oxm.split(flow.match)}


def in_table(flows: Iterable[Flow], table: Table) -> list[Flow]:
    return [flow for flow in flows if flow.table == table]


@pytest.mark.parametrize("flows", RENDERED.values(), ids=RENDERED)
class TestEveryRenderer:
    def test_tables_go_on_only(self, flows: Sequence[Flow]) -> None:
        """A switch refuses a goto to the same table or back."""
        for flow in flows:
            target = goto_of(flow.instructions)
            assert target is None or target > flow.table
            assert target is None or target in set(Table)

    def test_matches_parse_and_name_each_field_once(self, flows: Sequence[Flow]) -> None:
        for flow in flows:
            fields = [header for header, _, _ in oxm.split(flow.match)]
            assert len(set(fields)) == len(fields)

    def test_no_two_flows_have_one_match(self, flows: Sequence[Flow]) -> None:
        spelled = Counter((flow.table, flow.priority, oxm.canonical(flow.match)) for flow in flows)
        assert set(spelled.values()) == {1}

    def test_flow_mods_fit_a_message(self, flows: Sequence[Flow]) -> None:
        assert all(len(messages.flow_add(0, *flow)) <= messages.MAX_MESSAGE - 24 for flow in flows)


# -- neighbours


@pytest.mark.parametrize("name", ["n", "", "a-much-longer-identifier" * 5])
@pytest.mark.parametrize("subnet_id", ["s", "COOKIE", "\xa2AD\xa2"])
def test_the_fast_encoder_says_what_the_flows_say(name: str, subnet_id: str) -> None:
    ref = SubnetRef(subnet_id, SEGMENT)
    address, mac = parse_address("10.0.0.7"), parse_mac("fa:16:3e:00:02:01")
    wanted = remote(name, ref, address)
    mark = cookie(Feature.NEIGHBOR, name)
    expected = tuple(messages.flow_add(mark, *flow) for flow in neighbor_flows(wanted))
    assert body_maker(ref)(mark.to_bytes(8, "big"), address, mac, THERE) == expected


def test_a_neighbour_that_holds_nothing_has_no_flows() -> None:
    wanted = remote("n", S.ref, bytes(4))
    nothing_held = frozenset({(S.id, bytes(4)), (S.id, wanted.neighbor.mac)})
    assert neighbor_flows(wanted._replace(lost=nothing_held)) == []
    assert neighbor_flows(wanted._replace(subnets=())) == []
    assert neighbor_flows(wanted._replace(neighbor=wanted.neighbor._replace(host=bytes(16)))) == []


# -- ports


def test_a_port_that_is_down_has_no_flows() -> None:
    assert port_flows(wanted_port(S, up=False), 5) == []
    assert dhcp_flows(wanted_port(S, up=False), 5, False) == []


def test_only_addresses_that_it_holds_lead_to_a_port() -> None:
    assert len(in_table(port_flows(wanted_port(S), 5), Table.RESOLVE)) == 1
    assert in_table(port_flows(wanted_port(S, held=()), 5), Table.RESOLVE) == []
    assert len(in_table(port_flows(wanted_port(S, held=()), 5), Table.BRIDGE)) == 1


def test_every_flow_of_a_port_that_lets_frames_in_names_the_port() -> None:
    flows = port_flows(wanted_port(S, T), 5)
    for table in (Table.CLASSIFY, Table.ANTI_SPOOF, Table.ND_TARGET, Table.SELECT, Table.SERVICES):
        assert in_table(flows, table)
        assert all(flow.match.startswith(oxm.in_port(5)) for flow in in_table(flows, table))


def test_every_source_that_may_speak_has_a_mac_of_the_port() -> None:
    allowed = {parse_mac("fa:16:3e:00:01:01"), parse_mac("00:00:5e:00:01:01")}
    sources = [matches(flow)[oxm.ETH_SRC.header] for flow in in_table(port_flows(wanted_port(S), 5), Table.ANTI_SPOOF)]
    assert {value for value, mask in sources} == allowed and {mask for _, mask in sources} == {None}


def test_a_port_in_subnets_with_one_gateway_mac_renders_and_speaks_in_its_first() -> None:
    flows = {flow[:3]: flow for flow in port_flows(wanted_port(S, T, U), 5)}
    to_gateway = oxm.in_port(5) + oxm.eth_dst(parse_mac("fa:16:3e:00:00:01"))
    best = max((flow for flow in flows.values() if flow.match == to_gateway), key=lambda flow: flow.priority)
    assert best.table == Table.SELECT and goto_of(best.instructions) == Table.SERVICES
    # And nothing else: it enters no other subnet.
    assert len(best.instructions) == 8


def test_the_subnet_of_an_address_is_the_one_whose_prefix_holds_it() -> None:
    wanted = wanted_port(S, T)
    assert subnet_of(wanted, parse_address("10.1.0.77")) is T
    assert subnet_of(wanted, parse_address("192.0.2.1")) is S
    assert subnet_of(wanted, b"") is S


# -- subnets and routers


def test_a_subnet_without_a_whole_gateway_has_no_flows() -> None:
    bare = SubnetWanted(subnet(), S.ref)
    assert subnet_flows(bare) == []
    six = SubnetWanted(subnet(gateway="fd00::1"), S.ref)
    assert subnet_flows(six) == [] and router_flows(wanted_router(six, bare)) == []


def test_longer_prefixes_win_and_connected_ones_win_over_rules_of_one_length() -> None:
    same = Route(parse_prefix("10.1.0.0/24"), parse_address("10.1.0.9"), T.ref)
    longer = Route(parse_prefix("10.1.0.128/25"), parse_address("10.1.0.9"), T.ref)
    default = Route(parse_prefix("0.0.0.0/0"), parse_address("10.1.0.9"), T.ref)
    flows = in_table(router_flows(wanted_router(S, T, routes=(default, same, longer))), Table.ROUTE)

    def priority(text: str) -> list[int]:
        prefix = parse_prefix(text)
        tail = oxm.ipv4_dst(prefix.address, prefix.length)
        return sorted(flow.priority for flow in flows if flow.match.endswith(oxm.eth_type(0x0800) + tail))

    rule, connected = priority("10.1.0.0/24")
    assert max(priority("0.0.0.0/0") or [0]) < rule < connected < priority("10.1.0.128/25")[0]


def test_rules_count_only_for_frames_of_their_subnet_and_connected_routes_for_all() -> None:
    flows = in_table(router_flows(wanted_router(S, T, routes=(ROUTE,))), Table.ROUTE)
    bound = [flow for flow in flows if oxm.METADATA.header in matches(flow)]
    (only,) = bound
    assert matches(only)[oxm.METADATA.header] == (subnet_key("s").to_bytes(8, "big"), None)


def test_a_rule_into_a_subnet_without_a_gateway_is_left_out() -> None:
    bare = SubnetWanted(subnet("t", "10.1.0.0/24"), T.ref)
    assert router_flows(wanted_router(S, bare, routes=(ROUTE,))) == router_flows(wanted_router(S, bare))


def test_outliers_are_host_routes() -> None:
    outlier = host_prefix(parse_address("172.16.0.9"))
    flows = router_flows(wanted_router(S, outliers=(outlier.address, bytes(16))))
    (found,) = [flow for flow in flows if flow.match.endswith(oxm.ipv4_dst(outlier.address))]
    assert found.table == Table.ROUTE and found.priority > 1000


# -- flooding


@pytest.mark.parametrize("hosts", [0, 1, 500, 501, 3000])
def test_lists_of_any_length_fit_their_messages_and_name_every_host_once(hosts: int) -> None:
    remote = tuple(number.to_bytes(4, "big") for number in range(0x0A000001, 0x0A000001 + hosts))
    flows = flood_flows(Membership(S.ref, tuple(range(1, 451)), remote, ()), 65001)
    assert all(len(messages.flow_add(0, *flow)) < messages.MAX_MESSAGE for flow in flows)
    everything = b"".join(flow.instructions for flow in in_table(flows, Table.FLOOD))
    # The switch gives up on longer ones: the list ends where it would.
    reached = remote[:MAX_REMOTE]
    assert all(everything.count(oxm.tun_ipv4_dst(host)) == 1 for host in reached)
    assert not any(oxm.tun_ipv4_dst(host) in everything for host in remote[MAX_REMOTE:])
    here = b"".join(flow.instructions for flow in in_table(flows, Table.FLOOD_LOCAL))
    assert all(here.count(oxm.reg(2, ofport)) == 1 for ofport in range(1, 451))


def test_nothing_is_flooded_where_no_port_is() -> None:
    nobody = Membership(S.ref, (), (THERE,), ())
    assert flood_flows(nobody, 65001) == [] and segment_flows(SEGMENT, [nobody]) == []


def test_what_is_written_does_not_depend_on_the_order_of_anything() -> None:
    flows = flood_flows(MEMBERS, 65001)
    assert flows == flood_flows(Membership(*(getattr(MEMBERS, name) for name in Membership.__slots__)), 65001)
    assert static_flows(TUNNELS, 1450) == static_flows(dict(TUNNELS), 1450)


# -- cookies


def test_a_cookie_tells_whose_and_of_which_feature_it_is() -> None:
    value = cookie(Feature.PUNT_TTL, "")
    assert value >> 56 == COOKIE_MARK and cookie_feature(value) == Feature.PUNT_TTL
    assert cookie(Feature.PORT, "a") != cookie(Feature.PORT, "b")


def test_unknown_destinations_are_handed_up_by_each_ports_own_meter() -> None:
    meters = [meter_of(ofport) for ofport in range(1, len(PORT_METERS) + 1)]
    assert len(set(meters)) == len(meters) and set(meters) <= set(PORT_METERS)
    (metered,), (free,) = (unknown_flows(wanted_port(S), 7, metered) for metered in (True, False))
    assert metered[:3] == free[:3] == (Table.UNKNOWN, 100, oxm.in_port(7))
    assert metered.instructions.endswith(free.instructions) and len(metered.instructions) == len(free.instructions) + 8
    assert unknown_flows(wanted_port(S, up=False), 7, True) == []


def test_what_is_asked_for_stands_above_what_is_flooded_or_dropped() -> None:
    asked = unresolved_flows()
    asking = (Table.RESOLVE, Table.BRIDGE)
    assert {flow.table for flow in asked} == set(asking)
    of_all = [flow for flow in static_flows(TUNNELS, 1450) if flow.table in asking]
    known = [flow for flow in port_flows(wanted_port(S, T), 7) if flow.table in asking]
    assert all(below.priority < flow.priority for flow in asked for below in of_all)
    assert all(flow.priority < above.priority for flow in asked for above in known)


def test_without_a_controller_nothing_is_handed_up_and_with_one_each_port_is() -> None:
    value = wanted_port(S)
    bare, asking = SwitchlessOvs({"p": 7}), SwitchlessOvs({"p": 7}, on_demand=True)
    for host in (bare, asking):
        host.apply([Batch(Kind.SUBNET, (S,)), Batch(Kind.PORT, (value,))])
    differing = {flow[:2] for flow in asking.flows.keys() - bare.flows.keys()}
    assert differing == {(Table.RESOLVE, 20), (Table.BRIDGE, 20), (Table.UNKNOWN, 100)}
    assert not bare.flows.keys() - asking.flows.keys()
    asking.apply([Batch(Kind.PORT, removals=("p",)), Batch(Kind.SUBNET, removals=("s",))])
    asking.assert_empty()
