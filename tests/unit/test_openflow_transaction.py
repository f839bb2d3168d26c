"""Transactions: how bodies are split and wrapped, and what happens to those that the switch refuses."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataplane.ovs.openflow import messages
from dataplane.ovs.openflow.errors import OpenFlowError
from dataplane.ovs.openflow.transaction import BUNDLE_SIZE, Chunk, Transaction

FIRST = 1000


class Switch:
    """Does what Open vSwitch does with a chunk: refuses undecodable bodies at once, and a whole bundle for an
    unknown group; remembers what it applied, and in what units."""

    def __init__(self, undecodable: set[bytes], unknown_group: set[bytes]) -> None:
        self.undecodable = undecodable
        self.unknown_group = unknown_group
        self.applied: list[bytes] = []
        self.units: list[int] = []
        self.rounds = 0

    def run(self, chunk: Chunk | None) -> None:
        while chunk is not None:
            self.rounds += 1
            self.round(chunk, b"".join(chunk.encode(FIRST)))
            chunk = chunk.on_last()

    def round(self, chunk: Chunk, stream: bytes) -> None:
        bundle: list[tuple[int, bytes]] = []
        last = FIRST
        for kind, xid, body in split(stream):
            assert FIRST <= xid < FIRST + chunk.xids
            last = xid
            if kind == messages.BUNDLE_ADD_MESSAGE:
                bundle_id, flags, inner = struct.unpack_from("!IxxH8s", body)
                assert (bundle_id, flags) == (FIRST, messages.BUNDLE_ATOMIC_ORDERED)
                assert inner == messages.HEADER.pack(5, messages.FLOW_MOD, len(body) - 8, xid)
                if body[16:] in self.undecodable:
                    chunk.on_error(OpenFlowError(4, 9, xid))
                else:
                    bundle.append((xid, body[16:]))
            elif kind == messages.FLOW_MOD:
                if body in self.undecodable | self.unknown_group:
                    chunk.on_error(OpenFlowError(2, 9, xid))
                else:
                    self.applied.append(body)
                    self.units.append(1)
            elif kind == messages.BUNDLE_CONTROL and body[4:6] == b"\0\x04":
                self.commit(chunk, xid, bundle)
        assert (kind, last) == (messages.BARRIER_REQUEST, FIRST + chunk.xids - 1)

    def commit(self, chunk: Chunk, xid: int, bundle: list[tuple[int, bytes]]) -> None:
        for bad, body in bundle:
            if body in self.unknown_group:
                chunk.on_error(OpenFlowError(2, 9, bad))
                chunk.on_error(OpenFlowError(17, 13, xid))
                return
        self.applied += [body for _, body in bundle]
        self.units.append(len(bundle))
        chunk.on_reply(messages.BUNDLE_CONTROL, struct.pack("!IHH", FIRST, messages.BUNDLE_COMMIT_REPLY, 3))


def split(stream: bytes) -> list[tuple[int, int, bytes]]:
    found = []
    while stream:
        version, kind, size, xid = messages.HEADER.unpack_from(stream)
        assert version == 5
        found.append((kind, xid, stream[8:size]))
        stream = stream[size:]
    return found


def chunks(transaction: Transaction) -> list[Chunk]:
    return list(iter(transaction.next_chunk, None))


def body(n: int) -> bytes:
    return n.to_bytes(8, "big")


@pytest.mark.parametrize(("count", "sizes"), [(1, [1]), (2000, [2000]), (2001, [2000, 1]), (5000, [2000, 2000, 1000])])
def test_up_to_two_thousand_bodies_are_one_unit(count: int, sizes: list[int]) -> None:
    transaction = Transaction([body(n) for n in range(count)])
    switch = Switch(set(), set())
    for chunk in chunks(transaction):
        assert not transaction.future.done()
        switch.run(chunk)
    assert switch.units == sizes
    assert switch.applied == [body(n) for n in range(count)]
    assert transaction.future.result(0) == {}


def test_nothing_to_send_is_settled_at_once() -> None:
    assert Transaction([]).future.result(0) == {}
    too_long = Transaction([bytes(65_512)])
    assert chunks(too_long) == []
    assert {i: (e.type, e.code) for i, e in too_long.future.result(0).items()} == {0: (1, 6)}


def test_the_longest_body_that_fits_is_sent() -> None:
    transaction = Transaction([bytes(65_511), bytes(65_511)])
    (chunk,) = chunks(transaction)
    switch = Switch(set(), set())
    switch.run(chunk)
    assert switch.units == [2]


@given(
    st.integers(0, 40),
    st.sets(st.integers(0, 39)),
    st.sets(st.integers(0, 39)),
    st.sets(st.integers(0, 39), max_size=3),
)
def test_refused_bodies_are_named_and_the_rest_applied_in_order(
    count: int, undecodable: set[int], unknown: set[int], long: set[int]
) -> None:
    bodies = [body(n) + (bytes(70_000) if n in long else b"") for n in range(count)]
    transaction = Transaction(bodies)
    switch = Switch({body(n) for n in undecodable}, {body(n) for n in unknown})
    for chunk in chunks(transaction):
        switch.run(chunk)
    bad = undecodable | unknown | long
    assert set(transaction.future.result(0)) == bad & set(range(count))
    assert switch.applied == [body(n) for n in range(count) if n not in bad]


def test_a_few_refused_bodies_leave_the_rest_one_unit() -> None:
    transaction = Transaction([body(n) for n in range(100)])
    switch = Switch({body(3)}, {body(50), body(60)})
    switch.run(transaction.next_chunk())
    assert switch.units == [97]


def test_a_bundle_full_of_refused_bodies_does_not_take_a_round_for_each() -> None:
    transaction = Transaction([body(n) for n in range(BUNDLE_SIZE)])
    switch = Switch(set(), {body(n) for n in range(BUNDLE_SIZE - 1)})
    switch.run(transaction.next_chunk())
    # Once before it was known that something is wrong, once after: the same flow.
    assert set(switch.applied) == {body(BUNDLE_SIZE - 1)}
    assert switch.rounds <= 20


def test_a_commit_that_is_refused_without_naming_a_body_is_not_repeated_for_ever() -> None:
    transaction = Transaction([body(1), body(2)])
    chunk = transaction.next_chunk()
    assert chunk is not None
    b"".join(chunk.encode(FIRST))
    chunk.on_error(OpenFlowError(17, 2, FIRST + 3))
    switch = Switch(set(), set())
    switch.run(chunk.on_last())
    assert switch.units == [1, 1]
    assert transaction.future.result(0) == {}


def test_a_failed_transaction_stays_failed() -> None:
    transaction = Transaction([body(1)])
    transaction.fail(LookupError("first"))
    transaction.fail(ValueError("second"))
    with pytest.raises(LookupError):
        transaction.future.result(0)
