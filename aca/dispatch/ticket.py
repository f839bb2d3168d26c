"""A message in hand: which of its resources are settled, and the reply when all are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from aca.goalstate.changes import Change
from aca.goalstate.reply import ResourceResult, Statuses, build_reply, encode_results
from dataplane.base import Outcome
from dataplane.model import Kind

Turn = tuple[str, int]
"""Lane and number of a turn of work."""

OutcomeOf = Callable[[Change], Outcome]
"""The outcome of a resource as of now."""


@dataclass(slots=True, eq=False)
class Part:
    """Changes of one kind, for each why it was not even tried (or None), and the turns that program them."""

    changes: list[Change]
    settled: Sequence[Outcome | None]
    turns: set[Turn] = field(default_factory=set)
    programming_us: int = 0
    encoded: Statuses | None = None

    @property
    def is_bulk(self) -> bool:
        return self.changes[0].kind is Kind.NEIGHBOR


@dataclass(slots=True, eq=False)
class Ticket:
    """`deadline` is when the message is answered all the same (monotonic seconds)."""

    future: Future[bytes]
    format_version: int
    started: float
    deadline: float
    silent: frozenset[Kind] = frozenset()
    """Kinds that get no status, unless a resource is refused."""
    parts: list[Part] = field(default_factory=list)
    sealed: bool = False

    def add(self, changes: list[Change], settled: Sequence[Outcome | None]) -> Part:
        part = Part(changes, settled)
        self.parts.append(part)
        return part

    @property
    def turns(self) -> set[Turn]:
        """What it still waits for."""
        return set().union(*(part.turns for part in self.parts))

    @property
    def finished(self) -> bool:
        return self.sealed and not any(part.turns for part in self.parts)

    @property
    def size(self) -> int:
        return sum(len(part.changes) for part in self.parts)

    def turn_over(self, turn: Turn, programming_us: int, now: float, outcome_of: OutcomeOf) -> None:
        """A turn is confirmed. Bulk that needs nothing more is put into words at once, while the next turn is at the
        data plane; the rest in the end, since what comes later in a message may still change its answer."""
        for part in self.parts:
            if turn in part.turns:
                part.turns.discard(turn)
                part.programming_us = max(part.programming_us, programming_us)
                if not part.turns and part.is_bulk:
                    part.encoded = self._encode(part, now, outcome_of)

    def answer(self, now: float, outcome_of: OutcomeOf) -> None:
        """Give the reply."""
        if not self.future.done():
            parts = [part.encoded or self._encode(part, now, outcome_of) for part in self.parts]
            self.future.set_result(build_reply(parts, self.format_version, _microseconds(now - self.started)))

    def _encode(self, part: Part, now: float, outcome_of: OutcomeOf) -> Statuses:
        elapsed, programming = _microseconds(now - self.started), part.programming_us
        silent = part.changes[0].kind in self.silent
        results = []
        for change, early in zip(part.changes, part.settled, strict=True):
            if silent and not early:
                continue
            outcome, spent = (early, 0) if early else (outcome_of(change), programming)
            results.append(ResourceResult(change.kind, change.resource_id, change.operation, outcome, spent, elapsed))
        return encode_results(results)


def _microseconds(seconds: float) -> int:
    return int(seconds * 1e6)
