"""What can be asked of the database: each request plans its operations and knows when it is fulfilled. Pure.

A plan is made from the database as it is, so a request is repeated (after a lost connection, a conflict with
another client) by planning it again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from dataplane.ovs.ovsdb import operations
from dataplane.ovs.ovsdb.model import BridgeSpec, OvsdbError, Tunnel
from dataplane.ovs.ovsdb.operations import Operation
from dataplane.ovs.ovsdb.rows import BridgeRow, InterfaceRow, RootRow, View


@dataclass(frozen=True, slots=True)
class Plan:
    """Operations to send. `bump`: make the switch acknowledge; `wait`: done only once it has caught up."""

    operations: tuple[Operation, ...] = ()
    bump: bool = False
    wait: bool = False


@dataclass(frozen=True, slots=True)
class Done:
    """A request is fulfilled, with its result."""

    value: object = None


class Request(Protocol):
    """One thing that is wanted of the database."""

    @property
    def touches(self) -> frozenset[str]:
        """Names of what it changes: two requests that touch one thing are not in one transaction unless merged."""
        ...

    @property
    def alone(self) -> bool:
        """True if it shares its transaction with no other request."""
        ...

    def merge(self, later: Request) -> Request | None:
        """One request that does what both do in this order, or None."""
        ...

    def plan(self, view: View) -> Plan:
        """Raises OvsdbError if it cannot be done."""
        ...

    def outcome(self, view: View) -> Done | None:
        """None while not fulfilled. Asked after the transaction, and after the switch caught up if planned so.

        Raises OvsdbError if it failed.
        """
        ...

    def lacks(self, view: View) -> str:
        """What is missing, in words, when the time is up."""
        ...


@dataclass(frozen=True, slots=True)
class EnsureBridge:
    """Result: tunnel name to OpenFlow port."""

    spec: BridgeSpec

    @property
    def touches(self) -> frozenset[str]:
        return frozenset({self.spec.name, *(tunnel.name for tunnel in self.spec.tunnels)})

    @property
    def alone(self) -> bool:
        return True

    def merge(self, later: Request) -> Request | None:
        return None

    def plan(self, view: View) -> Plan:
        root = _root(view)
        bridge = view.bridge()
        present = {tunnel.name: _own_tunnel(view, tunnel) for tunnel in self.spec.tunnels}
        wanted = list(operations.clear_flow_restore_wait(root))
        if bridge is None:
            if view.has_port(self.spec.name) or view.interface(self.spec.name) is not None:
                raise OvsdbError(f"bridge {self.spec.name}: another bridge has a port of that name")
            wanted += operations.create_bridge(root, self.spec)
        else:
            wanted += operations.update_bridge(bridge, self.spec)
            for tunnel in self.spec.tunnels:
                row = present[tunnel.name]
                wanted += (
                    operations.add_tunnel(bridge, tunnel) if row is None else operations.update_tunnel(row, tunnel)
                )
        # Errors may be out of date, and the running datapath id is gone for a moment after a restart of the
        # database: have the switch look again before either is believed.
        doubtful = bridge is None or not bridge.datapath_id or any(row and row.error for row in present.values())
        return Plan(tuple(wanted), bump=bool(wanted) or doubtful, wait=True)

    def outcome(self, view: View) -> Done | None:
        bridge = view.bridge()
        if bridge is None:
            raise OvsdbError(f"bridge {self.spec.name} was deleted by somebody")
        if not bridge.datapath_id:
            # ovs-vswitchd writes no error for this, only its log has the reason.
            raise OvsdbError(
                f"bridge {self.spec.name}: the switch could not make it with datapath type "
                f"{self.spec.datapath_type!r} (the log of ovs-vswitchd has the reason)"
            )
        ports: dict[str, int] = {}
        for tunnel in self.spec.tunnels:
            row = view.interface(tunnel.name)
            if row is None:
                raise OvsdbError(f"tunnel {tunnel.name} was deleted by somebody")
            if row.error:
                raise OvsdbError(f"tunnel {tunnel.name} ({tunnel.kind}): {row.error}")
            if _valid(row.ofport):
                ports[tunnel.name] = row.ofport or 0
        return Done(ports) if len(ports) == len(self.spec.tunnels) else None

    def lacks(self, view: View) -> str:
        waiting = [t.name for t in self.spec.tunnels if not _has_ofport(view, t.name)]
        return f"bridge {self.spec.name}: no OpenFlow port yet for {', '.join(waiting) or 'nothing'}"


@dataclass(frozen=True, slots=True)
class SetExternalIds:
    """Merge external_ids of an interface on our bridge. None deletes a key."""

    interface: str
    values: Mapping[str, str | None]

    @property
    def touches(self) -> frozenset[str]:
        return frozenset({self.interface})

    @property
    def alone(self) -> bool:
        return False

    def merge(self, later: Request) -> Request | None:
        if isinstance(later, SetExternalIds) and later.interface == self.interface:
            return SetExternalIds(self.interface, {**self.values, **later.values})
        return None

    def plan(self, view: View) -> Plan:
        row = view.interface(self.interface)
        if row is None or not row.port:
            raise OvsdbError(f"bridge {view.bridge_name} has no interface {self.interface}")
        return Plan(operations.merge_map("Interface", row.uuid, "external_ids", row.external_ids, self.values))

    def outcome(self, view: View) -> Done | None:
        row = view.interface(self.interface)
        if row is None or not row.port:
            # A mutation of a row that has just gone is no error for the server.
            raise OvsdbError(f"interface {self.interface} was deleted by somebody")
        return Done()

    def lacks(self, view: View) -> str:
        return f"interface {self.interface}: external_ids not written yet"


@dataclass(frozen=True, slots=True)
class SetBridgeExternalIds:
    """Merge external_ids of our bridge. None deletes a key."""

    bridge: str
    values: Mapping[str, str | None]

    @property
    def touches(self) -> frozenset[str]:
        return frozenset({self.bridge})

    @property
    def alone(self) -> bool:
        return False

    def merge(self, later: Request) -> Request | None:
        if isinstance(later, SetBridgeExternalIds) and later.bridge == self.bridge:
            return SetBridgeExternalIds(self.bridge, {**self.values, **later.values})
        return None

    def plan(self, view: View) -> Plan:
        bridge = _bridge(view)
        return Plan(operations.merge_map("Bridge", bridge.uuid, "external_ids", bridge.external_ids, self.values))

    def outcome(self, view: View) -> Done | None:
        _bridge(view)
        return Done()

    def lacks(self, view: View) -> str:
        return f"bridge {self.bridge}: external_ids not written yet"


@dataclass(frozen=True, slots=True)
class AddPort:
    """Attach a device of the host, or bring its settings up to date. Result: its OpenFlow port."""

    device: str
    mtu: int | None
    external_ids: Mapping[str, str]

    @property
    def touches(self) -> frozenset[str]:
        return frozenset({self.device})

    @property
    def alone(self) -> bool:
        return False

    def merge(self, later: Request) -> Request | None:
        return None

    def plan(self, view: View) -> Plan:
        bridge = _bridge(view)
        row = _own_interface(view, self.device, "device")
        if row is None:
            wanted = operations.add_device(bridge, self.device, self.mtu, self.external_ids)
        elif row.is_tunnel or row.name == view.bridge_name:
            raise OvsdbError(f"device {self.device}: a tunnel or the bridge itself has that name")
        else:
            wanted = operations.update_device(row, self.mtu, self.external_ids)
        # The error text of an earlier try may be out of date: have the switch try again before it is believed.
        retry = row is not None and not _valid(row.ofport)
        return Plan(wanted, bump=bool(wanted) or retry, wait=True)

    def outcome(self, view: View) -> Done | None:
        row = view.interface(self.device)
        if row is None:
            raise OvsdbError(f"device {self.device} was detached by somebody")
        if row.error:
            raise OvsdbError(f"device {self.device}: {row.error}")
        return Done(row.ofport) if _valid(row.ofport) else None

    def lacks(self, view: View) -> str:
        return f"device {self.device}: no OpenFlow port yet"


@dataclass(frozen=True, slots=True)
class DelPort:
    """Detach a device or tunnel from our bridge; it is a success if it is not on it."""

    device: str

    @property
    def touches(self) -> frozenset[str]:
        return frozenset({self.device})

    @property
    def alone(self) -> bool:
        return False

    def merge(self, later: Request) -> Request | None:
        return self if later == self else None

    def plan(self, view: View) -> Plan:
        bridge = view.bridge()
        row = view.interface(self.device)
        if bridge is None or row is None or not row.port:
            return Plan()
        if row.name == bridge.name:
            raise OvsdbError(f"bridge {bridge.name}: its local port cannot be detached")
        if not row.alone:
            raise OvsdbError(f"device {self.device} is one of several interfaces of a port")
        return Plan(operations.remove_port(bridge, row.port), bump=True, wait=True)

    def outcome(self, view: View) -> Done | None:
        return Done()

    def lacks(self, view: View) -> str:
        return f"device {self.device}: not detached by the switch yet"


def _root(view: View) -> RootRow:
    root = view.root()
    if root is None:
        raise OvsdbError("the database has no Open_vSwitch row (ovs-vsctl init makes it)")
    return root


def _bridge(view: View) -> BridgeRow:
    bridge = view.bridge()
    if bridge is None:
        raise OvsdbError(f"there is no bridge {view.bridge_name}")
    return bridge


def _own_interface(view: View, name: str, what: str) -> InterfaceRow | None:
    """The interface on our bridge, None if the name is free. Raises OvsdbError if it is used elsewhere."""
    row = view.interface(name)
    if row is None and view.has_port(name):
        raise OvsdbError(f"{what} {name}: a port of that name has another interface")
    if row is not None and not row.port:
        raise OvsdbError(f"{what} {name}: it is on another bridge; take it off there (ovs-vsctl del-port {name})")
    return row


def _own_tunnel(view: View, tunnel: Tunnel) -> InterfaceRow | None:
    row = _own_interface(view, tunnel.name, "tunnel")
    if row is not None and not row.is_tunnel:
        raise OvsdbError(f"tunnel {tunnel.name}: a port of type {row.kind or 'system'} has that name on the bridge")
    return row


def _has_ofport(view: View, name: str) -> bool:
    row = view.interface(name)
    return row is not None and _valid(row.ofport)


def _valid(ofport: int | None) -> bool:
    """The switch writes -1 for a port it could not attach."""
    return ofport is not None and ofport > 0
