"""What became of every resource: only those that are not simply programmed take memory. Engine's thread only."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterable
from typing import Any

from aca.dispatch.plan import Absence, LaneWork, Plan
from aca.dispatch.retry import RetryQueue
from aca.goalstate.changes import Change
from aca.goalstate.desired import DesiredState
from aca.goalstate.records import Dirty
from dataplane.base import DONE, Applied, Outcome, Status, failed, pending
from dataplane.model import Key, Kind

_MAX_PROBLEMS_SHOWN = 1000
_MAX_REFUSED = 1000


class Outcomes:
    """`verdicts` come from the plan and hold even when the data plane is content; `problems` are what is answered."""

    def __init__(self, state: DesiredState) -> None:
        self._state = state
        self._verdicts: dict[Key, Outcome] = {}
        self._problems: dict[Kind, dict[str, tuple[Outcome, float]]] = {kind: {} for kind in Kind}
        self.retries = RetryQueue()
        self._refused: dict[Key, tuple[str, float]] = {}

    def merged(self, changes: Iterable[Change], settled: Iterable[Outcome | None]) -> None:
        """Remember the newest refusals, until a resource is accepted: nothing else would tell of them."""
        for change, outcome in zip(changes, settled, strict=True):
            if outcome is None:
                if self._refused:
                    self._refused.pop(Key(change.kind, change.id), None)
                continue
            key = Key(change.kind, change.id)
            self._refused.pop(key, None)
            self._refused[key] = (outcome.reason, time.time())
            if len(self._refused) > _MAX_REFUSED:
                del self._refused[next(iter(self._refused))]

    def planned(self, dirty: Dirty, plan: Plan) -> None:
        if self._verdicts or plan.verdicts:
            for kind, marked in dirty.items():
                for resource_id in marked:
                    self._verdicts.pop(Key(kind, resource_id), None)
        self._verdicts.update(plan.verdicts)
        for key, outcome in plan.settled.items():
            self.settle(key, outcome)

    def turn_over(self, lane: str, work: LaneWork, applied: Applied, error: str, *, ready: bool) -> None:
        """A turn of work is over: `error` if the data plane as a whole did not answer, else what it said."""
        broken = None
        if error:
            broken = failed(error) if ready else pending(f"data plane not ready: {error}")
        for kind, items in work.items():
            if broken is None and not (applied.problems or self._verdicts or self._problems[kind]):
                continue
            for resource_id, wanted in items.items():
                key = Key(kind, resource_id)
                outcome = broken or applied.problems.get(key)
                if broken is not None and wanted is Absence.DELETED and kind is not Kind.DHCP:
                    # Becoming ready again programs what is desired. This is not: it has to be remembered.
                    outcome = failed(error)
                if kind is Kind.DHCP:
                    # This item is a port's punt, not a binding: what goes wrong with it is the port's trouble.
                    if outcome is not None:
                        self.settle(Key(Kind.PORT, resource_id), outcome, lane)
                    continue
                self.settle(key, _both(outcome, self._verdicts.get(key)), lane)

    def settle(self, key: Key, outcome: Outcome, lane: str = "") -> None:
        """Note what became of a resource. If it failed, it is tried again in the lane."""
        known = self._problems[key.kind]
        if outcome.status is Status.FAILED:
            self.retries.failed(key, lane, time.monotonic())
        else:
            self.retries.settled(key)
            if outcome.status is Status.DONE or key.id not in self._state.store(key.kind):
                known.pop(key.id, None)
                return
        if key.id not in known or known[key.id][0] != outcome:
            known[key.id] = (outcome, time.time())

    def has_problems(self, kind: Kind) -> bool:
        return bool(self._problems[kind])

    def unsettled(self) -> set[Key]:
        """What is wanted and not programmed."""
        return {Key(kind, name) for kind, known in self._problems.items() for name in known}

    def problem(self, kind: Kind, resource_id: str) -> Outcome | None:
        known = self._problems[kind].get(resource_id)
        return known[0] if known is not None else None

    # -- for people

    def counts(self, kind: Kind, in_work: int, *, confirmed: bool) -> dict[str, int]:
        """What is not confirmed counts as pending: nothing is programmed while the data plane is not ready."""
        by_status = Counter(outcome.status for outcome, _ in self._problems[kind].values())
        desired = len(self._state.store(kind))
        refused, broken = by_status[Status.INVALID], by_status[Status.FAILED]
        waiting = by_status[Status.PENDING] + in_work if confirmed else desired
        waiting = max(0, min(waiting, desired - refused - broken))
        return {
            "desired": desired,
            "programmed": max(0, desired - refused - broken - waiting),
            "pending": waiting,
            "invalid": refused,
            "failed": broken,
        }

    def describe_refused(self) -> list[dict[str, Any]]:
        """Resources of which the last message was refused, JSON-ready, oldest first."""
        return [
            {"kind": key.kind.name, "id": key.id, "reason": reason, "at": at}
            for key, (reason, at) in self._refused.items()
        ]

    def describe(self, kinds: Collection[Kind]) -> tuple[list[dict[str, Any]], int]:
        """Problems, JSON-ready, the first thousand; and how many there are."""
        total = sum(len(self._problems[kind]) for kind in kinds)
        shown: list[dict[str, Any]] = []
        for kind in kinds:
            for name, (outcome, since) in self._problems[kind].items():
                if len(shown) == _MAX_PROBLEMS_SHOWN:
                    return shown, total
                entry = {"kind": kind.name, "id": name, "status": outcome.status.value, "reason": outcome.reason}
                shown.append({**entry, "since": since})
        return shown, total


def _both(found: Outcome | None, verdict: Outcome | None) -> Outcome:
    """What the data plane found and what the plan knew; a resource may wait for two things, and both are told."""
    if found is None or verdict is None:
        return found or verdict or DONE
    if found.status is verdict.status is Status.PENDING:
        return pending(f"{verdict.reason}; {found.reason}")
    return found
