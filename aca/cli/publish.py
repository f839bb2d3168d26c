"""Publishing goal states on Kafka, as a controller does."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aca.cli.console import CommandError
from aca.cli.goalstates import GoalStateFile, Layout
from aca.kafkasettings import KafkaError, properties_in_files
from aca.transport.kafka.payload import VERSION_HEADER
from goalstate_proto.common_pb2 import DELTA
from goalstate_proto.goalstate_pb2 import GoalState, GoalStateV2

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

_POLL_S = 0.1
_BY_KEY = -1
# Ours to decide: at least once, in order, and no chatter of the library's own on standard error.
_FIXED: Mapping[str, Any] = {"enable.idempotence": True, "acks": "all", "log_level": 0}
# A topic may allow more than the library's 1 MB; what it does not, the broker refuses.
# Keys go where Java's producers put them.
_USUAL: Mapping[str, Any] = {"message.max.bytes": 104_857_600, "partitioner": "murmur2_random"}


@dataclass(frozen=True, slots=True)
class Record:
    """What is to be written. `value` None: a tombstone. `name` is for people: the file, or 'tombstone'."""

    name: str
    key: str | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True)
class Written:
    """A record that all in-sync replicas have, and where it is."""

    record: Record
    partition: int
    offset: int


def record_of(file: GoalStateFile, key: str | None) -> Record:
    """The record of one goal state: its bytes, and a header that names the layout."""
    version = b"1" if file.layout is Layout.V1 else b"2"
    return Record(file.name, key, file.message.SerializeToString(), ((VERSION_HEADER, version),))


def tombstone(key: str) -> Record:
    """The record that deletes what the key's last one named."""
    return Record("tombstone", key, None, ())


def first_delta(message: GoalState | GoalStateV2) -> str | None:
    """The first configuration that is a DELTA update ('port_states p1'), or None. Gateways know no update type."""
    for field, states in message.ListFields():
        if field.name == "host_resources" or not hasattr(states, "__len__"):
            continue
        for state in states.values() if hasattr(states, "values") else states:
            configuration = getattr(state, "configuration", None)
            if getattr(configuration, "update_type", None) == DELTA:
                return f"{field.name} {getattr(configuration, 'id', '') or '-'}"
    return None


class Publisher:
    """Writes to one topic. Raises CommandError for everything that goes wrong on the way."""

    def __init__(self, brokers: str, topic: str, properties: Mapping[str, str], timeout_s: float) -> None:
        """`properties` are librdkafka's; `timeout_s` bounds the look at the topic, and the writing."""
        try:
            import confluent_kafka
        except ImportError:
            raise CommandError("--kafka needs the package confluent-kafka: pip install 'aca[kafka]'") from None
        if ours := sorted(_FIXED.keys() & properties.keys()):
            raise CommandError(f"--property {ours[0]}: is set by aca push itself")
        self._kafka = confluent_kafka
        self._where = f"{brokers}: topic {topic}"
        self._topic = topic
        self._timeout_s = timeout_s
        self._trouble = ""
        self._settings: dict[str, Any] = {
            **_USUAL,
            "message.timeout.ms": int(timeout_s * 1000),
            **properties,
            **_FIXED,
            "bootstrap.servers": brokers,
            "error_cb": self._remember,
        }

    def is_compacted(self) -> bool:
        """Asks the brokers for the topic's cleanup.policy (they must allow DESCRIBE_CONFIGS)."""
        from confluent_kafka import admin as administration

        # Its type hints say that only the client is for others.
        library: Any = administration
        settings = {name: value for name, value in self._settings.items() if name not in _PRODUCERS_OWN}
        try:
            admin = administration.AdminClient(settings)
            resource = library.ConfigResource(library.ResourceType.TOPIC, self._topic)
            asked: Future[Any] = admin.describe_configs([resource], request_timeout=self._timeout_s)[resource]
            policy: str = self._answer(admin, asked)["cleanup.policy"].value
        except self._kafka.KafkaException as problem:
            raise CommandError(f"{self._where}: its cleanup.policy cannot be read: {self._words(problem)}") from None
        return "compact" in policy

    def write(self, records: Sequence[Record], partition: int | None) -> list[Written]:
        """Write all, in order; returns when every one is acknowledged."""
        written: list[Written] = []
        refused: list[str] = []
        try:
            producer = self._kafka.Producer(self._settings)
        except self._kafka.KafkaException as problem:
            raise CommandError(f"{self._where}: {self._words(problem)}") from None
        where = _BY_KEY if partition is None else partition
        deadline = time.monotonic() + self._timeout_s
        for record in records:

            def done(error: Any, message: Any, record: Record = record) -> None:
                if error is not None:
                    refused.append(f"{record.name}: {error.str()}")
                else:
                    written.append(Written(record, message.partition(), message.offset()))

            while True:
                try:
                    producer.produce(
                        self._topic, record.value, record.key, where, headers=list(record.headers), on_delivery=done
                    )
                    break
                except BufferError:
                    if time.monotonic() > deadline:
                        raise CommandError(f"{self._where}: not written within {self._timeout_s:g} s") from None
                    producer.poll(_POLL_S)
                except self._kafka.KafkaException as problem:
                    raise CommandError(f"{self._where}: {record.name}: {self._words(problem)}") from None
        left = producer.flush(max(0.0, deadline - time.monotonic()) + 1.0)
        if refused or left:
            text = refused[0] if refused else f"{left} records not acknowledged within {self._timeout_s:g} s"
            raise CommandError(f"{self._where}: {len(written)} of {len(records)} written; {text}{self._because()}")
        return written

    def _answer(self, admin: AdminClient, asked: Future[Any]) -> Any:
        """Waits while the library may call back, which it does only when polled."""
        end = time.monotonic() + self._timeout_s + 1.0
        while not asked.done() and time.monotonic() < end:
            admin.poll(_POLL_S)
        try:
            return asked.result(timeout=0)
        except TimeoutError:
            raise CommandError(f"{self._where}: no answer within {self._timeout_s:g} s{self._because()}") from None

    def _remember(self, error: Any) -> None:
        # That all are down follows from what happened to each, and says less.
        if error.code() != self._kafka.KafkaError._ALL_BROKERS_DOWN:
            self._trouble = error.str()

    def _words(self, problem: Any) -> str:
        return f"{problem.args[0].str()}{self._because()}"

    def _because(self) -> str:
        return f" ({self._trouble})" if self._trouble else ""


_PRODUCERS_OWN = frozenset({"enable.idempotence", "acks", "message.timeout.ms", "partitioner"})


def properties_of(given: Sequence[str], files: Sequence[str]) -> dict[str, str]:
    """librdkafka's properties from NAME=VALUE and NAME=PATH (for secrets). Raises CommandError."""
    properties = dict(_pairs("--property", given))
    in_files = {name: Path(path) for name, path in _pairs("--property-file", files)}
    try:
        return properties | properties_in_files(in_files)
    except KafkaError as problem:
        raise CommandError(f"--property-file {problem}") from None


def _pairs(option: str, texts: Sequence[str]) -> Iterator[tuple[str, str]]:
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            # Not the text itself: it may be a secret.
            raise CommandError(f"{option}: must be NAME=VALUE")
        yield name, value
