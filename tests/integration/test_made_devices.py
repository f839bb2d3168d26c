"""The agent makes the devices of its ports, on either data plane, with nothing left of them afterwards."""

from __future__ import annotations

import fcntl
import os
import select
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from goalstate_proto import neighbor_pb2
from tests.conformance.frames import arp_frame
from tests.conformance.network import Nic, Subnet, deletion, port_state, subnet_state
from tests.integration.made_ports import (
    BLUE,
    FAILURE,
    GREEN,
    NETWORK,
    PENDING,
    SUCCESS,
    device_of,
    inside,
    made_agent,
    namespace_of,
    near_index,
    neighbors,
    nic,
    ports,
    reaches,
    statuses,
)
from tests.lab import Host, Lab, wait_until
from tests.lab.netns import Namespace, create_namespaces, delete_namespaces, namespaces_of
from tests.lab.ping import RunningPing

pytestmark = pytest.mark.lab

TUNSETIFF = 0x400454CA
IFF_TAP_WITHOUT_HEADER = 0x1002
ARP_REPLY = b"\x08\x06\x00\x01\x08\x00\x06\x04\x00\x02"

LATER = Subnet("made-later", "made-vpc", "10.9.16.0/24", "aa:ff:00:00:09:03", 7102)
"""Nobody tells the agent of it."""

BACKENDS = pytest.mark.parametrize("dataplane", ["netlink", "ovs"])


@contextmanager
def tap_end(host: Host, port: Nic) -> Iterator[int]:
    """What a hypervisor does with a tap: opens it to read and write frames."""

    def opened() -> int:
        fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        fcntl.ioctl(fd, TUNSETIFF, struct.pack("16sH22x", device_of(port).encode(), IFF_TAP_WITHOUT_HEADER))
        return fd

    fd = host.namespace.call(opened)
    try:
        yield fd
    finally:
        os.close(fd)


def gateway_answers(fd: int, port: Nic) -> bool:
    """Whether an ARP request for the gateway comes back answered."""
    os.write(fd, arp_frame(1, (port.mac, port.ip), ("00:00:00:00:00:00", BLUE.gateway)))
    while select.select([fd], [], [], 0.5)[0]:
        if os.read(fd, 2048)[12:22] == ARP_REPLY:
            return True
    return False


def footprint(host: Host) -> tuple[set[str], list[str]]:
    return host.devices(), namespaces_of(host.namespace.name)


@BACKENDS
def test_a_tap_is_made_works_and_goes(lab: Lab, dataplane: str) -> None:
    host = lab.host("h1", dataplane=dataplane)
    agent = made_agent(host, "tap")
    before = footprint(host)
    port = nic(host, 10)
    assert statuses(agent, subnet_state(BLUE), *ports(port)) == {SUCCESS}
    index = near_index(host, port)
    with tap_end(host, port) as fd:
        wait_until(lambda: gateway_answers(fd, port), 5.0, "the gateway answers")
    # Told again, and by a fresh agent, it is the same device.
    assert statuses(agent, *ports(port)) == {SUCCESS}
    assert agent.stop() == 0
    again = made_agent(host, "tap")
    assert statuses(again, subnet_state(BLUE), *ports(port)) == {SUCCESS}
    assert near_index(host, port) == index
    assert statuses(again, deletion(port_state(port)), deletion(subnet_state(BLUE))) == {SUCCESS}
    wait_until(lambda: footprint(host) == before, 5.0, "nothing left")
    if host.has_ovs:
        assert device_of(port) not in host.vsctl("list-ports", "br-int")


@BACKENDS
def test_containers_on_two_hosts_reach_each_other_and_go(lab: Lab, dataplane: str) -> None:
    one, two = (lab.host(name, dataplane=dataplane) for name in ("h1", "h2"))
    agents = [made_agent(host) for host in (one, two)]
    before = [footprint(host) for host in (one, two)]
    descriptors = [agent.fds for agent in agents]
    first, beside, across = nic(one, 10), nic(one, 11), nic(two, 12)
    routed, routed_across = nic(one, 13, GREEN), nic(two, 14, GREEN)
    here, there = (first, beside, routed), (across, routed_across)
    for agent, own, others in ((agents[0], here, there), (agents[1], there, here)):
        layers = [neighbor_pb2.L2 if other.subnet == BLUE else neighbor_pb2.L3 for other in others]
        known = [neighbors(other, layer=layer)[0] for other, layer in zip(others, layers, strict=True)]
        assert statuses(agent, *NETWORK, *ports(*own), *known) == {SUCCESS}
    end = inside(one, first)
    assert (end.mac, end.mtu) == (first.mac, 1450)
    assert (end.addresses, end.gateways) == (frozenset({f"{first.ip}/24"}), frozenset({BLUE.gateway}))
    for port in (beside, across, routed, routed_across):
        assert reaches(one, first, port.ip), f"{first.ip} does not reach {port.ip}"
    assert reaches(one, first, "127.0.0.1")

    gone = [
        (agents[0], [*ports(*here), *NETWORK, *neighbors(*there, layer=neighbor_pb2.L2)]),
        (agents[1], [*ports(*there), *NETWORK, *neighbors(*here, layer=neighbor_pb2.L2)]),
    ]
    for agent, states in gone:
        assert statuses(agent, *map(deletion, states)) == {SUCCESS}
    for host, agent, footing, open_before in zip((one, two), agents, before, descriptors, strict=True):
        wait_until(lambda h=host, f=footing: footprint(h) == f, 5.0, "nothing left")  # type: ignore[misc]
        wait_until(lambda a=agent, n=open_before: a.fds <= n, 5.0, "no descriptor left")  # type: ignore[misc]


@BACKENDS
def test_a_restarted_agent_takes_containers_over_without_a_lost_ping(lab: Lab, dataplane: str) -> None:
    host = lab.host("h1", dataplane=dataplane)
    agent = made_agent(host)
    one, other = nic(host, 10), nic(host, 11)
    everything = [*NETWORK, *ports(one, other)]
    assert statuses(agent, *everything) == {SUCCESS}
    assert reaches(host, one, other.ip)
    as_it_was = near_index(host, one), inside(host, one)
    running = RunningPing(namespace_of(host, one), other.ip, 0.05, host.directory / "ping.log")
    try:
        running.wait_replies(3)
        agent.kill()
        again = made_agent(host)
        assert statuses(again, *everything) == {SUCCESS}
        running.wait_replies(5)
        trace = running.stop()
    finally:
        running.kill()
    assert trace.lost == ()
    assert (near_index(host, one), inside(host, one)) == as_it_was
    assert statuses(again, *map(deletion, ports(one, other))) == {SUCCESS}
    assert device_of(one) not in host.devices() and not namespace_of(host, one).path.exists()


@BACKENDS
def test_what_changes_is_changed_in_place(lab: Lab, dataplane: str) -> None:
    host = lab.host("h1", dataplane=dataplane)
    agent = made_agent(host)
    port, other = nic(host, 10), nic(host, 11)
    assert statuses(agent, *NETWORK, *ports(port, other)) == {SUCCESS}
    before = inside(host, port)
    namespace_of(host, port).ip("addr add 192.0.2.77/32 dev eth0")
    changed = port.but(mac="aa:bb:00:00:09:99", addresses=((BLUE, BLUE.at(20)), (BLUE, BLUE.at(21))))
    assert statuses(agent, port_state(changed, revision=2)) == {SUCCESS}
    end = inside(host, port)
    assert (end.index, end.mac) == (before.index, changed.mac)
    # What somebody added in there is none of the agent's.
    assert end.addresses == {"10.9.0.20/24", "10.9.0.21/24", "192.0.2.77/32"}
    assert end.gateways == {BLUE.gateway}
    assert reaches(host, port, other.ip)

    assert agent.stop() == 0
    again = made_agent(host)
    moved = changed.but(addresses=((GREEN, GREEN.at(20)),))
    assert statuses(again, *NETWORK, port_state(moved, revision=3), *ports(other)) == {SUCCESS}
    end = inside(host, port)
    assert (end.index, end.gateways) == (before.index, frozenset({GREEN.gateway}))
    assert end.addresses == {"10.9.8.20/24", "192.0.2.77/32"}
    assert reaches(host, port, other.ip)

    assert statuses(again, port_state(moved, revision=4, up=False)) == {SUCCESS}
    assert not reaches(host, port, other.ip, within=0.5)
    assert inside(host, port) == end


@BACKENDS
def test_a_device_removed_behind_the_agents_back_is_made_again(lab: Lab, dataplane: str) -> None:
    host = lab.host("h1", dataplane=dataplane)
    agent = made_agent(host)
    port, other = nic(host, 10), nic(host, 11)
    assert statuses(agent, *NETWORK, *ports(port, other)) == {SUCCESS}
    first = near_index(host, port)
    host.run("ip", "link", "del", device_of(port))
    wait_until(lambda: device_of(port) in host.devices(), 10.0, "made again")
    # A switch in user space that finds it half-made may set it down once more.
    assert reaches(host, port, other.ip, within=10.0) and near_index(host, port) != first
    delete_namespaces([namespace_of(host, port).name])
    wait_until(lambda: namespace_of(host, port).path.exists(), 10.0, "the namespace is made again")
    assert reaches(host, port, other.ip, within=10.0)


@BACKENDS
@pytest.mark.parametrize("how", ["tap", "veth"])
def test_a_device_of_somebody_else_is_left_alone(lab: Lab, dataplane: str, how: str) -> None:
    host = lab.host("h1", dataplane=dataplane)
    port = nic(host, 10)
    name = device_of(port)
    host.run("ip", "tuntap", "add", name, "mode", "tap")
    agent = made_agent(host, how)
    before = footprint(host)
    assert FAILURE in statuses(agent, subnet_state(BLUE), *ports(port))
    (problem,) = agent.status()["problems"]
    assert name in problem["reason"] and "not ours" in problem["reason"]
    assert namespaces_of(host.namespace.name) == before[1]
    # It is tried again by itself.
    host.run("ip", "link", "del", name)
    wait: Callable[[], bool] = lambda: not agent.status()["problems_total"]  # noqa: E731
    wait_until(wait, 30.0, "made once the name is free")
    assert name in host.devices()

    # And what is somebody else's stays when the port goes.
    assert statuses(agent, deletion(port_state(port))) == {SUCCESS}
    host.run("ip", "tuntap", "add", name, "mode", "tap")
    assert statuses(agent, deletion(port_state(port))) == {SUCCESS}
    assert name in host.devices()


@BACKENDS
def test_what_was_made_for_ports_that_nobody_wants_any_more_is_swept(lab: Lab, dataplane: str) -> None:
    host = lab.host("h1", dataplane=dataplane)
    agent = made_agent(host)
    kept, gone, lost, waiting = (nic(host, number) for number in (10, 11, 12, 13))
    assert statuses(agent, *NETWORK, *ports(kept, gone, lost, waiting)) == {SUCCESS}
    agent.kill()
    # Of one nothing is left but its namespace.
    host.run("ip", "link", "del", device_of(lost))
    if host.has_ovs:
        # And one is on no bridge.
        host.vsctl("del-port", "br-int", device_of(gone))
    foreign = Namespace(f"{host.namespace.name}-p-foreign")
    create_namespaces([foreign.name])
    try:
        again = made_agent(host)
        assert statuses(again, *NETWORK, *ports(kept)) == {SUCCESS}
        as_it_was = near_index(host, kept), inside(host, kept)
        # Its subnet is not known yet.
        unknown = port_state(waiting.but(addresses=((LATER, LATER.at(13)),)))
        assert statuses(again, unknown) == {PENDING}
        names = again.reconcile("LOOK")["leftovers"]
        assert any(gone.id in name for name in names), names
        again.reconcile("FORCE")
        for port in (gone, lost):
            assert device_of(port) not in host.devices()
            assert not namespace_of(host, port).path.exists()
        assert device_of(waiting) in host.devices() and namespace_of(host, waiting).path.exists()
        assert foreign.path.exists()
        assert (near_index(host, kept), inside(host, kept)) == as_it_was
        assert again.reconcile("FORCE")["removed"] == 0
    finally:
        delete_namespaces([foreign.name])
