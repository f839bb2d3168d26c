"""What an agent has left in the database and nobody wants any more: tunnels, devices it made, marks on devices."""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import Future
from typing import NamedTuple

from dataplane.base import Leftover
from dataplane.ovs.bringup import TUNNEL_NAMES
from dataplane.ovs.devices import DeviceMaker, is_made
from dataplane.ovs.ovsdb import BridgeState, Device, Ovsdb, OvsdbError

INSTALLED = "aca-installed"
INSTALLED_AT = "aca-installed-ts"


class What(enum.Enum):
    TUNNEL = "tunnel port"
    MADE_DEVICE = "device that an agent made"
    STRAY = "what an agent made for port"
    """And is not on the bridge, or no longer."""
    MARK = "mark on device"


class DatabaseHandle(NamedTuple):
    what: What
    name: str
    """Of the port or device; of a stray, its port's id."""


def find(
    bridge: BridgeState | None,
    tunnels: Collection[str],
    devices: Iterable[Device],
    is_wanted: Callable[[Device], bool],
    strays: Iterable[str],
) -> list[Leftover]:
    """`tunnels` are the names of those that are configured; `is_wanted` says whether a device may be a port's; `strays`
    are ids of ports that nobody wants, and for which an agent has made something."""
    handles: list[DatabaseHandle] = []
    devices = list(devices)
    on_bridge = {device.iface_id for device in devices if is_made(device)}
    handles += [DatabaseHandle(What.STRAY, port_id) for port_id in strays if port_id not in on_bridge]
    if bridge is not None:
        ours = {*bridge.ports, *bridge.errors} & set(TUNNEL_NAMES.values())
        handles += [DatabaseHandle(What.TUNNEL, name) for name in sorted(ours - set(tunnels))]
    for device in devices:
        if is_wanted(device):
            continue
        if is_made(device):
            handles.append(DatabaseHandle(What.MADE_DEVICE, device.name))
        elif INSTALLED in device.external_ids:
            handles.append(DatabaseHandle(What.MARK, device.name))
    return [Leftover(f"{handle.what.value} {handle.name}", handle) for handle in handles]


def remove(
    handles: Iterable[DatabaseHandle],
    tunnels: Collection[str],
    ovsdb: Ovsdb,
    maker: DeviceMaker,
    is_wanted: Callable[[Device], bool],
    timeout_s: float,
) -> int:
    """Take away those that are still not wanted; how many. Raises OvsdbError or a time-out."""
    waits: list[Future[None]] = []
    made: list[str] = []
    strays: list[str] = []
    for what, name in handles:
        device = ovsdb.by_name(name)
        if what is What.TUNNEL:
            if name not in tunnels:
                waits.append(ovsdb.del_port(name))
        elif what is What.STRAY:
            strays.append(name)
        elif device is None or is_wanted(device):
            continue
        elif what is What.MADE_DEVICE:
            made.append(device.iface_id)
        else:
            waits.append(ovsdb.set_external_ids(name, {INSTALLED: None, INSTALLED_AT: None}))
    for wait in waits:
        wait.result(timeout_s)
    problems = maker.remove(made)
    if problems:
        raise OvsdbError("; ".join(problems.values()))
    return len(waits) + len(made) + maker.sweep(strays)
