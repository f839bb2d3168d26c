"""Unknown destinations from the data plane's punt to the packet that goes on, with an engine that programs nothing."""

from __future__ import annotations

import queue
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from typing import Any

import pytest

from aca.dispatch.engine import Engine, EngineSettings
from aca.ondemand.questions import Limits
from aca.ondemand.values import Answers, Inquiry, Verdict
from dataplane.addresses import parse_address
from dataplane.base import Punt, PuntReason, Unresolved, failed
from dataplane.model import Key, Kind, NetworkType
from goalstate_proto.goalstate_pb2 import GoalState
from tests.lab.commands import wait_until
from tests.unit.desired_world import HERE
from tests.unit.fake_plane import WAIT_S, RecordingPlane
from tests.unit.test_engine import goal, neighbor, subnet
from tests.unit.test_on_demand_inquiry import arp

TARGET = "10.0.0.9"


def port(message: GoalState) -> None:
    wire = message.port_states.add(operation_type=1).configuration
    wire.id, wire.vpc_id, wire.revision_number, wire.mac_address = "p", "v", 1, "fa:16:3e:00:01:01"
    wire.admin_state_up = True
    wire.fixed_ips.add(subnet_id="s", ip_address="10.0.0.5")


def punt(target: str = TARGET) -> Punt:
    where = Unresolved("v", "s", parse_address(target))
    return Punt(PuntReason.UNKNOWN_DESTINATION, "p", arp(target), where)


class World:
    """An engine whose questions a test answers."""

    def __init__(self) -> None:
        self.plane = RecordingPlane()
        self.engine = Engine(self.plane, EngineSettings(frozenset(), HERE, NetworkType.VXLAN, not_ready_wait_s=0.2))
        self.asked: queue.SimpleQueue[tuple[Mapping[str, Inquiry], Future[Answers]]] = queue.SimpleQueue()
        self.engine.packets.ask_with(self.ask, Limits(deadline_s=WAIT_S, push_wait_s=WAIT_S, look_again_s=WAIT_S))
        self.engine.start()
        self.plane.ready()
        self.push(subnet(), port)

    def ask(self, inquiries: Mapping[str, Inquiry]) -> Future[Answers]:
        answers: Future[Answers] = Future()
        self.asked.put((inquiries, answers))
        return answers

    def push(self, *parts: Any) -> None:
        self.engine.submit(goal(*parts)).result(WAIT_S)

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = self.engine.status()["on_demand"]
        return found

    def question(self) -> tuple[str, Future[Answers]]:
        """The next call, which must be about one packet."""
        inquiries, answers = self.asked.get(timeout=WAIT_S)
        (request_id,) = inquiries
        return request_id, answers

    def until(self, name: str, value: int) -> None:
        wait_until(lambda: self.status()["counts"].get(name) == value, WAIT_S, f"{name} {value}")


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    made.plane.let_go()
    made.engine.close(2.0)


def test_a_packet_goes_on_once_its_destination_is_confirmed(world: World) -> None:
    world.plane.listener(punt())
    request_id, answers = world.question()
    world.plane.hold()
    pushed = world.engine.submit(goal(neighbor(9)))
    answers.set_result(Answers({request_id: Verdict.ROUTABLE}))
    world.until("answers_routable", 1)
    world.plane.wait_for(lambda: world.plane.running["n9"] == 1)
    assert world.plane.resubmitted.empty(), "the data plane is at work on it"
    world.plane.let_go()
    assert world.plane.resubmitted.get(timeout=WAIT_S) == punt()
    pushed.result(WAIT_S)
    assert world.status()["pending"] == 0


def test_a_port_that_comes_to_this_host_is_an_arrival_too(world: World) -> None:
    world.plane.listener(punt("10.0.0.6"))
    world.question()

    def another(message: GoalState) -> None:
        port(message)
        wire = message.port_states[0].configuration
        wire.id, wire.mac_address, wire.fixed_ips[0].ip_address = "q", "fa:16:3e:00:01:02", "10.0.0.6"

    world.push(another)
    assert world.plane.resubmitted.get(timeout=WAIT_S) == punt("10.0.0.6")


def test_what_the_data_plane_refuses_is_no_arrival(world: World) -> None:
    world.plane.listener(punt())
    world.question()
    world.plane.problems = {Key(Kind.NEIGHBOR, "n9"): failed("no room")}
    world.push(neighbor(9))
    assert world.plane.resubmitted.empty()
    assert world.status()["pending"] == 1


def test_no_way_drops_the_packet_and_is_remembered(world: World) -> None:
    world.plane.listener(punt())
    request_id, answers = world.question()
    answers.set_result(Answers({request_id: Verdict.UNROUTABLE}))
    world.until("dropped_unroutable", 1)
    world.plane.listener(punt())
    world.until("dropped_negative", 1)
    assert world.asked.empty() and world.plane.resubmitted.empty()
    assert world.status()["negative"] == 1


def test_a_client_that_fails_is_asked_again(world: World) -> None:
    world.plane.listener(punt())
    request_id, answers = world.question()
    answers.set_exception(RuntimeError("the loop is closed"))
    again, answers = world.question()
    assert again != request_id
    assert world.status()["trouble"] == "the loop is closed"
    world.push(neighbor(9))
    assert world.plane.resubmitted.get(timeout=WAIT_S) == punt()


def test_many_questions_share_few_calls(world: World) -> None:
    targets = [f"10.0.1.{number}" for number in range(1, 61)]
    for target in targets:
        world.plane.listener(punt(target))
    found: dict[str, Inquiry] = {}
    while len(found) < len(targets):
        inquiries, answers = world.asked.get(timeout=WAIT_S)
        found |= inquiries
        answers.set_result(Answers(dict.fromkeys(inquiries, Verdict.UNROUTABLE)))
    assert sorted(one.destination for one in found.values()) == sorted(map(parse_address, targets))
    world.until("dropped_unroutable", len(targets))


def test_what_is_asked_of_nobody_is_counted(world: World) -> None:
    world.plane.listener(punt("10.9.9.9"))
    world.plane.listener(punt())
    world.question()
    assert world.status()["counts"]["dropped_outside"] == 1
    assert world.asked.empty()
