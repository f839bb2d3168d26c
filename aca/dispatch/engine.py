"""The engine: one thread that owns the desired state, and the pool that programs it.

Messages, data plane events and finished work all arrive in one inbox and are handled one after another, so nothing here
needs a lock. Handling never waits for the data plane: programming happens on the pool.
"""

from __future__ import annotations

import itertools
import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import structlog

from aca.dhcp.service import DhcpService, binding_of
from aca.dispatch.lanes import LanePool
from aca.dispatch.plan import UPSERT_ORDER, LaneWork, batches_of, make_plan
from aca.dispatch.retry import RetryQueue
from aca.dispatch.ticket import Ticket
from aca.goalstate.changes import Change
from aca.goalstate.conflicts import conflicts
from aca.goalstate.decode import decode_neighbor_rules, decode_v1, decode_v2
from aca.goalstate.desired import DesiredState
from dataplane.addresses import format_address
from dataplane.base import (
    DONE,
    Applied,
    DataPlane,
    DataPlaneError,
    DevicesChanged,
    Event,
    Lost,
    Outcome,
    Punt,
    Ready,
    Status,
    failed,
    pending,
)
from dataplane.model import Key, Kind, Neighbor, NetworkType
from goalstate_proto.goalstate_pb2 import GoalState, GoalStateV2
from goalstate_proto.goalstateprovisioner_pb2 import NeighborRulesRequest

log = structlog.get_logger(__name__)

Message = GoalState | GoalStateV2 | NeighborRulesRequest

FORMAT_V1 = 101
FORMAT_V2 = 102
_MAX_PROBLEMS_SHOWN = 1000


class EngineClosed(Exception):  # noqa: N818 - a state, not an error of the caller
    """The engine takes no more messages."""


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """`local_addresses`: own addresses, packed. Waits in seconds: how long a message is held while the data plane is
    not ready, and how long at most."""

    local_addresses: frozenset[bytes]
    default_network_type: NetworkType
    tunnel_mtu: int = 1450
    not_ready_wait_s: float = 5.0
    reply_timeout_s: float = 240.0
    workers: int = 4


@dataclass(frozen=True, slots=True)
class _Push:
    message: Message
    future: Future[bytes]
    received: float


@dataclass(frozen=True, slots=True)
class _TurnOver:
    lane: str
    turn: int
    work: LaneWork
    applied: Applied
    error: str


@dataclass(frozen=True, slots=True)
class _Call:
    """Something to be run on the engine's thread."""

    function: Callable[[], Any]
    future: Future[Any]


@dataclass(frozen=True, slots=True)
class _Stop:
    seconds: float
    """How long to wait for the work in hand."""


class Engine:
    """See the module. `start` opens the data plane; `submit` and `status` may be called by any thread."""

    def __init__(self, dataplane: DataPlane, settings: EngineSettings) -> None:
        self._dataplane = dataplane
        self._settings = settings
        self._hosts = frozenset(format_address(address) for address in settings.local_addresses)
        self._state = DesiredState(settings.local_addresses, settings.default_network_type, dataplane.capabilities)
        self._inbox: queue.SimpleQueue[_Push | _TurnOver | _Call | Event | _Stop] = queue.SimpleQueue()
        self._pool = LanePool(settings.workers, self._program)
        self._dhcp = DhcpService(dataplane.inject)
        self._thread = threading.Thread(target=self._loop, name="engine", daemon=True)
        self._closing = False
        self._gate = threading.Lock()
        """Nothing enters the inbox behind the _Stop."""
        self._tickets: dict[Ticket, None] = {}
        self._waiting: dict[tuple[str, int], list[Ticket]] = {}
        self._last_turn: dict[str, int] = {}
        self._verdicts: dict[Key, Outcome] = {}
        self._problems: dict[Kind, dict[str, tuple[Outcome, float]]] = {kind: {} for kind in Kind}
        self._retries = RetryQueue()
        self._ready = False
        self._why_not_ready = "starting"
        self._since = time.time()
        self._ready_listeners: list[Callable[[bool], None]] = []
        self._messages = itertools.count(1)

    # -- for other threads --------------------------------------------------------------------------------------

    def start(self) -> None:
        self._thread.start()
        self._dhcp.start()
        self._dataplane.open(self._on_event)

    def submit(self, message: Message) -> Future[bytes]:
        """Take a message. The future gives the serialized reply. Raises EngineClosed once closing."""
        future: Future[bytes] = Future()
        with self._gate:
            if self._closing:
                raise EngineClosed("the agent is shutting down")
            self._inbox.put(_Push(message, future, time.monotonic()))
        return future

    def status(self, timeout: float = 5.0) -> dict[str, Any]:
        """What is desired, programmed, pending and why; JSON-ready (docs/status.md). Raises TimeoutError."""
        call = _Call(self._status, Future())
        self._inbox.put(call)
        result: dict[str, Any] = call.future.result(timeout)
        return result

    @property
    def ready(self) -> bool:
        return self._ready

    def on_ready(self, listener: Callable[[bool], None]) -> None:
        """Call `listener` (on the engine's thread) whenever readiness changes. Register before `start`."""
        self._ready_listeners.append(listener)

    def close(self, timeout: float) -> None:
        """Take no more, let the work in hand finish, answer what is left PENDING. Traffic keeps flowing."""
        deadline = time.monotonic() + timeout
        with self._gate:
            self._closing = True
            self._inbox.put(_Stop(timeout * 0.4))
        if self._thread.is_alive():
            self._thread.join(max(0.1, timeout * 0.6))
        self._pool.close(max(0.1, (deadline - time.monotonic()) * 0.5))
        self._dhcp.close()
        self._dataplane.close()

    def _on_event(self, event: Event) -> None:
        if isinstance(event, Punt):
            self._dhcp.handle(event)
        else:
            self._inbox.put(event)

    # -- pool threads -------------------------------------------------------------------------------------------

    def _program(self, lane: str, turn: int, work: LaneWork) -> None:
        applied, error = Applied(), ""
        try:
            applied = self._dataplane.apply(batches_of(work))
        except DataPlaneError as problem:
            error = str(problem)
        except Exception as problem:  # a bug in a backend must not end the pool thread
            log.exception("data plane raised", lane=lane)
            error = f"internal error: {problem!r}"
        self._inbox.put(_TurnOver(lane, turn, work, applied, error))

    # -- the engine's thread ------------------------------------------------------------------------------------

    def _loop(self) -> None:
        while True:
            try:
                item = self._inbox.get(timeout=self._next_wait())
            except queue.Empty:
                item = None
            try:
                if isinstance(item, _Stop):
                    self._drain(item.seconds)
                    return
                self._handle(item)
                # The next item may be long in coming, and this one a large message.
                item = None
                self._tick()
            except Exception:
                # One message must never take the agent down with it; its ticket is answered at its deadline.
                log.exception("engine could not handle", item=type(item).__name__)

    def _next_wait(self) -> float:
        now = time.monotonic()
        times = [ticket.deadline for ticket in self._tickets]
        due = self._retries.next_due()
        if due is not None and self._ready:
            times.append(due)
        return max(0.0, min([60.0, *(moment - now for moment in times)]))

    def _handle(self, item: _Push | _TurnOver | _Call | Event | None) -> None:
        match item:
            case _Push():
                self._push(item)
            case _TurnOver():
                self._turn_over(item)
            case _Call():
                self._call(item)
            case Ready():
                self._become_ready()
            case Lost(reason):
                self._become_lost(reason)
            case DevicesChanged(port_ids):
                for port_id in port_ids:
                    port = self._state.ports.get(port_id)
                    if port is not None:
                        self._state.mark(Kind.PORT, port_id, port.vpc_id)
                self._plan(None)

    def _tick(self) -> None:
        now = time.monotonic()
        if self._ready:
            for key, lane in self._retries.due(now):
                self._state.mark_again(key.kind, key.id, lane)
            self._plan(None)
        for ticket in [ticket for ticket in self._tickets if ticket.deadline <= now]:
            self._answer(ticket)

    def _call(self, call: _Call) -> None:
        try:
            call.future.set_result(call.function())
        except Exception as problem:
            call.future.set_exception(problem)

    # -- messages

    def _push(self, push: _Push) -> None:
        number = next(self._messages)
        message = push.message
        wait = self._settings.reply_timeout_s if self._ready else self._settings.not_ready_wait_s
        version = message.format_version or (FORMAT_V2 if isinstance(message, GoalStateV2) else FORMAT_V1)
        ticket = Ticket(push.future, version, push.received, push.received + wait)
        self._tickets[ticket] = None
        try:
            count = 0
            for changes in self._decode(message):
                count += len(changes)
                self._merge(ticket, changes)
            log.info("goal state merged", message=number, resources=count)
        finally:
            ticket.sealed = True
            self._maybe_answer(ticket)

    def _decode(self, message: Message) -> Iterator[list[Change]]:
        if isinstance(message, GoalState):
            return decode_v1(message)
        if isinstance(message, GoalStateV2):
            return decode_v2(message, self._hosts)
        return decode_neighbor_rules(message)

    def _merge(self, ticket: Ticket, changes: list[Change]) -> None:
        settled = self._state.merge(changes, time.monotonic())
        for change, outcome in zip(changes, settled, strict=True):
            if outcome is not None:
                log.warning("refused", resource=change.id, status=outcome.status.value, reason=outcome.reason)
        ticket.add(changes, settled)
        self._try_again(changes, settled)
        self._plan(ticket)
        self._await_earlier_turns(ticket, changes)

    def _try_again(self, changes: list[Change], settled: list[Outcome | None]) -> None:
        """What is sent again, changed or not, is tried again at once if it failed, or if nobody knows what stands."""
        kind = changes[0].kind
        known, desired = self._problems[kind], self._state.store(kind)
        if self._ready and not known:
            return
        for change, outcome in zip(changes, settled, strict=True):
            lane = self._retries.lane_of(Key(kind, change.id))
            if lane is None and not self._ready and outcome is None and change.id in desired:
                lane = self._state.lane_of(kind, change.id)
            if lane is not None:
                self._state.mark_again(kind, change.id, lane)

    def _await_earlier_turns(self, ticket: Ticket, changes: list[Change]) -> None:
        """What arrives unchanged may still be in work for an earlier message: its answer is that work's."""
        if not self._last_turn:
            return
        lane_of = self._state.lane_of
        lanes = {
            change.value.vpc_id if isinstance(change.value, Neighbor) else lane_of(change.kind, change.id)
            for change in changes
        }
        for lane in lanes:
            turn = self._last_turn.get(lane)
            if turn is not None:
                self._wait_for(ticket, lane, turn)

    def _wait_for(self, ticket: Ticket, lane: str, turn: int) -> None:
        if (lane, turn) not in ticket.turns:
            ticket.turns[lane, turn] = None
            self._waiting.setdefault((lane, turn), []).append(ticket)

    def _plan(self, ticket: Ticket | None) -> None:
        dirty = self._state.take_dirty()
        if not dirty:
            return
        plan = make_plan(self._state, dirty)
        for kind, marked in dirty.items():
            if self._verdicts or plan.verdicts:
                for resource_id in marked:
                    self._verdicts.pop(Key(kind, resource_id), None)
        self._verdicts.update(plan.verdicts)
        for key, outcome in plan.settled.items():
            self._settle(key, outcome)
        for port_id in dirty.get(Kind.PORT, ()):
            self._dhcp.update(port_id, binding_of(self._state, port_id, self._settings.tunnel_mtu))
        for lane, work in plan.lanes.items():
            turn = self._pool.submit(lane, work)
            self._last_turn[lane] = turn
            if ticket is not None:
                self._wait_for(ticket, lane, turn)

    # -- finished work

    def _turn_over(self, over: _TurnOver) -> None:
        broken = None
        if over.error:
            log.warning("data plane error", lane=over.lane, error=over.error)
            broken = failed(over.error) if self._ready else pending(f"data plane not ready: {over.error}")
        problems = over.applied.problems
        for kind, items in over.work.items():
            known = self._problems[kind]
            if broken is None and not problems and not self._verdicts and not known:
                continue
            for resource_id, wanted in items.items():
                key = Key(kind, resource_id)
                outcome = broken or problems.get(key)
                if broken is not None and wanted is None:
                    # Becoming ready again programs what is desired. This is not: it has to be remembered.
                    outcome = failed(over.error)
                if kind is Kind.DHCP:
                    # This item is a port's punt, not a binding: what goes wrong with it is the port's trouble.
                    if outcome is not None:
                        self._settle(Key(Kind.PORT, resource_id), outcome, over.lane)
                    continue
                self._settle(key, outcome or self._verdicts.get(key, DONE), over.lane)
        if self._last_turn.get(over.lane) == over.turn:
            del self._last_turn[over.lane]
        for ticket in self._waiting.pop((over.lane, over.turn), ()):
            ticket.programming_us = max(ticket.programming_us, over.applied.programming_us)
            del ticket.turns[over.lane, over.turn]
            self._maybe_answer(ticket)

    def _settle(self, key: Key, outcome: Outcome, lane: str = "") -> None:
        """Note what became of a resource. If it failed, it is tried again in the lane."""
        known = self._problems[key.kind]
        if outcome.status is Status.FAILED:
            self._retries.failed(key, lane, time.monotonic())
        else:
            self._retries.settled(key)
            if outcome.status is Status.DONE or key.id not in self._state.store(key.kind):
                known.pop(key.id, None)
                return
        if key.id not in known or known[key.id][0] != outcome:
            known[key.id] = (outcome, time.time())

    # -- replies

    def _maybe_answer(self, ticket: Ticket) -> None:
        if ticket.finished:
            self._answer(ticket)

    def _answer(self, ticket: Ticket) -> None:
        self._tickets.pop(ticket, None)
        unfinished = set(ticket.turns)
        for turn in unfinished:
            waiting = self._waiting.get(turn, [])
            if ticket in waiting:
                waiting.remove(ticket)
        lanes = {lane for lane, _ in unfinished}
        try:
            ticket.answer(
                time.monotonic(),
                lambda change: self._outcome_of(change, lanes),
                lambda changes: not lanes and not self._problems[changes[0].kind] and self._has_status(changes[0].kind),
            )
        except Exception as problem:
            ticket.future.set_exception(problem)
            raise

    def _has_status(self, kind: Kind) -> bool:
        """Security groups are remembered but not enforced: saying SUCCESS would be a lie, so nothing is said."""
        return kind is not Kind.SECURITYGROUP or self._state.capabilities.security_groups

    def _outcome_of(self, change: Change, unfinished_lanes: set[str]) -> Outcome | None:
        if not self._has_status(change.kind):
            return None
        known = self._problems[change.kind].get(change.id)
        if known is not None:
            return known[0]
        # A resource that is gone has no lane any more: it may have been in any of them.
        lane = self._state.lane_of(change.kind, change.id)
        in_work = unfinished_lanes if change.delete else unfinished_lanes & {lane}
        if in_work and change.kind in UPSERT_ORDER:
            return pending("in work" if self._ready else f"data plane not ready: {self._why_not_ready}")
        return DONE

    # -- readiness

    def _become_ready(self) -> None:
        log.info("data plane ready")
        self._ready, self._why_not_ready, self._since = True, "", time.time()
        self._state.mark_all()
        self._plan(None)
        self._pool.resume()
        self._tell_readiness()

    def _become_lost(self, reason: str) -> None:
        if self._ready or reason != self._why_not_ready:
            log.warning("data plane not ready", reason=reason)
            self._since = time.time() if self._ready else self._since
        self._ready, self._why_not_ready = False, reason
        self._pool.pause()
        self._tell_readiness()

    def _tell_readiness(self) -> None:
        for listener in self._ready_listeners:
            listener(self._ready)

    def _drain(self, seconds: float) -> None:
        """Finish what the pool has in hand, then answer everything that is left."""
        deadline = time.monotonic() + seconds
        while self._tickets and self._ready:
            try:
                item = self._inbox.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                break
            if isinstance(item, _TurnOver):
                self._turn_over(item)
            elif isinstance(item, _Call):
                self._call(item)
        for ticket in list(self._tickets):
            self._answer(ticket)
        while not self._inbox.empty():
            item = self._inbox.get_nowait()
            if isinstance(item, _Call):
                item.future.set_exception(EngineClosed("the agent is shutting down"))

    # -- status

    def _counts(self, kind: Kind, in_work: int) -> dict[str, int]:
        """What is not confirmed counts as pending: nothing is programmed while the data plane is not ready."""
        problems = Counter(outcome.status for outcome, _ in self._problems[kind].values())
        desired = len(self._state.store(kind))
        refused, broken = problems[Status.INVALID], problems[Status.FAILED]
        enforced = self._ready and self._has_status(kind)
        waiting = problems[Status.PENDING] + in_work if enforced else desired
        waiting = min(waiting, desired - refused - broken)
        programmed = desired - refused - broken - waiting
        return {
            "desired": desired,
            "programmed": programmed,
            "pending": waiting,
            "invalid": refused,
            "failed": broken,
        }

    def _status(self) -> dict[str, Any]:
        in_work = self._pool.in_work()
        resources = {kind.name: self._counts(kind, in_work[kind]) for kind in Kind}
        problems = [
            {"kind": kind.name, "id": name, "status": outcome.status.value, "reason": outcome.reason, "since": since}
            for kind in Kind
            for name, (outcome, since) in self._problems[kind].items()
        ]
        return {
            "host": {"addresses": sorted(self._hosts)},
            "dataplane": {
                "ready": self._ready,
                "reason": self._why_not_ready,
                "since": self._since,
                **self._dataplane.describe(),
            },
            "resources": resources,
            "in_work": in_work.total(),
            "messages_in_hand": len(self._tickets),
            "problems": problems[:_MAX_PROBLEMS_SHOWN],
            "problems_total": len(problems),
            "conflicts": conflicts(self._state)[:_MAX_PROBLEMS_SHOWN],
        }
