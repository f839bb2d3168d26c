"""Faults on demand: the agent's own way to fail, wait, lose a connection or die at a named point.

Off unless rules are given (`faults.rules`). For tests and for rehearsals by operators; never by chance.
"""

from __future__ import annotations

import enum
import os
import re
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from dataplane.base import DataPlaneError

POINTS = {
    "message": "a message has been taken in hand",
    "merged": "a part of a message is merged into the desired state, nothing of it is planned yet",
    "planned": "work has been handed to the pool",
    "reply": "a message is about to be answered",
    "apply.subnet": "subnets are about to be programmed",
    "apply.port": "ports are about to be programmed",
    "apply.neighbor": "neighbours are about to be programmed",
    "apply.router": "routers are about to be programmed",
    "apply.dhcp": "the punts of ports for DHCP are about to be programmed",
    "applied": "the data plane has confirmed a turn of work, which the engine does not know yet",
    "survey": "a survey is about to begin",
    "sweep": "leftovers are about to be taken away",
    "swept": "leftovers have been taken away",
    "ovs.start": "bridge and tunnels are there, no flow has been sent",
    "ovs.sent": "a turn's flows have been sent to the switch and are not confirmed",
    "ovs.openflow": "bytes have come on a connection to the switch",
    "ovs.ovsdb": "bytes have come on the connection to the switch's database",
    "netlink.devices": "bridges, routers and legs of a turn are there, the filter is not",
    "netlink.filter": "the filter of a turn is there, forwarding entries are not",
    "netlink.removal": "what a turn adds is there, what it removes is not gone",
    "kafka.records": "records have come and nothing is done with them",
    "kafka.submitted": "records are with the engine, which has not answered",
    "kafka.answered": "the engine has answered records, nothing is noted",
    "kafka.commit": "offsets are about to be committed",
    "kafka.committed": "the brokers have confirmed a commit",
    "kafka.end": "a compacted topic has been read to its end, nothing of it is with the engine",
}
"""Every point, and what is so when it is reached."""

_RULE = re.compile(
    r"(?P<action>fail|drop|crash) at (?P<point>\S+)(?: (?P<nth>\d+))?"
    r"|delay at (?P<late_point>\S+)(?: (?P<late_nth>\d+))? by (?P<seconds>\d+(?:\.\d+)?)"
)


class Action(enum.Enum):
    FAIL = "fail"
    """The data plane says no."""
    DROP = "drop"
    """The connection is lost."""
    CRASH = "crash"
    """The process dies at once, as by SIGKILL."""
    DELAY = "delay"


_WHERE = {
    Action.FAIL: ("apply.", "survey", "sweep", "ovs.sent", "netlink."),
    Action.DROP: ("ovs.openflow", "ovs.ovsdb"),
}


@dataclass(frozen=True, slots=True)
class Fault:
    """What happens at a point, the `nth` time that it is reached (from 1). `seconds` are those of a delay."""

    action: Action
    point: str
    nth: int = 1
    seconds: float = 0.0


def parse_fault(text: str) -> Fault:
    """A rule as people write it: "crash at applied", "fail at apply.port 3", "delay at reply 2 by 0.5".

    Raises ValueError saying what is wrong.
    """
    match = _RULE.fullmatch(text.strip())
    if match is None:
        raise ValueError("must be '(fail|drop|crash) at POINT [N]' or 'delay at POINT [N] by SECONDS'")
    point = match["point"] or match["late_point"]
    if point not in POINTS:
        raise ValueError(f"there is no point {point}; there are: {', '.join(POINTS)}")
    action = Action(match["action"] or "delay")
    if action in _WHERE and not point.startswith(_WHERE[action]):
        raise ValueError(f"nothing can {action.value} at {point}, only at {', '.join(_WHERE[action])}...")
    nth = int(match["nth"] or match["late_nth"] or 1)
    if nth < 1:
        raise ValueError("points are counted from 1")
    return Fault(action, point, nth, float(match["seconds"] or 0.0))


class Faults:
    """Thread safe. Without rules, `at` costs nothing worth mentioning."""

    def __init__(self, rules: Iterable[Fault] = ()) -> None:
        self._rules = {(rule.point, rule.nth): rule for rule in rules}
        self._lock = threading.Lock()
        self._reached: Counter[str] = Counter()

    def at(self, point: str) -> None:
        """The point has been reached. Raises DataPlaneError for FAIL, ConnectionResetError for DROP."""
        if not self._rules:
            return
        with self._lock:
            self._reached[point] += 1
            rule = self._rules.get((point, self._reached[point]))
        if rule is None:
            return
        if rule.action is Action.CRASH:
            os.kill(os.getpid(), signal.SIGKILL)
        elif rule.action is Action.DELAY:
            time.sleep(rule.seconds)
        elif rule.action is Action.DROP:
            raise ConnectionResetError(f"injected fault at {point}")
        else:
            raise DataPlaneError(f"injected fault at {point}")
