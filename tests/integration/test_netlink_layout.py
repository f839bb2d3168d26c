"""An agent finds the filter of another version of itself."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import grpc
import pytest

from dataplane.base import Batch, DataPlaneError, Event, Lost, Ready
from dataplane.model import Kind
from dataplane.netlink import layout
from dataplane.netlink.names import LAYOUT, layout_chain
from dataplane.netlink.plane import NetlinkDataPlane
from dataplane.netlink.settings import NetlinkSettings
from goalstate_proto import common_pb2
from tests.conformance.network import Nic, Subnet, port_state, subnet_state, v2
from tests.integration.netlink_host import OWN_ADDRESS, PORT, WHOLE, apply, netlink_host, open_plane
from tests.lab import AgentProcess, Lab, wait_until
from tests.lab.netns import Namespace

pytestmark = pytest.mark.lab

WITHIN = 20.0
SUBNET = Subnet("layout-subnet", "layout-vpc", "10.9.0.0/24", "aa:ff:00:00:09:01", 7400)
OWN = layout_chain(LAYOUT)
FAMILIES = ("netdev", "bridge")


@pytest.fixture
def host() -> Iterator[Namespace]:
    with netlink_host() as made:
        yield made


def mark(host: Namespace, number: int) -> None:
    """As if an agent of that layout had been here."""
    for family in FAMILIES:
        host.run("nft", f"delete chain {family} aca {OWN}; add chain {family} aca {layout_chain(number)}")


def ruleset(host: Namespace) -> list[str]:
    """In one order, whatever has been added when."""
    return sorted(" ".join(line.split()) for line in host.run("nft", "list", "ruleset").splitlines())


def why_not_ready(agent: AgentProcess) -> str:
    try:
        dataplane = agent.status()["dataplane"]
    except grpc.RpcError:
        # A killed one leaves its socket.
        return ""
    return "" if dataplane["ready"] else str(dataplane["reason"])


def programmed(host: Namespace) -> None:
    plane, _ = open_plane(host)
    assert apply(host, plane, WHOLE).problems == {}
    plane.close()


def test_a_newer_layout_is_left_as_it_is(host: Namespace) -> None:
    programmed(host)
    mark(host, LAYOUT + 1)
    before = ruleset(host), host.run("ip", "-o", "link"), host.run("bridge", "fdb")
    events: list[Event] = []
    told = threading.Event()
    plane = NetlinkDataPlane(NetlinkSettings(OWN_ADDRESS, namespace_prefix=f"{host.name}-"))
    host.call(lambda: plane.open(lambda event: (events.append(event), told.set())[1]))
    assert told.wait(WITHIN)
    try:
        (lost,) = events
        assert isinstance(lost, Lost)
        assert f"a newer layout {LAYOUT + 1} stands" in lost.reason and f"understands {LAYOUT}" in lost.reason
        works: list[Callable[[], object]] = [lambda: plane.apply(WHOLE), plane.check, lambda: plane.survey(())]
        for work in works:
            with pytest.raises(DataPlaneError):
                host.call(work)
        assert (ruleset(host), host.run("ip", "-o", "link"), host.run("bridge", "fdb")) == before
        mark_as_own(host)
        wait_until(lambda: any(isinstance(event, Ready) for event in events), WITHIN, "goes on")
    finally:
        plane.close()


def mark_as_own(host: Namespace) -> None:
    for family in FAMILIES:
        newer = layout_chain(LAYOUT + 1)
        host.run("nft", f"delete chain {family} aca {newer}; add chain {family} aca {OWN}")


def test_an_older_layout_gives_way_and_elements_stay(host: Namespace) -> None:
    programmed(host)
    before = ruleset(host)
    mark(host, 0)
    host.run("nft", "add chain netdev aca former { drop; }; add rule netdev aca serve jump former")
    host.run("nft", "add set bridge aca former { type ether_addr; elements = { 02:00:00:00:00:01 }; }")
    host.run("nft", "add rule bridge aca from_port ether saddr @former drop")
    # A set that was another one.
    host.run("nft", "flush chain netdev aca check; delete set netdev aca dhcp; add set netdev aca dhcp { type mark; }")
    plane, _ = open_plane(host)
    assert ruleset(host) == before
    assert apply(host, plane, WHOLE).problems == {}
    found = host.call(lambda: plane.survey(()))
    assert (found.missing, found.altered, found.leftovers) == (0, 0, [])
    assert ruleset(host) == before
    plane.close()


def test_an_older_layout_that_meant_something_else_goes_whole(
    host: Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    programmed(host)
    before = ruleset(host)
    mark(host, 0)
    monkeypatch.setattr(layout, "COMPATIBLE", frozenset())
    plane, _ = open_plane(host)
    # Nothing passes until it is said again, neither between guests nor to the host itself.
    assert host.run("nft", "list", "map", "netdev", "aca", "addresses").count("elements") == 0
    assert PORT.port.device_name in host.run("nft", "list", "set", "bridge", "aca", "ports")
    assert apply(host, plane, WHOLE).problems == {}
    assert ruleset(host) == before
    found = host.call(lambda: plane.survey(()))
    assert (found.missing, found.altered, found.leftovers) == (0, 0, [])
    assert apply(host, plane, [Batch(Kind.PORT, (), (PORT.id,))]).problems == {}
    plane.close()


def test_traffic_goes_on_through_upgrade_and_freeze(lab: Lab) -> None:
    host = lab.host("h1", dataplane="netlink")
    agent = host.agent()
    agent.wait_ready()
    nics = [
        Nic(f"1055002{number}-77aa", SUBNET.vpc_id, f"aa:bb:00:00:29:1{number}", host.underlay_ip, ((SUBNET, ip),))
        for number, ip in ((1, SUBNET.at(11)), (2, SUBNET.at(12)))
    ]
    guests = [host.guest(nic.id, mac=nic.mac, ips=(f"{nic.ip}/24",), gateway=SUBNET.gateway) for nic in nics]
    states = v2(subnet_state(SUBNET), *map(port_state, nics))
    agent.push_v2(states)
    wait_until(lambda: guests[0].can_reach(nics[1].ip), WITHIN, "they talk")
    running = guests[0].start_ping(nics[1].ip, 0.05)
    try:
        running.wait_replies(3)
        agent.kill()
        mark(host.namespace, 0)
        agent.start()
        agent.wait_ready()
        agent.push_v2(states)
        running.wait_replies(5)
        agent.kill()
        mark(host.namespace, LAYOUT + 1)
        agent.start()
        wait_until(lambda: "a newer layout" in why_not_ready(agent), WITHIN, "the agent says why it does nothing")
        (reply,) = agent.push_v2(v2(subnet_state(SUBNET)))
        assert {one.operation_status for one in reply.operation_statuses} == {common_pb2.PENDING}
        assert not agent.status()["dataplane"]["ready"]
        running.wait_replies(5)
        trace = running.stop()
    finally:
        running.kill()
    assert trace.lost == ()
