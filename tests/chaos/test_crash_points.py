"""The agent dies at each of its named points."""

from __future__ import annotations

import time

import grpc
import pytest

from dataplane.faults import POINTS
from goalstate_proto import neighbor_pb2
from tests.chaos.world import BLUE, Station, World, nic
from tests.conformance.network import State, dhcp_state, neighbor_state, port_state
from tests.lab import LabError

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]

REACHED_S = 20.0
BACKENDS = ("ovs", "netlink")
OF_LEFTOVERS = ("survey", "sweep", "swept")


def points_of(world: World) -> list[str]:
    """Those that an agent with this data plane has, which hears by gRPC alone."""
    others = ("kafka.", *(f"{name}." for name in BACKENDS if name != world.one.backend.name))
    return [point for point in POINTS if not point.startswith(others)]


def extras(world: World) -> list[State]:
    spare = world.spares[0]
    return [
        port_state(spare),
        dhcp_state(spare),
        neighbor_state(nic(2500, BLUE, "172.16.0.88"), layer=neighbor_pb2.L3),
    ]


def crash_at(world: World, point: str) -> None:
    """An agent that is to die there is told enough to come by. Raises LabError if it lives on."""
    station = world.one
    if station.agent.running:
        station.agent.kill()
    station.start(faults={"rules": [f"crash at {point}"]})
    deadline = time.monotonic() + REACHED_S
    while station.agent.running:
        if time.monotonic() >= deadline:
            raise LabError(f"the agent never came to {point}\n{station.agent.log_tail()}")
        _tell_everything(station, extras(world))


def _tell_everything(station: Station, further: list[State]) -> None:
    controller = station.controller
    if not controller.replay():
        return
    try:
        station.reconcile("FORCE")
    except grpc.RpcError:
        return
    controller.tell(*further)
    controller.remove(*further)


def leave_something(world: World) -> None:
    """A host on which stands what nobody wants any more, and no agent."""
    station = world.one
    if not station.agent.running:
        station.restart()
    station.tell(*extras(world))
    station.agent.kill()
    station.controller.forget(*extras(world))


def test_one_point_after_the_other(world: World) -> None:
    """Each agent takes over from one that died, and dies in its turn; the last must make it all good."""
    station = world.one
    with world.event("crash at every point") as event:
        for point in points_of(world):
            if point in OF_LEFTOVERS:
                leave_something(world)
            crash_at(world, point)
        station.start()
        station.wait_complete()
    assert event.measured.lost == {}
    station.wait_footprint(world.before[station.host.name], 10.0, "as before")


@pytest.mark.long
@pytest.mark.parametrize("point", POINTS)
def test_each_point(world: World, point: str) -> None:
    if point not in points_of(world):
        pytest.skip(f"not a point of {world.one.backend.name}")
    station = world.one
    with world.event(f"crash at {point}") as event:
        leave_something(world)
        crash_at(world, point)
        station.start()
        station.wait_complete()
    assert event.measured.lost == {}
    station.wait_footprint(world.before[station.host.name], 10.0, "as before")
