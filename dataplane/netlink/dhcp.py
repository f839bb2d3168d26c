"""Packet sockets on ports' devices: what guests ask of DHCP servers comes in, what the agent says goes out."""

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

_SO_ATTACH_FILTER = 26
_SOL_PACKET, _IGNORE_OUTGOING = 263, 23
_ETH_P_ALL = 0x0003
_MAX_FRAME = 65536
_PER_TURN = 64

# IPv4, UDP, not a later fragment, to port 67 (classic BPF).
_PROGRAM = (
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


class DhcpSockets:
    """One thread that listens. Thread safe. `handed_up` gets (port id, whole frame)."""

    def __init__(self, handed_up: Callable[[str, bytes], None]) -> None:
        self._handed_up = handed_up
        self._lock = threading.Lock()
        self._by_port: dict[str, tuple[int, socket.socket]] = {}
        self._selector = selectors.DefaultSelector()
        self._woken, self._waker = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._closing = False
        self._thread = threading.Thread(target=self._loop, name="netlink-dhcp", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._closing = True
        self._wake()
        if self._thread.is_alive():
            self._thread.join(1.0)
        with self._lock:
            for _, one in self._by_port.values():
                one.close()
            self._by_port.clear()

    def listen(self, port_id: str, index: int, name: str) -> None:
        """Idempotent. Raises OSError."""
        with self._lock:
            known = self._by_port.get(port_id)
            if known is not None and known[0] == index:
                return
        self.ignore(port_id)
        made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC, 0)
        try:
            code = b"".join(struct.pack("=HBBI", *one) for one in _PROGRAM)
            buffer = ctypes.create_string_buffer(code)
            program = struct.pack("HP", len(_PROGRAM), ctypes.addressof(buffer))
            made.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, program)
            made.setsockopt(_SOL_PACKET, _IGNORE_OUTGOING, 1)
            made.bind((name, _ETH_P_ALL))
        except OSError:
            made.close()
            raise
        with self._lock:
            self._by_port[port_id] = (index, made)
            self._selector.register(made, selectors.EVENT_READ, port_id)
        self._wake()

    def ignore(self, port_id: str) -> None:
        """Idempotent."""
        with self._lock:
            known = self._by_port.pop(port_id, None)
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


def send_frame(index_name: str, frame: bytes) -> None:
    """To the guest behind a device. Raises OSError."""
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_CLOEXEC, 0) as out:
        out.bind((index_name, 0))
        out.send(frame)
