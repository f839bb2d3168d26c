"""A netlink socket: many requests per send, every one confirmed. Thin edge; what is sent is made elsewhere."""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeVar

from dataplane.kernel.wire import (
    ACK,
    DONE,
    DUMP,
    ERROR,
    KernelError,
    Message,
    Request,
    answer_of,
    encode,
    encode_alike,
    messages,
)

ROUTE, NETFILTER = 0, 12
_SOL_NETLINK, _CAP_ACK, _EXT_ACK = 270, 10, 11
_SO_RCVBUFFORCE, _SO_SNDBUFFORCE = 33, 32
_BUFFER = 16 << 20
_PER_SEND = 250
"""Requests per send. A kernel that does not preempt itself does nothing else on this processor meanwhile: guests and
whoever forwards their frames in user space would wait. And what is answered must fit the receive buffer."""
_LARGEST = 1 << 18
_TIMEOUT_S = 10
_CLONE_NEWNET = 0x40000000
_SIOCGIFINDEX, _ENODEV = 0x8933, 19
_T = TypeVar("_T")
_LIBC: Final = ctypes.CDLL(None, use_errno=True)


def listen_to(protocol: int, groups: int) -> socket.socket:
    """A socket that gets the notices of some groups (a bit for each), in the network namespace of the calling thread.
    Raises OSError."""
    made = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK, protocol)
    try:
        made.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _BUFFER)
        made.bind((0, groups))
    except OSError:
        made.close()
        raise
    return made


class Channel:
    """One netlink socket. Thread safe: one exchange at a time."""

    def __init__(self, protocol: int) -> None:
        """In the network namespace of the calling thread. Raises OSError."""
        self._lock = threading.Lock()
        self._sequence = 0
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, protocol)
        # Not settimeout(): it would ask the kernel before each call whether it would have to wait.
        for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
            self._socket.setsockopt(socket.SOL_SOCKET, option, struct.pack("@ll", _TIMEOUT_S, 0))
        for option in (_SO_RCVBUFFORCE, _SO_SNDBUFFORCE):
            self._socket.setsockopt(socket.SOL_SOCKET, option, _BUFFER)
        for option in (_CAP_ACK, _EXT_ACK):
            self._socket.setsockopt(_SOL_NETLINK, option, 1)
        self._socket.bind((0, 0))

    def close(self) -> None:
        self._socket.close()

    @property
    def number(self) -> int:
        """By which notices say that a change was asked for here (nlmsg_pid)."""
        number: int = self._socket.getsockname()[0]
        return number

    def fileno(self) -> int:
        """For ioctls about devices of the socket's namespace."""
        return self._socket.fileno()

    def index_of(self, device: str) -> int:
        """Number of a device by its name, 0 if there is none; the quickest way to ask (netdevice(7))."""
        try:
            answer = fcntl.ioctl(self._socket, _SIOCGIFINDEX, struct.pack("16s24x", device.encode()))
        except OSError as problem:
            if problem.errno != _ENODEV:
                raise
            return 0
        return int(struct.unpack_from("=i", answer, 16)[0])

    def submit(self, requests: Sequence[Request]) -> dict[int, KernelError]:
        """Do them in order, each by itself; returns the refused by index. Raises OSError, also when answers fail.

        The kernel takes the requests of one send one after another, and answers those that it refuses in any case: the
        acknowledgement of the last says that all others are done.
        """
        refused: dict[int, KernelError] = {}
        with self._lock:
            for start in range(0, len(requests), _PER_SEND):
                part = requests[start : start + _PER_SEND]
                first = self._take_numbers(len(part))
                parts = [encode(request, number) for number, request in enumerate(part, first)]
                parts[-1] = encode(part[-1]._replace(flags=part[-1].flags | ACK), first + len(part) - 1)
                for number, code, said in self._send(parts, first):
                    if code not in part[number].forgiven:
                        refused[start + number] = KernelError(code, said, part[number].about)
        return refused

    def submit_alike(self, kind: int, flags: int, bodies: Sequence[bytes]) -> dict[int, int]:
        """submit() of many requests that differ in their bodies only, which are of one length; returns the errno of
        the refused by index. Raises OSError, also when answers fail."""
        refused: dict[int, int] = {}
        with self._lock:
            for start in range(0, len(bodies), _PER_SEND):
                part = bodies[start : start + _PER_SEND]
                first = self._take_numbers(len(part))
                parts = encode_alike(kind, flags, part, first)
                parts[-1] = encode(Request(kind, flags | ACK, part[-1]), first + len(part) - 1)
                refused.update((start + number, code) for number, code, _ in self._send(parts, first))
        return refused

    def _take_numbers(self, count: int) -> int:
        first = self._sequence + 1
        self._sequence += count
        return first

    def _send(self, parts: Sequence[bytes], first: int) -> list[tuple[int, int, str]]:
        """Send what is numbered from `first`; what was refused: index, errno, the kernel's words."""
        self._socket.send(b"".join(parts))
        last = len(parts) - 1
        refused: list[tuple[int, int, str]] = []
        while True:
            for message in messages(self._receive()):
                number = message.sequence - first
                if message.kind != ERROR or not 0 <= number <= last:
                    continue
                code, said = answer_of(message)
                if code:
                    refused.append((number, code, said))
                if number == last:
                    return refused

    def demand(self, requests: Sequence[Request]) -> None:
        """submit() of what must succeed. Raises KernelError about the first that did not, OSError."""
        refused = self.submit(requests)
        if refused:
            raise refused[min(refused)]

    def transact(self, requests: Sequence[Request], begin: Request, end: Request) -> None:
        """One atomic batch of nftables: all or nothing. Raises KernelError about the first refused, OSError."""
        with self._lock:
            first = self._sequence + 1
            self._sequence += len(requests) + 2
            # Only the last is to be acknowledged: what is refused is answered in any case, and before it.
            last = len(requests) - 1
            parts = [encode(begin, first)]
            for number, request in enumerate(requests):
                wanted = request._replace(flags=request.flags | ACK) if number == last else request
                parts.append(encode(wanted, first + 1 + number))
            parts.append(encode(end, first + 1 + len(requests)))
            self._socket.send(b"".join(parts))
            problem: KernelError | None = None
            while True:
                for message in messages(self._receive()):
                    number = message.sequence - first - 1
                    if message.kind != ERROR or not -1 <= number <= len(requests):
                        continue
                    code, said = answer_of(message)
                    about = requests[number].about if 0 <= number < len(requests) else "nftables"
                    if code and problem is None:
                        problem = KernelError(code, said, about)
                    if number in (-1, last, len(requests)):
                        if problem is not None:
                            self._drain()
                            raise problem
                        return

    def _receive(self, size: int = _LARGEST) -> bytes:
        try:
            return self._socket.recv(size)
        except BlockingIOError:
            raise TimeoutError(f"the kernel does not answer within {_TIMEOUT_S} s") from None

    def _drain(self) -> None:
        try:
            while self._socket.recv(_LARGEST, socket.MSG_DONTWAIT):
                pass
        except BlockingIOError:
            pass

    def dump(self, request: Request) -> list[Message]:
        """All messages that answer a dump request. Raises KernelError, OSError."""
        parts = self.dump_parts(request)
        return [message for part in parts for message in messages(part) if message.kind != DONE]

    def dump_parts(self, request: Request) -> list[bytes]:
        """dump() with the messages as the kernel put them together; the last part says that it is. Raises KernelError,
        OSError."""
        with self._lock:
            self._sequence += 1
            sequence = self._sequence
            self._socket.send(encode(request._replace(flags=request.flags | DUMP), sequence))
            found: list[bytes] = []
            while True:
                data = self._receive()
                kind, _, number = struct.unpack_from("=HHI", data, 4)
                if number != sequence:
                    continue
                if kind == ERROR:
                    raise KernelError(*answer_of(next(messages(data))), request.about)
                found.append(data)
                if _kind_of_last(data) == DONE:
                    return found

    def look_up_alike(self, kind: int, bodies: Sequence[bytes]) -> Iterator[list[bytes]]:
        """What is answered to many requests that differ in their bodies only, which are of one length: in their order,
        some at a time, refusals too. Raises OSError."""
        for start in range(0, len(bodies), _PER_SEND):
            part = bodies[start : start + _PER_SEND]
            with self._lock:
                first = self._take_numbers(len(part))
                self._socket.send(b"".join(encode_alike(kind, 0, part, first)))
                answers = [self._receive(1 << 16) for _ in part]
            yield answers

    def look_up(self, requests: Sequence[Request]) -> list[Message | None]:
        """The one answer to each of many requests; None where there is nothing of it. Raises OSError."""
        found: list[Message | None] = []
        with self._lock:
            for start in range(0, len(requests), _PER_SEND):
                part = requests[start : start + _PER_SEND]
                first = self._sequence + 1
                self._sequence += len(part)
                self._socket.send(b"".join(encode(request, first + n) for n, request in enumerate(part)))
                answers: dict[int, Message | None] = {}
                while len(answers) < len(part):
                    for message in messages(self._receive()):
                        if first <= message.sequence < first + len(part):
                            answers[message.sequence] = None if message.kind == ERROR else message
                found += [answers[first + n] for n in range(len(part))]
        return found


def _kind_of_last(data: bytes) -> int:
    """Of the messages in a datagram, which are of one length mostly."""
    first: tuple[int, int] = _length_and_kind(data, 0)
    last = len(data) - first[0]
    if last % max(first[0], 1) == 0 and _length_and_kind(data, last) == first:
        return first[1]
    offset = kind = 0
    while offset + 16 <= len(data):
        length, kind = _length_and_kind(data, offset)
        if length < 16:
            break
        offset += (length + 3) & ~3
    return kind


_length_and_kind = struct.Struct("=IH").unpack_from


def in_thread(work: Callable[[], _T]) -> _T:
    """Run in a thread of its own, which may change its network namespace; what it raises is raised here."""
    results: list[_T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, name="netlink-namespace", daemon=True)
    thread.start()
    thread.join(_TIMEOUT_S)
    if errors:
        raise errors[0]
    if not results:
        raise TimeoutError(f"work in a network namespace took more than {_TIMEOUT_S:g} s")
    return results[0]


def enter_namespace(fd: int) -> None:
    """Move the calling thread. Raises OSError."""
    _checked(_LIBC.setns(fd, _CLONE_NEWNET), "setns")


def new_namespace() -> None:
    """Give the calling thread a network namespace of its own. Raises OSError."""
    _checked(_LIBC.unshare(_CLONE_NEWNET), "unshare")


def bind_mount(source: str, target: str) -> None:
    """Raises OSError."""
    _checked(_LIBC.mount(source.encode(), target.encode(), b"none", 0x1000, None), target)


def unmount(target: str) -> None:
    """Lazily. Raises OSError."""
    _checked(_LIBC.umount2(target.encode(), 2), target)


def _checked(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)
