"""The desired state: everything the controllers have asked of this host. The only mutable truth.

One writer, no I/O, no threads, no clock (the caller says what time it is). Messages are merged in; what has to be
looked at again is collected in `take_dirty`. References may point to things that are not here yet.
"""

from __future__ import annotations

import dataclasses
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from aca.goalstate.bulk import NewNeighbors
from aca.goalstate.changes import Change, RouterPatch
from aca.goalstate.index import SubnetIndex
from aca.goalstate.merge import merge_delta, merge_router
from dataplane.base import Capabilities, Outcome, Status, invalid, pending
from dataplane.model import (
    DhcpBinding,
    FixedIp,
    Gateway,
    Key,
    Kind,
    Neighbor,
    NetworkType,
    Port,
    Router,
    SecurityGroup,
    Segment,
    Subnet,
    SubnetRef,
    SubnetWanted,
    Vpc,
    dhcp_id,
)

MAX_TOMBSTONES = 10_000
TOMBSTONE_SECONDS = 3600.0
MAX_TUNNEL_ID = (1 << 24) - 1

Dirty = dict[Kind, dict[str, str]]
"""What has to be planned again: kind -> id -> VPC (work on one VPC is done in order)."""

Stored = TypeVar("Stored", Vpc, Subnet, Port, Neighbor, Router, SecurityGroup, DhcpBinding, Gateway)


@dataclass(slots=True)
class DesiredState:
    """See the module. `local_hosts` are this host's own addresses, packed."""

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
    _vpc_subnets: dict[str, set[str]] = field(default_factory=dict)
    _router_lanes: dict[str, str] = field(default_factory=dict)
    _tombstones: OrderedDict[Key, tuple[int, float]] = field(default_factory=OrderedDict)
    _dirty: Dirty = field(default_factory=dict)
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

    # -- reading ------------------------------------------------------------------------------------------------

    def store(self, kind: Kind) -> Mapping[str, Any]:
        """Resources of one kind by id."""
        return self._stores[kind]

    def subnet_ref(self, subnet_id: str) -> SubnetRef | None:
        resolved = self.resolved.get(subnet_id)
        return resolved.ref if isinstance(resolved, SubnetWanted) else None

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
            return self._router_lane(router) if router else ""
        if kind is Kind.DHCP:
            binding = self.dhcp.get(resource_id)
            return self._subnet_lane(binding.subnet_id) if binding else ""
        value = self.store(kind).get(resource_id)
        return getattr(value, "vpc_id", "")

    def take_dirty(self) -> Dirty:
        """What has changed since the last call, to be planned."""
        taken, self._dirty = self._dirty, {}
        return taken

    def mark(self, kind: Kind, resource_id: str, lane: str) -> None:
        self._dirty.setdefault(kind, {})[resource_id] = lane

    def mark_again(self, kind: Kind, resource_id: str, lane: str) -> None:
        """As `mark`, but a resource that is marked already stays in its lane."""
        self._dirty.setdefault(kind, {}).setdefault(resource_id, lane)

    def mark_all(self) -> None:
        """Everything is to be planned again (the data plane has lost its memory)."""
        for kind in Kind:
            marks = self._dirty.setdefault(kind, {})
            for resource_id in self.store(kind):
                marks[resource_id] = self.lane_of(kind, resource_id)

    # -- merging ------------------------------------------------------------------------------------------------

    def merge(self, changes: Iterable[Change], now: float) -> list[Outcome | None]:
        """Merge changes of one kind. Per change: None if accepted, else why it changes nothing.

        `now` is any steadily rising clock, in seconds; it only ages tombstones.
        """
        merge_one = self._merge_one
        new_neighbors = NewNeighbors(self.index, self.subnets, self.neighbors, self.next_hops)
        outcomes: list[Outcome | None] = []
        for change in changes:
            if change.error:
                outcomes.append(invalid(change.error))
            elif change.kind is Kind.NEIGHBOR and not self._tombstones and new_neighbors.take(change):
                outcomes.append(None)
            else:
                outcomes.append(merge_one(change, now))
                new_neighbors.look_again()
        if new_neighbors.taken:
            self._dirty.setdefault(Kind.NEIGHBOR, {}).update(new_neighbors.taken)
        return outcomes

    def _merge_one(self, change: Change, now: float) -> Outcome | None:
        kind = change.kind
        known = self.store(kind).get(change.id)
        stale = self._stale(change, known, now)
        if stale is not None:
            return stale
        if change.delete:
            if known is not None:
                self._removers()[kind](known)
            if change.revision > 1:
                self._bury(Key(kind, change.id), change.revision, now)
            return None
        self._tombstones.pop(Key(kind, change.id), None)
        if kind is Kind.NEIGHBOR:
            assert isinstance(change.value, Neighbor)
            return self._upsert_neighbor(known, change.value, change.full)
        return self._upsert(kind, known, change)

    def _stale(self, change: Change, known: Any, now: float) -> Outcome | None:
        latest = known.revision if known is not None else 0
        if known is None and self._tombstones:
            grave = self._tombstones.get(Key(change.kind, change.id))
            if grave is not None and now - grave[1] <= TOMBSTONE_SECONDS:
                latest = grave[0]
        return _out_of_order(change.revision, latest) if 0 < change.revision < latest else None

    def _bury(self, key: Key, revision: int, now: float) -> None:
        self._tombstones[key] = (revision, now)
        self._tombstones.move_to_end(key)
        while self._tombstones:
            oldest = next(iter(self._tombstones.values()))
            if len(self._tombstones) <= MAX_TOMBSTONES and now - oldest[1] <= TOMBSTONE_SECONDS:
                return
            self._tombstones.popitem(last=False)

    def _upsert(self, kind: Kind, known: Any, change: Change) -> Outcome | None:
        value: Any = change.value
        if isinstance(value, RouterPatch):
            value = merge_router(known, value, full=change.full)
        elif known is not None and not change.full:
            value = merge_delta(known, value)
        if known is not None:
            if getattr(known, "vpc_id", "") != getattr(value, "vpc_id", ""):
                return invalid(f"{kind.name} {change.id}: vpc_id cannot change from {known.vpc_id!r}; delete it first")
            if value.revision < known.revision:
                value = _with_revision(value, known.revision)
        if value == known:
            self._reassert(kind, value)
            return None
        self._upserters()[kind](known, value)
        return None

    def _upserters(self) -> Mapping[Kind, Callable[[Any, Any], None]]:
        return {
            Kind.VPC: self._upsert_vpc,
            Kind.SUBNET: self._upsert_subnet,
            Kind.PORT: self._upsert_port,
            Kind.ROUTER: self._upsert_router,
            Kind.DHCP: self._upsert_dhcp,
            Kind.SECURITYGROUP: lambda known, new: self._plain(Kind.SECURITYGROUP, self.security_groups, new),
            Kind.GATEWAY: lambda known, new: self._plain(Kind.GATEWAY, self.gateways, new),
        }

    def _removers(self) -> Mapping[Kind, Callable[[Any], None]]:
        return {
            Kind.VPC: self._remove_vpc,
            Kind.SUBNET: self._remove_subnet,
            Kind.PORT: self._remove_port,
            Kind.NEIGHBOR: self._remove_neighbor,
            Kind.ROUTER: self._remove_router,
            Kind.DHCP: self._remove_dhcp,
            Kind.SECURITYGROUP: lambda known: self._drop(Kind.SECURITYGROUP, self.security_groups, known),
            Kind.GATEWAY: lambda known: self._drop(Kind.GATEWAY, self.gateways, known),
        }

    def _plain(self, kind: Kind, store: dict[str, Stored], value: Stored) -> None:
        store[value.id] = value
        self.mark(kind, value.id, getattr(value, "vpc_id", ""))

    def _drop(self, kind: Kind, store: dict[str, Stored], value: Stored) -> None:
        store.pop(value.id, None)
        self.mark(kind, value.id, getattr(value, "vpc_id", ""))

    def _reassert(self, kind: Kind, value: Any) -> None:
        """An unchanged resource that arrives again is the latest word on what it claims, if others claim it too."""
        if kind is Kind.PORT and value.admin_state_up:
            self._claim_port(value)

    # -- VPCs and subnets ---------------------------------------------------------------------------------------

    def _upsert_vpc(self, known: Vpc | None, new: Vpc) -> None:
        self.vpcs[new.id] = new
        self.mark(Kind.VPC, new.id, new.id)
        for subnet_id in self._vpc_subnets.get(new.id, ()):
            self._resolve_subnet(subnet_id)

    def _remove_vpc(self, known: Vpc) -> None:
        del self.vpcs[known.id]
        self.mark(Kind.VPC, known.id, known.id)
        for subnet_id in self._vpc_subnets.get(known.id, ()):
            self._resolve_subnet(subnet_id)

    def _upsert_subnet(self, known: Subnet | None, new: Subnet) -> None:
        self.subnets[new.id] = new
        self._vpc_subnets.setdefault(new.vpc_id, set()).add(new.id)
        if known is None or known.cidr != new.cidr:
            index = self.index.get(new.id)
            if index is not None:
                items = [*index.neighbor_addresses.items(), *index.port_addresses.items()]
                index.outliers = {address for address in items if not new.cidr.contains(address)}
        self.mark(Kind.SUBNET, new.id, new.vpc_id)
        self._resolve_subnet(new.id)

    def _remove_subnet(self, known: Subnet) -> None:
        del self.subnets[known.id]
        siblings = self._vpc_subnets[known.vpc_id]
        siblings.discard(known.id)
        if not siblings:
            del self._vpc_subnets[known.vpc_id]
        self.mark(Kind.SUBNET, known.id, known.vpc_id)
        self._resolve_subnet(known.id)
        self._forget_index(known.id)

    def _resolve_subnet(self, subnet_id: str) -> None:
        """Work out the subnet again; if that changes anything, what refers to it is looked at again."""
        subnet = self.subnets.get(subnet_id)
        before = self.resolved.get(subnet_id)
        after = self._resolution(subnet) if subnet else None
        if after == before:
            return
        if after is None:
            self.resolved.pop(subnet_id, None)
        else:
            self.resolved[subnet_id] = after
        if subnet is not None:
            self.mark(Kind.SUBNET, subnet_id, subnet.vpc_id)
        index = self.index.get(subnet_id)
        if index is None:
            return
        for port_id in index.ports:
            self.mark(Kind.PORT, port_id, self.ports[port_id].vpc_id)
        self._mark_routers(index.routers)
        if _seen_by_neighbors(before) != _seen_by_neighbors(after):
            for neighbor_id in index.neighbor_ids():
                self.mark(Kind.NEIGHBOR, neighbor_id, self.neighbors[neighbor_id].vpc_id)

    def _resolution(self, subnet: Subnet) -> SubnetWanted | Outcome:
        network_type = self.default_network_type if subnet.network_type is None else subnet.network_type
        supported = self.capabilities.network_types
        if network_type not in supported:
            names = ", ".join(sorted(known.name for known in supported))
            return invalid(f"SUBNET {subnet.id}: network_type {network_type.name} is not supported here ({names} are)")
        vpc = self.vpcs.get(subnet.vpc_id)
        tunnel_id = subnet.tunnel_id or (vpc.tunnel_id if vpc else 0)
        if not tunnel_id:
            if vpc is None:
                return pending(f"SUBNET {subnet.id}: tunnel_id is 0, waits for the one of VPC {subnet.vpc_id}")
            return invalid(f"SUBNET {subnet.id}: tunnel_id is 0, and VPC {subnet.vpc_id} has none either")
        return SubnetWanted(subnet, SubnetRef(subnet.id, Segment(network_type, tunnel_id)))

    # -- ports --------------------------------------------------------------------------------------------------

    def _upsert_port(self, known: Port | None, new: Port) -> None:
        self.ports[new.id] = new
        if known is not None:
            self._release_port(known, keep=new)
        for fixed in new.fixed_ips:
            ports = self._index_of(fixed.subnet_id).ports
            if not ports:
                self._mark_subnet(fixed.subnet_id)
            ports[new.id] = None
        if new.admin_state_up:
            self._claim_port(new)
        self.mark(Kind.PORT, new.id, new.vpc_id)
        for fixed in known.fixed_ips if known else ():
            self._forget_index(fixed.subnet_id)

    def _remove_port(self, known: Port) -> None:
        del self.ports[known.id]
        self._release_port(known, keep=None)
        self.mark(Kind.PORT, known.id, known.vpc_id)
        for fixed in known.fixed_ips:
            # Nobody withdraws the binding of a port that is unbound (fixture 07): it goes with its port.
            self._drop_binding(fixed.subnet_id, known.mac)
            self._forget_index(fixed.subnet_id)

    def _claim_port(self, port: Port) -> None:
        for fixed in port.fixed_ips:
            index = self._index_of(fixed.subnet_id)
            self._mark_port(index.port_addresses.claim(fixed.address, port.id))
            self._mark_port(index.port_macs.claim(port.mac, port.id))
            self._mark_neighbor(index.neighbor_addresses.holder(fixed.address))
            self._mark_neighbor(index.neighbor_macs.holder(port.mac))
            self._address_changed(fixed, index)
            self.mark(Kind.PORT, port.id, port.vpc_id)

    def _release_port(self, known: Port, keep: Port | None) -> None:
        kept = set(keep.fixed_ips) if keep and keep.admin_state_up else set()
        kept_macs = {(fixed.subnet_id, keep.mac) for fixed in kept} if keep else set()
        kept_subnets = {fixed.subnet_id for fixed in keep.fixed_ips} if keep else set()
        for fixed in known.fixed_ips:
            index = self._index_of(fixed.subnet_id)
            if fixed not in kept:
                self._mark_port(index.port_addresses.release(fixed.address, known.id))
                self._mark_neighbor(index.neighbor_addresses.holder(fixed.address))
                self._address_changed(fixed, index)
            if (fixed.subnet_id, known.mac) not in kept_macs:
                self._mark_port(index.port_macs.release(known.mac, known.id))
                self._mark_neighbor(index.neighbor_macs.holder(known.mac))
            if fixed.subnet_id not in kept_subnets:
                index.ports.pop(known.id, None)
                if not index.ports:
                    self._mark_subnet(fixed.subnet_id)

    def _mark_subnet(self, subnet_id: str) -> None:
        """A subnet is programmed as long as a port here is in it."""
        subnet = self.subnets.get(subnet_id)
        if subnet is not None:
            self.mark(Kind.SUBNET, subnet_id, subnet.vpc_id)

    def _mark_port(self, port_id: str | None) -> None:
        if port_id is not None and port_id in self.ports:
            self.mark(Kind.PORT, port_id, self.ports[port_id].vpc_id)

    # -- neighbours ---------------------------------------------------------------------------------------------

    def _upsert_neighbor(self, known: Neighbor | None, new: Neighbor, full: bool) -> Outcome | None:
        if known is not None:
            if 0 < new.revision < known.revision:
                return _out_of_order(new.revision, known.revision)
            if known.vpc_id != new.vpc_id:
                return invalid(f"NEIGHBOR {new.id}: vpc_id cannot change from {known.vpc_id!r}; delete it first")
            if new.revision < known.revision or (known.allowed_pairs and not new.allowed_pairs and not full):
                new = new._replace(
                    revision=max(new.revision, known.revision),
                    allowed_pairs=new.allowed_pairs or (() if full else known.allowed_pairs),
                )
            if new != known:
                self._release_neighbor(known, keep=new)
            else:
                new = known
        self.neighbors[new.id] = new
        changed = new is not known
        mac = new.mac
        for fixed in new.fixed_ips:
            subnet_id, address = fixed
            index = self.index.get(subnet_id)
            if index is None:
                index = self._index_of(subnet_id)
            loser = index.neighbor_addresses.claim(address, new.id)
            if loser is not None:
                self._mark_neighbor(loser)
                changed = True
            loser = index.neighbor_macs.claim(mac, new.id)
            if loser is not None:
                self._mark_neighbor(loser)
                changed = True
            subnet = self.subnets.get(subnet_id)
            if address in self.next_hops or (subnet is not None and not subnet.cidr.contains(address)):
                self._address_changed(fixed, index)
        if changed:
            self._dirty.setdefault(Kind.NEIGHBOR, {})[new.id] = new.vpc_id
            if known is not None and known.fixed_ips != new.fixed_ips:
                self._leave_indexes(known, {fixed.subnet_id for fixed in new.fixed_ips})
        return None

    def _remove_neighbor(self, known: Neighbor) -> None:
        del self.neighbors[known.id]
        self._release_neighbor(known, keep=None)
        self.mark(Kind.NEIGHBOR, known.id, known.vpc_id)
        self._leave_indexes(known, set())

    def _leave_indexes(self, known: Neighbor, kept_subnets: set[str]) -> None:
        for fixed in known.fixed_ips:
            index = self.index.get(fixed.subnet_id)
            if index is not None and fixed.subnet_id not in kept_subnets:
                index.waiting_for_router.discard(known.id)
                self._forget_index(fixed.subnet_id)

    def _release_neighbor(self, known: Neighbor, keep: Neighbor | None) -> None:
        for fixed in known.fixed_ips:
            index = self._index_of(fixed.subnet_id)
            kept_here = keep is not None and any(other.subnet_id == fixed.subnet_id for other in keep.fixed_ips)
            if keep is None or fixed not in keep.fixed_ips:
                self._mark_neighbor(index.neighbor_addresses.release(fixed.address, known.id))
                self._address_changed(fixed, index)
            if not kept_here or (keep is not None and keep.mac != known.mac):
                self._mark_neighbor(index.neighbor_macs.release(known.mac, known.id))

    def _mark_neighbor(self, neighbor_id: str | None) -> None:
        if neighbor_id is not None:
            known = self.neighbors.get(neighbor_id)
            if known is not None:
                self.mark(Kind.NEIGHBOR, neighbor_id, known.vpc_id)

    def _address_changed(self, fixed: FixedIp, index: SubnetIndex) -> None:
        """An address came into use or went out of it: outliers and next hops follow."""
        subnet = self.subnets.get(fixed.subnet_id)
        if subnet is not None and not subnet.cidr.contains(fixed.address):
            if index.uses(fixed.address):
                index.outliers.add(fixed.address)
            else:
                index.outliers.discard(fixed.address)
            self._mark_routers(index.routers)
        self._mark_routers(self.next_hops.get(fixed.address, ()))

    # -- routers ------------------------------------------------------------------------------------------------

    def _upsert_router(self, known: Router | None, new: Router) -> None:
        self.routers[new.id] = new
        if known is not None:
            self._unlink_router(known)
        for table in new.tables:
            index = self._index_of(table.subnet_id)
            if not index.routers:
                self._router_came(index)
            self._mark_routers(index.routers)
            index.routers.add(new.id)
            for rule in table.rules:
                if rule.next_hop is not None:
                    self.next_hops.setdefault(rule.next_hop, set()).add(new.id)
        if known is not None:
            for table in known.tables:
                self._router_went(table.subnet_id)
        self.mark(Kind.ROUTER, new.id, self._router_lane(new))

    def _remove_router(self, known: Router) -> None:
        del self.routers[known.id]
        self._unlink_router(known)
        self.mark(Kind.ROUTER, known.id, self._router_lane(known))
        self._router_lanes.pop(known.id, None)
        for table in known.tables:
            self._router_went(table.subnet_id)

    def _unlink_router(self, known: Router) -> None:
        for table in known.tables:
            self._index_of(table.subnet_id).routers.discard(known.id)
            for rule in table.rules:
                if rule.next_hop is not None:
                    users = self.next_hops.get(rule.next_hop)
                    if users is not None:
                        users.discard(known.id)
                        if not users:
                            del self.next_hops[rule.next_hop]

    def _router_came(self, index: SubnetIndex) -> None:
        for neighbor_id in index.waiting_for_router:
            self._mark_neighbor(neighbor_id)
        index.waiting_for_router.clear()

    def _router_went(self, subnet_id: str) -> None:
        """Routers that shared the subnet take it over; without any, its L3 neighbours wait again."""
        index = self.index.get(subnet_id)
        if index is None:
            return
        self._mark_routers(index.routers)
        if not index.routers:
            for neighbor_id in index.neighbor_ids():
                if self.neighbors[neighbor_id].layer:
                    self._mark_neighbor(neighbor_id)
        self._forget_index(subnet_id)

    def _mark_routers(self, router_ids: Iterable[str]) -> None:
        for router_id in router_ids:
            router = self.routers.get(router_id)
            if router is not None:
                self.mark(Kind.ROUTER, router_id, self._router_lane(router))

    def _router_lane(self, router: Router) -> str:
        """The VPC of the router's first known subnet; empty while there is none, and then nothing is programmed.

        It stays when subnets come and go: what is done to one router has to be done in one order.
        """
        lane = self._router_lanes.get(router.id, "")
        if not lane:
            # Removed and made again before anybody planned it: the removal's order.
            removed_in = self._dirty.get(Kind.ROUTER, {}).get(router.id, "")
            subnet_lanes = (self._subnet_lane(table.subnet_id) for table in router.tables)
            lane = removed_in or next(filter(None, subnet_lanes), "")
            if lane:
                self._router_lanes[router.id] = lane
        return lane

    # -- DHCP ---------------------------------------------------------------------------------------------------

    def _upsert_dhcp(self, known: DhcpBinding | None, new: DhcpBinding) -> None:
        self.dhcp[new.id] = new
        self.mark(Kind.DHCP, new.id, self._subnet_lane(new.subnet_id))
        self._mark_bound_port(new.subnet_id, new.mac)

    def _remove_dhcp(self, known: DhcpBinding) -> None:
        self._drop_binding(known.subnet_id, known.mac)

    def _drop_binding(self, subnet_id: str, mac: bytes) -> None:
        binding = self.dhcp.pop(dhcp_id(subnet_id, mac), None)
        if binding is not None:
            self.mark(Kind.DHCP, binding.id, self._subnet_lane(subnet_id))
            self._mark_bound_port(subnet_id, mac)

    def _mark_bound_port(self, subnet_id: str, mac: bytes) -> None:
        index = self.index.get(subnet_id)
        if index is not None:
            self._mark_port(index.port_macs.holder(mac))

    def _subnet_lane(self, subnet_id: str) -> str:
        subnet = self.subnets.get(subnet_id)
        return subnet.vpc_id if subnet else ""

    # -- index --------------------------------------------------------------------------------------------------

    def _index_of(self, subnet_id: str) -> SubnetIndex:
        index = self.index.get(subnet_id)
        if index is None:
            index = self.index[subnet_id] = SubnetIndex()
        return index

    def _forget_index(self, subnet_id: str) -> None:
        index = self.index.get(subnet_id)
        if index is not None and index.is_unused():
            del self.index[subnet_id]


def _seen_by_neighbors(resolved: SubnetWanted | Outcome | None) -> object:
    """What of a subnet decides how its neighbours are programmed."""
    return (resolved.ref, resolved.subnet.cidr.is_ipv4) if isinstance(resolved, SubnetWanted) else resolved


def _out_of_order(arrived: int, latest: int) -> Outcome:
    return Outcome(Status.OUT_OF_ORDER, f"revision_number {arrived} is older than {latest}, which is known")


def _with_revision(value: Any, revision: int) -> Any:
    return dataclasses.replace(value, revision=revision)
