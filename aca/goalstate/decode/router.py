"""Routers, their routing tables and rules."""

from __future__ import annotations

from functools import partial
from typing import Final

from aca.goalstate.changes import Change, RouterPatch, TablePatch
from aca.goalstate.decode.fields import (
    Refused,
    display_text,
    identifier,
    mac,
    one_of,
    optional_identifier,
    prefix,
    refuse,
    shown,
    unicast_address,
)
from aca.goalstate.decode.head import DELETE, Head, change, checked_operation, received_id
from dataplane.addresses import Prefix
from dataplane.model import Kind, RoutingRule
from goalstate_proto import router_pb2

NO_DESTINATION: Final = Prefix(b"", 0)
"""In a withdrawn rule that has an id but no destination: equal to no real prefix."""
_DESTINATION_TYPES: Final = frozenset(router_pb2.DestinationType.values())


def decode_router(map_key: str, state: router_pb2.RouterState) -> Change:
    """`map_key` is empty for V1."""
    wire = state.configuration
    head = Head(
        Kind.ROUTER, received_id(map_key, wire.id), state.operation_type, wire.revision_number, wire.update_type
    )
    return change(head, partial(_router, head, wire))


def _router(head: Head, wire: router_pb2.RouterConfiguration) -> RouterPatch:
    tables: dict[str, _Table] = {}
    for index, table in enumerate(wire.subnet_routing_tables):
        subnet_id = identifier(f"subnet_routing_tables[{index}].subnet_id", table.subnet_id)
        # A table per port and not per subnet is what controllers send (contract table, section 0b.9).
        rules = tables.setdefault(subnet_id, _Table())
        for position, rule in enumerate(table.routing_rules):
            rules.add(rule, f"rule {shown(rule.id) if rule.id else position} of subnet {subnet_id}: ")
    return RouterPatch(
        id=identifier("id", head.resource_id),
        revision=head.revision,
        host_dvr_mac=mac("host_dvr_mac_address", wire.host_dvr_mac_address) if wire.host_dvr_mac_address else None,
        tables=tuple(rules.patch(subnet_id) for subnet_id, rules in tables.items()),
    )


class _Table:
    """The rules of one subnet as they come: a later rule overrules an earlier one of the same message, so that the
    removals can be applied first and the upserts after them."""

    def __init__(self) -> None:
        self._upserts: dict[str | Prefix, RoutingRule] = {}
        self._removals: dict[RoutingRule, None] = {}

    def add(self, wire: router_pb2.RouterConfiguration.RoutingRule, where: str) -> None:
        """Raises Refused; `where` names the rule in the message."""
        try:
            operation = checked_operation(wire.operation_type)
        except Refused as problem:
            raise Refused(f"{where}{problem}") from None
        rule_id = optional_identifier(f"{where}id", wire.id)
        if operation == DELETE:
            self._remove(_withdrawn_rule(wire, rule_id, where))
        else:
            rule = _rule(wire, rule_id, where)
            self._upserts[rule.id or rule.destination] = rule

    def _remove(self, rule: RoutingRule) -> None:
        self._removals[rule] = None
        if rule.id and self._upserts.pop(rule.id, None) is not None:
            return
        for key in [key for key, known in self._upserts.items() if known.destination == rule.destination]:
            del self._upserts[key]

    def patch(self, subnet_id: str) -> TablePatch:
        return TablePatch(subnet_id, tuple(self._upserts.values()), tuple(self._removals))


def _rule(wire: router_pb2.RouterConfiguration.RoutingRule, rule_id: str, where: str) -> RoutingRule:
    destination = prefix(f"{where}destination", wire.destination)
    next_hop = unicast_address(f"{where}next_hop_ip", wire.next_hop_ip) if wire.next_hop_ip else None
    if next_hop is not None and len(next_hop) != len(destination.address):
        refuse(f"{where}next_hop_ip", wire.next_hop_ip, f"is of another family than destination {destination}")
    kind = one_of(f"{where}destination_type", wire.routing_rule_extra_info.destination_type, _DESTINATION_TYPES)
    return RoutingRule(
        id=rule_id,
        name=display_text(wire.name),
        destination=destination,
        next_hop=next_hop,
        priority=wire.priority,
        to_internet=kind == router_pb2.INTERNET,
    )


def _withdrawn_rule(wire: router_pb2.RouterConfiguration.RoutingRule, rule_id: str, where: str) -> RoutingRule:
    """Only what a withdrawn rule is matched by: id and destination, one of which must be good."""
    try:
        destination = prefix(f"{where}destination", wire.destination)
    except Refused:
        if not rule_id:
            raise
        destination = NO_DESTINATION
    return RoutingRule(rule_id, display_text(wire.name), destination, None, wire.priority, True)
