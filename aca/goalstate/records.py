"""Everything that is known of what the controllers want, and who refers to what."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from aca.goalstate.index import SubnetIndex
from dataplane.base import Capabilities, Outcome, pending
from dataplane.model import (
    DhcpBinding,
    FixedIp,
    Gateway,
    Kind,
    Neighbor,
    NetworkType,
    Port,
    Router,
    SecurityGroup,
    Subnet,
    SubnetWanted,
    Vpc,
)

Dirty = dict[Kind, dict[str, str]]
"""What has to be planned again: kind -> id -> VPC (work on one VPC is done in order)."""


@dataclass(slots=True)
class Records:
    """Values by kind and id, and the indexes that tell who depends on what. `local_hosts` are own addresses, packed."""

    local_hosts: frozenset[bytes]
    default_network_type: NetworkType
    capabilities: Capabilities
    vpcs: dict[str, Vpc] = field(default_factory=dict)
    subnets: dict[str, Subnet] = field(default_factory=dict)
    ports: dict[str, Port] = field(default_factory=dict)
    neighbors: dict[str, Neighbor] = field(default_factory=dict)
    routers: dict[str, Router] = field(default_factory=dict)
    security_groups: dict[str, SecurityGroup] = field(default_factory=dict)
    dhcp: dict[str, DhcpBinding] = field(default_factory=dict)
    gateways: dict[str, Gateway] = field(default_factory=dict)
    index: dict[str, SubnetIndex] = field(default_factory=dict)
    resolved: dict[str, SubnetWanted | Outcome] = field(default_factory=dict)
    """Each known subnet with its segment, or why it cannot be used."""
    next_hops: dict[bytes, set[str]] = field(default_factory=dict)
    """Next hop address -> routers whose answer depends on somebody having it."""
    vpc_subnets: dict[str, set[str]] = field(default_factory=dict)
    router_lanes: dict[str, str] = field(default_factory=dict)
    dirty: Dirty = field(default_factory=dict)
    _stores: dict[Kind, Mapping[str, Any]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._stores = {
            Kind.VPC: self.vpcs,
            Kind.SUBNET: self.subnets,
            Kind.PORT: self.ports,
            Kind.NEIGHBOR: self.neighbors,
            Kind.ROUTER: self.routers,
            Kind.SECURITYGROUP: self.security_groups,
            Kind.DHCP: self.dhcp,
            Kind.GATEWAY: self.gateways,
        }

    def store(self, kind: Kind) -> Mapping[str, Any]:
        """Resources of one kind by id."""
        return self._stores[kind]

    def why_unusable(self, subnet_id: str) -> Outcome:
        """Why a subnet cannot be used yet, as an outcome for what refers to it."""
        resolved = self.resolved.get(subnet_id)
        if isinstance(resolved, Outcome):
            return Outcome(resolved.status, f"its subnet {subnet_id}: {resolved.reason}")
        return pending(f"waits for subnet {subnet_id}")

    def is_used_here(self, subnet_id: str) -> bool:
        """Whether a port of this host is in the subnet."""
        index = self.index.get(subnet_id)
        return index is not None and bool(index.ports)

    def router_of(self, subnet_id: str) -> str | None:
        """The router that serves the subnet. Of several the one with the lowest id: the same whatever came first."""
        index = self.index.get(subnet_id)
        return min(index.routers) if index and index.routers else None

    def lane_of(self, kind: Kind, resource_id: str) -> str:
        """The VPC in whose order the resource is programmed."""
        if kind is Kind.VPC:
            return resource_id
        if kind is Kind.ROUTER:
            router = self.routers.get(resource_id)
            return self.router_lane(router) if router else ""
        if kind is Kind.DHCP:
            binding = self.dhcp.get(resource_id)
            return self.subnet_lane(binding.subnet_id) if binding else ""
        value = self.store(kind).get(resource_id)
        return getattr(value, "vpc_id", "")

    def take_dirty(self) -> Dirty:
        """What has changed since the last call, to be planned."""
        taken, self.dirty = self.dirty, {}
        return taken

    def mark(self, kind: Kind, resource_id: str, lane: str) -> None:
        self.dirty.setdefault(kind, {})[resource_id] = lane

    def mark_again(self, kind: Kind, resource_id: str, lane: str) -> None:
        """As `mark`, but a resource that is marked already stays in its lane."""
        self.dirty.setdefault(kind, {}).setdefault(resource_id, lane)

    def mark_all(self) -> None:
        """Everything is to be planned again (the data plane has lost its memory)."""
        for kind in Kind:
            marks = self.dirty.setdefault(kind, {})
            for resource_id in self.store(kind):
                marks[resource_id] = self.lane_of(kind, resource_id)

    # -- what has to be looked at again ------------------------------------------------------------------------

    def mark_subnet(self, subnet_id: str) -> None:
        """A subnet is programmed as long as a port here is in it."""
        subnet = self.subnets.get(subnet_id)
        if subnet is not None:
            self.mark(Kind.SUBNET, subnet_id, subnet.vpc_id)

    def mark_port(self, port_id: str | None) -> None:
        if port_id is not None and port_id in self.ports:
            self.mark(Kind.PORT, port_id, self.ports[port_id].vpc_id)

    def mark_neighbor(self, neighbor_id: str | None) -> None:
        if neighbor_id is not None:
            known = self.neighbors.get(neighbor_id)
            if known is not None:
                self.mark(Kind.NEIGHBOR, neighbor_id, known.vpc_id)

    def address_changed(self, fixed: FixedIp, index: SubnetIndex) -> None:
        """An address came into use or went out of it: outliers and next hops follow."""
        subnet = self.subnets.get(fixed.subnet_id)
        if subnet is not None and not subnet.cidr.contains(fixed.address):
            if index.uses(fixed.address):
                index.outliers.add(fixed.address)
            else:
                index.outliers.discard(fixed.address)
            self.mark_routers(index.routers)
        self.mark_routers(self.next_hops.get(fixed.address, ()))

    def mark_routers(self, router_ids: Iterable[str]) -> None:
        for router_id in router_ids:
            router = self.routers.get(router_id)
            if router is not None:
                self.mark(Kind.ROUTER, router_id, self.router_lane(router))

    def router_lane(self, router: Router) -> str:
        """The VPC of the router's first known subnet; empty while there is none, and then nothing is programmed.

        It stays when subnets come and go: what is done to one router has to be done in one order.
        """
        lane = self.router_lanes.get(router.id, "")
        if not lane:
            # Removed and made again before anybody planned it: the removal's order.
            removed_in = self.dirty.get(Kind.ROUTER, {}).get(router.id, "")
            subnet_lanes = (self.subnet_lane(table.subnet_id) for table in router.tables)
            lane = removed_in or next(filter(None, subnet_lanes), "")
            if lane:
                self.router_lanes[router.id] = lane
        return lane

    def subnet_lane(self, subnet_id: str) -> str:
        subnet = self.subnets.get(subnet_id)
        return subnet.vpc_id if subnet else ""

    def index_of(self, subnet_id: str) -> SubnetIndex:
        index = self.index.get(subnet_id)
        if index is None:
            index = self.index[subnet_id] = SubnetIndex()
        return index

    def forget_index(self, subnet_id: str) -> None:
        index = self.index.get(subnet_id)
        if index is not None and index.is_unused():
            del self.index[subnet_id]
