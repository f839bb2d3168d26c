"""The kernel's own part: the same requests, ready beforehand, sent raw with as little as possible between them."""

import errno
import os
import socket
import struct
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple
from unittest import mock

from dataplane.devices.requests import add_pair, delete_devices, finish_near, furnish
from dataplane.devices.spec import DeviceSpec
from dataplane.kernel import rtnl
from dataplane.kernel.channel import NETFILTER, ROUTE, bind_mount, new_namespace
from dataplane.kernel.namespaces import DIRECTORY, remove_namespace
from dataplane.kernel.wire import ACK, DUMP, ERROR, Request, answer_of, encode, messages, u32
from dataplane.model import PortWanted
from dataplane.netlink import nft
from dataplane.netlink.filter import SETS, SHARED_PRIORITY
from dataplane.netlink.items import ElementItem, MacItem
from dataplane.netlink.names import TABLE, shared_chain
from dataplane.netlink.render import port_items
from tests.bench.figures import BenchError
from tests.lab.netns import Namespace

_TIMEOUT = 30
_BUFFER = 16 << 20
_NS_FD = 28
_CHOSEN = 1 << 20
"""Numbers of devices from here on are nobody's."""
_TRIED = frozenset({errno.ENOENT, errno.EEXIST, errno.EOPNOTSUPP})
_SO_SNDBUFFORCE, _SO_RCVBUFFORCE = 32, 33


def _raw(protocol: int) -> socket.socket:
    made = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, protocol)
    # Not settimeout(), which makes two calls of each.
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("@ll", _TIMEOUT, 0))
    for option in (_SO_SNDBUFFORCE, _SO_RCVBUFFORCE):
        made.setsockopt(socket.SOL_SOCKET, option, _BUFFER)
    made.bind((0, 0))
    return made


def _together(requests: Sequence[Request]) -> bytes:
    """Only the last is acknowledged: what is refused is answered in any case, and before it."""
    parts = [*requests[:-1], requests[-1]._replace(flags=requests[-1].flags | ACK)]
    return b"".join(encode(one, number) for number, one in enumerate(parts, 1))


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


class MadePort(NamedTuple):
    """What the kernel is asked for one port, encoded beforehand. The host's end gets a number that is chosen, so that
    requests about it can be ready before it is there."""

    namespace: str
    mark: bytes
    """In the port's namespace: whose it is, loopback up."""
    device: bytes
    """The host's end of the pair: number, name, whose it is, up. The other end is born in the namespace of descriptor
    0, to be put in."""
    filter: bytes
    """A transaction: the device in its chain, and all elements of the port."""
    bridge: bytes
    """The device into the bridge, and the forwarding entry."""
    undo: bytes
    """A transaction without these elements."""
    index: int
    spec: DeviceSpec


def made_port(wanted: PortWanted, spec: DeviceSpec, namespace: str, device: str, bridge: int, mtu: int) -> MadePort:
    """As the data plane makes it: what is in here is what `dataplane/devices` and `dataplane/netlink` send."""
    index = _CHOSEN + bridge + int.from_bytes(spec.mac[3:], "big")
    pair = add_pair(device, spec.mac, 0, mtu, device)
    pair = pair._replace(body=struct.pack("=BxHiII", 0, 0, index, 0, 0) + pair.body[16:])
    by_set: dict[str, list[tuple[bytes, bytes]]] = {}
    macs = []
    for item, value in port_items(wanted, index, device, hands_up_dhcp=False).items():
        if isinstance(item, ElementItem):
            by_set.setdefault(item.set_name, []).append((item.key, value if isinstance(value, bytes) else b""))
        elif isinstance(item, MacItem):
            macs.append(rtnl.add_local_mac(index, item.mac))
    add = [nft.add_device(TABLE, shared_chain(index), SHARED_PRIORITY, device)]
    remove = []
    for name, elements in by_set.items():
        add += nft.add_elements(TABLE, SETS[name], elements)
        remove += nft.delete_elements(TABLE, SETS[name], elements)
    return MadePort(
        namespace,
        _together([rtnl.set_alias(1, spec.alias), rtnl.set_up(1, "lo")]),
        _together([pair, *finish_near(index, spec.alias, device)]),
        _transaction(add),
        _together([*rtnl.join(index, bridge, device), *macs]),
        _transaction(remove),
        index,
        spec,
    )


def time_made_port(host: Namespace, port: MadePort) -> float:
    """Seconds until it is all there. It is gone afterwards."""

    def work() -> tuple[float, socket.socket, socket.socket]:
        own = f"/proc/self/task/{threading.get_native_id()}/ns/net"
        path = DIRECTORY / port.namespace
        outside, filters = _raw(ROUTE), _raw(NETFILTER)
        started = time.perf_counter()
        new_namespace()
        inside = _raw(ROUTE)
        _exchange(inside, port.mark)
        path.touch()
        bind_mount(own, str(path))
        fd = os.open(own, os.O_RDONLY | os.O_CLOEXEC)
        _exchange(outside, port.device.replace(u32(_NS_FD, 0), u32(_NS_FD, fd)))
        os.close(fd)
        index = socket.if_nametoindex("eth0")
        _exchange(inside, _together(furnish(port.spec, index, "eth0")))
        _exchange(filters, port.filter)
        _exchange(outside, port.bridge)
        elapsed = time.perf_counter() - started
        inside.close()
        return elapsed, outside, filters

    elapsed, outside, filters = host.call(work)
    _exchange(outside, _together(delete_devices([port.index])))
    _exchange(filters, port.undo)
    outside.close()
    filters.close()
    remove_namespace(port.namespace)
    return elapsed


def _transaction(requests: Sequence[Request]) -> bytes:
    """Only the last is acknowledged: what is refused is answered in any case, and before it."""
    last = requests[-1]
    parts = [nft.BEGIN, *requests[:-1], last._replace(flags=last.flags | ACK), nft.END]
    return b"".join(encode(one, number) for number, one in enumerate(parts, 1))


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
