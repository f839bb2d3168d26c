"""Carries out what the book of neighbours says, in bulk: a few sends for thousands."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence

from dataplane.kernel import rtnl
from dataplane.kernel.wire import KernelError, Request
from dataplane.model import NeighborWanted, SubnetRef
from dataplane.netlink import nft
from dataplane.netlink.filter import SETS, number
from dataplane.netlink.filtering import Elements
from dataplane.netlink.installer import Installer
from dataplane.netlink.names import TABLE, mark_of
from dataplane.netlink.neighbors import Group
from dataplane.netlink.nft import key_bytes

_PER_TRANSACTION = 500
"""Neighbours. Nobody else gets the processor while the kernel is at a transaction."""


def elements_of(ref: SubnetRef, tunnel: int, neighbors: Iterable[NeighborWanted]) -> dict[str, Elements]:
    """The elements of plain neighbours of one subnet, by set: those of `render.neighbor_items`."""
    mark, index = number(mark_of(ref.subnet_id)), number(tunnel)
    addresses: Elements = []
    members: Elements = []
    senders: Elements = []
    for neighbor, _, _ in neighbors:
        padded = key_bytes(neighbor.mac)
        addresses.append((mark + neighbor.fixed_ips[0].address, neighbor.mac))
        members.append((mark + padded, b""))
        senders.append((index + padded, mark))
    return {"addresses": addresses, "members": members, "senders": senders}


def add_neighbors(
    installer: Installer, arriving: Mapping[SubnetRef, Group], moving: Mapping[SubnetRef, Group]
) -> list[str]:
    """Filter first, then what sends traffic there. Returns the ids of those that the kernel refuses something of: what
    stands of them is not known. Raises OSError."""
    refused: list[str] = []
    for ref, group in arriving.items():
        tunnel = _tunnel(installer, ref)
        for part in _parts(group):
            if tunnel is None or not _add_elements(installer, ref, tunnel, part):
                refused += part
            else:
                refused += _add_forwarding(installer, tunnel, part)
    for ref, group in moving.items():
        tunnel = _tunnel(installer, ref)
        refused += group if tunnel is None else _add_forwarding(installer, tunnel, group)
    return refused


def _tunnel(installer: Installer, ref: SubnetRef) -> int | None:
    devices = installer.places.segments.get(ref.segment)
    return None if devices is None else devices.tunnel


def tunnels_of(installer: Installer, groups: Iterable[SubnetRef]) -> set[int]:
    """The tunnel devices whose entries these are."""
    return {tunnel for ref in groups if (tunnel := _tunnel(installer, ref)) is not None}


def _parts(group: Group) -> Iterator[Group]:
    whole = iter(group.items())
    while part := dict(itertools.islice(whole, _PER_TRANSACTION)):
        yield part


def _add_elements(installer: Installer, ref: SubnetRef, tunnel: int, group: Group) -> bool:
    requests: list[Request] = []
    for name, elements in elements_of(ref, tunnel, group.values()).items():
        other, missing = installer.inherited.take_elements(name, elements)
        requests += nft.delete_elements(TABLE, SETS[name], other)
        requests += nft.add_elements(TABLE, SETS[name], missing)
    return _transacted(installer, requests)


def _add_forwarding(installer: Installer, tunnel: int, group: Group) -> list[str]:
    entries = [(neighbor.mac, neighbor.host) for neighbor, _, _ in group.values()]
    if not entries:
        return []
    refused = installer.route.submit_alike(*rtnl.remote_mac_requests(tunnel, entries))
    if not refused:
        return []
    ids = list(group)
    return [ids[index] for index in refused]


def remove_neighbors(installer: Installer, leaving: Mapping[SubnetRef, Group]) -> list[NeighborWanted]:
    """The opposite order. Returns those of which something may stand still. Raises OSError."""
    left: list[NeighborWanted] = []
    for ref, group in leaving.items():
        tunnel = _tunnel(installer, ref)
        if tunnel is None:
            left += group.values()
            continue
        for part in _parts(group):
            left += _remove_part(installer, ref, tunnel, list(part.values()))
    return left


def _remove_part(
    installer: Installer, ref: SubnetRef, tunnel: int, neighbors: Sequence[NeighborWanted]
) -> Sequence[NeighborWanted]:
    left: Sequence[NeighborWanted] = _remove_forwarding(installer, tunnel, neighbors)
    requests: list[Request] = []
    for name, gone in elements_of(ref, tunnel, neighbors).items():
        requests += nft.delete_elements(TABLE, SETS[name], gone)
    if not _transacted(installer, requests):
        left = neighbors
    addresses = [one.neighbor.fixed_ips[0].address for one in neighbors]
    installer.forget_resolved(number(mark_of(ref.subnet_id)), addresses)
    return left


def _remove_forwarding(
    installer: Installer, tunnel: int, neighbors: Sequence[NeighborWanted]
) -> list[NeighborWanted]:
    if not neighbors:
        return []
    macs = [one.neighbor.mac for one in neighbors]
    refused = installer.route.submit_alike(*rtnl.delete_remote_mac_requests(tunnel, macs))
    standing = {index // 2 for index, code in refused.items() if code not in rtnl.GONE}
    return [neighbors[index] for index in sorted(standing)]


def _transacted(installer: Installer, requests: Sequence[Request]) -> bool:
    try:
        installer.filter.transact_in_parts(requests)
    except KernelError:
        return False
    return True
