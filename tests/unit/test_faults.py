"""Injected faults: how rules are written, and when they strike."""

from __future__ import annotations

import os
import signal

import pytest

from dataplane.base import DataPlaneError
from dataplane.faults import POINTS, Action, Fault, Faults, parse_fault


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("crash at applied", Fault(Action.CRASH, "applied")),
        ("fail at apply.port 3", Fault(Action.FAIL, "apply.port", 3)),
        ("drop at ovs.openflow 7", Fault(Action.DROP, "ovs.openflow", 7)),
        ("delay at reply by 0.5", Fault(Action.DELAY, "reply", 1, 0.5)),
        ("delay at reply 2 by 1", Fault(Action.DELAY, "reply", 2, 1.0)),
    ],
)
def test_rules_read_as_they_are_written(text: str, fault: Fault) -> None:
    assert parse_fault(text) == fault


@pytest.mark.parametrize("text", ["", "crash", "crash at", "explode at reply", "delay at reply", "crash at reply x"])
def test_other_texts_are_refused_with_the_form(text: str) -> None:
    with pytest.raises(ValueError, match="must be"):
        parse_fault(text)


def test_an_unknown_point_is_refused_with_those_that_exist() -> None:
    with pytest.raises(ValueError, match=r"no point nowhere.*applied"):
        parse_fault("crash at nowhere")


@pytest.mark.parametrize("text", ["fail at reply", "drop at applied"])
def test_what_cannot_happen_there_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="only at"):
        parse_fault(text)


def test_a_rule_strikes_once_at_its_time() -> None:
    faults = Faults([parse_fault("fail at sweep 2")])
    faults.at("sweep")
    with pytest.raises(DataPlaneError, match="sweep"):
        faults.at("sweep")
    faults.at("sweep")


def test_a_dropped_connection_looks_like_one() -> None:
    with pytest.raises(OSError, match="injected"):
        Faults([parse_fault("drop at ovs.ovsdb")]).at("ovs.ovsdb")


def test_a_crash_ends_the_process_at_once() -> None:
    child = os.fork()
    if child == 0:
        Faults([parse_fault("crash at reply")]).at("reply")
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status)
    assert os.WTERMSIG(status) == signal.SIGKILL


def test_without_rules_nothing_happens() -> None:
    faults = Faults()
    for point in POINTS:
        faults.at(point)
