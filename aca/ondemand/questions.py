"""What becomes of packets whose destination is not known. Pure: events and the time in, actions out.

One question per destination, whoever asks. Its packets wait until the destination is programmed (they are released, in
order), the controller says that there is no way (dropped, and for a while not asked again), or time is over (dropped).
Time is any steadily rising clock, in seconds.
"""

from __future__ import annotations

import enum
import heapq
import itertools
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from aca.ondemand.values import Destination, Inquiry, Verdict
from dataplane.base import Punt


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds (counts, bytes) and times (seconds). `deadline_s` is how long a question, and so a packet, lives."""

    questions: int = 10_000
    questions_per_port: int = 256
    packets_per_question: int = 16
    bytes_kept: int = 16 << 20
    deadline_s: float = 5.0
    first_retry_s: float = 0.2
    longest_retry_s: float = 2.0
    push_wait_s: float = 1.0
    """How long a promised state may be in coming before the controller is asked again."""
    look_again_s: float = 0.05
    negative_s: float = 10.0
    negatives: int = 100_000


@dataclass(frozen=True, slots=True)
class Ask:
    """Ask a controller. `attempt` counts from 0."""

    request_id: str
    inquiry: Inquiry
    attempt: int


@dataclass(frozen=True, slots=True)
class Release:
    """Let these packets go on, in this order."""

    punts: tuple[Punt, ...]


Action = Ask | Release


class _Phase(enum.Enum):
    ASKED = enum.auto()
    BACKING_OFF = enum.auto()
    PROMISED = enum.auto()
    """The controller has said that the state is on its way; or it is here, and not in the data plane yet."""


@dataclass(slots=True, eq=False)
class _Question:
    destination: Destination
    inquiry: Inquiry
    port_id: str
    deadline: float
    phase: _Phase = _Phase.ASKED
    request_id: str = ""
    attempt: int = 0
    due: float = 0.0
    ask_after: float = 0.0
    """When PROMISED: until when the state may be in coming."""
    seen_known: bool = False
    punts: list[Punt] = field(default_factory=list)


_RELEASES_KEPT = 4096
_RELEASE_MEMORY_S = 1.0
_MOST_RELEASES = 5
"""So often, within a second of each other, packets to one destination are let go and come back."""


class Questions:
    """See the module. `is_known` tells whether the desired state has somebody with the address; request ids begin with
    `name`."""

    def __init__(self, limits: Limits, is_known: Callable[[Destination], bool], name: str = "") -> None:
        self._limits = limits
        self._is_known = is_known
        self._name = name
        self._open: dict[Destination, _Question] = {}
        self._asked: dict[str, _Question] = {}
        self._by_port: Counter[str] = Counter()
        self._negative: OrderedDict[Destination, float] = OrderedDict()
        self._released: OrderedDict[Destination, tuple[float, int]] = OrderedDict()
        self._schedule: list[tuple[float, int, _Question]] = []
        self._numbers = itertools.count()
        self._bytes = 0
        self.counts: Counter[str] = Counter()

    @property
    def waiting(self) -> dict[Destination, _Question]:
        """Destinations with a question open. Only to be looked into."""
        return self._open

    @property
    def negatives(self) -> int:
        return len(self._negative)

    @property
    def bytes_kept(self) -> int:
        return self._bytes

    @property
    def next_due(self) -> float | None:
        """When `tick` has something to do."""
        return self._schedule[0][0] if self._schedule else None

    def is_asking(self, request_id: str) -> bool:
        """Whether the answer to a request is still of use."""
        return request_id in self._asked

    # -- events

    def packet(self, punt: Punt, destination: Destination, inquiry: Inquiry, now: float) -> list[Action]:
        """A packet has come for a destination that the data plane does not know."""
        question = self._open.get(destination)
        if question is not None:
            self.counts["coalesced"] += 1
            self._keep(question, punt)
            return []
        if self._is_denied(destination, now):
            self.counts["dropped_negative"] += 1
            return []
        known = self._is_known(destination)
        if known:
            # It came while the destination was being programmed. If it comes back, that is still going on.
            releases = self._releases(destination, now)
            if not releases:
                return [self._release(destination, [punt], now)]
            if releases >= _MOST_RELEASES:
                self.counts["dropped_again_and_again"] += 1
                return []
        limits = self._limits
        if len(self._open) >= limits.questions or self._by_port[punt.port_id] >= limits.questions_per_port:
            self.counts["dropped_full"] += 1
            return []
        question = _Question(destination, inquiry, punt.port_id, now + limits.deadline_s)
        if not self._keep(question, punt):
            return []
        self._open[destination] = question
        self._by_port[punt.port_id] += 1
        self.counts["questions"] += 1
        if known:
            self._promise(question, now)
            return []
        return [self._ask(question, now)]

    def answered(self, request_id: str, verdict: Verdict, now: float) -> list[Action]:
        """A controller has answered, or all that could be tried has failed."""
        question = self._asked.pop(request_id, None)
        if question is None:
            return []
        self.counts[f"answers_{verdict.value}"] += 1
        match verdict:
            case Verdict.ROUTABLE:
                self._promise(question, now)
            case Verdict.UNROUTABLE:
                self._deny(question.destination, now)
                self._drop(question, "dropped_unroutable")
            case Verdict.UNANSWERED:
                question.phase = _Phase.BACKING_OFF
                self._plan(question, now + self._back_off(question))
        return []

    def arrived(self, destinations: Iterable[Destination], now: float) -> list[Action]:
        """These destinations are programmed, confirmed by the data plane."""
        actions: list[Action] = []
        for destination in destinations:
            self._negative.pop(destination, None)
            question = self._open.get(destination)
            if question is not None:
                actions.append(self._let_go(question, now))
        return actions

    def tick(self, now: float) -> list[Action]:
        """Time has passed."""
        actions: list[Action] = []
        while self._schedule and self._schedule[0][0] <= now:
            due, _, question = heapq.heappop(self._schedule)
            if self._open.get(question.destination) is not question or question.due != due:
                continue
            if question.deadline <= now:
                self._drop(question, "dropped_expired")
            elif question.phase is _Phase.BACKING_OFF:
                actions.append(self._ask(question, now))
            elif question.phase is _Phase.PROMISED:
                actions += self._look_again(question, now)
        return actions

    # -- questions

    def _ask(self, question: _Question, now: float) -> Action:
        question.phase = _Phase.ASKED
        question.request_id = f"{self._name}{next(self._numbers):x}"
        self._asked[question.request_id] = question
        asked = Ask(question.request_id, question.inquiry, question.attempt)
        question.attempt += 1
        self.counts["requests"] += 1
        self._plan(question, question.deadline)
        return asked

    def _promise(self, question: _Question, now: float) -> None:
        question.phase = _Phase.PROMISED
        question.ask_after = now + self._limits.push_wait_s
        self._plan(question, now + self._limits.look_again_s)

    def _look_again(self, question: _Question, now: float) -> list[Action]:
        if self._is_known(question.destination):
            if question.seen_known:
                # Its arrival was told before the question was there.
                return [self._let_go(question, now)]
            # It may be on its way into the data plane; then its arrival will be told.
            question.seen_known = True
            self._plan(question, now + self._limits.look_again_s * 4)
            return []
        if now >= question.ask_after:
            self.counts["promises_broken"] += 1
            return [self._ask(question, now)]
        self._plan(question, min(question.ask_after, now + self._limits.look_again_s * 4))
        return []

    def _back_off(self, question: _Question) -> float:
        return min(self._limits.longest_retry_s, self._limits.first_retry_s * 2.0 ** (question.attempt - 1))

    def _plan(self, question: _Question, due: float) -> None:
        question.due = min(due, question.deadline)
        heapq.heappush(self._schedule, (question.due, next(self._numbers), question))
        if len(self._schedule) > 4 * len(self._open) + 1000:
            live = {(one.due, id(one)): one for one in self._open.values()}
            self._schedule = [(due, next(self._numbers), one) for (due, _), one in live.items()]
            heapq.heapify(self._schedule)

    def _let_go(self, question: _Question, now: float) -> Action:
        self._close(question)
        return self._release(question.destination, question.punts, now)

    def _drop(self, question: _Question, why: str) -> None:
        self.counts[why] += len(question.punts)
        self._close(question)

    def _close(self, question: _Question) -> None:
        del self._open[question.destination]
        self._asked.pop(question.request_id, None)
        self._by_port[question.port_id] -= 1
        if not self._by_port[question.port_id]:
            del self._by_port[question.port_id]
        self._bytes -= sum(len(punt.frame) for punt in question.punts)

    def _keep(self, question: _Question, punt: Punt) -> bool:
        """Whether the packet waits now, or one just like it does already (a client that asks again by ARP)."""
        if punt in question.punts:
            self.counts["repeated"] += 1
            return True
        full = len(question.punts) >= self._limits.packets_per_question
        if full or self._bytes + len(punt.frame) > self._limits.bytes_kept:
            self.counts["dropped_full"] += 1
            return False
        question.punts.append(punt)
        self._bytes += len(punt.frame)
        return True

    # -- memories

    def _release(self, destination: Destination, punts: Iterable[Punt], now: float) -> Action:
        times = self._releases(destination, now) + 1
        self._released.pop(destination, None)
        self._released[destination] = (now, times)
        if len(self._released) > _RELEASES_KEPT:
            self._released.popitem(last=False)
        released = tuple(punts)
        self.counts["released"] += len(released)
        return Release(released)

    def _releases(self, destination: Destination, now: float) -> int:
        """How often packets to it were let go of late."""
        at, times = self._released.get(destination, (0.0, 0))
        return times if now - at <= _RELEASE_MEMORY_S else 0

    def _deny(self, destination: Destination, now: float) -> None:
        self._negative.pop(destination, None)
        self._negative[destination] = now + self._limits.negative_s
        while self._negative:
            oldest = next(iter(self._negative.values()))
            if len(self._negative) <= self._limits.negatives and oldest > now:
                return
            self._negative.popitem(last=False)

    def _is_denied(self, destination: Destination, now: float) -> bool:
        until = self._negative.get(destination)
        if until is None:
            return False
        if until > now:
            return True
        del self._negative[destination]
        return False
