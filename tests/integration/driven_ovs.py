"""The Open vSwitch data plane in this process, driven by an engine, on the switch of a lab's host."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from aca.dispatch.engine import Engine, EngineSettings
from aca.dispatch.upkeep import UpkeepSettings
from dataplane.addresses import parse_address
from dataplane.base import Event
from dataplane.model import NetworkType
from dataplane.ovs.plane import OvsDataPlane
from dataplane.ovs.settings import OvsSettings
from goalstate_proto.goalstateprovisioner_pb2 import GoalStateOperationReply
from tests.conformance.network import State, v2
from tests.lab import Host, wait_until

WAIT_S = 20.0
NEVER = UpkeepSettings(check_every_s=3600.0)
"""Checks are the tests' own."""


class ListeningPlane(OvsDataPlane):
    """Keeps the events that it tells."""

    def __init__(self, settings: OvsSettings) -> None:
        super().__init__(settings)
        self.events: list[Event] = []
        self.tell: Callable[[Event], None] = self.events.append

    def open(self, listener: Callable[[Event], None]) -> None:
        def keep(event: Event) -> None:
            self.events.append(event)
            listener(event)

        self.tell = keep
        super().open(keep)


class Driven:
    """One agent's worth of engine and data plane."""

    def __init__(self, host: Host) -> None:
        own = parse_address(host.underlay_ip)
        self.plane = ListeningPlane(OvsSettings(host.directory, host.db_socket, host.bridge, "netdev", own))
        self.engine = Engine(self.plane, EngineSettings(frozenset(), own, NetworkType.VXLAN, upkeep=NEVER))

    def push(self, *states: State) -> GoalStateOperationReply:
        return GoalStateOperationReply.FromString(self.engine.submit(v2(*states)).result(WAIT_S))

    def status(self) -> dict[str, Any]:
        return self.engine.status()

    def wait_settled(self) -> None:
        """Until nothing is pending or in work."""

        def settled() -> bool:
            status = self.status()
            return status["dataplane"]["ready"] and not status["problems_total"] and not status["in_work"]

        wait_until(settled, WAIT_S, "nothing pending")


@contextmanager
def driven(host: Host) -> Iterator[Driven]:
    """A fresh one, closed at the end; what it programmed stays."""
    made = Driven(host)
    made.engine.start()
    try:
        wait_until(lambda: made.engine.ready, WAIT_S, "ready")
        yield made
    finally:
        made.engine.close(5.0)
