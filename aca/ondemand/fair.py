"""A bounded queue in which nobody's flood keeps the others waiting."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict, deque
from typing import Generic, TypeVar

T = TypeVar("T")


class FairQueue(Generic[T]):
    """Items by sender, taken in turns; and urgent ones, which go first and are not bounded. Thread safe.

    `per_sender` and `senders` bound what waits.
    """

    def __init__(self, per_sender: int, senders: int) -> None:
        self._per_sender = per_sender
        self._senders = senders
        self._ready = threading.Condition()
        self._by_sender: OrderedDict[str, deque[T]] = OrderedDict()
        self._urgent: deque[T] = deque()

    def put(self, sender: str, item: T) -> bool:
        """False if there is no room: the item is dropped."""
        with self._ready:
            waiting = self._by_sender.get(sender)
            if waiting is None:
                if len(self._by_sender) >= self._senders:
                    return False
                waiting = self._by_sender[sender] = deque()
            elif len(waiting) >= self._per_sender:
                return False
            waiting.append(item)
            self._ready.notify()
            return True

    def put_urgent(self, item: T) -> None:
        with self._ready:
            self._urgent.append(item)
            self._ready.notify()

    def take(self, most: int, timeout: float) -> list[T]:
        """Up to `most` items, at least one unless `timeout` seconds pass without any."""
        deadline = time.monotonic() + timeout
        with self._ready:
            while not self._urgent and not self._by_sender:
                left = deadline - time.monotonic()
                if left <= 0 or not self._ready.wait(left):
                    break
            taken: list[T] = []
            while self._urgent and len(taken) < most:
                taken.append(self._urgent.popleft())
            while self._by_sender and len(taken) < most:
                sender, waiting = self._by_sender.popitem(last=False)
                taken.append(waiting.popleft())
                if waiting:
                    self._by_sender[sender] = waiting
            return taken
