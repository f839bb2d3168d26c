"""Network namespaces made before anybody needs one: that takes the kernel as long as all else of a port together.

They have no name: if the agent ends, they end.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import deque
from typing import NamedTuple

from dataplane.kernel.channel import ROUTE, Channel, in_thread, new_namespace
from dataplane.kernel.rtnl import set_up

_SPARE = 2
_AFTER_S, _AGAIN_AFTER_S, _LOOK_S = 0.02, 5.0, 60.0
"""How long the port that has taken one goes first, and how long the kernel is left alone once it has refused."""
_log = logging.getLogger(__name__)


class Bare(NamedTuple):
    """A network namespace, open, its loopback device up."""

    channel: Channel
    fd: int

    def close(self) -> None:
        self.channel.close()
        os.close(self.fd)


def bare_namespace() -> Bare:
    """The calling thread is in it afterwards: see channel.in_thread. Raises OSError."""
    new_namespace()
    fd = os.open(f"/proc/self/task/{threading.get_native_id()}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        channel = Channel(ROUTE)
    except OSError:
        os.close(fd)
        raise
    bare = Bare(channel, fd)
    try:
        refused = channel.submit([set_up(1, "lo")])
        if refused:
            raise OSError(refused[0].code, str(refused[0]))
    except OSError:
        bare.close()
        raise
    return bare


class Spares:
    """A thread keeps some ready. Thread safe; before `start` and after `close` there are none."""

    def __init__(self) -> None:
        self._ready: deque[Bare] = deque()
        self._lock = threading.Lock()
        self._taken = threading.Event()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._keep_ready, name="namespace-spares", daemon=True)

    def start(self) -> None:
        """The first are ready when it returns."""
        self._fill()
        self._thread.start()

    def take(self) -> Bare | None:
        """Whoever takes it closes it. None: there is none just now."""
        with self._lock:
            if not self._ready:
                return None
            self._taken.set()
            return self._ready.popleft()

    def close(self) -> None:
        self._closing.set()
        self._taken.set()
        if self._thread.is_alive():
            self._thread.join(1.0)
        with self._lock:
            left = list(self._ready)
            self._ready.clear()
        for one in left:
            one.close()

    def _keep_ready(self) -> None:
        while not self._closing.is_set():
            if not self._taken.wait(_LOOK_S):
                continue
            self._taken.clear()
            if not self._closing.wait(_AFTER_S) and not self._fill():
                self._closing.wait(_AGAIN_AFTER_S)
                self._taken.set()

    def _fill(self) -> bool:
        try:
            while len(self._ready) < _SPARE and not self._closing.is_set():
                bare = in_thread(bare_namespace)
                with self._lock:
                    self._ready.append(bare)
        except OSError as problem:
            _log.debug("no network namespace is kept ready: %s", problem)
            return False
        return True
