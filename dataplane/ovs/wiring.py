"""Which device carries which port."""

from __future__ import annotations

from collections.abc import Iterable

from dataplane.model import PortWanted
from dataplane.ovs.ovsdb import Device, Ovsdb


class Wiring:
    """Wanted ports, and the device that each is wired to. Not thread safe: the caller's lock guards it."""

    def __init__(self, ovsdb: Ovsdb, bridge: str) -> None:
        self._ovsdb = ovsdb
        self._bridge = bridge
        self._ports: dict[str, PortWanted] = {}
        self._devices: dict[str, Device] = {}
        self._by_device_name: dict[str, dict[str, None]] = {}
        self._by_ofport: dict[int, str] = {}

    def __len__(self) -> int:
        return len(self._devices)

    def port(self, port_id: str) -> PortWanted | None:
        return self._ports.get(port_id)

    def port_at(self, ofport: int) -> PortWanted | None:
        port_id = self._by_ofport.get(ofport)
        return self._ports.get(port_id) if port_id is not None else None

    def ofport_of(self, port_id: str) -> int | None:
        device = self._devices.get(port_id)
        return device.ofport if device is not None else None

    def want(self, wanted: PortWanted) -> PortWanted | None:
        """Note a port; returns the form it had before, if any."""
        before = self._ports.get(wanted.id)
        if before is None:
            self._by_device_name.setdefault(wanted.port.device_name, {})[wanted.id] = None
        self._ports[wanted.id] = wanted
        return before

    def forget(self, port_id: str) -> tuple[PortWanted | None, Device | None, frozenset[str]]:
        """Forget a port; returns what it was, the device that it was wired to, and ports that may now have it."""
        before = self._ports.pop(port_id, None)
        heirs: frozenset[str] = frozenset()
        if before is not None:
            same_name = self._by_device_name.get(before.port.device_name, {})
            same_name.pop(port_id, None)
            heirs = frozenset(same_name)
            if not same_name:
                self._by_device_name.pop(before.port.device_name, None)
        return before, self.unwire(port_id), heirs

    def wire(self, port_id: str, device: Device, ofport: int) -> bool:
        """Note the device that carries a port. Returns whether another or none did before."""
        before = self.unwire(port_id)
        self._devices[port_id] = device
        self._by_ofport[ofport] = port_id
        return before is None or (before.name, before.ofport) != (device.name, ofport)

    def unwire(self, port_id: str) -> Device | None:
        device = self._devices.pop(port_id, None)
        if device is not None and device.ofport is not None and self._by_ofport.get(device.ofport) == port_id:
            del self._by_ofport[device.ofport]
        return device

    def find_device(self, wanted: PortWanted) -> Device | None:
        """The port's device: by iface-id, else by its name, unless it belongs to another port.

        A device without an iface-id belongs to the first port that came with its name: ids may share 11 characters.
        """
        device = self._ovsdb.by_iface_id(wanted.id)
        if device is not None:
            return device
        device = self._ovsdb.by_name(wanted.port.device_name)
        if device is None or device.iface_id or self._first_of(wanted.port.device_name, wanted.id) != wanted.id:
            return None
        return device

    def device_names(self) -> dict[str, str]:
        """Of the devices that carry ports, by port id."""
        return {port_id: device.name for port_id, device in self._devices.items()}

    def may_be_wanted(self, device: Device) -> bool:
        """Whether the device is or could be that of a wanted port."""
        return device.iface_id in self._ports if device.iface_id else device.name in self._by_device_name

    def _first_of(self, device_name: str, otherwise: str) -> str:
        return next(iter(self._by_device_name.get(device_name, ())), otherwise)

    def why_unwired(self, wanted: PortWanted, device: Device | None) -> str:
        name = wanted.port.device_name
        if device is not None:
            return f"device {device.name}: {device.error or 'the switch has given it no port number yet'}"
        other = self._ovsdb.by_name(name)
        if other is not None:
            owner = other.iface_id or self._first_of(name, "")
            return f"device {name} on {self._bridge} belongs to port {owner}"
        return f"device {name} (or external_ids:iface-id={wanted.id}) is not on bridge {self._bridge}"

    def concerned(self, device_names: Iterable[str]) -> frozenset[str]:
        """Ports whose wiring is no longer what it should be, among those that these devices concern."""
        names = set(device_names)
        found = {port_id for name in names for port_id in self._by_device_name.get(name, ())}
        found |= {port_id for port_id, device in self._devices.items() if device.name in names}
        for name in names:
            device = self._ovsdb.by_name(name)
            if device is not None and device.iface_id in self._ports:
                found.add(device.iface_id)
        return frozenset(port_id for port_id in found if self._differs(port_id))

    def _differs(self, port_id: str) -> bool:
        wanted = self._ports.get(port_id)
        if wanted is None:
            return False
        device, wired = self.find_device(wanted), self._devices.get(port_id)
        if device is None or wired is None:
            return device is not wired
        return any(getattr(device, name) != getattr(wired, name) for name in ("ofport", "name", "error", "is_down"))
