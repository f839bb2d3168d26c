"""The client of a transit daemon: one socket, one exchange at a time, calls pipelined."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from dataplane.mizar.procedures import Call
from dataplane.mizar.typed import Answer, TypedCalls

PATIENCE_S: Final = 45.0
"""How long a silent daemon is not held dead: another client that stops inside a record blocks it for 35 seconds."""


class Transport(Enum):
    TCP = "tcp"
    UDP = "udp"


@dataclass(frozen=True, slots=True)
class Settings:
    """Where the daemon is. `port`: its own, or None to ask the port mapper at `mapper_port`. `window`: calls that may
    be unanswered at once. `resend_s`, `resends`: after how long, and how often, UDP repeats what may be repeated."""

    host: str = "127.0.0.1"
    port: int | None = None
    mapper_port: int = 111
    transport: Transport = Transport.TCP
    window: int = 32
    patience_s: float = PATIENCE_S
    connect_s: float = 5.0
    resend_s: float = 5.0
    resends: int = 3


@dataclass(frozen=True, slots=True)
class Health:
    """`alive`: procedure 0 was answered. `life`: goes up with every connection, so that another one than before means
    a daemon that may hold nothing. `reason`: why it is not alive."""

    alive: bool
    life: int
    reason: str = ""


class Client(TypedCalls):
    """Thread safe: callers take turns, a whole batch each. A broken connection is told once, by Lost errors, and never
    mended inside a batch, as a restarted daemon holds nothing; the next batch connects again."""

    def __init__(self, settings: Settings) -> None:
        """Connects with the first use."""
        self._settings = settings

    @property
    def life(self) -> int:
        """How many connections there were. Another number than before: replay everything."""
        raise NotImplementedError

    def connect(self) -> int:
        """Connects if there is no connection, and says which life it is. Raises Lost, Closed."""
        raise NotImplementedError

    def run(self, calls: Sequence[Call]) -> list[Answer]:
        """The calls in this order on the wire, pipelined; an answer for each, in the same order. Never raises
        MizarError: what fails has an error in its answer. A value out of bounds refuses its own call only; once the
        connection is lost or an answer overdue, all later calls have Lost or Unanswered."""
        raise NotImplementedError

    def health(self) -> Health:
        """Asks procedure 0, and the port mapper where one is used: another port there is another daemon. Never
        raises."""
        raise NotImplementedError

    def close(self) -> None:
        """Wakes whoever waits, with Closed. Harmless twice, from any thread."""
        raise NotImplementedError
