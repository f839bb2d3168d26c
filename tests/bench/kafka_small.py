"""Small records: what the agent does with them, beside a loop that only consumes and parses."""

import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from aca.dispatch.inbox import Message, Together
from aca.goalstate.decode import decode_together
from aca.goalstate.desired import DesiredState
from aca.kafkasettings import KafkaSettings
from aca.transport.kafka.service import KafkaService
from dataplane.base import Capabilities
from dataplane.model import NetworkType
from goalstate_proto.goalstate_pb2 import GoalStateV2
from tests.bench import goalstates
from tests.bench.figures import BenchError, Report
from tests.bench.stage import median
from tests.kafka.broker import missing
from tests.kafka.brokers import Brokers, Loopback

COUNT = 200_000
ROUNDS = 3
LEAST_RATE = 0.5
"""Of the bare loop's."""
TOPIC = "small"
LOCAL = "172.16.0.1"
PATIENCE_S = 120.0


class _Merger:
    """In the engine's place: validates and merges on a thread of its own, and programs nothing."""

    def __init__(self) -> None:
        host = bytes(int(part) for part in LOCAL.split("."))
        self.state = DesiredState(frozenset([host]), NetworkType.VXLAN, Capabilities(frozenset([NetworkType.VXLAN])))
        self._lock = threading.Condition()
        self._waiting: list[tuple[Message, Future[bytes]]] = []
        self._end = False
        self.all_there = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def ready(self) -> bool:
        return True

    def submit(self, message: Message) -> Future[bytes]:
        future: Future[bytes] = Future()
        with self._lock:
            self._waiting.append((message, future))
            self._lock.notify()
        return future

    def on_ready(self, callback: Callable[[bool], None]) -> None:
        """It is."""

    def everything_told(self, source: str) -> None:
        raise BenchError(f"{source} is not compacted")

    def _run(self) -> None:
        while not self.all_there.is_set():
            with self._lock:
                self._lock.wait_for(lambda: bool(self._waiting), PATIENCE_S)
                work, self._waiting = self._waiting, []
            for message, future in work:
                assert isinstance(message, Together)
                for changes in decode_together(message.messages, frozenset([LOCAL])):
                    self.state.merge(changes, 0.0)
                    self.state.take_dirty()
                future.set_result(b"")
            if len(self.state.neighbors) == COUNT:
                self.all_there.set()


def run(report: Report) -> None:
    """`kafka_small`."""
    if reason := missing():
        raise BenchError(reason)
    with (
        tempfile.TemporaryDirectory(prefix="aca-bench-") as directory,
        Brokers(Path(directory) / "kafka", Loopback()) as brokers,
    ):
        _measure(report, brokers)


def _measure(report: Report, brokers: Brokers) -> None:
    brokers.create(TOPIC)
    servers = brokers.bootstrap
    _fill(servers)
    bare, whole = [], []
    for _ in range(ROUNDS):
        bare.append(_bare(servers))
        whole.append(_whole(servers))
    # The goal is a rate of at least half: a time of at most twice.
    report.add(
        "kafka_small.time", median(whole), "s", reference=median(bare), goal=1 / LEAST_RATE, goal_is_ratio=True,
        note=f"{COUNT} records of one neighbour, {COUNT / median(whole):,.0f} a second; reference: consume and parse",
    )


def _fill(servers: str) -> None:
    producer = Producer(
        {"bootstrap.servers": servers, "linger.ms": 50, "queue.buffering.max.messages": COUNT + 1, "log_level": 0}
    )
    for number in range(COUNT):
        producer.produce(TOPIC, _record(number), b"h1", partition=0)
        if number % 1000 == 0:
            producer.poll(0)
    if producer.flush(PATIENCE_S):
        raise BenchError("the broker did not take the records")


def _record(number: int) -> bytes:
    message = GoalStateV2()
    ((ip, mac),) = goalstates.neighbor_addresses(number, 1)
    own_id = f"{0xA0000000 + number:08x}-91c4-4000-8000-{number:012x}"
    goalstates.add_neighbor(message, own_id, ip, mac, "172.16.1.1")
    return message.SerializeToString()


def _bare(servers: str) -> float:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "bare", "enable.auto.commit": False})
    consumer.assign([TopicPartition(TOPIC, 0, OFFSET_BEGINNING)])
    started, seen = time.perf_counter(), 0
    while seen < COUNT:
        for message in consumer.consume(500, 1.0):
            if message.error() is None:
                GoalStateV2.FromString(message.value())
                seen += 1
        if time.perf_counter() - started > PATIENCE_S:
            raise BenchError(f"{seen} of {COUNT} records came")
    took = time.perf_counter() - started
    consumer.close()
    return took


def _whole(servers: str) -> float:
    merger, failures = _Merger(), list[str]()
    service = KafkaService(
        KafkaSettings(bootstrap_servers=tuple(servers.split(",")), assigned=(f"{TOPIC}:0",)), merger,
        host_id="h1", addresses=[LOCAL], failed=failures.append,
    )
    started = time.perf_counter()
    service.start()
    merger.all_there.wait(PATIENCE_S)
    took = time.perf_counter() - started
    status = service.status()
    service.stop(2.0)
    if failures or not merger.all_there.is_set():
        raise BenchError(f"{len(merger.state.neighbors)} of {COUNT} neighbours merged; {failures} {status['counts']}")
    return took
