"""What the agent writes to Kafka: dead letters and replies. Bounded memory; nothing waits for it."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass
from typing import Any

import structlog
from confluent_kafka import KafkaError, KafkaException, Producer

from aca.transport.kafka.records import Headers

KEPT_RECORDS = 1000
KEPT_BYTES = 16 * 1024 * 1024
_AGAIN_S = 10.0

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Letter:
    topic: str
    key: bytes | None
    value: bytes | None
    headers: Headers

    @property
    def size(self) -> int:
        return len(self.value or b"") + len(self.key or b"")


class Outbox:
    """One thread's. What cannot be written is kept aside, the oldest is given up beyond the bound, and tried again."""

    def __init__(self, config: dict[str, Any]) -> None:
        self._producer = Producer(config)
        self._kept: deque[Letter] = deque()
        self._kept_bytes = 0
        self._again = 0.0
        self._failing: dict[str, str] = {}
        self.written = 0
        self.given_up = 0

    def send(self, letter: Letter) -> None:
        def delivered(error: KafkaError | None, _message: object) -> None:
            if error is None:
                self.written += 1
                self._failing.pop(letter.topic, None)
            else:
                self._keep(letter, error.str())

        try:
            self._producer.produce(
                letter.topic, letter.value, letter.key, headers=list(letter.headers), on_delivery=delivered
            )
        except (BufferError, KafkaException) as error:
            self._keep(letter, str(error))

    def serve(self) -> None:
        """To be called now and then."""
        self._producer.poll(0)
        now = time.monotonic()
        if self._kept and now >= self._again:
            self._again = now + _AGAIN_S
            letters = list(self._kept)
            self._kept.clear()
            self._kept_bytes = 0
            for letter in letters:
                self.send(letter)

    def close(self, seconds: float) -> None:
        if left := self._producer.flush(seconds) + len(self._kept):
            _log.warning("kafka: not written", records=left)

    def describe(self) -> dict[str, Any]:
        return {"written": self.written, "kept": len(self._kept), "given_up": self.given_up}

    def _keep(self, letter: Letter, reason: str) -> None:
        if self._failing.get(letter.topic) != reason:
            self._failing[letter.topic] = reason
            _log.warning("kafka: cannot be written, kept aside", topic=letter.topic, reason=reason)
        self._again = time.monotonic() + _AGAIN_S
        self._kept.append(letter)
        self._kept_bytes += letter.size
        while len(self._kept) > KEPT_RECORDS or self._kept_bytes > KEPT_BYTES:
            self._kept_bytes -= self._kept.popleft().size
            self.given_up += 1
