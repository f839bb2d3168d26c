"""A probe of paths between guests, run as a process of its own: `python -m tests.bench.probe JSON`.

Sends a small UDP datagram on each path at a steady interval until its standard input ends, then prints one JSON line
per path. Arrival times are the kernel's (SO_TIMESTAMPNS, socket(7)), and the process asks for real-time priority, so
that what is measured is the network and not the scheduling of the probe.
"""

import contextlib
import json
import os
import select
import socket
import struct
import sys
import time
from dataclasses import asdict, dataclass
from itertools import pairwise

from tests.lab.netns import Namespace

SO_TIMESTAMPNS = 35
PORT = 7007
STAMP = struct.Struct("=qq")
NUMBER = struct.Struct("!Q")
LAST_WAIT = 1.0


@dataclass(frozen=True, slots=True)
class Path:
    """From one namespace to another that has this address."""

    name: str
    sender: str
    receiver: str
    address: str


@dataclass(frozen=True, slots=True)
class Trace:
    """`longest_gap_ms` is between two arrivals that follow each other; `late_ms` the probe's own worst delay in
    sending; `worst_delay_ms` from sending to arrival."""

    name: str
    sent: int
    received: int
    longest_gap_ms: float
    worst_delay_ms: float
    late_ms: float


def main(paths: list[Path], interval: float) -> list[Trace]:
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))
    pairs = [(_sender(path), _receiver(path)) for path in paths]
    sent: list[list[int]] = [[] for _ in paths]
    arrived: list[dict[int, int]] = [{} for _ in paths]
    late, due = 0.0, time.monotonic()
    while not select.select([sys.stdin], [], [], max(0.0, due - time.monotonic()))[0]:
        now = time.monotonic()
        late = max(late, now - due)
        due = max(due + interval, now)
        for (sender, receiver), numbers, arrivals in zip(pairs, sent, arrived, strict=True):
            numbers.append(time.time_ns())
            with contextlib.suppress(OSError):
                sender.send(NUMBER.pack(len(numbers) - 1))
            _collect(receiver, arrivals)
    deadline = time.monotonic() + LAST_WAIT
    while time.monotonic() < deadline and any(len(a) < len(s) for a, s in zip(arrived, sent, strict=True)):
        select.select([receiver for _, receiver in pairs], [], [], 0.05)
        for (_, receiver), arrivals in zip(pairs, arrived, strict=True):
            _collect(receiver, arrivals)
    return [
        _trace(path, numbers, arrivals, late) for path, numbers, arrivals in zip(paths, sent, arrived, strict=True)
    ]


def _sender(path: Path) -> socket.socket:
    sender = Namespace(path.sender).socket(socket.AF_INET, socket.SOCK_DGRAM)
    sender.setblocking(False)
    sender.connect((path.address, PORT))
    return sender


def _receiver(path: Path) -> socket.socket:
    receiver = Namespace(path.receiver).socket(socket.AF_INET, socket.SOCK_DGRAM)
    receiver.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    receiver.setblocking(False)
    receiver.bind((path.address, PORT))
    return receiver


def _collect(receiver: socket.socket, arrivals: dict[int, int]) -> None:
    while True:
        try:
            data, ancillary, _, _ = receiver.recvmsg(64, 64)
        except BlockingIOError:
            return
        for level, kind, stamp in ancillary:
            if level == socket.SOL_SOCKET and kind == SO_TIMESTAMPNS:
                seconds, nanoseconds = STAMP.unpack(stamp[: STAMP.size])
                arrivals.setdefault(NUMBER.unpack(data)[0], seconds * 1_000_000_000 + nanoseconds)


def _trace(path: Path, sent: list[int], arrivals: dict[int, int], late: float) -> Trace:
    moments = sorted(arrivals.values())
    gaps = [later - earlier for earlier, later in pairwise(moments)]
    delays = [moment - sent[number] for number, moment in arrivals.items()]
    return Trace(
        path.name,
        len(sent),
        len(arrivals),
        max(gaps, default=0) / 1e6,
        max(delays, default=0) / 1e6,
        late * 1e3,
    )


if __name__ == "__main__":
    order = json.loads(sys.argv[1])
    for trace in main([Path(**path) for path in order["paths"]], order["interval"]):
        print(json.dumps(asdict(trace)))
