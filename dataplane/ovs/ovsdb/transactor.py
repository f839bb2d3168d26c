"""Groups requests into transactions, one at a time, and sees each to its end. Used by the owner thread only.

While one transaction is under way the requests that arrive are collected; they make up the next one. A request is
over when the server has said yes and, if it concerns the switch, the switch has caught up.
"""

from __future__ import annotations

import json
import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, InvalidStateError
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import ovs.db.idl

from dataplane.ovs.ovsdb.model import OvsdbError, OvsdbUnavailableError
from dataplane.ovs.ovsdb.operations import Operation, bump_config
from dataplane.ovs.ovsdb.requests import Plan, Request
from dataplane.ovs.ovsdb.rows import View

LOG = logging.getLogger(__name__)

MAX_BATCH = 1000
MAX_ATTEMPTS = 6
ANSWER_TIMEOUT = 10.0
"""Seconds for the server to answer a transaction."""
FIRST_PAUSE = 0.02
"""Seconds before a transaction that met a conflict is planned again; doubled each time."""
CONFLICTS = ("constraint violation", "referential integrity violation")
"""What the server says when another client was faster (RFC 7047 section 3.1, notation <error>)."""


class Transaction(Protocol):
    """What is used of ovs.db.idl.Transaction."""

    def add_op(self, op: Operation) -> None: ...

    def commit(self) -> str:
        """Send at the first call; the status at each."""
        ...

    def get_error(self) -> str: ...


@dataclass(slots=True, eq=False)
class Job:
    """A request with the promise made to the caller. `deadline` is of time.monotonic()."""

    request: Request
    future: Future[Any]
    deadline: float

    def begin(self) -> bool:
        """False if the caller gave it up; from now on it cannot."""
        return self.future.running() or self.future.set_running_or_notify_cancel()

    def succeed(self, value: object) -> None:
        try:
            self.future.set_result(value)
        except InvalidStateError:
            LOG.debug("the result of a request came too late")

    def fail(self, error: OvsdbError) -> None:
        if not self.future.done() and self.begin():
            self.future.set_exception(error)


@dataclass(slots=True, eq=False)
class Entry:
    """One request in a transaction, on behalf of the jobs that were merged into it."""

    request: Request
    jobs: list[Job]
    attempts: int = 0

    def fail(self, error: OvsdbError) -> None:
        for job in self.jobs:
            job.fail(error)


@dataclass(slots=True, eq=False)
class Flight:
    """A transaction that was sent. `waits` are the entries that need the switch to catch up afterwards."""

    transaction: Transaction
    entries: list[Entry]
    waits: set[int]
    sent: float


@dataclass(slots=True, eq=False)
class Waiting:
    """An entry whose transaction is in; fulfilled when the switch's `cur_cfg` has reached `config`."""

    entry: Entry
    config: int


class Transactor:
    """The requests that are not decided yet."""

    def __init__(self) -> None:
        self._queue: deque[Job] = deque()
        self._again: deque[list[Entry]] = deque()
        self._flight: Flight | None = None
        self._waiting: list[Waiting] = []
        self._pause_until = 0.0

    def add(self, jobs: Iterable[Job]) -> None:
        self._queue.extend(jobs)

    def step(self, begin: Callable[[], Transaction], view: View, now: float) -> None:
        """Move on as far as possible without waiting. `begin` starts a transaction; `now` is of time.monotonic()."""
        while self._land(view, now) and now >= self._pause_until:
            if self._again:
                entries = [entry for entry in self._again.popleft() if entry.jobs]
            else:
                entries = self._pick()
                if not entries:
                    break
            self._send(entries, begin, view, now)
        self._finish(view)

    def stuck(self, now: float) -> bool:
        """True if the server has not answered a transaction for long: the link is of no use."""
        return self._flight is not None and now - self._flight.sent > ANSWER_TIMEOUT

    def lost(self) -> None:
        """The link is gone: whatever was under way will be planned again on the next one."""
        if self._flight is not None:
            self._again.appendleft(self._flight.entries)
            self._flight = None
        # One by one: planned together, two that touch the same thing would not see each other's work.
        self._again.extendleft([waiting.entry] for waiting in reversed(self._waiting))
        self._waiting = []

    def expire(self, now: float, view: View | None, reason: str) -> None:
        """Fail what is over its time. `reason` says why nothing goes on, empty if the link is up."""
        while self._queue and self._queue[0].deadline <= now:
            job = self._queue.popleft()
            job.fail(_late(job.request, view, reason or "the database is too busy"))
        for entry in self._entries():
            late = [job for job in entry.jobs if job.deadline <= now]
            if late:
                is_sent = self._flight is not None and any(entry is e for e in self._flight.entries)
                error = _late(entry.request, view, reason or ("the database does not answer" if is_sent else ""))
                for job in late:
                    job.fail(error)
                    entry.jobs.remove(job)
        self._waiting = [waiting for waiting in self._waiting if waiting.entry.jobs]

    def fail_all(self, error: OvsdbError) -> None:
        for job in self._queue:
            job.fail(error)
        self._queue.clear()
        for entry in self._entries():
            entry.fail(error)
        self._again.clear()
        self._waiting.clear()
        self._flight = None

    def next_time(self, now: float) -> float | None:
        """When something is due (time.monotonic()), None if nothing is."""
        times = [job.deadline for entry in self._entries() for job in entry.jobs[:1]]
        if self._queue:
            times.append(self._queue[0].deadline)
        if self._flight is not None:
            times.append(self._flight.sent + ANSWER_TIMEOUT)
        if self._pause_until > now:
            times.append(self._pause_until)
        return min(times, default=None)

    def _entries(self) -> Iterable[Entry]:
        for entries in self._again:
            yield from entries
        if self._flight is not None:
            yield from self._flight.entries
        for waiting in self._waiting:
            yield waiting.entry

    def _pick(self) -> list[Entry]:
        """The next requests, in order, up to the first that must come after one of them."""
        entries: list[Entry] = []
        touched: dict[str, Entry] = {}
        while self._queue and len(entries) < MAX_BATCH:
            job = self._queue[0]
            if not job.begin():
                self._queue.popleft()
                continue
            request = job.request
            rivals = {id(touched[name]): touched[name] for name in request.touches if name in touched}
            if rivals:
                [rival, *others] = rivals.values()
                merged = rival.request.merge(request) if not others else None
                if merged is None:
                    break
                rival.request = merged
                rival.jobs.append(job)
            elif entries and (request.alone or entries[0].request.alone):
                break
            else:
                entry = Entry(request, [job])
                entries.append(entry)
                touched.update(dict.fromkeys(request.touches, entry))
            self._queue.popleft()
        return entries

    def _send(self, entries: list[Entry], begin: Callable[[], Transaction], view: View, now: float) -> None:
        plans = [(entry, plan) for entry in entries if (plan := _plan(entry, view)) is not None]
        sent = [entry for entry, plan in plans if plan.operations or plan.bump]
        waits = {id(entry) for entry, plan in plans if plan.wait}
        config = _next_config(view)
        for entry, plan in plans:
            if not plan.operations and not plan.bump:
                # Not sent, but somebody's change of this very thing may still be on its way to the switch.
                self._waiting.append(Waiting(entry, config if plan.wait else 0))
        if not sent:
            return
        transaction = begin()
        for _, plan in plans:
            for operation in plan.operations:
                transaction.add_op(operation)
        root = view.root()
        if root is not None and any(plan.bump for _, plan in plans):
            transaction.add_op(bump_config(root))
        self._flight = Flight(transaction, sent, waits, now)
        transaction.commit()

    def _land(self, view: View, now: float) -> bool:
        """Deal with the answer to the transaction under way. False while there is none yet."""
        flight = self._flight
        if flight is None:
            return True
        status = flight.transaction.commit()
        kind = ovs.db.idl.Transaction
        if status == kind.INCOMPLETE:
            return False
        self._flight = None
        if status in (kind.SUCCESS, kind.UNCHANGED):
            # The server sends the changes before the answer, so next_cfg is this transaction's own or a later one.
            config = _next_config(view)
            for entry in flight.entries:
                self._waiting.append(Waiting(entry, config if id(entry) in flight.waits else 0))
        elif status == kind.TRY_AGAIN:
            self._retry(flight.entries, now, "the database had no time for it")
        elif len(flight.entries) > 1:
            # One of them is bad, and the answer does not say which: halve until it is alone.
            middle = len(flight.entries) // 2
            self._again.extendleft((flight.entries[middle:], flight.entries[:middle]))
        else:
            text = _readable(flight.transaction.get_error())
            if text.startswith(CONFLICTS):
                self._retry(flight.entries, now, text)
            else:
                flight.entries[0].fail(OvsdbError(f"{_subject(flight.entries[0].request)}: {text}"))
        return True

    def _retry(self, entries: list[Entry], now: float, text: str) -> None:
        alive = []
        for entry in entries:
            entry.attempts += 1
            if entry.attempts >= MAX_ATTEMPTS:
                entry.fail(OvsdbError(f"{_subject(entry.request)}: {text} ({entry.attempts} attempts)"))
            else:
                alive.append(entry)
        if alive:
            self._again.appendleft(alive)
            self._pause_until = now + FIRST_PAUSE * 2 ** (alive[0].attempts - 1)

    def _finish(self, view: View) -> None:
        if not self._waiting:
            return
        root = view.root()
        config = root.cur_cfg if root is not None else 0
        self._waiting = [w for w in self._waiting if w.config > config or not _settle(w.entry, view)]


def _plan(entry: Entry, view: View) -> Plan | None:
    """The entry's plan; None if it has failed, and its jobs know."""
    with _blame(entry):
        return entry.request.plan(view)
    return None


def _settle(entry: Entry, view: View) -> bool:
    """True if the entry is over, well or not."""
    with _blame(entry):
        done = entry.request.outcome(view)
        if done is None:
            return False
        for job in entry.jobs:
            job.succeed(done.value)
    return True


@contextmanager
def _blame(entry: Entry) -> Iterator[None]:
    """Give an error to those who wait for the entry: a bad request must not stop the others."""
    try:
        yield
    except OvsdbError as error:
        entry.fail(error)
    except Exception as error:
        LOG.exception("a database request failed unexpectedly")
        entry.fail(OvsdbError(f"{_subject(entry.request)}: {error!r}"))


def _late(request: Request, view: View | None, reason: str) -> OvsdbError:
    """What to tell when the time is up: the reason if the database is to blame, else what the switch owes."""
    if reason or view is None:
        return OvsdbUnavailableError(f"{_subject(request)}: {reason or 'no connection to the database'}")
    root = view.root()
    text = request.lacks(view)
    if root is not None and root.cur_cfg < root.next_cfg:
        text += f" (the switch has applied configuration {root.cur_cfg} of {root.next_cfg}; does it run?)"
    return OvsdbUnavailableError(text)


def _next_config(view: View) -> int:
    root = view.root()
    return root.next_cfg if root is not None else 0


def _subject(request: Request) -> str:
    return ", ".join(sorted(request.touches))


def _readable(error: str) -> str:
    """The server's error object as `error: details`."""
    try:
        value = json.loads(error)
    except ValueError:
        return error
    if not isinstance(value, dict):
        return error
    details = value.get("details")
    return f"{value.get('error')}: {details}" if details else str(value.get("error"))
