"""Whether brokers answer, and what is wrong: one log line per change, not per attempt."""

from __future__ import annotations

import time
from typing import Any

import structlog

_log = structlog.get_logger(__name__)


class Connection:
    """Of one client, whose thread alone calls; `describe` may be called by any thread."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.connected: bool | None = None
        """None until it is known."""
        self._since = time.time()
        self._troubles: dict[str, tuple[str, str]] = {}
        """About what: its kind, and in words. Replaced as a whole: others may be reading it."""

    def lost(self, reason: str) -> None:
        if self.connected is not False:
            self.connected, self._since = False, time.time()
            _log.warning("kafka: disconnected", consumer=self._name, reason=reason)

    def back(self) -> None:
        if self.connected is not True:
            self.connected, self._since = True, time.time()
            _log.info("kafka: connected", consumer=self._name)

    def trouble(self, about: str, kind: str, text: str) -> None:
        """Something is wrong with `about` (a topic, the log-in). Said once, until it is over or of another kind: texts
        name the broker and how long the attempt took."""
        if about not in self._troubles or self._troubles[about][0] != kind:
            self._troubles = {**self._troubles, about: (kind, text)}
            _log.warning("kafka: trouble", consumer=self._name, about=about, reason=text)

    def over(self, about: str) -> None:
        if about in self._troubles:
            self._troubles = {name: one for name, one in self._troubles.items() if name != about}
            _log.info("kafka: trouble is over", consumer=self._name, about=about)

    def describe(self) -> dict[str, Any]:
        """JSON-ready. `since` is seconds since the epoch."""
        troubles = {about: text for about, (_, text) in self._troubles.items()}
        return {"connected": bool(self.connected), "since": self._since, "troubles": troubles}
