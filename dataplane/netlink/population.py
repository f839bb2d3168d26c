"""Who is in each segment and subnet: what is derived from many resources follows from it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from dataplane.model import Key, Segment, SubnetRef


class Population:
    """Subnets by segment, local addresses by subnet. Not thread safe: the caller's lock guards it."""

    def __init__(self) -> None:
        self._refs: dict[Key, tuple[SubnetRef, ...]] = {}
        self._counts: dict[Segment, Counter[str]] = {}
        self._local: dict[str, dict[str, tuple[bytes, ...]]] = {}
        self._changed_segments: dict[Segment, None] = {}
        self._changed_subnets: dict[str, None] = {}

    def enter(self, who: Key, refs: tuple[SubnetRef, ...]) -> None:
        """A port or neighbour is in these subnets, and in no others."""
        before = self._refs.get(who, ())
        if before == refs:
            return
        for ref in before:
            self.shift(ref, -1)
        for ref in refs:
            self.shift(ref, 1)
        if refs:
            self._refs[who] = refs
        else:
            self._refs.pop(who, None)

    def shift(self, ref: SubnetRef, by: int) -> None:
        """So many more (or fewer) are in this subnet, whom the caller counts himself."""
        counts = self._counts.setdefault(ref.segment, Counter())
        before = counts[ref.subnet_id]
        counts[ref.subnet_id] = before + by
        if before + by <= 0:
            del counts[ref.subnet_id]
        if (before > 0) is not (before + by > 0):
            self._changed_segments[ref.segment] = None

    def settle(self, port_id: str, addresses: Mapping[str, tuple[bytes, ...]]) -> None:
        """A local port has these addresses, by subnet, and no others."""
        for subnet_id in [name for name, ports in self._local.items() if port_id in ports]:
            if subnet_id not in addresses:
                del self._local[subnet_id][port_id]
                if not self._local[subnet_id]:
                    del self._local[subnet_id]
                self._changed_subnets[subnet_id] = None
        for subnet_id, held in addresses.items():
            ports = self._local.setdefault(subnet_id, {})
            if ports.get(port_id) != held:
                ports[port_id] = held
                self._changed_subnets[subnet_id] = None

    def subnets(self, segment: Segment) -> list[str]:
        return list(self._counts.get(segment, ()))

    def local(self, subnet_ids: Iterable[str]) -> dict[str, set[bytes]]:
        """Addresses of local ports, by subnet."""
        return {
            subnet_id: {address for held in self._local.get(subnet_id, {}).values() for address in held}
            for subnet_id in subnet_ids
        }

    def take_changed(self) -> tuple[list[Segment], list[str]]:
        """Segments whose subnets changed, subnets whose local addresses changed, since the last call."""
        taken = list(self._changed_segments), list(self._changed_subnets)
        self._changed_segments.clear()
        self._changed_subnets.clear()
        return taken
