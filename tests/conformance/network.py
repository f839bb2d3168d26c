"""Goal states in the terms of a scenario: networks, interfaces, and the states of alcor.schema made of them.

A scenario keeps `Subnet` and `Nic` values, makes states of them (`subnet_state`, `port_state`, ...), changes what it
wants to on these messages, and packs them with `v1` or `v2`.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from goalstate_proto import (
    common_pb2,
    dhcp_pb2,
    gateway_pb2,
    neighbor_pb2,
    port_pb2,
    router_pb2,
    securitygroup_pb2,
    subnet_pb2,
    vpc_pb2,
)
from goalstate_proto.goalstate_pb2 import GoalState, GoalStateV2

State = (
    vpc_pb2.VpcState
    | subnet_pb2.SubnetState
    | port_pb2.PortState
    | neighbor_pb2.NeighborState
    | securitygroup_pb2.SecurityGroupState
    | dhcp_pb2.DHCPState
    | router_pb2.RouterState
    | gateway_pb2.GatewayState
)

FIELDS: dict[type[Any], str] = {
    vpc_pb2.VpcState: "vpc_states",
    subnet_pb2.SubnetState: "subnet_states",
    port_pb2.PortState: "port_states",
    neighbor_pb2.NeighborState: "neighbor_states",
    securitygroup_pb2.SecurityGroupState: "security_group_states",
    dhcp_pb2.DHCPState: "dhcp_states",
    router_pb2.RouterState: "router_states",
    gateway_pb2.GatewayState: "gateway_states",
}
KINDS: dict[type[Any], str] = {
    vpc_pb2.VpcState: "VPC",
    subnet_pb2.SubnetState: "SUBNET",
    port_pb2.PortState: "PORT",
    neighbor_pb2.NeighborState: "NEIGHBOR",
    securitygroup_pb2.SecurityGroupState: "SECURITYGROUP",
    dhcp_pb2.DHCPState: "DHCP",
    router_pb2.RouterState: "ROUTER",
    gateway_pb2.GatewayState: "GATEWAY",
}


@dataclass(frozen=True, slots=True)
class Subnet:
    """A subnet; its gateway has the first address."""

    id: str
    vpc_id: str
    cidr: str
    gateway_mac: str
    tunnel_id: int
    network_type: int = common_pb2.VXLAN

    @property
    def network(self) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
        return ipaddress.ip_network(self.cidr)

    @property
    def gateway(self) -> str:
        return str(self.network[1])

    def at(self, number: int) -> str:
        """Its address with this number."""
        return str(self.network[number])

    def with_length(self, address: str) -> str:
        return f"{address}/{self.network.prefixlen}"


@dataclass(frozen=True, slots=True)
class Nic:
    """An interface: (subnet, address) pairs, and the host (its underlay address) it is on."""

    id: str
    vpc_id: str
    mac: str
    host_ip: str
    addresses: tuple[tuple[Subnet, str], ...]

    @property
    def ip(self) -> str:
        return self.addresses[0][1]

    @property
    def subnet(self) -> Subnet:
        return self.addresses[0][0]

    def but(self, **changes: Any) -> Nic:
        return replace(self, **changes)


@dataclass(frozen=True, slots=True)
class Rule:
    """A routing rule."""

    destination: str
    next_hop: str
    id: str = ""
    priority: int = 100
    operation: int = common_pb2.CREATE


def vpc_state(vpc_id: str, *, tunnel_id: int = 0) -> vpc_pb2.VpcState:
    state = vpc_pb2.VpcState(operation_type=common_pb2.INFO)
    state.configuration.id = vpc_id
    state.configuration.revision_number = 1
    state.configuration.tunnel_id = tunnel_id
    return state


def subnet_state(subnet: Subnet) -> subnet_pb2.SubnetState:
    state = subnet_pb2.SubnetState(operation_type=common_pb2.INFO)
    configuration = state.configuration
    configuration.id = subnet.id
    configuration.revision_number = 1
    configuration.vpc_id = subnet.vpc_id
    configuration.cidr = subnet.cidr
    configuration.tunnel_id = subnet.tunnel_id
    configuration.gateway.ip_address = subnet.gateway
    configuration.gateway.mac_address = subnet.gateway_mac
    as_number: Any = subnet.network_type
    configuration.network_type = as_number
    return state


def port_state(
    nic: Nic,
    *,
    revision: int = 1,
    pairs: Sequence[tuple[str, str]] = (),
    up: bool = True,
    operation: int = common_pb2.CREATE,
    device_id: str = "vm",
    device_owner: str = "compute:nova",
) -> port_pb2.PortState:
    """`pairs` are (address or prefix, MAC or nothing)."""
    as_number: Any = operation
    state = port_pb2.PortState(operation_type=as_number)
    configuration = state.configuration
    configuration.id = nic.id
    configuration.revision_number = revision
    configuration.update_type = common_pb2.FULL
    configuration.vpc_id = nic.vpc_id
    configuration.mac_address = nic.mac
    configuration.admin_state_up = up
    configuration.device_id = device_id
    configuration.device_owner = device_owner
    for subnet, address in nic.addresses:
        configuration.fixed_ips.add(subnet_id=subnet.id, ip_address=address)
    for prefix, mac in pairs:
        configuration.allow_address_pairs.add(ip_address=prefix, mac_address=mac)
    return state


def neighbor_state(
    nic: Nic,
    *,
    layer: int = neighbor_pb2.L2,
    revision: int = 1,
    pairs: Sequence[tuple[str, str]] = (),
    operation: int = common_pb2.CREATE,
    neighbor_id: str = "",
) -> neighbor_pb2.NeighborState:
    numbers: Any = (operation, layer)
    state = neighbor_pb2.NeighborState(operation_type=numbers[0])
    configuration = state.configuration
    configuration.id = neighbor_id or nic.id
    configuration.revision_number = revision
    configuration.update_type = common_pb2.FULL
    configuration.vpc_id = nic.vpc_id
    configuration.mac_address = nic.mac
    configuration.host_ip_address = nic.host_ip
    for subnet, address in nic.addresses:
        configuration.fixed_ips.add(subnet_id=subnet.id, ip_address=address, neighbor_type=numbers[1])
    for prefix, mac in pairs:
        configuration.allow_address_pairs.add(ip_address=prefix, mac_address=mac)
    return state


def router_state(
    router_id: str,
    tables: Iterable[Subnet | tuple[Subnet, Sequence[Rule]]],
    *,
    update_type: int = common_pb2.DELTA,
    revision: int = 1,
    dvr_mac: str = "",
) -> router_pb2.RouterState:
    """A router as controllers send it: INFO. A table is a subnet, or a subnet and its rules."""
    state = router_pb2.RouterState(operation_type=common_pb2.INFO)
    configuration = state.configuration
    configuration.id = router_id
    configuration.revision_number = revision
    configuration.host_dvr_mac_address = dvr_mac
    numbers: Any = update_type
    configuration.update_type = numbers
    for entry in tables:
        subnet, rules = entry if isinstance(entry, tuple) else (entry, ())
        table = configuration.subnet_routing_tables.add(subnet_id=subnet.id)
        for rule in rules:
            operation: Any = rule.operation
            wire = table.routing_rules.add(
                operation_type=operation,
                id=rule.id,
                destination=rule.destination,
                next_hop_ip=rule.next_hop,
                priority=rule.priority,
            )
            wire.routing_rule_extra_info.SetInParent()
    return state


def dhcp_state(nic: Nic, *, name: str = "") -> dhcp_pb2.DHCPState:
    """The binding of the interface's first address; without an id, as in V1."""
    state = dhcp_pb2.DHCPState(operation_type=common_pb2.CREATE)
    configuration = state.configuration
    configuration.revision_number = 1
    configuration.subnet_id = nic.subnet.id
    configuration.mac_address = nic.mac
    configuration.ipv4_address = nic.ip
    configuration.port_host_name = name
    return state


def deletion(state: State, *, revision: int = 0) -> State:
    """A state that asks for the deletion of this one."""
    gone = type(state)()
    gone.CopyFrom(state)  # type: ignore[arg-type]
    gone.operation_type = common_pb2.DELETE
    gone.configuration.revision_number = revision
    return gone


def v1(*states: State) -> GoalState:
    message = GoalState()
    for state in states:
        getattr(message, FIELDS[type(state)]).append(state)
    return message


def v2(*states: State) -> GoalStateV2:
    """As controllers make it: neighbours under "L2/<id>" or "L3/<id>", bindings under an id that means nothing.

    Raises ValueError if two states would have one key.
    """
    message = GoalStateV2()
    for number, state in enumerate(states):
        field = getattr(message, FIELDS[type(state)])
        key = state.configuration.id or f"no-id-{number}"
        if isinstance(state, neighbor_pb2.NeighborState):
            layers = {one.neighbor_type for one in state.configuration.fixed_ips}
            key = f"L3/{key}" if neighbor_pb2.L3 in layers else f"L2/{key}"
        if key in field:
            raise ValueError(f"{FIELDS[type(state)]} has {key} already")
        field[key].CopyFrom(state)
    return message


def kind_of(state: State) -> str:
    """The name in alcor.schema.ResourceType."""
    return KINDS[type(state)]
