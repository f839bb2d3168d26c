"""What callers hand to the programmer's thread: bounded queues under one lock, and the socket that wakes it."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections import deque
from typing import Any, Final, NamedTuple

from dataplane.ovs.openflow.errors import ProgrammerError, ProgrammerLost
from dataplane.ovs.openflow.exchange import CookieQuery, Query, Request
from dataplane.ovs.openflow.transaction import Transaction

MAX_BODIES: Final = 500_000
MAX_BYTES: Final = 256 << 20
MAX_QUESTIONS: Final = 10_000
MAX_PACKET_OUTS: Final = 1024


Question = Request | CookieQuery | Query[Any, Any]


class Work(NamedTuple):
    """What has come since the last look."""

    transactions: list[Transaction]
    questions: list[Question]


class Intake:
    """Thread-safe. Bounds: flow-mods by count and bytes until confirmed, requests and packet-outs by count.

    A transaction larger than the bounds is let in when it is alone.
    """

    def __init__(self, connections: int) -> None:
        self._room = threading.Condition()
        self._bodies = 0
        self._bytes = 0
        self._outstanding = 0
        self._work = Work([], [])
        self._packet_outs: deque[bytes] = deque()
        self._dropped = 0
        self._ended: ProgrammerLost | None = None
        self._woken = False
        self._target = connections
        self._waker, self.wake_socket = socket.socketpair()
        self._waker.setblocking(False)
        self.wake_socket.setblocking(False)

    @property
    def ended(self) -> ProgrammerLost | None:
        """Why nothing is taken any more; None while work is taken."""
        return self._ended

    @property
    def dropped_packet_outs(self) -> int:
        """Packet-outs thrown away because the queue was full or the connection gone."""
        return self._dropped

    @property
    def target(self) -> int:
        """How many connections are wanted."""
        return self._target

    def put_transaction(self, transaction: Transaction, timeout: float) -> None:
        """Queue a transaction; waits up to ``timeout`` seconds for room, then raises ProgrammerError."""
        with self._room:
            if not self._room.wait_for(lambda: self._fits(transaction), timeout):
                raise ProgrammerError(f"{self._bodies} flow-mods are waiting, no room within {timeout:g} s")
            ended = self._ended
            if ended is None:
                self._bodies += transaction.count
                self._bytes += transaction.size
                self._work.transactions.append(transaction)
                self._wake()
        if ended is not None:
            transaction.fail(ended)
        else:
            transaction.future.add_done_callback(lambda _: self._release(transaction))

    def _fits(self, transaction: Transaction) -> bool:
        if self._ended is not None or not self._bodies:
            return True
        return self._bodies + transaction.count <= MAX_BODIES and self._bytes + transaction.size <= MAX_BYTES

    def _release(self, transaction: Transaction) -> None:
        with self._room:
            self._bodies -= transaction.count
            self._bytes -= transaction.size
            self._room.notify_all()

    def put_question(self, question: Question) -> None:
        """Queue anything else that is answered. Raises ProgrammerError if too much is outstanding."""
        with self._room:
            ended = self._ended
            if ended is None:
                if self._outstanding >= MAX_QUESTIONS:
                    raise ProgrammerError(f"{self._outstanding} requests are outstanding")
                self._outstanding += 1
                self._work.questions.append(question)
                self._wake()
        if ended is not None:
            question.fail(ended)
        else:
            question.future.add_done_callback(self._answered)

    def _answered(self, _future: object) -> None:
        with self._room:
            self._outstanding -= 1

    def put_packet_out(self, body: bytes) -> None:
        """Queue a packet-out, or drop it and count."""
        with self._room:
            if self._ended is None and len(self._packet_outs) < MAX_PACKET_OUTS:
                self._packet_outs.append(body)
                self._wake()
            else:
                self._dropped += 1

    def want_connections(self, count: int) -> None:
        """Set ``target``."""
        with self._room:
            self._target = count
            self._wake()

    def end(self, reason: ProgrammerLost) -> None:
        """Take nothing any more and wake everybody who waits; the first reason stays."""
        with self._room:
            if self._ended is None:
                self._ended = reason
                self._wake()
                self._room.notify_all()

    def _wake(self) -> None:
        if self._woken:
            return
        self._woken = True
        # A full socket means that the thread has been woken often enough, a closed one that it has gone.
        with contextlib.suppress(OSError):
            self._waker.send(b"!")

    def take(self) -> Work:
        """What came since the last call."""
        with self._room:
            if self._woken:
                self._woken = False
                with contextlib.suppress(BlockingIOError):
                    self.wake_socket.recv(64)
            work, self._work = self._work, Work([], [])
            return work

    def take_packet_out(self) -> bytes | None:
        """The oldest packet-out, if there is one."""
        with self._room:
            return self._packet_outs.popleft() if self._packet_outs else None

    def close(self) -> None:
        """Close the wake sockets, when no thread waits on them any more."""
        with self._room:
            self._waker.close()
            self.wake_socket.close()
