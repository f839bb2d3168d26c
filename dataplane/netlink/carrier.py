"""Waiting until devices carry frames: the kernel activates a device after it has said that it is up, in its own time,
and drops what goes there meanwhile."""

from __future__ import annotations

import errno
import socket
import time
from types import TracebackType

from dataplane.kernel.channel import ROUTE, Channel
from dataplane.kernel.rtnl import get_link, operational_state
from dataplane.kernel.wire import KernelError

_LINK_GROUP = 1
"""RTMGRP_LINK (linux/rtnetlink.h)."""
_WITHOUT_CARRIER = frozenset({1, 2, 3})
"""IF_OPER_NOTPRESENT, _DOWN, _LOWERLAYERDOWN (linux/if.h)."""
_ETIMEDOUT = 110
_TIMEOUT_S = 2.0


class Carrier:
    """To be entered before the devices are set up, so that no notice is missed. For one thread, in one namespace."""

    def __enter__(self) -> Carrier:
        self._notices = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, ROUTE)
        self._notices.bind((0, _LINK_GROUP))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._notices.close()

    def wait(self, channel: Channel, index: int, about: str) -> None:
        """Until the device is operational (RFC 2863). Raises KernelError if it is not in time, OSError."""
        deadline = time.monotonic() + _TIMEOUT_S
        while self._is_without(channel, index):
            # Whatever the notice is about, and if some were lost: the state is asked for anew.
            self._notices.settimeout(max(0.001, deadline - time.monotonic()))
            try:
                self._notices.recv(1 << 16)
            except TimeoutError:
                raise KernelError(_ETIMEDOUT, "it has no carrier in time", about) from None
            except OSError as problem:
                if problem.errno != errno.ENOBUFS:
                    raise

    def _is_without(self, channel: Channel, index: int) -> bool:
        (found,) = channel.look_up([get_link(index)])
        return found is not None and operational_state(found) in _WITHOUT_CARRIER
