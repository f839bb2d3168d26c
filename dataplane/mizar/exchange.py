"""Runs calls over one socket: a window of them unanswered, answers matched by xid in whatever order they come.

Over TCP nothing is sent twice. Over UDP, when an answer is overdue, everything from the oldest unanswered call on is
sent again in order, as a later call may undo what an earlier one does; a call that must not be repeated therefore
travels alone, and ends the run if its answer does not come.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from dataplane.mizar.errors import (
    Closed,
    CodeError,
    Lost,
    MizarError,
    ReplyError,
    Unanswered,
    ValueRefused,
    XdrError,
)
from dataplane.mizar.layouts import LAYOUTS
from dataplane.mizar.procedures import PROCEDURES, PROGRAM, VERSION, Call
from dataplane.mizar.rpc import call_head, results_of, xid_of
from dataplane.mizar.sockets import Broken, MessageSocket, Overdue, Woken
from dataplane.mizar.typed import Answer

_HEADS: Final = {number: call_head(PROGRAM, VERSION, number) for number in PROCEDURES}
_DONE: Final = bytes(4)


@dataclass(frozen=True, slots=True)
class Pace:
    """`window`: calls unanswered at once. `patience_s`: how long no answer at all is borne. `resend_s`: when to
    repeat, twice as long each further time, at most `resends` times; 0 of these where nothing is repeated."""

    window: int
    patience_s: float
    resend_s: float
    resends: int


def body_of(call: Call) -> bytes:
    """The head and the arguments of a call. Raises ValueRefused."""
    return _HEADS[call.procedure.number] + LAYOUTS[call.procedure.argument].encode(call.argument)


def answer_of(call: Call, reply: bytes, sent: int) -> Answer:
    """What a reply says about a call that went out `sent` times. Never raises."""
    procedure = call.procedure
    try:
        results = results_of(procedure.name, reply)
        if procedure.result is not None:
            value, end = LAYOUTS[procedure.result].decode(results)
            if end != len(results):
                raise ReplyError(procedure.name, f"{len(results) - end} bytes behind the answer")
            return Answer(call, value, None, sent)
        if results == _DONE:
            return Answer(call, 0, None, sent)
        if len(results) != 4:
            raise ReplyError(procedure.name, f"a code of {len(results)} bytes")
        code = int.from_bytes(results, "big", signed=True)
        if sent > 1 and code in procedure.missing:
            return Answer(call, 0, None, sent)
        return Answer(call, None, CodeError(procedure.name, code, _about(call)), sent)
    except XdrError as error:
        return Answer(call, None, ReplyError(procedure.name, f"{error} (or there is no such entry)"), sent)
    except MizarError as error:
        return Answer(call, None, error, sent)


def _about(call: Call) -> str:
    shown = str(call.argument)
    return shown if len(shown) <= 200 else shown[:197] + "..."


class Exchange:
    """One run of calls over a socket. `broken` afterwards: the socket must not be used again."""

    def __init__(self, socket: MessageSocket, calls: Sequence[Call], pace: Pace, xid: int) -> None:
        """`xid`: the last one used on this socket."""
        self._socket, self._calls, self._pace = socket, calls, pace
        self._answers: list[Answer | None] = [None] * len(calls)
        self._sent = [0] * len(calls)
        self._waiting: dict[int, int] = {}
        self.xid = xid
        self._next = 0
        self._alone = False
        self._resent = 0
        self.broken = False

    def run(self) -> list[Answer]:
        """An answer for each call, in the order of the calls. Never raises MizarError."""
        try:
            self._run()
        except Broken as error:
            self._end(Lost, str(error))
        except Woken:
            self._end(Closed, "the client was closed")
        except Overdue:
            self._end(Unanswered, "no answer in time")
        return [answer for answer in self._answers if answer is not None]

    def _end(self, kind: type[Unanswered], reason: str) -> None:
        self.broken = True
        for index, call in enumerate(self._calls):
            sent = self._sent[index]
            if self._answers[index] is None or (index >= self._next and sent):
                error = kind(call.procedure.name, reason, sent=sent > 0)
                self._answers[index] = Answer(call, None, error, sent)

    def _run(self) -> None:
        count = len(self._calls)
        deadline = self._fill()
        while self._waiting or self._next < count:
            try:
                if self._take(self._socket.receive(deadline)):
                    self._resent = 0
                    deadline = self._fill()
                elif time.monotonic() >= deadline:
                    raise Overdue
            except Overdue:
                if not self._again():
                    raise
                deadline = self._fill()

    def _fill(self) -> float:
        """Sends what the window has room for, once half of it is free. When the next answer is overdue."""
        window, count = self._pace.window, len(self._calls)
        batch: list[tuple[int, bytes]] = []
        if len(self._waiting) * 2 <= window:
            oldest = next(iter(self._waiting.values()), self._next)
            while self._next < min(count, oldest + window) and not self._alone:
                index = self._next
                call = self._calls[index]
                alone = self._pace.resends > 0 and not call.repeatable
                if alone and self._waiting:
                    break
                self._next += 1
                try:
                    body = body_of(call)
                except ValueRefused as error:
                    self._answers[index] = Answer(call, None, error, 0)
                    continue
                self._alone = alone
                self.xid = (self.xid + 1) & 0xFFFFFFFF
                self._waiting[self.xid] = index
                self._sent[index] += 1
                batch.append((self.xid, body))
        if batch:
            self._socket.send(batch, time.monotonic() + self._pace.patience_s)
        repeats = self._pace.resends > 0 and not self._alone
        wait = self._pace.resend_s * (1 << self._resent) if repeats else self._pace.patience_s
        return time.monotonic() + wait

    def _take(self, replies: list[bytes]) -> bool:
        """Whether any of them answered a call; what answers none, or one again, is dropped."""
        taken = False
        for reply in replies:
            xid = xid_of(reply)
            index = None if xid is None else self._waiting.pop(xid, None)
            if index is None:
                continue
            taken = True
            self._alone = False
            self._answers[index] = answer_of(self._calls[index], reply, self._sent[index])
        return taken

    def _again(self) -> bool:
        """Goes back to the oldest unanswered call, if calls may be sent again."""
        if self._alone or self._resent >= self._pace.resends or not self._waiting:
            return False
        self._resent += 1
        self._next = min(self._waiting.values())
        self._waiting.clear()
        return True
