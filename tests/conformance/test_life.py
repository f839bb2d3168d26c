"""The agent ends and begins, its data plane crashes: what guests notice of it."""

from __future__ import annotations

import pytest

from tests.conformance.cloud import Cloud, eventually, severed
from tests.conformance.network import State, neighbor_state, port_state, router_state, subnet_state

pytestmark = pytest.mark.lab


class Town:
    """Two routed subnets over both hosts, and what each host is told of them."""

    def __init__(self, cloud: Cloud) -> None:
        vpc = cloud.vpc()
        blue, green = vpc.subnet("10.0.1.0/24"), vpc.subnet("10.0.2.0/24")
        self.nics = [vpc.nic(site, net) for site in cloud.sites for net in (blue, green)]
        self.guests = cloud.guests(*self.nics)
        common: list[State] = [subnet_state(blue), subnet_state(green), router_state(f"r-{vpc.id}", [blue, green])]
        common += [neighbor_state(nic, layer=1) for nic in self.nics]
        self.states: list[State] = [*common, *(port_state(nic) for nic in self.nics[:2])]
        cloud.one.program(*self.states)
        cloud.two.program(*common, *(port_state(nic) for nic in self.nics[2:]))

    def all_reached(self) -> bool:
        return all(
            guest.can_reach(nic.ip) for guest in self.guests for nic in self.nics if nic.id != guest.port_id
        )


def test_traffic_flows_while_the_agent_is_gone(cloud: Cloud) -> None:
    town = Town(cloud)
    assert town.all_reached()
    before = cloud.one.footprint()
    running = [town.guests[0].start_ping(nic.ip) for nic in town.nics[1:]]
    for one in running:
        one.wait_replies()

    assert cloud.one.agent.stop(within=5.0) == 0
    for one in running:
        one.wait_replies(20)
    assert cloud.one.footprint() == before
    assert [one.stop().lost for one in running] == [(), (), ()]

    cloud.one.agent.start()
    cloud.one.agent.wait_ready()
    cloud.one.program(*town.states)
    assert town.all_reached()


def test_the_switch_crashes(cloud: Cloud) -> None:
    cloud.needs("crash", cloud.one)
    town = Town(cloud)
    assert town.all_reached()
    cloud.one.backend.crash(cloud.one.host)
    assert town.all_reached()
    cloud.one.agent.wait_ready()
    cloud.one.program(*town.states)


def test_the_underlay_goes_down_and_up(cloud: Cloud) -> None:
    """Guests of one host go on, the others come back by themselves."""
    town = Town(cloud)
    assert town.all_reached()
    cloud.one.host.underlay_down()
    try:
        assert severed(town.guests[0], town.nics[2].ip)
        assert town.guests[0].can_reach(town.nics[1].ip)
    finally:
        cloud.one.host.underlay_up()
    assert town.all_reached()


def test_the_tunnels_are_deleted_by_hand(cloud: Cloud) -> None:
    """The agent puts them back, and what went through them goes through them again."""
    cloud.needs("repair", cloud.one)
    town = Town(cloud)
    assert town.all_reached()
    cloud.one.backend.cut_tunnels(cloud.one.host)
    assert town.all_reached()


def test_the_data_plane_is_deleted_by_hand(cloud: Cloud) -> None:
    """What was not the agent's (the guests' devices on the bridge) is put back by hand as well."""
    cloud.needs("repair", cloud.one)
    town = Town(cloud)
    assert town.all_reached()
    cloud.one.backend.wipe(cloud.one.host)
    cloud.one.agent.wait_ready()
    for guest in town.guests[:2]:
        eventually(lambda g=guest: cloud.one.backend.attached(g), "attached again")  # type: ignore[misc]
    assert town.all_reached()


def test_nothing_is_lost_when_the_agent_comes_back(cloud: Cloud) -> None:
    """What stands is taken over, not made again."""
    town = Town(cloud)
    assert town.all_reached()
    running = [town.guests[0].start_ping(nic.ip) for nic in town.nics[1:]]
    for one in running:
        one.wait_replies()
    assert cloud.one.agent.stop(within=5.0) == 0
    cloud.one.agent.start()
    cloud.one.agent.wait_ready()
    for _ in range(2):
        cloud.one.program(*town.states)
        for one in running:
            one.wait_replies(20)
    assert [one.stop().lost for one in running] == [(), (), ()]


def test_a_killed_agent_leaves_nothing_that_deletions_do_not_remove(cloud: Cloud) -> None:
    """The check is the one after each scenario: both hosts are as they were before."""
    town = Town(cloud)
    cloud.one.agent.kill()
    assert town.all_reached()
    cloud.one.agent.start()
    cloud.one.agent.wait_ready()
    cloud.one.program(*town.states)
    assert town.all_reached()
