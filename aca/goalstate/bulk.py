"""The hot path of merging: neighbours that nobody has heard of yet. A goal state may carry a million."""

from __future__ import annotations

from collections.abc import Mapping

from aca.goalstate.changes import Change
from aca.goalstate.index import SubnetIndex
from dataplane.model import Neighbor, Subnet


class NewNeighbors:
    """Takes what is plain: an unknown neighbour with one address that, like its MAC, nobody else has claimed.

    `taken` are the ids so far, and their VPCs. Whatever is not taken is left untouched for the general way to merge.
    """

    __slots__ = (
        "_addresses",
        "_index",
        "_macs",
        "_neighbors",
        "_next_hops",
        "_prefix",
        "_shift",
        "_size",
        "_subnet_id",
        "_subnets",
        "taken",
    )

    def __init__(
        self,
        index: Mapping[str, SubnetIndex],
        subnets: Mapping[str, Subnet],
        neighbors: dict[str, Neighbor],
        next_hops: Mapping[bytes, set[str]],
    ) -> None:
        self._index = index
        self._subnets = subnets
        self._neighbors = neighbors
        self._next_hops = next_hops
        self._subnet_id: str | None = None
        self.taken: dict[str, str] = {}

    def take(self, change: Change) -> bool:
        neighbor = change.value
        if not isinstance(neighbor, Neighbor) or change.id in self._neighbors or len(neighbor.fixed_ips) != 1:
            return False
        neighbor_id, _, vpc_id, mac, _, fixed_ips, _, _ = neighbor
        subnet_id, address = fixed_ips[0]
        if subnet_id != self._subnet_id and not self._enter(subnet_id):
            return False
        # Prefix.contains, with its numbers made ready. A subnet that is not known yet has no prefix to be outside of.
        if self._size and (len(address) != self._size or int.from_bytes(address, "big") >> self._shift != self._prefix):
            return False
        if address in self._next_hops:
            return False
        if self._addresses.setdefault(address, neighbor_id) is not neighbor_id:
            return False
        if self._macs.setdefault(mac, neighbor_id) is not neighbor_id:
            del self._addresses[address]
            return False
        self._neighbors[neighbor_id] = neighbor
        self.taken[neighbor_id] = vpc_id
        return True

    def _enter(self, subnet_id: str) -> bool:
        index = self._index.get(subnet_id)
        if index is None:
            return False
        self._subnet_id = subnet_id
        self._addresses, self._macs = index.neighbor_addresses.cells, index.neighbor_macs.cells
        subnet = self._subnets.get(subnet_id)
        if subnet is None:
            self._size = self._shift = self._prefix = 0
        else:
            self._size = len(subnet.cidr.address)
            self._shift = self._size * 8 - subnet.cidr.length
            self._prefix = int.from_bytes(subnet.cidr.address, "big") >> self._shift
        return True

    def look_again(self) -> None:
        """Something else was merged: an index may have come or gone."""
        self._subnet_id = None
