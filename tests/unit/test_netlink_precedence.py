"""Who listens gives way to who programs."""

from __future__ import annotations

import threading

from dataplane.netlink.precedence import Precedence


def test_who_listens_goes_on_though_programming_has_no_end() -> None:
    precedence, closing = Precedence(), threading.Event()
    with precedence.first(), precedence.first():
        precedence.give_way(closing)


def test_who_programs_never_waits() -> None:
    precedence, closing, waits = Precedence(), threading.Event(), threading.Event()

    def listen() -> None:
        waits.set()
        for _ in range(3):
            precedence.give_way(closing)

    with precedence.first():
        listener = threading.Thread(target=listen)
        listener.start()
        assert waits.wait(5.0)
        with precedence.first():
            assert listener.is_alive()
        closing.set()
        listener.join(5.0)
    assert not listener.is_alive()
