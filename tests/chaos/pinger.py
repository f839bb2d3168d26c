"""A process that sends numbered pings between guests and moves bytes over TCP, and writes down every one of them.

    python -m tests.chaos.pinger SPECIFICATION.json

One process for all pairs: a core is dear where hosts, switches and agents share two. Answers are given by the guests'
kernels. A line of the log is one of (times are CLOCK_MONOTONIC, in seconds)

    S PAIR NUMBER TIME      an echo request is sent
    R PAIR NUMBER TIME      its reply has come; more than once if it was answered more than once
    T BYTES TIME            so many bytes of the connection have arrived so far
    X TIME WHY              the connection broke
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import socket
import struct
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TextIO

from tests.lab.netns import Namespace

ECHO_REQUEST, ECHO_REPLY = 8, 0
SOL_RAW, ICMP_FILTER = 255, 1
HEADER = struct.Struct("!BBHHH")
NUMBER = struct.Struct("!I")
PIECE = bytes(1024)
FLUSH_S = 0.05
CONNECT_S = 5.0


@dataclass(frozen=True, slots=True)
class Pair:
    """Who pings whom: a namespace and an address."""

    name: str
    namespace: str
    target: str


@dataclass(frozen=True, slots=True)
class Specification:
    """`interval` in seconds; the connection goes from one namespace to an address of the other."""

    log: str
    interval: float
    pairs: tuple[Pair, ...]
    client: str
    server: str
    address: str
    port: int

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self)))

    @classmethod
    def load(cls, path: Path) -> Specification:
        document = json.loads(path.read_text())
        return cls(**{**document, "pairs": tuple(Pair(**pair) for pair in document["pairs"])})


def checksum(data: bytes) -> int:
    """RFC 1071; `data` of even length."""
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    total = (total >> 16) + (total & 0xFFFF)
    return int(~(total + (total >> 16)) & 0xFFFF)


class Pinging:
    """The pings of one pair. Owns its socket."""

    def __init__(self, pair: Pair, identifier: int) -> None:
        self._pair = pair
        self._identifier = identifier
        self._number = 0
        self.socket = Namespace(pair.namespace).socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
        self.socket.setsockopt(SOL_RAW, ICMP_FILTER, struct.pack("=I", 0xFFFFFFFF & ~(1 << ECHO_REPLY)))
        self.socket.setblocking(False)

    def send(self) -> str:
        """The log's line."""
        self._number += 1
        body = NUMBER.pack(self._number) + bytes(12)
        bare = HEADER.pack(ECHO_REQUEST, 0, 0, self._identifier, self._number & 0xFFFF)
        head = HEADER.pack(ECHO_REQUEST, 0, checksum(bare + body), self._identifier, self._number & 0xFFFF)
        now = time.monotonic()
        try:
            self.socket.sendto(head + body, (self._pair.target, 0))
        except OSError:
            pass  # what cannot even be sent is lost like any other
        return f"S {self._pair.name} {self._number} {now:.6f}\n"

    def receive(self) -> str:
        """Lines for all that has come."""
        lines = ""
        while True:
            try:
                packet = self.socket.recv(2048)
            except OSError:
                return lines
            start = (packet[0] & 0x0F) * 4
            _, _, _, identifier, _ = HEADER.unpack_from(packet, start)
            if identifier == self._identifier:
                (number,) = NUMBER.unpack_from(packet, start + HEADER.size)
                lines += f"R {self._pair.name} {number} {time.monotonic():.6f}\n"


class Stream:
    """One TCP connection, both ends in this process. Owns its sockets."""

    def __init__(self, specification: Specification) -> None:
        """Raises OSError if there is no connection within some seconds."""
        listener = Namespace(specification.server).socket(socket.AF_INET, socket.SOCK_STREAM)
        self._client = Namespace(specification.client).socket(socket.AF_INET, socket.SOCK_STREAM)
        with listener:
            listener.bind((specification.address, specification.port))
            listener.listen(1)
            self._client.settimeout(CONNECT_S)
            self._client.connect((specification.address, specification.port))
            listener.settimeout(CONNECT_S)
            self.socket, _ = listener.accept()
        self._client.setblocking(False)
        self.socket.setblocking(False)
        self._received = 0
        self.broken = False

    def send(self) -> str:
        """A piece more; nothing while the connection does not take it."""
        try:
            self._client.send(PIECE)
        except BlockingIOError:
            return ""
        except OSError as error:
            return self._break(error)
        return ""

    def receive(self) -> str:
        before = self._received
        try:
            while piece := self.socket.recv(65536):
                self._received += len(piece)
        except BlockingIOError:
            return f"T {self._received} {time.monotonic():.6f}\n" if self._received > before else ""
        except OSError as error:
            return self._break(error)
        return self._break(ConnectionResetError("closed"))

    def _break(self, error: OSError) -> str:
        self.broken = True
        return f"X {time.monotonic():.6f} {error}\n"


def run(specification: Specification, log: TextIO, ended: Sequence[int]) -> None:
    """Until `ended` is not empty. Raises OSError if the connection cannot be made."""
    # Each its own: a guest may be in several pairs, and hears all replies that are for it.
    pings = [Pinging(pair, (os.getpid() + index) & 0xFFFF) for index, pair in enumerate(specification.pairs)]
    stream = Stream(specification)
    selector = selectors.DefaultSelector()
    for source in pings:
        selector.register(source.socket, selectors.EVENT_READ, source)
    selector.register(stream.socket, selectors.EVENT_READ, stream)
    due = flush_due = time.monotonic()
    while not ended:
        now = time.monotonic()
        if now >= due:
            # What is late is not made up for: a burst would lose what an even stream does not.
            due = max(due + specification.interval, now)
            for ping in pings:
                log.write(ping.send())
            if not stream.broken:
                log.write(stream.send())
        if now >= flush_due:
            flush_due = now + FLUSH_S
            log.flush()
        for key, _ in selector.select(max(due - time.monotonic(), 0.0)):
            log.write(key.data.receive())
            if key.data is stream and stream.broken:
                selector.unregister(stream.socket)
    log.flush()


def main(arguments: Sequence[str]) -> int:
    specification = Specification.load(Path(arguments[0]))
    ended: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: ended.append(number))
    with Path(specification.log).open("w") as log:
        run(specification, log, ended)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
