"""The pool: one lane in order, lanes beside each other, the last value of a resource only."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from aca.dispatch.lanes import LanePool
from aca.dispatch.plan import LaneWork
from dataplane.model import DhcpWanted, Kind
from tests.unit.fake_plane import WAIT_S


class Runs:
    """What the pool ran. A lane that is held does not finish."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.started: list[tuple[str, int, LaneWork]] = []
        self.finished: list[tuple[str, int]] = []
        self.held: set[str] = set()

    def run(self, lane: str, turn: int, work: LaneWork) -> None:
        with self.changed:
            self.started.append((lane, turn, work))
            self.changed.notify_all()
            assert self.changed.wait_for(lambda: lane not in self.held, WAIT_S)
            self.finished.append((lane, turn))
            self.changed.notify_all()

    def let_go(self, lane: str) -> None:
        with self.changed:
            self.held.discard(lane)
            self.changed.notify_all()

    def wait_started(self, count: int) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.started) >= count, WAIT_S)

    def wait_finished(self, count: int) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.finished) >= count, WAIT_S)


@pytest.fixture
def runs() -> Runs:
    return Runs()


@pytest.fixture
def pool(runs: Runs) -> Iterator[LanePool]:
    made = LanePool(2, runs.run)
    made.resume()
    yield made
    with runs.changed:
        runs.held.clear()
        runs.changed.notify_all()
    assert made.close(WAIT_S)


def work(*names: str) -> LaneWork:
    return {Kind.DHCP: {name: DhcpWanted(name) for name in names}}


def test_work_waits_its_turn_and_coalesces(pool: LanePool, runs: Runs) -> None:
    runs.held.add("v")
    first = pool.submit("v", work("a"))
    runs.wait_started(1)
    turns = [pool.submit("v", work("b")), pool.submit("v", work("c")), pool.submit("v", {Kind.DHCP: {"b": None}})]
    assert len(set(turns)) == 1 and first not in turns
    assert pool.in_work()[Kind.DHCP] == 3
    runs.let_go("v")
    runs.wait_finished(2)
    assert runs.started[1] == ("v", turns[0], {Kind.DHCP: {"b": None, "c": DhcpWanted("c")}})


def test_a_busy_lane_does_not_hold_up_others(pool: LanePool, runs: Runs) -> None:
    runs.held.add("v")
    pool.submit("v", work("a"))
    runs.wait_started(1)
    for number in range(5):
        pool.submit(f"w{number}", work("b"))
    runs.wait_finished(5)
    assert {lane for lane, _ in runs.finished} == {f"w{number}" for number in range(5)}


def test_a_lane_never_runs_twice_at_once(pool: LanePool, runs: Runs) -> None:
    runs.held.update(("v", "w"))
    pool.submit("v", work("a"))
    runs.wait_started(1)
    pool.submit("v", work("b"))
    pool.submit("w", work("c"))
    runs.wait_started(2)
    assert [lane for lane, _, _ in runs.started] == ["v", "w"]


def test_a_paused_pool_starts_nothing(runs: Runs) -> None:
    pool = LanePool(1, runs.run)
    turn = pool.submit("v", work("a"))
    assert pool.submit("v", work("b")) == turn
    assert not runs.started
    pool.resume()
    runs.wait_finished(1)
    assert runs.started == [("v", turn, work("a", "b"))]
    assert pool.close(WAIT_S)


def test_closing_does_not_wait_for_what_hangs(pool: LanePool, runs: Runs) -> None:
    runs.held.add("v")
    pool.submit("v", work("a"))
    runs.wait_started(1)
    assert not pool.close(0.1)
