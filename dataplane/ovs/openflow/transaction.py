"""A transaction of flow-mods: split into bundles, wrapped, and repeated without what the bridge refused.

Nothing here does input or output; all of it runs in the programmer's thread, except making a transaction.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from itertools import groupby
from typing import Final

from dataplane.ovs.openflow import messages
from dataplane.ovs.openflow.errors import OpenFlowError

BUNDLE_SIZE: Final = 2000

_BUNDLE_ADD = struct.Struct("!BBHIIxxHBBHI")
_LONGEST_BODY: Final = messages.MAX_MESSAGE - _BUNDLE_ADD.size
_TOO_LONG: Final = (1, 6)  # BAD_REQUEST, BAD_LEN
_PIECE: Final = 256
_RETRIES: Final = 8
_SHARING: Final = 64


class Transaction:
    """Flow-mod bodies that are confirmed together, and the future that says so.

    The future gives a map from the index of a body to the error the bridge refused it with.
    """

    def __init__(self, bodies: Sequence[bytes]) -> None:
        self.future: Future[Mapping[int, OpenFlowError]] = Future()
        self.size = sum(map(len, bodies))
        self.count = len(bodies)
        self._errors: dict[int, OpenFlowError] = {}
        if bodies and max(map(len, bodies)) > _LONGEST_BODY:
            self._errors = {
                i: OpenFlowError(*_TOO_LONG, data=body[:64])
                for i, body in enumerate(bodies)
                if len(body) > _LONGEST_BODY
            }
        self._chunks = self._split(bodies)
        self._waiting = -(-(self.count - len(self._errors)) // BUNDLE_SIZE)
        self.future.set_running_or_notify_cancel()
        if self.settled:
            self.future.set_result(self._errors)

    def _split(self, bodies: Sequence[bytes]) -> Iterator[Chunk]:
        if not self._errors:
            for start in range(0, len(bodies), BUNDLE_SIZE):
                part = bodies[start : start + BUNDLE_SIZE]
                yield Chunk(self, range(start, start + len(part)), part)
            return
        good = [i for i in range(len(bodies)) if i not in self._errors]
        for start in range(0, len(good), BUNDLE_SIZE):
            indices = good[start : start + BUNDLE_SIZE]
            yield Chunk(self, indices, [bodies[i] for i in indices])

    def next_chunk(self) -> Chunk | None:
        """The next bundle to send; None when all have been taken."""
        return next(self._chunks, None)

    @property
    def settled(self) -> bool:
        """Whether every bundle has been answered (or there never was one)."""
        return self._waiting == 0

    def chunk_done(self, errors: Mapping[int, OpenFlowError]) -> None:
        """One bundle is confirmed, but for ``errors`` (by index of the transaction)."""
        self.note_errors(errors)
        self._waiting -= 1
        if self.settled:
            self.future.set_result(self._errors)

    def note_errors(self, errors: Mapping[int, OpenFlowError]) -> None:
        """Bodies of a bundle that is being repeated without them."""
        self._errors.update(errors)

    def fail(self, error: Exception) -> None:
        """Fail the future, unless it has a result or has failed before."""
        if not self.future.done():
            self.future.set_exception(error)


class Chunk:
    """At most BUNDLE_SIZE bodies that go out as one atomic, ordered bundle on one connection.

    Transaction ids: first = open, then one per body (or one for many), then commit, then barrier. The barrier's
    answer comes last, so whatever the bridge says about the bundle has been heard by then:

    - a body that does not decode is refused at once, and Open vSwitch commits the bundle without it;
    - a body that fails at commit (unknown group) undoes the whole bundle and is named by its id: the bundle is
      sent again without it. If that repeats too often, or no body is named, the bodies go out one by one, in
      order but no longer as a unit, so that a thousand bad bodies do not cost a thousand attempts.
    """

    def __init__(self, transaction: Transaction, indices: Sequence[int], bodies: Sequence[bytes]) -> None:
        self.transaction = transaction
        self._indices = indices
        self._bodies = bodies
        self._errors: dict[int, OpenFlowError] = {}
        self._first_xid = 0
        self._committed = False
        self._attempts = 0
        # A single flow-mod is atomic by itself, and takes half the messages and a third of the time.
        self._bundled = len(bodies) > 1
        # Many bodies share one transaction id at first, which makes the headers of all of one length the same; only
        # if the bridge refuses something are they sent again with an id each, to tell which.
        self._shared_xid = len(bodies) >= _SHARING
        self._refused_something = False

    def fail(self, error: Exception) -> None:
        """There will be no answer."""
        self.transaction.fail(error)

    @property
    def weight(self) -> int:
        """How many bodies are outstanding with it."""
        return len(self._bodies)

    @property
    def xids(self) -> int:
        """How many consecutive transaction ids it needs."""
        return len(self._bodies) + 3

    def encode(self, first_xid: int) -> Iterable[bytes]:
        """The bytes to send, in pieces of whole messages."""
        self._first_xid = first_xid
        self._committed = False
        count = len(self._bodies)
        commit, barrier = first_xid + count + 1, first_xid + count + 2
        if self._bundled:
            body = messages.bundle_control(first_xid, messages.BUNDLE_OPEN)
            yield messages.message(messages.BUNDLE_CONTROL, first_xid, body)
        wrap = self._wrapped if self._bundled else self._plain
        for start in range(0, count, _PIECE):
            yield b"".join(wrap(start, min(start + _PIECE, count)))
        closing = messages.message(messages.BARRIER_REQUEST, barrier)
        if self._bundled:
            body = messages.bundle_control(first_xid, messages.BUNDLE_COMMIT)
            closing = messages.message(messages.BUNDLE_CONTROL, commit, body) + closing
        yield closing

    def _wrapped(self, start: int, stop: int) -> list[bytes]:
        # The hot path: one pack makes both headers of a flow, one join the bytes of many.
        pack = _BUNDLE_ADD.pack
        bundle = self._first_xid
        parts: list[bytes] = []
        append = parts.append
        if self._shared_xid:
            for size, run in groupby(self._bodies[start:stop], len):
                head = pack(5, 34, size + 24, bundle + 1, bundle, 3, 5, 14, size + 8, bundle + 1)
                append(head + head.join(run))
            return parts
        xid = bundle + 1 + start
        for body in self._bodies[start:stop]:
            size = len(body)
            append(pack(5, 34, size + 24, xid, bundle, 3, 5, 14, size + 8, xid))
            append(body)
            xid += 1
        return parts

    def _plain(self, start: int, stop: int) -> list[bytes]:
        xid = self._first_xid + 1 + start
        return [messages.message(messages.FLOW_MOD, xid + i, body) for i, body in enumerate(self._bodies[start:stop])]

    def on_error(self, error: OpenFlowError) -> None:
        """The bridge refused one of its messages."""
        position = error.xid - self._first_xid - 1
        self._refused_something = True
        if self._shared_xid:
            return
        if 0 <= position < len(self._bodies):
            self._errors.setdefault(position, error)

    def on_reply(self, message_type: int, body: bytes) -> bool:
        """The bridge answered one of its bundle control messages; the barrier's answer is still to come."""
        if message_type == messages.BUNDLE_CONTROL:
            reply = messages.decode_bundle_reply(body)
            self._committed = self._committed or reply.control == messages.BUNDLE_COMMIT_REPLY
        return True

    def on_last(self) -> Chunk | None:
        """The barrier is answered: what to send next on the same connection, or None if this is done."""
        if self._shared_xid and (self._refused_something or not self._committed):
            self._shared_xid = self._refused_something = False
            return self
        refused, self._errors = self._errors, {}
        by_index = {self._indices[position]: error for position, error in refused.items()}
        if self._committed or not self._bundled:
            self.transaction.chunk_done(by_index)
            return None
        kept = [position for position in range(len(self._bodies)) if position not in refused]
        if not kept:
            self.transaction.chunk_done(by_index)
            return None
        again = Chunk(
            self.transaction,
            [self._indices[position] for position in kept],
            [self._bodies[position] for position in kept],
        )
        again._attempts = self._attempts + 1
        again._bundled = again._bundled and bool(refused) and again._attempts <= _RETRIES
        self.transaction.note_errors(by_index)
        return again
