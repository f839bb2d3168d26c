"""What the goal states ask for: the network that the demonstration makes, and who must reach whom in it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aca.cli.goalstates import read_goal_state
from goalstate_proto.common_pb2 import NetworkType

GOAL_STATES = Path(__file__).resolve().parent / "goalstates"
HOSTS = ("h1", "h2")


@dataclass(frozen=True, slots=True)
class Vpc:
    name: str
    cidr: str


@dataclass(frozen=True, slots=True)
class Subnet:
    """`router` is the id of the router it hangs on, None without one; `tunnel` is the 24-bit network identifier."""

    name: str
    vpc: Vpc
    cidr: str
    gateway: str
    tunnel: int
    encapsulation: str
    router: str | None

    @property
    def prefix_length(self) -> str:
        return self.cidr.partition("/")[2]


@dataclass(frozen=True, slots=True)
class PlannedGuest:
    name: str
    port_id: str
    mac: str
    ip: str
    subnet: Subnet
    host: str
    by_dhcp: bool

    def must_reach(self, other: "PlannedGuest") -> bool:
        """In one subnet, or in two that one router joins."""
        if self.subnet == other.subnet:
            return True
        return self.subnet.router is not None and self.subnet.router == other.subnet.router


@dataclass(frozen=True, slots=True)
class Network:
    """`resources` has per host what its agent has to answer for, as (kind, id); `names` what people call these."""

    vpcs: tuple[Vpc, ...]
    subnets: tuple[Subnet, ...]
    guests: tuple[PlannedGuest, ...]
    files: Mapping[str, tuple[Path, ...]]
    resources: Mapping[str, frozenset[tuple[str, str]]]
    names: Mapping[tuple[str, str], str]

    def guests_on(self, host: str) -> list[PlannedGuest]:
        return [guest for guest in self.guests if guest.host == host]

    def neighbours_of(self, host: str) -> list[PlannedGuest]:
        """The guests on other hosts that this host is told of."""
        told = self.resources[host]
        return [guest for guest in self.guests if guest.host != host and ("NEIGHBOR", guest.port_id) in told]

    def routed_on(self, host: str) -> list[Subnet]:
        """The subnets of the routers that this host is told of."""
        return [subnet for subnet in self.subnets if ("ROUTER", subnet.router) in self.resources[host]]

    def guests_in(self, subnet: Subnet) -> list[PlannedGuest]:
        return [guest for guest in self.guests if guest.subnet == subnet]

    def subnets_of(self, vpc: Vpc) -> list[Subnet]:
        return [subnet for subnet in self.subnets if subnet.vpc == vpc]


def goal_states_in(directory: Path) -> dict[str, tuple[Path, ...]]:
    """The files NAME.HOST.LAYOUT.txtpb, by host."""
    return {host: tuple(sorted(directory.glob(f"*.{host}.*"))) for host in HOSTS}


def read_network(files: Mapping[str, tuple[Path, ...]]) -> Network:
    """The network in these files of hosts. Raises CommandError naming a file that is no goal state."""
    messages = {host: [read_goal_state(path, None).message for path in paths] for host, paths in files.items()}
    everything = [message for of_host in messages.values() for message in of_host]

    vpcs = {c.id: Vpc(c.name, c.cidr) for c in configurations(everything, "vpc_states")}
    routers = {
        table.subnet_id: c.id for c in configurations(everything, "router_states") for table in c.subnet_routing_tables
    }
    subnets = {
        c.id: Subnet(
            name=c.name,
            vpc=vpcs[c.vpc_id],
            cidr=c.cidr,
            gateway=c.gateway.ip_address,
            tunnel=c.tunnel_id,
            encapsulation=NetworkType.Name(c.network_type),
            router=routers.get(c.id),
        )
        for c in configurations(everything, "subnet_states")
    }
    leases = {(c.subnet_id, c.mac_address) for c in configurations(everything, "dhcp_states")}
    guests = [
        PlannedGuest(
            name=c.name,
            port_id=c.id,
            mac=c.mac_address,
            ip=c.fixed_ips[0].ip_address,
            subnet=subnets[c.fixed_ips[0].subnet_id],
            host=host,
            by_dhcp=(c.fixed_ips[0].subnet_id, c.mac_address) in leases,
        )
        for host, of_host in messages.items()
        for c in configurations(of_host, "port_states")
    ]
    # Maps of a message have no order.
    ordered = sorted(subnets.values(), key=lambda subnet: (subnet.vpc.name, subnet.cidr))
    return Network(
        vpcs=tuple(sorted(vpcs.values(), key=lambda vpc: vpc.name)),
        subnets=tuple(ordered),
        guests=tuple(sorted(guests, key=lambda guest: (ordered.index(guest.subnet), guest.name))),
        files=files,
        resources={host: frozenset(_answerable(of_host)) for host, of_host in messages.items()},
        names=_names(everything),
    )


def configurations(messages: Iterable[Any], field: str) -> list[Any]:
    """The configurations of one kind, without repetitions of an id; in the second layout states are in a map."""
    found: dict[str, Any] = {}
    for message in messages:
        states = getattr(message, field)
        for state in states.values() if hasattr(states, "values") else states:
            found.setdefault(state.configuration.id, state.configuration)
    return list(found.values())


def _answerable(messages: list[Any]) -> Iterable[tuple[str, str]]:
    """VPCs and subnets are left out: a status for these is optional."""
    for kind in ("router", "port", "neighbor", "dhcp"):
        for configuration in configurations(messages, f"{kind}_states"):
            yield kind.upper(), configuration.id


def _names(messages: list[Any]) -> dict[tuple[str, str], str]:
    names = {
        (kind.upper(), c.id): c.name
        for kind in ("vpc", "subnet", "port", "neighbor")
        for c in configurations(messages, f"{kind}_states")
    }
    names |= {("ROUTER", c.id): router_name(c.id) for c in configurations(messages, "router_states")}
    names |= {("DHCP", c.id): c.port_host_name for c in configurations(messages, "dhcp_states")}
    return names


def router_name(router_id: str) -> str:
    """Routers have no name in the contract: the first part of the id stands for it."""
    return router_id.partition("-")[0]
