"""Flows that somebody removes or modifies: gathered from the switch's reports, looked at a moment later."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from dataplane.ovs.openflow.messages import FlowUpdates

_GATHER_S = 0.1
"""What one command of somebody does comes in many reports."""
_MOST_ROUNDS = 10
_MOST = 20_000
_JOIN_S = 1.5
_REST_S = 2.0
_LOOK_S = 0.25
_MOST_LOOKS = 40

Changed = frozenset[int] | None
"""Cookies of changed flows; None if there are too many to name, or the switch has left some out."""


class DriftWatch:
    """One thread that calls `look` with what has changed. `note` may be called by any thread and is quick.

    Looking at everything waits until it is `quiet`, for some seconds at most: what was found the last time is being put
    back, and the two would hold each other up.
    """

    def __init__(self, look: Callable[[Changed], None], quiet: Callable[[], bool]) -> None:
        self._look = look
        self._quiet = quiet
        self._rested_at = 0.0
        self._changed = threading.Condition()
        self._cookies: set[int] = set()
        self._too_many = False
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="ovs-drift", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._closing.set()
        with self._changed:
            self._changed.notify_all()
        if self._thread.is_alive():
            self._thread.join(_JOIN_S)

    def note(self, updates: FlowUpdates) -> None:
        with self._changed:
            if len(self._cookies) < _MOST:
                self._cookies.update(updates.cookies)
            self._too_many |= updates.incomplete or len(self._cookies) >= _MOST
            self._changed.notify_all()

    def _loop(self) -> None:
        while not self._closing.is_set():
            with self._changed:
                self._changed.wait_for(lambda: self._cookies or self._too_many or self._closing.is_set(), 60.0)
            self._gather()
            changed = self._take()
            if changed is None:
                self._wait_for_quiet()
                self._take()
            if changed != frozenset() and not self._closing.is_set():
                self._look(changed)
            if changed is None:
                self._rested_at = time.monotonic() + _REST_S

    def _gather(self) -> None:
        """Wait until no more reports come, within bounds."""
        known = -1
        for _ in range(_MOST_ROUNDS):
            if len(self._cookies) == known or self._too_many or self._closing.wait(_GATHER_S):
                return
            known = len(self._cookies)

    def _wait_for_quiet(self) -> None:
        for _ in range(_MOST_LOOKS):
            if (time.monotonic() >= self._rested_at and self._quiet()) or self._closing.wait(_LOOK_S):
                return

    def _take(self) -> Changed:
        with self._changed:
            cookies, self._cookies = self._cookies, set()
            too_many, self._too_many = self._too_many, False
        return None if too_many else frozenset(cookies)
