"""A message in hand: which of its resources are settled, and the reply when all are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from aca.goalstate.changes import Change
from aca.goalstate.reply import ResourceResult, build_reply
from dataplane.base import DONE, Outcome

OutcomeOf = Callable[[Change], Outcome | None]
"""The outcome of a resource as of now; None: it gets no status in the reply."""


@dataclass(slots=True, eq=False)
class Ticket:
    """`turns` are the (lane, turn) it still waits for; `deadline` when it is answered all the same (monotonic s)."""

    future: Future[bytes]
    format_version: int
    started: float
    deadline: float
    parts: list[tuple[list[Change], Sequence[Outcome | None]]] = field(default_factory=list)
    turns: dict[tuple[str, int], None] = field(default_factory=dict)
    sealed: bool = False
    programming_us: int = 0

    def add(self, changes: list[Change], settled: Sequence[Outcome | None]) -> None:
        self.parts.append((changes, settled))

    @property
    def finished(self) -> bool:
        return self.sealed and not self.turns

    def answer(self, now: float, outcome_of: OutcomeOf, all_done: Callable[[list[Change]], bool]) -> None:
        """Give the reply. `all_done` may vouch for a whole part, so that bulk needs no look-up per item."""
        elapsed = _microseconds(now - self.started)
        programming = self.programming_us

        def results() -> list[ResourceResult]:
            collected = []
            for changes, settled in self.parts:
                if all_done(changes) and not any(settled):
                    collected += [
                        ResourceResult(change.kind, change.resource_id, change.operation, DONE, programming, elapsed)
                        for change in changes
                    ]
                    continue
                for change, early in zip(changes, settled, strict=True):
                    outcome = early or outcome_of(change)
                    if outcome is not None:
                        spent = 0 if early else programming
                        collected.append(
                            ResourceResult(change.kind, change.resource_id, change.operation, outcome, spent, elapsed)
                        )
            return collected

        if not self.future.done():
            self.future.set_result(build_reply(results(), self.format_version, elapsed))


def _microseconds(seconds: float) -> int:
    return int(seconds * 1e6)
