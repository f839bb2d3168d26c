"""What becomes of packets whose destination is not known: asked for once, kept within bounds, let go or dropped."""

from __future__ import annotations

import os
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from aca.ondemand.questions import Action, Ask, Limits, Questions, Release
from aca.ondemand.values import Destination, Inquiry, Protocol, Verdict
from dataplane.base import Punt, PuntReason

HERE = bytes((10, 0, 0, 5))


def destination(number: int = 9) -> Destination:
    return Destination("s", (0x0A000000 + number).to_bytes(4, "big"))


def punt(number: int = 9, port: str = "p", body: bytes = b"") -> Punt:
    return Punt(PuntReason.UNKNOWN_DESTINATION, port, b"frame to %d " % number + body)


class World:
    """Questions, the addresses that the desired state has, and the time."""

    def __init__(self, **limits: Any) -> None:
        self.known: set[Destination] = set()
        self.limits = Limits(**limits)
        self.questions = Questions(self.limits, self.known.__contains__)
        self.now = 100.0

    def packet(self, number: int = 9, port: str = "p", body: bytes = b"") -> list[Action]:
        where = destination(number)
        inquiry = Inquiry(10, HERE, where.address, Protocol.UDP)
        return self.questions.packet(punt(number, port, body), where, inquiry, self.now)

    def ask(self, number: int = 9, port: str = "p") -> Ask:
        (asked,) = self.packet(number, port)
        assert isinstance(asked, Ask)
        return asked

    def answer(self, asked: Ask, verdict: Verdict) -> list[Action]:
        return self.questions.answered(asked.request_id, verdict, self.now)

    def arrive(self, number: int = 9) -> list[Action]:
        self.known.add(destination(number))
        return self.questions.arrived([destination(number)], self.now)

    def later(self, seconds: float) -> list[Action]:
        """All that happens within so many seconds."""
        end, actions = self.now + seconds, []
        while (due := self.questions.next_due) is not None and due <= end:
            self.now = max(self.now, due)
            actions += self.questions.tick(self.now)
        self.now = end
        return actions

    @property
    def counts(self) -> Counter[str]:
        return self.questions.counts

    def assert_idle(self) -> None:
        questions = self.questions
        assert not questions.waiting and not questions.bytes_kept and not questions._asked and not questions._by_port


def test_packets_wait_for_one_answer_and_go_on_in_order() -> None:
    world = World()
    asked = world.ask()
    assert asked.inquiry.destination == destination().address and asked.attempt == 0
    assert world.packet(body=b"2") == [] and world.packet(port="q") == [] and world.packet(body=b"3") == []
    assert world.answer(asked, Verdict.ROUTABLE) == []
    expected = (punt(), punt(body=b"2"), punt(port="q"), punt(body=b"3"))
    assert world.arrive() == [Release(expected)]
    world.assert_idle()


def test_the_state_may_come_before_the_answer() -> None:
    world = World()
    asked = world.ask()
    assert world.arrive() == [Release((punt(),))]
    assert world.answer(asked, Verdict.UNROUTABLE) == [], "nobody waits for it any more"
    assert world.questions.negatives == 0
    world.assert_idle()


def test_no_way_is_believed_for_a_while() -> None:
    world = World(negative_s=10.0)
    asked = world.ask()
    world.packet(body=b"2")
    assert world.answer(asked, Verdict.UNROUTABLE) == []
    world.assert_idle()
    assert world.counts["dropped_unroutable"] == 2
    world.later(9.9)
    assert world.packet() == [] and world.counts["dropped_negative"] == 1
    assert world.packet(8) != [], "of others nothing was said"
    world.later(0.2)
    assert isinstance(world.packet()[0], Ask)


def test_what_arrives_is_no_longer_nowhere() -> None:
    world = World(negative_s=1000.0)
    world.answer(world.ask(), Verdict.UNROUTABLE)
    world.arrive()
    world.known.clear()
    assert isinstance(world.packet()[0], Ask)


def test_no_answer_is_asked_again_ever_more_slowly_until_time_is_over() -> None:
    world = World(deadline_s=5.0, first_retry_s=0.2, longest_retry_s=1.0)
    asked = world.ask()
    at = []
    for _ in range(100):
        world.answer(asked, Verdict.UNANSWERED)
        again = [action for action in world.later(world.limits.longest_retry_s) if isinstance(action, Ask)]
        if not again:
            break
        (asked,) = again
        at.append(asked.attempt)
    assert at[:3] == [1, 2, 3] and 4 <= len(at) <= 8
    world.later(5.0)
    world.assert_idle()
    assert world.counts["dropped_expired"] == 1
    assert isinstance(world.packet()[0], Ask), "nobody has said that there is no way"


def test_a_controller_that_never_answers_holds_nothing_for_ever() -> None:
    world = World(deadline_s=5.0)
    asked = world.ask()
    assert world.later(4.9) == []
    world.later(0.2)
    world.assert_idle()
    assert not world.questions.is_asking(asked.request_id)
    assert world.counts["dropped_expired"] == 1


def test_a_broken_promise_is_asked_about_again() -> None:
    world = World(deadline_s=5.0, push_wait_s=1.0)
    world.answer(world.ask(), Verdict.ROUTABLE)
    assert world.later(0.9) == []
    (again,) = world.later(0.2)
    assert isinstance(again, Ask) and again.attempt == 1
    assert world.counts["promises_broken"] == 1
    world.later(5.0)
    world.assert_idle()


def test_a_packet_that_comes_while_its_destination_is_being_programmed_goes_on() -> None:
    world = World()
    world.known.add(destination())
    assert world.packet() == [Release((punt(),))]
    # It comes back: the data plane is not that far yet. Nobody is asked.
    assert world.packet() == []
    assert world.arrive() == [Release((punt(),))]
    assert world.counts["requests"] == 0
    world.assert_idle()


def test_an_arrival_that_was_missed_is_found() -> None:
    world = World()
    asked = world.ask()
    world.known.add(destination())
    world.answer(asked, Verdict.ROUTABLE)
    assert world.later(1.0) == [Release((punt(),))]
    world.assert_idle()


def test_what_comes_back_again_and_again_is_dropped() -> None:
    """The desired state has somebody with the address, but the data plane cannot reach it."""
    world = World()
    world.known.add(destination())
    released = 0
    pending = world.packet()
    for _ in range(50):
        released += len(pending)
        pending = (world.packet() if pending else []) + world.later(0.1)
    assert 0 < released <= 6
    assert world.counts["dropped_again_and_again"] >= 1
    world.assert_idle()


def test_the_same_request_again_waits_once() -> None:
    world = World()
    world.ask()
    world.packet()
    assert world.arrive() == [Release((punt(),))]


@pytest.mark.parametrize(
    ("limits", "packets"),
    [
        ({"packets_per_question": 4}, [(9, "p", b"%d" % n) for n in range(20)]),
        ({"bytes_kept": 4 * len(punt().frame) + 8}, [(9, "p", b"%d" % n) for n in range(10)]),
        ({"questions_per_port": 4}, [(n, "p", b"") for n in range(20)]),
        ({"questions": 4}, [(n, f"p{n}", b"") for n in range(20)]),
    ],
    ids=["packets", "bytes", "questions-of-a-port", "questions"],
)
def test_the_first_ones_are_kept_within_bounds(limits: dict[str, int], packets: list[tuple[int, str, bytes]]) -> None:
    world = World(**limits)
    for number, port, body in packets:
        world.packet(number, port, body)
    waiting = [one for question in world.questions.waiting.values() for one in question.punts]
    assert waiting == [punt(*packet) for packet in packets[: len(waiting)]]
    assert 3 <= len(waiting) <= 4
    assert world.counts["dropped_full"] == len(packets) - len(waiting)


def test_one_ports_questions_do_not_keep_others_from_asking() -> None:
    world = World(questions_per_port=4)
    for number in range(100):
        world.packet(number)
    assert isinstance(world.packet(200, "q")[0], Ask)


@pytest.mark.parametrize("count", [50_000, pytest.param(1_000_000, marks=pytest.mark.long)])
@pytest.mark.parametrize("verdict", [None, *Verdict])
def test_a_scan_of_the_whole_network_stays_bounded(count: int, verdict: Verdict | None) -> None:
    """Every destination another one; with `verdict` None nobody answers."""
    world = World(questions=1000, questions_per_port=100, bytes_kept=100_000, negatives=2000)
    limits, questions = world.limits, world.questions
    for number in range(count):
        for action in world.packet(number, f"p{number % 50}"):
            if isinstance(action, Ask) and verdict is not None:
                world.answer(action, verdict)
        if number % 1000 == 0:
            world.later(0.01)
            assert len(questions.waiting) <= limits.questions
            assert questions.bytes_kept <= limits.bytes_kept
            assert questions.negatives <= limits.negatives
            assert len(questions._schedule) <= 4 * limits.questions + 1001
            assert len(questions._asked) <= limits.questions
    world.later(60.0)
    world.assert_idle()


class AnyOrder(RuleBasedStateMachine):
    """Whatever happens in whatever order: no packet is let go twice or out of order, none is kept beyond its time."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World(deadline_s=5.0, packets_per_question=8, questions=6, bytes_kept=1000)
        self.came: dict[int, list[Punt]] = {}
        self.asked: list[Ask] = []
        self.serial = 0

    def note(self, actions: list[Action]) -> None:
        for action in actions:
            if isinstance(action, Ask):
                self.asked.append(action)
                continue
            number = int(action.punts[0].frame.split()[2])
            positions = [self.came[number].index(one) for one in action.punts]
            assert positions == sorted(positions)
            # What was let go may not come again, nor may what came before it.
            del self.came[number][: positions[-1] + 1]

    @rule(number=st.integers(0, 8), port=st.sampled_from("pq"))
    def packet(self, number: int, port: str) -> None:
        self.serial += 1
        body = b"%d" % self.serial
        self.came.setdefault(number, []).append(punt(number, port, body))
        self.note(self.world.packet(number, port, body))

    @precondition(lambda self: self.asked)
    @rule(data=st.data(), verdict=st.sampled_from(Verdict))
    def answer(self, data: st.DataObject, verdict: Verdict) -> None:
        asked = data.draw(st.sampled_from(self.asked))
        self.asked.remove(asked)
        self.note(self.world.answer(asked, verdict))

    @rule(number=st.integers(0, 8))
    def arrive(self, number: int) -> None:
        self.note(self.world.arrive(number))

    @rule(number=st.integers(0, 8))
    def leave(self, number: int) -> None:
        self.world.known.discard(destination(number))

    @rule(seconds=st.floats(0.0, 3.0))
    def wait(self, seconds: float) -> None:
        self.note(self.world.later(seconds))

    @invariant()
    def within_bounds(self) -> None:
        questions, limits = self.world.questions, self.world.limits
        kept = [one for question in questions.waiting.values() for one in question.punts]
        assert questions.bytes_kept == sum(len(one.frame) for one in kept) <= limits.bytes_kept
        assert len(questions.waiting) <= limits.questions
        assert all(question.deadline > self.world.now for question in questions.waiting.values())

    def teardown(self) -> None:
        self.world.later(60.0)
        self.world.assert_idle()


AnyOrder.TestCase.settings = settings(max_examples=500 if os.environ.get("ACA_LONG") else 60, deadline=None)
TestAnyOrder = AnyOrder.TestCase


@given(st.lists(st.tuples(st.integers(0, 20), st.sampled_from(Verdict)), max_size=60))
def test_every_packet_is_let_go_or_counted_as_dropped(events: list[tuple[int, Verdict]]) -> None:
    world = World(packets_per_question=3, questions=5)
    released = 0
    for serial, (number, verdict) in enumerate(events):
        actions = world.packet(number, body=b"%d" % serial)
        released += sum(len(one.punts) for one in actions if isinstance(one, Release))
        for asked in [one for one in actions if isinstance(one, Ask)]:
            world.answer(asked, verdict)
    released += sum(len(one.punts) for one in world.later(60.0) if isinstance(one, Release))
    dropped = sum(number for name, number in world.counts.items() if name.startswith("dropped"))
    assert released + dropped == len(events)
