"""An agent in the middle of a question: it stops in time, and asks the next controller if the first is away."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator

import pytest

from goalstate_proto import common_pb2
from tests.conformance.backends import NetlinkBackend
from tests.conformance.cloud import Cloud, Site
from tests.conformance.network import Nic, port_state, subnet_state
from tests.lab import Guest, Lab, wait_until
from tests.lab.controller import Controller

pytestmark = pytest.mark.lab

WAIT_S = 10.0


class Asking:
    """A guest on a plain Linux host whose agent has two controllers, of which only the second is there."""

    def __init__(self, lab: Lab, controller: Controller) -> None:
        host = lab.host("h1", dataplane="netlink")
        addresses = [f"unix:{lab.directory}/nobody.sock", controller.target]
        agent = host.agent({"controller": {"addresses": addresses, "request_timeout_s": 30.0}})
        agent.wait_ready()
        self.site = Site(host, agent, NetlinkBackend())
        self.cloud = Cloud((self.site, self.site), itertools.count(1), lambda _kind, _text: None)
        vpc = self.cloud.vpc()
        self.net = vpc.subnet("10.0.1.0/24")
        self.nic: Nic = vpc.nic(self.site, self.net)
        self.guest: Guest = self.cloud.guest(self.nic)
        self.site.program(subnet_state(self.net), port_state(self.nic))


@pytest.fixture
def controller(lab: Lab) -> Iterator[Controller]:
    with Controller(lab.directory / "controller.sock") as running:
        yield running


def test_an_agent_in_the_middle_of_a_question_stops_in_time(lab: Lab, controller: Controller) -> None:
    over = threading.Event()
    controller.decide = lambda request: (over.wait(WAIT_S) and common_pb2.FAILURE) or None
    asking = Asking(lab, controller)
    assert asking.guest.ping(asking.net.at(99), timeout=0.2).received == 0
    wait_until(lambda: controller.destinations() == [asking.net.at(99)], WAIT_S, "the second controller is asked")
    assert asking.site.agent.status()["on_demand"]["pending"] == 1
    try:
        assert asking.site.agent.stop(within=5.5) == 0
    finally:
        over.set()
    assert "did not stop in time" not in asking.site.agent.log_tail()
