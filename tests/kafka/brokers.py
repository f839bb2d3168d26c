"""Apache Kafka for tests: one broker or three, in KRaft mode, each controller and broker at once.

    with Brokers(tmp_dir / "kafka", Loopback()) as brokers:
        brokers.create("states", partitions=4)
        brokers.produce("states", [Produced(b"value", key=b"host")])
        AgentProcess(host, {"kafka": {"bootstrap_servers": brokers.bootstrap}})

Brokers end with the process that made them, however that ends (see Brokers).
"""

from __future__ import annotations

import signal
import socket
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, Self, TypeVar

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from tests.kafka.broker import Broker, new_id
from tests.kafka.settings import LARGEST_RECORD, Ports, Security, properties
from tests.lab.commands import LabError, wait_until
from tests.lab.netns import Namespace

T = TypeVar("T")

ADMIN_TIMEOUT = 30.0
TETHERED = ("setpriv", "--pdeathsig", "KILL", "--")
"""Ends what it precedes when the thread that started it ends."""


class Place(Protocol):
    """Where brokers run, and where their clients must be made."""

    address: str

    def entering(self) -> Sequence[str]: ...
    def call(self, action: Callable[[], T]) -> T: ...


class Loopback:
    """This process's own network namespace."""

    address = "127.0.0.1"

    def entering(self) -> Sequence[str]:
        return ()

    def call(self, action: Callable[[], T]) -> T:
        return action()


class Inside:
    """A named namespace, at an address that it has. A client made there has its sockets there."""

    def __init__(self, namespace: Namespace, address: str) -> None:
        self.address = address
        self._namespace = namespace
        # Brokers talk to themselves.
        namespace.ip("link set lo up")

    def entering(self) -> Sequence[str]:
        return self._namespace.entering()

    def call(self, action: Callable[[], T]) -> T:
        return self._namespace.call(action)


@dataclass(frozen=True, slots=True)
class Produced:
    """One record to produce; `value` None is a tombstone, `partition` None leaves the choice to the hash of the key."""

    value: bytes | None
    key: bytes | None = None
    partition: int | None = None
    headers: Sequence[tuple[str, bytes]] = field(default=())


class Brokers:
    """A cluster. A context manager: entering starts all brokers, leaving kills them; the logs stay.

    Every broker is started by one thread of ours, and dies with it: with this process, however that ends.
    """

    def __init__(
        self,
        directory: Path,
        place: Place,
        *,
        count: int = 1,
        security: Security | None = None,
        tether: Sequence[str] = TETHERED,
        overrides: Mapping[str, str] | None = None,
    ) -> None:
        """`directory` must not exist. `overrides` are brokers' properties. Brokers outlive us if `tether` is ()."""
        self.place = place
        self.directory = directory
        self._starter = ThreadPoolExecutor(1, "brokers")
        self._admin: AdminClient | None = None
        self._producer: Producer | None = None
        names = [listener.name for listener in security.listeners] if security else []
        free = iter(place.call(lambda: free_ports(place.address, count * (2 + len(names)))))
        self.ports = {
            number: Ports(next(free), next(free), {name: next(free) for name in names})
            for number in range(1, count + 1)
        }
        cluster = new_id()
        self._brokers = {}
        for number in self.ports:
            its = directory / f"broker{number}"
            settings = properties(number, place.address, self.ports, its / "data", security) | dict(overrides or {})
            wrapper = (*place.entering(), *tether)
            self._brokers[number] = Broker(number, its, settings, cluster, wrapper, self._launch)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __getitem__(self, number: int) -> Broker:
        """From 1."""
        return self._brokers[number]

    def __iter__(self) -> Iterator[Broker]:
        return iter(self._brokers.values())

    @property
    def bootstrap(self) -> str:
        """HOST:PORT,... of the plain listeners."""
        return ",".join(f"{self.place.address}:{ports.plain}" for ports in self.ports.values())

    def bootstrap_of(self, listener: str) -> str:
        """HOST:PORT,... of the listener of that name."""
        return ",".join(f"{self.place.address}:{ports.secure[listener]}" for ports in self.ports.values())

    @property
    def logs(self) -> list[Path]:
        return [broker.log for broker in self._brokers.values()]

    # -- their lives

    def start(self) -> None:
        """Start those that do not run, together, and return when all serve. Raises LabError, with a log."""
        idle = [broker for broker in self._brokers.values() if not broker.running]
        try:
            for broker in idle:
                broker.begin()
            for broker in idle:
                broker.wait_ready()
        except BaseException:
            self.kill()
            raise

    def kill(self) -> None:
        """SIGKILL to all."""
        for broker in self._brokers.values():
            broker.send(signal.SIGKILL)
        for broker in self._brokers.values():
            broker.wait_end()

    def stop(self) -> None:
        """SIGTERM to all, as a cluster that is shut down."""
        for broker in self._brokers.values():
            broker.send(signal.SIGTERM)
        for broker in self._brokers.values():
            broker.wait_end()

    def close(self) -> None:
        """Kill all and let go of everything; may be called twice."""
        self.kill()
        self._admin = self._producer = None
        self._starter.shutdown()

    # -- topics

    @property
    def admin(self) -> AdminClient:
        """A client that may do everything."""
        if self._admin is None:
            self._admin = self.place.call(lambda: AdminClient(self._client_settings()))
        return self._admin

    def create(self, topic: str, *, partitions: int = 1, **settings: str) -> None:
        """Make a topic and wait until it can be used; `settings` with _ for the dot: cleanup_policy="compact"."""
        named = {name.replace("_", "."): value for name, value in settings.items()}
        new = NewTopic(topic, num_partitions=partitions, replication_factor=min(3, len(self._brokers)), config=named)
        finish(self.admin.create_topics([new], operation_timeout=ADMIN_TIMEOUT))
        self._wait_partitions(topic, partitions)

    def delete(self, topic: str) -> None:
        """Delete a topic and wait until it is gone."""
        finish(self.admin.delete_topics([topic], operation_timeout=ADMIN_TIMEOUT))
        wait_until(lambda: topic not in self.admin.list_topics(timeout=5.0).topics, ADMIN_TIMEOUT, f"no {topic}")
        # What it knows of topics is old.
        self._producer = None

    def grow(self, topic: str, partitions: int) -> None:
        """Raise the number of a topic's partitions."""
        finish(self.admin.create_partitions([NewPartitions(topic, partitions)], operation_timeout=ADMIN_TIMEOUT))
        self._wait_partitions(topic, partitions)
        self._producer = None

    def configure(self, topic: str, **settings: str) -> None:
        """Set a topic's settings, names as for create(); what is not named returns to its default."""
        named = {name.replace("_", "."): value for name, value in settings.items()}
        finish(self.admin.alter_configs([ConfigResource(ConfigResource.Type.TOPIC, topic, set_config=named)]))

    # -- records

    def produce(self, topic: str, records: Iterable[Produced], within: float = 60.0) -> None:
        """Write records in order and return when all are on every replica. Raises LabError."""
        producer = self._producer or self.place.call(self.producer)
        self._producer = producer
        refused: list[str] = []

        def written(error: Any, _: Any) -> None:
            if error is not None:
                refused.append(str(error))

        for record in records:
            place: dict[str, Any] = {} if record.partition is None else {"partition": record.partition}
            headers: list[Any] = list(record.headers)
            while True:
                try:
                    producer.produce(topic, record.value, record.key, headers=headers, on_delivery=written, **place)
                    break
                except BufferError:
                    producer.poll(0.1)
            producer.poll(0)
        left = producer.flush(within)
        if left or refused:
            raise LabError(f"{topic}: {left} records not written in {within:g} s; {'; '.join(refused[:3])}")

    def producer(self, settings: Mapping[str, Any] | None = None) -> Producer:
        """A producer of a test's own. To be made by way of place.call()."""
        usual = {"enable.idempotence": True, "message.max.bytes": LARGEST_RECORD, "linger.ms": 2}
        return Producer(self._client_settings() | usual | dict(settings or {}))

    def read(self, topic: str, within: float = 30.0) -> list[Any]:
        """Every message of a topic, partition by partition. Raises LabError if its ends are not reached in time."""
        consumer = self.place.call(
            lambda: Consumer(self._client_settings() | {"group.id": "test-reader", "enable.auto.commit": False})
        )
        try:
            count = len(self.admin.list_topics(topic, timeout=within).topics[topic].partitions)
            found = []
            for partition in range(count):
                first, end = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=within)
                consumer.assign([TopicPartition(topic, partition, first)])
                where = first
                while where < end:
                    message = consumer.poll(within)
                    if message is None or message.error():
                        why = "no message" if message is None else message.error()
                        raise LabError(f"{topic}[{partition}] stopped at {where} of {end}: {why}")
                    found.append(message)
                    (position,) = consumer.position([TopicPartition(topic, partition)])
                    where = position.offset
            return found
        finally:
            consumer.close()

    def committed(self, group: str, topic: str, partitions: int = 1) -> list[int]:
        """The offsets that a group has committed; negative where it has none."""
        asked = [TopicPartition(topic, partition) for partition in range(partitions)]
        consumer = self.place.call(lambda: Consumer(self._client_settings() | {"group.id": group}))
        try:
            return [found.offset for found in consumer.committed(asked, timeout=ADMIN_TIMEOUT)]
        finally:
            consumer.close()

    # -- rights

    def add_user(self, user: str, password: str) -> None:
        """Give a user a password for SCRAM."""
        credential = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        upsertion = UserScramCredentialUpsertion(user, credential, password.encode())
        finish(self.admin.alter_user_scram_credentials([upsertion]))

    def allow(self, user: str, operation: AclOperation, kind: ResourceType, name: str) -> None:
        """Let a user do something to a topic, group, ...; `name` may be "*"."""
        principal = (f"User:{user}", "*", operation, AclPermissionType.ALLOW)
        finish(self.admin.create_acls([AclBinding(kind, name, ResourcePatternType.LITERAL, *principal)]))

    # --

    def _client_settings(self) -> dict[str, Any]:
        return {
            "bootstrap.servers": self.bootstrap,
            "reconnect.backoff.ms": 50,
            "reconnect.backoff.max.ms": 500,
            "log_level": 0,
            "allow.auto.create.topics": False,
        }

    def _wait_partitions(self, topic: str, partitions: int) -> None:
        def led() -> bool:
            known = self.admin.list_topics(timeout=5.0).topics.get(topic)
            return known is not None and [p.leader >= 0 for p in known.partitions.values()] == [True] * partitions

        wait_until(led, ADMIN_TIMEOUT, f"{partitions} partitions of {topic} with leaders")

    def _launch(self, make: Callable[[], subprocess.Popen[bytes]]) -> subprocess.Popen[bytes]:
        return self._starter.submit(make).result(ADMIN_TIMEOUT)


def finish(futures: Mapping[Any, Future[Any]]) -> None:
    """Wait for all that an admin client was asked. Raises LabError with what Kafka says."""
    for what, future in futures.items():
        try:
            future.result(ADMIN_TIMEOUT)
        except KafkaException as error:
            raise LabError(f"{what}: {error}") from error


def free_ports(address: str, count: int) -> list[int]:
    """Ports that nothing listens on now."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind((address, 0))
        return [each.getsockname()[1] for each in sockets]
