"""Which device carries which port."""

from __future__ import annotations

from dataplane.devices.maker import PortDevices
from dataplane.kernel.rtnl import Link
from dataplane.model import PortWanted
from dataplane.netlink.links import Links


class Wiring:
    """Wanted ports, and the device that each is wired to. Not thread safe: the caller's lock guards it."""

    def __init__(self, links: Links, own: PortDevices) -> None:
        """`own` are the devices that the agent makes itself, if it does."""
        self._links = links
        self._own = own
        self._ports: dict[str, PortWanted] = {}
        self._wired: dict[str, Link] = {}
        self._by_index: dict[int, dict[str, None]] = {}
        self._by_device_name: dict[str, dict[str, None]] = {}

    def __len__(self) -> int:
        return len(self._wired)

    def port(self, port_id: str) -> PortWanted | None:
        return self._ports.get(port_id)

    def device_of(self, port_id: str) -> Link | None:
        """The device that the port was wired to last."""
        return self._wired.get(port_id)

    def want(self, wanted: PortWanted) -> Link | None:
        """Note a port, wire it if its device is there; returns the device."""
        if wanted.id not in self._ports:
            self._by_device_name.setdefault(wanted.port.device_name, {})[wanted.id] = None
        self._ports[wanted.id] = wanted
        link = self.find(wanted)
        if link is None:
            self._links.catch_up()
            link = self.find(wanted)
        self._unwire(wanted.id)
        if link is not None:
            self._wired[wanted.id] = link
            self._by_index.setdefault(link.ifindex, {})[wanted.id] = None
        return link

    def _unwire(self, port_id: str) -> None:
        link = self._wired.pop(port_id, None)
        if link is not None:
            there = self._by_index[link.ifindex]
            del there[port_id]
            if not there:
                del self._by_index[link.ifindex]

    def forget(self, port_id: str) -> frozenset[str]:
        """Returns the ports that may now have its device."""
        wanted = self._ports.pop(port_id, None)
        self._unwire(port_id)
        if wanted is None:
            return frozenset()
        same_name = self._by_device_name.get(wanted.port.device_name, {})
        same_name.pop(port_id, None)
        if not same_name:
            self._by_device_name.pop(wanted.port.device_name, None)
        return frozenset(same_name)

    def find(self, wanted: PortWanted) -> Link | None:
        """By alias, else the one that was made for it, else by name unless an alias says that it is another's.

        A device without an alias belongs to the first port that came with its name: ids may share 11 characters.
        """
        link = self._links.aliased(wanted.id)
        if link is not None:
            return link
        if self._own.active:
            return self._links.get(self._own.index_of(wanted.id))
        link = self._links.named(wanted.port.device_name)
        if link is None or link.alias or self._first_of(wanted.port.device_name, wanted.id) != wanted.id:
            return None
        return link

    def _first_of(self, device_name: str, otherwise: str) -> str:
        return next(iter(self._by_device_name.get(device_name, ())), otherwise)

    def differs(self, port_id: str) -> bool:
        """Whether the port's device is not the one that it was wired to."""
        wanted, wired = self._ports.get(port_id), self._wired.get(port_id)
        if wanted is None:
            return False
        found = self.find(wanted)
        if found is None or wired is None:
            return found is not wired
        return (found.ifindex, found.name) != (wired.ifindex, wired.name)

    def why_unwired(self, wanted: PortWanted) -> str:
        name = wanted.port.device_name
        if self._own.active:
            return f"the device that was made for port {wanted.id} is gone"
        link = self._links.named(name)
        if link is None:
            return f"device {name} (or one with the alias {wanted.id}) is not there"
        return f"device {name} belongs to {link.alias or self._first_of(name, '')}"

    def concerned(self, *links: Link | None) -> list[str]:
        """Ports that have to do with these devices."""
        found: dict[str, None] = {}
        for link in links:
            if link is not None:
                found.update(self._by_device_name.get(link.name, {}))
                if link.alias in self._ports:
                    found[link.alias] = None
                # A device that was renamed is found by what was wired.
                found.update(self._by_index.get(link.ifindex, {}))
        return list(found)
