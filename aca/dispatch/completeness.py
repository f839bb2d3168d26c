"""Whether the desired state is complete: everything that is to be on this host has been told since the agent started.

Only then may what nothing wants be taken away. Nothing is ever complete by the passing of time, and without a source
that says that it has told everything it never is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import structlog

from aca.dispatch.ticket import Ticket

CONTROLLER = "controller"
"""The source that replays the desired state when it is told that the agent has started."""


def kafka_source(topic: str) -> str:
    """What a compacted topic is called among the sources."""
    return f"kafka:{topic}"


_log = structlog.get_logger(__name__)


class Completeness:
    """Which of the authoritative sources have told everything. Engine's thread only.

    A replay by the controller is over when the controller has answered the request for it, when its closing marker has
    come, and when this agent has answered the marker and every message before it.
    """

    def __init__(self, sources: Iterable[str], completed: Callable[[], None]) -> None:
        """`completed` is called whenever the last source has told everything."""
        self._waiting = dict.fromkeys(sources)
        self._any = bool(self._waiting)
        self._completed = completed
        self._replay = ""
        self._replay_answered = False
        self._replay_ended = False
        self._unanswered: dict[Ticket, None] = {}

    @property
    def complete(self) -> bool:
        return self._any and not self._waiting

    def why_not(self) -> str:
        """Empty if it is complete."""
        if not self._any:
            return (
                "nobody says when everything has been told (reconcile.controller_replays is not set); "
                "`aca reconcile --force` says it"
            )
        return f"waiting for the end of what these tell: {', '.join(self._waiting)}" if self._waiting else ""

    def reached(self, source: str) -> None:
        """The source has told everything, and all of it has been dealt with."""
        if source in self._waiting:
            del self._waiting[source]
            _log.info("everything has been told", source=source, waiting=list(self._waiting))
            if not self._waiting:
                self._completed()

    # -- the controller's replay

    def begin_replay(self, request_id: str) -> None:
        """The controller is about to be asked to tell everything (once more)."""
        self._replay, self._replay_answered, self._replay_ended = request_id, False, False
        self._unanswered = {}
        if self._any:
            self._waiting[CONTROLLER] = None

    def replay_answered(self, request_id: str) -> None:
        """The controller has answered that request with success."""
        if request_id == self._replay:
            self._replay_answered = True
            self._look()

    def replay_ended(self, request_id: str, unanswered: Iterable[Ticket]) -> None:
        """The closing marker has come, while these messages, the marker's own among them, have no reply yet."""
        if request_id == self._replay:
            self._replay_ended = True
            self._unanswered = dict.fromkeys(unanswered)
            self._look()

    def message_answered(self, message: Ticket) -> None:
        if message in self._unanswered:
            del self._unanswered[message]
            self._look()

    def _look(self) -> None:
        if self._replay_answered and self._replay_ended and not self._unanswered:
            self.reached(CONTROLLER)
