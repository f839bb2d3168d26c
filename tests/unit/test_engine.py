"""The engine on a data plane that only remembers: answers, order, coalescing, retries, coming and going."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

import pytest

from aca.dispatch import reading
from aca.dispatch.engine import Engine, EngineClosed, EngineSettings
from aca.goalstate.reply import problems
from dataplane.base import Lost, failed, pending
from dataplane.model import Key, Kind, NetworkType
from goalstate_proto import common_pb2
from goalstate_proto.goalstate_pb2 import GoalState, GoalStateV2
from goalstate_proto.goalstateprovisioner_pb2 import GoalStateOperationReply
from tests.unit.desired_world import HERE
from tests.unit.fake_plane import WAIT_S, RecordingPlane, kinds_of

SUCCESS, FAILURE, INVALID_ARG, PENDING, OUT_OF_ORDER = range(5)


class Bench:
    """An engine, its data plane, and what a controller sees of them."""

    def __init__(self, **settings: Any) -> None:
        self.plane = RecordingPlane()
        defaults: dict[str, Any] = {"not_ready_wait_s": 0.2, "workers": 3}
        self.engine = Engine(
            self.plane, EngineSettings(frozenset(), HERE, NetworkType.VXLAN, **(defaults | settings))
        )
        self.readiness: list[bool] = []
        self.changed = threading.Condition()
        self.engine.on_ready(self._note)
        self.engine.start()

    def _note(self, ready: bool) -> None:
        with self.changed:
            self.readiness.append(ready)
            self.changed.notify_all()

    def become(self, ready: bool) -> None:
        """Returns when the engine knows."""
        with self.changed:
            before = len(self.readiness)
            if ready:
                self.plane.ready()
            else:
                self.plane.listener(Lost("switch gone"))
            assert self.changed.wait_for(lambda: self.readiness[before:] == [ready], WAIT_S)

    def submit(self, message: Any) -> Future[bytes]:
        return self.engine.submit(message)

    def push(self, message: Any) -> dict[str, int]:
        return statuses(self.submit(message))


def statuses(future: Future[bytes]) -> dict[str, int]:
    reply = GoalStateOperationReply.FromString(future.result(WAIT_S))
    return {one.resource_id: one.operation_status for one in reply.operation_statuses}


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    made.become(True)
    yield made
    made.plane.let_go()
    made.engine.close(2.0)


@pytest.fixture
def waiting() -> Iterator[Bench]:
    """A bench whose data plane is not ready."""
    made = Bench()
    yield made
    made.plane.let_go()
    made.engine.close(2.0)


def goal(*parts: Callable[[GoalState], None]) -> GoalState:
    message = GoalState()
    for part in parts:
        part(message)
    return message


def subnet(name: str = "s", vpc: str = "v", *, tunnel: int = 10) -> Callable[[GoalState], None]:
    def add(message: GoalState) -> None:
        wire = message.subnet_states.add(operation_type=common_pb2.CREATE).configuration
        wire.id, wire.vpc_id, wire.cidr, wire.tunnel_id, wire.revision_number = name, vpc, "10.0.0.0/16", tunnel, 1

    return add


def neighbor(
    number: int, *, subnet: str = "s", vpc: str = "v", revision: int = 1, host: str = "192.0.2.12", gone: bool = False
) -> Callable[[GoalState], None]:
    def add(message: GoalState) -> None:
        state = message.neighbor_states.add(operation_type=common_pb2.DELETE if gone else common_pb2.CREATE)
        wire = state.configuration
        wire.id, wire.vpc_id, wire.revision_number, wire.host_ip_address = f"n{number}", vpc, revision, host
        wire.mac_address = f"fa:16:3e:00:{number >> 8:02x}:{number & 255:02x}"
        wire.fixed_ips.add(subnet_id=subnet, ip_address=f"10.0.{number >> 8}.{number & 255}")

    return add


def port(name: str, last: int, *, subnet: str = "s", revision: int = 1) -> Callable[[GoalState], None]:
    def add(message: GoalState) -> None:
        wire = message.port_states.add(operation_type=common_pb2.CREATE).configuration
        wire.id, wire.vpc_id, wire.revision_number, wire.admin_state_up = name, "v", revision, True
        wire.mac_address, wire.device_id = f"fa:16:3e:01:00:{last:02x}", "guest"
        wire.fixed_ips.add(subnet_id=subnet, ip_address=f"10.0.200.{last}")

    return add


def key(number: int) -> Key:
    return Key(Kind.NEIGHBOR, f"n{number}")


def test_every_resource_gets_its_own_status(bench: Bench) -> None:
    bench.plane.problems[Key(Kind.PORT, "p1")] = pending("no device")
    bench.plane.problems[Key(Kind.PORT, "p2")] = failed("refused")
    message = goal(subnet(), port("p1", 1), port("p2", 2), port("p3", 3), port("p4", 4, subnet="unknown"), neighbor(9))
    message.port_states[2].configuration.mac_address = "nonsense"
    assert bench.push(message) == {
        "s": SUCCESS, "p1": PENDING, "p2": FAILURE, "p3": INVALID_ARG, "p4": PENDING, "n9": SUCCESS
    }  # fmt: skip


def test_the_reasons_stand_beside_the_statuses(bench: Bench) -> None:
    reply = bench.submit(goal(port("p", 1, subnet="unknown"))).result(WAIT_S)
    assert [problem.reason for problem in problems(reply)] == ["waits for subnet unknown"]


def test_what_waits_for_two_things_tells_both(bench: Bench) -> None:
    bench.plane.problems[Key(Kind.PORT, "p")] = pending("no device")
    message = goal(subnet(), port("p", 1))
    message.port_states[0].configuration.fixed_ips.add(subnet_id="unknown", ip_address="10.1.0.1")
    (problem,) = problems(bench.submit(message).result(WAIT_S))
    assert problem.reason == "waits for subnet unknown; no device"


def test_an_older_revision_is_out_of_order(bench: Bench) -> None:
    bench.push(goal(subnet(), neighbor(1, revision=5)))
    assert bench.push(goal(neighbor(1, revision=4))) == {"n1": OUT_OF_ORDER}


def test_an_empty_message_gets_an_empty_reply_before_the_data_plane_is_ready(waiting: Bench) -> None:
    assert waiting.push(GoalStateV2()) == {}


def test_what_comes_too_early_is_pending_and_then_programmed(waiting: Bench) -> None:
    assert waiting.push(goal(subnet(), neighbor(1))) == {"s": PENDING, "n1": PENDING}
    assert not waiting.plane.wanted
    waiting.become(True)
    assert waiting.push(goal(neighbor(1))) == {"n1": SUCCESS}
    assert key(1) in waiting.plane.wanted


def test_a_deletion_that_comes_too_early_is_pending(waiting: Bench) -> None:
    waiting.push(goal(subnet(), neighbor(1)))
    assert waiting.push(goal(neighbor(1, gone=True))) == {"n1": PENDING}


def test_a_message_is_answered_when_the_data_plane_gets_ready() -> None:
    bench = Bench(not_ready_wait_s=WAIT_S)
    future = bench.submit(goal(subnet(), neighbor(1)))
    bench.become(True)
    assert statuses(future) == {"s": SUCCESS, "n1": SUCCESS}
    bench.engine.close(2.0)


def test_work_that_takes_too_long_is_answered_pending() -> None:
    bench = Bench(reply_timeout_s=0.2)
    bench.become(True)
    bench.plane.hold()
    assert bench.push(goal(subnet(), neighbor(1))) == {"s": PENDING, "n1": PENDING}
    bench.plane.let_go()
    bench.engine.close(2.0)


def test_an_unchanged_resource_in_flight_is_not_answered_before_the_first(bench: Bench) -> None:
    bench.push(goal(subnet()))
    bench.plane.problems[key(1)] = failed("refused")
    bench.plane.hold()
    first = bench.submit(goal(neighbor(1)))
    bench.plane.wait_for(lambda: bench.plane.running["n1"] > 0)
    second = bench.submit(goal(neighbor(1)))
    bench.engine.status()
    assert not second.done()
    bench.plane.let_go()
    assert statuses(first) == statuses(second) == {"n1": FAILURE}


def test_a_thousand_updates_of_one_resource_are_few_programmings(bench: Bench) -> None:
    bench.push(goal(subnet()))
    bench.plane.hold()
    before = len(bench.plane.applied)
    futures = [bench.submit(goal(neighbor(1, revision=revision))) for revision in range(1, 1001)]
    bench.engine.status(WAIT_S)
    bench.plane.let_go()
    assert all(statuses(future) == {"n1": SUCCESS} for future in futures)
    assert len(bench.plane.applied) - before == 2


def test_deletion_and_creation_coalesce_to_the_last(bench: Bench) -> None:
    bench.push(goal(subnet(), neighbor(1)))
    bench.plane.hold()
    for _ in range(3):
        bench.submit(goal(neighbor(1, gone=True)))
        last = bench.submit(goal(neighbor(1, host="192.0.2.13")))
    bench.plane.let_go()
    assert statuses(last) == {"n1": SUCCESS}
    wanted: Any = bench.plane.wanted[key(1)]
    assert wanted.neighbor.host == bytes((192, 0, 2, 13))


def test_one_vpc_is_serial_and_others_run_beside_it(bench: Bench) -> None:
    bench.push(goal(subnet(), subnet("s2", "v2")))
    bench.plane.hold()
    futures = [bench.submit(goal(neighbor(0)))]
    bench.plane.wait_for(lambda: bench.plane.running["n0"] > 0)
    futures += [bench.submit(goal(neighbor(number))) for number in (1, 2)]
    futures.append(bench.submit(goal(neighbor(9, subnet="s2", vpc="v2"))))
    bench.plane.wait_for(lambda: bench.plane.running["n9"] > 0)
    bench.engine.status()
    assert +bench.plane.running == {"n0": 1, "n9": 1}
    bench.plane.let_go()
    for future in futures:
        assert set(statuses(future).values()) == {SUCCESS}


def test_the_order_of_dependence_holds_within_one_turn(bench: Bench) -> None:
    bench.plane.hold()
    bench.submit(goal(subnet()))
    bench.plane.wait_for(lambda: bench.plane.running["s"] > 0)
    last = bench.submit(goal(neighbor(1), port("p", 1)))
    bench.engine.status()
    bench.plane.let_go()
    statuses(last)
    assert kinds_of(bench.plane.applied[-1]) == [Kind.SUBNET, Kind.PORT, Kind.NEIGHBOR, Kind.DHCP]


def test_a_broken_data_plane_is_a_failure_and_heals_by_itself(bench: Bench) -> None:
    bench.plane.break_down("it is broken")
    assert bench.push(goal(subnet(), port("p", 9), neighbor(1))) == {"s": FAILURE, "p": FAILURE, "n1": FAILURE}
    assert bench.engine.status()["resources"]["NEIGHBOR"]["failed"] == 1
    bench.plane.heal()
    everything = {key(1), Key(Kind.SUBNET, "s"), Key(Kind.PORT, "p")}
    bench.plane.wait_for(lambda: everything <= bench.plane.wanted.keys())
    assert bench.push(goal(port("p", 9), neighbor(1))) == {"p": SUCCESS, "n1": SUCCESS}
    assert bench.engine.status()["problems_total"] == 0


def test_a_bug_in_the_data_plane_is_a_failure_of_what_was_programmed(bench: Bench) -> None:
    bench.plane.error = ZeroDivisionError("oops")
    assert bench.push(goal(subnet())) == {"s": FAILURE}
    bench.plane.heal()
    assert bench.push(goal(subnet())) == {"s": SUCCESS}


def test_a_failed_deletion_is_tried_again(bench: Bench) -> None:
    bench.push(goal(subnet(), neighbor(1)))
    bench.plane.break_down("it is broken")
    assert bench.push(goal(neighbor(1, gone=True))) == {"n1": FAILURE}
    bench.plane.heal()
    bench.plane.wait_for(lambda: key(1) not in bench.plane.wanted)


def test_a_deletion_that_meets_a_lost_data_plane_is_done_when_it_is_back(bench: Bench) -> None:
    bench.push(goal(subnet(), neighbor(1)))
    bench.plane.hold()
    future = bench.submit(goal(neighbor(1, gone=True)))
    bench.plane.wait_for(lambda: bench.plane.running["n1"] > 0)
    bench.become(False)
    bench.plane.break_down("connection lost")
    bench.plane.let_go()
    assert statuses(future) == {"n1": FAILURE}
    bench.plane.heal()
    bench.become(True)
    bench.plane.wait_for(lambda: key(1) not in bench.plane.wanted)


def test_a_failed_resource_that_is_sent_again_is_tried_at_once(bench: Bench) -> None:
    bench.push(goal(subnet()))
    bench.plane.problems[key(1)] = failed("refused")
    assert bench.push(goal(neighbor(1))) == {"n1": FAILURE}
    del bench.plane.problems[key(1)]
    assert bench.push(goal(neighbor(1))) == {"n1": SUCCESS}


def test_a_data_plane_that_comes_back_is_programmed_anew(bench: Bench) -> None:
    bench.push(goal(subnet(), neighbor(1), port("p", 1)))
    before = dict(bench.plane.wanted)
    bench.become(False)
    bench.plane.wanted.clear()
    bench.become(True)
    bench.push(goal(neighbor(1)))
    assert bench.plane.wanted == before


def test_unchanged_resources_are_pending_while_the_data_plane_is_lost(bench: Bench) -> None:
    bench.push(goal(subnet(), neighbor(1)))
    bench.become(False)
    assert bench.push(goal(subnet(), neighbor(1))) == {"s": PENDING, "n1": PENDING}


def test_closing_answers_everything_in_time() -> None:
    bench = Bench()
    bench.become(True)
    bench.plane.hold()
    futures = [bench.submit(goal(subnet(), neighbor(number))) for number in range(20)]
    bench.engine.close(1.0)
    assert all(future.done() for future in futures)
    assert {status for future in futures for status in statuses(future).values()} <= {PENDING}
    assert bench.plane.closed
    with pytest.raises(EngineClosed):
        bench.submit(goal(subnet()))


def test_closing_lets_the_work_in_hand_finish() -> None:
    bench = Bench()
    bench.become(True)
    bench.plane.hold()
    future = bench.submit(goal(subnet()))
    bench.plane.wait_for(lambda: bench.plane.running["s"] > 0)
    closing = threading.Thread(target=bench.engine.close, args=(4.0,))
    closing.start()
    bench.plane.let_go()
    closing.join(WAIT_S)
    assert statuses(future) == {"s": SUCCESS}


def test_an_engine_that_never_got_ready_closes(waiting: Bench) -> None:
    future = waiting.submit(goal(subnet()))
    waiting.engine.close(1.0)
    assert statuses(future) == {"s": PENDING}


def test_of_conflicting_revisions_the_highest_wins(bench: Bench) -> None:
    """8 clients, 200 resources, every client with all revisions in an order of its own."""
    bench.push(goal(subnet()))

    def client(number: int) -> None:
        for step in range(8):
            revision = (number + step) % 8 + 1
            # Client and revision give the host: the value tells which one won.
            host = f"192.0.2.{100 + revision}"
            parts = [neighbor(one, revision=revision, host=host) for one in range(200)]
            bench.push(goal(*(parts if number % 2 else parts[::-1])))

    clients = [threading.Thread(target=client, args=(number,)) for number in range(8)]
    for thread in clients:
        thread.start()
    for thread in clients:
        thread.join(WAIT_S)
    assert not any(thread.is_alive() for thread in clients)
    wanted: list[Any] = [bench.plane.wanted[key(number)] for number in range(200)]
    hosts = {one.neighbor.host for one in wanted}
    assert hosts == {bytes((192, 0, 2, 108))}


def test_a_bug_with_one_message_spares_the_others(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(message: Any) -> Iterator[Any]:
        raise ZeroDivisionError("oops")
        yield

    with monkeypatch.context() as patch:
        patch.setattr(reading, "decode_v1", broken)
        assert bench.push(goal(subnet())) == {}
    assert bench.push(goal(subnet())) == {"s": SUCCESS}


def test_remembered_gateways_that_cannot_be_programmed_are_invalid(bench: Bench) -> None:
    message = GoalState()
    wire = message.gateway_states.add().configuration
    wire.id, wire.gateway_type = "g", 1
    wire.destinations.add(ip_address="192.0.2.99", mac_address="fa:16:3e:00:00:09")
    assert bench.push(message) == {"g": INVALID_ARG}


def test_a_router_before_its_subnets_is_pending_then_done(bench: Bench) -> None:
    message = GoalState()
    wire = message.router_states.add().configuration
    wire.id = "r"
    wire.subnet_routing_tables.add(subnet_id="s")
    assert bench.push(message) == {"r": PENDING}
    with_gateway = goal(subnet())
    gateway = with_gateway.subnet_states[0].configuration.gateway
    gateway.ip_address, gateway.mac_address = "10.0.0.1", "fa:16:3e:00:00:01"
    bench.push(with_gateway)
    assert bench.push(message) == {"r": SUCCESS}
    assert Key(Kind.ROUTER, "r") in bench.plane.wanted
