"""Hosts that do not know the whole VPC: what they miss they ask of a controller, and the first packet is not lost."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from goalstate_proto import common_pb2, neighbor_pb2
from tests.conformance.backends import Backend
from tests.conformance.cloud import SETTLE, Cloud, Site, Vpc, eventually
from tests.conformance.network import (
    Nic,
    State,
    Subnet,
    deletion,
    neighbor_state,
    port_state,
    router_state,
    subnet_state,
)
from tests.conformance.region import Region
from tests.lab import Lab
from tests.lab.controller import Controller, promise
from tests.lab.wire import arp_request

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def asked_by_all(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Controller]:
    with Controller(tmp_path_factory.mktemp("controller") / "controller.sock") as running:
        yield running


@pytest.fixture
def controller(asked_by_all: Controller) -> Controller:
    """Knows no way to anybody."""
    asked_by_all.forget()
    asked_by_all.decide = lambda _: common_pb2.FAILURE
    return asked_by_all


@pytest.fixture(scope="module")
def region(
    tmp_path_factory: pytest.TempPathFactory, backends: tuple[Backend, Backend], asked_by_all: Controller
) -> Iterator[Region]:
    """Hosts whose agents have a controller to ask."""
    settings = {
        "controller": {"addresses": [asked_by_all.target]},
        "on_demand": {"negative_s": 60.0, "deadline_s": 3.0},
    }
    opened = Region(lambda: Lab(tmp_path_factory.mktemp("pair"), "lab"), backends, settings)
    yield opened
    opened.close()


def counts(site: Site) -> dict[str, int]:
    found: dict[str, int] = site.agent.status()["on_demand"]["counts"]
    return found


class Secretive:
    """A VPC of which host one knows its own ports only, and host two everything."""

    def __init__(self, cloud: Cloud, vpc: Vpc, nics: list[Nic], router: tuple[Subnet, ...] = ()) -> None:
        self.site = cloud.one
        self.layer = neighbor_pb2.L3 if router else neighbor_pb2.L2
        self.by_ip = {nic.ip: nic for nic in nics}
        common: list[State] = [subnet_state(subnet) for subnet in vpc.subnets]
        if router:
            common.append(router_state(f"router-of-{vpc.id}", router))
        cloud.one.program(*common, *(port_state(nic) for nic in nics if nic.host_ip == cloud.one.ip))
        everybody = [neighbor_state(nic, layer=self.layer) for nic in nics]
        cloud.two.program(*common, *everybody, *(port_state(nic) for nic in nics if nic.host_ip == cloud.two.ip))

    def tell(self, ip: str) -> None:
        """Host one is told who has the address."""
        self.site.program(neighbor_state(self.by_ip[ip], layer=self.layer))

    def tell_first(self, request: Any) -> common_pb2.OperationStatus:
        if request.request_type != common_pb2.ON_DEMAND:
            return common_pb2.FAILURE  # no replays here
        self.tell(request.destination_ip)
        return common_pb2.SUCCESS

    def tell_later(self, request: Any) -> common_pb2.OperationStatus:
        if request.request_type != common_pb2.ON_DEMAND:
            return common_pb2.FAILURE
        # A guest of the lab gives up after 0.3 s without an answer to ARP.
        threading.Timer(0.1, self.tell, (request.destination_ip,)).start()
        return common_pb2.SUCCESS


@pytest.mark.parametrize("when", ["pushed-first", "answered-first"])
def test_the_first_packet_within_a_subnet_is_not_lost(cloud: Cloud, controller: Controller, when: str) -> None:
    vpc = cloud.vpc()
    net = vpc.subnet("10.0.1.0/24")
    a, b = vpc.nic(cloud.one, net), vpc.nic(cloud.two, net)
    guest, _ = cloud.guests(a, b)
    secretive = Secretive(cloud, vpc, [a, b])
    controller.decide = secretive.tell_first if when == "pushed-first" else secretive.tell_later

    result = guest.ping(b.ip, timeout=3.0)
    assert result.received == 1
    (request,) = controller.questions
    assert request.request_type == common_pb2.ON_DEMAND
    assert (request.source_ip, request.destination_ip) == (a.ip, b.ip)
    assert request.tunnel_id == net.tunnel_id
    assert (request.protocol, request.ethertype) == (common_pb2.ARP, common_pb2.IPV4)
    assert guest.ping(b.ip, count=3).received == 3
    assert len(controller.questions) == 1


@pytest.mark.parametrize("when", ["pushed-first", "answered-first"])
def test_the_first_routed_packet_is_not_lost(cloud: Cloud, controller: Controller, when: str) -> None:
    vpc = cloud.vpc()
    blue, green = vpc.subnet("10.0.1.0/24"), vpc.subnet("10.0.2.0/24", tunnel_id=vpc.tunnel_id + 0x1000)
    a, b = vpc.nic(cloud.one, blue), vpc.nic(cloud.two, green)
    guest, _ = cloud.guests(a, b)
    secretive = Secretive(cloud, vpc, [a, b], router=(blue, green))
    controller.decide = secretive.tell_first if when == "pushed-first" else secretive.tell_later

    result = guest.ping(b.ip, timeout=3.0)
    assert (result.received, set(result.ttls)) == (1, {63})
    (request,) = controller.questions
    assert (request.source_ip, request.destination_ip, request.tunnel_id) == (a.ip, b.ip, blue.tunnel_id)


def test_what_is_nowhere_is_asked_for_once(cloud: Cloud, controller: Controller) -> None:
    vpc = cloud.vpc()
    blue, green = vpc.subnet("10.0.1.0/24"), vpc.subnet("10.0.2.0/24")
    a, b, c = vpc.nic(cloud.one, blue), vpc.nic(cloud.one, blue), vpc.nic(cloud.two, green)
    guest, other, _ = cloud.guests(a, b, c)
    Secretive(cloud, vpc, [a, b, c], router=(blue, green))
    nobody, nowhere = blue.at(99), green.at(99)
    before = cloud.one.agent.status()["on_demand"]["negative"]
    for ip in (nobody, nowhere):
        for asking in (guest, other):
            assert asking.ping(ip, count=2, timeout=0.3).received == 0
    eventually(lambda: sorted(controller.destinations()) == sorted([nobody, nowhere]), "both asked for")
    status = cloud.one.agent.status()["on_demand"]
    assert status["negative"] == before + 2 and status["pending"] == 0 and status["bytes_kept"] == 0
    assert guest.ping(b.ip).received == 1, "the rest goes on"


def test_many_ask_for_one(cloud: Cloud, controller: Controller) -> None:
    vpc = cloud.vpc()
    net = vpc.subnet("10.0.1.0/24")
    nics = [vpc.nic(cloud.one, net) for _ in range(4)]
    far = vpc.nic(cloud.two, net)
    *guests, _ = cloud.guests(*nics, far)
    secretive = Secretive(cloud, vpc, [*nics, far])
    all_wait = threading.Event()

    def decide(request: Any) -> common_pb2.OperationStatus:
        all_wait.wait(SETTLE)
        return secretive.tell_first(request)

    controller.decide = decide
    asked = counts(cloud.one).get("packets", 0)
    with_answers = []
    threads = [
        threading.Thread(target=lambda g=guest: with_answers.append(g.ping(far.ip, timeout=4.0).received))  # type: ignore[misc]
        for guest in guests
    ]
    for thread in threads:
        thread.start()
    eventually(lambda: counts(cloud.one).get("packets", 0) >= asked + len(guests), "all have asked")
    all_wait.set()
    for thread in threads:
        thread.join(10.0)
    assert with_answers == [1] * len(guests)
    assert controller.destinations() == [far.ip]


def test_only_what_the_vpc_may_have_is_asked_for(cloud: Cloud, controller: Controller) -> None:
    vpc = cloud.vpc()
    net = vpc.subnet("10.0.1.0/24")
    a, b = vpc.nic(cloud.one, net), vpc.nic(cloud.two, net)
    guest, _ = cloud.guests(a, b)
    Secretive(cloud, vpc, [a, b])
    for target in ("10.0.9.9", "169.254.7.7", "224.0.0.9", "255.255.255.255", net.at(0), net.at(255), a.ip):
        guest.send_raw(arp_request(a.mac, a.ip, target))
    guest.send_raw(arp_request(a.mac, "0.0.0.0", net.at(77)))
    assert guest.arp(net.gateway) == net.gateway_mac
    guest.send_raw(arp_request(a.mac, a.ip, net.at(88)))
    eventually(lambda: net.at(88) in controller.destinations(), "the last one is asked for")
    assert controller.destinations() == [net.at(88)]


def test_a_broken_promise_is_no_packet_kept_for_ever(cloud: Cloud, controller: Controller) -> None:
    vpc = cloud.vpc()
    net = vpc.subnet("10.0.1.0/24")
    a, b = vpc.nic(cloud.one, net), vpc.nic(cloud.two, net)
    guest, _ = cloud.guests(a, b)
    secretive = Secretive(cloud, vpc, [a, b])
    controller.decide = promise
    assert guest.ping(b.ip, timeout=0.3).received == 0
    eventually(lambda: len(controller.questions) >= 2, "asked again")
    controller.decide = secretive.tell_first
    assert guest.can_reach(b.ip)
    eventually(lambda: cloud.one.agent.status()["on_demand"]["pending"] == 0, "nothing waits")


def test_a_controller_that_is_away(cloud: Cloud, controller: Controller) -> None:
    vpc = cloud.vpc()
    net = vpc.subnet("10.0.1.0/24")
    a, b, c = vpc.nic(cloud.one, net), vpc.nic(cloud.one, net), vpc.nic(cloud.two, net)
    guest, _, _ = cloud.guests(a, b, c)
    secretive = Secretive(cloud, vpc, [a, b, c])
    controller.decide = secretive.tell_first
    controller.stop()
    assert guest.ping(c.ip, timeout=0.3).received == 0
    assert guest.ping(b.ip).received == 1, "the rest goes on"
    eventually(lambda: bool(cloud.one.agent.status()["on_demand"]["trouble"]), "said so")
    controller.start()
    assert guest.can_reach(c.ip)
    eventually(lambda: not cloud.one.agent.status()["on_demand"]["trouble"], "said so")


def test_what_was_learned_is_forgotten_when_told_so(cloud: Cloud, controller: Controller) -> None:
    vpc = cloud.vpc()
    net = vpc.subnet("10.0.1.0/24")
    a, b = vpc.nic(cloud.one, net), vpc.nic(cloud.two, net)
    guest, _ = cloud.guests(a, b)
    secretive = Secretive(cloud, vpc, [a, b])
    controller.decide = secretive.tell_first
    assert guest.ping(b.ip, timeout=3.0).received == 1
    cloud.one.program(deletion(neighbor_state(b)))
    guest.flush_neighbours()
    assert guest.ping(b.ip, timeout=3.0).received == 1
    assert controller.destinations() == [b.ip, b.ip]


def test_a_scan_keeps_nobody_from_asking(cloud: Cloud, controller: Controller) -> None:
    vpc = cloud.vpc()
    net = vpc.subnet("10.0.0.0/16")
    a, b, c = vpc.nic(cloud.one, net), vpc.nic(cloud.one, net), vpc.nic(cloud.two, net)
    scanner, guest, _ = cloud.guests(a, b, c)
    secretive = Secretive(cloud, vpc, [a, b, c])
    controller.decide = lambda one: (
        secretive.tell_first(one) if one.destination_ip == c.ip else common_pb2.FAILURE
    )
    with scanner.namespace.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as out:
        out.bind(("eth0", 0))
        scan = [arp_request(a.mac, a.ip, net.at(1000 + number)) for number in range(5000)]
        for frame in scan[:4000]:
            out.send(frame)
        before = len(controller.questions)
        assert guest.ping(c.ip, timeout=3.0).received == 1
        for frame in scan[4000:]:
            out.send(frame)
        assert guest.ping(c.ip).received == 1
    assert before < len(scan), "most of a scan is not asked about"
    eventually(lambda: cloud.one.agent.status()["on_demand"]["pending"] == 0, "nothing waits")


def test_what_has_been_repaired_asks_as_before(cloud: Cloud, controller: Controller) -> None:
    cloud.needs("repair", cloud.one)
    vpc = cloud.vpc()
    net = vpc.subnet("10.0.1.0/24")
    a, b, c = vpc.nic(cloud.one, net), vpc.nic(cloud.two, net), vpc.nic(cloud.two, net)
    guest, _, _ = cloud.guests(a, b, c)
    secretive = Secretive(cloud, vpc, [a, b, c])
    controller.decide = secretive.tell_first
    assert guest.ping(b.ip, timeout=3.0).received == 1
    cloud.one.backend.cut_tunnels(cloud.one.host)
    assert guest.can_reach(b.ip, within=20.0)
    assert guest.ping(c.ip, timeout=3.0).received == 1


def test_an_owner_that_answers_before_it_is_known_costs_no_packet(cloud: Cloud, controller: Controller) -> None:
    """Host two has a neighbour that host one knows, so it hears what is flooded."""
    vpc = cloud.vpc()
    net = vpc.subnet("10.0.1.0/24")
    a, b, c = vpc.nic(cloud.one, net), vpc.nic(cloud.two, net), vpc.nic(cloud.two, net)
    guest, _, _ = cloud.guests(a, b, c)
    secretive = Secretive(cloud, vpc, [a, b, c])
    secretive.tell(b.ip)
    controller.decide = secretive.tell_later
    assert guest.ping(c.ip, timeout=3.0).received == 1
    assert guest.ping(b.ip).received == 1
