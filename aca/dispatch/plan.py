"""What has to be programmed, in which order. Pure: desired state and what changed in, batches out.

Order within one VPC's work, and why:

  upserts   SUBNET, ROUTER, PORT, NEIGHBOR, DHCP   a port's frames meet their gateway and routes from the first one on;
                                                   DHCP last: a guest that has an address can use it
  removals  DHCP, NEIGHBOR, PORT, ROUTER, SUBNET   the reverse, for the same reason

VPC, security group and gateway states are remembered and shape the others; no data plane programs them by themselves.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from aca.goalstate.desired import DesiredState
from aca.goalstate.merge import strongest
from aca.goalstate.records import Dirty
from dataplane.addresses import format_address
from dataplane.base import DONE, Batch, Outcome, invalid, pending
from dataplane.model import (
    DhcpWanted,
    FixedIp,
    Gateway,
    Key,
    Kind,
    Neighbor,
    NeighborWanted,
    Port,
    PortWanted,
    Route,
    RoutedSubnet,
    Router,
    RouterWanted,
    RoutingTable,
    SubnetRef,
    SubnetWanted,
    Wanted,
    dhcp_id,
)

UPSERT_ORDER = (Kind.SUBNET, Kind.ROUTER, Kind.PORT, Kind.NEIGHBOR, Kind.DHCP)
REMOVAL_ORDER = tuple(reversed(UPSERT_ORDER))



class Absence(enum.Enum):
    """Why nothing is to be programmed of a resource."""

    DELETED = "deleted"
    WITHHELD = "withheld"
    """It is wanted, but cannot be programmed as things are."""


LaneWork = dict[Kind, dict[str, Wanted | Absence]]
"""Kind -> id -> what is wanted."""


@dataclass(slots=True)
class Plan:
    """`lanes` is the work by VPC. `verdicts` are resources programmed in part or not at all, with the reason: their
    answer is not simply what the data plane says. `settled` are resources with nothing to program, and their answers.
    """

    lanes: dict[str, LaneWork] = field(default_factory=dict)
    verdicts: dict[Key, Outcome] = field(default_factory=dict)
    settled: dict[Key, Outcome] = field(default_factory=dict)

    def add(self, lane: str, kind: Kind, resource_id: str, wanted: Wanted | Absence) -> None:
        self.lanes.setdefault(lane, {}).setdefault(kind, {})[resource_id] = wanted


def make_plan(state: DesiredState, dirty: Dirty) -> Plan:
    plan = Plan()
    for kind in (Kind.VPC, Kind.SECURITYGROUP):
        plan.settled.update((Key(kind, resource_id), DONE) for resource_id in dirty.get(kind, ()))
    for resource_id in dirty.get(Kind.GATEWAY, ()):
        plan.settled[Key(Kind.GATEWAY, resource_id)] = _gateway_verdict(state, state.gateways.get(resource_id))
    for resource_id, lane in dirty.get(Kind.SUBNET, {}).items():
        _plan_subnet(state, plan, resource_id, lane)
    for resource_id, lane in dirty.get(Kind.ROUTER, {}).items():
        _plan_router(state, plan, resource_id, lane)
    for resource_id, lane in dirty.get(Kind.PORT, {}).items():
        _plan_port(state, plan, resource_id, lane)
    _plan_neighbors(state, plan, dirty.get(Kind.NEIGHBOR, {}))
    for resource_id in dirty.get(Kind.DHCP, {}):
        plan.settled[Key(Kind.DHCP, resource_id)] = DONE
    return plan


def _gateway_verdict(state: DesiredState, gateway: Gateway | None) -> Outcome:
    if gateway is None or state.capabilities.gateways:
        return DONE
    kind = gateway.gateway_kind.name
    return invalid(f"GATEWAY {gateway.id}: {kind} gateways are not programmed by this data plane; remembered")


def _plan_subnet(state: DesiredState, plan: Plan, subnet_id: str, lane: str) -> None:
    resolved = state.resolved.get(subnet_id)
    if isinstance(resolved, SubnetWanted):
        # Only guests of this host ask for its gateway.
        plan.add(lane, Kind.SUBNET, subnet_id, resolved if state.is_used_here(subnet_id) else Absence.WITHHELD)
        gateway = resolved.subnet.gateway_address
        if gateway is not None and len(gateway) == 16 and not state.capabilities.ipv6:
            plan.verdicts[Key(Kind.SUBNET, subnet_id)] = invalid(_no_ipv6(f"SUBNET {subnet_id}", "gateway", gateway))
        return
    plan.add(lane, Kind.SUBNET, subnet_id, Absence.WITHHELD if subnet_id in state.subnets else Absence.DELETED)
    if resolved is not None:
        plan.verdicts[Key(Kind.SUBNET, subnet_id)] = resolved


def _no_ipv6(resource: str, name: str, address: bytes) -> str:
    return f"{resource}: {name} {format_address(address)}: IPv6 is not programmed by this data plane"


# -- ports ------------------------------------------------------------------------------------------------------


def _plan_port(state: DesiredState, plan: Plan, port_id: str, lane: str) -> None:
    port = state.ports.get(port_id)
    wanted, verdict = _resolve_port(state, port) if port else (None, None)
    absence = Absence.WITHHELD if port else Absence.DELETED
    plan.add(lane, Kind.PORT, port_id, wanted or absence)
    if verdict is not None:
        plan.verdicts[Key(Kind.PORT, port_id)] = verdict
    served = wanted is not None and wanted.port.admin_state_up and _has_dhcp(state, wanted.port)
    plan.add(lane, Kind.DHCP, port_id, DhcpWanted(port_id) if served else absence)


def _has_dhcp(state: DesiredState, port: Port) -> bool:
    return any(dhcp_id(fixed.subnet_id, port.mac) in state.dhcp for fixed in port.fixed_ips)


def _resolve_port(state: DesiredState, port: Port) -> tuple[PortWanted | None, Outcome | None]:
    """The port with those of its addresses that can be programmed, and what is wrong with the others."""
    resource = f"PORT {port.id}"
    problems: list[Outcome] = []
    subnets: dict[str, SubnetWanted] = {}
    usable: list[FixedIp] = []
    for fixed in port.fixed_ips:
        resolved = state.resolved.get(fixed.subnet_id)
        if not isinstance(resolved, SubnetWanted):
            problems.append(state.why_unusable(fixed.subnet_id))
            continue
        problem = _misfit(state, resource, port.vpc_id, fixed, resolved)
        if problem is not None:
            problems.append(problem)
        if resolved.subnet.vpc_id != port.vpc_id:
            continue
        subnets[fixed.subnet_id] = resolved
        if len(fixed.address) == len(resolved.subnet.cidr.address):
            usable.append(fixed)
    verdict = _worst(problems)
    if not subnets or not usable:
        return None, verdict
    indexes = state.index
    held = tuple(
        fixed
        for fixed in usable
        if port.admin_state_up and indexes[fixed.subnet_id].port_addresses.holder(fixed.address) == port.id
    )
    mac_held = frozenset(name for name in subnets if indexes[name].port_macs.holder(port.mac) == port.id)
    complete = len(usable) == len(port.fixed_ips)
    trimmed = port if complete else replace(port, fixed_ips=tuple(usable))
    return PortWanted(trimmed, tuple(subnets.values()), held, mac_held, complete), verdict


def _misfit(
    state: DesiredState, resource: str, vpc_id: str, fixed: FixedIp, resolved: SubnetWanted
) -> Outcome | None:
    """What is wrong between an address and its subnet, if anything."""
    subnet = resolved.subnet
    address = format_address(fixed.address)
    if vpc_id and subnet.vpc_id != vpc_id:
        return invalid(f"{resource}: fixed_ips {address}: subnet {subnet.id} is in VPC {subnet.vpc_id}, not {vpc_id}")
    if len(fixed.address) != len(subnet.cidr.address):
        family = "IPv4" if subnet.cidr.is_ipv4 else "IPv6"
        return invalid(f"{resource}: fixed_ips {address} does not fit subnet {subnet.id}, which is {family}")
    if len(fixed.address) == 16 and not state.capabilities.ipv6:
        return invalid(_no_ipv6(resource, "fixed_ips", fixed.address))
    return None


_SEVERITY = ("invalid", "failed", "pending")


def _worst(problems: Iterable[Outcome]) -> Outcome | None:
    """One outcome for several: the gravest status, all its reasons."""
    distinct = list(dict.fromkeys(problems))
    if not distinct:
        return None
    status = min((problem.status for problem in distinct), key=lambda status: _SEVERITY.index(status.value))
    return Outcome(status, "; ".join(problem.reason for problem in distinct if problem.status is status))


# -- neighbours -------------------------------------------------------------------------------------------------


def _plan_neighbors(state: DesiredState, plan: Plan, marked: Mapping[str, str]) -> None:
    """The hot path: a neighbour of one IPv4 address that nobody contests costs a few look-ups and one tuple."""
    new, neighbors, local_hosts = tuple.__new__, state.neighbors, state.local_hosts
    plain: dict[str, _Plain] = {}
    nothing_lost: frozenset[tuple[str, bytes]] = frozenset()
    lane_work: dict[str, dict[str, Wanted | Absence]] = {}
    for neighbor_id, lane in marked.items():
        work = lane_work.get(lane)
        if work is None:
            work = lane_work[lane] = plan.lanes.setdefault(lane, {}).setdefault(Kind.NEIGHBOR, {})
        neighbor = neighbors.get(neighbor_id)
        if neighbor is None:
            work[neighbor_id] = Absence.DELETED
            continue
        _, _, vpc_id, mac, host, fixed_ips, layer, _ = neighbor
        if len(fixed_ips) == 1 and host not in local_hosts:
            subnet_id, address = fixed_ips[0]
            known = plain.get(subnet_id)
            if known is None:
                known = plain[subnet_id] = _Plain(state, subnet_id)
            if (
                vpc_id == known.vpc_id
                and len(address) == 4
                and len(host) == 4
                and known.addresses.get(address) == neighbor_id
                and known.macs.get(mac) == neighbor_id
                and address not in known.port_addresses
                and mac not in known.port_macs
                and (known.routed or not layer)
            ):
                work[neighbor_id] = new(NeighborWanted, (neighbor, known.refs, nothing_lost))
                continue
        wanted, verdict = _resolve_neighbor(state, neighbor)
        work[neighbor_id] = wanted or Absence.WITHHELD
        if verdict is not None:
            plan.verdicts[Key(Kind.NEIGHBOR, neighbor_id)] = verdict


class _Plain:
    """What the hot path asks of an IPv4 subnet; no neighbour is of its VPC if it cannot be used."""

    __slots__ = ("addresses", "macs", "port_addresses", "port_macs", "refs", "routed", "vpc_id")

    def __init__(self, state: DesiredState, subnet_id: str) -> None:
        index = state.index[subnet_id]
        self.addresses, self.macs = index.neighbor_addresses.cells, index.neighbor_macs.cells
        self.port_addresses, self.port_macs = index.port_addresses.cells, index.port_macs.cells
        self.routed = bool(index.routers)
        resolved = state.resolved.get(subnet_id)
        usable = isinstance(resolved, SubnetWanted) and resolved.subnet.cidr.is_ipv4
        self.refs = (resolved.ref,) if isinstance(resolved, SubnetWanted) else ()
        self.vpc_id = resolved.subnet.vpc_id if isinstance(resolved, SubnetWanted) and usable else None


def _resolve_neighbor(state: DesiredState, neighbor: Neighbor) -> tuple[NeighborWanted | None, Outcome | None]:
    resource = f"NEIGHBOR {neighbor.id}"
    if neighbor.host in state.local_hosts:
        return None, None
    if len(neighbor.host) == 16 and not state.capabilities.ipv6:
        return None, invalid(_no_ipv6(resource, "host_ip_address", neighbor.host))
    problems: list[Outcome] = []
    refs: dict[SubnetRef, None] = {}
    lost: set[tuple[str, bytes]] = set()
    for fixed in neighbor.fixed_ips:
        resolved = state.resolved.get(fixed.subnet_id)
        index = state.index[fixed.subnet_id]
        if neighbor.layer and not index.routers:
            index.waiting_for_router.add(neighbor.id)
            problems.append(pending(f"waits for a router on subnet {fixed.subnet_id}"))
        if not isinstance(resolved, SubnetWanted):
            problems.append(state.why_unusable(fixed.subnet_id))
            continue
        problem = _misfit(state, resource, neighbor.vpc_id, fixed, resolved)
        if problem is not None:
            problems.append(problem)
        if neighbor.vpc_id and resolved.subnet.vpc_id != neighbor.vpc_id:
            continue
        refs[resolved.ref] = None
        held = index.neighbor_addresses.holder(fixed.address) == neighbor.id
        fits = len(fixed.address) == len(resolved.subnet.cidr.address)
        if not (fits and held) or fixed.address in index.port_addresses:
            lost.add(fixed)
        if index.neighbor_macs.holder(neighbor.mac) != neighbor.id or neighbor.mac in index.port_macs:
            lost.add((fixed.subnet_id, neighbor.mac))
    wanted = NeighborWanted(neighbor, tuple(refs), frozenset(lost))
    return wanted if wanted.addresses or wanted.mac_subnets else None, _worst(problems)


# -- routers ----------------------------------------------------------------------------------------------------


def _plan_router(state: DesiredState, plan: Plan, router_id: str, lane: str) -> None:
    router = state.routers.get(router_id)
    wanted, verdict = _resolve_router(state, router) if router else (None, None)
    if not lane and router is not None:
        # None of its subnets is known, and none ever was.
        plan.settled[Key(Kind.ROUTER, router_id)] = verdict or DONE
        return
    plan.add(lane, Kind.ROUTER, router_id, wanted or (Absence.WITHHELD if router else Absence.DELETED))
    if verdict is not None:
        plan.verdicts[Key(Kind.ROUTER, router_id)] = verdict


def _resolve_router(state: DesiredState, router: Router) -> tuple[RouterWanted | None, Outcome | None]:
    problems: list[Outcome] = []
    present: list[tuple[RoutingTable, SubnetWanted]] = []
    for table in router.tables:
        resolved = state.resolved.get(table.subnet_id)
        serving = state.router_of(table.subnet_id)
        if serving != router.id:
            problems.append(
                invalid(f"ROUTER {router.id}: subnet {table.subnet_id} is already served by router {serving}")
            )
        elif not isinstance(resolved, SubnetWanted):
            problems.append(state.why_unusable(table.subnet_id))
        else:
            if resolved.subnet.gateway_mac is None:
                problems.append(pending(f"waits for a gateway (address and MAC) of subnet {table.subnet_id}"))
            present.append((table, resolved))
    connected = [resolved for _, resolved in present]
    subnets = []
    for table, resolved in present:
        routes = []
        for rule in strongest(table.rules):
            if rule.next_hop is None:
                problems.append(pending(f"rule {rule.id}: {rule.destination} has no next hop, waits for a gateway"))
                continue
            if len(rule.next_hop) == 16 and not state.capabilities.ipv6:
                problems.append(invalid(_no_ipv6(f"ROUTER {router.id}", f"rule {rule.id}", rule.next_hop)))
                continue
            subnet, known = _subnet_of_next_hop(state, connected, rule.next_hop)
            if not known:
                problems.append(pending(f"next hop {format_address(rule.next_hop)} of {rule.destination} is not known"))
            if subnet is not None:
                routes.append(Route(rule.destination, rule.next_hop, subnet.ref))
        outliers = tuple(sorted(state.index[table.subnet_id].outliers))
        subnets.append(RoutedSubnet(resolved, tuple(routes), outliers))
    return RouterWanted(router, tuple(subnets)) if subnets else None, _worst(problems)


def _subnet_of_next_hop(
    state: DesiredState, connected: Iterable[SubnetWanted], next_hop: bytes
) -> tuple[SubnetWanted | None, bool]:
    """The connected subnet in which the next hop lives, and whether somebody there is known to have the address."""
    by_prefix = None
    for subnet in connected:
        if state.index[subnet.id].uses(next_hop):
            return subnet, True
        if by_prefix is None and subnet.subnet.cidr.contains(next_hop):
            by_prefix = subnet
    return by_prefix, False


def batches_of(work: LaneWork) -> list[Batch]:
    """A lane's work as batches in dependency order: upserts first, so that what moves is never without a place."""
    upserts = [
        Batch(kind, upserts=wanted)
        for kind in UPSERT_ORDER
        if (wanted := [item for item in work.get(kind, {}).values() if not isinstance(item, Absence)])
    ]
    absent = [
        Batch(kind, removals=_absent(work, kind, Absence.DELETED), withheld=_absent(work, kind, Absence.WITHHELD))
        for kind in REMOVAL_ORDER
    ]
    return upserts + [batch for batch in absent if batch.removals or batch.withheld]


def _absent(work: LaneWork, kind: Kind, absence: Absence) -> list[str]:
    return [resource_id for resource_id, item in work.get(kind, {}).items() if item is absence]
