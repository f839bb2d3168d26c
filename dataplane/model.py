"""The values a data plane is asked to program.

Immutable, free of protobuf, validated by whoever makes them (`aca.goalstate.decode`). Identity is (kind, id);
`revision` is the goal state's revision_number and plays no part in what is programmed.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import NamedTuple

from dataplane.addresses import Prefix


class Kind(enum.IntEnum):
    """Kinds of resources; the numbers are those of alcor.schema.ResourceType."""

    VPC = 0
    SUBNET = 1
    PORT = 2
    NEIGHBOR = 3
    SECURITYGROUP = 4
    DHCP = 5
    ROUTER = 6
    GATEWAY = 7


class NetworkType(enum.IntEnum):
    """Encapsulations; the numbers are those of alcor.schema.NetworkType."""

    VXLAN = 0
    VLAN = 1
    GRE = 2
    GENEVE = 3
    VXLAN_GPE = 4


class Layer(enum.IntEnum):
    """How a neighbour is reached; the numbers are those of alcor.schema.NeighborType."""

    L2 = 0
    L3 = 1


class Key(NamedTuple):
    """Identity of a resource."""

    kind: Kind
    id: str


class Segment(NamedTuple):
    """One layer 2 domain on the wire: encapsulation and 24-bit tunnel id."""

    network_type: NetworkType
    tunnel_id: int


@dataclass(frozen=True, slots=True)
class Vpc:
    id: str
    revision: int
    project_id: str
    name: str
    cidr: Prefix | None
    tunnel_id: int
    """0 if the subnets carry their own (what real controllers send)."""
    gateway_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Subnet:
    id: str
    revision: int
    vpc_id: str
    name: str
    network_type: NetworkType | None
    """None: the agent's configured default (the wire has no 'unset')."""
    tunnel_id: int
    """0: the VPC's."""
    cidr: Prefix
    gateway_address: bytes | None
    gateway_mac: bytes | None
    dhcp_enable: bool
    dhcp_options: tuple[tuple[str, str], ...]
    dns: tuple[bytes, ...]
    availability_zone: str


class FixedIp(NamedTuple):
    """An address of a port or neighbour within one subnet."""

    subnet_id: str
    address: bytes


class AddressPair(NamedTuple):
    """An address (or prefix) and MAC that a port may use besides its own; `mac` None means the port's MAC."""

    prefix: Prefix
    mac: bytes | None


@dataclass(frozen=True, slots=True)
class Port:
    """A guest's interface on this host."""

    id: str
    revision: int
    vpc_id: str
    name: str
    device_id: str
    device_owner: str
    mac: bytes
    admin_state_up: bool
    fixed_ips: tuple[FixedIp, ...]
    allowed_pairs: tuple[AddressPair, ...]
    security_group_ids: tuple[str, ...]

    @property
    def device_name(self) -> str:
        """Name of the device that the compute service makes: 'tap' and the first 11 characters of the id."""
        return "tap" + self.id[:11]


class Neighbor(NamedTuple):
    """An interface of the VPC, usually on another host. A named tuple: there can be a million of them."""

    id: str
    revision: int
    vpc_id: str
    mac: bytes
    host: bytes
    """Data path address of its host."""
    fixed_ips: tuple[FixedIp, ...]
    layer: Layer
    allowed_pairs: tuple[AddressPair, ...]


@dataclass(frozen=True, slots=True)
class RoutingRule:
    id: str
    name: str
    destination: Prefix
    next_hop: bytes | None
    """None: no next hop given (a destination type that a gateway serves)."""
    priority: int
    """Among rules of one destination the smaller number wins (0 counts as the weakest)."""
    to_internet: bool
    """alcor.schema.DestinationType INTERNET (the default) or VPC_GW; only read when there is no next hop."""


@dataclass(frozen=True, slots=True)
class RoutingTable:
    subnet_id: str
    rules: tuple[RoutingRule, ...]


@dataclass(frozen=True, slots=True)
class Router:
    id: str
    revision: int
    host_dvr_mac: bytes | None
    """Source MAC of routed frames on the wire; None: the gateway MAC of the destination's subnet."""
    tables: tuple[RoutingTable, ...]


class Direction(enum.IntEnum):
    EGRESS = 0
    INGRESS = 1


@dataclass(frozen=True, slots=True)
class SecurityGroupRule:
    id: str
    direction: Direction
    ipv6: bool
    protocol: int | None
    """IP protocol number; None: any."""
    port_min: int
    port_max: int
    """Both 0: any port. ICMP: type and code."""
    remote_prefix: Prefix | None
    remote_group_id: str


@dataclass(frozen=True, slots=True)
class SecurityGroup:
    id: str
    revision: int
    vpc_id: str
    name: str
    rules: tuple[SecurityGroupRule, ...]


@dataclass(frozen=True, slots=True)
class DhcpBinding:
    """What a guest's DHCP client is to be given. Identified by subnet and MAC: its wire id is random."""

    subnet_id: str
    revision: int
    mac: bytes
    ipv4: bytes | None
    ipv6: bytes | None
    host_name: str

    @property
    def id(self) -> str:
        return dhcp_id(self.subnet_id, self.mac)


def dhcp_id(subnet_id: str, mac: bytes) -> str:
    return f"{subnet_id}/{mac.hex(':')}"


class GatewayKind(enum.IntEnum):
    """The numbers are those of alcor.schema.GatewayType."""

    DEFAULT = 0
    ZETA = 1
    TGW = 2
    IGW = 3
    NGW = 4
    ARION = 5


class GatewayDestination(NamedTuple):
    address: bytes
    mac: bytes


@dataclass(frozen=True, slots=True)
class Gateway:
    id: str
    """For ARION the key is 'arion/<subnet id>', since its wire ids are random."""
    revision: int
    gateway_kind: GatewayKind
    destinations: tuple[GatewayDestination, ...]
    vpc_id: str
    subnet_id: str
    vni: int
    inband_port: int
    """UDP port of in-band operation messages; 0: none."""


Resource = Vpc | Subnet | Port | Neighbor | Router | SecurityGroup | DhcpBinding | Gateway


class SubnetRef(NamedTuple):
    """What the forwarding of an address depends on: its subnet's identity and the segment that carries it."""

    subnet_id: str
    segment: Segment


@dataclass(frozen=True, slots=True)
class SubnetWanted:
    """A subnet with its segment worked out from its own fields, its VPC and the agent's defaults."""

    subnet: Subnet
    ref: SubnetRef

    @property
    def id(self) -> str:
        return self.subnet.id


@dataclass(frozen=True, slots=True)
class PortWanted:
    """A local port together with its subnets (in the order of its fixed IPs, each once).

    `held` are the fixed IPs that no later resource has claimed, `mac_held` the ids of the subnets in which that is so
    of its MAC; only there it is reachable. Not `complete` if some of its subnets are not known yet.
    """

    port: Port
    subnets: tuple[SubnetWanted, ...]
    held: tuple[FixedIp, ...]
    mac_held: frozenset[str]
    complete: bool = True

    @property
    def id(self) -> str:
        return self.port.id


class NeighborWanted(NamedTuple):
    """A remote neighbour with its usable subnets, each once.

    `lost` are the (subnet id, address or MAC) of it that are not to be programmed: another resource has claimed them
    since, or they do not fit.
    """

    neighbor: Neighbor
    subnets: tuple[SubnetRef, ...]
    lost: frozenset[tuple[str, bytes]] = frozenset()

    @property
    def id(self) -> str:
        return self.neighbor.id

    @property
    def addresses(self) -> tuple[tuple[SubnetRef, bytes], ...]:
        """The addresses it holds, each with its subnet."""
        refs = {ref.subnet_id: ref for ref in self.subnets}
        return tuple(
            (refs[fixed.subnet_id], fixed.address)
            for fixed in self.neighbor.fixed_ips
            if fixed.subnet_id in refs and fixed not in self.lost
        )

    @property
    def mac_subnets(self) -> tuple[SubnetRef, ...]:
        """The subnets in which it holds its MAC."""
        return tuple(ref for ref in self.subnets if (ref.subnet_id, self.neighbor.mac) not in self.lost)


@dataclass(frozen=True, slots=True)
class Route:
    """The winning rule of one destination: where frames of `subnet_id` to `destination` go."""

    destination: Prefix
    next_hop: bytes
    next_hop_subnet: SubnetRef


@dataclass(frozen=True, slots=True)
class RoutedSubnet:
    subnet: SubnetWanted
    routes: tuple[Route, ...]
    outliers: tuple[bytes, ...]
    """Addresses used in the subnet that lie outside its CIDR: each needs a host route."""


@dataclass(frozen=True, slots=True)
class RouterWanted:
    router: Router
    subnets: tuple[RoutedSubnet, ...]

    @property
    def id(self) -> str:
        return self.router.id


@dataclass(frozen=True, slots=True)
class DhcpWanted:
    """The port whose DHCP frames are to be handed to the agent; the id is the port's."""

    port_id: str

    @property
    def id(self) -> str:
        return self.port_id


Wanted = SubnetWanted | PortWanted | NeighborWanted | RouterWanted | DhcpWanted
