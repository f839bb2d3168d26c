"""What an earlier agent's flows tell a fresh one: which subnets each segment's flood flows serve."""

from __future__ import annotations

import re
from collections.abc import Iterable

from dataplane.model import NetworkType, Segment
from dataplane.ovs.openflow import oxm
from dataplane.ovs.openflow.messages import FlowStat
from dataplane.ovs.pipeline.layout import REG_SEGMENT, subnet_key

_METADATA_HEADER = oxm.metadata(0)[:4]
_SUBNETS = re.compile(re.escape(_METADATA_HEADER) + b"(.{8})", re.DOTALL)
_SEGMENT_HEADER = oxm.reg(REG_SEGMENT, 0)[:4]
_SEGMENT = re.compile(re.escape(_SEGMENT_HEADER) + b"(.)(.{3})", re.DOTALL)


class InheritedSegments:
    """Segments with flows of an earlier agent, and the keys of the subnets that those flows put frames into."""

    def __init__(self, flows: Iterable[FlowStat]) -> None:
        self._subnets: dict[Segment, set[int]] = {}
        for flow in flows:
            found = _SEGMENT.search(flow.match)
            if found is None:
                continue
            segment = Segment(NetworkType(found[1][0] - 1), int.from_bytes(found[2], "big"))
            keys = {int.from_bytes(key, "big") for key in _SUBNETS.findall(flow.instructions)}
            self._subnets.setdefault(segment, set()).update(keys)

    def segments(self) -> list[Segment]:
        return list(self._subnets)

    def keys(self, segment: Segment) -> frozenset[int]:
        return frozenset(self._subnets.get(segment, ()))

    def subnet_deleted(self, subnet_id: str) -> list[Segment]:
        """Forget a subnet. Returns the segments that it was in."""
        key = subnet_key(subnet_id)
        concerned = [segment for segment, keys in self._subnets.items() if key in keys]
        for segment in concerned:
            self._subnets[segment].discard(key)
            if not self._subnets[segment]:
                del self._subnets[segment]
        return concerned
