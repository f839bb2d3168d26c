"""Reading back what stands and comparing it with the books, in pieces that do not hold the switch up."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from dataplane.ovs.activity import Activity, Footprint
from dataplane.ovs.book import FlowBook, FlowId, Owner
from dataplane.ovs.comparison import Differences, compare
from dataplane.ovs.neighbors import NeighborBook
from dataplane.ovs.openflow.messages import TABLE_ALL, FlowStat
from dataplane.ovs.openflow.programmer import FlowProgrammer
from dataplane.ovs.pipeline.layout import COOKIE_MARK, MARK_MASK, OWNER_HASH_BYTES, Feature, Table, cookie, cookie_range

T = TypeVar("T")

_AT_ONCE = 6000
"""Flows in one answer: the switch makes it in its main thread, at about 1.3 us a flow, and looks at all of the table's
for it, at about 0.1 us each."""
_LARGE_TABLES = (Table.RESOLVE, Table.BRIDGE)
_OTHER_TABLES = tuple(table for table in Table if table not in _LARGE_TABLES)
_UNKNOWN_TABLES = tuple(sorted({*range(255)} - {*Table}))
_MOST_SLICES_BITS = 12
_OWNERS_AT_ONCE = 250
_HASH_BITS = OWNER_HASH_BYTES * 8
_HASH_MASK = (1 << _HASH_BITS) - 1
_SHARE_OF_A_PASS = 60
_FEWEST, _MOST = 100, 1500
"""Owners that one look of a rolling pass reads."""


@dataclass(slots=True)
class Findings:
    """`missing` and `altered` are flows with their owners; `leftovers` have our mark and no owner that wants them."""

    standing: int = 0
    missing: list[tuple[Owner, FlowId]] = field(default_factory=list)
    altered: list[tuple[Owner, FlowId]] = field(default_factory=list)
    leftovers: list[FlowStat] = field(default_factory=list)

    def owners(self) -> set[Owner]:
        return {owner for owner, _ in (*self.missing, *self.altered)}

    def __iadd__(self, other: Findings) -> Findings:
        self.standing += other.standing
        self.missing += other.missing
        self.altered += other.altered
        self.leftovers += other.leftovers
        return self


class _Asked(NamedTuple):
    """When something was asked, and the answers to come."""

    when: float
    answers: list[Future[list[FlowStat]]]


class Surveyor:
    """Compares; changes nothing. `lock` guards the books. One call at a time.

    What calls of `apply` change meanwhile is left out. Every method that is given a programmer raises ProgrammerError,
    OpenFlowError or a time-out.
    """

    def __init__(
        self,
        lock: threading.RLock,
        book: FlowBook,
        neighbors: NeighborBook,
        activity: Activity,
        timeout_s: float,
    ) -> None:
        self._lock = lock
        self._book = book
        self._neighbors = neighbors
        self._activity = activity
        self._timeout_s = timeout_s
        self._owners_left: list[Owner] = []
        self._neighbors_left: list[str] = []
        """What is still to be read in this pass."""
        self._at_once = _FEWEST

    def surplus(self, programmer: FlowProgrammer) -> int | None:
        """How many more flows with our mark stand than should; None while something is being programmed."""
        with self._activity.watch() as began:
            standing = self._count(programmer)
            with self._lock:
                wanted = self._book.flow_count() + self._neighbors.flow_count()
            return None if self._activity.since(began) else standing - wanted

    def look_further(self, programmer: FlowProgrammer) -> Findings:
        """Read some owners' flows: so many that after some dozen calls all have been read."""
        with self._lock:
            if not self._owners_left and not self._neighbors_left:
                self._owners_left, self._neighbors_left = self._book.owners(), self._neighbors.ids()
                count = len(self._owners_left) + len(self._neighbors_left)
                self._at_once = min(_MOST, max(_FEWEST, count // _SHARE_OF_A_PASS))
        part = _take(self._owners_left, self._at_once)
        names = _take(self._neighbors_left, self._at_once - len(part))
        return self.look_at(programmer, [*part, *((Feature.NEIGHBOR, name) for name in names)])

    def look_at(self, programmer: FlowProgrammer, owners: Sequence[Owner]) -> Findings:
        """Read the flows of these owners, by index."""
        findings = Findings()
        for start in range(0, len(owners), _OWNERS_AT_ONCE):
            by_cookie = {cookie(*owner): owner for owner in owners[start : start + _OWNERS_AT_ONCE]}
            with self._activity.watch() as began:
                flows = programmer.flows_of(list(by_cookie)).result(self._timeout_s)
                differences = self._compare(by_cookie, flows)
                part = _attribute(differences, by_cookie, self._activity.since(began))
            part.leftovers.clear()
            findings += part
        return findings

    def look_at_all(self, programmer: FlowProgrammer, excused: Collection[int] = ()) -> Findings:
        """Read all flows with our mark. Flows whose cookie is `excused` are no leftovers."""
        findings = Findings()
        with self._activity.watch() as began:
            standing = self._count(programmer)
            bits = min(_MOST_SLICES_BITS, max(0, (self._largest(programmer) // _AT_ONCE).bit_length()))
            with self._lock:
                owners = self._book.owners()
                ids = self._neighbors.ids()
                in_doubt = [*self._book.doubtful_owners()]
                in_doubt += [(Feature.NEIGHBOR, name) for name in self._neighbors.doubtful_ids()]
                former_marks = tuple(self._book.former_marks)
            spared = {value & _HASH_AND_FEATURE for value in excused}
            spared |= {cookie(*owner) & _HASH_AND_FEATURE for owner in in_doubt}
            slices = _by_slice([*owners, *((Feature.NEIGHBOR, name) for name in ids)], bits)
            asked = self._ask(programmer, _LARGE_TABLES[:1], 0, bits)
            for number, by_cookie in enumerate(slices):
                slice_began = asked.when
                flows = [*self._flows(asked)]
                for tables in (_LARGE_TABLES[1:], _OTHER_TABLES):
                    flows += self._flows(self._ask(programmer, tables, number, bits))
                if number + 1 < len(slices):
                    # The switch makes the next while this one is compared.
                    asked = self._ask(programmer, _LARGE_TABLES[:1], number + 1, bits)
                differences = self._compare(by_cookie, flows)
                findings += _attribute(differences, by_cookie, self._activity.since(slice_began))
            if standing > findings.standing:
                findings.leftovers += self._flows(self._ask(programmer, _UNKNOWN_TABLES, 0, 0))
            for mark in former_marks:
                findings.leftovers += self._of_former(programmer, mark, bits)
            if findings.leftovers:
                spared |= {value & _HASH_AND_FEATURE for value in self._activity.since(began).cookies()}
                findings.leftovers = [
                    flow for flow in findings.leftovers if flow.cookie & _HASH_AND_FEATURE not in spared
                ]
        return findings

    def unaccounted(self, flows: Sequence[FlowStat]) -> list[FlowStat]:
        """Those that nothing wants as the books are now. The caller holds the lock."""
        hashes = {flow.cookie & _HASH_MASK for flow in flows}
        owners: list[Owner] = [owner for owner in (self._book.owner_of(flow.cookie) for flow in flows) if owner]
        owners += [
            (Feature.NEIGHBOR, name)
            for name in self._neighbors.ids()
            if cookie(Feature.NEIGHBOR, name) & _HASH_MASK in hashes
        ]
        return self._compare({cookie(*owner): owner for owner in owners}, flows).unknown

    def owners_of(self, cookies: Collection[int]) -> list[Owner]:
        """The owners with these cookies, as the books are now."""
        with self._lock:
            found = [owner for owner in map(self._book.owner_of, cookies) if owner is not None]
            start, mask = cookie_range(COOKIE_MARK, Feature.NEIGHBOR)
            wanted = {value for value in cookies if value & mask == start}
            if wanted:
                names = self._neighbors.ids()
                found += [(Feature.NEIGHBOR, name) for name in names if cookie(Feature.NEIGHBOR, name) in wanted]
            return found

    def _count(self, programmer: FlowProgrammer, table: int = TABLE_ALL) -> int:
        return programmer.aggregate(COOKIE_MARK << 56, MARK_MASK, table).result(self._timeout_s)

    def _largest(self, programmer: FlowProgrammer) -> int:
        return max(self._count(programmer, table) for table in _LARGE_TABLES)

    @staticmethod
    def _ask(programmer: FlowProgrammer, tables: Sequence[int], number: int, bits: int) -> _Asked:
        """One slice of these tables."""
        value, mask = _slice(COOKIE_MARK << 56, MARK_MASK, number, bits)
        return _Asked(time.monotonic(), [programmer.dump_flows(table, value, mask) for table in tables])

    def _flows(self, asked: _Asked) -> list[FlowStat]:
        return [flow for answer in asked.answers for flow in answer.result(self._timeout_s)]

    def _of_former(self, programmer: FlowProgrammer, mark: int, bits: int) -> Iterator[FlowStat]:
        for feature in Feature:
            for number in range(1 << bits):
                value, mask = _slice(*cookie_range(mark, feature), number, bits)
                yield from programmer.dump_flows(cookie=value, mask=mask).result(self._timeout_s)

    def _compare(self, owners: Mapping[int, Owner], flows: Sequence[FlowStat]) -> Differences:
        """`owners` by cookie."""
        neighbor = Feature.NEIGHBOR
        with self._lock:
            expected = self._neighbors.expected(
                [(mark, name) for mark, (feature, name) in owners.items() if feature is neighbor]
            )
            for mark, owner in owners.items():
                if owner[0] is not neighbor and not self._book.is_doubtful(owner):
                    for identity, instructions in self._book.expected(owner).items():
                        expected[identity] = (mark, instructions)
        return compare(expected, flows)


_HASH_AND_FEATURE = ~MARK_MASK


def _take(items: list[T], count: int) -> list[T]:
    """Remove that many from the end."""
    start = max(0, len(items) - count)
    taken = items[start:]
    del items[start:]
    return taken


def _slice(value: int, mask: int, number: int, bits: int) -> tuple[int, int]:
    """(cookie, mask) of one of 2**bits slices of what the first two name, by the first bits of the owner's hash."""
    return value | number << (_HASH_BITS - bits), mask | ((1 << bits) - 1) << (_HASH_BITS - bits)


def _by_slice(owners: Sequence[Owner], bits: int) -> list[dict[int, Owner]]:
    slices: list[dict[int, Owner]] = [{} for _ in range(1 << bits)]
    for owner in owners:
        mark = cookie(*owner)
        slices[(mark & _HASH_MASK) >> (_HASH_BITS - bits)][mark] = owner
    return slices


def _attribute(differences: Differences, owners: dict[int, Owner], meanwhile: Footprint) -> Findings:
    """Whose what is missing or altered is, without those whose flows were being changed."""
    findings = Findings(differences.standing, leftovers=differences.unknown)
    if differences.missing or differences.altered:
        busy = meanwhile.owners()
        for what, found in ((differences.missing, findings.missing), (differences.altered, findings.altered)):
            for mark, identity in what:
                if owners[mark] not in busy:
                    found.append((owners[mark], identity))
    return findings
