"""VPCs, subnets and gateways."""

from __future__ import annotations

from functools import partial
from typing import Final

from aca.goalstate.changes import Change
from aca.goalstate.decode.fields import (
    MAX_TUNNEL_ID,
    MAX_UDP_PORT,
    MAX_VLAN_ID,
    Refused,
    address,
    at_most,
    display_text,
    identifier,
    mac,
    one_of,
    optional_identifier,
    prefix,
    refuse,
    unicast_address,
)
from aca.goalstate.decode.head import DELETE, FULL, Head, change, received_id, upsert, withdrawal
from dataplane.addresses import Prefix
from dataplane.model import Gateway, GatewayDestination, GatewayKind, Kind, NetworkType, Subnet, Vpc
from goalstate_proto import gateway_pb2, subnet_pb2, vpc_pb2

_NETWORK_TYPES: Final = frozenset(NetworkType)
_GATEWAY_KINDS: Final = frozenset(GatewayKind)


def decode_vpc(map_key: str, state: vpc_pb2.VpcState) -> Change:
    """`map_key` is empty for V1."""
    wire = state.configuration
    head = Head(Kind.VPC, received_id(map_key, wire.id), state.operation_type, wire.revision_number, wire.update_type)
    return change(head, partial(_vpc, head, wire))


def _vpc(head: Head, wire: vpc_pb2.VpcConfiguration) -> Vpc:
    return Vpc(
        id=identifier("id", head.resource_id),
        revision=head.revision,
        project_id=display_text(wire.project_id),
        name=display_text(wire.name),
        cidr=prefix("cidr", wire.cidr) if wire.cidr else None,
        tunnel_id=at_most("tunnel_id", wire.tunnel_id, MAX_TUNNEL_ID),
        gateway_ids=tuple(
            dict.fromkeys(identifier(f"gateway_ids[{index}]", one) for index, one in enumerate(wire.gateway_ids))
        ),
    )


def decode_subnet(map_key: str, state: subnet_pb2.SubnetState) -> Change:
    """`map_key` is empty for V1."""
    wire = state.configuration
    head = Head(
        Kind.SUBNET, received_id(map_key, wire.id), state.operation_type, wire.revision_number, wire.update_type
    )
    return change(head, partial(_subnet, head, wire), wire.vpc_id)


def _subnet(head: Head, wire: subnet_pb2.SubnetConfiguration) -> Subnet:
    own_id = identifier("id", head.resource_id)
    vpc_id = identifier("vpc_id", wire.vpc_id)
    network_type = NetworkType(one_of("network_type", wire.network_type, _NETWORK_TYPES))
    tunnel_id = at_most("tunnel_id", wire.tunnel_id, MAX_VLAN_ID if network_type is NetworkType.VLAN else MAX_TUNNEL_ID)
    cidr = prefix("cidr", wire.cidr)
    gateway_address, gateway_mac = _subnet_gateway(wire.gateway, cidr)
    return Subnet(
        id=own_id,
        revision=head.revision,
        vpc_id=vpc_id,
        name=display_text(wire.name),
        # VXLAN is the zero value: on the wire it cannot be told from "not given".
        network_type=network_type or None,
        tunnel_id=tunnel_id,
        cidr=cidr,
        gateway_address=gateway_address,
        gateway_mac=gateway_mac,
        dhcp_enable=wire.dhcp_enable,
        dhcp_options=tuple((option.name, option.value) for option in wire.extra_dhcp_options),
        dns=tuple(
            dict.fromkeys(
                address(f"dns_entry_list[{index}].entry", one.entry) for index, one in enumerate(wire.dns_entry_list)
            )
        ),
        availability_zone=display_text(wire.availability_zone),
    )


def _subnet_gateway(wire: subnet_pb2.SubnetConfiguration.Gateway, cidr: Prefix) -> tuple[bytes | None, bytes | None]:
    if not wire.ip_address and not wire.mac_address:
        return None, None
    gateway_address = unicast_address("gateway.ip_address", wire.ip_address)
    if len(gateway_address) != len(cidr.address):
        refuse("gateway.ip_address", wire.ip_address, f"is of another family than cidr {cidr}")
    return gateway_address, mac("gateway.mac_address", wire.mac_address)


def decode_gateway(map_key: str, state: gateway_pb2.GatewayState) -> Change:
    """`map_key` is empty for V1. ARION gateways are keyed by their subnet: their ids are new in every message
    (contract table, section 0b.8)."""
    wire = state.configuration
    # There is no update_type: the state is all there is to know about the gateway.
    head = Head(Kind.GATEWAY, received_id(map_key, wire.id), state.operation_type, wire.revision_number, FULL)
    if head.operation == DELETE:
        return withdrawal(head, partial(_gateway_key, head, wire))
    return upsert(head, partial(_gateway, head, wire))


def _gateway_key(head: Head, wire: gateway_pb2.GatewayConfiguration) -> str:
    own_id = identifier("id", head.resource_id)
    if wire.gateway_type == gateway_pb2.ARION and wire.arion_info.subnet_id:
        return "arion/" + identifier("arion_info.subnet_id", wire.arion_info.subnet_id)
    return own_id


def _gateway(head: Head, wire: gateway_pb2.GatewayConfiguration) -> Gateway:
    kind = GatewayKind(one_of("gateway_type", wire.gateway_type, _GATEWAY_KINDS))
    vpc_id, subnet_id, vni = "", "", 0
    inband_port = at_most("zeta_info.port_inband_operation", wire.zeta_info.port_inband_operation, MAX_UDP_PORT)
    if wire.HasField("arion_info"):
        arion = wire.arion_info
        vpc_id = optional_identifier("arion_info.vpc_id", arion.vpc_id)
        subnet_id = optional_identifier("arion_info.subnet_id", arion.subnet_id)
        vni = at_most("arion_info.vni", arion.vni, MAX_TUNNEL_ID)
        inband_port = at_most("arion_info.port_inband_operation", arion.port_inband_operation, MAX_UDP_PORT)
    if kind is GatewayKind.ARION and not subnet_id:
        raise Refused("arion_info.subnet_id is empty")
    destinations = (
        GatewayDestination(
            unicast_address(f"destinations[{index}].ip_address", one.ip_address),
            mac(f"destinations[{index}].mac_address", one.mac_address),
        )
        for index, one in enumerate(wire.destinations)
    )
    return Gateway(
        id=_gateway_key(head, wire),
        revision=head.revision,
        gateway_kind=kind,
        destinations=tuple(dict.fromkeys(destinations)),
        vpc_id=vpc_id,
        subnet_id=subnet_id,
        vni=vni,
        inband_port=inband_port,
    )
