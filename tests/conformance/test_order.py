"""What a network comes to does not depend on the order in which it was told."""

from __future__ import annotations

import random

import pytest

from tests.conformance.cloud import Cloud, Site, eventually
from tests.conformance.network import (
    Nic,
    Rule,
    State,
    Subnet,
    dhcp_state,
    neighbor_state,
    port_state,
    router_state,
    subnet_state,
    v1,
    v2,
    vpc_state,
)
from tests.lab import Guest

pytestmark = pytest.mark.lab


class Village:
    """Two routed subnets with a guest on each host in each, and all that host one is told of them."""

    def __init__(self, cloud: Cloud) -> None:
        vpc = cloud.vpc()
        blue, green = vpc.subnet("10.0.1.0/24"), vpc.subnet("10.0.2.0/24")
        self.nics: list[Nic] = [vpc.nic(site, net) for site in cloud.sites for net in (blue, green)]
        self.guests: list[Guest] = cloud.guests(*self.nics)
        tables: list[Subnet | tuple[Subnet, list[Rule]]] = [
            (blue, [Rule("10.99.0.0/16", self.nics[3].ip, "r1"), Rule("0.0.0.0/0", self.nics[1].ip, "r2")]),
            green,
        ]
        common: list[State] = [subnet_state(blue), subnet_state(green), router_state(f"r-{vpc.id}", tables)]
        common += [neighbor_state(nic, layer=1) for nic in self.nics]
        cloud.two.program(*common, *(port_state(nic) for nic in self.nics[2:]))
        pairs = [("10.0.1.200", ""), ("10.0.1.201", "00:00:5e:00:01:07")]
        self.states: list[State] = [
            vpc_state(vpc.id, tunnel_id=vpc.tunnel_id),
            *common,
            port_state(self.nics[0], pairs=pairs),
            port_state(self.nics[1]),
            dhcp_state(self.nics[0]),
            dhcp_state(self.nics[1]),
        ]

    def all_reached(self) -> bool:
        return all(self.guests[0].can_reach(nic.ip) for nic in self.nics[1:])


def tell(site: Site, states: list[State], chance: random.Random) -> None:
    """In messages of any size, in either form, some of them twice."""
    site.remember(states)
    rest = list(states)
    while rest:
        size = chance.randint(1, 6)
        some, rest = rest[:size], rest[size:]
        for _ in range(chance.choice((1, 1, 2))):
            if chance.random() < 0.5:
                site.agent.push_v1(v1(*some))
            else:
                site.agent.push_v2(v2(*some))


@pytest.mark.parametrize("rounds", [4, pytest.param(40, marks=pytest.mark.long)])
def test_any_order_of_messages_gives_the_same_network(cloud: Cloud, rounds: int) -> None:
    """Shuffled, split and repeated."""
    village = Village(cloud)
    empty = cloud.one.footprint()
    cloud.one.program(*village.states)
    # What the agent notes on a device for others is not waited for by its answer.
    assert village.all_reached()
    whole = cloud.one.footprint()
    for seed in range(rounds):
        chance = random.Random(seed)
        cloud.one.forget_all()
        eventually(lambda: cloud.one.footprint() == empty, f"nothing is left before round {seed}")
        states = list(village.states)
        chance.shuffle(states)
        tell(cloud.one, states, chance)
        eventually(lambda: cloud.one.agent.status()["problems"] == [], f"all is programmed in round {seed}")
        eventually(lambda: cloud.one.footprint() == whole, f"the same stands as before in round {seed}")
        assert village.all_reached()


def test_deletions_in_any_order_leave_nothing(cloud: Cloud) -> None:
    village = Village(cloud)
    empty = cloud.one.footprint()
    for seed in range(4):
        chance = random.Random(seed)
        cloud.one.program(*village.states)
        states = list(village.states)
        chance.shuffle(states)
        for state in states:
            cloud.one.delete(state)
        eventually(lambda: cloud.one.footprint() == empty, f"nothing is left after round {seed}")
        assert cloud.one.agent.status()["problems"] == []
