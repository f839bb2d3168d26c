"""Data planes without a switch: one that keeps what it was asked for, and Open vSwitch's with a table for a switch."""

from __future__ import annotations

import queue
import struct
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from dataplane.base import (
    Applied,
    Batch,
    Capabilities,
    DataPlane,
    DataPlaneError,
    Event,
    Leftover,
    Outcome,
    Punt,
    Ready,
    Survey,
)
from dataplane.model import Key, Kind, NetworkType, Wanted
from dataplane.ovs.openflow import messages
from dataplane.ovs.ovsdb import Device
from dataplane.ovs.plane import OvsDataPlane
from dataplane.ovs.settings import OvsSettings
from dataplane.ovs.takeover import Takeover
from dataplane.ovs.wiring import Wiring

WAIT_S = 20.0
OVERLAYS = frozenset({NetworkType.VXLAN, NetworkType.GENEVE})


class RecordingPlane(DataPlane):
    """Keeps the wanted values. `hold` makes `apply` wait until `let_go`; `fail` makes it raise, `refuse` blames."""

    def __init__(self, capabilities: Capabilities | None = None) -> None:
        self._capabilities = capabilities or Capabilities(network_types=OVERLAYS)
        self._lock = threading.Lock()
        self._open = threading.Event()
        self._open.set()
        self._changed = threading.Condition(self._lock)
        self.listener: Callable[[Event], None] = lambda event: None
        self.wanted: dict[Key, Wanted] = {}
        self.applied: list[list[Batch]] = []
        self.problems: dict[Key, Outcome] = {}
        self.error: Exception | None = None
        self.running: Counter[str] = Counter()
        """Calls that are in `apply` now, by one of the ids that they program."""
        self.injected: list[tuple[str, bytes]] = []
        self.resubmitted: queue.SimpleQueue[Punt] = queue.SimpleQueue()
        self.closed = False
        self.drift = self.found = Survey()
        """What checks and surveys find."""
        self.checks = 0
        self.tunnel_address = b""
        self.surveys: list[frozenset[Key]] = []
        self.swept: list[list[str]] = []

    @property
    def capabilities(self) -> Capabilities:
        return self._capabilities

    def open(self, listener: Callable[[Event], None]) -> None:
        self.listener = listener

    def ready(self) -> None:
        self.listener(Ready())

    def close(self) -> None:
        self.closed = True
        self._open.set()

    def hold(self) -> None:
        self._open.clear()

    def let_go(self) -> None:
        self._open.set()

    def apply(self, batches: Sequence[Batch]) -> Applied:
        ids = {item.id for batch in batches for item in batch.upserts}
        ids |= {resource_id for batch in batches for resource_id in (*batch.removals, *batch.withheld)}
        with self._changed:
            self.applied.append(list(batches))
            self.running.update(ids)
            self._changed.notify_all()
        assert self._open.wait(WAIT_S)
        with self._changed:
            self.running.subtract(ids)
            self._changed.notify_all()
            if self.error is not None:
                raise self.error
            keep(self.wanted, batches)
            named = {Key(batch.kind, item.id) for batch in batches for item in batch.upserts}
            return Applied({key: outcome for key, outcome in self.problems.items() if key in named}, 7)

    def wait_for(self, condition: Callable[[], bool]) -> None:
        """Until the condition holds; it is looked at whenever an `apply` comes or goes."""
        with self._changed:
            assert self._changed.wait_for(condition, WAIT_S)

    def break_down(self, reason: str) -> None:
        with self._lock:
            self.error = DataPlaneError(reason)

    def heal(self) -> None:
        with self._lock:
            self.error = None

    def set_tunnel_address(self, address: bytes) -> None:
        if self.error is not None:
            raise self.error
        self.tunnel_address = address

    def check(self) -> Survey:
        with self._changed:
            self.checks += 1
            self._changed.notify_all()
            return self.drift

    def survey(self, unsettled: Collection[Key]) -> Survey:
        with self._changed:
            self.surveys.append(frozenset(unsettled))
            self._changed.notify_all()
            if self.error is not None:
                raise self.error
            return self.found

    def sweep(self, leftovers: Sequence[Leftover]) -> int:
        with self._changed:
            self.swept.append([leftover.name for leftover in leftovers])
            self._changed.notify_all()
        return len(leftovers)

    def inject(self, port_id: str, frame: bytes) -> None:
        self.injected.append((port_id, frame))

    def resubmit(self, punt: Punt) -> None:
        self.resubmitted.put(punt)

    def describe(self) -> Mapping[str, Any]:
        return {"kind": "recording"}


def keep(wanted: dict[Key, Wanted], batches: Iterable[Batch]) -> None:
    """Make the batches true in a dict."""
    for batch in batches:
        for item in batch.upserts:
            wanted[Key(batch.kind, item.id)] = item
        for resource_id in (*batch.removals, *batch.withheld):
            wanted.pop(Key(batch.kind, resource_id), None)


FlowId = tuple[int, int, bytes]


class FlowTable:
    """A switch's flows: what flow-mods make of them (OpenFlow 1.4, 6.4 and 7.3.4.2)."""

    _HEAD = struct.Struct("!QQBBHHHIIIHHHH")

    def __init__(self) -> None:
        self.flows: dict[FlowId, tuple[int, bytes]] = {}
        """(table, priority, match) -> (cookie, instructions)."""
        self.mods = 0

    def apply(self, body: bytes) -> None:
        self.mods += 1
        head = self._HEAD.unpack_from(body)
        cookie, mask, table, command, priority, match_length = (*head[:4], head[6], head[13])
        start = self._HEAD.size
        match = body[start : start + match_length - 4]
        instructions = body[start - 4 + (match_length + 7) // 8 * 8 :]
        identity = (table, priority, match)
        if command == 0:
            self.flows[identity] = (cookie, instructions)
        elif command == 4:
            known = self.flows.get(identity)
            if known is not None and not (known[0] ^ cookie) & mask:
                del self.flows[identity]
        elif command == 3 and table == messages.TABLE_ALL and not match:
            self.flows = {key: flow for key, flow in self.flows.items() if (flow[0] ^ cookie) & mask}
        else:
            raise AssertionError(f"flow-mod command {command}")


def _done(value: Any) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_result(value)
    return future


class TableProgrammer:
    """As FlowProgrammer, with a FlowTable for the switch."""

    def __init__(self, table: FlowTable) -> None:
        self.table = table
        self.packets: list[bytes] = []

    def submit(self, bodies: Sequence[bytes]) -> Future[Any]:
        for body in bodies:
            self.table.apply(body)
        return _done({})

    def request(self, message_type: int, body: bytes) -> Future[Any]:
        return _done(None)

    def aggregate(self, cookie: int, mask: int) -> Future[Any]:
        return _done(len(self.table.flows))

    def dump_flows(self, table: int = 255, cookie: int = 0, mask: int = 0) -> Future[Any]:
        """Of use for a switch on which nothing stands."""
        return _done([])

    def watch_flows(self) -> Future[Any]:
        return _done(None)

    def packet_out(self, body: bytes) -> None:
        self.packets.append(body)

    def set_connections(self, count: int) -> None:
        pass


class Devices:
    """As Ovsdb, for a bridge on which the given ports have devices with these OpenFlow ports."""

    def __init__(self, ofports: Mapping[str, int]) -> None:
        self._devices = {
            port_id: Device(f"tap{port_id[:11]}", port_id, ofport, None, 1450, "", {})
            for port_id, ofport in ofports.items()
        }

    def by_iface_id(self, port_id: str) -> Device | None:
        return self._devices.get(port_id)

    def by_name(self, name: str) -> Device | None:
        return next((device for device in self._devices.values() if device.name == name), None)

    def devices(self) -> list[Device]:
        return list(self._devices.values())

    def set_external_ids(self, name: str, ids: Mapping[str, str | None]) -> Future[Any]:
        return _done(None)


class SwitchlessOvs:
    """The Open vSwitch data plane without Open vSwitch: `flows` is what the switch would have."""

    def __init__(self, ofports: Mapping[str, int], **more: Any) -> None:
        """`more` are settings of the plane."""
        self.table = FlowTable()
        self.programmer = TableProgrammer(self.table)
        address = bytes((192, 0, 2, 11))
        settings = OvsSettings(Path("/nowhere"), "unix:/nowhere/db.sock", "br-test", "system", address, **more)
        self.plane: Any = OvsDataPlane(settings)
        self.plane._ovsdb = Devices(ofports)
        self.plane._wiring = Wiring(self.plane._ovsdb, "br-test")
        self.connect()
        self.bare = dict(self.flows)

    def connect(self) -> None:
        self.plane._on_up(self.programmer, {NetworkType.VXLAN: 65001, NetworkType.GENEVE: 65002}, Takeover())

    @property
    def flows(self) -> dict[FlowId, tuple[int, bytes]]:
        return self.table.flows

    def apply(self, batches: Sequence[Batch]) -> Applied:
        applied: Applied = self.plane.apply(batches)
        return applied

    def assert_empty(self) -> None:
        """Nothing is left of anything that was programmed: no flow, no memory."""
        assert self.flows == self.bare
        plane = self.plane
        book, members, neighbors, wiring = plane._book, plane._members, plane._neighbors, plane._wiring
        assert {name for _, name in book._installed} == {""}
        assert set(book._holders) == set(self.bare)
        assert not book._overridden and not book._doubtful
        assert not members._subnets and not members._segments
        assert members.take_changed() == ([], [])
        assert not neighbors._known and not neighbors._doubtful
        assert not wiring._ports and not wiring._devices and not wiring._by_device_name and not wiring._by_ofport
        assert not plane._dhcp


def kinds_of(batches: Iterable[Batch]) -> list[Kind]:
    return [batch.kind for batch in batches]
