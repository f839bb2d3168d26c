"""Who is said to ask for an unknown address, and how fast anybody may."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dataplane.addresses import host_prefix, parse_address, parse_mac
from dataplane.base import Punt, PuntReason, Unresolved
from dataplane.model import AddressPair, FixedIp, Port, PortWanted, RoutedSubnet, Router, RouterWanted
from dataplane.netlink.names import tunnel_name
from dataplane.netlink.unknown import RATE, UnknownTargets
from tests.lab.wire import arp_request
from tests.unit.test_netlink_render import MAC, SEGMENT, SHARED, subnet

BLUE, GREEN = subnet("blue", "10.0.1.0/24"), subnet("green", "10.0.2.0/24")
TUNNEL = tunnel_name(SEGMENT)
OWN, OTHER = "10.0.1.11", "10.0.1.99"
PAIR = AddressPair(host_prefix(parse_address("10.0.1.200")), SHARED)
PORT = PortWanted(
    Port("p", 1, "vpc", "", "", "", MAC, True, (FixedIp("blue", parse_address(OWN)),), (PAIR,), ()),
    (BLUE,),
    (),
    frozenset({"blue"}),
)
ROUTER = RouterWanted(Router("r", 1, None, ()), (RoutedSubnet(BLUE, (), ()), RoutedSubnet(GREEN, (), ())))


class World:
    def __init__(self) -> None:
        self.heard: list[Punt] = []
        self.now = 100.0
        self.targets = UnknownTargets(self.heard.append, lambda subnet_id, address: None, True, lambda: self.now)
        self.targets.set_port(PORT)
        self.targets.set_router(ROUTER)

    def ask(self, target: str, *, mac: bytes = MAC, sender: str = OWN, tunnel: str = TUNNEL) -> Punt | None:
        self.heard.clear()
        self.targets._asked(tunnel, arp_request(mac.hex(":"), sender, target))
        return self.heard[0] if self.heard else None


@pytest.fixture
def world() -> World:
    return World()


def test_a_port_asks_in_its_subnet(world: World) -> None:
    frame = arp_request(MAC.hex(":"), OWN, OTHER)
    expected = Unresolved("vpc", "blue", parse_address(OTHER))
    assert world.ask(OTHER) == Punt(PuntReason.UNKNOWN_DESTINATION, "p", frame, expected)
    spoken_for = world.ask(OTHER, mac=SHARED, sender="10.0.1.200")
    assert spoken_for is not None and spoken_for.port_id == "p"


def test_a_router_asks_for_a_port_that_it_serves(world: World) -> None:
    gateway_mac = GREEN.subnet.gateway_mac
    assert gateway_mac is not None
    found = world.ask("10.0.2.7", mac=gateway_mac, sender="10.0.2.1")
    assert found is not None
    assert (found.port_id, found.unresolved) == ("p", Unresolved("vpc", "green", parse_address("10.0.2.7")))
    world.targets.forget_port("p")
    assert world.ask("10.0.2.7", mac=gateway_mac, sender="10.0.2.1") is None, "it serves nobody here"


@pytest.mark.parametrize(
    ("target", "more"),
    [
        (OWN, {}),
        ("10.0.1.200", {}),
        (OTHER, {"sender": OTHER}),
        (OTHER, {"sender": "0.0.0.0"}),
        (OTHER, {"mac": parse_mac("aa:bb:00:00:00:77")}),
        (OTHER, {"tunnel": "acv0"}),
    ],
    ids=["own", "pair", "announcement", "probe", "stranger", "other-segment"],
)
def test_what_is_no_question(world: World, target: str, more: dict[str, str]) -> None:
    assert world.ask(target, **more) is None  # type: ignore[arg-type]


def test_a_frame_that_is_cut_short_is_no_question(world: World) -> None:
    for length in range(42):
        world.targets._asked(TUNNEL, arp_request(MAC.hex(":"), OWN, OTHER)[:length])
    assert world.heard == []


def test_one_askers_flood_is_held_back(world: World) -> None:
    frame = arp_request(MAC.hex(":"), OWN, OTHER)
    for _ in range(10 * RATE):
        world.targets._asked(TUNNEL, frame)
    assert len(world.heard) == RATE and world.targets.dropped == 9 * RATE
    assert world.ask(OTHER) is None
    gateway_mac = BLUE.subnet.gateway_mac
    assert gateway_mac is not None
    assert world.ask(OTHER, mac=gateway_mac, sender="10.0.1.1") is not None, "others are not"
    world.now += 2 / RATE
    assert world.ask(OTHER) is not None


def test_who_has_gone_asks_nothing(world: World) -> None:
    world.targets.set_port(replace(PORT, port=replace(PORT.port, admin_state_up=False)))
    assert world.ask(OTHER) is None
    world.targets.set_port(PORT)
    assert world.ask(OTHER) is not None
    world.targets.forget_port("p")
    world.targets.forget_router("r")
    assert world.ask(OTHER) is None
    targets = world.targets
    assert not (targets._askers or targets._in_tunnel or targets._in_subnet or targets._ports or targets._allowances)
