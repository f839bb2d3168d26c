"""Kafka as a whole: consumers, intake and outbox, from settings."""

from __future__ import annotations

import logging
import threading
import time
import zlib
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import structlog
from confluent_kafka import KafkaException

from aca.kafkasettings import KafkaError, KafkaSettings, properties_in_files
from aca.transport.kafka.intake import Engine, Intake, IntakeSettings
from aca.transport.kafka.outbox import Outbox
from aca.transport.kafka.poller import Limits, Poller, Wanted
from dataplane.faults import Faults

_CLIENT = {
    "socket.keepalive.enable": "true",
    "reconnect.backoff.ms": "1000",
    "reconnect.backoff.max.ms": "30000",
    "statistics.interval.ms": "0",
}
_CONSUMER = {
    "enable.auto.commit": "false",
    "enable.auto.offset.store": "false",
    "enable.partition.eof": "true",
    "auto.offset.reset": "earliest",
    "allow.auto.create.topics": "false",
    "isolation.level": "read_committed",
    "queued.max.messages.kbytes": "8192",
    "queued.min.messages": "10000",
    "fetch.queue.backoff.ms": "10",
}
_PRODUCER = {
    "acks": "all",
    "enable.idempotence": "true",
    "message.timeout.ms": "20000",
    "topic.metadata.propagation.max.ms": "5000",
    "queue.buffering.max.kbytes": "16384",
}
_GROUP = {"max.poll.interval.ms": "300000"}
_CLASSIC = {"partition.assignment.strategy": "cooperative-sticky", "session.timeout.ms": "60000"}
_CONSUMER_ONLY = ("fetch.", "queued.", "session.", "heartbeat.", "max.poll.", "auto.offset.", "partition.assignment.",
                  "isolation.", "group.", "max.partition.")
_PRODUCER_ONLY = ("queue.buffering.", "message.timeout.", "linger.", "compression.", "acks", "batch.", "delivery.",
                  "partitioner", "transactional.", "enable.idempotence", "request.required.", "max.in.flight.")

_log = structlog.get_logger(__name__)


class KafkaService:
    """`start` and `stop` once each, by one thread; the rest by any."""

    def __init__(
        self,
        settings: KafkaSettings,
        engine: Engine,
        *,
        host_id: str,
        addresses: Collection[str],
        failed: Callable[[str], None],
        faults: Faults | None = None,
    ) -> None:
        """`addresses`: texts of this host's addresses. `failed` is told, by any thread, why the agent has to end.

        Raises KafkaError.
        """
        faults = faults or Faults()
        self._settings = settings
        self._lock = threading.Lock()
        self._told: dict[str, frozenset[str]] = {}
        try:
            properties = {**settings.properties, **properties_in_files(settings.property_files)}
        except KafkaError as error:
            raise KafkaError(f"kafka.property_files: {error}") from None
        common = {
            **_CLIENT, **properties, "bootstrap.servers": ",".join(settings.bootstrap_servers),
            "client.id": properties.get("client.id", f"aca-{host_id}"), "logger": _silent_logger(), "log_level": 2,
        }
        consumer = {**_CONSUMER, **_without(common, _PRODUCER_ONLY)}
        try:
            outbox = None
            if settings.dead_letter_topic or settings.reply_topic:
                outbox = Outbox({**_PRODUCER, **_without(common, _CONSUMER_ONLY)})
            self._intake = Intake(
                engine,
                IntakeSettings(
                    host_id=host_id,
                    hosts=frozenset(addresses),
                    compacted=frozenset(settings.compacted),
                    v1_topics=frozenset(settings.v1_topics),
                    unfiltered=frozenset(settings.group_topics if settings.shared_group else ()),
                    dead_letter_topic=settings.dead_letter_topic,
                    reply_topic=settings.reply_topic,
                ),
                outbox,
                faults,
            )
        except KafkaException as error:
            raise KafkaError(f"kafka.properties: {error.args[0].str()}") from None
        limits = Limits(settings.max_records, settings.max_mib * 1024 * 1024)
        self._wanted = _wanted(settings)
        self._assigning: Poller | None = None
        self._pollers: list[Poller] = []

        def poller(name: str, config: Mapping[str, Any], wanted: Wanted, *, group: bool) -> Poller:
            made = Poller(
                name, config, wanted, group=group, limits=limits, deliver=self._intake.deliver, failed=failed,
                faults=faults,
            )
            self._pollers.append(made)
            return made

        if self._wanted or settings.told:
            own = {**_without(consumer, ("session.", "heartbeat.", "partition.assignment.")),
                   "group.id": f"aca-{host_id}-assigned"}
            self._assigning = poller("assigned", own, self._wanted, group=False)
        if settings.group_topics:
            group_id = settings.group_of(host_id)
            if settings.group_id and host_id not in settings.group_id and not settings.shared_group:
                _log.warning(
                    "kafka: the group's name has no host.id in it: if another agent is a member, records of this host "
                    "are lost", group=group_id,
                )
            # A broker gives a static member that is back in time the partitions it had, whatever it asks for now.
            topics = zlib.crc32(",".join(sorted(settings.group_topics)).encode())
            member = {**_GROUP, **(_CLASSIC if settings.group_protocol == "classic" else {}), **consumer,
                      "group.id": group_id, "group.protocol": settings.group_protocol,
                      "group.instance.id": f"{host_id}-{topics:08x}"}
            poller("group", member, dict.fromkeys(settings.group_topics), group=True)

    def start(self) -> None:
        """Raises KafkaError for properties that librdkafka refuses. Brokers may be away."""
        self._intake.start()
        for poller in self._pollers:
            try:
                poller.start()
            except KafkaException as error:
                raise KafkaError(f"kafka.properties: {error.args[0].str()}") from None

    def begin_stop(self) -> None:
        """Take no more. Does not wait."""
        self._intake.stop()

    def stop(self, seconds: float) -> None:
        """Commit what is finished and leave, within `seconds`, brokers or not."""
        deadline = time.monotonic() + seconds
        self._intake.stop()
        self._intake.join(seconds / 2)
        for poller in self._pollers:
            poller.stop()
        for poller in self._pollers:
            poller.join(max(0.05, deadline - time.monotonic()))

    def subscribe(self, topic: str, key: str) -> None:
        """Read all partitions of a topic from their beginning: what has this key, or is this host's by its own.

        Raises ValueError for an empty topic, and if the told mode is off.
        """
        self._change(topic, lambda keys: keys | {key})

    def unsubscribe(self, topic: str, key: str) -> None:
        """No more records of this key; with the last key the topic is left. Raises ValueError as `subscribe`."""
        self._change(topic, lambda keys: keys - {key})

    def status(self) -> dict[str, Any]:
        """JSON-ready (docs/status.md)."""
        consumers = [one.describe() for one in self._pollers]
        away = [one for one in consumers if not one["connected"]]
        return {
            "connected": not away,
            "disconnected_since": min((one["since"] for one in away), default=None),
            "trouble": "; ".join(
                f"{about}: {text}" for one in consumers for about, text in one["troubles"].items()
            ),
            "consumers": consumers,
            "told": {topic: sorted(keys) for topic, keys in self._told.items()},
            "dead_letter_topic": self._settings.dead_letter_topic,
            "reply_topic": self._settings.reply_topic,
            **self._intake.describe(),
        }

    @property
    def connected(self) -> bool:
        return all(one.connection.connected for one in self._pollers)

    def _change(self, topic: str, change: Callable[[frozenset[str]], frozenset[str]]) -> None:
        if not topic:
            raise ValueError("topic is empty")
        if not self._settings.told or self._assigning is None:
            raise ValueError("kafka.told is off: this agent is not told what to read")
        with self._lock:
            keys = change(self._told.get(topic, frozenset()))
            told = {name: known for name, known in self._told.items() if name != topic}
            self._told = {**told, topic: keys} if keys else told
            self._intake.told = self._told
            self._assigning.want({**dict.fromkeys(self._told), **self._wanted})


def _wanted(settings: KafkaSettings) -> dict[str, frozenset[int] | None]:
    wanted: dict[str, frozenset[int] | None] = {}
    for one in settings.assigned:
        topic, colon, partition = one.partition(":")
        if not colon:
            wanted[topic] = None
        elif (known := wanted.get(topic, frozenset())) is not None:
            wanted[topic] = known | {int(partition)}
    return wanted | {topic: None for topic in settings.compacted if topic not in wanted}


def _without(config: Mapping[str, Any], prefixes: Iterable[str]) -> dict[str, Any]:
    return {name: value for name, value in config.items() if not name.startswith(tuple(prefixes))}


def _silent_logger() -> logging.Logger:
    """The library's own lines, 20 a second while brokers are away, say nothing that the connection does not."""
    quiet = logging.getLogger("aca.kafka.client")
    quiet.propagate = False
    quiet.setLevel(logging.CRITICAL)
    quiet.handlers = [logging.NullHandler()]
    return quiet
