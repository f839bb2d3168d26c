"""The thread that has unknown destinations asked for, and lets packets go on."""

from __future__ import annotations

import secrets
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import structlog

from aca.goalstate.records import Records
from aca.ondemand.fair import FairQueue
from aca.ondemand.inquiry import NotAsked, inquiry_about
from aca.ondemand.questions import Action, Ask, Limits, Questions, Release
from aca.ondemand.values import Answers, Destination, Inquiry, Verdict
from dataplane.base import Punt

log = structlog.get_logger(__name__)

Asker = Callable[[Mapping[str, Inquiry]], "Future[Answers]"]
"""Asks a controller about some packets, by request id. Returns at once."""

_PER_PORT = 256
_PORTS = 10_000
_PER_TURN = 256
_CALLS = 16
"""Calls to the controller under way at once."""
_INQUIRIES_PER_CALL = 32
_MAX_WAIT_S = 60.0


@dataclass(frozen=True, slots=True)
class _Arrived:
    destinations: tuple[Destination, ...]


@dataclass(frozen=True, slots=True)
class _Answered:
    request_ids: tuple[str, ...]
    answers: Answers


class _Stop:
    pass


_Item = Punt | _Arrived | _Answered | _Stop


class OnDemandService:
    """`handle` is called by the data plane's threads, `arrived` by the engine's; packets go on through `resubmit`.

    Nothing is asked before `ask_with` has said whom. `records` are only read, one entry at a time.
    """

    def __init__(self, records: Records, resubmit: Callable[[Punt], None]) -> None:
        self._records = records
        self._resubmit = resubmit
        self._questions = Questions(Limits(), self._is_known)
        self._queue: FairQueue[_Item] = FairQueue(_PER_PORT, _PORTS)
        self._asks: deque[Ask] = deque()
        self._calls = 0
        self._ask: Asker | None = None
        self._trouble = ""
        self._counts: Counter[str] = Counter()
        self._overflow = 0
        self._thread = threading.Thread(target=self._loop, name="on-demand", daemon=True)

    def ask_with(self, ask: Asker, limits: Limits) -> None:
        """To be called before `start`."""
        self._ask = ask
        self._questions = Questions(limits, self._is_known, name=secrets.token_hex(6) + "-")

    def start(self) -> None:
        if self._ask is not None:
            self._thread.start()

    def close(self) -> None:
        if self._thread.is_alive():
            self._queue.put_urgent(_Stop())
            self._thread.join(1.0)

    # -- for other threads

    def handle(self, punt: Punt) -> None:
        """Queue a packet; what one port sends too fast is dropped."""
        if not self._queue.put(punt.port_id, punt):
            self._overflow += 1

    def arrived(self, addresses: Iterable[tuple[str, bytes]]) -> None:
        """These addresses may have come to be programmed, confirmed by the data plane. Cheap where nobody waits."""
        waiting = self._questions.waiting
        if waiting:
            found = tuple(Destination(*one) for one in addresses if one in waiting)
            if found:
                self._queue.put_urgent(_Arrived(found))

    def status(self) -> dict[str, Any]:
        """JSON-ready (docs/status.md)."""
        questions = self._questions
        return {
            "active": self._ask is not None,
            "pending": len(questions.waiting),
            "bytes_kept": questions.bytes_kept,
            "negative": questions.negatives,
            "calls": self._calls,
            "trouble": self._trouble,
            "counts": dict(questions.counts + self._counts + Counter(dropped_too_fast=self._overflow)),
        }

    # -- the service's thread

    def _loop(self) -> None:
        while True:
            due = self._questions.next_due
            wait = _MAX_WAIT_S if due is None else min(_MAX_WAIT_S, max(0.0, due - time.monotonic()))
            for item in self._queue.take(_PER_TURN, wait):
                if isinstance(item, _Stop):
                    return
                try:
                    self._carry_out(self._take(item))
                except Exception:  # one packet must not end the thread
                    self._counts["failed"] += 1
                    log.exception("cannot handle", item=type(item).__name__)
            self._carry_out(self._questions.tick(time.monotonic()))
            self._send()

    def _take(self, item: _Item) -> Sequence[Action]:
        now = time.monotonic()
        match item:
            case Punt():
                self._counts["packets"] += 1
                try:
                    destination, inquiry = inquiry_about(self._records, item)
                except NotAsked as why:
                    self._counts[f"dropped_{str(why).replace(' ', '_')}"] += 1
                    return ()
                return self._questions.packet(item, destination, inquiry, now)
            case _Arrived(destinations):
                return self._questions.arrived(destinations, now)
            case _Answered(request_ids, answers):
                self._calls -= 1
                self._note(answers.trouble)
                actions: list[Action] = []
                for request_id in request_ids:
                    verdict = answers.verdict(request_id)
                    if verdict is Verdict.UNROUTABLE:
                        log.debug("no way, says the controller", request=request_id)
                    actions += self._questions.answered(request_id, verdict, now)
                return actions
        return ()

    def _note(self, trouble: str) -> None:
        if trouble and trouble != self._trouble:
            log.warning("the controller does not answer", reason=trouble)
        elif self._trouble and not trouble:
            log.info("the controller answers again")
        self._trouble = trouble

    def _carry_out(self, actions: Iterable[Action]) -> None:
        for action in actions:
            if isinstance(action, Release):
                for punt in action.punts:
                    self._resubmit(punt)
            else:
                self._asks.append(action)

    def _send(self) -> None:
        """What waits to be asked goes out in few calls. What has been asked before goes alone: a controller may look at
        the first of several only."""
        while self._asks and self._calls < _CALLS:
            batch: dict[str, Inquiry] = {}
            while self._asks and len(batch) < _INQUIRIES_PER_CALL:
                if self._asks[0].attempt and batch:
                    break
                ask = self._asks.popleft()
                if self._questions.is_asking(ask.request_id):
                    batch[ask.request_id] = ask.inquiry
                    if ask.attempt:
                        break
            if batch:
                self._call(batch)

    def _call(self, batch: Mapping[str, Inquiry]) -> None:
        assert self._ask is not None
        self._calls += 1
        request_ids = tuple(batch)

        def over(future: Future[Answers]) -> None:
            problem = None if future.cancelled() else future.exception()
            gone = future.cancelled() or problem is not None
            answers = Answers(trouble=str(problem or "cancelled")) if gone else future.result()
            self._queue.put_urgent(_Answered(request_ids, answers))

        try:
            self._ask(batch).add_done_callback(over)
        except RuntimeError as problem:  # the servers' loop has ended: the agent is stopping
            self._queue.put_urgent(_Answered(request_ids, Answers(trouble=str(problem))))

    def _is_known(self, destination: Destination) -> bool:
        index = self._records.index.get(destination.subnet_id)
        return index is not None and index.uses(destination.address)
