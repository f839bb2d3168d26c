"""Open vSwitch dies, or loses its database."""

from __future__ import annotations

import time

import pytest

from tests.chaos.bounds import bound
from tests.chaos.footprint import wait_flows
from tests.chaos.world import BLUE, World, nic
from tests.conformance.network import port_state
from tests.lab import wait_until

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]

FLOWS_BACK_S = 3.0
BACK_S = 10.0


def needs_switch(world: World) -> None:
    if not world.one.host.has_ovs:
        pytest.skip("the kernel forwards, there is no switch to lose")


def test_the_switch_is_killed_and_started_again(world: World) -> None:
    needs_switch(world)
    station = world.one
    with world.event("ovs-vswitchd killed and started") as event:
        station.host.ovs.vswitchd.kill()
        station.host.ovs.vswitchd.start()
        started = time.monotonic()
        station.wait_footprint(world.before[station.host.name], bound(FLOWS_BACK_S), "all flows are back")
        back = time.monotonic() - event.since
    assert started > event.since
    for pair in event.measured.pairs:
        assert all(at <= back + bound(1.0) for at in pair.lost_at), pair


def test_the_database_is_wiped(world: World) -> None:
    """Ports whose device is named after them, or that the agent has seen, are attached again by the agent."""
    needs_switch(world)
    station = world.one
    other = nic(31, BLUE, station.ip)
    station.host.run("ip", "link", "add", "vmnic7", "type", "veth", "peer", "name", "vmnic7-peer")
    station.host.run("ip", "link", "set", "vmnic7", "up")
    station.host.vsctl(
        *("add-port", station.host.bridge, "vmnic7", "--", "set", "Interface", "vmnic7"),
        f"external_ids:iface-id={other.id}",
    )
    wait_until(lambda: not station.controller.tell(port_state(other)).troubles, 10.0, "it is wired")  # type: ignore[union-attr]
    whole = station.footprint()
    with world.event("OVSDB wiped", back_within=60.0):
        station.host.wipe_database()
        ports = [world.nics[0], world.nics[1], other]
        wait_until(
            lambda: not station.agent.status()["problems"] and all(_attached(world, one.id) for one in ports),
            bound(BACK_S),
            "all that the agent knows is attached again",
        )
        wait_flows(station.host, station.backend, whole, bound(BACK_S))

    # A fresh agent on a wiped host cannot know whose device that is.
    with world.event("OVSDB wiped while the agent is down", back_within=60.0):
        station.agent.kill()
        station.host.wipe_database()
        station.start()
        station.agent.wait_ready(30.0)
        station.controller.replay()
        wait_until(lambda: all(_attached(world, one.id) for one in ports[:2]), bound(BACK_S), "known by their names")
    (problem,) = [one for one in station.agent.status()["problems"] if one["kind"] == "PORT"]
    assert (problem["id"], problem["status"]) == (other.id, "pending")
    assert "device" in problem["reason"]
    station.controller.remove(port_state(other))
    world.attach_again(station)
    station.host.run("ip", "link", "del", "vmnic7")


def _attached(world: World, port_id: str) -> bool:
    host = world.one.host
    if host.bridge not in host.vsctl("list-br").split():
        return False
    found = host.vsctl("--columns=name", "find", "Interface", f"external_ids:iface-id={port_id}")
    return bool(found.strip())
