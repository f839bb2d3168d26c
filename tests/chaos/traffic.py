"""The traffic of a cloud while something happens to it, and what that cost: lost pings, silence, a stalled stream."""

from __future__ import annotations

import itertools
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from tests.chaos.pinger import Pair, Specification
from tests.lab import LabError, wait_until
from tests.lab.agent import REPOSITORY
from tests.lab.commands import environment

INTERVAL = 0.01
UNDER_WAY = 1.0
"""A ping that is not answered after so many seconds is lost."""
START_S = 10.0
END_S = 5.0


@dataclass(frozen=True, slots=True)
class Losses:
    """What one pair saw of an event. `lost_at` are the moments of sending, in s since the event; `silence` is the
    longest time between replies, in s, `duplicates` what was answered more than once."""

    pair: str
    sent: int
    lost_at: tuple[float, ...]
    duplicates: int
    silence: float

    @property
    def lost(self) -> int:
        return len(self.lost_at)


@dataclass(frozen=True, slots=True)
class Measured:
    """An event: how long it was watched (s), and what came of the traffic. `stall` is the longest time without a byte
    on the connection, in s."""

    seconds: float
    pairs: tuple[Losses, ...]
    stall: float

    @property
    def lost(self) -> dict[str, int]:
        """Lost pings by pair, of those pairs that lost any."""
        return {one.pair: one.lost for one in self.pairs if one.lost}

    @property
    def duplicates(self) -> dict[str, int]:
        return {one.pair: one.duplicates for one in self.pairs if one.duplicates}

    def of(self, pair: str) -> Losses:
        return next(one for one in self.pairs if one.pair == pair)


@dataclass(slots=True)
class _Record:
    """Of one pair: when each ping was sent, and when each of its replies came."""

    sent: list[float] = field(default_factory=list)
    replies: dict[int, list[float]] = field(default_factory=dict)
    last_answered: float = 0.0
    """When the newest of the answered pings was sent."""

    def reply(self, number: int, moment: float) -> None:
        self.replies.setdefault(number, []).append(moment)
        self.last_answered = max(self.last_answered, self.sent[number - 1])

    def unanswered(self, since: float, until: float) -> list[float]:
        return [at for number, at in self._numbered(since, until) if number not in self.replies]

    def losses(self, pair: str, since: float, until: float) -> Losses:
        numbered = list(self._numbered(since, until))
        lost = tuple(at - since for number, at in numbered if number not in self.replies)
        answers = [self.replies[number] for number, _ in numbered if number in self.replies]
        moments = sorted([since, until, *(one[0] for one in answers)])
        silence = max(later - earlier for earlier, later in itertools.pairwise(moments))
        return Losses(pair, len(numbered), lost, sum(len(one) > 1 for one in answers), silence)

    def _numbered(self, since: float, until: float) -> Iterable[tuple[int, float]]:
        """From the newest on: events are near the end of a long record."""
        for index in range(len(self.sent) - 1, -1, -1):
            if self.sent[index] < since:
                return
            if self.sent[index] <= until:
                yield index + 1, self.sent[index]


class Traffic:
    """Owns the process that makes it. For one thread."""

    def __init__(self, directory: Path, name: str, pairs: Iterable[Pair], stream: tuple[str, str, str, int]) -> None:
        """`stream`: the connection's client and server namespaces, and the server's address and port. The process is
        recorded in `directory`, so that it goes with the lab."""
        self._pairs = tuple(pairs)
        self._log = directory / f"{name}.traffic"
        self._errors = directory / f"{name}.log"
        self._pidfile = directory / f"{name}.pid"
        specification = directory / f"{name}.json"
        Specification(str(self._log), INTERVAL, self._pairs, *stream).save(specification)
        self._log.touch()
        self._records = {pair.name: _Record() for pair in self._pairs}
        self._bytes: list[tuple[float, int]] = []
        self._broken = ""
        self._rest = ""
        with self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", sys.executable, "-m", "tests.chaos.pinger", str(specification)],
                cwd=REPOSITORY,
                env={**environment(), "PYTHONPATH": str(REPOSITORY)},
                stdin=subprocess.DEVNULL,
                stdout=errors,
                stderr=subprocess.STDOUT,
            )
        self._pidfile.write_text(str(self._process.pid))
        self._file = self._log.open()

    def close(self) -> None:
        """May be called twice."""
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(END_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait(END_S)
        self._pidfile.unlink(missing_ok=True)
        self._file.close()

    # -- waiting

    def wait_flowing(self, since: float, within: float = START_S) -> None:
        """Until each pair has an answer to a ping sent after `since`, and the connection has moved. Raises LabError."""

        def silent() -> list[str]:
            self._read()
            quiet = [name for name, record in self._records.items() if record.last_answered <= since]
            moving = bool(self._bytes) and self._bytes[-1][0] > since
            return quiet if moving else [*quiet, "the connection"]

        try:
            wait_until(lambda: not silent() or self._ended, within, "traffic flows")
        except LabError as error:
            raise LabError(f"{error}; silent: {', '.join(silent())}; {self._why()}") from error
        if self._ended:
            raise LabError(self._why())

    def wait_pings(self, count: int) -> None:
        """Until so many further pings have been sent by each pair. Raises LabError."""
        self._read()
        goals = {name: len(record.sent) + count for name, record in self._records.items()}

        def reached() -> bool:
            self._read()
            return all(len(self._records[name].sent) >= goal for name, goal in goals.items())

        wait_until(reached, START_S + 5 * count * INTERVAL, f"{count} more pings; {self._why()}")

    # -- measuring

    def measure(self, since: float, until: float) -> Measured:
        """What came of the pings sent meanwhile. Waits until each is answered or lost. Raises LabError if the
        connection broke."""

        def settled() -> bool:
            now = time.monotonic()
            self._read()
            return now >= until + UNDER_WAY or not any(
                record.unanswered(max(since, now - UNDER_WAY), until) for record in self._records.values()
            )

        wait_until(settled, 2 * UNDER_WAY + END_S, "every ping is answered or lost")
        if self._broken:
            raise LabError(f"the connection broke: {self._broken}")
        moments = sorted([since, until, *(at for at, _ in self._bytes if since < at < until)])
        stall = max(later - earlier for earlier, later in itertools.pairwise(moments))
        pairs = tuple(record.losses(name, since, until) for name, record in self._records.items())
        return Measured(until - since, pairs, stall)

    @property
    def _ended(self) -> bool:
        return self._process.poll() is not None

    def _why(self) -> str:
        ended = self._process.poll()
        return f"{self._broken or 'the connection stands'}; " + (
            "" if ended is None else f"the pinger ended with {ended}: {self._errors.read_text()[-1000:]}"
        )

    def _read(self) -> None:
        data = self._rest + self._file.read()
        lines = data.split("\n")
        self._rest = lines.pop()
        actions: dict[str, Callable[[list[str]], None]] = {
            "S": lambda words: self._records[words[1]].sent.append(float(words[3])),
            "R": lambda words: self._records[words[1]].reply(int(words[2]), float(words[3])),
            "T": lambda words: self._bytes.append((float(words[2]), int(words[1]))),
            "X": self._note_break,
        }
        for line in lines:
            words = line.split(" ")
            actions[words[0]](words)

    def _note_break(self, words: list[str]) -> None:
        self._broken = " ".join(words[2:])
