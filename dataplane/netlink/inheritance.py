"""What stands and is in no book: an earlier agent's, or altered by somebody else. It goes on serving, and what is
wanted (again) is taken over as it is."""

from __future__ import annotations

from typing import NamedTuple

from dataplane.kernel.rtnl import Link
from dataplane.kernel.wire import KernelError
from dataplane.netlink.filter import SETS
from dataplane.netlink.layout import Stands, chains_of
from dataplane.netlink.names import ALIAS, PREFIXES
from dataplane.netlink.namespaces import Found, namespaces
from dataplane.netlink.standing import ElementKey, Reader

_EEXIST = 17
TUNNELS = ("vxlan", "dummy")
"""Kinds of the devices by which a segment's bridge sends to other hosts."""


class Inheritance(NamedTuple):
    """Devices by name, elements of the sets, routers' namespaces by name; all shrink as they are taken over."""

    devices: dict[str, Link]
    elements: dict[ElementKey, bytes]
    namespaces: dict[str, Found]

    def __bool__(self) -> bool:
        return any(map(bool, self))

    def take_device(self, name: str, alias: str) -> Link | None:
        """Raises KernelError if the name is that of another object of ours."""
        known = self.devices.get(name)
        if known is not None and known.alias != alias:
            raise KernelError(_EEXIST, f"there is one already, for {known.alias}", f"device {name} ({alias})")
        return self.devices.pop(name, None)

    def take_elements(
        self, set_name: str, elements: list[tuple[bytes, bytes]]
    ) -> tuple[list[tuple[bytes, bytes]], list[tuple[bytes, bytes]]]:
        """(those that stand with other data, those that do not stand as they are); keys and data."""
        if not self.elements:
            return [], elements
        other, missing = [], []
        for key, data in elements:
            stands = self.elements.pop((set_name, key), None)
            if stands != data:
                missing.append((key, data))
                if stands is not None:
                    other.append((key, stands))
        return other, missing


def is_ours(link: Link) -> bool:
    """By its alias; the name it was made with may have been changed."""
    return link.alias.startswith(ALIAS) and (link.name.startswith(PREFIXES) or link.kind in ("bridge", *TUNNELS))


def read_inheritance(reader: Reader, namespace_prefix: str) -> Inheritance:
    """Raises KernelError, OSError."""
    devices = {link.name: link for link in reader.links().values() if is_ours(link)}
    return Inheritance(devices, reader.elements(SETS.values()), namespaces(namespace_prefix))


def read_layout(reader: Reader) -> Stands:
    """Raises KernelError, OSError."""
    links = reader.links()
    bridges = {link.ifindex for link in links.values() if link.kind == "bridge" and is_ours(link)}
    members = [link for link in links.values() if link.master in bridges]
    tunnels = tuple(link.ifindex for link in members if link.kind in TUNNELS and is_ours(link))
    ports = tuple(link.ifindex for link in members if link.ifindex not in tunnels)
    return Stands(chains_of(reader.chains().uses), reader.shapes(), ports, tunnels)
