"""Checks, surveys, sweeps and completeness, on an engine whose data plane finds what it is told to find."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from click.testing import CliRunner

from aca.cli import main
from aca.dispatch.completeness import CONTROLLER
from aca.dispatch.upkeep import Mode, ReconcileRefused, UpkeepSettings, why_not_sweep
from aca.goalstate.decode import ends_replay
from dataplane.base import Drifted, Leftover, Survey, pending
from dataplane.model import Key, Kind
from goalstate_proto.aca_pb2 import GoalStateExtension
from goalstate_proto.goalstate_pb2 import GoalState, GoalStateV2
from tests.unit.fake_plane import WAIT_S
from tests.unit.test_engine import Bench, goal, key, neighbor, port, subnet

STALE = Leftover("flow of port gone", 1)
FOUND = Survey(standing=10, leftovers=(STALE,))


def bench(**upkeep: float) -> Bench:
    settings = {"check_every_s": 3600.0, **upkeep}
    made = Bench(sources=frozenset({CONTROLLER}), upkeep=UpkeepSettings(**settings))
    made.become(True)
    made.plane.wait_for(lambda: made.plane.checks > 0)
    return made


@pytest.fixture
def quiet() -> Iterator[Bench]:
    """Its first check is over, and no other comes unasked."""
    made = bench()
    yield made
    made.plane.let_go()
    made.engine.close(2.0)


def marker(request_id: str) -> GoalStateV2:
    return GoalStateV2.FromString(GoalStateExtension(replay_end=request_id).SerializeToString())


def reconcile(made: Bench, mode: Mode) -> dict[str, Any]:
    return made.engine.reconcile(mode).result(WAIT_S)


def replay(made: Bench) -> None:
    made.engine.expect_replay("r1")
    made.engine.replay_answered("r1")
    made.push(marker("r1"))


def surveyed(made: Bench, times: int = 1) -> None:
    made.plane.wait_for(lambda: len(made.plane.surveys) >= times)


def test_nothing_is_swept_before_the_controller_has_told_everything(quiet: Bench) -> None:
    quiet.plane.found = FOUND
    quiet.push(goal(subnet(), neighbor(1)))
    found = reconcile(quiet, Mode.REPAIR)
    assert found["leftovers"] == [STALE.name]
    assert found["removed"] == 0
    assert "controller" in found["kept_because"]
    assert not quiet.plane.swept


def test_the_end_of_the_replay_sweeps_what_nothing_wants(quiet: Bench) -> None:
    quiet.plane.found = FOUND
    replay(quiet)
    quiet.plane.wait_for(lambda: quiet.plane.swept == [[STALE.name]])
    assert quiet.engine.status()["reconcile"]["complete"]


def test_a_marker_of_an_earlier_agents_replay_does_not_count(quiet: Bench) -> None:
    quiet.engine.expect_replay("r2")
    quiet.engine.replay_answered("r2")
    quiet.push(marker("r1"))
    assert not quiet.engine.status()["reconcile"]["complete"]


def test_a_marker_without_the_controllers_answer_does_not_count(quiet: Bench) -> None:
    quiet.engine.expect_replay("r1")
    quiet.push(marker("r1"))
    assert not quiet.engine.status()["reconcile"]["complete"]
    quiet.engine.replay_answered("r1")
    assert quiet.engine.status()["reconcile"]["complete"]


def test_the_replay_is_not_over_before_its_messages_are_programmed(quiet: Bench) -> None:
    quiet.engine.expect_replay("r1")
    quiet.engine.replay_answered("r1")
    quiet.plane.hold()
    before = quiet.submit(goal(subnet(), neighbor(1)))
    last = quiet.submit(marker("r1"))
    last.result(WAIT_S)
    assert not quiet.engine.status()["reconcile"]["complete"]
    quiet.plane.let_go()
    before.result(WAIT_S)
    assert quiet.engine.status()["reconcile"]["complete"]


def test_a_second_replay_must_end_before_the_next_sweep(quiet: Bench) -> None:
    replay(quiet)
    surveyed(quiet)
    quiet.engine.expect_replay("r2")
    quiet.plane.found = FOUND
    assert reconcile(quiet, Mode.REPAIR)["removed"] == 0


def test_the_guard_keeps_a_mass_of_leftovers_until_forced(quiet: Bench) -> None:
    quiet.plane.found = Survey(standing=3, leftovers=(STALE, STALE))
    replay(quiet)
    surveyed(quiet)
    found = reconcile(quiet, Mode.REPAIR)
    assert (found["leftovers_total"], found["removed"]) == (2, 0)
    assert "--force" in quiet.engine.status()["reconcile"]["alarm"]
    assert not quiet.plane.swept
    assert reconcile(quiet, Mode.FORCE)["removed"] == 2
    assert not quiet.engine.status()["reconcile"]["alarm"]


@pytest.mark.parametrize(("found", "allowed"), [(0, True), (5, True), (6, False), (10, False)])
def test_half_may_go_unasked(found: int, allowed: bool) -> None:
    survey = Survey(standing=10, leftovers=(STALE,) * found)
    assert (why_not_sweep(survey, 0.5) == "") is allowed


def test_looking_changes_nothing(quiet: Bench) -> None:
    quiet.push(goal(subnet(), neighbor(1)))
    replay(quiet)
    surveyed(quiet)
    quiet.plane.found = replace(FOUND, missing=1, examples=("flow of n1 is gone",), again=frozenset({key(1)}))
    times, swept = len(quiet.plane.applied), len(quiet.plane.swept)
    found = reconcile(quiet, Mode.LOOK)
    assert found["examples"] == ["flow of n1 is gone"]
    assert (found["leftovers_total"], found["removed"], found["kept_because"]) == (1, 0, "")
    assert (len(quiet.plane.applied), len(quiet.plane.swept)) == (times, swept)


def test_what_is_missing_is_applied_again_before_the_answer(quiet: Bench) -> None:
    quiet.push(goal(subnet(), neighbor(1)))
    quiet.plane.found = Survey(standing=2, missing=1, again=frozenset({key(1)}))
    times = len(quiet.plane.applied)
    assert reconcile(quiet, Mode.REPAIR)["missing"] == 1
    assert len(quiet.plane.applied) == times + 1


def test_drift_that_a_check_finds_is_put_back() -> None:
    made = bench(check_every_s=0.05)
    made.push(goal(subnet(), neighbor(1)))
    times = len(made.plane.applied)
    made.plane.drift = Survey(standing=2, altered=1, again=frozenset({key(1)}))
    made.plane.wait_for(lambda: len(made.plane.applied) > times)
    assert made.engine.status()["reconcile"]["put_back"] > 0
    made.engine.close(2.0)


def test_drift_that_the_data_plane_notices_is_put_back(quiet: Bench) -> None:
    quiet.push(goal(subnet(), neighbor(1)))
    times = len(quiet.plane.applied)
    quiet.plane.listener(Drifted(frozenset({key(1), Key(Kind.PORT, "unknown")})))
    quiet.plane.wait_for(lambda: len(quiet.plane.applied) > times)
    assert quiet.engine.status()["reconcile"]["put_back"] == 2


def test_what_waits_is_not_taken_for_a_leftover(quiet: Bench) -> None:
    quiet.plane.problems[Key(Kind.PORT, "p")] = pending("no device")
    quiet.push(goal(subnet(), port("p", 1)))
    reconcile(quiet, Mode.LOOK)
    assert Key(Kind.PORT, "p") in quiet.plane.surveys[-1]


def test_a_moved_tunnel_makes_what_was_remote_local(quiet: Bench) -> None:
    quiet.push(goal(subnet(), neighbor(1, host="192.0.2.99")))
    assert key(1) in quiet.plane.wanted
    quiet.engine.move_tunnels(bytes([192, 0, 2, 99]))
    quiet.plane.wait_for(lambda: key(1) not in quiet.plane.wanted)
    assert quiet.plane.tunnel_address == bytes([192, 0, 2, 99])


def test_without_a_data_plane_there_is_nothing_to_reconcile(quiet: Bench) -> None:
    quiet.become(False)
    with pytest.raises(ReconcileRefused, match="not ready"):
        reconcile(quiet, Mode.REPAIR)


def test_a_survey_that_fails_says_why_and_the_next_one_works(quiet: Bench) -> None:
    quiet.plane.break_down("no answer in time")
    with pytest.raises(ReconcileRefused, match="no answer in time"):
        reconcile(quiet, Mode.REPAIR)
    quiet.plane.heal()
    assert reconcile(quiet, Mode.REPAIR)["standing"] == 0


def test_closing_answers_who_waits() -> None:
    made = bench()
    made.push(goal(subnet(), neighbor(1)))
    made.plane.found = Survey(standing=2, missing=1, again=frozenset({key(1)}))
    made.plane.hold()
    waiting = made.engine.reconcile(Mode.REPAIR)
    surveyed(made)
    made.engine.close(1.0)
    with pytest.raises(ReconcileRefused, match="shutting down"):
        waiting.result(WAIT_S)


@pytest.mark.parametrize("layout", [GoalState, GoalStateV2])
def test_the_marker_is_found_in_both_layouts(layout: type[GoalState] | type[GoalStateV2]) -> None:
    message = layout.FromString(GoalStateExtension(replay_end="id").SerializeToString())
    assert ends_replay(message) == "id"
    assert ends_replay(layout()) == ""


def test_the_command_needs_an_agent(tmp_path: Any) -> None:
    result = CliRunner().invoke(main, ["reconcile", "--socket", str(tmp_path / "none.sock")])
    assert result.exit_code == 2
    assert "is the agent running?" in result.output
