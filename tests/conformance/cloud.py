"""What a scenario acts with: two hosts with their agents, a controller that tells them things, guests."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pytest

from aca.goalstate.reply import problems
from goalstate_proto import common_pb2, neighbor_pb2
from goalstate_proto.goalstate_pb2 import GoalState, GoalStateV2
from goalstate_proto.goalstateprovisioner_pb2 import GoalStateOperationReply
from tests.conformance.backends import Backend
from tests.conformance.network import (
    Nic,
    Rule,
    State,
    Subnet,
    deletion,
    kind_of,
    neighbor_state,
    port_state,
    router_state,
    subnet_state,
    v1,
    v2,
)
from tests.conformance.report import ANSWER, INAPPLICABLE
from tests.lab import AgentProcess, Guest, GuestSpec, Host, wait_until

T = TypeVar("T")

SETTLE = 5.0
NETWORK_TYPE = "ACA_CONFORMANCE_NETWORK_TYPE"
"""Environment variable: what the scenarios' subnets are carried by, VXLAN or GENEVE, unless they say otherwise."""
DELETION_ORDER = ("NEIGHBOR", "DHCP", "PORT", "ROUTER", "SUBNET", "VPC", "SECURITYGROUP", "GATEWAY")


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply as (kind, id, operation, status) names, in order, and the reasons by (kind, id)."""

    statuses: tuple[tuple[str, str, str, str], ...]
    reasons: dict[tuple[str, str], str]
    wire: GoalStateOperationReply

    @classmethod
    def of(cls, wire: GoalStateOperationReply) -> Reply:
        statuses = tuple(
            (
                common_pb2.ResourceType.Name(one.resource_type),
                one.resource_id,
                operation_name(one.operation_type),
                common_pb2.OperationStatus.Name(one.operation_status),
            )
            for one in wire.operation_statuses
        )
        # What this program's schema does not know is kept as it came, so the reasons survive.
        reasons = {
            (common_pb2.ResourceType.Name(one.resource_type), one.resource_id): one.reason
            for one in problems(wire.SerializeToString())
        }
        return cls(statuses, reasons, wire)

    def status(self, state: State) -> str:
        """The status of the last mention of the resource; "" if there is none."""
        return self.status_of(kind_of(state), state.configuration.id)

    def status_of(self, kind: str, resource_id: str) -> str:
        found = [status for one, name, _, status in self.statuses if (one, name) == (kind, resource_id)]
        return found[-1] if found else ""

    def reason(self, state: State) -> str:
        return self.reasons.get((kind_of(state), state.configuration.id), "")

    @property
    def troubles(self) -> list[tuple[str, str, str, str]]:
        """(kind, id, status, reason) of all that is not SUCCESS."""
        return [
            (kind, name, status, self.reasons.get((kind, name), ""))
            for kind, name, _, status in self.statuses
            if status != "SUCCESS"
        ]


class Site:
    """A host with its agent, and the memory of what the agent was told."""

    def __init__(self, host: Host, agent: AgentProcess, backend: Backend) -> None:
        self.host = host
        self.agent = agent
        self.backend = backend
        self._told: dict[tuple[str, str], State] = {}

    def __repr__(self) -> str:
        return f"Site({self.host.name})"

    @property
    def ip(self) -> str:
        return self.host.underlay_ip

    def footprint(self) -> object:
        return self.backend.footprint(self.host)

    def host_macs(self) -> list[str]:
        """The MACs of the host's devices that guests are to be kept off."""
        devices = json.loads(self.host.run("ip", "-j", "link"))
        served = (one for one in devices if one["ifname"] != "lo" and self.backend.serves(one["ifname"]))
        return sorted({one["address"] for one in served})

    def push(self, *states: State) -> Reply:
        """Tell the agent by stream, in the V2 form."""
        self.remember(states)
        (reply,) = self.agent.push_v2(v2(*states))
        return Reply.of(reply)

    def push_v1(self, *states: State) -> Reply:
        """Tell the agent by the unary call, in the V1 form."""
        self.remember(states)
        return Reply.of(self.agent.push_v1(v1(*states)))

    def send(self, message: GoalState | GoalStateV2) -> Reply:
        """Tell the agent by a message made by hand, which forget_all() will know nothing of."""
        if isinstance(message, GoalState):
            return Reply.of(self.agent.push_v1(message))
        return Reply.of(self.agent.push_v2(message)[0])

    def program(self, *states: State) -> None:
        """push() of what must succeed."""
        self.succeeds(self.push(*states))

    def succeeds(self, reply: Reply) -> None:
        """All is programmed. The data plane may hear of a device a moment later than of its port: that follows by
        itself."""
        late = [one for one in reply.troubles if (one[0], one[2]) == ("PORT", "PENDING") and "device tap" in one[3]]
        assert [one for one in reply.troubles if one not in late] == []
        for kind, name, _, reason in late:
            wait_until(lambda k=kind, n=name: self.problem_of(k, n) is None, SETTLE, reason)  # type: ignore[misc]

    def problem(self, state: State) -> dict[str, Any] | None:
        """What `aca status` says is wrong with the resource now."""
        return self.problem_of(kind_of(state), state.configuration.id)

    def problem_of(self, kind: str, resource_id: str) -> dict[str, Any] | None:
        for one in self.agent.status()["problems"]:
            if (one["kind"], one["id"]) == (kind, resource_id):
                found: dict[str, Any] = one
                return found
        return None

    def wait_programmed(self, state: State) -> None:
        """Until `aca status` has nothing against the resource. Raises LabError."""
        name = f"{kind_of(state)} {state.configuration.id} programmed"
        wait_until(lambda: self.problem(state) is None, SETTLE, name)

    def delete(self, state: State) -> None:
        """Tell the agent to delete what it was told of. forget_all() asks again, which succeeds too."""
        self.succeeds(Reply.of(self.agent.push_v1(v1(deletion(state)))))

    def forget_all(self) -> Reply:
        """Delete everything that the agent was told of."""
        told = sorted(self._told.values(), key=lambda state: DELETION_ORDER.index(kind_of(state)))
        self._told.clear()
        return Reply.of(self.agent.push_v1(v1(*map(deletion, told))))

    def remember(self, states: Sequence[State]) -> None:
        """forget_all() is to delete these too, which are told by other means than push()."""
        for state in states:
            identity = state.configuration.id
            if kind_of(state) == "DHCP":
                identity = f"{state.configuration.subnet_id}/{state.configuration.mac_address.lower()}"  # type: ignore[union-attr]
            self._told[kind_of(state), identity] = state


@dataclass(slots=True)
class Vpc:
    """A VPC of one scenario: makes subnets, interfaces and guests whose names nobody else has."""

    cloud: Cloud
    id: str
    tunnel_id: int
    nics: list[Nic] = field(default_factory=list)
    subnets: list[Subnet] = field(default_factory=list)

    def subnet(self, cidr: str, *, tunnel_id: int = 0, network_type: int | None = None) -> Subnet:
        """Of the network type that the scenarios are run with, if none is given."""
        number = next(self.cloud.numbers)
        made = Subnet(
            id=f"subnet-{number}",
            vpc_id=self.id,
            cidr=cidr,
            gateway_mac=mac_number(0xAAFF00000000 + number),
            tunnel_id=tunnel_id or self.tunnel_id,
            network_type=self.cloud.network_type if network_type is None else network_type,
        )
        self.subnets.append(made)
        return made

    def nic(self, site: Site, *addresses: tuple[Subnet, int] | Subnet, mac: str = "") -> Nic:
        """An interface on a host; without a number, a subnet's next address from 11 on."""
        number = next(self.cloud.numbers)
        pairs = []
        for entry in addresses:
            match entry:
                case Subnet():
                    subnet, last = entry, 11 + sum(entry is nic.subnet for nic in self.nics)
                case _:
                    subnet, last = entry
            pairs.append((subnet, subnet.at(last)))
        own_mac = mac or mac_number(0xAABB00000000 + number)
        made = Nic(f"{number:05d}-nic-of-{self.id}", self.id, own_mac, site.ip, tuple(pairs))
        self.nics.append(made)
        return made


class Cloud:
    """Two sites and a controller that knows everything."""

    def __init__(self, sites: Sequence[Site], numbers: Iterator[int], note: Callable[[str, str], None]) -> None:
        """`note` gets what is to be said of the scenario on this pair: the kind of remark (see report.py) and it."""
        self.network_type: int = common_pb2.NetworkType.Value(os.environ.get(NETWORK_TYPE, "VXLAN"))
        self.one, self.two = sites
        self.sites = tuple(sites)
        self.numbers = numbers
        self._note = note
        self._guests: list[Guest] = []

    def needs(self, what: str, *sites: Site) -> None:
        """Skip the scenario, with the reason, if a data plane (of these sites, else of any) cannot do it."""
        for site in sites or self.sites:
            if what in site.backend.lacks:
                reason = f"{site.backend.name}: {site.backend.lacks[what]}"
                self._note(INAPPLICABLE, reason)
                pytest.skip(reason)

    def refuses(self, what: str, named: str, *states: State, on: Sequence[Site] = ()) -> bool:
        """True if a data plane lacks what these states ask for, and says so: the first of them is answered INVALID_ARG
        with a reason that has `named` in it. A scenario ends then; there is nothing else to see.

        Asked are both hosts, or those named; one that can do it must.
        """
        asked = on or self.sites
        lacking = [site for site in asked if what in site.backend.lacks]
        for site in lacking:
            reply = site.push(*states)
            assert reply.status(states[0]) == "INVALID_ARG", reply.statuses
            assert named in reply.reason(states[0]), reply.reason(states[0])
            self._note(ANSWER, f"{site.backend.name}: {site.backend.lacks[what]}")
        if lacking:
            for site in asked:
                if site not in lacking:
                    site.program(*states)
        return bool(lacking)

    def vpc(self) -> Vpc:
        number = next(self.numbers)
        return Vpc(self, f"vpc-{number}", 0x10000 + number)

    def site_of(self, nic: Nic) -> Site:
        return next(site for site in self.sites if site.ip == nic.host_ip)

    def guest(self, nic: Nic, *, mtu: int = 1450, addressed: bool = True, attach: bool = True) -> Guest:
        """The virtual machine behind an interface."""
        return self.guests(nic, mtu=mtu, addressed=addressed, attach=attach)[0]

    def guests(self, *nics: Nic, mtu: int = 1450, addressed: bool = True, attach: bool = True) -> list[Guest]:
        made: dict[str, Guest] = {}
        # A cloud may be one host twice.
        for site in dict.fromkeys(self.sites):
            specs = []
            for nic in nics:
                if self.site_of(nic) is site:
                    ips = tuple(subnet.with_length(address) for subnet, address in nic.addresses) if addressed else ()
                    specs.append(GuestSpec(nic.id, nic.mac, ips, nic.subnet.gateway if addressed else None, mtu))
            made |= {guest.port_id: guest for guest in site.host.guests(specs, attach=attach)}
        self._guests += made.values()
        return [made[nic.id] for nic in nics]

    def announce(self, vpc: Vpc, *, router: Sequence[Subnet | tuple[Subnet, Sequence[Rule]]] = ()) -> list[State]:
        """Tell each host about the VPC as controllers do: all subnets, its own ports, everybody as a neighbour (the
        own ports too, and as L3 if there is a router). Host one is told in V1, host two in V2; all must succeed.

        Returns the states that are the same for both.
        """
        layer = neighbor_pb2.L3 if router else neighbor_pb2.L2
        common: list[State] = [subnet_state(subnet) for subnet in vpc.subnets]
        common += [neighbor_state(nic, layer=layer) for nic in vpc.nics]
        if router:
            common.append(router_state(f"router-of-{vpc.id}", router))
        for site, push in ((self.one, self.one.push_v1), (self.two, self.two.push)):
            ports = [port_state(nic) for nic in vpc.nics if nic.host_ip == site.ip]
            site.succeeds(push(*common, *ports))
        return common

    def remove(self, guest: Guest) -> None:
        """The virtual machine is gone."""
        self._guests.remove(guest)
        guest.remove()

    def close(self) -> None:
        for site in self.sites:
            site.host.remove([guest for guest in self._guests if guest.host is site.host])
        self._guests.clear()


def mac_number(number: int) -> str:
    return number.to_bytes(6, "big").hex(":")


def operation_name(number: int) -> str:
    """The name in alcor.schema.OperationType, or the number if it has none."""
    names = {value: name for name, value in common_pb2.OperationType.items()}
    return str(names.get(number, number))


def together(*actions: Callable[[], T]) -> list[T]:
    """What they return; all run at the same time, since most of a scenario's time is waiting for nothing to come."""
    with ThreadPoolExecutor(max(len(actions), 1)) as pool:
        return [done.result() for done in [pool.submit(action) for action in actions]]


def numbers() -> Iterator[int]:
    return itertools.count(1)


def severed(guest: Guest, ip: str) -> bool:
    """True once pings to the address have ceased to be answered and stay so: a switch may serve what it has cached
    for a moment longer than it confirms a change."""
    eventually(lambda: guest.ping(ip, timeout=0.1).received == 0, f"{guest!r} does not reach {ip}")
    return guest.cannot_reach(ip, for_=0.3)


def isolated(*ways: tuple[Guest, str]) -> bool:
    """True if none of these guests gets an answer from the address beside it."""
    return all(together(*(lambda g=guest, ip=ip: g.cannot_reach(ip, for_=0.3) for guest, ip in ways)))


def eventually(condition: Callable[[], bool], what: str) -> None:
    """Raises LabError if it does not come true soon."""
    wait_until(condition, SETTLE, what)
