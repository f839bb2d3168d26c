"""Neighbours: what they claim. What is plain and new goes by `bulk` instead. Functions that change `Records`."""

from __future__ import annotations

from aca.goalstate.merge import out_of_order
from aca.goalstate.records import Records
from dataplane.base import Outcome, invalid
from dataplane.model import Kind, Neighbor


def upsert_neighbor(records: Records, known: Neighbor | None, new: Neighbor, full: bool) -> Outcome | None:
    if known is not None:
        if 0 < new.revision < known.revision:
            return out_of_order(new.revision, known.revision)
        if known.vpc_id != new.vpc_id:
            return invalid(f"NEIGHBOR {new.id}: vpc_id cannot change from {known.vpc_id!r}; delete it first")
        if new.revision < known.revision or (known.allowed_pairs and not new.allowed_pairs and not full):
            new = new._replace(
                revision=max(new.revision, known.revision),
                allowed_pairs=new.allowed_pairs or (() if full else known.allowed_pairs),
            )
        if new != known:
            release_neighbor(records, known, keep=new)
        else:
            new = known
    records.neighbors[new.id] = new
    changed = new is not known
    mac = new.mac
    for fixed in new.fixed_ips:
        subnet_id, address = fixed
        index = records.index.get(subnet_id)
        if index is None:
            index = records.index_of(subnet_id)
        loser = index.neighbor_addresses.claim(address, new.id)
        if loser is not None:
            records.mark_neighbor(loser)
            changed = True
        loser = index.neighbor_macs.claim(mac, new.id)
        if loser is not None:
            records.mark_neighbor(loser)
            changed = True
        subnet = records.subnets.get(subnet_id)
        if address in records.next_hops or (subnet is not None and not subnet.cidr.contains(address)):
            records.address_changed(fixed, index)
    if changed:
        records.dirty.setdefault(Kind.NEIGHBOR, {})[new.id] = new.vpc_id
        if known is not None and known.fixed_ips != new.fixed_ips:
            leave_indexes(records, known, {fixed.subnet_id for fixed in new.fixed_ips})
    return None


def remove_neighbor(records: Records, known: Neighbor) -> None:
    del records.neighbors[known.id]
    release_neighbor(records, known, keep=None)
    records.mark(Kind.NEIGHBOR, known.id, known.vpc_id)
    leave_indexes(records, known, set())


def leave_indexes(records: Records, known: Neighbor, kept_subnets: set[str]) -> None:
    for fixed in known.fixed_ips:
        index = records.index.get(fixed.subnet_id)
        if index is not None and fixed.subnet_id not in kept_subnets:
            index.waiting_for_router.discard(known.id)
            records.forget_index(fixed.subnet_id)


def release_neighbor(records: Records, known: Neighbor, keep: Neighbor | None) -> None:
    for fixed in known.fixed_ips:
        index = records.index_of(fixed.subnet_id)
        kept_here = keep is not None and any(other.subnet_id == fixed.subnet_id for other in keep.fixed_ips)
        if keep is None or fixed not in keep.fixed_ips:
            records.mark_neighbor(index.neighbor_addresses.release(fixed.address, known.id))
            records.address_changed(fixed, index)
        if not kept_here or (keep is not None and keep.mac != known.mac):
            records.mark_neighbor(index.neighbor_macs.release(known.mac, known.id))
