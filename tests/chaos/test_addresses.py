"""Tunnel addresses of hosts change under traffic."""

from __future__ import annotations

import re
import socket

import pytest

from goalstate_proto import neighbor_pb2
from tests.chaos.bounds import bound
from tests.chaos.world import Station, World, other_address
from tests.conformance.network import State, neighbor_state
from tests.lab import wait_until

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]

BACK_S = 2.0


def neighbors_at(world: World, old: str, new: str) -> list[State]:
    """All that is on a host, told as being at another address."""
    return [neighbor_state(one.but(host_ip=new), layer=neighbor_pb2.L3) for one in world.nics if one.host_ip == old]


def mentions(station: Station, address: str) -> list[str]:
    """What the agent has made that says this address, other than its own settings."""
    spelled = re.compile(rf"\b({re.escape(address)}|0x{socket.inet_aton(address).hex()})\b")
    return [line for line in station.footprint() if spelled.search(line)]


@pytest.mark.parametrize("mover", ["own", "remote"])
def test_a_host_moves_to_another_address(world: World, mover: str) -> None:
    """Watched from both ends: the host that moves follows its interface, the other is told in one message."""
    moves, stays = (world.one, world.two) if mover == "own" else (world.two, world.one)
    old, new = moves.ip, other_address(moves.ip)
    home = [old]
    for source, target in ((old, new), (new, old)):
        with world.event(f"{mover} address changes") as event:
            moves.host.move_underlay(target)
            stays.tell(*neighbors_at(world, home[0], target))
            wait_until(
                lambda where=target: moves.agent.status()["agent"]["tunnel_address"] == where,  # type: ignore[misc]
                bound(BACK_S),
                "the agent has followed",
            )
        moves.tell(*neighbors_at(world, home[0], target))
        assert set(event.measured.lost) <= {"remote", "routed"}
        for name in event.measured.lost:
            assert max(event.measured.of(name).lost_at) <= bound(BACK_S)
        assert mentions(stays, source) == []
