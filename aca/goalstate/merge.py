"""How a resource that arrives is joined with the one that is known. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any, TypeVar

from aca.goalstate.changes import RouterPatch, TablePatch
from dataplane.base import Outcome, Status
from dataplane.model import DhcpBinding, Gateway, Port, Router, RoutingRule, RoutingTable, SecurityGroup, Subnet, Vpc

Value = TypeVar("Value", Vpc, Subnet, Port, SecurityGroup, DhcpBinding, Gateway)

_NEVER_KEPT = frozenset({"id", "revision", "admin_state_up", "dhcp_enable", "tunnel_id", "rules", "destinations"})
"""Fields whose zero value says something, or whose list is always the whole (contract 0b.7)."""


def merge_delta(known: Value, arrived: Value) -> Value:
    """DELTA: optional fields that the message left unset keep what is known."""
    kept = {
        field.name: getattr(known, field.name)
        for field in dataclasses.fields(arrived)
        if field.name not in _NEVER_KEPT and not getattr(arrived, field.name) and getattr(known, field.name)
    }
    return dataclasses.replace(arrived, **kept) if kept else arrived


def merge_router(known: Router | None, patch: RouterPatch, *, full: bool) -> Router:
    """FULL: the patch is the router. DELTA: its tables' rules are set and withdrawn, other tables stay."""
    tables = {} if known is None or full else {table.subnet_id: table.rules for table in known.tables}
    for table in patch.tables:
        tables[table.subnet_id] = _merge_rules(tables.get(table.subnet_id, ()), table)
    mac = patch.host_dvr_mac or (known.host_dvr_mac if known and not full else None)
    return Router(
        patch.id,
        patch.revision,
        mac,
        # Tables have no order on the wire; sorted, equal routers compare equal.
        tuple(RoutingTable(subnet_id, tables[subnet_id]) for subnet_id in sorted(tables)),
    )


def _merge_rules(known: Iterable[RoutingRule], table: TablePatch) -> tuple[RoutingRule, ...]:
    rules = list(known)
    for gone in table.removals:
        rules = _withdraw(rules, gone)
    for rule in table.upserts:
        rules = [other for other in rules if not _same(other, rule)]
        rules.append(rule)
    return tuple(sorted(rules, key=lambda rule: (rule.destination, rule.priority, rule.id)))


def _same(known: RoutingRule, arrived: RoutingRule) -> bool:
    if known.id and arrived.id:
        return known.id == arrived.id
    return known.destination == arrived.destination and known.priority == arrived.priority


def _withdraw(rules: list[RoutingRule], gone: RoutingRule) -> list[RoutingRule]:
    """A rule may be withdrawn under another id than it was made with (contract 0b.9): then its destination tells."""
    by_id = [rule for rule in rules if not (gone.id and rule.id == gone.id)]
    if len(by_id) < len(rules):
        return by_id
    alike = [
        rule
        for rule in rules
        if rule.destination == gone.destination and rule.priority == gone.priority and rule.next_hop == gone.next_hop
    ]
    if not alike:
        alike = [rule for rule in rules if rule.destination == gone.destination]
    return [rule for rule in rules if rule not in alike]


def strongest(rules: Iterable[RoutingRule]) -> list[RoutingRule]:
    """The winning rule of each destination: smallest priority number first, 0 (unset) last."""
    best: dict[object, RoutingRule] = {}
    for rule in sorted(rules, key=lambda rule: (rule.priority == 0, rule.priority, rule.id)):
        best.setdefault(rule.destination, rule)
    return list(best.values())


def out_of_order(arrived: int, latest: int) -> Outcome:
    return Outcome(Status.OUT_OF_ORDER, f"revision_number {arrived} is older than {latest}, which is known")


def with_revision(value: Any, revision: int) -> Any:
    return dataclasses.replace(value, revision=revision)
