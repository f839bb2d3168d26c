"""Whose flows are being changed by this agent, now or a moment ago: what is not to be taken for drift."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from dataplane.ovs.book import Owner, blamed_for
from dataplane.ovs.pipeline.layout import cookie
from dataplane.ovs.work import Work

_KEEP_S = 3.0
"""The switch tells of a change within milliseconds; this is what an agent that is out of breath may need to hear it."""


@dataclass(frozen=True, slots=True)
class Footprint:
    """What some calls of `apply` have changed, or may have."""

    works: tuple[Work, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.works)

    def owners(self) -> set[Owner]:
        """A walk over everything that was sent: only for when something looks wrong."""
        return {blamed_for(blame)[1] for work in self.works for blame in set(work.unconfirmed())}

    def cookies(self) -> set[int]:
        """Those of `owners`, and those that were deleted."""
        return self.deleted() | {cookie(*owner) for owner in self.owners()}

    def deleted(self) -> set[int]:
        """Cookies of deleted flows."""
        return set().union(*(work.transaction.deleted.copy() for work in self.works))


class Activity:
    """Calls of `apply` that run, and those that ended lately. Thread safe. Times are of time.monotonic()."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: list[Work] = []
        self._ended: deque[tuple[float, Work]] = deque()
        self._watches: list[float] = []

    def begin(self, work: Work) -> None:
        with self._lock:
            self._running.append(work)

    def end(self, work: Work) -> None:
        with self._lock:
            self._running.remove(work)
            self._ended.append((time.monotonic(), work))
            self._forget()

    @contextmanager
    def watch(self) -> Iterator[float]:
        """Keep what ends from now on; gives the time that it began, for `since`."""
        began = time.monotonic()
        with self._lock:
            self._watches.append(began)
        try:
            yield began
        finally:
            with self._lock:
                self._watches.remove(began)
                self._forget()

    def since(self, moment: float) -> Footprint:
        """Of all that ran at or after the moment."""
        with self._lock:
            ended = (work for end, work in self._ended if end >= moment)
            return Footprint((*self._running, *ended))

    def recent(self) -> Footprint:
        """Of all that ran within the last seconds."""
        return self.since(time.monotonic() - _KEEP_S)

    @property
    def quiet(self) -> bool:
        return not self._running

    def _forget(self) -> None:
        oldest = min([time.monotonic() - _KEEP_S, *self._watches])
        while self._ended and self._ended[0][0] < oldest:
            self._ended.popleft()
