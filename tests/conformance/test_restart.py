"""A fresh agent on hosts where everything stands: what it has not heard of yet goes on; what it is told counts."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from goalstate_proto import neighbor_pb2
from tests.conformance.cloud import Cloud, severed
from tests.conformance.network import Nic, State, Subnet, neighbor_state, port_state, router_state, subnet_state
from tests.lab import Guest

pytestmark = pytest.mark.lab


@dataclass
class Standing:
    """Two routed subnets; three guests on host one, whose agent was killed and started, and one on host two."""

    cloud: Cloud
    subnets: list[Subnet]
    nics: list[Nic]
    guests: list[Guest]
    router: State

    def lost(self) -> list[str]:
        """What the first guest does not reach, having forgotten everybody's MAC."""
        for guest in self.guests:
            guest.flush_neighbours()
        targets = {
            "same host": self.nics[1].ip,
            "routed": self.nics[2].ip,
            "other host": self.nics[3].ip,
            "gateway": self.subnets[0].gateway,
        }
        return [name for name, ip in targets.items() if not self.guests[0].can_reach(ip, within=1.0)]


@pytest.fixture
def standing(cloud: Cloud) -> Standing:
    cloud.needs("inheritance", cloud.one)
    vpc = cloud.vpc()
    subnets = [vpc.subnet("10.0.1.0/24"), vpc.subnet("10.0.2.0/24")]
    a, b = subnets
    nics = [vpc.nic(cloud.one, a), vpc.nic(cloud.one, a), vpc.nic(cloud.one, b), vpc.nic(cloud.two, a)]
    guests = cloud.guests(*nics)
    cloud.announce(vpc, router=subnets)
    made = Standing(cloud, subnets, nics, guests, router_state(f"router-of-{vpc.id}", subnets))
    assert made.lost() == []
    cloud.one.agent.kill()
    cloud.one.agent.start()
    cloud.one.agent.wait_ready()
    assert made.lost() == []
    return made


def test_subnets_come_first(cloud: Cloud, standing: Standing) -> None:
    cloud.one.push(*map(subnet_state, standing.subnets))
    assert standing.lost() == []


def test_the_router_comes_first(cloud: Cloud, standing: Standing) -> None:
    cloud.one.push(standing.router)
    assert standing.lost() == []


def test_a_port_comes_first(cloud: Cloud, standing: Standing) -> None:
    cloud.one.push(port_state(standing.nics[0]))
    assert standing.lost() == []


def test_a_neighbour_comes_first(cloud: Cloud, standing: Standing) -> None:
    cloud.one.push(neighbor_state(standing.nics[3], layer=neighbor_pb2.L3))
    assert standing.lost() == []


def test_one_of_several_ports_comes(cloud: Cloud, standing: Standing) -> None:
    cloud.one.push(*map(subnet_state, standing.subnets), standing.router, port_state(standing.nics[0]))
    assert standing.lost() == []


def test_a_port_that_changed_meanwhile_may_not_use_what_it_had(cloud: Cloud, standing: Standing) -> None:
    old, guest = standing.nics[0], standing.guests[0]
    new = old.but(addresses=((standing.subnets[0], standing.subnets[0].at(77)),))
    cloud.one.push(*map(subnet_state, standing.subnets), standing.router, port_state(new))
    assert severed(guest, standing.nics[1].ip)
    guest.remove_ip(f"{old.ip}/24")
    guest.add_ip(f"{new.ip}/24")
    guest.flush_neighbours()
    assert guest.can_reach(standing.nics[1].ip)


def test_what_is_deleted_after_a_restart_is_gone(cloud: Cloud, standing: Standing) -> None:
    """The fresh agent is told of nothing but the deletions; the fixture compares all that is left with before."""
    reply = cloud.one.forget_all()
    assert not reply.troubles
    assert set(standing.lost()) == {"same host", "routed", "other host", "gateway"}
