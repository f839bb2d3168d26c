"""OVSDB operations (RFC 7047 section 5.2) for what is wanted, given what is there. Pure.

Every function returns operations only for what differs: writing an equal value would still wake the switch, and
for some columns (protocols, controller) restart its OpenFlow connections.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from dataplane.ovs.ovsdb.model import BridgeSpec, OvsdbError, Tunnel
from dataplane.ovs.ovsdb.rows import BridgeRow, InterfaceRow, RootRow

Operation = dict[str, Any]

OPENFLOW = "OpenFlow14"
FLOW_RESTORE_WAIT = "flow-restore-wait"
DATAPATH_ID = "datapath-id"
IFACE_ID = "iface-id"
DEFAULT_DATAPATH_TYPE = "system"
DEFAULT_OPENFLOW_PORT = "6653"


def check_text(*values: str) -> None:
    """Refuse what cannot be in an OVSDB string. Raises OvsdbError.

    NUL and lone surrogates: the server cannot parse such a message and closes the connection, which would take
    the rest of the transaction and the view with it.
    """
    for value in values:
        if any(c == "\0" or "\ud800" <= c <= "\udfff" for c in value):
            raise OvsdbError(f"{value!r} cannot be stored in the database")


def bump_config(root: RootRow) -> Operation:
    """Ask the switch to say when it has applied the configuration as it is then (ovs-vswitchd.conf.db(5) next_cfg)."""
    return _mutate("Open_vSwitch", _is(root.uuid), [["next_cfg", "+=", 1]])


def merge_map(
    table: str, uuid: str, column: str, present: Mapping[str, str], wanted: Mapping[str, str | None]
) -> tuple[Operation, ...]:
    """Set the keys of a string map that differ and delete those whose wanted value is None. Other keys stay."""
    stale = sorted(k for k, v in wanted.items() if k in present and present[k] != v)
    missing = {k: v for k, v in wanted.items() if v is not None and present.get(k) != v}
    mutations: list[Any] = []
    if stale:
        mutations.append([column, "delete", _set(stale)])
    if missing:
        mutations.append([column, "insert", _map(missing)])
    return (_mutate(table, _is(uuid), mutations),) if mutations else ()


def clear_flow_restore_wait(root: RootRow) -> tuple[Operation, ...]:
    """Take away the setting that keeps the switch from handling traffic, if somebody left it."""
    if FLOW_RESTORE_WAIT not in root.other_config:
        return ()
    return merge_map("Open_vSwitch", root.uuid, "other_config", root.other_config, {FLOW_RESTORE_WAIT: None})


def create_bridge(root: RootRow, spec: BridgeSpec) -> tuple[Operation, ...]:
    """The bridge with its local port and all its tunnels."""
    local = _port(spec.name, {"type": "internal"})
    tunnels = [_port(t.name, tunnel_columns(t)) for t in spec.tunnels]
    row: dict[str, Any] = {
        "name": spec.name,
        "datapath_type": spec.datapath_type,
        "fail_mode": "secure",
        "external_ids": _map(dict(spec.external_ids)),
        "ports": ["set", [_named("port", name) for name in (spec.name, *(t.name for t in spec.tunnels))]],
    }
    if spec.datapath_id is not None:
        row["other_config"] = _map({DATAPATH_ID: spec.datapath_id})
    if spec.listeners:
        row["controller"] = ["set", [_named("controller", target) for target in spec.listeners]]
    return (
        *(_controller(target) for target in spec.listeners),
        *local,
        *(operation for port in tunnels for operation in port),
        {"op": "insert", "table": "Bridge", "uuid-name": _symbol("bridge", spec.name), "row": row},
        _mutate("Open_vSwitch", _is(root.uuid), [["bridges", "insert", ["set", [_named("bridge", spec.name)]]]]),
    )


def update_bridge(bridge: BridgeRow, spec: BridgeSpec) -> tuple[Operation, ...]:
    """What differs in the bridge's own row; not its ports. The datapath id is only set if there is none.

    Raises OvsdbError if the bridge has another datapath type.
    """
    columns: dict[str, Any] = {}
    if bridge.fail_mode != "secure":
        columns["fail_mode"] = "secure"
    present, wanted_type = (text or DEFAULT_DATAPATH_TYPE for text in (bridge.datapath_type, spec.datapath_type))
    if present != wanted_type:
        # Changing it makes the bridge anew, with everything on it.
        raise OvsdbError(
            f"bridge {spec.name} exists with datapath type {present!r}, the settings say {wanted_type!r}: "
            "change dataplane.ovs.datapath_type, or delete the bridge"
        )
    operations = []
    if columns:
        operations.append(_update("Bridge", bridge.uuid, columns))
    if bridge.protocols and OPENFLOW not in bridge.protocols:
        # An empty set stands for the switch's default, which has OpenFlow 1.4.
        operations.append(_mutate("Bridge", _is(bridge.uuid), [["protocols", "insert", ["set", [OPENFLOW]]]]))
    if spec.datapath_id is not None and DATAPATH_ID not in bridge.other_config:
        wanted: dict[str, str | None] = {DATAPATH_ID: spec.datapath_id}
        operations += merge_map("Bridge", bridge.uuid, "other_config", bridge.other_config, wanted)
    operations += merge_map("Bridge", bridge.uuid, "external_ids", bridge.external_ids, dict(spec.external_ids))
    return (*operations, *add_listeners(bridge, spec.listeners))


def add_listeners(bridge: BridgeRow, targets: Iterable[str]) -> tuple[Operation, ...]:
    """Have the bridge listen where it does not yet. Controllers that somebody has set stay as they are.

    One that listens on the port already will do, whatever the address it is bound to.
    """
    present = {_listens_on(target) for target in bridge.controllers}
    missing = [target for target in targets if _listens_on(target) not in present]
    if not missing:
        return ()
    names = ["set", [_named("controller", target) for target in missing]]
    return (*map(_controller, missing), _mutate("Bridge", _is(bridge.uuid), [["controller", "insert", names]]))


def tunnel_options(tunnel: Tunnel) -> dict[str, str]:
    """Options of a flow-based tunnel (ovs-fields(7) TUNNEL FIELDS: the pipeline sets tun_dst and tun_id)."""
    options = {"remote_ip": "flow", "key": "flow", "dst_port": str(tunnel.port)}
    if tunnel.local_ip:
        options["local_ip"] = tunnel.local_ip
    return options


def tunnel_columns(tunnel: Tunnel) -> dict[str, Any]:
    columns: dict[str, Any] = {"type": tunnel.kind, "options": _map(tunnel_options(tunnel))}
    if tunnel.ofport_request:
        columns["ofport_request"] = tunnel.ofport_request
    return columns


def update_tunnel(present: InterfaceRow, tunnel: Tunnel) -> tuple[Operation, ...]:
    """Change an existing tunnel port in place. Options that a flow-based tunnel does not name stay."""
    columns: dict[str, Any] = {}
    if present.kind != tunnel.kind:
        columns["type"] = tunnel.kind
    if tunnel.ofport_request and present.ofport_request != tunnel.ofport_request:
        columns["ofport_request"] = tunnel.ofport_request
    wanted: dict[str, str | None] = {"local_ip": None, **tunnel_options(tunnel)}
    update = (_update("Interface", present.uuid, columns),) if columns else ()
    return (*update, *merge_map("Interface", present.uuid, "options", present.options, wanted))


def add_tunnel(bridge: BridgeRow, tunnel: Tunnel) -> tuple[Operation, ...]:
    return _add_port(bridge, tunnel.name, tunnel_columns(tunnel))


def add_device(bridge: BridgeRow, name: str, mtu: int | None, external_ids: Mapping[str, str]) -> tuple[Operation, ...]:
    """Attach a device of the host."""
    columns: dict[str, Any] = {"external_ids": _map(external_ids)}
    if mtu is not None:
        columns["mtu_request"] = mtu
    return _add_port(bridge, name, columns)


def update_device(present: InterfaceRow, mtu: int | None, external_ids: Mapping[str, str]) -> tuple[Operation, ...]:
    update: tuple[Operation, ...] = ()
    if mtu is not None and present.mtu_request != mtu:
        update = (_update("Interface", present.uuid, {"mtu_request": mtu}),)
    return (
        *update,
        *merge_map("Interface", present.uuid, "external_ids", present.external_ids, external_ids),
    )


def remove_port(bridge: BridgeRow, port: str) -> tuple[Operation, ...]:
    """Detach a Port row; the server then deletes it and its interface, which nothing else refers to."""
    return (_mutate("Bridge", _is(bridge.uuid), [["ports", "delete", ["set", [["uuid", port]]]]]),)


def _add_port(bridge: BridgeRow, name: str, interface: Mapping[str, Any]) -> tuple[Operation, ...]:
    attach = _mutate("Bridge", _is(bridge.uuid), [["ports", "insert", ["set", [_named("port", name)]]]])
    return (*_port(name, interface), attach)


def _controller(target: str) -> Operation:
    row = {"target": target, "connection_mode": "out-of-band"}
    return {"op": "insert", "table": "Controller", "uuid-name": _symbol("controller", target), "row": row}


def _listens_on(target: str) -> tuple[str, str]:
    """Protocol and port of pssl:[PORT][:ADDRESS] and ptcp:[PORT][:ADDRESS] (ovs-vswitchd.conf.db(5), Controller)."""
    kind, _, rest = target.partition(":")
    return kind, rest.partition(":")[0] or DEFAULT_OPENFLOW_PORT


def _port(name: str, interface: Mapping[str, Any]) -> tuple[Operation, Operation]:
    """Insert a Port and its Interface, both called `name`."""
    return (
        {
            "op": "insert",
            "table": "Interface",
            "uuid-name": _symbol("interface", name),
            "row": {"name": name, **interface},
        },
        {
            "op": "insert",
            "table": "Port",
            "uuid-name": _symbol("port", name),
            "row": {"name": name, "interfaces": _named("interface", name)},
        },
    )


def _update(table: str, uuid: str, columns: Mapping[str, Any]) -> Operation:
    return {"op": "update", "table": table, "where": _is(uuid), "row": dict(columns)}


def _mutate(table: str, where: list[Any], mutations: list[Any]) -> Operation:
    return {"op": "mutate", "table": table, "where": where, "mutations": mutations}


def _is(uuid: str) -> list[Any]:
    return [["_uuid", "==", ["uuid", uuid]]]


def _named(kind: str, name: str) -> list[str]:
    return ["named-uuid", _symbol(kind, name)]


def _symbol(kind: str, name: str) -> str:
    """A name for a row that is being inserted: an <id> (RFC 7047 3.1), unique in the transaction."""
    return f"{kind}_{name.encode().hex()}"


def _set(values: Iterable[str]) -> list[Any]:
    return ["set", list(values)]


def _map(values: Mapping[str, str]) -> list[Any]:
    return ["map", [[key, values[key]] for key in sorted(values)]]
