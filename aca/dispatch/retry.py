"""When failed resources are tried again: exponential back-off with jitter."""

from __future__ import annotations

import heapq
import random
from dataclasses import dataclass, field

from dataplane.model import Key

FIRST_DELAY_S = 1.0
MAX_DELAY_S = 60.0


@dataclass(slots=True)
class RetryQueue:
    """Due times by resource. Single-threaded; the caller brings the time (monotonic seconds)."""

    _attempts: dict[Key, int] = field(default_factory=dict)
    _heap: list[tuple[float, Key]] = field(default_factory=list)

    def failed(self, key: Key, now: float) -> None:
        attempt = self._attempts.get(key, 0)
        self._attempts[key] = attempt + 1
        delay = min(MAX_DELAY_S, FIRST_DELAY_S * 2.0 ** min(attempt, 16))
        heapq.heappush(self._heap, (now + delay * random.uniform(0.8, 1.2), key))

    def settled(self, key: Key) -> None:
        """The resource needs no more attempts; entries still queued are skipped when due."""
        self._attempts.pop(key, None)

    def due(self, now: float) -> list[Key]:
        """Resources whose time has come, each once."""
        found: dict[Key, None] = {}
        while self._heap and self._heap[0][0] <= now:
            key = heapq.heappop(self._heap)[1]
            if key in self._attempts:
                found[key] = None
        return list(found)

    def next_due(self) -> float | None:
        return self._heap[0][0] if self._heap else None
