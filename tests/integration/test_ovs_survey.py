"""What stands on a real switch, compared with what was programmed: found, put back, swept; others' flows stay."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from dataplane.base import Drifted, Leftover, Survey
from dataplane.model import Key, Kind
from tests.conformance.network import (
    Nic,
    Rule,
    State,
    Subnet,
    deletion,
    dhcp_state,
    neighbor_state,
    port_state,
    router_state,
    subnet_state,
)
from tests.integration.driven_ovs import WAIT_S, Driven, driven
from tests.lab import Guest, Host, Lab, wait_until

pytestmark = pytest.mark.lab

VPC = "survey-vpc"
QUAY = Subnet("survey-quay", VPC, "10.8.1.0/24", "aa:ff:00:00:08:01", 7300)
DOCK = Subnet("survey-dock", VPC, "10.8.2.0/24", "aa:ff:00:00:08:02", 7300)
REMOTE_HOST = "172.16.0.77"
PAIRS = [("10.8.1.64/26", ""), ("10.8.1.3", "00:00:5e:00:01:01")]
FOREIGN = "cookie=0xb0b,table=60,priority=7,udp,tp_dst=5353 actions=drop"
FOREIGN_ZERO = "table=51,priority=3,tcp,tp_dst=23 actions=drop"


@dataclass
class World:
    """Two routed subnets, two guests and two remote neighbours, programmed; and what somebody else has put there."""

    host: Host
    agent: Driven
    nics: list[Nic]
    remote: list[Nic]
    guests: list[Guest]

    def states(self) -> list[State]:
        return [
            *self.subnets(),
            port_state(self.nics[0], pairs=PAIRS),
            port_state(self.nics[1]),
            dhcp_state(self.nics[0]),
            *(neighbor_state(nic) for nic in self.remote),
        ]

    def subnets(self) -> list[State]:
        rules = [Rule("0.0.0.0/0", self.remote[0].ip), Rule("192.0.2.0/24", self.nics[0].ip)]
        return [subnet_state(QUAY), subnet_state(DOCK), router_state("survey-router", [(QUAY, rules), DOCK])]

    def flows(self) -> list[str]:
        return self.host.flows(cookies=True)

    def survey(self, *unsettled: Key) -> Survey:
        return self.agent.plane.survey(frozenset(unsettled))

    def put_foreign(self) -> None:
        self.host.ofctl("add-flow", "br-int", FOREIGN)
        self.host.ofctl("add-flow", "br-int", FOREIGN_ZERO)

    def has_foreign(self) -> bool:
        flows = self.flows()
        return all(any(text.split(" ")[0].split(",")[-1] in flow for flow in flows) for text in (FOREIGN, FOREIGN_ZERO))


@pytest.fixture
def world(lab: Lab) -> Iterator[World]:
    host = lab.host("h1")
    with driven(host) as agent:
        nics = [
            Nic("5e000001-9c1", VPC, "aa:bb:00:00:08:0a", host.underlay_ip, ((QUAY, "10.8.1.10"),)),
            Nic("5e000002-9c1", VPC, "aa:bb:00:00:08:0b", host.underlay_ip, ((DOCK, "10.8.2.10"), (QUAY, "10.8.1.11"))),
        ]
        remote = [
            Nic("5e0000f1-9c1", VPC, "aa:bb:00:00:08:f1", REMOTE_HOST, ((QUAY, "10.8.1.201"),)),
            Nic("5e0000f2-9c1", VPC, "aa:bb:00:00:08:f2", REMOTE_HOST, ((DOCK, "10.8.2.202"), (QUAY, "10.8.1.202"))),
        ]
        guests = [
            host.guest(nic.id, mac=nic.mac, ips=(f"{nic.ip}/24",), gateway=nic.subnet.gateway) for nic in nics
        ]
        made = World(host, agent, nics, remote, guests)
        agent.push(*made.states())
        agent.wait_settled()
        assert guests[0].can_reach(nics[1].ip)
        yield made


def nothing_wrong(found: Survey) -> bool:
    return not (found.missing or found.altered or found.again)


def names(leftovers: Survey) -> list[str]:
    return [one.name for one in leftovers.leftovers]


def test_what_stands_is_what_was_programmed(world: World) -> None:
    """Byte for byte, for flows of every kind: nothing is repaired that is not broken."""
    found = world.survey()
    assert nothing_wrong(found) and not found.leftovers
    assert found.standing == len(world.flows())
    assert nothing_wrong(world.agent.plane.check())


def test_half_of_the_flows_deleted_by_hand_come_back(world: World) -> None:
    world.put_foreign()
    before = world.flows()
    for table in (0, 20, 40, 50, 52, 60, 65, 80):
        world.host.ofctl("del-flows", "br-int", f"table={table}")
    world.put_foreign()
    wait_until(lambda: world.flows() == before, 10.0, "all flows are back")
    assert world.guests[0].can_reach(world.nics[1].ip)


def test_all_flows_deleted_by_hand_come_back(world: World) -> None:
    before = world.flows()
    world.host.ofctl("del-flows", "br-int")
    wait_until(lambda: world.flows() == before, 10.0, "all flows are back")
    assert world.guests[0].can_reach(world.nics[1].ip)


def test_flows_altered_by_hand_are_put_right(world: World) -> None:
    before = world.flows()
    for table in (10, 51, 60, 65, 66, 80):
        world.host.ofctl("mod-flows", "br-int", f"table={table},actions=drop")
    wait_until(lambda: world.flows() == before, 10.0, "all flows are as they were")
    assert world.guests[0].can_reach(world.nics[1].ip)


def test_a_flow_replaced_by_somebody_elses_is_found_by_a_check(world: World) -> None:
    """The switch tells of no replacement: counting our flows does."""
    before = world.flows()
    victim = next(flow for flow in before if "table=80" in flow and "priority=200" in flow)
    match = victim.split(" actions=")[0].replace(", ", ",").partition(",")[2]
    world.host.ofctl("add-flow", "br-int", f"cookie=0x5,{match} actions=drop")
    found = world.agent.plane.check()
    assert found.missing == 1
    assert world.flows() == before


def test_checks_find_what_was_altered_without_a_word(world: World) -> None:
    """An addition with our own cookie over our own flow: only reading back shows it, some checks later."""
    before = world.flows()
    victim = next(flow for flow in before if "table=51" in flow and world.remote[0].mac in flow)
    world.host.ofctl("add-flow", "br-int", victim.replace(", ", ",").partition(" actions=")[0] + " actions=drop")
    assert world.flows() != before
    found = [world.agent.plane.check() for _ in range(3)]
    (told,) = [one for one in found if one.altered]
    assert told.again == {Key(Kind.NEIGHBOR, world.remote[0].id)}
    assert world.remote[0].id in told.examples[0] and "altered" in told.examples[0]
    world.agent.plane.tell(Drifted(told.again))
    wait_until(lambda: world.flows() == before, WAIT_S, "put right")


def test_a_fresh_agent_sweeps_what_nobody_wants(world: World) -> None:
    """What an earlier agent programmed and nobody has told the fresh one of goes; the rest and foreign flows stay."""
    world.put_foreign()
    world.agent.engine.close(5.0)
    gone = {world.nics[1].id, world.remote[1].id}
    with driven(world.host) as fresh:
        world.agent = fresh
        fresh.push(*(state for state in world.states() if state.configuration.id not in gone))
        fresh.wait_settled()
        found = world.survey()
        assert nothing_wrong(found)
        assert any("port" in name for name in names(found)) and any("neighbor" in name for name in names(found))
        assert fresh.plane.sweep(found.leftovers) == len(found.leftovers)
        assert not world.survey().leftovers and nothing_wrong(world.survey())
        swept = world.flows()
        assert world.has_foreign()
        assert world.guests[0].can_reach(QUAY.gateway)
        assert not any(world.remote[1].mac in flow for flow in swept)
        # A third agent that is told the same finds nothing to do.
    with driven(world.host) as third:
        world.agent = third
        third.push(*(state for state in world.states() if state.configuration.id not in gone))
        third.wait_settled()
        assert not world.survey().leftovers
        assert world.flows() == swept


def test_what_is_not_settled_is_no_leftover(world: World) -> None:
    world.agent.engine.close(5.0)
    waiting = world.nics[0]
    with driven(world.host) as fresh:
        world.agent = fresh
        fresh.push(*(state for state in world.states() if state.configuration.id != waiting.id))
        assert any("port" in name for name in names(world.survey()))
        found = world.survey(Key(Kind.PORT, waiting.id), Key(Kind.ROUTER, "survey-router"))
        assert nothing_wrong(found) and not found.leftovers
        fresh.plane.sweep(found.leftovers)
        assert world.guests[0].can_reach(QUAY.gateway), "the port that is not settled is served on"
        fresh.plane.sweep(world.survey(Key(Kind.ROUTER, "survey-router")).leftovers)
        assert world.guests[0].cannot_reach(QUAY.gateway)


def test_a_leftover_that_is_wanted_after_all_is_not_swept(world: World) -> None:
    world.agent.engine.close(5.0)
    with driven(world.host) as fresh:
        world.agent = fresh
        fresh.push(*world.subnets())
        leftovers = world.survey().leftovers
        fresh.push(*world.states())
        fresh.wait_settled()
        before = world.flows()
        fresh.plane.sweep(leftovers)
        assert world.flows() == before
        assert world.guests[0].can_reach(world.nics[1].ip)


def test_what_is_deleted_through_the_agent_is_no_drift(world: World) -> None:
    world.agent.plane.events.clear()
    world.agent.push(*(deletion(neighbor_state(nic)) for nic in world.remote))
    world.agent.push(port_state(world.nics[0]))
    assert nothing_wrong(world.survey())
    assert not [event for event in world.agent.plane.events if isinstance(event, Drifted)]


def test_tunnels_and_marks_that_nobody_wants_any_more(world: World) -> None:
    host = world.host
    host.vsctl("add-port", "br-int", "tap5eeeeeeeee", "--", "set", "interface", "tap5eeeeeeeee", "type=internal")
    ids = ("external_ids:iface-id=5eeeeeeeeee", "external_ids:aca-installed=true")
    host.vsctl("set", "interface", "tap5eeeeeeeee", *ids)
    wait_until(lambda: any("tap5eeeeeeeee" in name for name in names(world.survey())), WAIT_S, "the mark is found")
    found = world.survey()
    world.agent.plane.sweep(found.leftovers)
    wait_until(lambda: not world.survey().leftovers, WAIT_S, "the mark is gone")
    assert "aca-installed" not in host.vsctl("get", "interface", "tap5eeeeeeeee", "external_ids")


def test_a_handle_of_something_else_is_not_touched(world: World) -> None:
    before = world.flows()
    assert world.agent.plane.sweep([Leftover("a thing of another backend", ("nft", "table"))]) == 0
    assert world.flows() == before


def former(flow: str) -> str:
    """A flow as version 1 of the pipeline marked it, for ovs-ofctl."""
    return flow.replace(", ", ",").replace("cookie=0xa2", "cookie=0x00", 1).replace(" actions=", ",actions=")


def test_an_older_pipeline_is_taken_over_and_swept(world: World) -> None:
    """Every flow is marked anew in its place; what is left of the old is swept when all that is wanted is known."""
    host = world.host
    world.agent.engine.close(5.0)
    world.put_foreign()
    ours = [flow for flow in world.flows() if "cookie=0xa2" in flow]
    host.ofctl("--bundle", "add-flows", "br-int", "-", stdin="\n".join(map(former, ours)) + "\n")
    stale = "cookie=0x40000000abcde,table=51,priority=100,dl_dst=aa:00:00:00:00:01 actions=drop"
    host.ofctl("add-flow", "br-int", stale)
    host.vsctl("remove", "bridge", "br-int", "external_ids", "aca-pipeline")
    assert not any("cookie=0xa2" in flow for flow in world.flows())
    with driven(host) as fresh:
        world.agent = fresh
        assert world.guests[0].can_reach(world.nics[1].ip), "what the older agent programmed serves on"
        fresh.push(*world.states())
        fresh.wait_settled()
        found = world.survey()
        assert len(found.leftovers) == 1 and nothing_wrong(found)
        fresh.plane.sweep(found.leftovers)
        assert {flow for flow in world.flows() if "cookie=0xa2" in flow} == set(ours)
        assert len(world.flows()) == len(ours) + 2 and world.has_foreign()
        ids = "external_ids:aca-pipeline-former"
        wait_until(lambda: not host.vsctl("--if-exists", "get", "bridge", "br-int", ids).strip(), WAIT_S, "forgotten")
        assert world.guests[0].can_reach(world.nics[1].ip)


def test_a_newer_pipeline_is_left_as_it_is(world: World) -> None:
    world.agent.engine.close(5.0)
    world.host.vsctl("set", "bridge", "br-int", "external_ids:aca-pipeline=99")
    before = world.flows()
    frozen = Driven(world.host)
    frozen.engine.start()
    try:
        wait_until(lambda: "99" in frozen.status()["dataplane"]["reason"], WAIT_S, "the agent says that it is too old")
        frozen.push(*(deletion(neighbor_state(nic)) for nic in world.remote))
        assert not frozen.engine.ready
    finally:
        frozen.engine.close(5.0)
    assert world.flows() == before
    assert world.guests[0].can_reach(world.nics[1].ip)
