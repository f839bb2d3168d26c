"""How the process ends: by a signal, or because going on could do harm; within five seconds in any case."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import sys
import threading
from types import FrameType

import structlog

FAILED_STATUS = 3
"""Exit status of an agent that has ended itself."""

_EXIT_WITHIN_S = 4.7
"""SIGTERM to exit; whoever supervises us allows five seconds."""
_LOOK_AGAIN_S = 60.0

_log = structlog.get_logger(__name__)


class AgentFailed(Exception):  # noqa: N818 - the end of a run, not an error of the caller
    """The agent has ended itself because going on could do harm or nothing; the message says why."""


class Signals:
    """SIGTERM and SIGINT of this process; `wait` is for the main thread. A second one exits at once.

    The system may give a signal to any thread, while Python runs handlers only in the main one, and only when that is
    between two steps: what is blocked there must be woken. The wake-up descriptor is written by whichever thread it is.
    """

    def __init__(self) -> None:
        self._received: list[int] = []
        self.failure = ""
        self._waker, self._woken = socket.socketpair()
        self._waker.setblocking(False)
        self._woken.setblocking(False)
        signal.set_wakeup_fd(self._waker.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._take)

    def fail(self, reason: str) -> None:
        """End as if by a signal, and say why. Any thread; the first reason counts."""
        if not self.failure:
            self.failure = reason
            with contextlib.suppress(BlockingIOError):
                self._waker.send(b"\0")

    def wait(self) -> int:
        """The number of the first signal; 0 after `fail`."""
        while not self._received:
            if self.failure:
                return 0
            if select.select([self._woken], [], [], _LOOK_AGAIN_S)[0]:
                self._woken.recv(4096)
        return self._received[0]

    def _take(self, number: int, _frame: FrameType | None) -> None:
        if self._received:
            os._exit(128 + number)
        self._received.append(number)


def arm_exit(status: int) -> None:
    """A data plane or client that hangs must not hold the exit."""

    def leave() -> None:
        _log.warning("something did not stop in time; leaving it behind")
        sys.stderr.flush()
        os._exit(status)

    timer = threading.Timer(_EXIT_WITHIN_S, leave)
    timer.daemon = True
    timer.start()
