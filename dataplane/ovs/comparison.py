"""What stands on the switch beside what should: pure.

The switch reports the fields of a match in an order of its own, and a 64-bit register by its halves; actions come back
as they were sent (`actions.move` names fields as the switch does).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from dataplane.ovs.book import FlowId
from dataplane.ovs.openflow.messages import FlowStat
from dataplane.ovs.openflow.oxm import canonical


@dataclass(slots=True)
class Differences:
    """Flows that should stand and do not, that do other things than they should, and that nothing accounts for.

    `missing` and `altered` are (cookie, identity) as they should be.
    """

    standing: int = 0
    missing: list[tuple[int, FlowId]] = field(default_factory=list)
    altered: list[tuple[int, FlowId]] = field(default_factory=list)
    unknown: list[FlowStat] = field(default_factory=list)


def compare(expected: Mapping[FlowId, tuple[int, bytes]], found: Iterable[FlowStat]) -> Differences:
    """`expected` and what comes out: (cookie, instructions) by identity. Most are alike byte for byte."""
    flows = list(found)
    differences = Differences(len(flows))
    found_as = {(flow[0], flow[1], flow[3]): (flow[2], flow[4]) for flow in flows}
    if found_as == expected:
        return differences
    standing = {(flow.table, flow.priority, flow.match): flow for flow in flows}
    rest: dict[FlowId, tuple[int, bytes]] = {}
    for identity, wanted in expected.items():
        flow = standing.get(identity)
        if flow is not None and flow.cookie == wanted[0] and flow.instructions == wanted[1]:
            del standing[identity]
        else:
            rest[identity] = wanted
    if rest:
        _compare_plain(rest, standing, differences)
    differences.unknown += standing.values()
    return differences


def _compare_plain(
    expected: Mapping[FlowId, tuple[int, bytes]], standing: dict[FlowId, FlowStat], differences: Differences
) -> None:
    spelled: dict[FlowId, FlowId] = {_plain(identity): identity for identity in standing}
    for identity, (cookie, instructions) in expected.items():
        found = spelled.get(_plain(identity))
        flow = standing.pop(found) if found is not None else None
        if flow is None or flow.cookie != cookie:
            # Another's flow in its place is overwritten when it is put back.
            differences.missing.append((cookie, identity))
        elif flow.instructions != instructions:
            differences.altered.append((cookie, identity))


def _plain(identity: FlowId) -> FlowId:
    table, priority, match = identity
    return table, priority, canonical(match)
