"""The agent dies, at any moment, over and over."""

from __future__ import annotations

import random
import threading

import pytest

from tests.chaos.changes import Changes
from tests.chaos.world import World, fresh_footprint
from tests.lab import Lab

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]

LONGEST_LIFE_S = 2.0


@pytest.mark.parametrize("kills", [10, pytest.param(100, marks=[pytest.mark.long, pytest.mark.timeout(1800)])])
def test_killed_at_random_moments_under_a_stream_of_changes(world: World, fresh_lab: Lab, kills: int) -> None:
    moments = random.Random(kills)
    never = threading.Event()
    station = world.one
    changes = Changes(station.controller, world.spares, seed=kills)
    with world.event(f"agent killed {kills} times") as event:
        with changes:
            for _ in range(kills):
                never.wait(moments.uniform(0.0, LONGEST_LIFE_S))
                station.agent.kill()
                station.start()
        station.wait_complete()
    assert changes.told > kills
    assert event.measured.lost == {}
    devices = [one for one in (*world.nics, *world.spares) if one.host_ip == station.ip]
    fresh = fresh_footprint(fresh_lab, station, devices)
    station.wait_footprint(fresh, 10.0, "as a fresh agent's")
