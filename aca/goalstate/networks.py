"""VPCs and subnets: what they are, and what follows when they change. Functions that change `Records`."""

from __future__ import annotations

from aca.goalstate.records import Records
from dataplane.base import Outcome, invalid, pending
from dataplane.model import Kind, Segment, Subnet, SubnetRef, SubnetWanted, Vpc


def upsert_vpc(records: Records, known: Vpc | None, new: Vpc) -> None:
    records.vpcs[new.id] = new
    records.mark(Kind.VPC, new.id, new.id)
    for subnet_id in records.vpc_subnets.get(new.id, ()):
        resolve_subnet(records, subnet_id)


def remove_vpc(records: Records, known: Vpc) -> None:
    del records.vpcs[known.id]
    records.mark(Kind.VPC, known.id, known.id)
    for subnet_id in records.vpc_subnets.get(known.id, ()):
        resolve_subnet(records, subnet_id)


def upsert_subnet(records: Records, known: Subnet | None, new: Subnet) -> None:
    records.subnets[new.id] = new
    records.vpc_subnets.setdefault(new.vpc_id, set()).add(new.id)
    if known is None or known.cidr != new.cidr:
        index = records.index.get(new.id)
        if index is not None:
            items = [*index.neighbor_addresses.items(), *index.port_addresses.items()]
            index.outliers = {address for address in items if not new.cidr.contains(address)}
    records.mark(Kind.SUBNET, new.id, new.vpc_id)
    resolve_subnet(records, new.id)


def remove_subnet(records: Records, known: Subnet) -> None:
    del records.subnets[known.id]
    siblings = records.vpc_subnets[known.vpc_id]
    siblings.discard(known.id)
    if not siblings:
        del records.vpc_subnets[known.vpc_id]
    records.mark(Kind.SUBNET, known.id, known.vpc_id)
    resolve_subnet(records, known.id)
    records.forget_index(known.id)


def resolve_subnet(records: Records, subnet_id: str) -> None:
    """Work out the subnet again; if that changes anything, what refers to it is looked at again."""
    subnet = records.subnets.get(subnet_id)
    before = records.resolved.get(subnet_id)
    after = resolution(records, subnet) if subnet else None
    if after == before:
        return
    if after is None:
        records.resolved.pop(subnet_id, None)
    else:
        records.resolved[subnet_id] = after
    if subnet is not None:
        records.mark(Kind.SUBNET, subnet_id, subnet.vpc_id)
    index = records.index.get(subnet_id)
    if index is None:
        return
    for port_id in index.ports:
        records.mark(Kind.PORT, port_id, records.ports[port_id].vpc_id)
    records.mark_routers(index.routers)
    if _seen_by_neighbors(before) != _seen_by_neighbors(after):
        for neighbor_id in index.neighbor_ids():
            records.mark(Kind.NEIGHBOR, neighbor_id, records.neighbors[neighbor_id].vpc_id)


def resolution(records: Records, subnet: Subnet) -> SubnetWanted | Outcome:
    network_type = records.default_network_type if subnet.network_type is None else subnet.network_type
    supported = records.capabilities.network_types
    if network_type not in supported:
        names = ", ".join(sorted(known.name for known in supported))
        why = records.capabilities.lacks.get(network_type, "not supported here")
        verb = "is" if len(supported) == 1 else "are"
        return invalid(f"SUBNET {subnet.id}: network_type {network_type.name} is {why} ({names} {verb})")
    vpc = records.vpcs.get(subnet.vpc_id)
    tunnel_id = subnet.tunnel_id or (vpc.tunnel_id if vpc else 0)
    if not tunnel_id:
        if vpc is None:
            return pending(f"SUBNET {subnet.id}: tunnel_id is 0, waits for the one of VPC {subnet.vpc_id}")
        return invalid(f"SUBNET {subnet.id}: tunnel_id is 0, and VPC {subnet.vpc_id} has none either")
    return SubnetWanted(subnet, SubnetRef(subnet.id, Segment(network_type, tunnel_id)))


def _seen_by_neighbors(resolved: SubnetWanted | Outcome | None) -> object:
    """What of a subnet decides how its neighbours are programmed."""
    return (resolved.ref, resolved.subnet.cidr.is_ipv4) if isinstance(resolved, SubnetWanted) else resolved
