"""A port moves to another host."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from goalstate_proto import neighbor_pb2
from tests.chaos.pinger import Pair
from tests.chaos.traffic import Traffic
from tests.chaos.world import BLUE, Station, World, make_guests, nic
from tests.conformance.network import Nic, neighbor_state, port_state
from tests.lab.wire import Capture, arp_answer, arp_request, send_frame

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]

NUMBER = 40
SETTLE_S = 0.02
ANSWERS_S = 0.5


@pytest.fixture
def traffic(world: World) -> Iterator[Traffic]:
    """From a guest on either host to the port that moves, which is on host one and has guests on both."""
    here = nic(NUMBER, BLUE, world.one.ip)
    guests = [make_guests(station.host, [here])[0] for station in world.stations]
    world.one.tell(port_state(here))
    for station in world.stations:
        station.tell(neighbor_state(here, layer=neighbor_pb2.L3))
    a, b, c, _ = (world.guests[one.id].namespace.name for one in world.nics)
    pairs = [Pair("old-host", a, here.ip), Pair("new-host", c, here.ip)]
    made = Traffic(world.lab.directory, "mover", pairs, (c, b, world.nics[1].ip, 5002))
    made.wait_flowing(time.monotonic())
    yield made
    made.close()
    for station in world.stations:
        station.controller.remove(port_state(here), neighbor_state(here))
    for guest in guests:
        guest.remove()


def at(station: Station) -> Nic:
    return nic(NUMBER, BLUE, station.ip)


def hand_over(old: Station, new: Station) -> None:
    """The old host hears that the port is elsewhere now, in one message."""
    reply = old.controller.change([neighbor_state(at(new), layer=neighbor_pb2.L3)], [port_state(at(old))])
    assert reply is not None and not reply.troubles


def take_over(new: Station) -> None:
    new.tell(port_state(at(new)), neighbor_state(at(new), layer=neighbor_pb2.L3))


def answers(world: World, index: int) -> int:
    """How many ARP replies a guest gets to one request for the port's address."""
    asker, target = world.nics[index], at(world.one).ip
    namespace = world.guests[asker.id].namespace
    with Capture(namespace, "eth0") as capture:
        send_frame(namespace, "eth0", arp_request(asker.mac, asker.ip, target))
        return len(capture.frames(lambda frame: arp_answer(frame, target) is not None, count=2, within=ANSWERS_S))


def test_there_and_back(world: World, traffic: Traffic) -> None:
    old, new = world.one, world.two
    since = time.monotonic()
    take_over(new)
    assert [answers(world, index) for index in (0, 2)] == [1, 1]
    hand_over(old, new)
    traffic.wait_flowing(time.monotonic())
    there = traffic.measure(since, time.monotonic())
    world.report.add(world.kind, "port moves, the new host first", there)
    assert all(lost <= 1 for lost in there.lost.values()), there
    assert there.duplicates == {}

    since = time.monotonic()
    hand_over(new, old)
    take_over(old)
    arrived = time.monotonic()
    traffic.wait_flowing(time.monotonic())
    back = traffic.measure(since, time.monotonic())
    world.report.add(world.kind, "port moves, the old host first", back)
    # Between the two messages it is nowhere.
    for pair in back.pairs:
        assert len([at for at in pair.lost_at if at > arrived - since + SETTLE_S]) <= 1, pair
    assert back.duplicates == {}
