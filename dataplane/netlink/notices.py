"""What the kernel says that others have changed: forwarding entries, the filter, routers' inside, routers' names.

Nothing here knows what is wanted: what may have been touched is handed on, to be compared with what is there. What this
agent does itself is filtered out in the kernel.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import selectors
import socket
import struct
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field

from dataplane.kernel.channel import NETFILTER, ROUTE, listen_to
from dataplane.kernel.namespaces import DIRECTORY
from dataplane.kernel.wire import Message, attributes, chars, messages
from dataplane.netlink.names import TABLE
from dataplane.netlink.namespaces import Namespace
from dataplane.netlink.precedence import Precedence
from dataplane.netlink.standing import ChainKey, ElementKey, EntryKey, elements_of

_NEIGHBORS, _FILTERS = 1 << 2, 1 << 6
_GONE = 29
"""RTM_DELNEIGH."""
_IN_ROUTER = 1 << 0 | 1 << 4 | 1 << 6 | 1 << 7 | 1 << 23
"""Links, IPv4 addresses, routes, rules, settings of devices (RTNLGRP_*)."""
_NFTABLES = 10
_CHAIN_KINDS, _RULE_KINDS, _SET_KINDS, _ELEMENT_KINDS, _TABLE_KINDS = {3, 5}, {6, 8}, {9, 11}, {12, 14}, {0, 2}
_SO_ATTACH_FILTER = 26
_IN_DELETE, _IN_MOVED_FROM = 0x200, 0x40
_QUIET_S, _PATIENCE_S = 0.05, 0.3
_IDLE_S = 5.0
_MOST = 256
"""Datagrams taken from a socket in one go."""
_MANY = 1000
_log = logging.getLogger(__name__)

# Classic BPF over a netlink message: kind at 4, who asked at 12, the family of a neighbour message at 16.
_LOAD_WORD, _LOAD_BYTE, _EQUALS, _RETURN = 0x20, 0x30, 0x15, 0x06
_Program = tuple[tuple[int, int, int, int], ...]
EVERY = 0
"""In the place of a device's index."""
_MOST_MUTED = 60


def _of_bridges_without(devices: Collection[int]) -> _Program:
    """Notices of forwarding entries, but for those about one MAC at these devices."""
    everywhere = EVERY in devices or len(devices) > _MOST_MUTED
    named = () if everywhere else tuple(devices)
    # Jumps count from the next instruction: after the comparisons come what to do with others, and with these.
    others: _Program = () if everywhere else ((_RETURN, 0, 0, 0xFFFFFFFF),)
    at_device: _Program = () if everywhere else ((_LOAD_WORD, 0, 0, 20),)
    is_named = tuple((_EQUALS, len(named) - number, 0, _as_loaded(one)) for number, one in enumerate(named))
    skip = len(at_device) + len(is_named) + len(others) + 3
    return (
        (_LOAD_BYTE, 0, 0, 16),
        (_EQUALS, 0, skip, socket.AF_BRIDGE),
        *at_device,
        *is_named,
        *others,
        # The MAC, of four bytes all zero: where group frames go.
        (_LOAD_WORD, 0, 0, 32),
        (_EQUALS, 0, 1, 0),
        (_RETURN, 0, 0, 0xFFFFFFFF),
        (_RETURN, 0, 0, 0),
    )


def _as_loaded(number: int) -> int:
    return int.from_bytes(number.to_bytes(4, sys.byteorder), "big")


def _asked_by_others(number: int) -> _Program:
    return (
        (_LOAD_WORD, 0, 0, 12),
        (_EQUALS, 1, 0, _as_loaded(number)),
        (_RETURN, 0, 0, 0xFFFFFFFF),
        (_RETURN, 0, 0, 0),
    )


@dataclass(slots=True)
class Suspicion:
    """What may have been touched. `entries` are (index of bridge or tunnel, MAC), `floods` (tunnel, host) that were
    removed; `chains` were altered for certain."""

    everything: bool = False
    links: set[int] = field(default_factory=set)
    entries: set[EntryKey] = field(default_factory=set)
    floods: set[EntryKey] = field(default_factory=set)
    tables: bool = False
    chains: set[ChainKey] = field(default_factory=set)
    sets: set[str] = field(default_factory=set)
    elements: set[ElementKey] = field(default_factory=set)
    routers: set[str] = field(default_factory=set)
    names: set[str] = field(default_factory=set)

    def note_elements(self, message: Message, set_name: str) -> None:
        """One by one while they are few, else the whole set."""
        if set_name in self.sets:
            return
        self.elements.update(key for key, _ in elements_of(message))
        if len(self.elements) > _MANY:
            self.sets |= {name for name, _ in self.elements}
            self.elements.clear()

    def note_entries(self, found: set[EntryKey]) -> None:
        """One by one while they are few."""
        self.entries |= found
        if len(self.entries) > _MANY:
            # The MAC that is none stands for all.
            self.entries = {(index, bytes(6)) for index, _ in self.entries}

    def __bool__(self) -> bool:
        parts = (self.links, self.entries, self.floods, self.chains, self.sets, self.elements, self.routers, self.names)
        return self.everything or self.tables or any(parts)


class Notices:
    """One thread that listens. Thread safe. `suspect` is called in that thread once things have been quiet a moment."""

    def __init__(self, suspect: Callable[[Suspicion], None], precedence: Precedence) -> None:
        self._suspect = suspect
        self._precedence = precedence
        self._lock = threading.Lock()
        self._suspicion = Suspicion()
        self._since = 0.0
        self._selector = selectors.DefaultSelector()
        self._routers: dict[str, socket.socket] = {}
        self._sockets: list[socket.socket] = []
        self._neighbors: socket.socket | None = None
        self._muted: Counter[int] = Counter()
        self._unheard: set[int] = set()
        self._files = -1
        self._woken, self._waker = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="netlink-notices", daemon=True)

    def open(self, own: int) -> None:
        """In the host's network namespace; `own` is the number of the socket that this agent changes the filter by.
        Raises OSError; to be closed in any case."""
        self._selector.register(self._woken, selectors.EVENT_READ, lambda: os.read(self._woken, 4096))
        neighbors = listen_to(ROUTE, _NEIGHBORS)
        self._sockets.append(neighbors)
        _attach(neighbors, _of_bridges_without(()))
        filters = listen_to(NETFILTER, _FILTERS)
        self._sockets.append(filters)
        _attach(filters, _asked_by_others(own))
        self._neighbors = neighbors
        self._selector.register(neighbors, selectors.EVENT_READ, lambda: self._take_entries(neighbors))
        self._selector.register(filters, selectors.EVENT_READ, lambda: self._take_filters(filters))
        self._files = _watch_removals(DIRECTORY)
        self._selector.register(self._files, selectors.EVENT_READ, self._take_names)
        self._thread.start()

    def close(self) -> None:
        self._closing.set()
        with contextlib.suppress(OSError):
            os.write(self._waker, b"\0")
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(1.0)
        with self._lock:
            for one in (*self._sockets, *self._routers.values()):
                one.close()
            self._sockets.clear()
            self._routers.clear()
            self._neighbors = None
            if not self._thread.is_alive():
                self._selector.close()
                for fd in (self._files, self._woken, self._waker):
                    if fd >= 0:
                        os.close(fd)
                self._files = self._woken = self._waker = -1

    def follow(self, router_id: str, router: Namespace) -> None:
        """Listen in a router's namespace. Raises OSError."""
        made = router.listening(_IN_ROUTER)
        try:
            _attach(made, _asked_by_others(router.channel.number))
        except OSError:
            made.close()
            raise
        with self._lock:
            self._routers[router_id] = made
            self._selector.register(made, selectors.EVENT_READ, lambda: self._take_router(router_id, made))
        self._wake()

    def unfollow(self, router_id: str) -> None:
        """Nothing is left open in the namespace."""
        with self._lock:
            known = self._routers.pop(router_id, None)
            if known is not None:
                self._selector.unregister(known)
                known.close()

    @contextlib.contextmanager
    def muted(self, devices: Collection[int] = (EVERY,)) -> Iterator[None]:
        """While this agent changes many forwarding entries of these devices: notices do not say whose doing it was.
        They are given in the call that changes them, so none is late; what others do meanwhile is to be looked for.
        Where group frames go is heard in any case."""
        self._mute(devices, 1)
        try:
            yield
        finally:
            self._mute(devices, -1)

    def take_unheard(self) -> set[int]:
        """The devices of which notices were not heard since the last call; EVERY among them: of all."""
        with self._lock:
            taken, self._unheard = self._unheard, set(self._muted)
            return taken

    def _mute(self, devices: Collection[int], more: int) -> None:
        with self._lock:
            for device in devices:
                self._muted[device] += more
            self._muted = +self._muted
            self._unheard.update(devices)
            if self._neighbors is not None:
                _attach(self._neighbors, _of_bridges_without(self._muted))

    def suspect_link(self, index: int) -> None:
        with self._lock:
            self._suspicion.links.add(index)
        self._wake()

    def _wake(self) -> None:
        with contextlib.suppress(OSError):
            os.write(self._waker, b"\0")

    # -- the thread

    def _loop(self) -> None:
        while not self._closing.is_set():
            ready = self._selector.select(_QUIET_S if self._since else _IDLE_S)
            self._precedence.give_way(self._closing)
            for key, _ in ready:
                # A router's socket may be closed meanwhile: the router is gone.
                with contextlib.suppress(OSError):
                    key.data()
            self._hand_on(quiet=not ready)

    def _hand_on(self, *, quiet: bool) -> None:
        now = time.monotonic()
        with self._lock:
            if not self._suspicion:
                self._since = 0.0
                return
            self._since = self._since or now
            if not quiet and now - self._since < _PATIENCE_S:
                return
            taken, self._suspicion, self._since = self._suspicion, Suspicion(), 0.0
        if self._closing.is_set():
            return
        try:
            self._suspect(taken)
        except Exception:  # what went wrong this time is looked at again by the next check
            _log.exception("cannot put back what somebody else changed")

    def _datagrams(self, source: socket.socket) -> Iterator[bytes]:
        for _ in range(_MOST):
            try:
                yield source.recv(1 << 18)
            except BlockingIOError:
                return
            except OSError as problem:
                if problem.errno == 105:  # ENOBUFS: some were lost
                    with self._lock:
                        self._suspicion.everything = True
                return

    def _take_entries(self, source: socket.socket) -> None:
        found: set[EntryKey] = set()
        floods: dict[EntryKey, bool] = {}
        for data in self._datagrams(source):
            for message in messages(data):
                if len(message.body) < 12:
                    continue
                (index,) = struct.unpack_from("=i", message.body, 4)
                parts = attributes(message.body, 12)
                mac, master = parts.get(2, b""), parts.get(9)
                if any(mac):
                    found.add((index if master is None else struct.unpack("=i", master)[0], mac))
                else:
                    floods[index, parts.get(1, b"")] = message.kind == _GONE
        with self._lock:
            self._suspicion.note_entries(found)
            for flood, gone in floods.items():
                (self._suspicion.floods.add if gone else self._suspicion.floods.discard)(flood)

    def _take_filters(self, source: socket.socket) -> None:
        for data in self._datagrams(source):
            for message in messages(data):
                if message.kind >> 8 == _NFTABLES and len(message.body) >= 4:
                    self._note_filter(message)

    def _note_filter(self, message: Message) -> None:
        kind, body = message.kind & 0xFF, message.body
        parts = attributes(body, 4)
        if chars(parts.get(1, b"")) != TABLE:
            return
        with self._lock:
            if kind in _ELEMENT_KINDS:
                self._suspicion.note_elements(message, chars(parts.get(2, b"")))
            elif kind in _RULE_KINDS:
                self._suspicion.chains.add((body[0], chars(parts.get(2, b""))))
            elif kind in _CHAIN_KINDS:
                self._suspicion.chains.add((body[0], chars(parts.get(3, b""))))
            elif kind in _TABLE_KINDS | _SET_KINDS:
                self._suspicion.tables = True

    def _take_router(self, router_id: str, source: socket.socket) -> None:
        for _ in self._datagrams(source):
            with self._lock:
                self._suspicion.routers.add(router_id)

    def _take_names(self) -> None:
        data = os.read(self._files, 1 << 16)
        offset = 0
        while offset + 16 <= len(data):
            _, _, _, length = struct.unpack_from("=iIII", data, offset)
            name = chars(data[offset + 16 : offset + 16 + length].partition(b"\0")[0])
            with self._lock:
                self._suspicion.names.add(name)
            offset += 16 + length


def _attach(listening: socket.socket, program: _Program) -> None:
    code = b"".join(struct.pack("=HBBI", *one) for one in program)
    buffer = ctypes.create_string_buffer(code)
    listening.setsockopt(
        socket.SOL_SOCKET, _SO_ATTACH_FILTER, struct.pack("HP", len(program), ctypes.addressof(buffer))
    )


def _watch_removals(directory: object) -> int:
    """An inotify descriptor that tells of names taken away. Raises OSError."""
    DIRECTORY.mkdir(parents=True, exist_ok=True)
    libc = ctypes.CDLL(None, use_errno=True)
    fd: int = libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
    if fd < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), "inotify")
    if libc.inotify_add_watch(fd, str(directory).encode(), _IN_DELETE | _IN_MOVED_FROM) < 0:
        number = ctypes.get_errno()
        os.close(fd)
        raise OSError(number, os.strerror(number), str(directory))
    return fd
