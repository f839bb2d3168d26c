"""Devices that the agent makes itself, on the bridge.

Never `type=internal`: such a device dies with the switch (design facts). What is ours carries `aca-made` in the
database, beside the alias that every device has which we made.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout

from dataplane.devices.maker import Made, PortDevices
from dataplane.devices.settings import DeviceSettings
from dataplane.kernel.wire import KernelError
from dataplane.model import PortWanted
from dataplane.ovs.ovsdb import Device, Ovsdb, OvsdbError

MADE = "aca-made"


class DeviceMaker:
    """Makes and removes devices in the agent's network namespace. Thread safe, but never for one port at a time."""

    def __init__(self, settings: DeviceSettings, ovsdb: Ovsdb, timeout_s: float) -> None:
        self._devices = PortDevices(settings)
        self._ovsdb = ovsdb
        self._mtu = settings.mtu
        self._timeout_s = timeout_s

    def open(self) -> None:
        """In the host's network namespace."""
        self._devices.open()

    def close(self) -> None:
        """What was made stays."""
        self._devices.close()

    @property
    def active(self) -> bool:
        return self._devices.active

    def make(self, ports: Iterable[PortWanted], find: Callable[[PortWanted], Device | None]) -> dict[str, str]:
        """Make and attach the devices of ports that have none, and keep those that were made here as wanted.

        Returns what went wrong, by port id.
        """
        if not self._devices.active:
            return {}
        found = {wanted.id: (wanted, find(wanted)) for wanted in ports}
        own = [wanted for wanted, device in found.values() if device is None or is_made(device)]
        try:
            made, problems = self._devices.ensure(own)
        except (OSError, KernelError) as problem:
            return {wanted.id: f"cannot make a device: {problem}" for wanted in own}
        attached = {
            port_id: future
            for port_id, one in made.items()
            if (future := self._attach(port_id, one, found[port_id][1])) is not None
        }
        wrong = dict(problems)
        for port_id, future in attached.items():
            try:
                future.result(self._timeout_s)
            except (OvsdbError, FutureTimeout) as error:
                wrong[port_id] = f"cannot attach the device: {error or 'no answer in time'}"
        return wrong

    def remove(self, port_ids: Collection[str]) -> dict[str, str]:
        """Take devices that were made here off the bridge and away. What is not ours is left alone.

        Returns what went wrong, by port id. Raises OvsdbError or a time-out.
        """
        if not self._devices.active or not port_ids:
            return {}
        devices = (self._ovsdb.by_iface_id(port_id) for port_id in port_ids)
        for wait in [self._ovsdb.del_port(one.name) for one in devices if one is not None and is_made(one)]:
            wait.result(self._timeout_s)
        try:
            return self._devices.remove(port_ids)
        except (OSError, KernelError) as problem:
            return dict.fromkeys(port_ids, f"cannot remove its device: {problem}")

    def strays(self, spared: Collection[str]) -> list[str]:
        """See PortDevices. Raises OvsdbError."""
        try:
            return self._devices.strays(spared)
        except (OSError, KernelError) as problem:
            raise OvsdbError(f"cannot list the devices made for ports: {problem}") from problem

    def sweep(self, port_ids: Collection[str]) -> int:
        """Take strays away that are still no port's; how many. Raises OvsdbError."""
        try:
            swept = self._devices.sweep(port_ids)
        except (OSError, KernelError) as problem:
            raise OvsdbError(f"cannot remove devices made for ports: {problem}") from problem
        problems = [problem for problem in swept.values() if problem]
        if problems:
            raise OvsdbError("; ".join(problems))
        return len(swept)

    def _attach(self, port_id: str, made: Made, device: Device | None) -> Future[int] | None:
        if device is not None:
            if not made.fresh and device.name == made.name:
                return None
            # The switch goes on listening on the one that is gone.
            self._ovsdb.del_port(device.name).result(self._timeout_s)
        return self._ovsdb.add_port(made.name, port_id, mtu=self._mtu, external_ids={MADE: "true"})


def is_made(device: Device) -> bool:
    return device.external_ids.get(MADE) == "true"
