"""When failed resources are tried again: exponential back-off with jitter."""

from __future__ import annotations

import heapq
import random
from dataclasses import dataclass, field
from typing import NamedTuple

from dataplane.model import Key

FIRST_DELAY_S = 1.0
MAX_DELAY_S = 60.0


class _Attempt(NamedTuple):
    lane: str
    number: int
    due: float


@dataclass(slots=True)
class RetryQueue:
    """Due times by resource. Single-threaded; the caller brings the time (monotonic seconds)."""

    _attempts: dict[Key, _Attempt] = field(default_factory=dict)
    _heap: list[tuple[float, Key]] = field(default_factory=list)

    def failed(self, key: Key, lane: str, now: float) -> None:
        """Work on the resource failed in a lane. An earlier due time counts no more."""
        known = self._attempts.get(key)
        number = known.number if known else 0
        delay = min(MAX_DELAY_S, FIRST_DELAY_S * 2.0 ** min(number, 16))
        due = now + delay * random.uniform(0.8, 1.2)
        self._attempts[key] = _Attempt(lane, number + 1, due)
        heapq.heappush(self._heap, (due, key))

    def settled(self, key: Key) -> None:
        """The resource needs no more attempts; entries still queued are skipped when due."""
        self._attempts.pop(key, None)

    def lane_of(self, key: Key) -> str | None:
        """The lane in which the resource failed, if it is to be tried again."""
        known = self._attempts.get(key)
        return known.lane if known else None

    def due(self, now: float) -> list[tuple[Key, str]]:
        """Resources whose time has come, each once, with the lanes in which they failed."""
        found = []
        while self._heap and self._heap[0][0] <= now:
            due, key = heapq.heappop(self._heap)
            attempt = self._attempts.get(key)
            if attempt is not None and attempt.due == due:
                found.append((key, attempt.lane))
        return found

    def next_due(self) -> float | None:
        return self._heap[0][0] if self._heap else None
