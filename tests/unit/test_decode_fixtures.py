"""What real controllers send decodes to what the header of each fixture says."""

from __future__ import annotations

import re
from collections import Counter
from itertools import chain

import pytest

from aca.goalstate.changes import Change, RouterPatch, TablePatch
from dataplane.addresses import parse_address, parse_mac, parse_prefix
from dataplane.model import (
    DhcpBinding,
    Direction,
    FixedIp,
    Gateway,
    GatewayDestination,
    GatewayKind,
    Kind,
    Layer,
    Neighbor,
    Port,
    RoutingRule,
    SecurityGroup,
    SecurityGroupRule,
    Subnet,
    Vpc,
)
from goalstate_proto.common_pb2 import OperationType
from tests.unit.goal_states import DOCK, HOST, QUAY, VPC, decode_fixture, fixture_names, fixture_text

ORDER = [
    Kind.VPC,
    Kind.SUBNET,
    Kind.SECURITYGROUP,
    Kind.GATEWAY,
    Kind.ROUTER,
    Kind.PORT,
    Kind.DHCP,
    Kind.NEIGHBOR,
]
OPTIONAL_STATUS = {Kind.VPC, Kind.SUBNET, Kind.SECURITYGROUP, Kind.GATEWAY}
REPLY = re.compile(r'^# reply: (PORT|DHCP|NEIGHBOR|ROUTER) (""|[0-9a-f_n-]+) ([A-Z]+) ->', re.MULTILINE)


def promised(name: str) -> Counter[tuple[str, str, str]]:
    """Kind, id and operation of the statuses that a fixture's header wants."""
    return Counter((kind, "" if found == '""' else found, op) for kind, found, op in REPLY.findall(fixture_text(name)))


def values(name: str, kind: Kind) -> list[Change]:
    return [change for change in chain.from_iterable(decode_fixture(name)) if change.kind is kind]


@pytest.mark.parametrize("name", fixture_names())
def test_fixture_gives_the_statuses_of_its_header(name: str) -> None:
    changes = list(chain.from_iterable(decode_fixture(name)))
    assert [change.error for change in changes if change.error] == []
    got = Counter(
        (change.kind.name, change.resource_id, OperationType.Name(change.operation))
        for change in changes
        if change.kind not in OPTIONAL_STATUS
    )
    wanted = promised(name)
    if name == "13-node-bootstrap.v2":
        neighbors = {key: count for key, count in got.items() if key[0] == "NEIGHBOR"}
        assert (len(neighbors), set(neighbors.values())) == (25, {1})
        wanted.update(neighbors)
    assert got == wanted


@pytest.mark.parametrize("name", fixture_names())
def test_kinds_come_in_the_order_of_dependence(name: str) -> None:
    lists = decode_fixture(name)
    kinds = [{change.kind for change in changes} for changes in lists]
    assert all(len(found) == 1 for found in kinds)
    positions = [ORDER.index(found.pop()) for found in kinds]
    assert positions == sorted(set(positions))


def test_single_port_v1() -> None:
    vpc, subnet, port, dhcp = chain.from_iterable(decode_fixture("01-single-port.v1"))
    assert vpc.value == Vpc(
        VPC, 1, "94f6fa95-77a3-47bf-8f3d-2875b1b4a7e6", "harbor-net", parse_prefix("10.20.0.0/16"), 0, ()
    )
    assert subnet.value == Subnet(
        id=QUAY,
        revision=1,
        vpc_id=VPC,
        name="harbor-quay",
        network_type=None,
        tunnel_id=70411,
        cidr=parse_prefix("10.20.1.0/24"),
        gateway_address=parse_address("10.20.1.1"),
        gateway_mac=parse_mac("aa:bb:cc:7c:4d:08"),
        dhcp_enable=True,
        dhcp_options=(),
        dns=(),
        availability_zone="az1",
    )
    assert port == Change(
        kind=Kind.PORT,
        id="27b791d7-3467-4f95-b1c0-c63a6a748ed3",
        resource_id="27b791d7-3467-4f95-b1c0-c63a6a748ed3",
        operation=OperationType.CREATE,
        revision=1,
        delete=False,
        full=True,
        value=Port(
            id="27b791d7-3467-4f95-b1c0-c63a6a748ed3",
            revision=1,
            vpc_id=VPC,
            name="single",
            device_id="test-device-1",
            device_owner="compute:nova",
            mac=parse_mac("aabb.cca1.f81e"),
            admin_state_up=True,
            fixed_ips=(FixedIp(QUAY, parse_address("10.20.1.11")),),
            allowed_pairs=(),
            security_group_ids=(),
        ),
        error="",
    )
    assert isinstance(port.value, Port)
    assert port.value.device_name == "tap27b791d7-34"
    binding = DhcpBinding(QUAY, 1, parse_mac("aa:bb:cc:a1:f8:1e"), parse_address("10.20.1.11"), None, "")
    assert dhcp == Change(
        Kind.DHCP, f"{QUAY}/aa:bb:cc:a1:f8:1e", "", OperationType.CREATE, 1, False, False, binding, ""
    )


def test_neighbor_update_is_an_upsert() -> None:
    (neighbor,) = values("03-port-l2-neighbor.v1", Kind.NEIGHBOR)
    wanted = Neighbor(
        "cd8f45b0-9c7f-4d8c-aa71-62983cdc3f6d",
        1,
        VPC,
        parse_mac("aa:bb:cc:18:46:c4"),
        parse_address("192.0.2.12"),
        (FixedIp(QUAY, parse_address("10.20.1.50")),),
        Layer.L2,
        (),
    )
    assert (neighbor.delete, neighbor.value) == (False, wanted)
    assert isinstance(neighbor.value, Neighbor)


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_router_is_info_and_joins_both_subnets(version: str) -> None:
    (router,) = values(f"04-two-subnets-l3.{version}", Kind.ROUTER)
    assert (router.operation, router.delete, router.full) == (OperationType.INFO, False, False)
    assert isinstance(router.value, RouterPatch)
    assert router.value.host_dvr_mac == parse_mac("fe:16:11:00:00:00")
    tables = {table.subnet_id: table for table in router.value.tables}
    assert len(tables) == len(router.value.tables)
    assert tables[DOCK] == TablePatch(DOCK, (), ())
    assert tables.keys() == {QUAY, DOCK}


def test_both_versions_of_a_message_ask_for_the_same() -> None:
    def asked(name: str, kind: Kind) -> dict[str, object]:
        return {change.id: change.value for change in values(name, kind)}

    for kind in (Kind.PORT, Kind.VPC, Kind.DHCP):
        assert asked("04-two-subnets-l3.v1", kind) == asked("04-two-subnets-l3.v2", kind)
    old, new = asked("04-two-subnets-l3.v1", Kind.NEIGHBOR), asked("04-two-subnets-l3.v2", Kind.NEIGHBOR)
    for key in ("14eb2c00-63d7-48ce-8435-4ef57ae8c450", "42500627-9241-4b3d-a80a-09181b48b130"):
        assert old[key] == new[key]
        assert isinstance(neighbor := new[key], Neighbor)
        assert neighbor.layer is Layer.L3


def test_routing_rules_set_and_withdrawn() -> None:
    (router,) = values("05-route-next-hop.v2", Kind.ROUTER)
    assert isinstance(router.value, RouterPatch)
    (table,) = router.value.tables
    assert table.subnet_id == QUAY
    assert [(str(rule.destination), rule.next_hop, rule.priority) for rule in table.upserts] == [
        ("10.99.0.0/16", parse_address("10.20.2.50"), 100),
        ("10.98.7.0/24", parse_address("10.20.1.51"), 100),
        ("0.0.0.0/0", parse_address("10.20.2.50"), 500),
    ]
    assert all(rule.to_internet for rule in table.upserts)
    assert [(rule.id, str(rule.destination)) for rule in table.removals] == [
        ("675138a5-3a17-4c29-a9a6-b38a12726696", "10.97.0.0/16")
    ]
    assert table.upserts[0] == RoutingRule(
        "b2e11890-d72f-4e81-9094-4254c8ea4bcc",
        "route4cf55552-eb86-4132-a0ae-69e2ebb81f27",
        parse_prefix("10.99.0.0/16"),
        parse_address("10.20.2.50"),
        100,
        True,
    )


def test_dhcp_create_update_delete() -> None:
    (subnet,) = values("06-dhcp-create-update-delete.v1", Kind.SUBNET)
    assert isinstance(subnet.value, Subnet)
    assert subnet.value.dns == (parse_address("198.51.100.53"), parse_address("198.51.100.54"))
    create, update, delete = values("06-dhcp-create-update-delete.v1", Kind.DHCP)
    assert isinstance(create.value, DhcpBinding)
    assert isinstance(update.value, DhcpBinding)
    assert (create.value.host_name, create.value.ipv4) == ("lease-zero", parse_address("10.20.1.21"))
    assert (update.delete, update.full, update.value.ipv4) == (False, True, parse_address("10.20.1.122"))
    assert (delete.delete, delete.value, delete.id) == (True, None, f"{QUAY}/aa:bb:cc:88:54:2d")


def test_port_delete_and_unbound_port() -> None:
    ports = {change.resource_id: change for change in values("07-port-delete.v2", Kind.PORT)}
    assert {key: (one.operation, one.delete, one.value) for key, one in ports.items()} == {
        "646ac0bf-1359-4821-82ed-abb11a8a09b4": (OperationType.DELETE, True, None),
        "6817eaca-9fdf-4b01-9308-eaf046b457cf": (OperationType.UPDATE, True, None),
    }
    neighbors = {change.id: change.delete for change in values("07-port-delete.v2", Kind.NEIGHBOR)}
    assert neighbors == {
        "646ac0bf-1359-4821-82ed-abb11a8a09b4": True,
        "6817eaca-9fdf-4b01-9308-eaf046b457cf": False,
    }
    created = {change.id for change in values("02-two-ports-same-subnet.v2", Kind.DHCP)}
    (deleted,) = values("07-port-delete.v2", Kind.DHCP)
    assert deleted.delete
    assert deleted.id in created
    assert deleted.resource_id == "c6d3601d-53d9-4709-b844-64c5f631e5d7"


def test_security_group_rules() -> None:
    (change,) = values("08-security-group.v2", Kind.SECURITYGROUP)
    assert isinstance(change.value, SecurityGroup)
    assert change.full
    inside, anywhere = parse_prefix("10.20.0.0/16"), parse_prefix("0.0.0.0/0")
    ingress, egress = Direction.INGRESS, Direction.EGRESS
    got = [
        (rule.direction, rule.ipv6, rule.protocol, rule.port_min, rule.port_max, rule.remote_prefix)
        for rule in change.value.rules
    ]
    assert got == [
        (ingress, False, 6, 22, 22, inside),
        (ingress, False, 6, 8000, 8010, anywhere),
        (ingress, False, 17, 53, 53, parse_prefix("10.20.2.50/32")),
        (ingress, False, 1, 0, 0, inside),
        (egress, False, None, 0, 0, None),
        (egress, True, None, 0, 0, None),
    ]
    assert change.value.rules[4] == SecurityGroupRule(
        "467d1782-a28d-4a29-806e-fecafb58984b", egress, False, None, 0, 0, None, ""
    )


def test_zeta_gateway() -> None:
    (vpc,) = values("09-zeta-gateway.v1", Kind.VPC)
    (gateway,) = values("09-zeta-gateway.v1", Kind.GATEWAY)
    (port,) = values("09-zeta-gateway.v1", Kind.PORT)
    assert isinstance(vpc.value, Vpc)
    assert (vpc.value.tunnel_id, vpc.value.gateway_ids) == (70555, (gateway.id,))
    assert gateway.value == Gateway(
        id="d17bef20-5844-4e82-8455-07fda0a33ea4",
        revision=1,
        gateway_kind=GatewayKind.ZETA,
        destinations=(
            GatewayDestination(parse_address("192.0.2.101"), parse_mac("02:5a:c0:00:02:65")),
            GatewayDestination(parse_address("192.0.2.102"), parse_mac("02:5a:c0:00:02:66")),
        ),
        vpc_id="",
        subnet_id="",
        vni=0,
        inband_port=8300,
    )
    assert isinstance(port.value, Port)
    assert port.value.security_group_ids == ("1",)


def test_arion_gateways_are_keyed_by_subnet() -> None:
    gateways = values("10-arion-gateway.v2", Kind.GATEWAY)
    assert {change.id for change in gateways} == {
        "arion/eb4a4841-bc78-4126-b90e-4be6c262938a",
        "arion/b035d0e6-d083-4379-b607-e09e8690c694",
    }
    for change in gateways:
        assert isinstance(change.value, Gateway)
        assert change.value.id == change.id
        assert (change.value.vni, change.value.inband_port, change.revision) == (93318, 8300, 0)
        assert change.value.vpc_id == "0601f1e7-cd4e-4c7f-a5c3-5045b668a82a"


@pytest.mark.parametrize(
    ("host", "neighbors"),
    [("192.0.2.11", 1), ("192.0.2.12", 1), ("192.0.2.14", 0)],
)
def test_multicast_is_for_those_it_names(host: str, neighbors: int) -> None:
    changes = list(chain.from_iterable(decode_fixture("11-multicast-two-hosts.v2", frozenset((host,)))))
    assert [change.kind for change in changes].count(Kind.NEIGHBOR) == neighbors
    assert [change.id for change in changes if change.kind is Kind.SUBNET] == [QUAY]


def test_warm_up_asks_for_nothing() -> None:
    assert decode_fixture("12-empty-warm-up.v2") == []


def test_bootstrap_by_management_address() -> None:
    both = frozenset(("192.0.2.11", "198.51.100.11"))
    assert decode_fixture("13-node-bootstrap.v2", both) == decode_fixture("13-node-bootstrap.v2", HOST)
    hosts = {
        change.value.host
        for change in chain.from_iterable(decode_fixture("13-node-bootstrap.v2", both))
        if isinstance(change.value, Neighbor)
    }
    assert hosts == {parse_address(f"198.51.100.{last}") for last in range(11, 16)}
    subnets = [change.value for change in values("13-node-bootstrap.v2", Kind.SUBNET)]
    assert {subnet.tunnel_id for subnet in subnets if isinstance(subnet, Subnet)} == {16000123}
    (vpc,) = values("13-node-bootstrap.v2", Kind.VPC)
    assert isinstance(vpc.value, Vpc)
    assert vpc.value.cidr is None
