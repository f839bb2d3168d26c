"""Ports and their DHCP bindings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from aca.goalstate.changes import Change
from aca.goalstate.decode.fields import Refused, address_pairs, display_text, identifier, mac, refuse, unicast_address
from aca.goalstate.decode.head import DELETE, UPDATE, Head, change, received_id, upsert, withdrawal
from dataplane.model import DhcpBinding, FixedIp, Kind, Port, dhcp_id
from goalstate_proto import dhcp_pb2, port_pb2


def decode_port(map_key: str, state: port_pb2.PortState) -> Change:
    """`map_key` is empty for V1. An UPDATE without device_id and device_owner is how a guest's end is told: a deletion
    (contract table, section 2.4)."""
    wire = state.configuration
    operation = state.operation_type
    head = Head(Kind.PORT, received_id(map_key, wire.id), operation, wire.revision_number, wire.update_type)
    if operation == UPDATE and not wire.device_id and not wire.device_owner:
        return withdrawal(head, lambda: identifier("id", head.resource_id), wire.vpc_id)
    return change(head, partial(_port, head, wire), wire.vpc_id)


def _port(head: Head, wire: port_pb2.PortConfiguration) -> Port:
    own_id = identifier("id", head.resource_id)
    vpc_id = identifier("vpc_id", wire.vpc_id)
    own_mac = mac("mac_address", wire.mac_address)
    fixed_ips = tuple(
        dict.fromkeys(
            FixedIp(
                identifier(f"fixed_ips[{index}].subnet_id", one.subnet_id),
                unicast_address(f"fixed_ips[{index}].ip_address", one.ip_address),
            )
            for index, one in enumerate(wire.fixed_ips)
        )
    )
    if not fixed_ips:
        raise Refused("fixed_ips is empty")
    return Port(
        id=own_id,
        revision=head.revision,
        vpc_id=vpc_id,
        name=display_text(wire.name),
        device_id=display_text(wire.device_id),
        device_owner=display_text(wire.device_owner),
        mac=own_mac,
        admin_state_up=wire.admin_state_up,
        fixed_ips=fixed_ips,
        allowed_pairs=address_pairs(wire.allow_address_pairs, own_mac),
        security_group_ids=tuple(
            dict.fromkeys(
                identifier(f"security_group_ids[{index}].id", one.id)
                for index, one in enumerate(wire.security_group_ids)
            )
        ),
    )


def united(changes: Sequence[Change]) -> list[Change]:
    """V1 ports of one message in which the states of one port are united.

    Controllers send a port with several addresses as several states of one address each (contract table, section
    0b.12). States of one id, operation, revision and MAC that no other state of the id comes between become one port
    with all the addresses in order; it stands in the place of each of them, so that each gets its status and applying
    them one after another changes nothing. Other repetitions stay: the last wins.
    """
    result = list(changes)
    runs: dict[str, list[int]] = {}
    for index, one in enumerate(changes):
        if one.error:
            continue
        run = runs.get(one.id)
        if run is None or not _same_port(changes[run[-1]], one):
            runs[one.id] = [index]
            continue
        run.append(index)
        _unite(result, run)
    return result


def _same_port(one: Change, other: Change) -> bool:
    return (
        isinstance(one.value, Port)
        and isinstance(other.value, Port)
        and one.operation == other.operation
        and one.revision == other.revision
        and one.value.mac == other.value.mac
    )


def _unite(changes: list[Change], run: Sequence[int]) -> None:
    ports = [port for index in run if isinstance(port := changes[index].value, Port)]
    addresses = dict.fromkeys(fixed_ip for port in ports for fixed_ip in port.fixed_ips)
    port = replace(ports[-1], fixed_ips=tuple(addresses))
    for index in run:
        changes[index] = changes[index]._replace(value=port)


def decode_dhcp(map_key: str, state: dhcp_pb2.DHCPState) -> Change:
    """`map_key` is empty for V1. Subnet and MAC identify a binding: its id is absent in V1 and new in every V2 message
    (contract table, section 0b.6)."""
    wire = state.configuration
    head = Head(Kind.DHCP, received_id(map_key, wire.id), state.operation_type, wire.revision_number, wire.update_type)
    if head.operation == DELETE:
        return withdrawal(head, lambda: dhcp_id(*_dhcp_identity(wire)))
    return upsert(head, partial(_binding, head, wire))


def _dhcp_identity(wire: dhcp_pb2.DHCPConfiguration) -> tuple[str, bytes]:
    return identifier("subnet_id", wire.subnet_id), mac("mac_address", wire.mac_address)


def _binding(head: Head, wire: dhcp_pb2.DHCPConfiguration) -> DhcpBinding:
    subnet_id, own_mac = _dhcp_identity(wire)
    ipv4 = unicast_address("ipv4_address", wire.ipv4_address) if wire.ipv4_address else None
    ipv6 = unicast_address("ipv6_address", wire.ipv6_address) if wire.ipv6_address else None
    if ipv6 is not None and len(ipv6) != 16:
        refuse("ipv6_address", wire.ipv6_address, "is not an IPv6 address")
    if ipv4 is not None and len(ipv4) == 16:
        # Controllers put the address of an IPv6 port here (contract table, section 0b.6).
        if ipv6 is not None and ipv6 != ipv4:
            refuse("ipv4_address", wire.ipv4_address, "is another IPv6 address than ipv6_address")
        ipv4, ipv6 = None, ipv4
    if ipv4 is None and ipv6 is None:
        raise Refused("ipv4_address and ipv6_address are empty")
    return DhcpBinding(
        subnet_id=subnet_id,
        revision=head.revision,
        mac=own_mac,
        ipv4=ipv4,
        ipv6=ipv6,
        host_name=display_text(wire.port_host_name),
    )
