"""Who programs the kernel goes first; who listens to what it says of it can wait.

The kernel tells of every device and entry that is changed, so while a port is programmed those that listen have as much
to do as the one who programs, and one interpreter runs only one of them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

_LONGEST_S = 0.1
"""Notices that others cause are not to be late for more than that."""
_AFTER_S = 0.005
"""The reply is on its way."""
_LOOK_S = 0.005


class Precedence:
    """Thread safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._programming = 0
        self._over = 0.0

    @contextmanager
    def first(self) -> Iterator[None]:
        """For who programs; never waits for anybody."""
        with self._lock:
            self._programming += 1
        try:
            yield
        finally:
            with self._lock:
                self._programming -= 1
                self._over = time.monotonic() + _AFTER_S

    def give_way(self, closing: threading.Event) -> None:
        """For who listens: wait while somebody programs, but not for long."""
        latest = time.monotonic() + _LONGEST_S
        while (self._programming or time.monotonic() < self._over) and time.monotonic() < latest:
            if closing.wait(_LOOK_S):
                return
