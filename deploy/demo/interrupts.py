"""Ctrl-C and other ends from outside: one of them stops the demonstration, none disturbs its cleaning up."""

import signal
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(BaseException):
    """A signal asked for the end; `number` is the signal's."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


class Interrupts:
    """Raises Interrupted in the main thread at the first signal, until put off. To be made in the main thread."""

    def __init__(self) -> None:
        self._armed = True
        for number in SIGNALS:
            signal.signal(number, self._take)

    def put_off(self) -> None:
        """From now on signals are ignored."""
        self._armed = False

    def _take(self, number: int, _frame: FrameType | None) -> None:
        if self._armed:
            self._armed = False
            raise Interrupted(number)
