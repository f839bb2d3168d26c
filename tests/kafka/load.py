"""Records that come while something happens to who writes or reads them."""

from __future__ import annotations

import random
import threading
from types import TracebackType
from typing import Self

from tests.kafka.brokers import Brokers, Produced
from tests.kafka.scene import Neighbor, final, whole_record
from tests.lab import Host, LabError

PAUSE_S = 0.05
BATCH = 10
NEIGHBORS = 60


class Load:
    """A thread that writes revisions of neighbours, ten at a time, until it is told to end. A context manager.

    Each record has all that a neighbour needs, and its partition is the neighbour's own: its revisions keep their
    order.
    """

    def __init__(
        self, brokers: Brokers, topic: str, host: Host | str, partitions: int = 1, after: Load | None = None
    ) -> None:
        """Goes on where `after` has ended."""
        self._brokers = brokers
        self._topic = topic
        self._host = host if isinstance(host, str) else host.name
        self._partitions = partitions
        self._random = random.Random(1)
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="load")
        self._error: Exception | None = None
        self._newest: dict[int, Neighbor] = dict(after._newest) if after else {}
        self.written = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end.set()
        self._thread.join(120.0)
        if error is None and (self._error is not None or self._thread.is_alive()):
            raise LabError(f"the load failed: {self._error}")

    @property
    def outcome(self) -> dict[str, str]:
        """What all that was written comes to. After the load has ended."""
        return final(self._newest.values())

    def _run(self) -> None:
        try:
            while not self._end.is_set():
                self._brokers.produce(self._topic, [self._next() for _ in range(BATCH)], within=90.0)
                self.written += BATCH
                self._end.wait(PAUSE_S)
        except Exception as error:
            self._error = error

    def _next(self) -> Produced:
        number = self._random.randrange(NEIGHBORS)
        before = self._newest.get(number)
        made = Neighbor(number, before.revision + 1 if before else 1)
        self._newest[number] = made
        return whole_record(self._host, made, number % self._partitions)
