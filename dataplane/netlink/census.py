"""Compares all that stands of neighbours that are kept apart, which are many, in little time."""

from __future__ import annotations

from collections.abc import Iterable

from dataplane.model import NeighborWanted, SubnetRef
from dataplane.netlink.filter import number
from dataplane.netlink.names import mark_of
from dataplane.netlink.places import Places
from dataplane.netlink.standing import ElementKey, Entries

_PADDING = b"\0\0"
"""A MAC in a concatenated key is padded to 8 bytes."""

Neighbors = Iterable[tuple[SubnetRef, list[NeighborWanted]]]


def suspects_by_entries(neighbors: Neighbors, places: Places, entries: Entries) -> list[str]:
    """Ids of those whose forwarding entries are not as they should be. What is accounted for is taken out."""
    found: list[str] = []
    local, remote = entries.local, entries.remote
    for ref, group in neighbors:
        devices = places.segments.get(ref.segment)
        if devices is None:
            continue
        bridge, tunnel, _ = devices
        for neighbor, _, _ in group:
            mac = neighbor[3]
            if local.get((bridge, mac)) == tunnel and remote.get((tunnel, mac)) == neighbor[4]:
                del local[bridge, mac], remote[tunnel, mac]
            else:
                found.append(neighbor[0])
    return found


def suspects_by_elements(neighbors: Neighbors, places: Places, elements: dict[ElementKey, bytes]) -> list[str]:
    """The same of the filter's elements."""
    found: list[str] = []
    for ref, group in neighbors:
        devices = places.segments.get(ref.segment)
        if devices is None:
            continue
        mark, tunnel = number(mark_of(ref.subnet_id)), number(devices.tunnel)
        for neighbor, _, _ in group:
            mac = neighbor[3]
            padded = mac + _PADDING
            address = ("addresses", mark + neighbor[5][0].address)
            member, sender = ("members", mark + padded), ("senders", tunnel + padded)
            if elements.get(address) == mac and elements.get(member) == b"" and elements.get(sender) == mark:
                del elements[address], elements[member], elements[sender]
            else:
                found.append(neighbor[0])
    return found
