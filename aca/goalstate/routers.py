"""Routers: which subnets they serve, which next hops they wait for. Functions that change `Records`."""

from __future__ import annotations

from aca.goalstate.index import SubnetIndex
from aca.goalstate.records import Records
from dataplane.model import Kind, Router


def upsert_router(records: Records, known: Router | None, new: Router) -> None:
    records.routers[new.id] = new
    if known is not None:
        unlink_router(records, known)
    for table in new.tables:
        index = records.index_of(table.subnet_id)
        if not index.routers:
            router_came(records, index)
        records.mark_routers(index.routers)
        index.routers.add(new.id)
        for rule in table.rules:
            if rule.next_hop is not None:
                records.next_hops.setdefault(rule.next_hop, set()).add(new.id)
    if known is not None:
        for table in known.tables:
            router_went(records, table.subnet_id)
    records.mark(Kind.ROUTER, new.id, records.router_lane(new))


def remove_router(records: Records, known: Router) -> None:
    del records.routers[known.id]
    unlink_router(records, known)
    records.mark(Kind.ROUTER, known.id, records.router_lane(known))
    records.router_lanes.pop(known.id, None)
    for table in known.tables:
        router_went(records, table.subnet_id)


def unlink_router(records: Records, known: Router) -> None:
    for table in known.tables:
        records.index_of(table.subnet_id).routers.discard(known.id)
        for rule in table.rules:
            if rule.next_hop is not None:
                users = records.next_hops.get(rule.next_hop)
                if users is not None:
                    users.discard(known.id)
                    if not users:
                        del records.next_hops[rule.next_hop]


def router_came(records: Records, index: SubnetIndex) -> None:
    for neighbor_id in index.waiting_for_router:
        records.mark_neighbor(neighbor_id)
    index.waiting_for_router.clear()


def router_went(records: Records, subnet_id: str) -> None:
    """Routers that shared the subnet take it over; without any, its L3 neighbours wait again."""
    index = records.index.get(subnet_id)
    if index is None:
        return
    records.mark_routers(index.routers)
    if not index.routers:
        for neighbor_id in index.neighbor_ids():
            if records.neighbors[neighbor_id].layer:
                records.mark_neighbor(neighbor_id)
    records.forget_index(subnet_id)
