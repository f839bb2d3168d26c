"""The goal states of real controllers, pushed to an agent on Open vSwitch: each does what its header says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from google.protobuf import text_format

from goalstate_proto import common_pb2
from goalstate_proto.goalstate_pb2 import GoalState, GoalStateV2
from goalstate_proto.port_pb2 import PortState
from tests.conformance.backends import OvsBackend
from tests.conformance.cloud import Reply, Site
from tests.conformance.frames import udp_frame
from tests.lab import AgentProcess, Guest, GuestSpec, Host, Lab, wait_until

pytestmark = pytest.mark.lab

FIXTURES = Path(__file__).parent.parent / "fixtures"
MANAGEMENT, DATA_PATH = "192.0.2.11", "198.51.100.11"
STATUS_LINE = re.compile(r"^# reply: (PORT|NEIGHBOR|DHCP|ROUTER) (\S+) ([A-Z]+) -> (SUCCESS|PENDING)", re.M)
MANY_LINE = re.compile(r"^# reply: (NEIGHBOR) <port id> ([A-Z]+) -> (SUCCESS), (\d+) times", re.M)
AFTER = {
    "05-route-next-hop.v2": ["04-two-subnets-l3.v2"],
    "07-port-delete.v2": ["02-two-ports-same-subnet.v2"],
    "11-multicast-two-hosts.v2": ["02-two-ports-same-subnet.v2"],
}
NAMES = sorted(path.name.removesuffix(".txtpb") for path in FIXTURES.glob("*.txtpb"))
VXLAN_PORT = 4789


def text_of(name: str) -> str:
    return (FIXTURES / f"{name}.txtpb").read_text()


def load(name: str) -> GoalState | GoalStateV2:
    if name.endswith(".v1"):
        return text_format.Parse(text_of(name), GoalState())
    return text_format.Parse(text_of(name), GoalStateV2())


def ports_of(message: GoalState | GoalStateV2) -> list[PortState]:
    return list(message.port_states.values() if isinstance(message, GoalStateV2) else message.port_states)


def specs_of(*names: str) -> list[GuestSpec]:
    """The guests that belong to the ports of fixtures."""
    specs = {}
    for name in names:
        message = load(name)
        for state in ports_of(message):
            wire = state.configuration
            if state.operation_type == common_pb2.CREATE:
                mac = wire.mac_address.lower()
                specs[wire.id] = GuestSpec(wire.id, mac, tuple(f"{one.ip_address}/24" for one in wire.fixed_ips))
    return list(specs.values())


def expected(name: str) -> list[tuple[str, str, str, str]]:
    """(kind, id, operation, status) as the header lists them, ports with their devices."""
    text = text_of(name)
    lines = [
        (kind, "" if resource_id == '""' else resource_id, operation, status)
        for kind, resource_id, operation, status in STATUS_LINE.findall(text)
    ]
    return sorted(lines)


def mandatory(reply: Reply) -> list[tuple[str, str, str, str]]:
    """The statuses that headers list."""
    return sorted(
        (kind, name, operation, status)
        for kind, name, operation, status in reply.statuses
        if kind in ("PORT", "NEIGHBOR", "DHCP", "ROUTER")
    )


@pytest.fixture(scope="module")
def host(module_lab: Lab) -> Host:
    """A host whose underlay knows the way to the other hosts of the fixtures."""
    made = module_lab.host("h1")
    for own in (MANAGEMENT, DATA_PATH):
        made.namespace.ip(f"addr add {own}/24 dev br-phy")
        for last in (12, 13, 14, 15):
            other = f"{own.rpartition('.')[0]}.{last}"
            made.appctl("tnl/neigh/set", "br-phy", other, f"02:00:00:00:02:{last:02x}")
    return made


@contextmanager
def running(host: Host, *addresses: str) -> Iterator[Site]:
    """An agent that knows nothing yet, on a bridge without ports; both go with it."""
    config = {"host": {"addresses": [*addresses], "tunnel_address": addresses[-1]}}
    agent: AgentProcess = host.agent(config)
    try:
        agent.wait_ready()
        yield Site(host, agent, OvsBackend())
    finally:
        status = agent.stop()
        host.vsctl("--if-exists", "del-br", host.bridge)
    assert status == 0, agent.log_tail()


@pytest.fixture
def site(host: Host) -> Iterator[Site]:
    """The host that the fixtures are for."""
    with running(host, MANAGEMENT, DATA_PATH) as started:
        yield started


@pytest.fixture
def make_guests(host: Host) -> Iterator[list[Guest]]:
    """Guests put in here go when the test is over."""
    made: list[Guest] = []
    yield made
    for guest in made:
        guest.remove()


def push(site: Site, name: str) -> Reply:
    return site.send(load(name))


def check_optional(reply: Reply) -> None:
    """VPC, SUBNET, GATEWAY, SECURITYGROUP: what the headers allow, and what this data plane says."""
    for kind, _, _, status in reply.statuses:
        match kind:
            case "VPC" | "SUBNET":
                assert status == "SUCCESS"
            case "GATEWAY":
                assert status == "INVALID_ARG", "no gateways on this data plane"
            case "SECURITYGROUP":
                pytest.fail("a group that is not enforced must not be called programmed")
    for (kind, name), reason in reply.reasons.items():
        assert reason, (kind, name)
        assert kind in ("GATEWAY", "PORT", "NEIGHBOR"), (kind, name, reason)


@pytest.mark.parametrize("name", NAMES)
def test_replies_are_as_the_header_says(name: str, site: Site, make_guests: list[Guest]) -> None:
    for earlier in AFTER.get(name, []):
        push(site, earlier)
    want = expected(name)
    (many,) = MANY_LINE.findall(text_of(name)) or [("", "", "", "0")]

    def compare(reply: Reply, with_devices: bool) -> None:
        listed = [one for one in mandatory(reply) if not int(many[3]) or one[0] != "NEIGHBOR"]
        missing_devices = {spec.port_id for spec in specs_of(name)} if not with_devices else set()
        assert listed == sorted(
            (kind, one, operation, "PENDING" if kind == "PORT" and one in missing_devices else status)
            for kind, one, operation, status in want
        )
        if int(many[3]):
            neighbors = [one for one in mandatory(reply) if one[0] == "NEIGHBOR"]
            assert [(kind, operation, status) for kind, _, operation, status in neighbors] == [
                ("NEIGHBOR", many[1], "SUCCESS")
            ] * int(many[3])
        for kind, one, _, status in reply.statuses:
            if kind == "PORT" and status == "PENDING":
                assert "device" in reply.reasons[kind, one]
        check_optional(reply)

    compare(push(site, name), with_devices=False)
    make_guests += site.host.guests(specs_of(name, *AFTER.get(name, [])))
    ports = {("PORT", spec.port_id) for spec in specs_of(name)}

    def unwired() -> set[tuple[str, str]]:
        return {(one["kind"], one["id"]) for one in site.agent.status()["problems"]} & ports

    wait_until(lambda: not unwired(), 5.0, "the ports' devices are noticed")
    compare(push(site, name), with_devices=True)
    before = site.footprint()
    compare(push(site, name), with_devices=True)
    assert site.footprint() == before, "applied twice, nothing changes"


def test_two_ports_of_one_subnet_reach_each_other(site: Site, make_guests: list[Guest]) -> None:
    name = "02-two-ports-same-subnet.v2"
    make_guests += site.host.guests(specs_of(name))
    assert not push(site, name).troubles
    one, two = make_guests
    assert one.ping(two.ip, count=2).received == 2


def test_04_in_both_forms_is_the_same(site: Site, make_guests: list[Guest]) -> None:
    make_guests += site.host.guests(specs_of("04-two-subnets-l3.v1"))
    push(site, "04-two-subnets-l3.v1")
    first = site.footprint()
    push(site, "04-two-subnets-l3.v2")
    assert site.footprint() == first
    assert site.agent.status()["conflicts"] == []


def tunnelled(site: Site, guest: Guest, frame_to: str, to_ip: str) -> tuple[str, int, str, str]:
    """(tunnel end, tunnel id, inner destination MAC, inner source MAC) of a packet that the guest sends."""
    mark = f"for {to_ip}".encode()
    frame = udp_frame(frame_to, guest.mac, guest.ip, to_ip, mark)
    with site.host.capture(outgoing=True) as uplink:
        guest.send_raw(frame)
        (packet,) = uplink.frames(lambda f: mark in f, count=1, within=3.0)
    assert int.from_bytes(packet[36:38], "big") == VXLAN_PORT
    inner = packet[50:]
    end = ".".join(map(str, packet[30:34]))
    return end, int.from_bytes(packet[46:49], "big"), inner[:6].hex(":"), inner[6:12].hex(":")


def test_03_reaches_the_neighbour_through_its_tunnel(site: Site, make_guests: list[Guest]) -> None:
    name = "03-port-l2-neighbor.v1"
    make_guests += site.host.guests(specs_of(name))
    assert not push(site, name).troubles
    (guest,) = make_guests
    assert guest.arp("10.20.1.50") == "aa:bb:cc:18:46:c4"
    assert tunnelled(site, guest, "aa:bb:cc:18:46:c4", "10.20.1.50") == (
        "192.0.2.12",
        70411,
        "aa:bb:cc:18:46:c4",
        guest.mac,
    )


def gateway_mac(name: str, subnet_gateway: str) -> str:
    message = load(name)
    for state in message.subnet_states.values() if isinstance(message, GoalStateV2) else message.subnet_states:
        gateway = state.configuration.gateway
        if gateway.ip_address == subnet_gateway:
            return str(gateway.mac_address).lower()
    raise AssertionError(f"no subnet with gateway {subnet_gateway}")


def mac_of_neighbor(name: str, ip: str) -> str:
    message = load(name)
    assert isinstance(message, GoalStateV2)
    for state in message.neighbor_states.values():
        if state.configuration.fixed_ips[0].ip_address == ip:
            return state.configuration.mac_address.lower()
    raise AssertionError(f"no neighbour with {ip}")


@pytest.mark.parametrize("name", ["04-two-subnets-l3.v1", "04-two-subnets-l3.v2"])
def test_04_routes_through_tunnels_with_the_hosts_mac(name: str, site: Site, make_guests: list[Guest]) -> None:
    make_guests += site.host.guests(specs_of(name))
    assert not push(site, name).troubles
    (guest,) = make_guests
    for gateway in ("10.20.1.1", "10.20.2.1"):
        guest.run("ip", "route", "replace", "default", "via", "10.20.1.1", "dev", "eth0")
        assert guest.ping(gateway).received == 1
    gateway = gateway_mac(name, "10.20.1.1")
    v2 = "04-two-subnets-l3.v2"
    assert tunnelled(site, guest, gateway, "10.20.2.50") == (
        "192.0.2.12",
        70411,
        mac_of_neighbor(v2, "10.20.2.50"),
        "fe:16:11:00:00:00",
    )
    beside = mac_of_neighbor(v2, "10.20.1.51")
    assert guest.arp("10.20.1.51") == beside
    assert tunnelled(site, guest, beside, "10.20.1.51") == ("192.0.2.13", 70411, beside, guest.mac)


def test_05_routes_to_next_hops(site: Site, make_guests: list[Guest]) -> None:
    v2 = "04-two-subnets-l3.v2"
    make_guests += site.host.guests(specs_of(v2))
    push(site, v2)
    (guest,) = make_guests
    gateway = gateway_mac(v2, "10.20.1.1")
    assert not push(site, "05-route-next-hop.v2").troubles
    far, beside = mac_of_neighbor(v2, "10.20.2.50"), mac_of_neighbor(v2, "10.20.1.51")
    for to_ip, end, mac in (
        ("10.99.1.1", "192.0.2.12", far),
        ("10.98.7.7", "192.0.2.13", beside),
        ("10.98.8.7", "192.0.2.12", far),
        ("10.97.1.1", "192.0.2.12", far),
        ("203.0.113.1", "192.0.2.12", far),
        ("10.20.1.51", "192.0.2.13", beside),
    ):
        assert tunnelled(site, guest, gateway, to_ip)[:3] == (end, 70411, mac), to_ip


def test_07_leaves_nothing(site: Site, make_guests: list[Guest]) -> None:
    subnets = load("02-two-ports-same-subnet.v2")
    assert isinstance(subnets, GoalStateV2)
    for field in ("port_states", "neighbor_states", "dhcp_states"):
        subnets.ClearField(field)
    site.send(subnets)
    make_guests += site.host.guests(specs_of("02-two-ports-same-subnet.v2"))
    before = site.footprint()
    push(site, "02-two-ports-same-subnet.v2")
    assert site.footprint() != before
    reply = push(site, "07-port-delete.v2")
    assert not reply.troubles
    wait_until(lambda: site.footprint() == before, 5.0, "nothing of the ports is left")
    resources = site.agent.status()["resources"]
    assert resources["PORT"]["desired"] == 0
    assert not push(site, "07-port-delete.v2").troubles


def test_11_on_a_host_that_is_not_named(host: Host) -> None:
    with running(host, "192.0.2.14") as stranger:
        before = stranger.footprint()
        assert push(stranger, "11-multicast-two-hosts.v2").statuses == ()
        assert stranger.footprint() == before


def test_11_reaches_the_new_port(site: Site, make_guests: list[Guest]) -> None:
    make_guests += site.host.guests(specs_of("02-two-ports-same-subnet.v2"))
    push(site, "02-two-ports-same-subnet.v2")
    push(site, "11-multicast-two-hosts.v2")
    guest, _ = make_guests
    assert guest.arp("10.20.1.60") == "aa:bb:cc:c4:f4:f4"
    assert tunnelled(site, guest, "aa:bb:cc:c4:f4:f4", "10.20.1.60")[:2] == ("192.0.2.13", 70411)


def test_12_is_answered_at_once_and_changes_nothing(site: Site) -> None:
    push(site, "04-two-subnets-l3.v2")
    before = site.footprint(), site.agent.status()["resources"]
    for _ in range(3):
        assert push(site, "12-empty-warm-up.v2").statuses == ()
    assert (site.footprint(), site.agent.status()["resources"]) == before


def test_13_reaches_all_hosts(site: Site, make_guests: list[Guest]) -> None:
    name = "13-node-bootstrap.v2"
    make_guests += site.host.guests(specs_of(name))
    assert not [one for one in push(site, name).troubles if one[0] != "SECURITYGROUP"]
    message = load(name)
    assert isinstance(message, GoalStateV2)
    ends = set()
    guest = make_guests[0]
    own = next(p.configuration for p in message.port_states.values() if p.configuration.id == guest.port_id)
    subnet_id = own.fixed_ips[0].subnet_id
    gateway = message.subnet_states[subnet_id].configuration.gateway.mac_address.lower()
    for state in message.neighbor_states.values():
        wire = state.configuration
        if wire.host_ip_address == DATA_PATH:
            continue
        mac = wire.mac_address.lower()
        same = wire.fixed_ips[0].subnet_id == subnet_id
        end, tunnel_id, inner, _ = tunnelled(site, guest, mac if same else gateway, wire.fixed_ips[0].ip_address)
        assert (end, tunnel_id, inner) == (wire.host_ip_address, 16000123, mac)
        ends.add(end)
    assert len(ends) == 4
    for other in make_guests[1:]:
        port = next(p.configuration for p in message.port_states.values() if p.configuration.id == other.port_id)
        if port.fixed_ips[0].subnet_id == subnet_id:
            assert guest.ping(other.ip).received == 1


def test_14_waits_for_04(site: Site, make_guests: list[Guest]) -> None:
    first, second = "14-l3-neighbor-waits.v2", "04-two-subnets-l3.v2"
    make_guests += site.host.guests(specs_of(first))
    (guest,) = make_guests
    reply = push(site, first)
    waiting = ("NEIGHBOR", "14eb2c00-63d7-48ce-8435-4ef57ae8c450_n")
    assert reply.status_of(*waiting) == "PENDING"
    assert "c0808820-f81a-454d-af5d-382d51af57d3" in reply.reasons[waiting]
    assert "router" in reply.reasons[waiting]

    push(site, second)
    problems = {(one["kind"], one["id"]) for one in site.agent.status()["problems"]}
    assert waiting not in problems
    assert site.agent.status()["conflicts"] == []
    gateway = gateway_mac(second, "10.20.1.1")
    far = mac_of_neighbor(second, "10.20.2.50")
    assert tunnelled(site, guest, gateway, "10.20.2.50")[:3] == ("192.0.2.12", 70411, far)

    # One of the two ids of the neighbour goes: the other keeps the address.
    message = load(second)
    assert isinstance(message, GoalStateV2)
    gone = GoalStateV2()
    for key, state in message.neighbor_states.items():
        if state.configuration.mac_address.lower() == far:
            gone.neighbor_states[key].CopyFrom(state)
            gone.neighbor_states[key].operation_type = common_pb2.DELETE
    assert len(gone.neighbor_states) == 1
    site.send(gone)
    assert tunnelled(site, guest, gateway, "10.20.2.50")[:3] == ("192.0.2.12", 70411, far)


def test_wired_ports_are_marked_and_deleted_ones_are_not(site: Site, make_guests: list[Guest]) -> None:
    """The compute service can wait for `aca-installed` on the interface."""
    make_guests += site.host.guests(specs_of("02-two-ports-same-subnet.v2"))

    def marked() -> list[bool]:
        ids = [site.host.vsctl("get", "interface", guest.device, "external_ids") for guest in make_guests]
        return [bool(re.search(r'aca-installed="?true"?, aca-installed-ts="\d{13}"', text)) for text in ids]

    assert marked() == [False, False]
    push(site, "02-two-ports-same-subnet.v2")
    wait_until(lambda: marked() == [True, True], 5.0, "marked as installed")
    push(site, "07-port-delete.v2")
    wait_until(lambda: marked() == [False, False], 5.0, "not marked any more")
