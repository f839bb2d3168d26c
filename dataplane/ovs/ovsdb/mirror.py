"""Follows the database and keeps what is asked often: the devices and tunnels of one bridge.

Fed by the change events of the IDL, so one change costs nothing for the ports that did not change. Used by the
owner thread only; what it hands out is immutable.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any
from uuid import UUID

from dataplane.addresses import AddressError, parse_mac
from dataplane.ovs.ovsdb.model import BridgeState, Device
from dataplane.ovs.ovsdb.operations import FLOW_RESTORE_WAIT, IFACE_ID
from dataplane.ovs.ovsdb.rows import BridgeRow, InterfaceRow, RootRow

COLUMNS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "Open_vSwitch": ("bridges", "next_cfg", "cur_cfg", "other_config"),
        "Bridge": (
            "name",
            "ports",
            "datapath_type",
            "datapath_id",
            "fail_mode",
            "protocols",
            "controller",
            "other_config",
            "external_ids",
        ),
        "Controller": ("target",),
        "Port": ("name", "interfaces"),
        "Interface": (
            "name",
            "type",
            "options",
            "external_ids",
            "ofport",
            "ofport_request",
            "ifindex",
            "mac_in_use",
            "mtu",
            "mtu_request",
            "admin_state",
            "error",
        ),
    }
)
"""What is monitored. Statistics and link states, which change all the time, are left out on purpose."""

KERNEL_DEVICES = ("", "system")
GONE = "the host has no such device any more"


class RestartCanary:
    """Notices restarts of ovs-vswitchd: each start gives a tunnel port a new random address (mac_in_use).

    An address that goes away (the database restarted, the port was refused) says nothing; another one does. A
    tunnel that is recreated looks the same, which is harmless: its flows want a look as well. Outlives connections.
    """

    __slots__ = ("_addresses", "restarts")

    def __init__(self) -> None:
        self._addresses: dict[str, str] = {}
        self.restarts = 0

    def saw(self, addresses: Mapping[str, str]) -> None:
        """Take in the addresses of all tunnels there are (by name, empty if unknown)."""
        known = {name: self._addresses.get(name, "") for name in addresses}
        if any(known[name] and address and address != known[name] for name, address in addresses.items()):
            self.restarts += 1
        self._addresses = {name: address or known[name] for name, address in addresses.items()}


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What other threads read."""

    devices: Mapping[str, Device] = field(default_factory=dict)
    by_iface_id: Mapping[str, Device] = field(default_factory=dict)
    bridge: BridgeState | None = None


@dataclass(frozen=True, slots=True)
class Changes:
    """What a refresh found: names of devices, and whether the bridge's state differs."""

    devices: frozenset[str]
    bridge: bool


class Mirror:
    """The view of one connection; implements `rows.View`."""

    def __init__(self, bridge_name: str, tables: Any, canary: RestartCanary) -> None:
        self.bridge_name = bridge_name
        self._tables = tables
        self._canary = canary
        self._dirty: dict[str, set[UUID]] = {table: set() for table in COLUMNS}
        self._named: dict[str, dict[str, UUID]] = {"Port": {}, "Interface": {}}
        self._bridge: UUID | None = None
        self._attached: dict[int, UUID] = {}
        self._ports: dict[UUID, tuple[UUID, ...]] = {}
        self._owner: dict[UUID, UUID] = {}
        self._names: dict[UUID, str] = {}
        self._devices: dict[str, Device] = {}
        self._holders: dict[str, set[str]] = {}
        self._by_iface_id: dict[str, Device] = {}
        self._tunnels: dict[str, tuple[InterfaceRow, str]] = {}
        self.snapshot = Snapshot()

    # ---- events of the IDL

    def note(self, event: str, row: Any, updates: Any = None) -> None:
        """The IDL's notify hook: remember what changed, look at it when the whole update is in."""
        table = row._table.name
        self._dirty[table].add(row.uuid)
        if table in self._named:
            names = self._named[table]
            name = _one(row, "name")
            if event != "delete":
                names[name] = row.uuid
            elif names.get(name) == row.uuid:
                # Else a new row of the same name was seen first: the order within one update is not defined.
                del names[name]

    def refresh(self) -> Changes | None:
        """Take in what was noted and replace the snapshot. None if nothing was noted."""
        if not any(self._dirty.values()):
            return None
        dirty, self._dirty = self._dirty, {table: set() for table in COLUMNS}
        interfaces = dirty["Interface"]
        gone: set[UUID] = set()
        if dirty["Bridge"]:
            self._follow_bridge(dirty["Port"], gone)
        for port in dirty["Port"] & self._ports.keys():
            self._follow_port(port, interfaces, gone)
        changed: set[str] = set()
        for interface in gone - self._owner.keys():
            self._forget(interface, changed)
        for interface in interfaces & self._owner.keys():
            self._read(interface, changed)
        return self._publish(changed)

    def _follow_bridge(self, dirty_ports: set[UUID], gone: set[UUID]) -> None:
        rows = self._tables["Bridge"].rows
        row = rows.get(self._bridge) if self._bridge is not None else None
        if row is None:
            row = next((r for r in rows.values() if _one(r, "name") == self.bridge_name), None)
            self._bridge = row.uuid if row is not None else None
        # Compared as integers: a UUID is hashed in Python, which for 1000 ports would be felt.
        now = {uuid.int: uuid for uuid in _uuids(row, "ports")} if row is not None else {}
        for number in self._attached.keys() - now.keys():
            for interface in self._ports.pop(self._attached[number]):
                del self._owner[interface]
                gone.add(interface)
        for number in now.keys() - self._attached.keys():
            self._ports[now[number]] = ()
            dirty_ports.add(now[number])
        self._attached = now

    def _follow_port(self, port: UUID, interfaces: set[UUID], gone: set[UUID]) -> None:
        row = self._tables["Port"].rows.get(port)
        members = _uuids(row, "interfaces") if row is not None else ()
        for interface in self._ports[port]:
            if interface not in members and self._owner.get(interface) == port:
                del self._owner[interface]
                gone.add(interface)
        for interface in members:
            if self._owner.get(interface) != port:
                self._owner[interface] = port
                interfaces.add(interface)
        self._ports[port] = members

    def _forget(self, interface: UUID, changed: set[str]) -> None:
        name = self._names.pop(interface, None)
        if name is None:
            return
        self._tunnels.pop(name, None)
        self._set_device(name, None, changed)

    def _read(self, interface: UUID, changed: set[str]) -> None:
        row = self._tables["Interface"].rows.get(interface)
        if row is None:
            return
        name = _one(row, "name")
        self._names[interface] = name
        plain = self._interface_row(row)
        is_tunnel = plain.is_tunnel
        if is_tunnel:
            self._tunnels[name] = (plain, _one(row, "mac_in_use") or "")
        else:
            self._tunnels.pop(name, None)
        is_device = not is_tunnel and name != self.bridge_name
        self._set_device(name, _device(row, plain) if is_device else None, changed)

    def _set_device(self, name: str, device: Device | None, changed: set[str]) -> None:
        before = self._devices.get(name)
        if device is None:
            self._devices.pop(name, None)
        else:
            self._devices[name] = device
        if before is not None and before.iface_id and (device is None or device.iface_id != before.iface_id):
            self._holders[before.iface_id].discard(name)
            self._choose_holder(before.iface_id)
        if device is not None and device.iface_id:
            self._holders.setdefault(device.iface_id, set()).add(name)
            self._choose_holder(device.iface_id)
        if _notable(before) != _notable(device):
            changed.add(name)

    def _choose_holder(self, iface_id: str) -> None:
        """Of several interfaces with one id (a device being replaced) the attached one, then the first by name."""
        holders = self._holders[iface_id]
        if not holders:
            del self._holders[iface_id]
            del self._by_iface_id[iface_id]
            return
        best = min(holders, key=lambda name: (self._devices[name].ofport is None, name))
        self._by_iface_id[iface_id] = self._devices[best]

    def _publish(self, changed: set[str]) -> Changes:
        self._canary.saw({name: address for name, (_, address) in self._tunnels.items()})
        old = self.snapshot
        bridge = self._bridge_state()
        self.snapshot = Snapshot(
            MappingProxyType(dict(self._devices)), MappingProxyType(dict(self._by_iface_id)), bridge
        )
        return Changes(frozenset(changed), bridge != old.bridge)

    def _bridge_state(self) -> BridgeState | None:
        bridge = self.bridge()
        root = self.root()
        if bridge is None or root is None:
            return None
        tunnels = [row for row, _ in self._tunnels.values()]
        return BridgeState(
            name=bridge.name,
            datapath_id=bridge.datapath_id,
            datapath_type=bridge.datapath_type,
            fail_mode=bridge.fail_mode,
            protocols=bridge.protocols,
            external_ids=MappingProxyType(dict(bridge.external_ids)),
            ports=MappingProxyType({t.name: t.ofport for t in tunnels if t.ofport and t.ofport > 0}),
            errors=MappingProxyType({t.name: t.error for t in tunnels if t.error}),
            flow_restore_wait=root.other_config.get(FLOW_RESTORE_WAIT, "").lower() == "true",
            restarts=self._canary.restarts,
        )

    # ---- the view of requests

    def root(self) -> RootRow | None:
        row = next(iter(self._tables["Open_vSwitch"].rows.values()), None)
        if row is None:
            return None
        return RootRow(str(row.uuid), _one(row, "next_cfg"), _one(row, "cur_cfg"), _strings(row, "other_config"))

    def bridge(self) -> BridgeRow | None:
        row = self._tables["Bridge"].rows.get(self._bridge) if self._bridge is not None else None
        if row is None:
            return None
        return BridgeRow(
            uuid=str(row.uuid),
            name=self.bridge_name,
            datapath_type=_one(row, "datapath_type"),
            datapath_id=_one(row, "datapath_id") or "",
            fail_mode=_one(row, "fail_mode") or "",
            protocols=frozenset(atom.value for atom in row._data["protocols"].values),
            controllers=frozenset(
                _one(self._tables["Controller"].rows[uuid], "target")
                for uuid in _uuids(row, "controller")
                if uuid in self._tables["Controller"].rows
            ),
            other_config=_strings(row, "other_config"),
            external_ids=_strings(row, "external_ids"),
        )

    def interface(self, name: str) -> InterfaceRow | None:
        uuid = self._named["Interface"].get(name)
        row = self._tables["Interface"].rows.get(uuid) if uuid is not None else None
        return self._interface_row(row) if row is not None else None

    def has_port(self, name: str) -> bool:
        return name in self._named["Port"]

    def _interface_row(self, row: Any) -> InterfaceRow:
        port = self._owner.get(row.uuid)
        kind = _one(row, "type")
        # The switch in user space keeps the number of a port whose device is gone and writes no error; only the
        # index becomes 0. It is not set at all for a moment after a restart of the database, which means nothing.
        is_gone = kind in KERNEL_DEVICES and _one(row, "ifindex") == 0
        return InterfaceRow(
            uuid=str(row.uuid),
            name=_one(row, "name"),
            port=str(port) if port is not None else "",
            alone=port is None or len(self._ports[port]) == 1,
            kind=kind,
            options=_strings(row, "options"),
            external_ids=_strings(row, "external_ids"),
            ofport=None if is_gone else _one(row, "ofport"),
            ofport_request=_one(row, "ofport_request"),
            mtu_request=_one(row, "mtu_request"),
            error=_one(row, "error") or (GONE if is_gone else ""),
        )


def _device(row: Any, plain: InterfaceRow) -> Device:
    address = _one(row, "mac_in_use")
    try:
        mac = parse_mac(address) if address else None
    except AddressError:
        mac = None
    return Device(
        name=plain.name,
        iface_id=plain.external_ids.get(IFACE_ID, ""),
        ofport=plain.ofport if plain.ofport is not None and plain.ofport > 0 else None,
        mac=mac,
        mtu=_one(row, "mtu"),
        error=plain.error,
        external_ids=MappingProxyType(dict(plain.external_ids)),
        uuid=plain.uuid,
        ifindex=_one(row, "ifindex") or None,
        is_down=_one(row, "admin_state") == "down",
    )


def _notable(device: Device | None) -> tuple[object, ...] | None:
    """What a change of is worth a call. Not external_ids but iface-id: our own marks are written there."""
    if device is None:
        return None
    wiring = (device.uuid, device.ifindex, device.ofport, device.iface_id, device.error, device.is_down)
    return (*wiring, device.mac, device.mtu)


# Rows are read through the datum behind the attribute: the attribute makes three copies of a value and looks up
# every referred row, several milliseconds for the ports of a bridge with 1000 of them.


def _one(row: Any, column: str) -> Any:
    """A scalar, None if an optional one is not set."""
    values = row._data[column].values
    return next(iter(values)).value if values else None


def _strings(row: Any, column: str) -> dict[str, str]:
    return {key.value: value.value for key, value in row._data[column].values.items()}


def _uuids(row: Any, column: str) -> tuple[UUID, ...]:
    return tuple(atom.value for atom in row._data[column].values)
