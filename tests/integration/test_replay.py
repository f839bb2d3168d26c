"""An agent that starts tells a controller, and takes away what nothing wants when all has been told again."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from aca.ondemand.values import Answers, Verdict
from aca.transport import replay
from aca.transport.controller import ControllerClient, ControllerSettings
from aca.transport.thread import ServerThread
from goalstate_proto import common_pb2
from tests.lab.controller import Controller, promise, refuse

WAIT_S = 20.0
HERE = bytes([192, 0, 2, 11])


class Engine:
    """Notes what it is told."""

    def __init__(self) -> None:
        self.expected: list[str] = []
        self.answered: list[str] = []

    def expect_replay(self, request_id: str) -> None:
        self.expected.append(request_id)

    def replay_answered(self, request_id: str) -> None:
        self.answered.append(request_id)


@pytest.fixture
def thread() -> Iterator[ServerThread]:
    made = ServerThread()
    made.start()
    yield made
    made.close()


def test_the_engine_knows_the_request_before_and_after(thread: ServerThread, tmp_path: Path) -> None:
    engine = Engine()
    with Controller(tmp_path / "one.sock") as controller:
        controller.decide = promise
        client = ControllerClient(ControllerSettings((controller.target,)))
        thread.run(replay.ask_for_replay(client, engine, HERE), WAIT_S)
        thread.run(client.close(), WAIT_S)
        (request,) = controller.asked
    assert request.request_type == common_pb2.AGENT_RESTARTED
    assert request.source_ip == "192.0.2.11"
    assert engine.expected == engine.answered == [request.request_id]


def test_a_refusal_and_an_absence_are_tried_again(
    thread: ServerThread, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay, "_FIRST_PAUSE_S", 0.01)
    engine, path = Engine(), tmp_path / "one.sock"
    client = ControllerClient(ControllerSettings((f"unix:{path}",)))
    asking = thread.submit(replay.ask_for_replay(client, engine, HERE))
    with Controller(path) as controller:
        said = iter([refuse, refuse])
        controller.decide = lambda request: next(said, promise)(request)
        asking.result(WAIT_S)
        assert len({request.request_id for request in controller.asked}) == 1, "one replay, one id"
        assert len(controller.asked) >= 3
    thread.run(client.close(), WAIT_S)
    assert engine.answered == engine.expected


def test_it_can_be_given_up(thread: ServerThread) -> None:
    class Nobody:
        async def agent_restarted(self, request_id: str, source: bytes) -> Answers:
            await asyncio.sleep(0)
            return Answers({request_id: Verdict.UNANSWERED}, "nobody there")

    engine = Engine()
    asking = thread.submit(replay.ask_for_replay(Nobody(), engine, HERE))
    asking.cancel()
    assert asking.cancelled()
    assert not engine.answered
