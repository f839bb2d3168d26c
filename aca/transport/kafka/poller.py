"""A thread that owns one consumer and does nothing but poll, pause, resume and commit.

Every method of a consumer waits for the poll that another thread is in, so nobody else calls one: the rest of the agent
reaches it by a queue.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import structlog
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition

from aca.transport.kafka.connection import Connection
from aca.transport.kafka.records import Record
from aca.transport.kafka.tracker import Tracker, Unit
from dataplane.faults import Faults

_POLL_S = 0.1
_BATCH = 500
_LARGE_BATCH = 20
_LARGE = 8 * 1024
"""Bytes on average from which on records are taken in small batches: a batch is copied with the interpreter held."""

_COMMIT_EVERY_S = 1.0
_COMMIT_TIMEOUT_S = 10.0
_PROBE_TIMEOUT_S = 1.0
_PROBE_AGAIN_S = 1.0
_PROBE_EVERY_S = 30.0
_DRAIN_S = 2.0
_PATIENCE_S = 1.0
_LOGIN = "connection"

_log = structlog.get_logger(__name__)

Place = tuple[str, int]
"""Topic and partition."""


@dataclass(frozen=True, slots=True, eq=False)
class Portion:
    """Records of one partition in their order, which are finished together."""

    poller: Poller
    place: Place
    tracker: Tracker
    unit: Unit
    messages: Sequence[Record]
    size: int

    def finish(self) -> None:
        """Any thread, once: all of it is programmed, pending with a reason, or refused."""
        self.poller.finished(self)


@dataclass(frozen=True, slots=True)
class Began:
    """Partitions are read from their beginning from here on; `whole`: they are all that is read of the topic."""

    topic: str
    partitions: frozenset[int]
    whole: bool


@dataclass(frozen=True, slots=True)
class Ended:
    """A partition has been read to its end."""

    place: Place


@dataclass(frozen=True, slots=True)
class Limits:
    """Of what is in hand at once."""

    records: int
    size: int


Wanted = Mapping[str, frozenset[int] | None]
"""Partitions by topic, None for all of them."""


class Poller:
    """`group`: whether the consumer is a group's member; else it is assigned what `want` says."""

    def __init__(
        self,
        name: str,
        config: Mapping[str, Any],
        wanted: Wanted,
        *,
        group: bool,
        limits: Limits,
        deliver: Callable[[Portion | Began | Ended], None],
        failed: Callable[[str], None],
        faults: Faults,
    ) -> None:
        """`failed` is told, once, of what no going on is possible after."""
        self._name = name
        self._group = group
        self._wanted: Wanted = dict(wanted)
        self._limits = limits
        self._deliver = deliver
        self._failed = failed
        self._faults = faults
        self.connection = Connection(name)
        self._config = {**config, "error_cb": self._error, "on_commit": self._committed}
        every = config.get("topic.metadata.refresh.interval.ms")
        self._probe_every = min(_PROBE_EVERY_S, int(every) / 1000) if every else _PROBE_EVERY_S
        self._commands: queue.SimpleQueue[Portion | Wanted | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=f"kafka-{name}", daemon=True)
        self._stopping = False
        self._trackers: dict[Place, Tracker] = {}
        self._records = self._bytes = 0
        self._paused = False
        self._suspect = True
        self._probed = 0.0
        self._unresolved = True
        self._commit_sent = 0.0
        self._commit_due = 0.0
        self._average = 0
        self._fatal = ""

    # -- for other threads

    def start(self) -> None:
        """Raises KafkaException for properties that librdkafka refuses."""
        self._consumer = Consumer(self._config)
        self._thread.start()

    def want(self, wanted: Wanted) -> None:
        self._commands.put(dict(wanted))

    def finished(self, portion: Portion) -> None:
        self._commands.put(portion)

    def stop(self) -> None:
        """Take no more. Does not wait."""
        self._commands.put(None)

    def join(self, seconds: float) -> None:
        """Wait for the last commit and the end; what takes longer is left behind."""
        if self._thread.ident is not None:
            self._thread.join(seconds)

    def describe(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "consumer": self._name,
            **self.connection.describe(),
            "paused": self._paused,
            "in_hand": {"records": self._records, "bytes": self._bytes},
            "partitions": [
                {"topic": topic, "partition": partition, "position": one.position, "finished": one.reached,
                 "committed": one.committed}
                for (topic, partition), one in sorted(self._trackers.copy().items())
            ],
        }

    # -- the thread

    def _run(self) -> None:
        try:
            if self._group:
                self._consumer.subscribe(
                    list(self._wanted), on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost
                )
            while not self._stopping:
                self._step()
            self._last_commit()
        except Exception as error:
            _log.exception("kafka: consumer failed", consumer=self._name)
            self._failed(f"kafka: the consumer {self._name} failed: {error}")
        finally:
            self._consumer.close()

    def _step(self) -> None:
        first = self._consumer.poll(_POLL_S)
        if first is not None:
            size = _LARGE_BATCH if self._average > _LARGE else _BATCH
            self._take([first, *self._consumer.consume(size - 1, 0)])
        self._take_commands(0.0)
        self._balance()
        now = time.monotonic()
        if self._group and now >= self._commit_due:
            self._commit_due = now + _COMMIT_EVERY_S
            self._commit(now)
        wait = _PROBE_AGAIN_S if self._suspect or self._unresolved else self._probe_every
        if now - self._probed >= wait:
            self._probe()
            self._probed = time.monotonic()

    def _take_commands(self, timeout: float) -> None:
        while True:
            try:
                command = self._commands.get(timeout=timeout) if timeout else self._commands.get_nowait()
            except queue.Empty:
                return
            timeout = 0.0
            if command is None:
                self._stopping = True
            elif isinstance(command, Portion):
                self._records -= len(command.messages)
                self._bytes -= command.size
                command.tracker.finish(command.unit)
            else:
                self._wanted, self._unresolved, self._probed = command, True, 0.0

    def _take(self, messages: Iterable[Message]) -> None:
        by_place: dict[Place, list[Record]] = {}
        for message in messages:
            error = message.error()
            if error is None:
                record = cast("Record", message)
                by_place.setdefault((record.topic(), record.partition()), []).append(record)
            elif error.code() == KafkaError._PARTITION_EOF:
                self._hand_over(by_place)
                by_place = {}
                end = cast("Record", message)
                self._deliver(Ended((end.topic(), end.partition())))
            else:
                self._told(error, message.topic())
        self._hand_over(by_place)

    def _hand_over(self, by_place: Mapping[Place, list[Record]]) -> None:
        for place, messages in by_place.items():
            tracker = self._trackers.get(place)
            if tracker is None:
                continue  # it has been taken from us meanwhile
            if tracker.position is not None and messages[0].offset() < tracker.position:
                # The topic was made anew, and is shorter than the one before.
                tracker = self._trackers[place] = Tracker()
            size = sum(map(len, messages))
            self._average = size // len(messages)
            self._records += len(messages)
            self._bytes += size
            unit = tracker.begin(messages[-1].offset() + 1)
            self._faults.at("kafka.records")
            self._deliver(Portion(self, place, tracker, unit, messages, size))
        if by_place:
            self.connection.back()

    def _balance(self) -> None:
        """Pause above the limits, resume well below. Polling goes on.

        A pause throws away what has been fetched ahead, which costs half a second: what is done sooner is waited for.
        """
        deadline = time.monotonic() + _PATIENCE_S
        while not self._paused and self._full and not self._stopping and time.monotonic() < deadline:
            self._take_commands(max(0.001, deadline - time.monotonic()))
        if not self._paused and self._full:
            self._paused = True
            self._consumer.pause(self._consumer.assignment())
        elif self._paused and self._records * 2 <= self._limits.records and self._bytes * 2 <= self._limits.size:
            self._paused = False
            self._consumer.resume(self._consumer.assignment())

    @property
    def _full(self) -> bool:
        return self._records >= self._limits.records or self._bytes >= self._limits.size

    # -- what is read

    def _probe(self) -> None:
        """Ask the brokers for the topics: of what may not be read, polling alone says nothing."""
        unresolved = False
        found: dict[str, frozenset[int]] = {}
        for topic, partitions in self._wanted.items():
            try:
                answer = self._consumer.list_topics(topic, timeout=_PROBE_TIMEOUT_S).topics[topic]
            except KafkaException as error:
                self._suspect = True
                self.connection.lost(error.args[0].str())
                return
            if answer.error is not None:
                name = answer.error.name()
                self.connection.trouble(f"topic {topic}", name, f"{name}: {answer.error.str()}")
                unresolved = True
                continue
            there = frozenset(answer.partitions)
            found[topic] = there if partitions is None else partitions & there
            if missing := sorted((partitions or frozenset()) - there):
                text = f"has no partition {', '.join(map(str, missing))}"
                self.connection.trouble(f"topic {topic}", text, text)
                unresolved = True
            else:
                self.connection.over(f"topic {topic}")
        if not self._wanted and not self._reachable():
            return
        self._suspect, self._unresolved = False, unresolved
        self.connection.over(_LOGIN)
        self.connection.back()
        if not self._group:
            self._assign(found)

    def _reachable(self) -> bool:
        try:
            self._consumer.list_topics(timeout=_PROBE_TIMEOUT_S)
        except KafkaException as error:
            self.connection.lost(error.args[0].str())
            return False
        return True

    def _assign(self, found: Mapping[str, frozenset[int]]) -> None:
        places = {(topic, partition) for topic, partitions in found.items() for partition in partitions}
        new = places - self._trackers.keys()
        if places == self._trackers.keys():
            return
        self._trackers = {place: self._trackers.get(place) or Tracker() for place in sorted(places)}
        for topic in sorted({topic for topic, _ in new}):
            begun = frozenset(partition for name, partition in new if name == topic)
            self._deliver(Began(topic, begun, begun == found[topic]))
        positions = [
            TopicPartition(topic, partition, OFFSET_BEGINNING if one.position is None else one.position)
            for (topic, partition), one in self._trackers.items()
        ]
        if positions:
            self._consumer.assign(positions)
            if self._paused:
                self._consumer.pause(self._consumer.assignment())
        else:
            self._consumer.unassign()

    # -- the group

    def _assigned(self, consumer: Consumer, partitions: Sequence[TopicPartition]) -> None:
        for one in partitions:
            self._trackers[one.topic, one.partition] = Tracker()
        _log.info("kafka: given partitions", partitions=[f"{one.topic}:{one.partition}" for one in partitions])
        # What is given comes unpaused; the next step pauses all of it again if it must.
        self._paused = False

    def _revoked(self, consumer: Consumer, partitions: Sequence[TopicPartition]) -> None:
        places = [(one.topic, one.partition) for one in partitions]
        deadline = time.monotonic() + _DRAIN_S
        while time.monotonic() < deadline and any(self._units(place) for place in places):
            self._take_commands(0.1)
        self._last_commit()
        self._forget(places)

    def _lost(self, consumer: Consumer, partitions: Sequence[TopicPartition]) -> None:
        _log.warning("kafka: partitions lost", partitions=[f"{one.topic}:{one.partition}" for one in partitions])
        self._forget([(one.topic, one.partition) for one in partitions])

    def _units(self, place: Place) -> int:
        tracker = self._trackers.get(place)
        return len(tracker.units) if tracker is not None else 0

    def _forget(self, places: Iterable[Place]) -> None:
        for place in places:
            self._trackers.pop(place, None)

    def _offsets(self) -> list[TopicPartition]:
        return [
            TopicPartition(topic, partition, offset)
            for (topic, partition), one in self._trackers.items()
            if (offset := one.to_commit) is not None
        ]

    def _commit(self, now: float) -> None:
        offsets = self._offsets()
        if not offsets or now - self._commit_sent < _COMMIT_TIMEOUT_S:
            return
        self._faults.at("kafka.commit")
        self._commit_sent = now
        try:
            self._consumer.commit(offsets=offsets, asynchronous=True)
        except KafkaException as error:
            self._commit_sent = 0.0
            self._told(error.args[0], None)

    def _last_commit(self) -> None:
        """Never tried twice: what is not committed comes again."""
        offsets = self._offsets()
        if self._group and offsets and self.connection.connected and not self._fatal:
            with contextlib.suppress(KafkaException):
                self._consumer.commit(offsets=offsets, asynchronous=False)

    def _committed(self, error: KafkaError | None, partitions: Sequence[TopicPartition]) -> None:
        self._commit_sent = 0.0
        if error is not None:
            self._told(error, None)
            return
        for one in partitions:
            tracker = self._trackers.get((one.topic, one.partition))
            if tracker is not None and one.error is None:
                tracker.committed = one.offset
        self.connection.over("commit")
        self._faults.at("kafka.committed")

    # -- what goes wrong

    def _error(self, error: KafkaError) -> None:
        self._told(error, None)

    def _told(self, error: KafkaError, topic: str | None) -> None:
        code = error.code()
        text = f"{error.name()}: {error.str()}"
        if error.fatal() or code in (KafkaError._FATAL, KafkaError.FENCED_INSTANCE_ID):
            self._end(text)
        elif code in (KafkaError._AUTHENTICATION, KafkaError._SSL):
            # First: the reason for being disconnected.
            text = error.str()
            if "certificate verify failed" in text:
                # The library does not tell apart why.
                text += "; or the certificate has expired"
            self.connection.trouble(_LOGIN, error.name(), text)
            self._suspect = True
        elif code in _AWAY:
            self._suspect = True
        elif code in _TOPIC_GONE and topic:
            self._unresolved = True
        elif code in _COMMIT_LATER:
            _log.info("kafka: not committed, will come again", reason=text)
        elif code == KafkaError._MAX_POLL_EXCEEDED:
            _log.warning("kafka: polled too late", reason=text)
        else:
            self.connection.trouble(f"topic {topic}" if topic else error.name(), error.name(), text)

    def _end(self, text: str) -> None:
        if not self._fatal:
            self._fatal = text
            identity = self._config.get("group.instance.id", "")
            self._failed(
                f"kafka: fenced or failed for good, member {identity!r} of group {self._config['group.id']!r}: {text}"
                " (another agent may have the same host.id)"
            )


_AWAY = frozenset({
    KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT, KafkaError._RESOLVE, KafkaError._TIMED_OUT,
})
_TOPIC_GONE = frozenset({
    KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION,
})
_COMMIT_LATER = frozenset({
    KafkaError.REBALANCE_IN_PROGRESS, KafkaError.ILLEGAL_GENERATION, KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError._NO_OFFSET, KafkaError._STATE,
})
