"""Ping: one shot with a result, or running in the background with a trace at the end."""

import itertools
import math
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.lab.commands import CommandError, LabError, attempt, environment, wait_until
from tests.lab.netns import Namespace

REPLY = re.compile(
    r"^(?:\[(?P<at>[\d.]+)\] )?\d+ bytes from .*icmp_seq=(?P<seq>\d+) ttl=(?P<ttl>\d+) time=(?P<rtt>[\d.]+) ms"
    r"(?P<again> \(DUP!\))?",
    re.M,
)
FAULT = re.compile(r"^(?:\[[\d.]+\] )?From (?P<by>\S+?):? icmp_seq=\d+ (?P<what>.+?)\s*$", re.M)
SUMMARY = re.compile(r"^(\d+) packets transmitted, (\d+) received", re.M)
SEQUENCE_NUMBERS = 1 << 16
# Echo requests sent this shortly before the end may still be under way; they are not counted as lost.
UNDER_WAY = 0.05
LONGEST_RUN = 600


@dataclass(frozen=True, slots=True)
class PingResult:
    """What one run of ping saw. `rtts` in ms; `faults` are ICMP errors as (who, what), e.g. TTL exceeded."""

    sent: int
    received: int
    rtts: tuple[float, ...]
    ttls: tuple[int, ...]
    duplicates: int
    faults: tuple[tuple[str, str], ...]
    output: str


@dataclass(frozen=True, slots=True)
class PingTrace:
    """What a running ping saw: (sequence number from 1, lost?) of each request, and the longest silence.

    `longest_gap_ms` is between two replies that follow each other, so never below the interval; before the first
    reply it counts from when that was asked for, after the last one up to the end.
    """

    sequence: tuple[tuple[int, bool], ...]
    rtts: tuple[float, ...]
    longest_gap_ms: float
    output: str

    @property
    def sent(self) -> int:
        return len(self.sequence)

    @property
    def lost(self) -> tuple[int, ...]:
        return tuple(number for number, lost in self.sequence if lost)


def ping(
    namespace: Namespace,
    ip: str,
    *,
    count: int = 1,
    timeout: float = 1.0,
    interval: float = 0.05,
    size: int | None = None,
    df: bool = False,
    ttl: int | None = None,
) -> PingResult:
    """Send `count` echo requests and wait `timeout` s for the last reply; `size` is the ICMP payload in bytes.

    Several are waited for up to a whole second longer. No reply is a result, not an error. Raises CommandError if ping
    itself hangs.
    """
    options = ["-n", "-c", str(count), "-W", f"{timeout:g}", "-i", f"{interval:g}"]
    # Once it has one reply, ping(8) waits for others only twice as long as that took: no time on a busy machine.
    # With -w it goes on until there are as many replies as asked for. Those to further requests are not counted, and
    # tell that what was not answered before them is lost.
    options += ["-w", str(math.ceil(timeout + count * interval))] if count > 1 else []
    options += ["-s", str(size)] if size is not None else []
    options += ["-M", "do"] if df else []
    options += ["-t", str(ttl)] if ttl is not None else []
    limit = count * interval + timeout + 15.0
    return parse_result(attempt(namespace.argv("ping", *options, ip), timeout=limit).stdout, count)


def replies_within(namespace: Namespace, ip: str, seconds: float, interval: float = 0.1) -> PingResult:
    """Send echo requests for so long, and wait a little for a reply if there was none. Raises CommandError."""
    count = max(int(seconds / interval), 1)
    options = ["-n", "-c", str(count), "-W", "0.3", "-i", f"{interval:g}"]
    return parse_result(attempt(namespace.argv("ping", *options, ip), timeout=seconds + 15.0).stdout, count)


def parse_result(output: str, count: int) -> PingResult:
    """What became of the first `count` requests."""
    summary = SUMMARY.search(output)
    replies = [m for m in REPLY.finditer(output) if int(m["seq"]) <= count]
    firsts = [m for m in replies if not m["again"]]
    return PingResult(
        sent=min(int(summary[1]), count) if summary else 0,
        received=len(firsts),
        rtts=tuple(float(m["rtt"]) for m in firsts),
        ttls=tuple(int(m["ttl"]) for m in firsts),
        duplicates=len(replies) - len(firsts),
        faults=tuple((m["by"], m["what"]) for m in FAULT.finditer(output)),
        output=output,
    )


class RunningPing:
    """A ping that runs until stop(), or for LONGEST_RUN s. It dies with the thread that started it."""

    def __init__(self, namespace: Namespace, ip: str, interval: float, log: Path) -> None:
        self._interval = interval
        self._log = log
        options = ["-n", "-D", "-i", f"{interval:g}", "-w", str(LONGEST_RUN), ip]
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", *namespace.argv("ping", *options)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment(),
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def replies(self) -> int:
        """How many replies have come so far."""
        return len(REPLY.findall(self._log.read_text()))

    def wait_replies(self, more: int = 1, within: float = 5.0) -> None:
        """Wait for so many further replies. Raises LabError."""
        goal = self.replies + more
        wait_until(lambda: self.replies >= goal, within, f"{more} more replies to a running ping")

    def stop(self) -> PingTrace:
        """End it and tell what it saw. Raises LabError if it ended by itself."""
        if self._process.poll() is not None:
            raise LabError(f"ping ended early:\n{self._log.read_text()}")
        stopped = time.time()
        self._process.send_signal(signal.SIGINT)
        try:
            self._process.wait(5.0)
        except subprocess.TimeoutExpired as error:
            raise CommandError(["ping"], None, self._log.read_text()) from error
        finally:
            self.kill()
        return parse_trace(self._log.read_text(), stopped, self._interval)

    def kill(self) -> None:
        """End it at once, without a trace; fine if it has ended."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait(5.0)


def parse_trace(output: str, stopped: float, interval: float) -> PingTrace:
    """The trace in the output of `ping -D`; `stopped` is the wall clock (s) when it was told to end."""
    replies = [m for m in REPLY.finditer(output) if not m["again"]]
    numbers = list(unwrapped(int(m["seq"]) for m in replies))
    summary = SUMMARY.search(output)
    sent = int(summary[1]) if summary else max(numbers, default=0)
    sent = max(sent - int(UNDER_WAY / interval) - 1, max(numbers, default=0))
    answered = set(numbers)
    rtts = tuple(float(m["rtt"]) for m in replies)
    moments = [float(m["at"]) for m in replies]
    if moments:
        moments = [moments[0] - rtts[0] / 1000, *moments, max(stopped, moments[-1])]
        longest = max(later - earlier for earlier, later in itertools.pairwise(moments))
    else:
        longest = sent * interval
    return PingTrace(tuple((n, n not in answered) for n in range(1, sent + 1)), rtts, longest * 1000, output)


def unwrapped(numbers: Iterable[int]) -> Iterable[int]:
    """16-bit sequence numbers in about rising order, as numbers that go on rising past 65535."""
    last = 0
    for number in numbers:
        behind = (number - last + SEQUENCE_NUMBERS // 2) % SEQUENCE_NUMBERS - SEQUENCE_NUMBERS // 2
        last += behind
        yield last


def reachable(try_once: Callable[[float], PingResult], within: float) -> bool:
    """Ping until one reply comes (True) or so many seconds have passed (False); at least one try."""
    deadline = time.monotonic() + within
    while True:
        if try_once(0.25).received:
            return True
        if time.monotonic() >= deadline:
            return False
