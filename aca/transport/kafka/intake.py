"""Records to the engine and their answers back: parsing, order, dead letters, replies, and compacted topics."""

from __future__ import annotations

import queue
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Protocol

import structlog

from aca.dispatch.completeness import kafka_source
from aca.dispatch.engine import EngineClosed
from aca.dispatch.inbox import Message as EngineMessage
from aca.dispatch.inbox import Removal, Together
from aca.goalstate.decode import decode_v1, decode_v2
from aca.transport.kafka.compacted import Names
from aca.transport.kafka.matching import Matcher
from aca.transport.kafka.outbox import Letter, Outbox
from aca.transport.kafka.payload import PoisonError, parse
from aca.transport.kafka.poller import Began, Ended, Portion
from aca.transport.kafka.records import Headers, Record
from dataplane.faults import Faults
from dataplane.model import Key
from goalstate_proto.goalstate_pb2 import GoalState, GoalStateV2

WINDOW = 16
"""Submissions with the engine at once."""

_TOGETHER_RECORDS = 500
_TOGETHER_BYTES = 1024 * 1024
_SERVE_S = 1.0

_log = structlog.get_logger(__name__)

State = GoalState | GoalStateV2
Work = tuple[EngineMessage, Record | None]
"""What to submit, and the record to reply to."""


class Engine(Protocol):
    @property
    def ready(self) -> bool: ...

    def submit(self, message: EngineMessage) -> Future[bytes]: ...

    def on_ready(self, callback: Callable[[bool], None]) -> None: ...

    def everything_told(self, source: str) -> None: ...


@dataclass(slots=True, eq=False)
class Job:
    """Work in order. `done` is called once when all of it is answered."""

    work: Iterator[Work]
    done: Callable[[], None]
    unanswered: int = 0
    exhausted: bool = False


@dataclass(slots=True)
class CompactedTopic:
    """`values` are the last records by key while it is read to its end, None for a tombstone; then `names` counts."""

    source: str
    awaited: set[int] = field(default_factory=set)
    loading: bool = True
    whole: bool = True
    values: dict[bytes, Record] = field(default_factory=dict)
    names: Names = field(default_factory=Names)


@dataclass(frozen=True, slots=True)
class IntakeSettings:
    """`unfiltered`: topics of which every record is ours. `hosts`: texts of this host's addresses."""

    host_id: str
    hosts: frozenset[str]
    compacted: frozenset[str]
    v1_topics: frozenset[str]
    unfiltered: frozenset[str]
    dead_letter_topic: str | None
    reply_topic: str | None


class Intake:
    """One thread, which owns everything here; others reach it by `deliver`."""

    def __init__(self, engine: Engine, settings: IntakeSettings, outbox: Outbox | None, faults: Faults) -> None:
        self._engine = engine
        self._settings = settings
        self._outbox = outbox
        self._faults = faults
        self._matcher = Matcher([settings.host_id, *settings.hosts])
        self.told: Mapping[str, frozenset[str]] = {}
        """Keys by topic that controllers have named. Replaced as a whole, by any thread."""
        self._inbox: queue.SimpleQueue[Portion | Began | Ended | Callable[[], None] | None] = queue.SimpleQueue()
        self._jobs: deque[Job] = deque()
        self._in_hand = 0
        self._compacted = {topic: CompactedTopic(kafka_source(topic)) for topic in settings.compacted}
        self._warned: set[str] = set()
        self.counts: Counter[str] = Counter()
        self._thread = threading.Thread(target=self._run, name="kafka-intake", daemon=True)
        self._stopping = False
        engine.on_ready(lambda _ready: self._inbox.put(lambda: None))

    def start(self) -> None:
        self._thread.start()

    def deliver(self, item: Portion | Began | Ended) -> None:
        """Any thread. Does not wait: pollers bound what is in hand."""
        self._inbox.put(item)

    def stop(self) -> None:
        """Submit no more. Does not wait; answers still count."""
        self._inbox.put(None)

    def join(self, seconds: float) -> None:
        """Wait for what is with the engine, and for letters."""
        if self._thread.ident is not None:
            self._thread.join(seconds)

    def describe(self) -> dict[str, Any]:
        """JSON-ready; any thread."""
        return {
            "counts": dict(self.counts),
            "compacted": {
                topic: {"loaded": not one.loading, "keys": len(one.names.by_key) or len(one.values)}
                for topic, one in self._compacted.items()
            },
            "letters": self._outbox.describe() if self._outbox is not None else None,
        }

    # -- the thread

    def _run(self) -> None:
        served = time.monotonic()
        while not (self._stopping and self._in_hand == 0):
            try:
                item = self._inbox.get(timeout=_SERVE_S)
                if item is None:
                    self._stopping = True
                elif callable(item):
                    item()
                else:
                    self._take(item)
            except queue.Empty:
                pass
            except Exception:
                _log.exception("kafka: records could not be handled")
            try:
                self._pump()
                now = time.monotonic()
                if self._outbox is not None and now - served >= _SERVE_S / 4:
                    served = now
                    self._outbox.serve()
            except Exception:
                _log.exception("kafka: records could not be submitted")
        if self._outbox is not None:
            self._outbox.close(0.3)

    def _take(self, item: Portion | Began | Ended) -> None:
        if isinstance(item, Portion):
            self.counts["records"] += len(item.messages)
            topic = self._compacted.get(item.place[0])
            if topic is None:
                self._jobs.append(Job(self._plain(item), item.finish))
            elif topic.loading:
                self._load(topic, item)
                item.finish()
            else:
                self._jobs.append(Job(self._live(topic, item), item.finish))
        elif isinstance(item, Began):
            begun = self._compacted.get(item.topic)
            if begun is not None and (begun.loading or item.whole):
                begun.loading = True
                begun.awaited |= item.partitions
        else:
            topic = self._compacted.get(item.place[0])
            if topic is not None and topic.loading:
                topic.awaited.discard(item.place[1])
                if not topic.awaited:
                    self._end(topic, item.place[0])

    def _pump(self) -> None:
        """Submit, in order, as much as the window allows."""
        while self._jobs and self._in_hand < WINDOW and not self._stopping and self._engine.ready:
            job = self._jobs[0]
            try:
                step = next(job.work, None)
            except Exception:
                # Never counted as finished: what is not committed comes again.
                self._jobs.popleft()
                raise
            if step is None:
                self._jobs.popleft()
                job.exhausted = True
                self._settle(job)
                continue
            message, record = step
            try:
                future = self._engine.submit(message)
            except EngineClosed:
                self._stopping = True
                return
            job.unanswered += 1
            self._in_hand += 1
            self._faults.at("kafka.submitted")
            future.add_done_callback(
                lambda done, job=job, record=record: self._inbox.put(  # type: ignore[misc]
                    lambda: self._answered(job, record, done)
                )
            )

    def _answered(self, job: Job, record: Record | None, done: Future[bytes]) -> None:
        self._faults.at("kafka.answered")
        self._in_hand -= 1
        error = done.exception()
        if isinstance(error, EngineClosed) or (self._stopping and not self._engine.ready):
            return
        if error is not None:
            # Nobody knows what became of it, so it is never finished: it comes again.
            _log.error("kafka: a record was not answered", exc_info=error)
            return
        if record is not None and self._outbox is not None and self._settings.reply_topic is not None:
            self._outbox.send(
                Letter(
                    self._settings.reply_topic, self._settings.host_id.encode(), done.result(), _origin(record)
                )
            )
        job.unanswered -= 1
        self._settle(job)

    def _settle(self, job: Job) -> None:
        if job.exhausted and job.unanswered == 0:
            job.done()

    # -- records to work

    def _is_ours(self, topic: str, key: bytes | None) -> bool:
        return topic in self._settings.unfiltered or self._matcher.is_ours(key, self.told.get(topic, ()))

    def _parse(self, record: Record, value: bytes) -> State | None:
        """None, once it is a dead letter."""
        default = 1 if record.topic() in self._settings.v1_topics else 2
        try:
            message = parse(value, record.headers(), default)
        except PoisonError as error:
            self._bury(record, str(error))
            return None
        self.counts["taken"] += 1
        return message

    def _batch(self) -> _Batch:
        return _Batch(alone=self._settings.reply_topic is not None)

    def _plain(self, portion: Portion) -> Iterator[Work]:
        topic = portion.place[0]
        batch = self._batch()
        for record in portion.messages:
            value = record.value()
            if not value or not self._is_ours(topic, record.key()):
                self.counts["skipped"] += 1
                continue
            message = self._parse(record, value)
            if message is not None:
                yield from batch.add(message, record, len(value))
        yield from batch.rest()

    # -- compacted topics

    def _load(self, topic: CompactedTopic, portion: Portion) -> None:
        """Only the last record of a key counts."""
        for record in portion.messages:
            if not self._is_ours(portion.place[0], record.key()):
                self.counts["skipped"] += 1
                continue
            # Behind what came before: the order of the last records is the log's.
            key = _key_of(record)
            topic.values.pop(key, None)
            topic.values[key] = record

    def _end(self, topic: CompactedTopic, name: str) -> None:
        self._faults.at("kafka.end")
        _log.info("kafka: read to the end", topic=name, keys=len(topic.values))
        values, topic.values, topic.loading = topic.values, {}, False
        self._jobs.append(
            Job(self._whole(topic, values), lambda: self._engine.everything_told(topic.source))
        )

    def _whole(self, topic: CompactedTopic, values: dict[bytes, Record]) -> Iterator[Work]:
        # Keys of what was there before the topic was made anew.
        gone = [one for key in topic.names.by_key.keys() - values.keys() for one in topic.names.bury(key)]
        batch = self._batch()
        buried = []
        for key in list(values):
            record = values.pop(key)
            value = record.value()
            if value is None:
                buried.append(key)
                continue
            message = self._parse(record, value)
            if message is None:
                continue
            gone += topic.names.put(key, self._names(message, record))
            yield from batch.add(message, record, len(value))
        yield from batch.rest()
        for key in buried:
            gone += topic.names.bury(key)
        gone = [one for one in dict.fromkeys(gone) if not topic.names.uses[one]]
        if gone:
            yield Removal(tuple(gone)), None

    def _live(self, topic: CompactedTopic, portion: Portion) -> Iterator[Work]:
        batch = self._batch()
        for record in portion.messages:
            value = record.value()
            if not self._is_ours(portion.place[0], record.key()):
                self.counts["skipped"] += 1
                continue
            key = _key_of(record)
            if value is None:
                self.counts["taken"] += 1
                gone = topic.names.bury(key)
            else:
                message = self._parse(record, value)
                if message is None:
                    continue
                gone = topic.names.put(key, self._names(message, record))
                yield from batch.add(message, record, len(value))
            if gone:
                yield from batch.rest()
                yield Removal(tuple(gone)), None
        yield from batch.rest()

    def _names(self, message: State, record: Record) -> set[Key]:
        decoded = (
            decode_v2(message, self._settings.hosts) if isinstance(message, GoalStateV2) else decode_v1(message)
        )
        named = set()
        for changes in decoded:
            for change in changes:
                if not change.error and not change.delete:
                    named.add(Key(change.kind, change.id))
                    if not change.full and record.topic() not in self._warned:
                        self._warned.add(record.topic())
                        self.counts["deltas"] += 1
                        _log.warning(
                            "kafka: DELTA in a compacted topic: what it builds upon may be compacted away; write FULL",
                            topic=record.topic(), partition=record.partition(), offset=record.offset(),
                            resource=change.id,
                        )
        return named

    # -- poison

    def _bury(self, record: Record, reason: str) -> None:
        self.counts["dead_letters"] += 1
        _log.warning(
            "kafka: cannot be read", topic=record.topic(), partition=record.partition(), offset=record.offset(),
            reason=reason,
        )
        if self._outbox is not None and self._settings.dead_letter_topic is not None:
            headers: Headers = [
                *(record.headers() or ()),
                *_origin(record),
                ("aca-reason", reason.encode()),
                ("aca-host", self._settings.host_id.encode()),
            ]
            self._outbox.send(Letter(self._settings.dead_letter_topic, record.key(), record.value(), headers))


def _key_of(record: Record) -> bytes:
    """Without a key it is one of its own: nothing comes after it."""
    return record.key() or b"\0%d:%d" % (record.partition(), record.offset())


def _origin(record: Record) -> Headers:
    """From where and when: milliseconds since the epoch."""
    return [
        ("aca-topic", record.topic().encode()),
        ("aca-partition", b"%d" % record.partition()),
        ("aca-offset", b"%d" % record.offset()),
        ("aca-timestamp", b"%d" % record.timestamp()[1]),
    ]


class _Batch:
    """Messages that go to the engine together; each alone if each is to have its own reply."""

    def __init__(self, *, alone: bool) -> None:
        self._alone = alone
        self._messages: list[State] = []
        self._size = 0

    def add(self, message: State, record: Record, size: int) -> Iterator[Work]:
        if self._alone:
            yield message, record
            return
        self._messages.append(message)
        self._size += size
        if len(self._messages) >= _TOGETHER_RECORDS or self._size >= _TOGETHER_BYTES:
            yield from self.rest()

    def rest(self) -> Iterator[Work]:
        if self._messages:
            messages, self._messages, self._size = tuple(self._messages), [], 0
            yield Together(messages), None
