"""From a packet of unknown destination to what is asked about it. Pure.

Only unicast addresses inside their subnet are asked for: never the subnet's own network, broadcast or gateway address,
never link-local or group addresses.
"""

from __future__ import annotations

from aca.goalstate.records import Records
from aca.ondemand.values import Destination, Inquiry, Protocol
from dataplane.addresses import Prefix, is_unicast_address, parse_prefix
from dataplane.base import Punt
from dataplane.model import Port, Subnet, SubnetWanted

_ARP, _IPV4 = b"\x08\x06", b"\x08\x00"
_LINK_LOCAL = parse_prefix("169.254.0.0/16")
_PROTOCOLS = {1: Protocol.ICMP, 6: Protocol.TCP, 17: Protocol.UDP}
_WITH_PORTS = (Protocol.TCP, Protocol.UDP)


class NotAsked(Exception):  # noqa: N818 - a decision, no error
    """Nobody is asked about this packet; the message is the class it is counted under."""


def inquiry_about(records: Records, punt: Punt) -> tuple[Destination, Inquiry]:
    """What to ask. Raises NotAsked.

    Reads single entries of the records only, so that it may be called while the engine changes them.
    """
    unresolved = punt.unresolved
    port = records.ports.get(punt.port_id)
    if unresolved is None or port is None:
        raise NotAsked("unknown port")
    subnet = records.subnets.get(unresolved.subnet_id)
    if subnet is None or subnet.vpc_id != port.vpc_id or not _may_be_there(unresolved.address, subnet):
        raise NotAsked("outside")
    frame = punt.frame
    if frame[12:14] == _ARP and len(frame) >= 42:
        protocol, source, ports = Protocol.ARP, frame[28:32], (0, 0)
        if source == bytes(4):
            raise NotAsked("probe")  # RFC 5227: it hopes for no answer
    elif frame[12:14] == _IPV4 and len(frame) >= 34:
        protocol, source, ports = _read_ipv4(frame)
    else:
        raise NotAsked("other protocol")
    tunnel_id, own = _asker(records, port, source)
    destination = Destination(unresolved.subnet_id, unresolved.address)
    return destination, Inquiry(tunnel_id, own, unresolved.address, protocol, *ports)


def _may_be_there(address: bytes, subnet: Subnet) -> bool:
    cidr = subnet.cidr
    if not cidr.contains(address) or not is_unicast_address(address) or _LINK_LOCAL.contains(address):
        return False
    return address != subnet.gateway_address and not _names_all(address, cidr)


def _names_all(address: bytes, cidr: Prefix) -> bool:
    """Whether it is the prefix's network or broadcast address (there are none in /31 and /32, RFC 3021)."""
    hosts = (1 << (len(address) * 8 - cidr.length)) - 1
    return hosts > 1 and int.from_bytes(address, "big") & hosts in (0, hosts)


def _read_ipv4(frame: bytes) -> tuple[Protocol, bytes, tuple[int, int]]:
    protocol = _PROTOCOLS.get(frame[23])
    if protocol is None:
        raise NotAsked("other protocol")
    start = 14 + (frame[14] & 0xF) * 4
    first = not int.from_bytes(frame[20:22], "big") & 0x1FFF
    if protocol not in _WITH_PORTS or not first or len(frame) < start + 4:
        return protocol, frame[26:30], (0, 0)
    source_port, destination_port = frame[start : start + 2], frame[start + 2 : start + 4]
    return protocol, frame[26:30], (int.from_bytes(source_port, "big"), int.from_bytes(destination_port, "big"))


def _asker(records: Records, port: Port, source: bytes) -> tuple[int, bytes]:
    """Tunnel id and address that the controller knows the port by: an own one, if it speaks with an allowed pair's."""
    fixed = next((one for one in port.fixed_ips if one.address == source), None)
    fixed = fixed or next((one for one in port.fixed_ips if len(one.address) == 4), None)
    resolved = records.resolved.get(fixed.subnet_id) if fixed is not None else None
    if fixed is None or not isinstance(resolved, SubnetWanted):
        raise NotAsked("unknown port")
    return resolved.ref.segment.tunnel_id, fixed.address
