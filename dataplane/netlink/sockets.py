"""Packet sockets on devices: what guests ask that only the agent can answer comes in, what it says goes out."""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import selectors
import socket
import struct
import threading
from collections.abc import Callable
from typing import NamedTuple

_SO_ATTACH_FILTER = 26
_SOL_PACKET, _IGNORE_OUTGOING = 263, 23
_ETH_P_ALL = 0x0003
_MAX_FRAME = 65536
_PER_TURN = 64



class Sought(NamedTuple):
    """What comes up: a filter (classic BPF: code, jump if true, jump if false, k), and whether of what goes out of the
    device too, or only of what comes in by it."""

    program: tuple[tuple[int, int, int, int], ...]
    outgoing: bool


# IPv4, UDP, not a later fragment, to port 67.
_DHCP = (
    (0x28, 0, 0, 12),
    (0x15, 0, 8, 0x0800),
    (0x30, 0, 0, 23),
    (0x15, 0, 6, 17),
    (0x28, 0, 0, 20),
    (0x45, 4, 0, 0x1FFF),
    (0xB1, 0, 0, 14),
    (0x48, 0, 0, 16),
    (0x15, 0, 1, 67),
    (0x06, 0, 0, _MAX_FRAME),
    (0x06, 0, 0, 0),
)


DHCP_REQUESTS = Sought(_DHCP, outgoing=False)

# Frames of type "outgoing" that are ARP requests.
_ARP = (
    (0x28, 0, 0, 0xFFFFF004),
    (0x15, 0, 5, 4),
    (0x28, 0, 0, 12),
    (0x15, 0, 3, 0x0806),
    (0x28, 0, 0, 20),
    (0x15, 0, 1, 1),
    (0x06, 0, 0, _MAX_FRAME),
    (0x06, 0, 0, 0),
)
LEAVING_ARP_REQUESTS = Sought(_ARP, outgoing=True)


class PacketSockets:
    """One thread that listens on many devices, each for somebody. Thread safe. `handed_up` gets (for whom, frame)."""

    def __init__(self, name: str, sought: Sought, handed_up: Callable[[str, bytes], None]) -> None:
        self._sought = sought
        self._handed_up = handed_up
        self._lock = threading.Lock()
        self._by_name: dict[str, tuple[int, socket.socket]] = {}
        self._selector = selectors.DefaultSelector()
        self._woken, self._waker = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._closing = False
        self._thread = threading.Thread(target=self._loop, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._closing = True
        self._wake()
        if self._thread.is_alive():
            self._thread.join(1.0)
        with self._lock:
            for _, one in self._by_name.values():
                one.close()
            self._by_name.clear()

    def listen(self, whose: str, index: int, device: str) -> None:
        """Idempotent. Raises OSError."""
        with self._lock:
            known = self._by_name.get(whose)
            if known is not None and known[0] == index:
                return
        self.ignore(whose)
        made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC, 0)
        try:
            code = b"".join(struct.pack("=HBBI", *one) for one in self._sought.program)
            buffer = ctypes.create_string_buffer(code)
            program = struct.pack("HP", len(self._sought.program), ctypes.addressof(buffer))
            made.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, program)
            made.setsockopt(_SOL_PACKET, _IGNORE_OUTGOING, not self._sought.outgoing)
            made.bind((device, _ETH_P_ALL))
        except OSError:
            made.close()
            raise
        with self._lock:
            self._by_name[whose] = (index, made)
            self._selector.register(made, selectors.EVENT_READ, whose)
        self._wake()

    def ignore(self, whose: str) -> None:
        """Idempotent."""
        with self._lock:
            known = self._by_name.pop(whose, None)
            if known is not None:
                self._selector.unregister(known[1])
                known[1].close()

    def _wake(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.write(self._waker, b"\0")

    def _loop(self) -> None:
        while not self._closing:
            for key, _ in self._selector.select(5.0):
                if key.data is None:
                    os.read(self._woken, 4096)
                    continue
                for frame in self._frames(key.fileobj):
                    try:
                        self._handed_up(key.data, frame)
                    except Exception:  # one frame must not end the thread
                        logging.getLogger(__name__).exception("cannot hand a frame up")

    def _frames(self, source: object) -> list[bytes]:
        assert isinstance(source, socket.socket)
        found: list[bytes] = []
        # A socket may be closed meanwhile: the port is gone.
        with contextlib.suppress(OSError):
            while len(found) < _PER_TURN:
                found.append(source.recv(_MAX_FRAME))
        return found


def send_frame(device: str, frame: bytes) -> None:
    """To whoever is behind a device. Raises OSError."""
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_CLOEXEC, 0) as out:
        out.bind((device, 0))
        out.send(frame)
