"""What a port's device is to be like, and what things are called. All pure."""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import NamedTuple

from dataplane.addresses import Prefix
from dataplane.model import PortWanted

ALIAS = "aca-port:"
"""What the interface aliases of made devices begin with; the rest is the port's id. Devices of other kinds have others:
a subnet may have the id of a port."""
INSIDE = "eth0"
"""The guest's end of a pair, in the port's namespace."""
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,15}")
_FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")


class DeviceSpec(NamedTuple):
    """The guest's end: `addresses` with the lengths of their subnets' prefixes, host bits kept; `gateways` are those
    of the default routes, one of each family at most."""

    port_id: str
    mac: bytes
    addresses: tuple[Prefix, ...]
    gateways: tuple[bytes, ...]

    @property
    def alias(self) -> str:
        return ALIAS + self.port_id


def spec_of(wanted: PortWanted) -> DeviceSpec:
    """Every fixed IP whose subnet is known; per family the gateway of the first one's subnet."""
    subnets = {subnet.id: subnet.subnet for subnet in wanted.subnets}
    addresses: dict[Prefix, None] = {}
    gateways: dict[int, bytes] = {}
    own = {fixed.address for fixed in wanted.port.fixed_ips}
    seen: set[int] = set()
    for subnet_id, address in wanted.port.fixed_ips:
        subnet = subnets.get(subnet_id)
        if subnet is None:
            continue
        fits = len(subnet.cidr.address) == len(address)
        addresses[Prefix(address, subnet.cidr.length if fits else len(address) * 8)] = None
        gateway = subnet.gateway_address
        if len(address) not in seen and gateway is not None and len(gateway) == len(address) and gateway not in own:
            gateways[len(address)] = gateway
        seen.add(len(address))
    return DeviceSpec(wanted.id, wanted.port.mac, tuple(addresses), tuple(gateways.values()))


def device_names(port_id: str) -> list[str]:
    """What the host's end may be called, best first: 'tap' and 11 characters of the id, or 11 hexadecimal digits of its
    hash, where another port has the former or no device can be called so."""
    names = ("tap" + port_id[:11], "tap" + _digits(port_id))
    return [name for name in names if _NAME.fullmatch(name)]


def namespace_name(prefix: str, port_id: str) -> str:
    """Prefix and id, or the hash of an id that cannot be a file's name."""
    return prefix + (port_id if _FILE_NAME.fullmatch(port_id) else _digits(port_id))


def _digits(text: str) -> str:
    return blake2b(text.encode(), digest_size=6).hexdigest()[:11]
