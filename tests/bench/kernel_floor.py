"""The kernel's own part: the same requests, ready beforehand, sent raw with as little as possible between them."""

import errno
import os
import socket
import struct
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from unittest import mock

from dataplane.devices.requests import add_pair, delete_devices, furnish
from dataplane.devices.spec import DeviceSpec
from dataplane.kernel import rtnl
from dataplane.kernel.channel import ROUTE, bind_mount, new_namespace
from dataplane.kernel.namespaces import DIRECTORY, remove_namespace
from dataplane.kernel.wire import ACK, DUMP, ERROR, Request, answer_of, encode, messages
from tests.bench.figures import BenchError
from tests.lab.netns import Namespace

_TIMEOUT = 30.0
_BUFFER = 16 << 20
_TRIED = frozenset({errno.ENOENT, errno.EEXIST, errno.EOPNOTSUPP})
_SO_SNDBUFFORCE, _SO_RCVBUFFORCE = 32, 33


def _raw(protocol: int) -> socket.socket:
    made = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, protocol)
    made.settimeout(_TIMEOUT)
    for option in (_SO_SNDBUFFORCE, _SO_RCVBUFFORCE):
        made.setsockopt(socket.SOL_SOCKET, option, _BUFFER)
    made.bind((0, 0))
    return made


def _together(requests: Sequence[Request]) -> bytes:
    return b"".join(encode(one._replace(flags=one.flags | ACK), number) for number, one in enumerate(requests, 1))


def _exchange(over: socket.socket, data: bytes, expected: frozenset[int] = frozenset()) -> None:
    """Send, and read until the last acknowledgement. Raises BenchError if something is refused otherwise than expected.
    """
    last = [message.sequence for message in messages(data) if message.flags & ACK][-1]
    over.send(data)
    while True:
        for message in messages(over.recv(1 << 18)):
            if message.kind == ERROR:
                code, said = answer_of(message)
                if code and code not in expected:
                    raise BenchError(f"the kernel refuses what it took before: {os.strerror(code)} {said}")
                if message.sequence == last:
                    return


# -- one port with a namespace


def made_port(host: Namespace, name: str, device: str, spec: DeviceSpec, mtu: int) -> float:
    """Seconds for a namespace with a name, a pair born into it, addresses, routes, all up. It is gone afterwards."""

    def work() -> tuple[float, socket.socket]:
        own = f"/proc/self/task/{threading.get_native_id()}/ns/net"
        path = DIRECTORY / name
        outside = _raw(ROUTE)
        started = time.perf_counter()
        new_namespace()
        inside = _raw(ROUTE)
        path.touch()
        bind_mount(own, str(path))
        fd = os.open(own, os.O_RDONLY | os.O_CLOEXEC)
        pair = add_pair(device, spec.mac, fd, mtu, device)
        _exchange(outside, _together([pair._replace(body=struct.pack("=BxHiII", 0, 0, 0, 1, 1) + pair.body[16:])]))
        os.close(fd)
        index = socket.if_nametoindex("eth0")
        _exchange(inside, _together([rtnl.set_up(1, "lo"), *furnish(spec, index, device)]))
        elapsed = time.perf_counter() - started
        inside.close()
        return elapsed, outside

    elapsed, outside = host.call(work)
    index = host.call(lambda: socket.if_nametoindex(device))
    _exchange(outside, _together(delete_devices([index])))
    outside.close()
    remove_namespace(name)
    return elapsed


# -- whatever a data plane sends


class Recording:
    """What was sent to the kernel, in order: (protocol, requests)."""

    def __init__(self) -> None:
        self.sent: list[tuple[int, bytes]] = []

    def changes(self, start: int, end: int | None = None) -> list[tuple[int, bytes]]:
        """Without questions."""
        sent = self.sent[start:end]
        return [(kind, data) for kind, data in sent if any(_changes(one.flags) for one in messages(data))]


def _changes(flags: int) -> bool:
    return bool(flags & ACK) and flags & DUMP != DUMP


@contextmanager
def recorded() -> Iterator[Recording]:
    """What every netlink channel that is opened meanwhile sends, in this process."""
    recording = Recording()

    class Socket(socket.socket):
        def send(self, data: Any, flags: int = 0) -> int:
            recording.sent.append((self.proto, bytes(data)))
            return super().send(data, flags)

    with mock.patch("dataplane.kernel.channel.socket.socket", Socket):
        yield recording


def replay(host: Namespace, parts: Sequence[Sequence[tuple[int, bytes]]]) -> list[float]:
    """Send recorded requests again, on a host that is as the other was; seconds for each part."""

    def work() -> list[float]:
        sockets = {kind: _raw(kind) for kind in {kind for part in parts for kind, _ in part}}
        try:
            return [_timed(sockets, part) for part in parts]
        finally:
            for one in sockets.values():
                one.close()

    return host.call(work)


def _timed(sockets: Mapping[int, socket.socket], part: Sequence[tuple[int, bytes]]) -> float:
    started = time.perf_counter()
    for kind, data in part:
        # What a data plane only tries is tried again.
        _exchange(sockets[kind], data, _TRIED)
    return time.perf_counter() - started


def devices_in(listing: str) -> list[list[str]]:
    """Numbers and names, of `ip -o link`: where they are the same, what was sent to one host fits the other."""
    return [line.split()[:2] for line in listing.splitlines()]
