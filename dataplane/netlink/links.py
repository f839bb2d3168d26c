"""The devices of the host, kept up to date by the kernel's notices."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable

from dataplane.kernel.channel import ROUTE, Channel
from dataplane.kernel.rtnl import DEL_LINK, NEW_LINK, Link, is_bridge_notice, link_of, list_links
from dataplane.kernel.wire import messages
from dataplane.netlink.precedence import Precedence

_LINK_GROUP = 1
_BUFFER = 8 << 20
_TURN_S = 0.5


class Links:
    """Thread safe. Both are called in the thread that listens: `changed` with the devices before and after, `stirred`
    with the index of a bridge port whose settings may have changed."""

    def __init__(
        self,
        changed: Callable[[Link | None, Link | None], None],
        stirred: Callable[[int], None],
        precedence: Precedence,
    ) -> None:
        self._changed = changed
        self._stirred = stirred
        self._precedence = precedence
        self._lock = threading.Lock()
        self._by_index: dict[int, Link] = {}
        self._by_name: dict[str, Link] = {}
        self._by_alias: dict[str, Link] = {}
        self._closing = threading.Event()
        self._socket: socket.socket | None = None
        self._thread = threading.Thread(target=self._loop, name="netlink-links", daemon=True)

    def start(self) -> None:
        """In the network namespace of the calling thread. Raises OSError."""
        listening = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, ROUTE)
        listening.setsockopt(socket.SOL_SOCKET, 33, _BUFFER)
        listening.bind((0, _LINK_GROUP))
        listening.settimeout(_TURN_S)
        self._socket = listening
        self._ask = Channel(ROUTE)
        self._read_all()
        self._thread.start()

    def close(self) -> None:
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join(2 * _TURN_S)
        if self._socket is not None:
            self._socket.close()
            self._ask.close()

    def named(self, name: str) -> Link | None:
        with self._lock:
            return self._by_name.get(name)

    def aliased(self, alias: str) -> Link | None:
        with self._lock:
            return self._by_alias.get(alias)

    def get(self, index: int) -> Link | None:
        with self._lock:
            return self._by_index.get(index)

    def note(self, index: int, name: str, alias: str) -> None:
        """A device that was made just now: the kernel's notice of it may come later than its first use."""
        with self._lock:
            if index not in self._by_index:
                self._put(Link(index, name, alias, 0, b"", "", True, 0))

    def _read_all(self) -> None:
        found = {link.ifindex: link for link in map(link_of, self._ask.dump(list_links()))}
        with self._lock:
            before = dict(self._by_index)
            for link in before.values():
                self._drop(link)
            for link in found.values():
                self._put(link)
        for index in before.keys() | found.keys():
            if before.get(index) != found.get(index):
                self._changed(before.get(index), found.get(index))

    def _put(self, link: Link) -> None:
        self._by_index[link.ifindex] = self._by_name[link.name] = link
        if link.alias:
            self._by_alias[link.alias] = link

    def _drop(self, link: Link) -> None:
        del self._by_index[link.ifindex]
        for table, key in ((self._by_name, link.name), (self._by_alias, link.alias)):
            if key in table and table[key].ifindex == link.ifindex:
                del table[key]

    def _loop(self) -> None:
        assert self._socket is not None
        while not self._closing.is_set():
            try:
                self._socket.recv(1, socket.MSG_PEEK)
                self._precedence.give_way(self._closing)
                data = self._socket.recv(1 << 18)
            except TimeoutError:
                continue
            except OSError:
                # Notices were lost (ENOBUFS): look at everything.
                if self._closing.is_set():
                    return
                self._read_all()
                continue
            try:
                self._take(data)
            except Exception:  # one notice must not end the thread
                logging.getLogger(__name__).exception("cannot follow a change of a device")

    def _take(self, data: bytes) -> None:
        for message in messages(data):
            if message.kind not in (NEW_LINK, DEL_LINK):
                continue
            link = link_of(message)
            if is_bridge_notice(message):
                self._stirred(link.ifindex)
                continue
            after = link if message.kind == NEW_LINK else None
            with self._lock:
                before = self._by_index.get(link.ifindex)
                if before is not None:
                    self._drop(before)
                if after is not None:
                    self._put(after)
            if before != after:
                self._changed(before, after)
