"""Injected faults on a running agent: what fails is tried again, a lost connection comes back, nothing else changes."""

from __future__ import annotations

import pytest

from goalstate_proto import common_pb2
from tests.integration.test_ovs_losses import SUBNET, nic, status_of_port
from tests.lab import Lab, wait_until

pytestmark = pytest.mark.lab


RULES = (
    "drop at ovs.openflow 12", "drop at ovs.ovsdb 6", "fail at apply.port", "fail at ovs.sent", "delay at reply by 1",
)


@pytest.mark.parametrize("rule", RULES)
def test_a_port_works_all_the_same(lab: Lab, rule: str) -> None:
    host = lab.host("h1")
    agent = host.agent({"faults": {"rules": [rule]}})
    agent.wait_ready()
    port = nic(host)
    guest = host.guest(port.id, mac=port.mac, ips=(f"{port.ip}/24",), gateway=SUBNET.gateway)
    wait_until(lambda: status_of_port(agent, port) == common_pb2.SUCCESS, 15.0, "the port is programmed")
    wait_until(lambda: guest.can_reach(SUBNET.gateway), 10.0, "its gateway answers")


def test_a_failure_is_answered_as_one_and_then_mended(lab: Lab) -> None:
    host = lab.host("h1")
    agent = host.agent({"faults": {"rules": ["fail at apply.port"]}})
    agent.wait_ready()
    port = nic(host)
    guest = host.guest(port.id, mac=port.mac, ips=(f"{port.ip}/24",), gateway=SUBNET.gateway)
    assert status_of_port(agent, port) == common_pb2.FAILURE
    wait_until(lambda: guest.can_reach(SUBNET.gateway), 10.0, "tried again without being asked")
