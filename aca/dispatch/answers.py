"""The messages in hand: each waits for the turns that program it, and is answered once. Engine's thread only."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection

from aca import interpreter
from aca.dispatch.ticket import Part, Ticket, Turn
from aca.goalstate.changes import Change
from dataplane.base import Outcome

_LARGE = 10_000
"""Resources in a message from which on its memory is given back at once."""

OutcomeOf = Callable[[Change, Collection[str]], Outcome]
"""The outcome of a resource as of now, while these lanes are still at work for the message."""


class Answers:
    """`outcome_of` is asked when a message is answered, `answered` is told before."""

    def __init__(self, outcome_of: OutcomeOf, answered: Callable[[Ticket], None]) -> None:
        self._outcome_of = outcome_of
        self._answered = answered
        self._tickets: dict[Ticket, None] = {}
        self._waiting: dict[Turn, dict[Ticket, None]] = {}

    def __len__(self) -> int:
        return len(self._tickets)

    @property
    def in_hand(self) -> Collection[Ticket]:
        return self._tickets.keys()

    def take(self, ticket: Ticket) -> None:
        self._tickets[ticket] = None

    def wait_for(self, ticket: Ticket, part: Part, turn: Turn) -> None:
        part.turns.add(turn)
        self._waiting.setdefault(turn, {})[ticket] = None

    def seal(self, ticket: Ticket) -> None:
        """All of the message has been merged."""
        ticket.sealed = True
        self._answer_if_finished(ticket)

    def turn_over(self, turn: Turn, programming_us: int) -> None:
        now = time.monotonic()
        for ticket in self._waiting.pop(turn, ()):
            ticket.turn_over(turn, programming_us, now, lambda change: self._outcome_of(change, ()))
            self._answer_if_finished(ticket)

    def next_deadline(self) -> float | None:
        return min((ticket.deadline for ticket in self._tickets), default=None)

    def hurry(self, deadline: float) -> None:
        """Answer all that is in hand by then, whatever is still in work."""
        for ticket in self._tickets:
            ticket.deadline = min(ticket.deadline, deadline)

    def expire(self, now: float) -> None:
        """Answer those whose deadline is over as they stand."""
        for ticket in [ticket for ticket in self._tickets if ticket.deadline <= now]:
            self._answer(ticket)

    def _answer_if_finished(self, ticket: Ticket) -> None:
        if ticket.finished:
            self._answer(ticket)

    def _answer(self, ticket: Ticket) -> None:
        self._answered(ticket)
        self._tickets.pop(ticket, None)
        unfinished = ticket.turns
        for turn in unfinished:
            self._waiting.get(turn, {}).pop(ticket, None)
        lanes = {lane for lane, _ in unfinished}
        try:
            ticket.answer(time.monotonic(), lambda change: self._outcome_of(change, lanes))
        except Exception as problem:
            ticket.future.set_exception(problem)
            raise
        if ticket.size >= _LARGE:
            ticket.parts.clear()
            interpreter.give_back_memory()
