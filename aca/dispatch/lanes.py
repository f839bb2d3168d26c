"""The thread pool: work on one VPC is serial and in order, different VPCs run side by side.

What arrives while a lane is busy coalesces into its next turn, at most one change per resource, and goes to the data
plane in one call: neighbours are never a task each. A turn that has grown large takes no more, so that the first of
many large messages is answered when it is done and not when all are.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from aca.dispatch.plan import LaneWork
from dataplane.model import Key, Kind

FULL_TURN = 32_000
"""Resources after which a turn takes no more."""


@dataclass(slots=True)
class _Turn:
    number: int
    work: LaneWork
    size: int


@dataclass(slots=True)
class _Lane:
    waiting: deque[_Turn] = field(default_factory=deque)
    running: _Turn | None = None


class LanePool:
    """`run(lane, turn, work)` is called by pool threads; it must not raise. Thread safe."""

    def __init__(self, workers: int, run: Callable[[str, int, LaneWork], None]) -> None:
        self._run = run
        self._lock = threading.Lock()
        self._wake = threading.Condition(self._lock)
        self._lanes: dict[str, _Lane] = {}
        self._turn = 0
        self._ready: deque[str] = deque()
        self._paused = True
        self._closed = False
        self._threads = [
            threading.Thread(target=self._work, name=f"lane-worker-{number}", daemon=True) for number in range(workers)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, name: str, work: LaneWork) -> int:
        """Add work to a lane; later values of a resource replace earlier ones. Returns the turn that will do it."""
        size = sum(map(len, work.values()))
        with self._lock:
            lane = self._lanes.get(name)
            if lane is None:
                lane = self._lanes[name] = _Lane()
            if lane.waiting and lane.waiting[-1].size + size <= FULL_TURN:
                turn = lane.waiting[-1]
                for kind, items in work.items():
                    turn.work.setdefault(kind, {}).update(items)
                turn.size += size
                return turn.number
            self._turn += 1
            lane.waiting.append(_Turn(self._turn, work, size))
            if lane.running is None and len(lane.waiting) == 1:
                self._ready.append(name)
                self._wake.notify()
            return self._turn

    def in_work(self) -> Counter[Kind]:
        """Resources that wait for their turn or are at the data plane, by kind."""
        with self._lock:
            counts: Counter[Kind] = Counter()
            for turn in self._turns():
                for kind, items in turn.work.items():
                    counts[kind] += len(items)
            return counts

    def keys(self) -> set[Key]:
        """The resources of `in_work`."""
        with self._lock:
            works = [(kind, list(items)) for turn in self._turns() for kind, items in turn.work.items()]
        return {Key(kind, name) for kind, names in works for name in names}

    def _turns(self) -> Iterator[_Turn]:
        for lane in self._lanes.values():
            yield from lane.waiting
            if lane.running is not None:
                yield lane.running

    def pause(self) -> None:
        """Start no further work until `resume`; what runs goes on."""
        with self._lock:
            self._paused = True

    def resume(self) -> None:
        with self._lock:
            self._paused = False
            self._wake.notify_all()

    def close(self, timeout: float) -> bool:
        """Stop after the work in hand. Returns False if a thread did not end in time (it is a daemon thread)."""
        with self._lock:
            self._closed = True
            self._wake.notify_all()
        share = timeout / max(1, len(self._threads))
        for thread in self._threads:
            thread.join(share)
        return not any(thread.is_alive() for thread in self._threads)

    def _work(self) -> None:
        while True:
            with self._lock:
                while not self._closed and (self._paused or not self._ready):
                    self._wake.wait(60.0)
                if self._closed:
                    return
                name = self._ready.popleft()
                lane = self._lanes[name]
                turn = lane.running = lane.waiting.popleft()
            self._run(name, turn.number, turn.work)
            with self._lock:
                lane.running = None
                if lane.waiting:
                    self._ready.append(name)
                    self._wake.notify()
                else:
                    del self._lanes[name]
            del turn
