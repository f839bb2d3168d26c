"""Devices of ports that a bridge made anew has lost: put back by the agent, since nobody else will.

The compute service attaches a device once. If the database is wiped or the bridge deleted, the devices are still in the
kernel; those that the agent knew, and those whose name is a port's (`tap` + 11 characters), go back on the bridge. Only
devices that existed when the bridge was made: later ones are the compute service's to attach.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

from dataplane.model import PortWanted
from dataplane.ovs.ovsdb import Ovsdb, OvsdbError

_LOG = logging.getLogger(__name__)


class Reattacher:
    """Looks at devices in the agent's network namespace. Thread safe."""

    def __init__(self, ovsdb: Ovsdb, timeout_s: float) -> None:
        self._ovsdb = ovsdb
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._known: dict[str, str] = {}
        """Port id -> name of the device that carried it when the bridge vanished."""
        self._links: dict[str, int] = {}
        """Devices that existed when the bridge was made, name -> index, as far as they are not on it."""
        self._has_lost = False

    def bridge_lost(self, devices: Mapping[str, str]) -> None:
        """The bridge is gone; `devices` are those that carried ports, by port id."""
        with self._lock:
            self._has_lost = True
            self._known.update(devices)

    def bridge_made(self) -> None:
        """The bridge was not there and has been made: remember which devices are there."""
        links = _links()
        with self._lock:
            self._links = links

    def attach(self, ports: Iterable[PortWanted]) -> None:
        """Attach the devices of these ports, which have none on the bridge, and wait for the switch."""
        with self._lock:
            if not self._links:
                return
            chosen = {}
            for wanted in ports:
                name = self._known.get(wanted.id, wanted.port.device_name)
                if name in self._links:
                    chosen[wanted.id] = (name, self._links.pop(name))
                    self._known.pop(wanted.id, None)
        if not chosen:
            return
        links = _links()
        waits: dict[str, Future[int]] = {}
        for port_id, (name, index) in chosen.items():
            if links.get(name) == index and self._ovsdb.by_name(name) is None:
                waits[name] = self._ovsdb.add_port(name, port_id)
        for name, future in waits.items():
            try:
                future.result(self._timeout_s)
                _LOG.info("device %s is on the bridge again", name)
            except (OvsdbError, FutureTimeout) as error:
                # The port stays pending, with what the switch says of the device.
                _LOG.warning("cannot put device %s on the bridge again: %s", name, error or "no answer in time")

    def forget(self, port_id: str) -> None:
        with self._lock:
            self._known.pop(port_id, None)

    def why(self, reason: str) -> str:
        """The reason why a port has no device, with what this knows of it."""
        return f"{reason}; the bridge was made anew, so the device must be attached again" if self._has_lost else reason


def _links() -> dict[str, int]:
    try:
        with IPRoute() as netlink:
            return {link.get_attr("IFLA_IFNAME"): link["index"] for link in netlink.get_links()}
    except (NetlinkError, OSError) as error:
        _LOG.warning("cannot list the host's devices: %s", error)
        return {}
