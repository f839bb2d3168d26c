"""Somebody deletes or alters what the agent has made; what is not the agent's stays."""

from __future__ import annotations

import pytest

from tests.chaos.bounds import bound
from tests.chaos.footprint import wait_flows
from tests.chaos.vandals import VANDALS
from tests.chaos.world import World

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]

RESTORED_S = 10.0


@pytest.mark.parametrize("deed", ["deleted", "altered"])
def test_half_of_it_by_hand(world: World, deed: str) -> None:
    station = world.one
    vandal = VANDALS[station.backend.name]
    vandal.settle_in(station.host)
    whole = station.footprint()
    with world.event(f"half of it {deed}") as event:
        act = vandal.delete_half if deed == "deleted" else vandal.alter_half
        assert act(station.host, seed=8) > 20
        station.wait_footprint(whole, bound(RESTORED_S), "as before, the foreign things too")
    assert max(pair.silence for pair in event.measured.pairs) < bound(RESTORED_S)
    vandal.leave(station.host)


def test_all_of_it_at_once(world: World) -> None:
    """The bridge is deleted; the filter is flushed."""
    station = world.one
    whole = station.footprint()
    with world.event("all of it deleted", back_within=bound(RESTORED_S) + 30.0):
        if station.host.has_ovs:
            station.backend.wipe(station.host)
            wait_flows(station.host, station.backend, whole, bound(RESTORED_S))
            world.attach_again(station)
        else:
            for family in ("netdev", "bridge"):
                station.host.run("nft", "delete", "table", family, "aca")
            for device in sorted(one for one in station.host.devices() if one.startswith(("acb", "acv"))):
                station.host.run("ip", "link", "del", device)
        station.wait_standing(whole, bound(RESTORED_S))
    # What was put back just before its device went too is a leftover: those go with the next survey.
    station.reconcile("REPAIR")
    station.wait_footprint(whole, bound(RESTORED_S), "as before")
