"""What rights an agent needs on a host without Open vSwitch, and that it says what it cannot do without them."""

import sys
from pathlib import Path

import pytest

from aca.cli.goalstates import read_goal_state
from goalstate_proto.goalstate_pb2 import GoalStateV2
from tests.conformance.cloud import Reply
from tests.lab import AgentProcess, GuestSpec, Lab

pytestmark = pytest.mark.lab

GOAL_STATE = Path(__file__).resolve().parents[2] / "deploy" / "demo" / "goalstates" / "coral.h2.v2.txtpb"
PORT_WITH_DHCP = "8a8dfc21-745a-4b51-b591-c8948863343c"
ROUTER_ID = "e763834e-164d-4c94-ab5a-aa86ba641f13"


def replies_with(lab: Lab, *capabilities: str) -> Reply:
    """The answer to ports, neighbours, a router and a DHCP binding of an agent that has these capabilities only."""
    lab.host("h1", dataplane="netlink")
    host = lab.host("h2", dataplane="netlink")
    rights = "-all" + "".join(f",+{one}" for one in capabilities)
    command = ("setpriv", f"--bounding-set={rights}", "--inh-caps=-all", sys.executable, "-m", "aca.cli")
    agent = AgentProcess(host, {}, command)
    agent.start()
    agent.wait_ready()
    message = read_goal_state(GOAL_STATE, None).message
    assert isinstance(message, GoalStateV2)
    ports = [state.configuration for state in message.port_states.values()]
    host.guests([GuestSpec(port.id, port.mac_address, ()) for port in ports])
    (reply,) = agent.push_v2(message)
    return Reply.of(reply)


def test_three_capabilities_are_enough(lab: Lab) -> None:
    reply = replies_with(lab, "net_admin", "net_raw", "sys_admin")

    assert reply.troubles == []
    assert reply.status_of("ROUTER", ROUTER_ID) == reply.status_of("PORT", PORT_WITH_DHCP) == "SUCCESS"


def test_without_packet_sockets_dhcp_is_not_promised(lab: Lab) -> None:
    reply = replies_with(lab, "net_admin", "sys_admin")

    assert [(kind, name, status) for kind, name, status, _ in reply.troubles] == [("PORT", PORT_WITH_DHCP, "FAILURE")]
    assert "cannot listen on device tap" in reply.troubles[0][3]
    assert "Operation not permitted" in reply.troubles[0][3]


def test_without_namespaces_routers_are_not_promised(lab: Lab) -> None:
    reply = replies_with(lab, "net_admin", "net_raw")

    assert [(kind, name, status) for kind, name, status, _ in reply.troubles] == [("ROUTER", ROUTER_ID, "FAILURE")]
    assert "Operation not permitted" in reply.troubles[0][3]
