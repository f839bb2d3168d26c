"""What the agent says and does while parts of Open vSwitch are away."""

from __future__ import annotations

import pytest

from goalstate_proto import common_pb2
from tests.conformance.network import Nic, Subnet, port_state, subnet_state, v2
from tests.lab import AgentProcess, Host, Lab, wait_until

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
