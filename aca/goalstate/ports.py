"""Local ports: what they claim. Functions that change `Records`."""

from __future__ import annotations

from aca.goalstate.bindings import drop_binding
from aca.goalstate.records import Records
from dataplane.model import Kind, Port


def upsert_port(records: Records, known: Port | None, new: Port) -> None:
    records.ports[new.id] = new
    if known is not None:
        release_port(records, known, keep=new)
    for fixed in new.fixed_ips:
        ports = records.index_of(fixed.subnet_id).ports
        if not ports:
            records.mark_subnet(fixed.subnet_id)
        ports[new.id] = None
    if new.admin_state_up:
        claim_port(records, new)
    records.mark(Kind.PORT, new.id, new.vpc_id)
    for fixed in known.fixed_ips if known else ():
        records.forget_index(fixed.subnet_id)


def remove_port(records: Records, known: Port) -> None:
    del records.ports[known.id]
    release_port(records, known, keep=None)
    records.mark(Kind.PORT, known.id, known.vpc_id)
    for fixed in known.fixed_ips:
        # Nobody withdraws the binding of a port that is unbound (fixture 07): it goes with its port.
        drop_binding(records, fixed.subnet_id, known.mac)
        records.forget_index(fixed.subnet_id)


def claim_port(records: Records, port: Port) -> None:
    for fixed in port.fixed_ips:
        index = records.index_of(fixed.subnet_id)
        records.mark_port(index.port_addresses.claim(fixed.address, port.id))
        records.mark_port(index.port_macs.claim(port.mac, port.id))
        records.mark_neighbor(index.neighbor_addresses.holder(fixed.address))
        records.mark_neighbor(index.neighbor_macs.holder(port.mac))
        records.address_changed(fixed, index)
        records.mark(Kind.PORT, port.id, port.vpc_id)


def release_port(records: Records, known: Port, keep: Port | None) -> None:
    kept = set(keep.fixed_ips) if keep and keep.admin_state_up else set()
    kept_macs = {(fixed.subnet_id, keep.mac) for fixed in kept} if keep else set()
    kept_subnets = {fixed.subnet_id for fixed in keep.fixed_ips} if keep else set()
    for fixed in known.fixed_ips:
        index = records.index_of(fixed.subnet_id)
        if fixed not in kept:
            records.mark_port(index.port_addresses.release(fixed.address, known.id))
            records.mark_neighbor(index.neighbor_addresses.holder(fixed.address))
            records.address_changed(fixed, index)
        if (fixed.subnet_id, known.mac) not in kept_macs:
            records.mark_port(index.port_macs.release(known.mac, known.id))
            records.mark_neighbor(index.neighbor_macs.holder(known.mac))
        if fixed.subnet_id not in kept_subnets:
            index.ports.pop(known.id, None)
            if not index.ports:
                records.mark_subnet(fixed.subnet_id)
