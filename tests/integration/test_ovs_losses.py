"""What the agent says and does while parts of Open vSwitch are away."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from goalstate_proto import common_pb2
from tests.conformance.network import Nic, Subnet, neighbor_state, port_state, subnet_state, v2
from tests.lab import AgentProcess, Guest, Host, Lab, wait_until
from tests.lab.commands import LabError, run
from tests.lab.ovs import SCHEMA

pytestmark = pytest.mark.lab

SUBNET = Subnet("loss-subnet", "loss-vpc", "10.9.0.0/24", "aa:ff:00:00:09:01", 7200)


def nic(host: Host) -> Nic:
    addresses = ((SUBNET, SUBNET.at(10)),)
    return Nic("10550000-77aa-4000", SUBNET.vpc_id, "aa:bb:00:00:09:0a", host.underlay_ip, addresses)


def status_of_port(agent: AgentProcess, port: Nic) -> int:
    (reply,) = agent.push_v2(v2(subnet_state(SUBNET), port_state(port)))
    return next(one.operation_status for one in reply.operation_statuses if one.resource_id == port.id)


def why_not_ready(agent: AgentProcess) -> str:
    dataplane = agent.status()["dataplane"]
    return "" if dataplane["ready"] else str(dataplane["reason"])


def test_the_database_goes_and_comes_back(lab: Lab) -> None:
    host = lab.host("h1")
    agent = host.agent()
    agent.wait_ready()
    port = nic(host)
    host.guest(port.id, mac=port.mac, ips=(f"{port.ip}/24",), gateway=SUBNET.gateway)
    wait_until(lambda: status_of_port(agent, port) == common_pb2.SUCCESS, 5.0, "the port is programmed")
    host.ovs.ovsdb.kill()
    wait_until(lambda: "database" in why_not_ready(agent), 5.0, "the agent says that the database is gone")
    assert status_of_port(agent, port) == common_pb2.PENDING
    host.ovs.ovsdb.start()
    agent.wait_ready()
    wait_until(lambda: status_of_port(agent, port) == common_pb2.SUCCESS, 10.0, "programmed again")


def test_no_switch_at_all_is_said_with_its_address(lab: Lab) -> None:
    host = lab.host("h1")
    agent = host.agent({"dataplane": {"ovs": {"database": "unix:/nowhere/db.sock"}}})
    wait_until(host.admin_socket.exists, 10.0, "the agent serves")
    wait_until(
        lambda: "/nowhere/db.sock" in why_not_ready(agent) and "running?" in why_not_ready(agent), 5.0, "the reason"
    )


def test_a_bridge_of_another_kind_is_left_as_it_is(lab: Lab) -> None:
    host = lab.host("h1")
    host.vsctl("add-br", "br-int", "--", "set", "bridge", "br-int", "datapath_type=netdev")
    agent = host.agent({"dataplane": {"ovs": {"datapath_type": "system"}}})
    wait_until(host.admin_socket.exists, 10.0, "the agent serves")
    wait_until(lambda: "datapath_type" in why_not_ready(agent), 5.0, "the agent says what differs")
    assert host.vsctl("get", "bridge", "br-int", "datapath_type").strip() == "netdev"


def test_a_device_that_is_down_is_told(lab: Lab) -> None:
    host = lab.host("h1")
    agent = host.agent()
    agent.wait_ready()
    port = nic(host)
    guest = host.guest(port.id, mac=port.mac, ips=(f"{port.ip}/24",), gateway=SUBNET.gateway)
    host.run("ip", "link", "set", guest.device, "down")
    wait_until(lambda: status_of_port(agent, port) == common_pb2.PENDING, 5.0, "pending")
    wait_until(lambda: any("is down" in one["reason"] for one in agent.status()["problems"]), 5.0, "the reason")
    host.run("ip", "link", "set", guest.device, "up")
    wait_until(lambda: not agent.status()["problems"], 5.0, "no problem left")
    assert guest.can_reach(SUBNET.gateway)


@dataclass
class Wired:
    """Two guests on one host, programmed, and a remote neighbour."""

    host: Host
    agent: AgentProcess
    nics: list[Nic]
    guests: list[Guest]
    flows: list[str]

    def restored(self) -> bool:
        """Every flow is back; the switch may have given other port numbers."""
        return self.host.ovs.vswitchd.running and len(_flows_or_none(self.host)) == len(self.flows)

    def talks(self) -> bool:
        for guest in self.guests:
            guest.flush_neighbours()
        return self.guests[0].can_reach(self.nics[1].ip)


def _on_bridge(host: Host, device: str) -> bool:
    try:
        return device in host.vsctl("list-ports", "br-int").split()
    except LabError:
        return False


def _flows_or_none(host: Host) -> list[str]:
    try:
        return host.flows(cookies=True)
    except LabError:
        return []


@pytest.fixture
def wired(lab: Lab) -> Wired:
    host = lab.host("h1")
    agent = host.agent()
    agent.wait_ready()
    nics = [
        Nic(f"1055000{number}-77aa", SUBNET.vpc_id, f"aa:bb:00:00:19:0{number}", host.underlay_ip, ((SUBNET, ip),))
        for number, ip in ((1, SUBNET.at(11)), (2, SUBNET.at(12)))
    ]
    remote = Nic("10550009-77aa", SUBNET.vpc_id, "aa:bb:00:00:19:99", "172.16.0.99", ((SUBNET, SUBNET.at(99)),))
    guests = [host.guest(nic.id, mac=nic.mac, ips=(f"{nic.ip}/24",), gateway=SUBNET.gateway) for nic in nics]
    agent.push_v2(v2(subnet_state(SUBNET), *map(port_state, nics), neighbor_state(remote)))
    wait_until(lambda: not agent.status()["problems"] and not agent.status()["in_work"], 10.0, "all is programmed")
    made = Wired(host, agent, nics, guests, host.flows(cookies=True))
    assert made.talks()
    return made


def wipe(host: Host, *, switch_too: bool) -> None:
    """A fresh database in the place of the old one, as after a reinstallation."""
    if switch_too:
        host.ovs.vswitchd.kill()
    host.ovs.ovsdb.kill()
    database = host.directory / "conf.db"
    database.unlink()
    run(["ovsdb-tool", "create", str(database), str(SCHEMA)], env=host.ovs.env)
    host.ovs.ovsdb.start()
    host.vsctl("--no-wait", "init")
    if switch_too:
        host.ovs.vswitchd.start()


LOSSES: dict[str, Callable[[Host], object]] = {
    "switch killed": lambda host: (host.ovs.vswitchd.kill(), host.ovs.vswitchd.start()),
    "switch restarted": lambda host: host.ovs.vswitchd.restart(),
    "flows deleted": lambda host: host.ofctl("del-flows", "br-int"),
    "bridge deleted": lambda host: host.vsctl("del-br", "br-int"),
    "tunnel deleted": lambda host: host.vsctl("del-port", "br-int", "vxlan-aca"),
    "database restarted": lambda host: (host.ovs.ovsdb.kill(), host.ovs.ovsdb.start()),
    "database wiped": lambda host: wipe(host, switch_too=False),
    "database wiped, switch killed": lambda host: wipe(host, switch_too=True),
}


@pytest.mark.parametrize("loss", LOSSES)
def test_everything_is_put_back(wired: Wired, loss: str) -> None:
    identity = wired.host.vsctl("get", "bridge", "br-int", "datapath_id")
    LOSSES[loss](wired.host)
    wait_until(wired.restored, 10.0, f"all is back after: {loss}")
    assert wired.talks()
    assert wired.host.vsctl("get", "bridge", "br-int", "datapath_id") == identity
    assert wired.host.vsctl("get-fail-mode", "br-int").strip() == "secure"
    wait_until(lambda: not wired.agent.status()["problems"], 10.0, "no problem is left")


def test_a_device_that_nobody_knows_waits_after_the_database_was_wiped(wired: Wired) -> None:
    """Only what the agent knew, or what has a port's name, is put back; of the rest the agent says why it waits."""
    addresses = ((SUBNET, SUBNET.at(13)),)
    stranger = Nic("1055000c-77aa", SUBNET.vpc_id, "aa:bb:00:00:19:0c", wired.host.underlay_ip, addresses)
    wired.host.namespace.ip("link add vnet7 type veth peer name vnet8", "link set vnet7 up")
    wired.agent.push_v2(v2(port_state(stranger)))
    wipe(wired.host, switch_too=False)

    def reasons() -> dict[str, str]:
        return {one["id"]: one["reason"] for one in wired.agent.status()["problems"]}

    wait_until(lambda: "bridge was made anew" in reasons().get(stranger.id, ""), 10.0, "the reason is told")
    wait_until(lambda: set(reasons()) == {stranger.id}, 10.0, "the known ones are back")
    assert "vnet7" not in wired.host.vsctl("list-ports", "br-int")


def test_a_device_with_a_name_of_its_own_is_put_back(wired: Wired) -> None:
    """The agent knew it by its iface-id."""
    nic, host = wired.nics[0], wired.host
    host.vsctl("del-port", "br-int", wired.guests[0].device)
    host.namespace.ip(
        f"link set {wired.guests[0].device} down", f"link set {wired.guests[0].device} name vnet3", "link set vnet3 up"
    )
    host.vsctl("add-port", "br-int", "vnet3", "--", "set", "interface", "vnet3", f"external_ids:iface-id={nic.id}")
    wait_until(wired.talks, 10.0, "wired by its iface-id")
    wipe(host, switch_too=False)
    wait_until(lambda: _on_bridge(host, "vnet3"), 10.0, "on the bridge again")
    wait_until(wired.talks, 10.0, "wired again")


def test_an_agent_that_starts_on_a_wiped_host_puts_back_devices_by_their_names(wired: Wired) -> None:
    wired.agent.kill()
    wipe(wired.host, switch_too=True)
    wired.agent.start()
    wired.agent.wait_ready()
    wired.agent.push_v2(v2(subnet_state(SUBNET), *map(port_state, wired.nics)))
    wait_until(lambda: not wired.agent.status()["problems"], 10.0, "both ports are wired")
    assert wired.talks()


def test_tunnels_follow_the_host_to_another_address(lab: Lab) -> None:
    """Their OpenFlow ports stay, so no flow has to change; traffic goes on as soon as the other host is told."""
    one, two = lab.host("h1"), lab.host("h2")
    agents = [one.agent({"host": {"tunnel_interface": "br-phy"}}), two.agent()]
    nics = [
        Nic(f"1055001{number}-77aa", SUBNET.vpc_id, f"aa:bb:00:00:19:1{number}", host.underlay_ip, ((SUBNET, ip),))
        for number, host, ip in ((1, one, SUBNET.at(21)), (2, two, SUBNET.at(22)))
    ]
    guests = []
    for host, agent, here, there in ((one, agents[0], *nics), (two, agents[1], *reversed(nics))):
        agent.wait_ready()
        guests.append(host.guest(here.id, mac=here.mac, ips=(f"{here.ip}/24",), gateway=SUBNET.gateway))
        agent.push_v2(v2(subnet_state(SUBNET), port_state(here), neighbor_state(there)))
    wait_until(lambda: guests[0].can_reach(nics[1].ip), 10.0, "they talk")
    before = one.vsctl("get", "interface", "vxlan-aca", "ofport")
    moved = "172.16.0.201"
    one.namespace.ip(f"addr del {one.underlay_ip}/24 dev br-phy", f"addr add {moved}/24 dev br-phy")
    wait_until(lambda: moved in one.vsctl("get", "interface", "vxlan-aca", "options"), 5.0, "tunnels end elsewhere")
    two.appctl("tnl/neigh/set", "br-phy", moved, one.underlay_mac)
    agents[1].push_v2(v2(neighbor_state(nics[0].but(host_ip=moved), revision=2)))
    assert guests[0].can_reach(nics[1].ip) and guests[1].can_reach(nics[0].ip)
    assert one.vsctl("get", "interface", "vxlan-aca", "ofport") == before
    assert agents[0].status()["dataplane"]["ready"]
