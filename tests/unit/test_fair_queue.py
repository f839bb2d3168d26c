"""Nobody's flood keeps the others waiting."""

from __future__ import annotations

import threading

from aca.ondemand.fair import FairQueue
from tests.unit.fake_plane import WAIT_S


def test_senders_take_turns() -> None:
    queue: FairQueue[str] = FairQueue(1000, 10)
    for number in range(500):
        queue.put("flood", f"flood {number}")
    queue.put("a", "a 0")
    queue.put("b", "b 0")
    assert queue.take(4, 0.0) == ["flood 0", "a 0", "b 0", "flood 1"]


def test_what_has_no_room_is_dropped() -> None:
    queue: FairQueue[int] = FairQueue(2, 2)
    assert [queue.put("a", n) for n in range(4)] == [True, True, False, False]
    assert queue.put("b", 0) and not queue.put("c", 0)
    assert sorted(queue.take(100, 0.0)) == [0, 0, 1]
    assert queue.put("c", 0), "there is room again"


def test_what_is_urgent_goes_first() -> None:
    queue: FairQueue[str] = FairQueue(10, 10)
    queue.put("a", "packet")
    queue.put_urgent("answer")
    assert queue.take(10, 0.0) == ["answer", "packet"]
    assert queue.take(10, 0.0) == []


def test_whoever_waits_is_woken() -> None:
    queue: FairQueue[str] = FairQueue(10, 10)
    found: list[list[str]] = []
    thread = threading.Thread(target=lambda: found.append(queue.take(10, WAIT_S)))
    thread.start()
    queue.put("a", "packet")
    thread.join(WAIT_S)
    assert found == [["packet"]]
