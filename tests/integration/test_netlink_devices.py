"""Devices that the agent makes: names that are taken, what is removed behind its back, what the kernel refuses."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dataplane.addresses import parse_address, parse_prefix
from dataplane.devices.maker import Ensured, PortDevices
from dataplane.devices.settings import DeviceSettings, MakeDevices
from dataplane.model import FixedIp, NetworkType, Port, PortWanted, Segment, Subnet, SubnetRef, SubnetWanted
from tests.conformance.network import deletion, port_state, subnet_state
from tests.integration.made_ports import (
    BLUE,
    FAILURE,
    NETWORK,
    SUCCESS,
    device_of,
    inside,
    made_agent,
    namespace_of,
    near_index,
    nic,
    ports,
    reaches,
    statuses,
)
from tests.lab import Lab, wait_until
from tests.lab.netns import Namespace, create_namespaces, delete_namespaces, namespaces_of

pytestmark = pytest.mark.lab

ROUNDS = 30


# -- with an agent


def test_ids_that_share_eleven_characters_both_get_a_device(lab: Lab) -> None:
    host = lab.host("h1", dataplane="netlink")
    agent = made_agent(host)
    before = host.devices()
    one, other = (nic(host, number, name=f"same-eleven-{number}") for number in (10, 11))
    assert device_of(one) == device_of(other)
    assert statuses(agent, *NETWORK, *ports(one, other)) == {SUCCESS}
    assert reaches(host, one, other.ip)
    # A fresh agent that hears of the second one first does not mix them up.
    assert agent.stop() == 0
    again = made_agent(host)
    assert statuses(again, *NETWORK, *ports(other)) == {SUCCESS}
    assert statuses(again, *ports(one)) == {SUCCESS}
    assert reaches(host, one, other.ip)
    assert statuses(again, deletion(port_state(one))) == {SUCCESS}
    assert not namespace_of(host, one).path.exists() and namespace_of(host, other).path.exists()
    assert statuses(again, *map(deletion, [*ports(other), *NETWORK])) == {SUCCESS}
    wait_until(lambda: host.devices() == before, 5.0, "no device left")


def test_a_namespace_of_somebody_else_is_left_alone(lab: Lab) -> None:
    host = lab.host("h1", dataplane="netlink")
    agent = made_agent(host)
    port = nic(host, 10)
    foreign = namespace_of(host, port)
    create_namespaces([foreign.name])
    before = host.devices()
    assert FAILURE in statuses(agent, subnet_state(BLUE), *ports(port))
    (problem,) = agent.status()["problems"]
    assert foreign.name in problem["reason"] and "not ours" in problem["reason"]
    assert device_of(port) not in host.devices()
    assert statuses(agent, deletion(port_state(port)), deletion(subnet_state(BLUE))) == {SUCCESS}
    assert foreign.run("ip", "-o", "link").count("\n") == 1
    wait_until(lambda: host.devices() <= before, 5.0, "nothing made")


def test_a_device_that_is_renamed_stays_the_ports(lab: Lab) -> None:
    host = lab.host("h1", dataplane="netlink")
    agent = made_agent(host)
    port, other = nic(host, 10), nic(host, 11)
    assert statuses(agent, *NETWORK, *ports(port, other)) == {SUCCESS}
    index = near_index(host, port)
    host.run("ip", "link", "set", device_of(port), "name", "renamed")
    wait_until(lambda: not agent.status()["problems_total"], 5.0, "wired again")
    assert reaches(host, port, other.ip)
    assert f"{index}: renamed" in host.run("ip", "-o", "link")
    assert device_of(port) not in host.devices()
    assert statuses(agent, deletion(port_state(port))) == {SUCCESS}
    assert "renamed" not in host.devices()


def test_a_half_made_port_is_completed_by_the_next_agent(lab: Lab) -> None:
    host = lab.host("h1", dataplane="netlink")
    port, other, third = nic(host, 10), nic(host, 11), nic(host, 12)
    # What is there if a machine or an agent stops between two steps: a marked namespace without a pair, one whose
    # pair has no alias yet, and a file that no namespace is mounted on.
    marked, paired = create_namespaces([namespace_of(host, port).name, namespace_of(host, other).name])
    marked.ip(f"link set lo alias aca-port:{port.id}")
    paired.ip(f"link set lo alias aca-port:{other.id}")
    host.namespace.ip(f"link add {device_of(other)} type veth peer name eth0 netns {paired.name}")
    namespace_of(host, third).path.touch()
    index = near_index(host, other)
    agent = made_agent(host)
    assert statuses(agent, *NETWORK, *ports(port, other, third)) == {SUCCESS}
    assert near_index(host, other) == index
    for one in (other, third):
        assert reaches(host, port, one.ip)
    assert inside(host, other).mac == other.mac
    assert statuses(agent, *map(deletion, ports(port, other, third))) == {SUCCESS}
    assert namespaces_of(f"{host.namespace.name}-p") == []


# -- by itself


def subnet(gateway: str) -> SubnetWanted:
    cidr, address = parse_prefix("10.0.1.0/24"), parse_address(gateway)
    made = Subnet("blue", 1, "vpc", "", None, 4097, cidr, address, bytes(6), False, (), (), "")
    return SubnetWanted(made, SubnetRef("blue", Segment(NetworkType.VXLAN, 4097)))


def port(number: int, subnet: SubnetWanted) -> PortWanted:
    own = FixedIp("blue", parse_address(f"10.0.1.{number}"))
    mac = bytes((0xAA, 0xBB, 0, 0, 0, number))
    made = Port(f"{number:011d}-port", 1, "vpc", "", "vm", "compute", mac, True, (own,), (), ())
    return PortWanted(made, (subnet,), (own,), frozenset({"blue"}))


@pytest.fixture
def host() -> Iterator[Namespace]:
    (made,) = create_namespaces([f"acamade-{uuid.uuid4().hex[:8]}"])
    yield made
    delete_namespaces([*namespaces_of(made.name), made.name])


def devices_for(host: Namespace) -> PortDevices:
    return PortDevices(DeviceSettings(MakeDevices.VETH, namespace_prefix=f"{host.name}-"))


def traces(host: Namespace) -> tuple[int, list[str]]:
    return len(host.run("ip", "-o", "link").splitlines()), namespaces_of(host.name)


def namespaces_open() -> int:
    count = 0
    for one in Path("/proc/self/fd").iterdir():
        try:
            count += "net:[" in str(one.readlink())
        except OSError:  # closed since it was listed
            continue
    return count


def ensure(host: Namespace, devices: PortDevices, *wanted: PortWanted) -> Ensured:
    return host.call(lambda: devices.ensure(wanted))


def test_what_the_kernel_refuses_leaves_nothing_half_made(host: Namespace) -> None:
    devices = devices_for(host)
    before, opened = traces(host), namespaces_open()
    bad, good = port(1, subnet("224.0.0.5")), port(2, subnet("10.0.1.1"))
    made, problems = ensure(host, devices, bad, good)
    assert list(made) == [good.id] and list(problems) == [bad.id]
    assert "224.0.0.5" in problems[bad.id] and "nvalid" in problems[bad.id]
    assert traces(host) == (before[0] + 1, [f"{host.name}-{good.id}"])
    # A change that is refused is tried again, and what there was stays meanwhile.
    made, problems = ensure(host, devices, replace(good, subnets=bad.subnets))
    assert list(made) == list(problems) == [good.id]
    assert ensure(host, devices, good).problems == {}
    assert ensure(host, devices, replace(bad, subnets=good.subnets)).problems == {}
    assert host.call(lambda: devices.remove([bad.id, good.id])) == {}
    assert traces(host) == before
    assert namespaces_open() <= opened


def test_rounds_of_making_and_removing_leave_nothing(host: Namespace) -> None:
    devices = devices_for(host)
    before, opened = traces(host), namespaces_open()
    wanted = [port(number, subnet("10.0.1.1")) for number in range(2, 8)]
    for _ in range(ROUNDS):
        assert len(ensure(host, devices, *wanted).made) == len(wanted)
        assert host.call(lambda: devices.remove([one.id for one in wanted])) == {}
        assert traces(host) == before
    assert namespaces_open() <= opened


def test_what_stands_is_known_to_a_fresh_agent_and_can_be_removed(host: Namespace) -> None:
    host.ip("link add leg type veth peer name other", "link set leg alias aca:subnet")
    before = traces(host)
    wanted = [port(number, subnet("10.0.1.1")) for number in (2, 3)]
    ensure(host, devices_for(host), *wanted)
    fresh = devices_for(host)
    standing = host.call(fresh.standing)
    assert standing == {one.id for one in wanted}
    assert host.call(lambda: fresh.remove([*standing, "subnet", "nobody"])) == {}
    assert host.call(fresh.standing) == frozenset()
    assert traces(host) == before


def test_what_is_so_already_is_not_touched(host: Namespace) -> None:
    devices = devices_for(host)
    one = port(2, subnet("10.0.1.1"))
    made = ensure(host, devices, one).made[one.id]
    assert made.fresh
    again = ensure(host, devices, one).made[one.id]
    taken_over = ensure(host, devices_for(host), one).made[one.id]
    assert (again, taken_over) == (made._replace(fresh=False), made._replace(fresh=False))


def test_namespaces_that_are_kept_ready_are_taken_made_again_and_gone_in_the_end(host: Namespace) -> None:
    devices = devices_for(host)
    before, opened = traces(host), namespaces_open()
    host.call(devices.open)
    ready = namespaces_open()
    assert ready > opened and traces(host) == before
    blue = subnet("10.0.1.1")
    # More at once than are ready.
    wanted = [port(number, blue) for number in range(2, 7)]
    assert ensure(host, devices, *wanted).problems == {}
    for one in wanted:
        inside = Namespace(f"{host.name}-{one.id}")
        assert f"aca-port:{one.id}" in inside.run("ip", "link", "show", "lo")
        assert "UP" in inside.run("ip", "link", "show", "lo") and "10.0.1." in inside.run("ip", "addr", "show", "eth0")
    wait_until(lambda: namespaces_open() == ready, 5.0, "as many are ready again")
    assert host.call(lambda: devices.remove([one.id for one in wanted])) == {}
    devices.close()
    assert namespaces_open() == opened
    # Without any that is ready one is made.
    assert ensure(host, devices, wanted[0]).problems == {}
    assert host.call(lambda: devices.remove([wanted[0].id])) == {}
    assert traces(host) == before
