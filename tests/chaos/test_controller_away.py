"""The controller changes its mind while the agent is down, or is not there when the agent starts."""

from __future__ import annotations

import time

import pytest

from goalstate_proto import neighbor_pb2
from tests.chaos.world import BLUE, World, nic
from tests.conformance.network import dhcp_state, neighbor_state, port_state
from tests.lab import wait_until

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]


ASKED_AGAIN_S = 120.0
"""The agent asks with pauses that grow to a minute and vary by half."""


def test_ports_deleted_and_created_while_the_agent_is_down(world: World) -> None:
    station = world.one
    stale, other, new = world.spares[:3]
    old_neighbor, new_neighbor = (nic(2000 + number, BLUE, "172.16.0.77") for number in (0, 2))
    station.tell(port_state(stale), dhcp_state(stale), port_state(other))
    station.tell(neighbor_state(old_neighbor, layer=neighbor_pb2.L3))
    guests = [world.guests[one.id] for one in (stale, other, new)]
    target = world.nics[0].ip
    assert guests[0].can_reach(target)
    assert guests[1].can_reach(world.spares[1].subnet.gateway)

    with world.event("ports deleted and created while the agent is down") as event:
        station.agent.kill()
        station.controller.forget(port_state(stale), dhcp_state(stale), neighbor_state(old_neighbor))
        station.controller.expect(port_state(new), neighbor_state(new_neighbor, layer=neighbor_pb2.L3))
        station.start()
        station.wait_complete()
    assert event.measured.lost == {}
    assert guests[2].can_reach(target)
    assert guests[1].can_reach(world.spares[1].subnet.gateway)
    wait_until(lambda: guests[0].ping(target, timeout=0.2).received == 0, 5.0, "the stale port is gone")
    # As a host that never heard of the stale ones: the rest of the comparison is the world's own.
    station.controller.remove(port_state(other), port_state(new), neighbor_state(new_neighbor))
    station.wait_footprint(world.before[station.host.name], 10.0, "nothing is left of them")


@pytest.mark.parametrize("pings", [500, pytest.param(12_000, marks=[pytest.mark.long, pytest.mark.timeout(600)])])
def test_no_controller_when_the_agent_starts(world: World, pings: int) -> None:
    station = world.one
    station.controller.leave()
    with world.event(f"no controller for {pings // 100} s") as event:
        station.agent.kill()
        station.start()
        station.agent.wait_ready()
        world.traffic.wait_pings(pings)
        assert station.footprint() == world.before[station.host.name]
    assert event.measured.lost == {}

    since = time.monotonic()
    station.controller.start()
    station.wait_complete(ASKED_AGAIN_S)
    world.traffic.wait_flowing(since)
