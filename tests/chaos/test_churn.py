"""A day of changes in minutes: nothing grows."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tests.chaos.changes import Changes
from tests.chaos.world import Station, World

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]

TENTHS = 10
PER_MESSAGE = 50
GROWTH = 1.05
WARM_UP = 2_000
"""Changes before anything is counted: after the 1,000 that are a tenth of the short form a fresh process's allocator
has not seen its peak, as it has after the 20,000 of the long one."""


@dataclass(frozen=True, slots=True)
class Usage:
    memory: int
    fds: int
    threads: int


def usage_of(station: Station) -> Usage:
    return Usage(station.agent.rss_bytes, station.agent.fds, station.agent.threads)


@pytest.mark.parametrize("count", [10_000, pytest.param(200_000, marks=[pytest.mark.long, pytest.mark.timeout(3600)])])
def test_a_day_of_changes(world: World, count: int) -> None:
    station = world.one
    station.restart()
    changes = Changes(station.controller, world.spares, seed=count)
    used = []
    with world.event(f"{count} changes") as event:
        for _ in range(WARM_UP // PER_MESSAGE):
            changes.many(PER_MESSAGE)
        for _ in range(TENTHS):
            for _ in range(count // TENTHS // PER_MESSAGE):
                changes.many(PER_MESSAGE)
            changes.undo()
            station.wait_settled()
            station.wait_footprint(world.before[station.host.name], 10.0, "nothing is left of the changes")
            used.append(usage_of(station))
    assert event.measured.lost == {}
    first, last = used[0], used[-1]
    assert last.memory < first.memory * GROWTH, used
    assert last.threads <= first.threads, used
    assert last.fds <= first.fds, used
