"""The engine: one thread that owns the desired state, and the pool that programs it.

Messages, data plane events and finished work all arrive in one inbox and are handled one after another, so nothing here
needs a lock. Handling never waits for the data plane: programming happens on the pool.
"""

from __future__ import annotations

import itertools
import queue
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import structlog

from aca.dispatch.answers import Answers
from aca.dispatch.completeness import Completeness
from aca.dispatch.inbox import Call, Message, Push, Removal, Stop, Together, TurnOver
from aca.dispatch.lanes import LanePool
from aca.dispatch.outcomes import Outcomes
from aca.dispatch.packets import PacketServices
from aca.dispatch.plan import UPSERT_ORDER, LaneWork, batches_of, make_plan
from aca.dispatch.report import describe_resources
from aca.dispatch.ticket import Part, Ticket, Turn
from aca.dispatch.upkeep import JobOver, Mode, ReconcileRefused, Request, Upkeep, UpkeepSettings
from aca.goalstate.changes import Change
from aca.goalstate.decode import (
    concerns,
    decode_neighbor_rules,
    decode_together,
    decode_v1,
    decode_v2,
    ends_replay,
    removals,
)
from aca.goalstate.desired import DesiredState
from dataplane.addresses import format_address
from dataplane.base import (
    DONE,
    Applied,
    DataPlane,
    DataPlaneError,
    DevicesChanged,
    Drifted,
    Event,
    Lost,
    Outcome,
    Punt,
    Ready,
    pending,
)
from dataplane.faults import Faults
from dataplane.model import Key, Kind, Neighbor, NetworkType
from goalstate_proto.goalstate_pb2 import GoalState, GoalStateV2

log = structlog.get_logger(__name__)

FORMAT_V1 = 101
FORMAT_V2 = 102
_MAX_REFUSALS_LOGGED = 20
_MAX_UNSAID, _SAY_AFTER_S = 16, 0.05


class EngineClosed(Exception):  # noqa: N818 - a state, not an error of the caller
    """The engine takes no more messages."""


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """`local_addresses`: own addresses, packed, beside `tunnel_address`, where tunnels end. Waits in seconds: how long
    a message is held while the data plane is not ready, and how long at most."""

    local_addresses: frozenset[bytes]
    tunnel_address: bytes
    default_network_type: NetworkType
    tunnel_mtu: int = 1450
    not_ready_wait_s: float = 5.0
    reply_timeout_s: float = 240.0
    workers: int = 4
    sources: frozenset[str] = frozenset()
    """The authoritative sources that say when they have told everything (aca.dispatch.completeness)."""
    faults: Faults = field(default_factory=Faults)
    upkeep: UpkeepSettings = field(default_factory=UpkeepSettings)


class Engine:
    """See the module. `start` opens the data plane; `submit` and `status` may be called by any thread."""

    def __init__(self, dataplane: DataPlane, settings: EngineSettings) -> None:
        self._dataplane = dataplane
        self._settings = settings
        local = settings.local_addresses | {settings.tunnel_address}
        self._hosts = frozenset(map(format_address, local))
        self._state = DesiredState(local, settings.default_network_type, dataplane.capabilities)
        self._inbox: queue.SimpleQueue[Push | TurnOver | Call | Event | Stop | JobOver] = queue.SimpleQueue()
        self._pool = LanePool(settings.workers, self._program)
        self.packets = PacketServices(dataplane, self._state, settings.tunnel_mtu)
        self._thread = threading.Thread(target=self._loop, name="engine", daemon=True)
        self._closing = False
        self._gate = threading.Lock()
        """Nothing enters the inbox behind the Stop."""
        self._answers = Answers(self._outcome_of, self._answered)
        self._last_turn: dict[str, int] = {}
        self._outcomes = Outcomes(self._state)
        self._completeness = Completeness(settings.sources, lambda: self._upkeep.completed())
        self._upkeep = Upkeep(dataplane, settings.upkeep, self._completeness, settings.faults, self._inbox.put)
        self._ready = False
        self._why_not_ready = "starting"
        self._since = time.time()
        self._ready_listeners: list[Callable[[bool], None]] = []
        self._messages = itertools.count(1)
        self._unsaid: list[tuple[int, int]] = []
        """Messages, with how many resources they had, that the log does not have yet."""

    # -- for other threads --------------------------------------------------------------------------------------

    def start(self) -> None:
        self._thread.start()
        self.packets.start()
        self._dataplane.open(self._on_event)

    def submit(self, message: Message) -> Future[bytes]:
        """Take a message. The future gives the serialized reply. Raises EngineClosed once closing."""
        future: Future[bytes] = Future()
        with self._gate:
            if self._closing:
                raise EngineClosed("the agent is shutting down")
            self._inbox.put(Push(message, future, time.monotonic()))
        return future

    def status(self, timeout: float = 5.0) -> dict[str, Any]:
        """What is desired, programmed, pending and why; JSON-ready (docs/status.md). Raises TimeoutError."""
        result: dict[str, Any] = self._ask(self._status).result(timeout)
        return result

    def reconcile(self, mode: Mode) -> Future[dict[str, Any]]:
        """Compare what stands with what is wanted, and, if asked to, put it right (docs/restart.md).

        The future gives what was found and done, JSON-ready, or raises ReconcileRefused.
        """
        request = Request(mode)
        self._ask(lambda: self._request_reconcile(request))
        return request.future

    def expect_replay(self, request_id: str) -> None:
        """The controller is about to be told that this agent has started, by a request with this id."""
        self._ask(lambda: self._completeness.begin_replay(request_id))

    def replay_answered(self, request_id: str) -> None:
        """The controller has answered that request with success."""
        self._ask(lambda: self._completeness.replay_answered(request_id))

    def everything_told(self, source: str) -> None:
        """This source (EngineSettings.sources) has told everything, and all of it has been answered."""
        self._ask(lambda: self._completeness.reached(source))

    def move_tunnels(self, address: bytes) -> None:
        """The host's tunnel address has changed to this one. Raises DataPlaneError; to be called again then."""
        self._dataplane.set_tunnel_address(address)
        self._ask(lambda: self._tunnels_moved(address))

    def _ask(self, function: Callable[[], Any]) -> Future[Any]:
        call = Call(function, Future())
        self._inbox.put(call)
        return call.future

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
            self._inbox.put(Stop(timeout * 0.4))
        if self._thread.is_alive():
            self._thread.join(max(0.1, timeout * 0.6))
        self._pool.close(max(0.1, (deadline - time.monotonic()) * 0.5))
        self.packets.close()
        self._upkeep.close()
        self._dataplane.close()

    def _on_event(self, event: Event) -> None:
        if isinstance(event, Punt):
            self.packets.handle(event)
        else:
            self._inbox.put(event)

    # -- pool threads -------------------------------------------------------------------------------------------

    def _program(self, lane: str, turn: int, work: LaneWork) -> None:
        applied, error = Applied(), ""
        faults = self._settings.faults
        try:
            for kind in work:
                faults.at(f"apply.{kind.name.lower()}")
            applied = self._dataplane.apply(batches_of(work))
            faults.at("applied")
        except DataPlaneError as problem:
            error = str(problem)
        except Exception as problem:  # a bug in a backend must not end the pool thread
            log.exception("data plane raised", lane=lane)
            error = f"internal error: {problem!r}"
        self._inbox.put(TurnOver(lane, turn, work, applied, error))

    # -- the engine's thread ------------------------------------------------------------------------------------

    def _loop(self) -> None:
        while True:
            try:
                item = self._inbox.get(timeout=self._next_wait())
            except queue.Empty:
                item = None
            try:
                if item is None or len(self._unsaid) > _MAX_UNSAID:
                    self._say()
                if isinstance(item, Stop):
                    self._drain(item.seconds)
                    self._say()
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
        due = [self._answers.next_deadline()]
        if self._ready:
            due += [self._outcomes.retries.next_due(), self._upkeep.next_due()]
        longest = _SAY_AFTER_S if self._unsaid else 60.0
        return max(0.0, min([longest, *(moment - now for moment in due if moment is not None)]))

    def _say(self) -> None:
        """To log takes as long as to merge a port: who programs it, and the reply, go first."""
        for number, count in self._unsaid:
            log.info("goal state merged", message=number, resources=count)
        self._unsaid.clear()

    def _handle(self, item: Push | TurnOver | Call | Event | JobOver | None) -> None:
        match item:
            case Push():
                self._push(item)
            case TurnOver():
                self._turn_over(item)
            case Call():
                self._call(item)
            case JobOver():
                turns = self._again(self._upkeep.over(item, time.monotonic()))
                self._upkeep.await_turns(item, turns)
            case Ready():
                self._become_ready()
            case Lost(reason):
                self._become_lost(reason)
            case DevicesChanged(port_ids):
                for port_id in port_ids:
                    port = self._state.ports.get(port_id)
                    if port is not None:
                        self._state.mark(Kind.PORT, port_id, port.vpc_id)
                self._plan()
            case Drifted(keys, examples):
                log.warning("put back what somebody else changed", resources=len(keys), examples=examples)
                self._upkeep.drifted(len(keys))
                self._again(keys)

    def _again(self, keys: Iterable[Key]) -> list[Turn]:
        for key in keys:
            if key.id in self._state.store(key.kind):
                self._state.mark_again(key.kind, key.id, self._state.lane_of(key.kind, key.id))
        return self._plan()

    def _tick(self) -> None:
        now = time.monotonic()
        if self._ready:
            for key, lane in self._outcomes.retries.due(now):
                self._state.mark_again(key.kind, key.id, lane)
            self._plan()
            self._upkeep.start_due(now, self._unsettled)
        self._answers.expire(now)

    def _unsettled(self) -> set[Key]:
        """Wanted, but not programmed at this moment."""
        return self._outcomes.unsettled() | self._pool.keys()

    def _request_reconcile(self, request: Request) -> None:
        if self._ready:
            self._upkeep.ask(request)
        else:
            request.future.set_exception(ReconcileRefused(f"data plane not ready: {self._why_not_ready}"))

    def _tunnels_moved(self, address: bytes) -> None:
        """What was remote may be here now, and the other way round."""
        local = self._settings.local_addresses | {address}
        self._hosts = frozenset(map(format_address, local))
        self._state.local_hosts = local
        self._state.mark_all()
        self._plan()

    def _call(self, call: Call) -> None:
        try:
            call.future.set_result(call.function())
        except Exception as problem:
            call.future.set_exception(problem)

    # -- messages

    def _push(self, push: Push) -> None:
        number = next(self._messages)
        self._settings.faults.at("message")
        message = push.message
        wait = self._settings.reply_timeout_s if self._ready else self._settings.not_ready_wait_s
        version = FORMAT_V2
        if not isinstance(message, Together | Removal):
            version = message.format_version or (FORMAT_V2 if isinstance(message, GoalStateV2) else FORMAT_V1)
        ticket = Ticket(push.future, version, push.received, push.received + wait, self._silent(message))
        self._answers.take(ticket)
        try:
            count = 0
            for changes in self._decode(message):
                count += len(changes)
                self._merge(ticket, changes)
            self._unsaid.append((number, count))
        finally:
            ended = "" if isinstance(message, Together | Removal) else ends_replay(message)
            if ended:
                self._completeness.replay_ended(ended, self._answers.in_hand)
            self._answers.seal(ticket)

    def _silent(self, message: Message) -> frozenset[Kind]:
        """Kinds that get no status in the reply.

        Security groups are remembered but not enforced: saying SUCCESS would be a lie, so nothing is said. And what a
        multicast tells everybody about the network is no answer to a host that it does not name (fixture 11).
        """
        if isinstance(message, Together):
            return frozenset(Kind)
        silent = set() if self._state.capabilities.security_groups else {Kind.SECURITYGROUP}
        if isinstance(message, GoalStateV2) and not concerns(message.host_resources, self._hosts):
            silent |= {Kind.VPC, Kind.SUBNET}
        return frozenset(silent)

    def _decode(self, message: Message) -> Iterator[list[Change]]:
        if isinstance(message, GoalState):
            return decode_v1(message)
        if isinstance(message, GoalStateV2):
            return decode_v2(message, self._hosts)
        if isinstance(message, Together):
            return decode_together(message.messages, self._hosts)
        if isinstance(message, Removal):
            return removals(message.keys)
        return decode_neighbor_rules(message)

    def _merge(self, ticket: Ticket, changes: list[Change]) -> None:
        settled = self._state.merge(changes, time.monotonic())
        refused = [(change, outcome) for change, outcome in zip(changes, settled, strict=True) if outcome is not None]
        for change, outcome in refused[:_MAX_REFUSALS_LOGGED]:
            log.warning("refused", resource=change.id, status=outcome.status.value, reason=outcome.reason)
        if len(refused) > _MAX_REFUSALS_LOGGED:
            log.warning("refused more", resources=len(refused) - _MAX_REFUSALS_LOGGED, see="aca status")
        self._outcomes.merged(changes, settled)
        part = ticket.add(changes, settled)
        self._settings.faults.at("merged")
        self._try_again(changes, settled)
        for lane, turn in self._plan():
            self._answers.wait_for(ticket, part, (lane, turn))
        self._await_earlier_turns(ticket, part)

    def _try_again(self, changes: list[Change], settled: list[Outcome | None]) -> None:
        """What is sent again, changed or not, is tried again at once if it failed, or if nobody knows what stands."""
        kind = changes[0].kind
        desired = self._state.store(kind)
        if self._ready and not self._outcomes.has_problems(kind):
            return
        for change, outcome in zip(changes, settled, strict=True):
            lane = self._outcomes.retries.lane_of(Key(kind, change.id))
            if lane is None and not self._ready and outcome is None and change.id in desired:
                lane = self._state.lane_of(kind, change.id)
            if lane is not None:
                self._state.mark_again(kind, change.id, lane)

    def _await_earlier_turns(self, ticket: Ticket, part: Part) -> None:
        """What arrives unchanged may still be in work for an earlier message: its answer is that work's."""
        if not self._last_turn:
            return
        lane_of = self._state.lane_of
        lanes = {
            change.value.vpc_id if isinstance(change.value, Neighbor) else lane_of(change.kind, change.id)
            for change in part.changes
        }
        for lane in lanes:
            turn = self._last_turn.get(lane)
            if turn is not None:
                self._answers.wait_for(ticket, part, (lane, turn))

    def _plan(self) -> list[Turn]:
        """Plan what has changed and hand it to the pool. Returns the turns that will do it."""
        dirty = self._state.take_dirty()
        if not dirty:
            return []
        plan = make_plan(self._state, dirty)
        self._outcomes.planned(dirty, plan)
        self.packets.planned(dirty.get(Kind.PORT, ()))
        turns = [(lane, self._pool.submit(lane, work)) for lane, work in plan.lanes.items()]
        self._last_turn.update(turns)
        self._settings.faults.at("planned")
        return turns

    # -- finished work

    def _turn_over(self, over: TurnOver) -> None:
        if over.error:
            log.warning("data plane error", lane=over.lane, error=over.error)
        self.packets.programmed({} if over.error else over.work, over.applied)
        self._outcomes.turn_over(over.lane, over.work, over.applied, over.error, ready=self._ready)
        if self._last_turn.get(over.lane) == over.turn:
            del self._last_turn[over.lane]
        turn = (over.lane, over.turn)
        self._answers.turn_over(turn, over.applied.programming_us)
        self._upkeep.turn_over(turn)

    # -- replies

    def _answered(self, ticket: Ticket) -> None:
        self._settings.faults.at("reply")
        self._completeness.message_answered(ticket)

    def _outcome_of(self, change: Change, unfinished_lanes: Collection[str]) -> Outcome:
        outcome = self._outcomes.problem(change.kind, change.id) or DONE
        if not unfinished_lanes or outcome is not DONE or change.kind not in UPSERT_ORDER:
            return outcome
        # A resource that is gone has no lane any more: it may have been in any of them.
        in_work = change.delete or self._state.lane_of(change.kind, change.id) in unfinished_lanes
        if not in_work:
            return DONE
        return pending("in work" if self._ready else f"data plane not ready: {self._why_not_ready}")

    # -- readiness

    def _become_ready(self) -> None:
        log.info("data plane ready")
        self._ready, self._why_not_ready, self._since = True, "", time.time()
        self._upkeep.ready(time.monotonic())
        self._state.mark_all()
        self._plan()
        self._pool.resume()
        self._tell_readiness()

    def _become_lost(self, reason: str) -> None:
        if self._ready or reason != self._why_not_ready:
            log.warning("data plane not ready", reason=reason)
            self._since = time.time() if self._ready else self._since
        self._ready, self._why_not_ready = False, reason
        self._pool.pause()
        self._answers.hurry(time.monotonic() + self._settings.not_ready_wait_s)
        self._tell_readiness()

    def _tell_readiness(self) -> None:
        for listener in self._ready_listeners:
            listener(self._ready)

    def _drain(self, seconds: float) -> None:
        """Finish what the pool has in hand, then answer everything that is left."""
        deadline = time.monotonic() + seconds
        while self._answers and self._ready:
            try:
                item = self._inbox.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                break
            if isinstance(item, TurnOver):
                self._turn_over(item)
            elif isinstance(item, Call):
                self._call(item)
        self._answers.hurry(0.0)
        self._answers.expire(0.0)
        while not self._inbox.empty():
            item = self._inbox.get_nowait()
            if isinstance(item, Call):
                item.future.set_exception(EngineClosed("the agent is shutting down"))

    # -- status

    def _status(self) -> dict[str, Any]:
        host = {"addresses": sorted(self._hosts)}
        dataplane = {
            "ready": self._ready,
            "reason": self._why_not_ready,
            "since": self._since,
            **self._dataplane.describe(),
        }
        return {
            "host": host,
            "dataplane": dataplane,
            **describe_resources(self._state, self._outcomes, self._pool.in_work(), ready=self._ready),
            "messages_in_hand": len(self._answers),
            "reconcile": self._upkeep.describe(),
            **self.packets.status(),
        }
