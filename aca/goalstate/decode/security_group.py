"""Security groups."""

from __future__ import annotations

from functools import partial
from typing import Final

from aca.goalstate.changes import Change
from aca.goalstate.decode.fields import (
    Refused,
    at_most,
    display_text,
    identifier,
    one_of,
    optional_identifier,
    prefix,
    refuse,
    shown,
)
from aca.goalstate.decode.head import DELETE, FULL, UPDATE_TYPES, Head, change, checked_operation, received_id
from dataplane.model import Direction, Kind, SecurityGroup, SecurityGroupRule
from goalstate_proto import common_pb2, securitygroup_pb2

_WireRule = securitygroup_pb2.SecurityGroupConfiguration.SecurityGroupRule
_DIRECTIONS: Final = frozenset(Direction)
_ETHER_TYPES: Final = frozenset(common_pb2.EtherType.values())
_ICMP: Final = 1
_ICMPV6: Final = 58
_PROTOCOLS: Final = {common_pb2.TCP: 6, common_pb2.UDP: 17, common_pb2.ICMP: _ICMP}
"""Numbers of the IANA protocol registry. HTTP and ARP cannot be the protocol of an IP packet."""
_MAX_PORT: Final = 0xFFFF
_MAX_ICMP: Final = 0xFF


def decode_security_group(map_key: str, state: securitygroup_pb2.SecurityGroupState) -> Change:
    """`map_key` is empty for V1. The rules are always the whole group, whatever update_type says (contract table,
    section 0b.7), so the change is a full one."""
    wire = state.configuration
    update_type = FULL if wire.update_type in UPDATE_TYPES else wire.update_type
    head = Head(
        Kind.SECURITYGROUP, received_id(map_key, wire.id), state.operation_type, wire.revision_number, update_type
    )
    return change(head, partial(_group, head, wire))


def _group(head: Head, wire: securitygroup_pb2.SecurityGroupConfiguration) -> SecurityGroup:
    rules = (
        _rule(rule, f"rule {shown(rule.id) if rule.id else index}: ")
        for index, rule in enumerate(wire.security_group_rules)
    )
    return SecurityGroup(
        id=identifier("id", head.resource_id),
        revision=head.revision,
        vpc_id=optional_identifier("vpc_id", wire.vpc_id),
        name=display_text(wire.name),
        rules=tuple(rule for rule in rules if rule is not None),
    )


def _rule(wire: _WireRule, where: str) -> SecurityGroupRule | None:
    """None for a rule that is withdrawn. Raises Refused; `where` names the rule."""
    try:
        if checked_operation(wire.operation_type) == DELETE:
            return None
    except Refused as problem:
        raise Refused(f"{where}{problem}") from None
    ipv6 = one_of(f"{where}ethertype", wire.ethertype, _ETHER_TYPES) == common_pb2.IPV6
    protocol = _protocol(wire, where)
    if protocol == _ICMP:
        # Type and code, no range.
        at_most(f"{where}port_range_min", wire.port_range_min, _MAX_ICMP)
        at_most(f"{where}port_range_max", wire.port_range_max, _MAX_ICMP)
    else:
        at_most(f"{where}port_range_max", wire.port_range_max, _MAX_PORT)
        at_most(f"{where}port_range_min", wire.port_range_min, wire.port_range_max)
    remote = prefix(f"{where}remote_ip_prefix", wire.remote_ip_prefix) if wire.remote_ip_prefix else None
    if remote is not None and remote.is_ipv4 == ipv6:
        refuse(f"{where}remote_ip_prefix", wire.remote_ip_prefix, f"is not of ethertype {'IPV6' if ipv6 else 'IPV4'}")
    return SecurityGroupRule(
        id=optional_identifier(f"{where}id", wire.id),
        direction=Direction(one_of(f"{where}direction", wire.direction, _DIRECTIONS)),
        ipv6=ipv6,
        protocol=_ICMPV6 if ipv6 and protocol == _ICMP else protocol,
        port_min=wire.port_range_min,
        port_max=wire.port_range_max,
        remote_prefix=remote,
        remote_group_id=optional_identifier(f"{where}remote_group_id", wire.remote_group_id),
    )


def _protocol(wire: _WireRule, where: str) -> int | None:
    if wire.protocol == common_pb2.TCP and not wire.port_range_min and not wire.port_range_max:
        # "Any" has no number: it is left unset, which reads as TCP (contract table, section 0b.7).
        return None
    protocol = _PROTOCOLS.get(wire.protocol)
    if protocol is None:
        known = wire.protocol in common_pb2.Protocol.values()
        name = common_pb2.Protocol.Name(wire.protocol) if known else wire.protocol
        raise Refused(f"{where}protocol {name} is not supported")
    return protocol
