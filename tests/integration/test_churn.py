"""What many rounds and many clients must not do: leave anything behind, or leave anything wrong."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence

import pytest

from goalstate_proto import common_pb2
from tests.conformance.backends import OvsBackend
from tests.conformance.network import (
    Nic,
    State,
    Subnet,
    deletion,
    dhcp_state,
    neighbor_state,
    port_state,
    router_state,
    subnet_state,
    v2,
)
from tests.lab import AgentProcess, GuestSpec, Host, Lab, wait_until

pytestmark = pytest.mark.lab

PORTS, NEIGHBORS = 4, 30


def _subnets(vpc_id: str, tunnel_id: int) -> list[Subnet]:
    return [
        Subnet(f"{vpc_id}-{number}", vpc_id, f"10.{number}.0.0/16", f"aa:ff:00:00:00:0{number}", tunnel_id)
        for number in (1, 2)
    ]


def _nic(name: str, subnet: Subnet, number: int, host_ip: str) -> Nic:
    mac = (0xAABB_0000_0000 + (int(subnet.cidr.split(".")[1]) << 24) + number).to_bytes(6, "big").hex(":")
    return Nic(name, subnet.vpc_id, mac, host_ip, ((subnet, subnet.at(number)),))


def _round(host: Host, subnets: Sequence[Subnet]) -> list[State]:
    ports = [
        _nic(f"churn-{number:05d}-port", subnets[number % 2], 100 + number, host.underlay_ip) for number in range(PORTS)
    ]
    neighbors = [
        _nic(f"churn-{number}-neighbor", subnets[number % 2], 1000 + number, f"172.16.0.{50 + number % 5}")
        for number in range(NEIGHBORS)
    ]
    return [
        *map(subnet_state, subnets),
        router_state("churn-router", subnets, update_type=common_pb2.FULL),
        *map(port_state, ports),
        *map(dhcp_state, ports),
        *map(neighbor_state, neighbors),
    ]


def _push(agent: AgentProcess, states: Sequence[State]) -> None:
    (reply,) = agent.push_v2(v2(*states))
    wrong = [one for one in reply.operation_statuses if one.operation_status != common_pb2.SUCCESS]
    assert not wrong


@pytest.mark.parametrize("rounds", [100, pytest.param(1000, marks=[pytest.mark.long, pytest.mark.timeout(900)])])
def test_rounds_of_create_and_delete_leave_nothing(lab: Lab, rounds: int) -> None:
    host = lab.host("h1")
    agent = host.agent()
    agent.wait_ready()
    subnets = _subnets("churn-vpc", 7000)
    states = _round(host, subnets)
    specs = [
        GuestSpec(state.configuration.id, state.configuration.mac_address, (), None, 1450)
        for state in states
        if state.DESCRIPTOR.name == "PortState"
    ]
    host.guests(specs)
    deletions = [deletion(state) for state in reversed(states)]

    def go(count: int) -> None:
        for _ in range(count):
            _push(agent, states)
            _push(agent, deletions)

    # Allocators reach their level only after as many rounds again.
    go(rounds)
    backend = OvsBackend()
    before = backend.footprint(host), agent.threads
    fds, memory = agent.fds, agent.rss_bytes
    go(rounds)
    wait_until(lambda: (backend.footprint(host), agent.threads) == before, 10.0, "as before the rounds")
    assert agent.fds <= fds
    # Rounds by the hundred that each kept one neighbour or port would show as megabytes.
    assert agent.rss_bytes < memory + 4_000_000
    resources = agent.status()["resources"]
    assert not any(count["desired"] for count in resources.values())


def _together(jobs: Sequence[Callable[[], None]]) -> None:
    """Run them at once; raises the first of their errors."""
    errors: list[BaseException] = []

    def guarded(job: Callable[[], None]) -> None:
        try:
            job()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60.0)
    assert not any(thread.is_alive() for thread in threads)
    if errors:
        raise errors[0]


def test_clients_with_conflicting_revisions_end_at_the_highest(lab: Lab) -> None:
    """Eight clients, 200 resources, each client every revision in an order of its own: flows as of a fresh agent that
    was told the highest ones alone."""
    one, two = lab.host("h1"), lab.host("h2")
    agents = one.agent(), two.agent()
    for agent in agents:
        agent.wait_ready()
    subnets = _subnets("war-vpc", 7001)
    base = [*map(subnet_state, subnets), router_state("war-router", subnets, update_type=common_pb2.FULL)]
    for agent in agents:
        _push(agent, base)
    last = 8

    def neighbor(number: int, revision: int) -> State:
        # The revision decides host, address and MAC; every tenth is deleted by its last revision.
        subnet = subnets[(number + revision) % 2]
        nic = _nic(f"war-{number}", subnet, 256 * number + revision, f"172.16.0.{100 + revision}")
        state = neighbor_state(nic, revision=revision)
        return deletion(state, revision=revision) if number % 10 == 0 and revision == last else state

    def client(seed: int) -> Callable[[], None]:
        shuffled = [(number, revision) for number in range(200) for revision in range(1, last + 1)]
        random.Random(seed).shuffle(shuffled)

        def push() -> None:
            for start in range(0, len(shuffled), 50):
                part: dict[str, State] = {}
                for number, revision in shuffled[start : start + 50]:
                    part[f"war-{number}"] = neighbor(number, revision)
                (reply,) = agents[0].push_v2(v2(*part.values()))
                statuses = {one.operation_status for one in reply.operation_statuses}
                assert statuses <= {common_pb2.SUCCESS, common_pb2.OUT_OF_ORDER}

        return push

    _together([client(seed) for seed in range(8)])
    _push(agents[1], [neighbor(number, last) for number in range(200)])
    wait_until(lambda: agents[0].status()["in_work"] == 0, 10.0, "no work left")
    assert one.flows(cookies=True) == two.flows(cookies=True)


def test_a_message_of_a_hundred_megabytes(lab: Lab) -> None:
    """One message that holds a lot of nonsense and one good subnet: the nonsense is refused, the rest is applied."""
    host = lab.host("h1")
    agent = host.agent()
    agent.wait_ready()
    (subnet, _) = _subnets("big-vpc", 7002)
    message = v2(subnet_state(subnet))
    junk = "x" * 1_000_000
    for number in range(100):
        configuration = message.security_group_states[f"junk-{number}"].configuration
        configuration.id = f"junk-{number}"
        configuration.name = junk
        configuration.security_group_rules.add(id="rule", remote_ip_prefix="nowhere")
    (reply,) = agent.push_v2(message)
    by_id = {one.resource_id: one.operation_status for one in reply.operation_statuses}
    assert by_id.pop(subnet.id) == common_pb2.SUCCESS
    assert set(by_id.values()) == {common_pb2.INVALID_ARG}
    assert len(by_id) == 100
    assert agent.running


def test_a_port_in_hundreds_of_subnets_hurts_nobody_else(lab: Lab) -> None:
    """What is too much for one flow is divided; nothing is called a success that does not stand."""
    host = lab.host("h1")
    agent = host.agent()
    agent.wait_ready()
    subnets = [
        Subnet(f"s{i}", "v", f"10.{i // 250}.{i % 250}.0/24", f"aa:ff:00:00:{i >> 8:02x}:{i & 255:02x}", 7003)
        for i in range(700)
    ]
    many = Nic("00000-port", "v", "aa:bc:00:00:00:01", host.underlay_ip, tuple((s, s.at(9)) for s in subnets))
    other = _nic("00001-port", subnets[0], 10, host.underlay_ip)
    far = _nic("far", subnets[0], 11, "172.16.0.9")
    host.guests([GuestSpec(one.id, one.mac, (), None, 1450) for one in (many, other)])
    _push(agent, [subnet_state(one) for one in subnets])
    agent.push_v2(v2(port_state(many), port_state(other), neighbor_state(far)))
    wait_until(lambda: not agent.status()["problems"], 10.0, "nothing is wrong")
    flows = host.flows()
    assert any(far.mac in flow for flow in flows) and any(other.mac in flow for flow in flows)
    assert sum("table=64" in flow for flow in flows) == 4
