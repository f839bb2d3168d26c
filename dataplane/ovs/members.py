"""Who is in each subnet and segment: what the flood lists are rendered from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from dataplane.model import NeighborWanted, PortWanted, Segment, SubnetRef
from dataplane.ovs.pipeline.flood import Membership
from dataplane.ovs.pipeline.port import shared_macs


@dataclass(slots=True)
class _Subnet:
    ref: SubnetRef
    local: dict[str, int] = field(default_factory=dict)
    remote: Counter[bytes] = field(default_factory=Counter)
    shared: Counter[bytes] = field(default_factory=Counter)

    def is_empty(self) -> bool:
        return not (self.local or self.remote or self.shared)


class Members:
    """Counts of local ports, remote hosts and shared MACs by subnet. Not thread safe: the caller's lock guards it.

    `changed` collects what has to be rendered again until `take_changed`.
    """

    def __init__(self) -> None:
        self._subnets: dict[str, _Subnet] = {}
        self._segments: dict[Segment, set[str]] = {}
        self._changed: dict[str, None] = {}
        self._changed_segments: dict[Segment, None] = {}

    def take_changed(self) -> tuple[list[str], list[Segment]]:
        taken = list(self._changed), list(self._changed_segments)
        self._changed.clear()
        self._changed_segments.clear()
        return taken

    def subnet(self, subnet_id: str) -> Membership | None:
        known = self._subnets.get(subnet_id)
        if known is None:
            return None
        return Membership(
            known.ref,
            tuple(sorted(known.local.values())),
            tuple(sorted(known.remote)),
            tuple(sorted(known.shared)),
        )

    def larger_than(self, remote_hosts: int) -> list[str]:
        """Subnets with local ports and more remote hosts than this."""
        return [name for name, known in self._subnets.items() if known.local and len(known.remote) > remote_hosts]

    def segment(self, segment: Segment) -> list[Membership]:
        found = (self.subnet(subnet_id) for subnet_id in sorted(self._segments.get(segment, ())))
        return [member for member in found if member is not None]

    def add_port(self, wanted: PortWanted, ofport: int) -> None:
        shared = shared_macs(wanted.port.mac, wanted.port.allowed_pairs)
        for subnet in wanted.subnets:
            known = self._enter(subnet.ref)
            known.local[wanted.id] = ofport
            known.shared.update(shared)

    def drop_port(self, wanted: PortWanted) -> None:
        shared = shared_macs(wanted.port.mac, wanted.port.allowed_pairs)
        for subnet in wanted.subnets:
            known = self._subnets.get(subnet.id)
            if known is not None and known.local.pop(wanted.id, None) is not None:
                _subtract(known.shared, shared)
                self._leave(known)

    def add_remote(self, ref: SubnetRef, hosts: Mapping[bytes, int]) -> None:
        """Add so many neighbours on each of some hosts, all without allowed pairs."""
        known = self._subnets.get(ref.subnet_id)
        if known is None or known.ref != ref:
            known = self._enter(ref)
        for host, number in hosts.items():
            if host not in known.remote:
                self._touch(ref)
            known.remote[host] += number

    def add_neighbor(self, wanted: NeighborWanted) -> None:
        neighbor = wanted.neighbor
        shared = shared_macs(neighbor.mac, neighbor.allowed_pairs)
        for ref in wanted.mac_subnets:
            self.add_remote(ref, {neighbor.host: 1})
            if shared:
                self._subnets[ref.subnet_id].shared.update(shared)
                self._touch(ref)

    def drop_neighbor(self, wanted: NeighborWanted) -> None:
        neighbor = wanted.neighbor
        shared = shared_macs(neighbor.mac, neighbor.allowed_pairs)
        for ref in wanted.mac_subnets:
            known = self._subnets.get(ref.subnet_id)
            if known is None:
                continue
            left = known.remote[neighbor.host] - 1
            if left > 0:
                known.remote[neighbor.host] = left
            else:
                del known.remote[neighbor.host]
            if left <= 0 or shared:
                _subtract(known.shared, shared)
                self._leave(known)

    def _enter(self, ref: SubnetRef) -> _Subnet:
        known = self._subnets.get(ref.subnet_id)
        if known is None:
            known = self._subnets[ref.subnet_id] = _Subnet(ref)
            self._segments.setdefault(ref.segment, set()).add(ref.subnet_id)
        elif known.ref != ref:
            self._touch(known.ref)
            self._unlink(known.ref)
            known.ref = ref
            self._segments.setdefault(ref.segment, set()).add(ref.subnet_id)
        self._touch(ref)
        return known

    def _leave(self, known: _Subnet) -> None:
        self._touch(known.ref)
        if known.is_empty():
            del self._subnets[known.ref.subnet_id]
            self._unlink(known.ref)

    def _unlink(self, ref: SubnetRef) -> None:
        siblings = self._segments.get(ref.segment)
        if siblings is not None:
            siblings.discard(ref.subnet_id)
            if not siblings:
                del self._segments[ref.segment]

    def _touch(self, ref: SubnetRef) -> None:
        self._changed[ref.subnet_id] = None
        self._changed_segments[ref.segment] = None


def _subtract(counter: Counter[bytes], items: set[bytes]) -> None:
    for item in items:
        counter[item] -= 1
        if counter[item] <= 0:
            del counter[item]
