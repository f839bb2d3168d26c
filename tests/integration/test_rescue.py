"""A host whose agent cannot run: a neighbour host's agent programs its switch over TLS."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pytest

from dataplane.ovs.remote import TlsFiles
from goalstate_proto import common_pb2
from tests.conformance.network import (
    Nic,
    State,
    Subnet,
    deletion,
    dhcp_state,
    neighbor_state,
    port_state,
    subnet_state,
    v2,
)
from tests.conformance.test_dhcp import lease
from tests.integration.certificates import Authority, Pki
from tests.integration.rescue import OPENFLOW_PORT, Neighbour, prepare
from tests.lab import AgentProcess, Guest, Host, Lab, LabError, wait_until

pytestmark = [
    pytest.mark.lab,
    pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed"),
]

SUBNET = Subnet("resc-subnet", "resc-vpc", "10.9.0.0/24", "aa:ff:00:00:0a:01", 7300)
LATE = 20.0


def nic(number: int, host: Host) -> Nic:
    mac = f"aa:bb:00:00:0a:{number:02x}"
    return Nic(f"5e5c00{number:02x}-77aa", SUBNET.vpc_id, mac, host.underlay_ip, ((SUBNET, SUBNET.at(number)),))


def guest_of(port: Nic, host: Host) -> Guest:
    return host.guest(port.id, mac=port.mac, ips=(f"{port.ip}/24",), gateway=SUBNET.gateway)


def settled(agent: AgentProcess) -> bool:
    status = agent.status()
    return bool(status["dataplane"]["ready"] and not status["problems"] and not status["in_work"])


def why_not_ready(agent: AgentProcess) -> str:
    dataplane = agent.status()["dataplane"]
    return "" if dataplane["ready"] else str(dataplane["reason"])


def wait_reason(agent: AgentProcess, *parts: str) -> None:
    """Wait until the agent is not ready for a reason that has all these parts. Raises LabError with what it says."""
    wait_until(agent.host.admin_socket.exists, LATE, "the agent serves")
    try:
        wait_until(lambda: all(part in why_not_ready(agent) for part in parts), LATE, f"a reason with {parts}")
    except LabError as error:
        raise LabError(f"{error}; it says: {why_not_ready(agent)!r}\n{agent.log_tail()}") from error


def state_of_port(agent: AgentProcess, *states: State, port: Nic) -> int:
    (reply,) = agent.push_v2(v2(*states))
    return next(one.operation_status for one in reply.operation_statuses if one.resource_id == port.id)


@dataclass
class Scene:
    """A port on host a, whose agent has died, and one on host c that talks to it. Host b stands by."""

    pki: Pki
    a: Host
    b: Host
    own: AgentProcess
    ports: list[Nic]
    guests: list[Guest]
    """Of the ports: on a, on c."""

    @property
    def goal(self) -> list[State]:
        """Everything that host a's agent is told."""
        subnet = subnet_state(SUBNET)
        subnet.configuration.dhcp_enable = True
        return [subnet, port_state(self.ports[0]), neighbor_state(self.ports[1])]

    def tls(self) -> TlsFiles:
        return self.pki.files(self.pki.agents.issue("rescuer"))


@pytest.fixture
def scene(lab: Lab, tmp_path: Path) -> Scene:
    pki = Pki.make_in(tmp_path / "pki")
    a, c, b = lab.host("a"), lab.host("c"), lab.host("b", dataplane="netlink")
    prepare(a, pki)
    ports = [nic(11, a), nic(12, c)]
    made = Scene(pki, a, b, a.agent(), ports, [])
    for host, agent in ((a, made.own), (c, c.agent())):
        agent.wait_ready()
        here, there = ports if host is a else reversed(ports)
        made.guests.append(guest_of(here, host))
        agent.push_v2(v2(subnet_state(SUBNET), port_state(here), neighbor_state(there)))
        wait_until(partial(settled, agent), LATE, "all is programmed")
    assert made.guests[1].can_reach(ports[0].ip)
    made.own.kill()
    return made


def test_a_neighbour_hosts_agent_stands_in(scene: Scene) -> None:
    a, (on_a, on_c) = scene.a, scene.guests
    operators = "ptcp:6699:127.0.0.1"
    a.vsctl("set-controller", "br-int", operators)
    # Before the ping: a switch in user space may lose a packet when a device is attached, whoever programs it.
    new = nic(13, a)
    guest = a.guest(new.id, mac=new.mac, ips=())
    ping = on_c.start_ping(scene.ports[0].ip)
    agent = Neighbour(a, scene.b).agent(scene.tls())
    agent.wait_ready(LATE)
    agent.push_v2(v2(*scene.goal))
    wait_until(lambda: settled(agent), LATE, "all is programmed again")
    assert set(a.vsctl("get-controller", "br-int").split()) == {
        operators,
        f"pssl:{OPENFLOW_PORT}:{a.underlay_ip}",
    }

    agent.push_v2(v2(port_state(new), dhcp_state(new)))
    wait_until(lambda: settled(agent), LATE, "the new port is programmed")
    if shutil.which("udhcpc") is not None:
        assert lease(guest)["ip"] == new.ip
    else:
        guest.add_ip(f"{new.ip}/24")
    assert guest.can_reach(scene.ports[0].ip)
    assert on_a.can_reach(new.ip)

    (reply,) = agent.push_v2(v2(deletion(port_state(new)), deletion(dhcp_state(new))))
    assert {one.operation_status for one in reply.operation_statuses} == {common_pb2.SUCCESS}
    assert not [flow for flow in a.flows() if new.mac in flow]
    guest.flush_neighbours()
    assert guest.cannot_reach(scene.ports[0].ip)
    trace = ping.stop()
    assert not trace.lost, trace


def test_the_hosts_own_agent_comes_back(scene: Scene) -> None:
    """The last one started has the bridge. The other touches nothing, whatever it is told, and says why."""
    a = scene.a
    rescuer = Neighbour(a, scene.b).agent(scene.tls())
    rescuer.wait_ready(LATE)
    rescuer.push_v2(v2(*scene.goal))
    wait_until(lambda: settled(rescuer), LATE, "all is programmed by the neighbour")
    new = nic(14, a)
    guest = guest_of(new, a)
    ping = scene.guests[1].start_ping(scene.ports[0].ip)
    scene.own.start()
    scene.own.wait_ready(LATE)
    scene.own.push_v2(v2(*scene.goal))
    wait_until(lambda: settled(scene.own), LATE, "all is programmed by the host's own")
    wait_reason(rescuer, "has taken over bridge br-int", "stands back")

    token = a.vsctl("get", "bridge", "br-int", "external_ids:aca-agent")
    scene.own.push_v2(v2(port_state(new)))
    wait_until(lambda: settled(scene.own), LATE, "the new port is programmed by the host's own")
    flows = a.flows(cookies=True)
    # Deleted for one only: what it knows of is not taken away from the other.
    assert state_of_port(rescuer, deletion(port_state(scene.ports[0])), port=scene.ports[0]) == common_pb2.PENDING
    assert guest.can_reach(scene.ports[0].ip)
    assert a.flows(cookies=True) == flows
    assert a.vsctl("get", "bridge", "br-int", "external_ids:aca-agent") == token
    assert settled(scene.own)
    trace = ping.stop()
    assert not trace.lost, trace
    rescuer.stop()
    assert a.flows(cookies=True) == flows


def test_a_cut_connection_is_noticed_and_recovers(scene: Scene) -> None:
    a = scene.a
    agent = Neighbour(a, scene.b).agent(scene.tls())
    agent.wait_ready(LATE)
    agent.push_v2(v2(*scene.goal))
    wait_until(lambda: settled(agent), LATE, "all is programmed")
    scene.b.underlay_down()
    wait_reason(agent, f"ssl:{a.underlay_ip}:")
    new = nic(15, a)
    guest = guest_of(new, a)
    assert state_of_port(agent, port_state(new), port=new) == common_pb2.PENDING
    assert scene.guests[1].can_reach(scene.ports[0].ip), "the switch forwards on"
    scene.b.underlay_up()
    agent.wait_ready(LATE)
    wait_until(lambda: settled(agent), LATE, "what came meanwhile is programmed")
    assert guest.can_reach(scene.ports[0].ip)


def test_devices_are_not_looked_for_in_the_kernel_of_the_neighbour(scene: Scene) -> None:
    """A bridge made anew gets back only what somebody attaches, even if the rescuer's host has a device so named."""
    a, device = scene.a, scene.guests[0].device
    agent = Neighbour(a, scene.b).agent(scene.tls())
    agent.wait_ready(LATE)
    agent.push_v2(v2(*scene.goal))
    wait_until(lambda: settled(agent), LATE, "all is programmed")
    scene.b.namespace.ip(f"link add {device} type veth peer name other")
    a.vsctl("del-br", "br-int")
    wait_until(lambda: "br-int" in a.vsctl("list-br").split(), LATE, "the bridge is back")

    def waits() -> bool:
        problems = agent.status()["problems"]
        return any("bridge was made anew" in one["reason"] for one in problems)

    wait_until(waits, LATE, "the port waits for its device")
    assert device not in a.vsctl("list-ports", "br-int").split()
    scene.guests[0].attach()
    wait_until(lambda: settled(agent), LATE, "wired once it is attached")
    assert scene.guests[1].can_reach(scene.ports[0].ip)


Fault = Callable[[Pki, Path], TlsFiles]


def _stranger(pki: Pki, directory: Path) -> TlsFiles:
    return pki.files(Authority(directory / "other", "other CA").issue("stranger"))


def _expired(pki: Pki, directory: Path) -> TlsFiles:
    return pki.files(pki.agents.issue("expired", days=-1))


def _wrong_authority(pki: Pki, directory: Path) -> TlsFiles:
    return replace(pki.files(pki.agents.issue("agent")), ca=Authority(directory / "wrong", "wrong CA").certificate)


def _another_key(pki: Pki, directory: Path) -> TlsFiles:
    return replace(pki.files(pki.agents.issue("one")), key=pki.agents.issue("two").key)


def _no_file(pki: Pki, directory: Path) -> TlsFiles:
    return replace(pki.files(pki.agents.issue("agent")), key=directory / "none.pem")


FAULTS: dict[str, tuple[Fault, tuple[str, ...]]] = {
    "signed by a stranger": (_stranger, ("refuses our certificate", "stranger.pem", "ca")),
    "expired": (_expired, ("refuses our certificate", "expired.pem", "expired")),
    "another authority": (_wrong_authority, ("switch's certificate is refused", "wrong/ca.pem")),
    "another's key": (_another_key, ("one.pem", "two-key.pem", "mismatch")),
    "no such file": (_no_file, ("tls_key", "none.pem", "No such file")),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_certificate_that_is_wrong_is_told_with_its_file(lab: Lab, tmp_path: Path, fault: str) -> None:
    pki = Pki.make_in(tmp_path / "pki")
    a, b = lab.host("a"), lab.host("b", dataplane="netlink")
    prepare(a, pki)
    make, told = FAULTS[fault]
    agent = Neighbour(a, b).agent(make(pki, tmp_path))
    wait_reason(agent, f"ssl:{a.underlay_ip}:6640", *told)
    assert "br-int" not in a.vsctl("list-br").split(), "nothing is touched"


def test_a_peer_of_another_name_is_refused(lab: Lab, tmp_path: Path) -> None:
    pki = Pki.make_in(tmp_path / "pki")
    a, b = lab.host("a"), lab.host("b", dataplane="netlink")
    own = pki.switches.issue("named", alternative=f"IP:{a.underlay_ip}")
    prepare(a, pki)
    agent = Neighbour(a, b).agent(pki.files(pki.agents.issue("agent")), tls_peer_name=a.underlay_ip)
    wait_reason(agent, "switch's certificate is refused", a.underlay_ip)
    a.vsctl("set-ssl", str(own.key), str(own.certificate), str(pki.agents.certificate))
    agent.wait_ready(LATE)


def test_openflow_that_leads_to_another_bridge_is_not_programmed(lab: Lab, tmp_path: Path) -> None:
    pki = Pki.make_in(tmp_path / "pki")
    a, c, b = lab.host("a"), lab.host("c"), lab.host("b", dataplane="netlink")
    for host in (a, c):
        prepare(host, pki)
    c.vsctl("add-br", "br-int", "--", "set", "bridge", "br-int", "datapath_type=netdev")
    c.vsctl("set-controller", "br-int", f"pssl:{OPENFLOW_PORT}")
    flows = c.flows()
    files = pki.files(pki.agents.issue("agent"))
    agent = Neighbour(a, b).agent(files, openflow=f"ssl:{c.underlay_ip}:{OPENFLOW_PORT}")
    wait_reason(agent, f"ssl:{c.underlay_ip}:{OPENFLOW_PORT}", "nothing is programmed")
    assert c.flows() == flows
