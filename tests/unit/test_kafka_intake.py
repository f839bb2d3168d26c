"""When records count as finished: once the engine has answered them, and never otherwise."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, cast

import pytest

from aca.dispatch.inbox import Message, Together
from aca.transport.kafka.intake import Intake, IntakeSettings
from aca.transport.kafka.poller import Poller, Portion
from aca.transport.kafka.tracker import Tracker, Unit
from dataplane.faults import Faults
from goalstate_proto.goalstate_pb2 import GoalStateV2

WAIT_S = 10.0


@dataclass
class FakeRecord:
    at: int
    data: bytes

    def topic(self) -> str:
        return "t"

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return self.at

    def key(self) -> bytes | None:
        return None

    def value(self) -> bytes | None:
        return self.data

    def headers(self) -> list[tuple[str, bytes | None]] | None:
        return None

    def timestamp(self) -> tuple[int, int]:
        return 1, 0

    def __len__(self) -> int:
        return len(self.data)


class FakeEngine:
    """Answers what names no subnet 'bad'; of those it breaks."""

    ready = True

    def submit(self, message: Message) -> Future[bytes]:
        future: Future[bytes] = Future()
        assert isinstance(message, Together)
        bad = any(isinstance(one, GoalStateV2) and "bad" in one.subnet_states for one in message.messages)
        if bad:
            future.set_exception(RuntimeError("the engine broke"))
        else:
            future.set_result(b"")
        return future

    def on_ready(self, callback: Callable[[bool], None]) -> None: ...

    def everything_told(self, source: str) -> None: ...


class FakePoller:
    def __init__(self) -> None:
        self.offsets: list[int] = []
        self.came = threading.Event()

    def finished(self, portion: Portion) -> None:
        self.offsets.append(portion.unit.after)
        self.came.set()


def portion(poller: FakePoller, offset: int, subnet: str) -> Portion:
    message = GoalStateV2()
    message.subnet_states[subnet].configuration.id = subnet
    record = FakeRecord(offset, message.SerializeToString())
    return Portion(cast(Poller, poller), ("t", 0), Tracker(), Unit(offset + 1), [record], len(record))


@pytest.fixture
def intake() -> Iterator[Intake]:
    settings = IntakeSettings("h", frozenset(), frozenset(), frozenset(), frozenset(), None, None)
    made = Intake(FakeEngine(), settings, None, Faults())
    made.start()
    yield made
    made.stop()
    made.join(WAIT_S)


def test_what_the_engine_has_answered_is_finished(intake: Intake) -> None:
    poller = FakePoller()
    intake.deliver(portion(poller, 0, "good"))
    assert poller.came.wait(WAIT_S)
    assert poller.offsets == [1]


def test_what_the_engine_broke_over_is_never_finished(intake: Intake) -> None:
    poller = FakePoller()
    intake.deliver(portion(poller, 0, "bad"))
    intake.deliver(portion(poller, 1, "good"))
    assert poller.came.wait(WAIT_S)
    assert poller.offsets == [2]


def test_what_cannot_be_turned_into_work_is_never_finished(intake: Intake, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_given: Any) -> Any:
        monkeypatch.undo()
        raise RuntimeError("a bug")

    monkeypatch.setattr("aca.transport.kafka.intake.parse", broken)
    poller = FakePoller()
    intake.deliver(portion(poller, 0, "good"))
    intake.deliver(portion(poller, 1, "good"))
    assert poller.came.wait(WAIT_S)
    assert poller.offsets == [2]
