"""How requests become transactions, and what happens when the server says no or nothing."""

import json
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import pytest

from dataplane.ovs.ovsdb import BridgeSpec, OvsdbError, OvsdbUnavailableError
from dataplane.ovs.ovsdb.operations import Operation
from dataplane.ovs.ovsdb.requests import (
    AddPort,
    DelPort,
    EnsureBridge,
    Request,
    SetBridgeExternalIds,
    SetExternalIds,
)
from dataplane.ovs.ovsdb.transactor import ANSWER_TIMEOUT, MAX_ATTEMPTS, Job, Transactor
from tests.unit.ovsdb_views import FakeView

CONFLICT = json.dumps({"error": "constraint violation", "details": "duplicate name"})


@dataclass
class FakeTransaction:
    """Answers what the test says, when it says so."""

    operations: list[Operation] = field(default_factory=list)
    status: str = "incomplete"
    error: str = ""

    def add_op(self, op: Operation) -> None:
        self.operations.append(op)

    def commit(self) -> str:
        return self.status

    def get_error(self) -> str:
        return self.error


class Bench:
    """A transactor on a fake database, with its own clock."""

    def __init__(self) -> None:
        self.view = FakeView()
        self.transactor = Transactor()
        self.sent: list[FakeTransaction] = []
        self.now = 100.0

    def ask(self, request: Request, within: float = 30.0) -> Future[Any]:
        future: Future[Any] = Future()
        self.transactor.add([Job(request, future, self.now + within)])
        return future

    def begin(self) -> FakeTransaction:
        self.sent.append(FakeTransaction())
        return self.sent[-1]

    def step(self) -> None:
        self.transactor.step(self.begin, self.view, self.now)

    def answer(self, status: str = "success", error: str = "") -> None:
        self.sent[-1].status = status
        self.sent[-1].error = error
        self.step()

    def pause(self) -> None:
        """Let the time pass that the transactor asks for."""
        due = self.transactor.next_time(self.now)
        assert due is not None
        assert due < self.now + 5
        self.now = due
        self.step()


@pytest.fixture
def bench() -> Bench:
    made = Bench()
    for number in range(4):
        made.view.attach(f"tap{number}", ofport=number + 1)
    return made


def marks(transaction: FakeTransaction) -> list[Mapping[str, str]]:
    return [
        dict(values)
        for operation in transaction.operations
        for _, mutator, (_, values) in operation["mutations"]
        if mutator == "insert"
    ]


def test_requests_that_arrive_meanwhile_go_together(bench: Bench) -> None:
    first = bench.ask(SetExternalIds("tap0", {"n": "0"}))
    bench.step()
    others = [bench.ask(SetExternalIds(f"tap{n}", {"n": str(n)})) for n in (1, 2, 3)]
    bench.step()
    assert len(bench.sent) == 1
    assert not first.done()

    bench.answer()
    assert first.done()
    assert marks(bench.sent[1]) == [{"n": "1"}, {"n": "2"}, {"n": "3"}]
    bench.answer()
    assert all(future.result(0) is None for future in others)


def test_marks_of_one_interface_become_one_and_the_last_wins(bench: Bench) -> None:
    futures = [bench.ask(SetExternalIds("tap0", {"n": str(n), f"k{n}": "x"})) for n in range(3)]
    bench.step()
    assert marks(bench.sent[0]) == [{"n": "2", "k0": "x", "k1": "x", "k2": "x"}]
    bench.answer()
    assert all(future.done() for future in futures)


def test_what_depends_on_another_comes_after_it(bench: Bench) -> None:
    deleted = bench.ask(DelPort("tap0"))
    added = bench.ask(AddPort("tap0", None, {}))
    bench.ask(SetBridgeExternalIds("br-int", {"a": "b"}))
    bench.step()
    assert len(bench.sent) == 1
    bench.view.interfaces.pop("tap0")
    bench.view.configured(6, 5)
    bench.answer()
    assert not deleted.done()
    assert [operation["op"] for operation in bench.sent[1].operations[:2]] == ["insert", "insert"]
    bench.view.attach("tap0", uuid="new", ofport=9)
    bench.view.configured(7, 6)
    bench.answer()
    assert deleted.done()
    assert not added.done()
    bench.view.configured(7, 7)
    bench.step()
    assert added.result(0) == 9


def test_bridge_goes_alone(bench: Bench) -> None:
    bench.ask(SetExternalIds("tap0", {"a": "b"}))
    bench.ask(EnsureBridge(BridgeSpec("br-int", "netdev", None, (), (("x", "y"),))))
    bench.ask(SetExternalIds("tap1", {"a": "b"}))
    for count in (1, 2, 3):
        bench.step()
        assert len(bench.sent) == count
        bench.answer()


def test_nothing_to_write_is_no_transaction(bench: Bench) -> None:
    bench.view.attach("tap0", external_ids={"a": "b"})
    future = bench.ask(SetExternalIds("tap0", {"a": "b", "c": None}))
    bench.step()
    assert future.result(0) is None
    assert bench.sent == []


def test_refused_transaction_is_halved_until_the_culprit_is_alone(bench: Bench) -> None:
    futures = [bench.ask(SetExternalIds(f"tap{n}", {"n": str(n)})) for n in range(4)]
    bench.step()
    while bench.sent[-1].status == "incomplete":
        if {"n": "2"} in marks(bench.sent[-1]):
            bench.answer("error", json.dumps({"error": "not allowed", "details": "no 2"}))
        else:
            bench.answer()
    with pytest.raises(OvsdbError, match="tap2: not allowed: no 2"):
        futures.pop(2).result(0)
    assert all(future.result(0) is None for future in futures)


def test_conflict_is_planned_again_from_what_is_there_now(bench: Bench) -> None:
    future = bench.ask(AddPort("tap9", None, {}))
    bench.step()
    bench.view.attach("tap9", ofport=12)
    bench.answer("error", CONFLICT)
    assert not future.done()
    bench.pause()
    assert future.result(0) == 12
    assert len(bench.sent) == 1


@pytest.mark.parametrize(("status", "error"), [("error", CONFLICT), ("try again", "")])
def test_retries_have_an_end(bench: Bench, status: str, error: str) -> None:
    future = bench.ask(SetExternalIds("tap0", {"a": "b"}))
    bench.step()
    bench.answer(status, error)
    while not future.done():
        bench.pause()
        bench.answer(status, error)
    assert len(bench.sent) == MAX_ATTEMPTS
    with pytest.raises(OvsdbError, match=f"tap0: .*{MAX_ATTEMPTS} attempts"):
        future.result(0)


def test_other_refusals_are_not_repeated(bench: Bench) -> None:
    future = bench.ask(SetExternalIds("tap0", {"a": "b"}))
    bench.step()
    bench.answer("error", "no error details available")
    assert len(bench.sent) == 1
    with pytest.raises(OvsdbError, match="tap0: no error details available"):
        future.result(0)


def test_lost_requests_are_repeated_in_order(bench: Bench) -> None:
    added = bench.ask(AddPort("tap9", None, {}))
    bench.step()
    bench.view.attach("tap9")
    bench.view.configured(6, 5)
    bench.answer()
    deleted = bench.ask(DelPort("tap9"))
    bench.step()
    assert len(bench.sent) == 2

    bench.transactor.lost()
    bench.view.attach("tap9", ofport=12)
    bench.view.configured(6, 6)
    bench.step()
    assert added.result(0) == 12
    assert len(bench.sent) == 3
    bench.view.interfaces.pop("tap9")
    bench.answer()
    assert deleted.result(0) is None


def test_time_is_up_for_each_with_the_reason(bench: Bench) -> None:
    waiting = bench.ask(AddPort("tap0", 1400, {}), within=1.0)
    bench.step()
    bench.view.configured(6, 5)
    bench.answer()
    sent = bench.ask(SetExternalIds("tap1", {"a": "b"}), within=1.0)
    bench.step()
    queued = bench.ask(SetExternalIds("tap1", {"a": "c"}), within=1.0)
    patient = bench.ask(SetExternalIds("tap1", {"a": "d"}), within=60.0)
    assert bench.transactor.next_time(bench.now) == bench.now + 1.0
    bench.now += 1.0

    bench.transactor.expire(bench.now, bench.view, "")

    for future, text in (
        (waiting, "tap0: no OpenFlow port yet .* 5 of 6"),
        (sent, "tap1: the database does not answer"),
        (queued, "tap1: the database is too busy"),
    ):
        with pytest.raises(OvsdbUnavailableError, match=text):
            future.result(0)
    assert not bench.transactor.stuck(bench.now)
    bench.answer()
    bench.answer()
    assert patient.result(0) is None


def test_time_is_up_without_a_connection(bench: Bench) -> None:
    future = bench.ask(SetExternalIds("tap0", {"a": "b"}), within=1.0)
    bench.transactor.expire(bench.now + 1, None, "unix:x: No such file")
    with pytest.raises(OvsdbUnavailableError, match="tap0: unix:x: No such file"):
        future.result(0)
    assert bench.transactor.next_time(bench.now) is None


def test_server_that_does_not_answer_is_stuck(bench: Bench) -> None:
    bench.ask(SetExternalIds("tap0", {"a": "b"}))
    bench.step()
    assert not bench.transactor.stuck(bench.now + ANSWER_TIMEOUT - 1)
    assert bench.transactor.stuck(bench.now + ANSWER_TIMEOUT + 1)


def test_request_that_was_given_up_is_not_sent(bench: Bench) -> None:
    future = bench.ask(SetExternalIds("tap0", {"a": "b"}))
    assert future.cancel()
    bench.step()
    assert bench.sent == []


def test_everything_fails_at_the_end(bench: Bench) -> None:
    futures = [bench.ask(AddPort("tap0", 1400, {}))]
    bench.step()
    bench.view.configured(6, 5)
    bench.answer()
    futures.append(bench.ask(SetExternalIds("tap1", {"a": "b"})))
    bench.step()
    futures.append(bench.ask(SetExternalIds("tap1", {"a": "c"})))
    bench.transactor.fail_all(OvsdbUnavailableError("closed"))
    for future in futures:
        with pytest.raises(OvsdbUnavailableError, match="closed"):
            future.result(0)
    assert bench.transactor.next_time(bench.now) is None
