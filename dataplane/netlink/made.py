"""Ports' devices that the agent makes itself, on this data plane."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from dataplane.base import Batch, DataPlaneError, Leftover, Outcome, failed
from dataplane.devices.maker import PortDevices
from dataplane.devices.spec import ALIAS
from dataplane.kernel.wire import KernelError
from dataplane.model import Key, Kind, PortWanted
from dataplane.netlink.links import Links


class MadeTrace(NamedTuple):
    """Handle of a leftover: all that was made for a port."""

    port_id: str
    tag: str = "made"


class MadeDevices:
    """Thread safe, but never for one port in two threads at once."""

    def __init__(self, devices: PortDevices, links: Links) -> None:
        self._devices = devices
        self._links = links

    def open(self) -> None:
        """In the host's network namespace."""
        self._devices.open()

    def close(self) -> None:
        """What was made stays."""
        self._devices.close()

    def make(self, batches: Sequence[Batch]) -> dict[Key, Outcome]:
        """What the ports in these want; returns what goes wrong. Raises DataPlaneError."""
        wanted = (item for batch in batches for item in batch.upserts if isinstance(item, PortWanted))
        try:
            # A device that says whose it is was made for the port by somebody else.
            ensured = self._devices.ensure(port for port in wanted if self._links.aliased(port.id) is None)
        except (OSError, KernelError) as problem:
            raise DataPlaneError(f"the kernel makes no devices: {problem}") from problem
        for port_id, made in ensured.made.items():
            self._links.note(made.ifindex, made.name, ALIAS + port_id)
        return {Key(Kind.PORT, port_id): failed(why) for port_id, why in ensured.problems.items()}

    def remove(self, batches: Sequence[Batch]) -> dict[Key, Outcome]:
        """Those of ports that are removed in these; returns what goes wrong. Raises DataPlaneError."""
        removed = [port_id for batch in batches if batch.kind is Kind.PORT for port_id in batch.removals]
        try:
            wrong = self._devices.remove(removed)
        except (OSError, KernelError) as problem:
            raise DataPlaneError(f"the kernel removes no devices: {problem}") from problem
        return {Key(Kind.PORT, port_id): failed(why) for port_id, why in wrong.items()}

    # -- what an earlier agent made for ports that nobody wants

    def leftovers(self, unsettled: Collection[Key]) -> list[Leftover]:
        """Raises KernelError, OSError."""
        spared = {key.id for key in unsettled if key.kind in (Kind.PORT, Kind.DHCP)}
        strays = self._devices.strays(spared)
        return [Leftover(f"device made for port {port_id}", MadeTrace(port_id)) for port_id in strays]

    def sweep(self, left: Sequence[Leftover]) -> int:
        """Takes those away that are still not wanted; how many. Raises KernelError, OSError."""
        swept = self._devices.sweep(one.handle.port_id for one in left if isinstance(one.handle, MadeTrace))
        problems = [problem for problem in swept.values() if problem]
        if problems:
            raise OSError("; ".join(problems))
        return len(swept)
