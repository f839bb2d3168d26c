"""When failed resources are tried again."""

from __future__ import annotations

from aca.dispatch.retry import MAX_DELAY_S, RetryQueue
from dataplane.model import Key, Kind

ONE, TWO = Key(Kind.PORT, "one"), Key(Kind.PORT, "two")


def _next(queue: RetryQueue) -> float:
    due = queue.next_due()
    assert due is not None
    return due


def test_nothing_is_due_before_its_time() -> None:
    queue = RetryQueue()
    assert queue.next_due() is None
    queue.failed(ONE, "lane", 100.0)
    assert queue.due(100.5) == []
    assert queue.due(_next(queue)) == [(ONE, "lane")]
    assert queue.next_due() is None


def test_delays_double_up_to_a_limit() -> None:
    queue = RetryQueue()
    delays = []
    for _ in range(40):
        queue.failed(ONE, "", 0.0)
        delays.append(_next(queue))
        queue.due(1e9)
    assert all(0.8 * 2**n <= delay <= 1.2 * 2**n for n, delay in enumerate(delays[:5]))
    assert all(0.8 * MAX_DELAY_S <= delay <= 1.2 * MAX_DELAY_S for delay in delays[7:])


def test_what_was_settled_is_not_tried_and_starts_afresh() -> None:
    queue = RetryQueue()
    for _ in range(5):
        queue.failed(ONE, "", 0.0)
    queue.failed(TWO, "", 0.0)
    queue.settled(ONE)
    assert queue.lane_of(ONE) is None
    assert queue.due(1e9) == [(TWO, "")]
    queue.failed(ONE, "", 0.0)
    assert _next(queue) <= 1.2


def test_failing_again_before_the_retry_does_not_multiply_retries() -> None:
    queue = RetryQueue()
    for _ in range(10):
        queue.failed(ONE, "lane", 0.0)
    assert queue.due(1e9) == [(ONE, "lane")]
    assert queue.due(1e9) == []
    assert queue.lane_of(ONE) == "lane"
