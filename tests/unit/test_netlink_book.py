"""The netlink data plane's book: differences, objects of several owners, failures, legs that move."""

from __future__ import annotations

from dataplane.model import Key, Kind, NetworkType, Segment
from dataplane.netlink.book import NOTHING, Book, Change
from dataplane.netlink.items import ElementItem, FloodItem, Leg, LegItem, MacItem, RouterItem, SegmentItem, Via

SEGMENT = Segment(NetworkType.VXLAN, 7)
HOST = b"\x0a\0\0\x01"
MAC = b"\2\0\0\0\0\x05"
ONE, TWO = Key(Kind.NEIGHBOR, "one"), Key(Kind.NEIGHBOR, "two")


def settle(book: Book) -> list[Change]:
    changes = book.take_changes()
    book.done(changes, ())
    return changes


def test_the_same_again_is_no_change() -> None:
    book = Book()
    book.set(ONE, {SegmentItem(SEGMENT): None, MacItem(SEGMENT, MAC): Via(HOST)})
    assert {change.item for change in settle(book)} == {SegmentItem(SEGMENT), MacItem(SEGMENT, MAC)}
    book.set(ONE, {SegmentItem(SEGMENT): None, MacItem(SEGMENT, MAC): Via(HOST)})
    assert settle(book) == []


def test_a_changed_value_is_told_with_what_was() -> None:
    book = Book()
    book.set(ONE, {MacItem(SEGMENT, MAC): Via(HOST)})
    settle(book)
    book.set(ONE, {MacItem(SEGMENT, MAC): Via(ifindex=4)})
    assert settle(book) == [Change(MacItem(SEGMENT, MAC), Via(HOST), Via(ifindex=4))]


def test_an_object_of_two_owners_goes_with_the_last() -> None:
    book = Book()
    for owner in (ONE, TWO):
        book.set(owner, {FloodItem(SEGMENT, HOST): None})
    assert len(settle(book)) == 1
    book.set(ONE, {})
    assert settle(book) == []
    book.set(TWO, {})
    assert settle(book) == [Change(FloodItem(SEGMENT, HOST), None, NOTHING)]


def test_the_last_to_come_decides_and_the_other_returns() -> None:
    book, item = Book(), MacItem(SEGMENT, MAC)
    book.set(ONE, {item: Via(HOST)})
    book.set(TWO, {item: Via(ifindex=9)})
    assert settle(book) == [Change(item, NOTHING, Via(ifindex=9))]
    # Repeating an unchanged claim does not make it the last.
    book.set(ONE, {item: Via(HOST)})
    assert settle(book) == []
    book.set(TWO, {})
    assert settle(book) == [Change(item, Via(ifindex=9), Via(HOST))]


def test_what_was_added_and_removed_in_between_is_nothing() -> None:
    book = Book()
    book.set(ONE, {SegmentItem(SEGMENT): None})
    book.set(ONE, {})
    assert settle(book) == []


def test_what_failed_is_tried_again_when_it_is_set_again() -> None:
    book, item = Book(), SegmentItem(SEGMENT)
    book.set(ONE, {item: None})
    changes = book.take_changes()
    book.done(changes, [item])
    assert book.take_changes() == []
    book.set(ONE, {item: None})
    assert book.take_changes() == [Change(item, NOTHING, None)]


def test_a_leg_that_moves_takes_along_what_stands_on_it() -> None:
    book = Book()
    leg, element = LegItem("blue"), ElementItem("ports", b"", "blue")
    gateway = MacItem(SEGMENT, MAC)
    was, becomes = Leg("r1", SEGMENT, 3, MAC, b""), Leg("r2", SEGMENT, 3, MAC, b"")
    book.set(Key(Kind.ROUTER, "r1"), {RouterItem("r1"): None, leg: was, element: None, gateway: Via(leg="blue")})
    settle(book)
    book.set(Key(Kind.ROUTER, "r1"), {})
    book.set(Key(Kind.ROUTER, "r2"), {RouterItem("r2"): None, leg: becomes, element: None, gateway: Via(leg="blue")})

    evicted = book.take_evictions()
    assert {change.item for change in evicted} == {leg, element, gateway}
    assert all(change.after is NOTHING for change in evicted)
    book.done(evicted, ())
    after = {change.item: (change.before, change.after) for change in book.take_changes()}
    assert after == {
        leg: (NOTHING, becomes),
        element: (NOTHING, None),
        gateway: (NOTHING, Via(leg="blue")),
        RouterItem("r1"): (None, NOTHING),
        RouterItem("r2"): (NOTHING, None),
    }


def test_who_lacks_something_is_known_until_it_is_installed() -> None:
    book = Book()
    book.set(ONE, {FloodItem(SEGMENT, HOST): None})
    book.set(TWO, {MacItem(SEGMENT, MAC): Via(HOST)})
    changes = book.take_changes()
    book.done(changes, [FloodItem(SEGMENT, HOST)])
    assert book.lacking([ONE, TWO]) == {ONE}
    assert settle(book) == []
    book.touch_missing([ONE])
    assert [change.item for change in settle(book)] == [FloodItem(SEGMENT, HOST)]
    assert book.lacking([ONE, TWO]) == frozenset()
