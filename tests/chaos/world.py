"""A cloud under traffic: two hosts of one kind, wired guests that ping each other all the time, a controller for each
host that knows what it is to have.

Same host, across hosts and routed: one pair each, and one TCP connection across hosts. Nothing of this is ever changed
by an event, unless the event is about just that: what an event changes are further resources (`spares`, `crowd`).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc

from goalstate_proto import aca_pb2, common_pb2, neighbor_pb2
from goalstate_proto.aca_pb2_grpc import AdminStub
from tests.chaos.controller import Controller
from tests.chaos.footprint import Footprint, difference, footprint_of
from tests.chaos.pinger import Pair
from tests.chaos.report import Report
from tests.chaos.traffic import Measured, Traffic
from tests.conformance.backends import Backend
from tests.conformance.cloud import mac_number
from tests.conformance.network import (
    Nic,
    State,
    Subnet,
    dhcp_state,
    neighbor_state,
    port_state,
    router_state,
    subnet_state,
)
from tests.lab import AgentProcess, Guest, GuestSpec, Host, Lab, LabError, wait_until

VPC = "vpc-chaos"
BLUE = Subnet("subnet-blue", VPC, "10.0.0.0/17", "aa:ff:00:00:00:01", 0x2001)
GREEN = Subnet("subnet-green", VPC, "10.0.128.0/17", "aa:ff:00:00:00:02", 0x2001)
SUBNETS = (BLUE, GREEN)
ROUTER = router_state("router-chaos", SUBNETS, update_type=common_pb2.FULL)
SPARES = 6
CROWD = 60
"""Neighbours on hosts that do not exist."""
READY_S = 30.0
COMPLETE_S = 30.0
RECONCILE_S = 60.0


def nic(number: int, subnet: Subnet, host_ip: str) -> Nic:
    """The interface number so-and-so of the VPC: all that belongs to it follows from that."""
    mac = mac_number(0xAABB00000000 + number)
    return Nic(f"{number:05d}-chaos-nic", VPC, mac, host_ip, ((subnet, subnet.at(10 + number)),))


def crowd_nic(number: int) -> Nic:
    return nic(1000 + number, SUBNETS[number % 2], f"172.16.0.{60 + number % 9}")


@dataclass(slots=True)
class Station:
    """A host with its agent and its controller."""

    host: Host
    agent: AgentProcess
    controller: Controller
    backend: Backend
    usual: dict[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"Station({self.host.name})"

    @property
    def ip(self) -> str:
        return self.host.underlay_ip

    def footprint(self) -> Footprint:
        return footprint_of(self.host, self.backend)

    def tell(self, *states: State) -> None:
        """What the controller tells the agent, and what must succeed."""
        reply = self.controller.tell(*states)
        assert reply is not None, f"{self!r} does not answer"
        assert not reply.troubles, reply.troubles

    # -- the agent's life

    def start(self, **sections: Any) -> None:
        """Start the agent, with these sections of its configuration laid over the usual ones."""
        self.agent.config = {**self.usual, **sections}
        self.agent.start()

    def restart(self) -> None:
        """Kill the agent if it runs, start it as usual, and wait until it has been told everything."""
        if self.agent.running:
            self.agent.kill()
        self.start()
        self.wait_complete()

    def wait_complete(self, within: float = COMPLETE_S) -> None:
        """Until the agent knows that it has been told everything, has programmed it and swept the rest."""
        self.agent.wait_ready(READY_S)
        self.wait_settled(within)

    def wait_settled(self, within: float = COMPLETE_S) -> None:
        """Until nothing is in work or wrong, and all is known and swept. Raises LabError saying what is not so."""
        try:
            wait_until(lambda: not self.unsettled(), within, f"{self!r} is complete and settled")
        except LabError as error:
            raise LabError(f"{error}; {self.unsettled()}") from None

    def unsettled(self) -> str:
        """What is still to be done, empty if nothing is."""
        status = self.agent.status()
        upkeep = status["reconcile"]
        if not (upkeep["complete"] and "survey" in upkeep["last"]):
            return f"not complete: {upkeep}"
        if status["in_work"] or upkeep["in_work"] in ("survey", "sweep"):
            return f"in work: {status['in_work']} {upkeep['in_work']}"
        return f"problems: {status['problems'][:3]}" if status["problems"] else ""

    def reconcile(self, mode: str) -> None:
        """What `aca reconcile` asks for. Raises grpc.RpcError."""
        with grpc.insecure_channel(f"unix:{self.agent.config['admin']['socket']}") as channel:
            stub: Any = AdminStub(channel)
            stub.Reconcile(aca_pb2.ReconcileRequest(mode=mode), timeout=RECONCILE_S)

    def wait_standing(self, expected: Footprint, within: float) -> None:
        """Until all of this is there, whatever else is. Raises LabError with what is missing."""
        try:
            wait_until(lambda: expected <= self.footprint(), within, "all that was there is back")
        except LabError as error:
            raise LabError(f"{error}\n{difference(expected, self.footprint())}") from None

    def wait_footprint(self, expected: Footprint, within: float, what: str) -> None:
        """Raises LabError with what differs."""
        try:
            wait_until(lambda: self.footprint() == expected, within, what)
        except LabError as error:
            raise LabError(f"{error}\n{difference(expected, self.footprint())}") from None


def other_address(underlay_ip: str) -> str:
    """The address that a host may move to."""
    network, _, last = underlay_ip.rpartition(".")
    return f"{network}.{100 + int(last)}"


def usual_sections(host: Host, controller_address: str) -> dict[str, Any]:
    """What agents of this suite are told beside what agents of the lab always are."""
    return {
        "host": {
            "id": host.name,
            "addresses": [host.underlay_ip, other_address(host.underlay_ip)],
            "tunnel_address": host.underlay_ip,
            "tunnel_interface": host.underlay_device,
        },
        "controller": {"addresses": [controller_address]},
        "reconcile": {"controller_replays": True},
    }


@dataclass(slots=True)
class Event:
    """Something that happens; `since` (monotonic s) is when it began. `measured` is there when it is over."""

    name: str
    since: float
    result: Measured | None = None

    @property
    def measured(self) -> Measured:
        if self.result is None:
            raise LabError(f"{self.name} is not over")
        return self.result

    def began(self) -> None:
        """Only now: what was before was preparation."""
        self.since = time.monotonic()


class World:
    """Owns everything in it but the lab."""

    def __init__(self, lab: Lab, backends: Sequence[Backend], report: Report) -> None:
        """`backends`: of host one and of host two."""
        self.lab = lab
        self.report = report
        self.kind = "-".join(backend.name for backend in backends)
        self.stations = tuple(self._station(number, backend) for number, backend in enumerate(backends, 1))
        self.one, self.two = self.stations
        self.nics = [
            *(nic(number, BLUE, self.one.ip) for number in (1, 2)),
            nic(3, BLUE, self.two.ip),
            nic(4, GREEN, self.two.ip),
        ]
        self.spares = [nic(10 + number, SUBNETS[number % 2], self.one.ip) for number in range(SPARES)]
        self.crowd = [crowd_nic(number) for number in range(CROWD)]
        for station in self.stations:
            station.controller.start()
            station.start()
        for station in self.stations:
            station.agent.wait_ready(READY_S)
        self.guests = {guest.port_id: guest for guest in self._guests()}
        for station in self.stations:
            station.controller.expect(*self.basics(station.ip))
            station.restart()
        self.before = {station.host.name: station.footprint() for station in self.stations}
        self.traffic = self._traffic()
        self.traffic.wait_flowing(time.monotonic(), READY_S)

    def _station(self, number: int, backend: Backend) -> Station:
        host = self.lab.host(f"h{number}", dataplane=backend.name)
        agent = AgentProcess(host)
        controller = Controller(agent)
        agent.config |= usual_sections(host, controller.address)
        return Station(host, agent, controller, backend, dict(agent.config))

    def _guests(self) -> list[Guest]:
        made: list[Guest] = []
        for station in self.stations:
            nics = [one for one in (*self.nics, *self.spares) if one.host_ip == station.ip]
            made += make_guests(station.host, nics)
        return made

    def _traffic(self) -> Traffic:
        a, b, c, d = (self.guests[one.id].namespace.name for one in self.nics)
        targets = [one.ip for one in self.nics]
        pairs = [Pair("local", a, targets[1]), Pair("remote", a, targets[2]), Pair("routed", b, targets[3])]
        return Traffic(self.lab.directory, "traffic", pairs, (c, b, targets[1], 5001))

    def basics(self, host_ip: str) -> list[State]:
        """What a host is to have as long as nothing has been changed: the wired guests and the crowd."""
        ports = [one for one in self.nics if one.host_ip == host_ip]
        return [
            *map(subnet_state, SUBNETS),
            *map(port_state, ports),
            dhcp_state(ports[0]),
            *(neighbor_state(one, layer=neighbor_pb2.L3) for one in (*self.nics, *self.crowd)),
            ROUTER,
        ]

    # -- what happens

    @contextmanager
    def event(self, name: str, *, back_within: float = 30.0) -> Iterator[Event]:
        """Something that happens while all traffic goes on. Afterwards traffic must flow within so many seconds; then
        its cost is in the event and in the report."""
        self.traffic.wait_flowing(time.monotonic())
        event = Event(name, time.monotonic())
        yield event
        self.traffic.wait_flowing(time.monotonic(), back_within)
        event.result = self.traffic.measure(event.since, time.monotonic())
        self.report.add(self.kind, name, event.result)

    def attach_again(self, station: Station) -> None:
        """What the compute service does where a switch has forgotten its devices."""
        nics = [one for one in (*self.nics, *self.spares) if one.host_ip == station.ip]
        station.host.attach([self.guests[one.id] for one in nics])

    def restore(self) -> None:
        """As it was when it was new: what tests have added is gone, the agents run as usual. Raises LabError."""
        for station in self.stations:
            controller = station.controller
            basics = self.basics(station.ip)
            names = {(type(one), one.configuration.id) for one in basics}
            extra = [one for one in controller.wanted() if (type(one), one.configuration.id) not in names]
            if extra:
                controller.remove(*extra)
            controller.tell(ROUTER)
            if not station.agent.running:
                station.restart()
            station.wait_footprint(self.before[station.host.name], COMPLETE_S, f"{station!r} is as it was")
        self.traffic.wait_flowing(time.monotonic())

    def close(self) -> None:
        """End the traffic and the controllers. Agents, guests and hosts go with the lab."""
        self.traffic.close()
        for station in self.stations:
            station.controller.close()


def make_guests(host: Host, nics: Sequence[Nic]) -> list[Guest]:
    specs = [GuestSpec(one.id, one.mac, (one.subnet.with_length(one.ip),), one.subnet.gateway) for one in nics]
    return host.guests(specs)


def fresh_footprint(lab: Lab, station: Station, nics: Sequence[Nic]) -> Footprint:
    """What a fresh agent makes on a fresh host of what the station's controller wants, the devices of `nics` being
    there. `lab` is a new one, whose first host has the names and addresses of the station's."""
    host = lab.host(station.host.name, dataplane=station.host.dataplane)
    agent = AgentProcess(host)
    controller = Controller(agent)
    agent.config |= usual_sections(host, controller.address)
    fresh = Station(host, agent, controller, station.backend, dict(agent.config))
    try:
        controller.start()
        fresh.start()
        agent.wait_ready(READY_S)
        make_guests(host, nics)
        # The devices may be noticed only later.
        controller.tell(*station.controller.wanted())
        fresh.wait_settled()
        return fresh.footprint()
    finally:
        controller.close()
