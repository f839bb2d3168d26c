"""The flood lists of subnets and segments: rendered when who is in them has changed."""

from __future__ import annotations

from collections.abc import Iterable

from dataplane.model import Key, Kind
from dataplane.ovs.book import FlowBook
from dataplane.ovs.fixed import FixedPart
from dataplane.ovs.inherited import InheritedSegments
from dataplane.ovs.members import Members
from dataplane.ovs.openflow.messages import FlowStat
from dataplane.ovs.pipeline.flood import flood_flows, segment_flows
from dataplane.ovs.pipeline.layout import Feature, segment_name, segment_of, subnet_key
from dataplane.ovs.work import Work


class FloodLists:
    """Not thread safe: the caller's lock guards it."""

    def __init__(self, book: FlowBook, members: Members, fixed: FixedPart) -> None:
        self._book = book
        self._members = members
        self._fixed = fixed
        self._inherited = InheritedSegments(())

    def inherit(self, flows: Iterable[FlowStat]) -> None:
        """An earlier agent has left these for what arrives from tunnels."""
        self._inherited = InheritedSegments(flows)

    def subnet_deleted(self, subnet_id: str, work: Work) -> None:
        """Take away what an earlier agent may have left of it."""
        key = Key(Kind.SUBNET, subnet_id)
        if self._members.subnet(subnet_id) is None:
            self._book.delete(work.transaction, (Feature.FLOOD, subnet_id), key)
        for segment in self._inherited.subnet_deleted(subnet_id):
            work.segments[segment] = key

    def disinherit(self) -> None:
        """All that is wanted is known: subnets that only an earlier agent knew are served no longer."""
        for segment in self._inherited.segments():
            self._book.doubt_installed((Feature.SEGMENT, segment_name(segment)))
        self._inherited = InheritedSegments(())

    def unsettled(self) -> bool:
        """Whether some list is not known to stand."""
        return bool(self._book.doubtful(Feature.FLOOD) or self._book.doubtful(Feature.SEGMENT))

    def doubt(self, work: Work) -> None:
        """Nobody knows what stands of the lists that this call has changed."""
        for subnet_id in work.subnets:
            self._book.doubt((Feature.FLOOD, subnet_id))
        for segment in work.segments:
            self._book.doubt((Feature.SEGMENT, segment_name(segment)))

    def render(self, work: Work) -> None:
        """Those that this call has changed, and those in doubt."""
        subnets = {name: Key(Kind.SUBNET, name) for name in self._book.doubtful(Feature.FLOOD)} | work.subnets
        for subnet_id, account in subnets.items():
            members = self._members.subnet(subnet_id)
            flows = flood_flows(members, self._fixed.tunnels[members.ref.segment.network_type]) if members else []
            self._book.set(work.transaction, (Feature.FLOOD, subnet_id), account, flows)
        segments = {segment_of(name): Key(Kind.SUBNET, "") for name in self._book.doubtful(Feature.SEGMENT)}
        for segment, account in (segments | work.segments).items():
            in_segment = self._members.segment(segment)
            # Subnets that an earlier agent served and of which nothing has been heard yet are served on.
            others = self._inherited.keys(segment) - {subnet_key(one.ref.subnet_id) for one in in_segment}
            owner = (Feature.SEGMENT, segment_name(segment))
            flows = segment_flows(segment, in_segment, sorted(others))
            if flows:
                self._book.set(work.transaction, owner, account, flows)
            elif not others:
                self._book.delete(work.transaction, owner, account)
