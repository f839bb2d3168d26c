"""One call of `apply`: what has been collected and sent for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from dataplane.base import Outcome
from dataplane.model import Key, Segment
from dataplane.ovs.book import Blame, Transaction
from dataplane.ovs.members import Members
from dataplane.ovs.openflow.errors import OpenFlowError
from dataplane.ovs.openflow.programmer import FlowProgrammer
from dataplane.ovs.ovsdb import Device

BUNDLE = 2000
"""Flow-mods to a bundle: larger ones stall traffic while they are committed."""


@dataclass(slots=True)
class Work:
    """`subnets` and `segments` are those whose flood lists have to be rendered again, and on whose account.

    Kept per call: what another lane changes meanwhile is that lane's to render and to wait for.
    """

    programmer: FlowProgrammer
    transaction: Transaction = field(default_factory=Transaction)
    sent: list[tuple[Future[Mapping[int, OpenFlowError]], list[Blame]]] = field(default_factory=list)
    problems: dict[Key, Outcome] = field(default_factory=dict)
    wired: dict[str, Device] = field(default_factory=dict)
    subnets: dict[str, Key] = field(default_factory=dict)
    segments: dict[Segment, Key] = field(default_factory=dict)
    _sending: list[Blame] = field(default_factory=list)

    def note_changes(self, members: Members, on_account_of: Key) -> None:
        subnets, segments = members.take_changed()
        self.subnets.update(dict.fromkeys(subnets, on_account_of))
        self.segments.update(dict.fromkeys(segments, on_account_of))

    def send_full_bundles(self) -> None:
        if len(self.transaction.bodies) >= BUNDLE:
            self.send()

    def unconfirmed(self) -> list[Blame]:
        """Whose flows may or may not stand if this call fails now."""
        return [*(blame for _, blamed in self.sent for blame in blamed), *self._sending, *self.transaction.blamed]

    def send(self) -> None:
        """Send what has been collected, in bundles; confirmation comes through `sent`.

        Raises ProgrammerError if the switch takes nothing more.
        """
        self._sending = self.transaction.blamed
        bodies, blamed = self.transaction.take()
        start = 0
        while start < len(bodies):
            end = _end_of_bundle(blamed, start)
            future = self.programmer.submit(bodies[start:end])
            self.sent.append((future, blamed[start:end]))
            start = end
        self._sending = []


def _end_of_bundle(blamed: Sequence[Blame], start: int) -> int:
    """Where the bundle from `start` ends: full, but not in the middle of an owner's flows (a neighbour's are free)."""
    end = min(start + BUNDLE, len(blamed))
    cut = end
    while start < cut < len(blamed) and not isinstance(blamed[cut], str) and blamed[cut] == blamed[cut - 1]:
        cut -= 1
    return cut if cut > start else end
