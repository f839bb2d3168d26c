"""The host's own tunnel address changes under traffic: tunnels follow it, and the controller is told."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from dataplane.addresses import parse_address
from dataplane.base import DataPlaneError, Drifted
from dataplane.kernel import rtnl
from dataplane.netlink.geneve import why_no_geneve
from goalstate_proto import common_pb2
from tests.conformance.network import Nic, Subnet, neighbor_state, port_state, subnet_state, v2
from tests.integration.netlink_host import WHOLE, apply, netlink_host, open_plane
from tests.lab import AgentProcess, Guest, Host, Lab, wait_until
from tests.lab.controller import Controller, promise
from tests.lab.netns import Namespace

pytestmark = pytest.mark.lab

SUBNET = Subnet("moving-subnet", "moving-vpc", "10.9.0.0/24", "aa:ff:00:00:09:01", 7300)
MOVED = "172.16.0.201"
BACK_S = 2.0
"""How long traffic may be away, and by far more than it is."""


@dataclass
class Pair:
    """Two hosts with a guest each, which talk; the first host's agent follows an interface."""

    one: Host
    two: Host
    agents: tuple[AgentProcess, AgentProcess]
    nics: tuple[Nic, Nic]
    guests: tuple[Guest, Guest]
    interface: str

    def move(self) -> None:
        before = self.one.underlay_ip
        self.one.namespace.ip(f"addr del {before}/24 dev {self.interface}", f"addr add {MOVED}/24 dev {self.interface}")
        if self.two.has_ovs:
            self.two.appctl("tnl/neigh/set", "br-phy", MOVED, self.one.underlay_mac)

    def tell_the_other(self) -> None:
        """That the first host has moved."""
        self.agents[1].push_v2(v2(neighbor_state(self.nics[0].but(host_ip=MOVED), revision=2)))


def pair(lab: Lab, dataplane: str, network_type: int, controller: Controller) -> Pair:
    one, two = (lab.host(name, dataplane=dataplane) for name in ("h1", "h2"))
    interface = "br-phy" if one.has_ovs else "uplink"
    replays = {"controller": {"addresses": [controller.target]}, "host": {"tunnel_interface": interface}}
    agents = one.agent(replays), two.agent()
    here, there = (
        Nic(f"1055001{number}-77aa", SUBNET.vpc_id, f"aa:bb:00:00:19:1{number}", host.underlay_ip, ((SUBNET, ip),))
        for number, host, ip in ((1, one, SUBNET.at(21)), (2, two, SUBNET.at(22)))
    )
    subnet = subnet_state(SUBNET)
    subnet.configuration.network_type = network_type  # type: ignore[assignment]
    guests = []
    for host, agent, own, other in ((one, agents[0], here, there), (two, agents[1], there, here)):
        agent.wait_ready()
        guests.append(host.guest(own.id, mac=own.mac, ips=(f"{own.ip}/24",), gateway=SUBNET.gateway))
        agent.push_v2(v2(subnet, port_state(own), neighbor_state(other)))
    return Pair(one, two, agents, (here, there), (guests[0], guests[1]), interface)


@pytest.fixture
def host() -> Iterator[Namespace]:
    with netlink_host() as made:
        yield made


CASES = (
    pytest.param("ovs", common_pb2.VXLAN, id="ovs"),
    pytest.param("netlink", common_pb2.VXLAN, id="netlink"),
    pytest.param(
        *("netlink", common_pb2.GENEVE),
        id="netlink-geneve",
        marks=pytest.mark.skipif(bool(why_no_geneve()), reason="Geneve is " + why_no_geneve()),
    ),
)


@pytest.mark.parametrize("dataplane, network_type", CASES)
def test_traffic_is_back_and_the_controller_is_told(lab: Lab, dataplane: str, network_type: int) -> None:
    with Controller(lab.directory / "controller.sock") as controller:
        controller.decide = promise
        made = pair(lab, dataplane, network_type, controller)
        wait_until(lambda: made.guests[0].can_reach(made.nics[1].ip), 10.0, "they talk")
        wait_until(lambda: len(controller.asked) == 1, 10.0, "the controller is told of the start")
        running = made.guests[0].start_ping(made.nics[1].ip, 0.05)
        try:
            running.wait_replies(3)
            made.move()
            wait_until(lambda: len(controller.asked) == 2, 10.0, "the controller is told of the address")
            made.tell_the_other()
            running.wait_replies(5, within=10.0)
            trace = running.stop()
        finally:
            running.kill()
        assert trace.longest_gap_ms < BACK_S * 1000
        assert [one.request_type for one in controller.asked] == [common_pb2.AGENT_RESTARTED] * 2
        assert [one.source_ip for one in controller.asked] == [made.one.underlay_ip, MOVED]
        assert made.guests[1].can_reach(made.nics[0].ip)
        assert made.agents[0].status()["dataplane"]["ready"]
        assert not made.agents[0].status()["problems"]


# -- the data plane by itself


def tunnel_of(host: Namespace) -> str:
    """The only tunnel device, as `ip` shows it."""
    return next(line for line in host.run("ip", "-o", "-d", "link").splitlines() if " acv" in line)


def index_of(host: Namespace) -> str:
    return tunnel_of(host).partition(":")[0]


def forwarding(host: Namespace) -> list[str]:
    """What is ours of it."""
    lines = host.run("bridge", "fdb").splitlines()
    return sorted(line for line in lines if "acv" in line and "permanent" not in line)


def test_all_that_a_tunnel_knows_stays(host: Namespace) -> None:
    plane, events = open_plane(host)
    assert apply(host, plane, WHOLE).problems == {}
    index, before = index_of(host), forwarding(host)
    host.call(lambda: plane.set_tunnel_address(parse_address("192.0.2.2")))
    assert "local 192.0.2.2 " in tunnel_of(host)
    assert (index_of(host), forwarding(host)) == (index, before)
    found = host.call(plane.check)
    assert (found.missing, found.altered) == (0, 0)
    assert apply(host, plane, WHOLE).problems == {}
    assert not [event for event in events if isinstance(event, Drifted)]
    plane.close()


def test_where_the_kernel_refuses_tunnels_are_made_anew(host: Namespace, monkeypatch: pytest.MonkeyPatch) -> None:
    plane, _ = open_plane(host)
    assert apply(host, plane, WHOLE).problems == {}
    index, before = index_of(host), forwarding(host)
    nowhere = rtnl.set_local(0x7FFFFFFF, b"", "a device")
    with monkeypatch.context() as patch:
        patch.setattr(rtnl, "set_local", lambda *_: nowhere)
        host.call(lambda: plane.set_tunnel_address(parse_address("192.0.2.2")))
    assert "local 192.0.2.2 " in tunnel_of(host)
    assert index_of(host) != index
    assert forwarding(host) == before
    elements = host.run("nft", "list", "set", "bridge", "aca", "tunnels")
    assert tunnel_of(host).split()[1].rstrip(":") in elements or index_of(host) in elements
    found = host.call(lambda: plane.survey(()))
    assert (found.missing, found.altered, found.leftovers) == (0, 0, [])
    plane.close()


def test_an_agent_that_starts_at_another_address_keeps_the_tunnels(host: Namespace) -> None:
    plane, _ = open_plane(host)
    assert apply(host, plane, WHOLE).problems == {}
    index, before = index_of(host), forwarding(host)
    plane.close()
    fresh, _ = open_plane(host, parse_address("192.0.2.2"))
    assert apply(host, fresh, WHOLE).problems == {}
    assert "local 192.0.2.2 " in tunnel_of(host)
    assert (index_of(host), forwarding(host)) == (index, before)
    fresh.close()


def test_an_address_of_another_family_is_refused(host: Namespace) -> None:
    plane, _ = open_plane(host)
    with pytest.raises(DataPlaneError, match="family"):
        host.call(lambda: plane.set_tunnel_address(parse_address("2001:db8::1")))
    assert apply(host, plane, WHOLE).problems == {}
    assert "local 192.0.2.1 " in tunnel_of(host)
    plane.close()
