"""The incremental view says what a look at the whole database would say."""

import random
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dataplane.ovs.ovsdb.mirror import COLUMNS, Mirror, RestartCanary

NAMES = [f"tap{n}" for n in range(5)]
BRIDGES = ["br-int", "br-ex"]
KINDS = ["", "internal", "patch", "vxlan", "geneve", "bogus"]


@dataclass(eq=False)
class Atom:
    value: Any


def datum(value: Any) -> SimpleNamespace:
    """A column value in the shape of ovs.db.data.Datum: a dict of atoms."""
    values: dict[Atom, Atom | None] = {}
    if isinstance(value, dict):
        values.update({Atom(k): Atom(v) for k, v in value.items()})
    elif isinstance(value, (set, tuple)):
        values.update({Atom(v): None for v in value})
    elif value is not None:
        values[Atom(value)] = None
    return SimpleNamespace(values=values)


@dataclass(eq=False)
class Row:
    uuid: UUID
    _table: SimpleNamespace
    _data: dict[str, SimpleNamespace] = field(default_factory=dict)


class Database:
    """Rows with events, as the IDL gives them. `noted` holds the events until deliver()."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.tables = {name: SimpleNamespace(name=name, rows={}) for name in COLUMNS}
        self.noted: list[tuple[str, Row]] = []
        self.canary = RestartCanary()
        self.mirror = Mirror("br-int", self.tables, self.canary)
        root = {"bridges": (), "next_cfg": 1, "cur_cfg": 1, "other_config": {}}
        self.insert("Open_vSwitch", root)

    def insert(self, table: str, columns: dict[str, Any]) -> Row:
        uuid = UUID(int=self.random.getrandbits(128))
        row = Row(uuid, self.tables[table], {name: datum(value) for name, value in columns.items()})
        self.tables[table].rows[uuid] = row
        self.noted.append(("create", row))
        return row

    def change(self, row: Row, **columns: Any) -> None:
        row._data.update({name: datum(value) for name, value in columns.items()})
        self.noted.append(("update", row))

    def delete(self, row: Row) -> None:
        del row._table.rows[row.uuid]
        self.noted.append(("delete", row))

    def deliver(self) -> set[str]:
        """Give what happened as one update, one event per row in any order, and take it in."""
        events: dict[Row, list[str]] = {}
        for event, row in self.noted:
            events.setdefault(row, []).append(event)
        self.noted.clear()
        rows = list(events)
        self.random.shuffle(rows)
        for row in rows:
            first, last = events[row][0], events[row][-1]
            if (first, last) != ("create", "delete"):
                self.mirror.note(last if last == "delete" else first, row)
        changes = self.mirror.refresh()
        return set(changes.devices) if changes is not None else set()

    # ---- what a user does

    def rows(self, table: str) -> dict[str, Row]:
        return {one(row, "name"): row for row in self.tables[table].rows.values()}

    def add_bridge(self, name: str) -> None:
        if name not in self.rows("Bridge"):
            optional = dict.fromkeys(("datapath_id", "fail_mode"))
            columns: dict[str, Any] = {"ports": (), "datapath_type": "", "protocols": (), "controller": ()}
            columns |= {"other_config": {}, "external_ids": {}}
            self.insert("Bridge", {"name": name, **columns, **optional})

    def del_bridge(self, name: str) -> None:
        if row := self.rows("Bridge").get(name):
            for port in members(row, "ports"):
                self.drop(self.tables["Port"].rows[port])
            self.delete(row)

    def add_port(self, bridge: str, name: str, kind: str, **columns: Any) -> None:
        row = self.rows("Bridge").get(bridge)
        if row is None or name in self.rows("Interface") or name in self.rows("Port"):
            return
        names = "ofport ofport_request ifindex mac_in_use mtu mtu_request admin_state error"
        optional = dict.fromkeys(names.split())
        values = {"name": name, "type": kind, "options": {}, "external_ids": {}, **optional, **columns}
        interface = self.insert("Interface", values)
        port = self.insert("Port", {"name": name, "interfaces": (interface.uuid,)})
        self.change(row, ports=(*members(row, "ports"), port.uuid))

    def del_port(self, name: str) -> None:
        if port := self.rows("Port").get(name):
            self.leave(port)
            self.drop(port)

    def move_port(self, name: str, bridge: str) -> None:
        port, target = self.rows("Port").get(name), self.rows("Bridge").get(bridge)
        if port is not None and target is not None:
            self.leave(port)
            self.change(target, ports=(*members(target, "ports"), port.uuid))

    def change_interface(self, name: str, **columns: Any) -> None:
        if row := self.rows("Interface").get(name):
            self.change(row, **columns)

    def leave(self, port: Row) -> None:
        for row in self.rows("Bridge").values():
            if port.uuid in members(row, "ports"):
                self.change(row, ports=tuple(p for p in members(row, "ports") if p != port.uuid))

    def drop(self, port: Row) -> None:
        for interface in members(port, "interfaces"):
            self.delete(self.tables["Interface"].rows[interface])
        self.delete(port)

    # ---- what a look at everything says

    def expected(self) -> dict[str, tuple[str, int | None]]:
        """Device name to iface-id and ofport."""
        bridge = self.rows("Bridge").get("br-int")
        found = {}
        for port in members(bridge, "ports") if bridge else ():
            for interface in members(self.tables["Port"].rows[port], "interfaces"):
                row = self.tables["Interface"].rows[interface]
                if one(row, "type") in ("", "internal", "patch") and one(row, "name") != "br-int":
                    ids = {k.value: v.value for k, v in row._data["external_ids"].values.items()}
                    ofport = one(row, "ofport")
                    found[one(row, "name")] = (ids.get("iface-id", ""), ofport if ofport and ofport > 0 else None)
        return found


def one(row: Row, column: str) -> Any:
    return next((atom.value for atom in row._data[column].values), None)


def members(row: Row, column: str) -> tuple[UUID, ...]:
    return tuple(atom.value for atom in row._data[column].values)


names = st.sampled_from([*NAMES, "br-int"])
bridges = st.sampled_from(BRIDGES)
ids = st.sampled_from([{}, {"iface-id": "a"}, {"iface-id": "b"}, {"iface-id": "b", "x": "y"}])
ofports = st.sampled_from([None, -1, 1, 2])
steps = st.one_of(
    st.tuples(st.just("add_bridge"), bridges),
    st.tuples(st.just("del_bridge"), bridges),
    st.tuples(st.just("add_port"), bridges, names, st.sampled_from(KINDS)),
    st.tuples(st.just("add_port"), bridges, names, st.just("")),
    st.tuples(st.just("del_port"), names),
    st.tuples(st.just("move_port"), names, bridges),
    st.tuples(st.just("change"), names, ids, ofports),
    st.just(("deliver",)),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(steps, max_size=40), st.integers(0, 1000))
def test_view_equals_a_look_at_everything(sequence: list[tuple[Any, ...]], seed: int) -> None:
    db = Database(seed)
    db.add_bridge("br-int")
    before: dict[str, tuple[str, int | None]] = {}
    for action, *arguments in [*sequence, ("deliver",)]:
        if action == "change":
            name, external_ids, ofport = arguments
            db.change_interface(name, external_ids=external_ids, ofport=ofport)
        elif action != "deliver":
            getattr(db, action)(*arguments)
        else:
            changed = db.deliver()
            now = db.expected()
            snapshot = db.mirror.snapshot
            assert {n: (d.iface_id, d.ofport) for n, d in snapshot.devices.items()} == now
            assert {n for n in now.keys() | before.keys() if now.get(n) != before.get(n)} <= changed
            by_id = {i: {n: o for n, (x, o) in now.items() if x == i} for i, _ in now.values() if i}
            assert snapshot.by_iface_id.keys() == by_id.keys()
            for iface_id, holders in by_id.items():
                chosen = snapshot.by_iface_id[iface_id]
                assert chosen == snapshot.devices[chosen.name]
                assert chosen.name in holders
                assert chosen.ofport is not None or not any(holders.values())
            for name in NAMES:
                row = db.mirror.interface(name)
                assert (row is not None) == (name in db.rows("Interface"))
                assert db.mirror.has_port(name) == (name in db.rows("Port"))
            before = now


@pytest.fixture
def db() -> Database:
    made = Database(1)
    made.add_bridge("br-int")
    made.add_port("br-int", "tap0", "", ofport=1, external_ids={"iface-id": "a"}, ifindex=7)
    made.add_port("br-int", "vxlan0", "vxlan", ofport=100, mac_in_use="02:00:00:00:00:01")
    made.deliver()
    return made


def test_own_marks_are_not_news_but_are_seen(db: Database) -> None:
    db.change_interface("tap0", external_ids={"iface-id": "a", "aca-installed": "true"})
    assert db.deliver() == set()
    assert db.mirror.snapshot.devices["tap0"].external_ids["aca-installed"] == "true"


def test_interface_that_changes_its_kind_changes_its_place(db: Database) -> None:
    db.change_interface("tap0", type="geneve")
    assert db.deliver() == {"tap0"}
    assert db.mirror.snapshot.devices == {}
    assert db.mirror.snapshot.bridge is not None
    assert db.mirror.snapshot.bridge.ports == {"tap0": 1, "vxlan0": 100}
    db.change_interface("tap0", type="")
    assert db.deliver() == {"tap0"}
    assert db.mirror.snapshot.bridge.ports == {"vxlan0": 100}


def test_device_without_an_index_is_gone_but_an_unknown_index_is_not(db: Database) -> None:
    db.change_interface("tap0", ifindex=None)
    db.deliver()
    assert db.mirror.snapshot.devices["tap0"].ofport == 1
    db.change_interface("tap0", ifindex=0)
    assert db.deliver() == {"tap0"}
    assert db.mirror.snapshot.devices["tap0"].ofport is None
    assert db.mirror.snapshot.devices["tap0"].error != ""
    db.change_interface("tap0", ifindex=8)
    assert db.deliver() == {"tap0"}
    assert db.mirror.snapshot.devices["tap0"].ofport == 1


def test_snapshots_do_not_change(db: Database) -> None:
    old = db.mirror.snapshot
    db.del_port("tap0")
    db.deliver()
    assert "tap0" in old.devices
    assert "a" in old.by_iface_id
    with pytest.raises(TypeError):
        old.devices["x"] = old.devices["tap0"]  # type: ignore[index]


def test_address_that_is_no_address_is_unknown(db: Database) -> None:
    db.change_interface("tap0", mac_in_use="nonsense")
    db.deliver()
    assert db.mirror.snapshot.devices["tap0"].mac is None


def restarts(db: Database) -> int:
    assert db.mirror.snapshot.bridge is not None
    return db.mirror.snapshot.bridge.restarts


def test_new_tunnel_address_is_a_restart_of_the_switch(db: Database) -> None:
    assert restarts(db) == 0
    db.change_interface("vxlan0", mac_in_use=None)
    db.deliver()
    db.change_interface("vxlan0", mac_in_use="02:00:00:00:00:01")
    db.deliver()
    assert restarts(db) == 0
    db.change_interface("vxlan0", mac_in_use="02:00:00:00:00:02")
    db.deliver()
    assert restarts(db) == 1


def test_restart_during_an_outage_is_seen_by_the_next_connection() -> None:
    canary = RestartCanary()
    canary.saw({"vxlan0": "02:00:00:00:00:01"})
    canary.saw({})
    canary.saw({"vxlan0": "02:00:00:00:00:02"})
    assert canary.restarts == 0
    canary.saw({"vxlan0": ""})
    canary.saw({"vxlan0": "02:00:00:00:00:03"})
    assert canary.restarts == 1


def test_deleted_bridge_has_no_state(db: Database) -> None:
    db.del_bridge("br-int")
    assert db.deliver() == {"tap0"}
    assert db.mirror.snapshot.bridge is None
    assert db.mirror.bridge() is None
    db.add_bridge("br-int")
    db.deliver()
    assert db.mirror.snapshot.bridge is not None
