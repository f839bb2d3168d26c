"""The agent's clock jumps; its disk is full, and everything but its sockets' directory cannot be written."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.chaos.changes import Changes
from tests.chaos.world import Station, World
from tests.lab import wait_until
from tests.lab.agent import COMMAND

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]

LIBRARIES = ("/usr/lib/x86_64-linux-gnu/faketime", "/usr/lib/aarch64-linux-gnu/faketime")
DAY_S = 86_400
JUMPS = (40 * DAY_S, -40 * DAY_S, DAY_S // 8, 365 * DAY_S)
"""Seconds that the agent's clock is ahead of the machine's, one after the other."""
SEEN_S = 10.0
CHANGES = 10


def with_command(station: Station, command: Sequence[str]) -> None:
    """The agent is killed and started by this command."""
    station.agent.kill()
    station.agent.command = tuple(command)
    try:
        station.start()
    finally:
        station.agent.command = COMMAND
    station.wait_complete()


def change_something(world: World, seed: int) -> None:
    changes = Changes(world.one.controller, world.spares, seed)
    for _ in range(CHANGES):
        changes.once()
    world.one.wait_settled()


def test_the_clock_jumps(world: World, tmp_path: Path) -> None:
    library = next((one for one in LIBRARIES if Path(one).exists()), None)
    if library is None:
        pytest.skip("no libfaketime here")
    clock = tmp_path / "clock"
    clock.write_text("+0\n")
    station = world.one
    with world.event("the agent's clock jumps") as event:
        with_command(
            station,
            [
                *("env", f"LD_PRELOAD={library}/libfaketime.so.1", f"FAKETIME_TIMESTAMP_FILE={clock}"),
                *("FAKETIME_CACHE_DURATION=1", "DONT_FAKE_MONOTONIC=1", *COMMAND),
            ],
        )
        for number, jump in enumerate(JUMPS):
            clock.write_text(f"{jump:+d}\n")
            # By that clock.
            wait_until(
                lambda ahead=jump: abs(station.agent.status()["agent"]["uptime_s"] - ahead) < DAY_S / 24,  # type: ignore[misc]
                SEEN_S,
                "the agent's clock jumps",
            )
            change_something(world, number)
    assert event.measured.lost == {}
    station.restart()


READ_ONLY = """
set -e
directory=$1; shift
mount --make-private /
mount --bind "$directory" "$directory"
mount --bind / / || true
mount -o remount,bind,ro /
mount -t tmpfs -o size=4k,nr_inodes=4 none /var/tmp
echo full > /var/tmp/full 2>/dev/null || true
exec "$@" > /dev/full 2>&1
"""


def test_the_disk_is_full_and_read_only(world: World) -> None:
    """It keeps its mounts of routers: those must be seen by the host."""
    station = world.one
    with world.event("disk full, file system read-only") as event:
        with_command(
            station,
            [
                "unshare",
                "--mount",
                "--propagation",
                "unchanged",
                "sh",
                "-c",
                READ_ONLY,
                "sh",
                str(station.host.directory),
                *COMMAND,
            ],
        )
        change_something(world, 99)
        root = Path(f"/proc/{station.agent.pid}/mountinfo").read_text().splitlines()
        assert any(line.split()[4] == "/" and line.split()[5].startswith("ro") for line in root)
    assert event.measured.lost == {}
    station.restart()
