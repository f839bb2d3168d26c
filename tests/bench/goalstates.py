"""Goal states as a controller sends them, serialized beforehand: making them is not the agent's cost."""

from collections.abc import Iterable
from ipaddress import IPv4Address

from goalstate_proto.common_pb2 import CREATE, DELETE
from goalstate_proto.goalstate_pb2 import GoalStateV2
from goalstate_proto.neighbor_pb2 import L2

VPC = "9b3f2d4e-5b1a-4c7d-8e6f-000000000001"
SUBNET = "7c1e8a90-2f64-4b3d-9d10-000000000001"
TUNNEL_ID = 70_411
GATEWAY = "10.255.255.254"
PREFIX_LENGTH = 8
REMOTE_HOSTS = 200
"""Hosts that the neighbours are spread over."""
_FIRST_PORT = int(IPv4Address("10.250.0.1"))
_FIRST_NEIGHBOR = int(IPv4Address("10.0.0.1"))
_FIRST_HOST = int(IPv4Address("172.16.1.1"))


def port_id(number: int) -> str:
    """The id of a port, whose first 11 characters (its device's name) are its own."""
    return f"{0xB0000000 + number:08x}-7a10-4000-8000-{number:012x}"


def port_mac(number: int) -> str:
    return _mac(0xFA163E000000 + number)


def port_ip(number: int) -> str:
    return str(IPv4Address(_FIRST_PORT + number))


def subnet_id(number: int) -> str:
    """Of the subnet that everything here is in (0), or of others of its VPC, each with a tunnel id of its own."""
    return SUBNET[:-6] + f"{1 + number:06x}"


def add_subnet(message: GoalStateV2, number: int = 0) -> GoalStateV2:
    """The VPC and a subnet."""
    vpc = message.vpc_states[VPC]
    vpc.operation_type = CREATE
    vpc.configuration.id = VPC
    vpc.configuration.revision_number = 1
    vpc.configuration.tunnel_id = TUNNEL_ID
    subnet = message.subnet_states[subnet_id(number)]
    subnet.operation_type = CREATE
    wire = subnet.configuration
    wire.id, wire.vpc_id, wire.revision_number, wire.tunnel_id = subnet_id(number), VPC, 1, TUNNEL_ID + number
    wire.cidr = f"10.0.0.0/{PREFIX_LENGTH}"
    wire.gateway.ip_address, wire.gateway.mac_address = GATEWAY, "fa:16:3e:ff:00:01"
    return message


def add_port(message: GoalStateV2, number: int, subnet: int = 0) -> GoalStateV2:
    """A port of this host, in the subnet with this number."""
    state = message.port_states[port_id(number)]
    state.operation_type = CREATE
    wire = state.configuration
    wire.id, wire.vpc_id, wire.revision_number = port_id(number), VPC, 1
    wire.mac_address, wire.admin_state_up = port_mac(number), True
    wire.fixed_ips.add(subnet_id=subnet_id(subnet), ip_address=port_ip(number))
    return message


def add_neighbor(message: GoalStateV2, own_id: str, ip: str, mac: str, host: str) -> GoalStateV2:
    """An L2 neighbour."""
    state = message.neighbor_states[own_id]
    state.operation_type = CREATE
    wire = state.configuration
    wire.id, wire.vpc_id, wire.revision_number = own_id, VPC, 1
    wire.mac_address, wire.host_ip_address = mac, host
    wire.fixed_ips.add(subnet_id=SUBNET, ip_address=ip, neighbor_type=L2)
    return message


def ports_message(numbers: Iterable[int]) -> bytes:
    message = GoalStateV2()
    for number in numbers:
        add_port(message, number)
    return message.SerializeToString()


def ports_gone(numbers: Iterable[int]) -> bytes:
    """The deletion of ports."""
    message = GoalStateV2()
    for number in numbers:
        add_port(message, number).port_states[port_id(number)].operation_type = DELETE
    return message.SerializeToString()


def neighbors_message(first: int, count: int) -> bytes:
    """`count` neighbours, numbered from `first`."""
    return _neighbors(first, count).SerializeToString()


def neighbors_gone(first: int, count: int) -> bytes:
    """The deletion of neighbours."""
    message = _neighbors(first, count)
    for state in message.neighbor_states.values():
        state.operation_type = DELETE
    return message.SerializeToString()


def neighbor_addresses(first: int, count: int) -> list[tuple[str, str]]:
    """Their (IP, MAC)."""
    return [
        (str(IPv4Address(_FIRST_NEIGHBOR + number)), _mac(0x0A0000000000 + number))
        for number in range(first, first + count)
    ]


def _neighbors(first: int, count: int) -> GoalStateV2:
    message = GoalStateV2()
    for number, (ip, mac) in enumerate(neighbor_addresses(first, count), first):
        host = str(IPv4Address(_FIRST_HOST + number % REMOTE_HOSTS))
        add_neighbor(message, f"{0xA0000000 + number:08x}-91c4-4000-8000-{number:012x}", ip, mac, host)
    return message


def _mac(value: int) -> str:
    return value.to_bytes(6, "big").hex(":")
