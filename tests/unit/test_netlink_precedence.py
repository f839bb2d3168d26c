"""Who listens gives way to who programs."""

from __future__ import annotations

import threading

from dataplane.netlink.precedence import Precedence


def test_who_listens_goes_on_though_programming_has_no_end() -> None:
    precedence, closing = Precedence(), threading.Event()
    with precedence.first(), precedence.first():
        precedence.give_way(closing)


def test_who_listens_ends_when_all_is_closed() -> None:
    precedence, closing = Precedence(), threading.Event()
    closing.set()
    with precedence.first():
        listener = threading.Thread(target=lambda: [precedence.give_way(closing) for _ in range(1000)])
        listener.start()
        listener.join(50.0)
        assert not listener.is_alive()
