"""What an earlier agent has left in the kernel: it goes on serving, and what is wanted again is taken over as it is."""

from __future__ import annotations

import struct
from typing import NamedTuple

from dataplane.netlink.channel import Channel
from dataplane.netlink.filter import SETS
from dataplane.netlink.names import ALIAS, PREFIXES, TABLE
from dataplane.netlink.rtnl import Link, link_of, list_links
from dataplane.netlink.wire import KernelError, Request, attributes, text

_GET_ELEMENTS = 10 << 8 | 13
_ELEMENTS, _KEY, _DATA, _VALUE = 3, 1, 2, 1
_ENOENT = 2


class Inheritance(NamedTuple):
    """Devices by name, and elements of the sets; both shrink as they are taken over."""

    devices: dict[str, Link]
    elements: dict[tuple[str, bytes], bytes]


def read_inheritance(route: Channel, filters: Channel) -> Inheritance:
    """Raises KernelError, OSError."""
    links = map(link_of, route.dump(list_links()))
    devices = {one.name: one for one in links if one.alias.startswith(ALIAS) and one.name.startswith(PREFIXES)}
    elements: dict[tuple[str, bytes], bytes] = {}
    for spec in SETS.values():
        head = struct.pack(">BBH", spec.family, 0, 0) + text(1, TABLE) + text(2, spec.name)
        try:
            found = filters.dump(Request(_GET_ELEMENTS, 0, head, f"elements of nftables set {spec.name}"))
        except KernelError as problem:
            if problem.code != _ENOENT:
                raise
            continue
        for message in found:
            for element in _elements(attributes(message.body, 4).get(_ELEMENTS, b"")):
                parts = attributes(element)
                data = attributes(parts.get(_DATA, b"")).get(_VALUE, b"")
                elements[spec.name, attributes(parts[_KEY])[_VALUE]] = data
    return Inheritance(devices, elements)


def _elements(data: bytes) -> list[bytes]:
    """The contents of all list elements, which have one and the same attribute number."""
    found, offset = [], 0
    while offset + 4 <= len(data):
        (length,) = struct.unpack_from("=H", data, offset)
        if length < 4:
            break
        found.append(data[offset + 4 : offset + length])
        offset += (length + 3) & ~3
    return found


