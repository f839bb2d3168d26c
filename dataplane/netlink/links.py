"""The devices of the host, kept up to date by the kernel's notices."""

from __future__ import annotations

import logging
import selectors
import socket
import threading
from collections.abc import Callable, Iterable
from functools import partial

from dataplane.kernel.channel import ROUTE, Channel, listen_to
from dataplane.kernel.rtnl import DEL_LINK, NEW_LINK, Link, is_bridge_notice, link_of, list_links
from dataplane.kernel.wire import Message, messages
from dataplane.netlink.precedence import Precedence

_LINK_GROUP = 1
_TURN_S = 0.5
_MOST = 256
"""Datagrams taken in one go."""


class Links:
    """Thread safe. Both are called in the thread that listens, or catches up: `changed` with the devices before and
    after, `stirred` with the index of a bridge port whose settings may have changed."""

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
        self._reading = threading.Lock()
        """One datagram is noted before the next is taken."""
        self._by_index: dict[int, Link] = {}
        self._by_name: dict[str, Link] = {}
        self._by_alias: dict[str, Link] = {}
        self._closing = threading.Event()
        self._socket: socket.socket | None = None
        self._thread = threading.Thread(target=self._loop, name="netlink-links", daemon=True)

    def start(self) -> None:
        """In the network namespace of the calling thread. Raises OSError."""
        self._socket = listen_to(ROUTE, _LINK_GROUP)
        self._ask = Channel(ROUTE)
        _tell(self._note_everything())
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

    def _note_everything(self) -> list[Callable[[], None]]:
        """Returns what is to be told of it."""
        found = {link.ifindex: link for link in map(link_of, self._ask.dump(list_links()))}
        with self._lock:
            before = dict(self._by_index)
            for link in before.values():
                self._drop(link)
            for link in found.values():
                self._put(link)
        return [
            partial(self._changed, before.get(index), found.get(index))
            for index in before.keys() | found.keys()
            if before.get(index) != found.get(index)
        ]

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
        with selectors.DefaultSelector() as selector:
            selector.register(self._socket, selectors.EVENT_READ)
            while not self._closing.is_set():
                if not selector.select(_TURN_S):
                    continue
                self._precedence.give_way(self._closing)
                self._take_some(self._socket)

    def catch_up(self) -> None:
        """Know what the kernel has said until now: who listens may be behind."""
        if self._socket is not None:
            self._take_some(self._socket)

    def _take_some(self, source: socket.socket) -> None:
        """What there is, but for who goes on for ever."""
        for _ in range(_MOST):
            lost = False
            with self._reading:
                try:
                    told = self._note_all(source.recv(1 << 18))
                except BlockingIOError:
                    return
                except OSError:
                    if self._closing.is_set():
                        return
                    # Notices were lost (ENOBUFS): look at everything.
                    lost, told = True, self._note_everything()
            # Not while reading: whoever is told may wait for somebody who wants to catch up.
            _tell(told)
            if lost:
                return

    def _note_all(self, data: bytes) -> list[Callable[[], None]]:
        """Returns what is to be told of it."""
        told: list[Callable[[], None]] = []
        for message in messages(data):
            link = _link_in(message)
            if link is None:
                continue
            if is_bridge_notice(message):
                told.append(partial(self._stirred, link.ifindex))
                continue
            after = link if message.kind == NEW_LINK else None
            with self._lock:
                before = self._by_index.get(link.ifindex)
                if before is not None:
                    self._drop(before)
                if after is not None:
                    self._put(after)
            if before != after:
                told.append(partial(self._changed, before, after))
        return told


def _link_in(message: Message) -> Link | None:
    if message.kind not in (NEW_LINK, DEL_LINK):
        return None
    try:
        return link_of(message)
    except Exception:  # one notice must not end the thread
        logging.getLogger(__name__).exception("cannot read what the kernel says of a device")
        return None


def _tell(told: Iterable[Callable[[], None]]) -> None:
    for one in told:
        try:
            one()
        except Exception:  # one notice must not end the thread
            logging.getLogger(__name__).exception("cannot follow a change of a device")
