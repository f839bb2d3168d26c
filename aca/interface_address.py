"""The address of one of the host's interfaces, now and whenever it changes."""

from __future__ import annotations

import os
import select
import socket
import threading
from collections.abc import Callable

import structlog
from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError
from pyroute2.netlink.rtnl import RTMGRP_IPV4_IFADDR, RTMGRP_LINK

from dataplane.addresses import format_address, parse_address
from dataplane.base import DataPlaneError

_GLOBAL = 0
"""RT_SCOPE_UNIVERSE (linux/rtnetlink.h)."""
_SECONDARY = 0x01
"""IFA_F_SECONDARY (linux/if_addr.h)."""
_RETRY_S = 1.0
_IDLE_S = 60.0
"""Looks again even without a notice, as the kernel may lose one."""

_log = structlog.get_logger(__name__)


def address_of(interface: str) -> bytes | None:
    """The interface's first IPv4 address of global scope, 4 bytes; None if it has none, or if there is no such one.

    Raises OSError if the kernel cannot be asked.
    """
    try:
        index = socket.if_nametoindex(interface)
    except OSError:
        return None
    with IPRoute() as kernel:
        for entry in kernel.get_addr(family=socket.AF_INET, index=index):
            if entry["scope"] == _GLOBAL and not entry["flags"] & _SECONDARY:
                return parse_address(entry.get_attr("IFA_LOCAL"))
    return None


class AddressFollower:
    """Calls `changed` with every new address of an interface, in a thread of its own.

    An interface that loses its address keeps its last one here: what goes there cannot be served either way. `changed`
    may raise DataPlaneError; it is called again after a second.
    """

    def __init__(self, interface: str, known: bytes, changed: Callable[[bytes], None]) -> None:
        self._interface = interface
        self._known = known
        self._changed = changed
        self._stop_reading, self._stop_writing = os.pipe()
        self._thread = threading.Thread(target=self._follow, name="address-follower", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Ends at once, unless `changed` is running: that is waited for, a second at most."""
        os.close(self._stop_writing)
        if self._thread.is_alive():
            self._thread.join(1.0)

    def _follow(self) -> None:
        wait = 0.0
        with IPRoute() as kernel:
            kernel.bind(groups=RTMGRP_IPV4_IFADDR | RTMGRP_LINK)
            while True:
                ready, _, _ = select.select([kernel.fileno(), self._stop_reading], [], [], wait)
                if self._stop_reading in ready:
                    os.close(self._stop_reading)
                    return
                wait = self._look(kernel if ready else None)

    def _look(self, told: IPRoute | None) -> float:
        """`told`: the kernel has sent notices. Returns how long to wait for the next."""
        try:
            if told is not None:
                _drain(told)
            address = address_of(self._interface)
            if address is not None and address != self._known:
                _log.info("tunnel address changes", interface=self._interface, address=format_address(address))
                self._changed(address)
                self._known = address
        except (OSError, NetlinkError, DataPlaneError) as problem:
            _log.warning("the tunnel address cannot be followed yet", interface=self._interface, error=str(problem))
            return _RETRY_S
        return _IDLE_S


def _drain(kernel: IPRoute) -> None:
    """What the notices say is looked up anew, so that none of them matters by itself."""
    for _ in kernel.get():
        pass
