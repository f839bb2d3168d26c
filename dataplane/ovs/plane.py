"""The Open vSwitch data plane: OVSDB for bridge, tunnels and devices, OpenFlow for everything else."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import contextmanager
from typing import Any

from dataplane.base import (
    Applied,
    Batch,
    Capabilities,
    DataPlane,
    DataPlaneError,
    DevicesChanged,
    Drifted,
    Event,
    Leftover,
    Lost,
    Punt,
    Ready,
    Survey,
    failed,
    pending,
)
from dataplane.model import (
    DhcpWanted,
    Key,
    Kind,
    NetworkType,
    PortWanted,
    RouterWanted,
    SubnetWanted,
    Wanted,
)
from dataplane.ovs.activity import Activity
from dataplane.ovs.audit import Audit
from dataplane.ovs.book import Blame, FlowBook, Transaction, blamed_for
from dataplane.ovs.bringup import BringUp, Tunnels, what_is_wrong
from dataplane.ovs.devices import DeviceMaker
from dataplane.ovs.drift import Changed, DriftWatch
from dataplane.ovs.fixed import FixedPart
from dataplane.ovs.floods import FloodLists
from dataplane.ovs.leftovers import INSTALLED, INSTALLED_AT
from dataplane.ovs.members import Members
from dataplane.ovs.neighbors import NeighborBook
from dataplane.ovs.openflow.errors import OpenFlowError, ProgrammerError
from dataplane.ovs.openflow.programmer import MAX_CONNECTIONS, FlowProgrammer
from dataplane.ovs.ovsdb import BridgeState, Ovsdb, OvsdbError
from dataplane.ovs.packets import PacketSender
from dataplane.ovs.pipeline.dhcp import dhcp_flows
from dataplane.ovs.pipeline.flood import MAX_REMOTE
from dataplane.ovs.pipeline.layout import COOKIE_MARK, MARK_MASK, Feature, Flow, cookie_range
from dataplane.ovs.pipeline.port import port_flows
from dataplane.ovs.pipeline.router import router_flows
from dataplane.ovs.pipeline.subnet import subnet_flows
from dataplane.ovs.pipeline.unknown import unknown_flows
from dataplane.ovs.punts import Punts
from dataplane.ovs.reattach import Reattacher
from dataplane.ovs.settings import OvsSettings
from dataplane.ovs.subnetkeys import SubnetKeys
from dataplane.ovs.takeover import Takeover
from dataplane.ovs.wiring import Wiring
from dataplane.ovs.work import Work

_FEATURES = {
    Kind.SUBNET: Feature.SUBNET,
    Kind.PORT: Feature.PORT,
    Kind.ROUTER: Feature.ROUTER,
    Kind.DHCP: Feature.DHCP,
}

_SLICE = 1000
"""Resources that are rendered under one hold of the lock."""
_PORTS_PER_CONNECTION = 16

_LOG = logging.getLogger(__name__)



class OvsDataPlane(DataPlane):
    """See dataplane.base. `_lock` guards what is remembered; it is never held while waiting for the switch."""

    def __init__(self, settings: OvsSettings) -> None:
        self._settings = settings
        self._lock = threading.RLock()
        self._book = FlowBook()
        self._members = Members()
        self._neighbors = NeighborBook(self._members)
        self._activity = Activity()
        self._fixed = FixedPart(settings, self._lock, self._book)
        self._floods = FloodLists(self._book, self._members, self._fixed)
        self._dhcp: dict[str, DhcpWanted] = {}
        self._subnet_keys = SubnetKeys()
        self._programmer: FlowProgrammer | None = None
        self._packets = PacketSender()
        self._listener: Callable[[Event], None] = lambda event: None
        self._ovsdb = Ovsdb(
            settings.database,
            settings.bridge,
            on_connected=lambda: self._bring_up.database_connected(),
            on_lost=lambda reason: self._bring_up.database_lost(reason),
            on_devices=self._on_devices,
            on_bridge=self._on_bridge, on_data=lambda: settings.faults.at("ovs.ovsdb"), tls=settings.tls,
        )
        self._wiring = Wiring(self._ovsdb, settings.bridge)
        self._punts = Punts(
            self._wiring.port_at, self._subnet_keys.find, self._packets.to_port, self._packets.through_tables,
            self._hand_up, settings.tunnel_mtu,
        )
        self._reattacher = Reattacher(self._ovsdb, settings.confirm_timeout_s)
        self._maker = DeviceMaker(settings.devices, self._ovsdb, settings.confirm_timeout_s)
        self._bring_up = BringUp(
            settings,
            self._ovsdb,
            up=self._on_up,
            down=self._on_down,
            on_packet_in=self._punts.handle,
            on_flow_updates=lambda updates: self._drift.note(updates),
            on_bridge_made=(lambda: None) if settings.is_elsewhere else self._reattacher.bridge_made,
        )
        books = (self._book, self._neighbors, self._members, self._wiring, self._ovsdb)
        self._audit = Audit(settings, self._lock, *books, self._maker, self._fixed, self._activity)
        self._drift = DriftWatch(self._look_at, lambda: self._activity.quiet)

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(network_types=frozenset(self._settings.tunnel_ports))

    def open(self, listener: Callable[[Event], None]) -> None:
        self._listener = listener
        self._maker.open()
        for part in (self._punts, self._drift, self._ovsdb, self._bring_up):
            part.start()

    def close(self) -> None:
        for part in (self._bring_up, self._drift, self._punts, self._maker, self._ovsdb):
            part.close()

    # -- programming --------------------------------------------------------------------------------------------

    def apply(self, batches: Sequence[Batch]) -> Applied:
        programmer = self._programmer
        if programmer is None:
            raise DataPlaneError("the bridge is not connected")
        started = time.perf_counter()
        work = Work(programmer)
        self._activity.begin(work)
        try:
            unmade = self._make_devices(batches)
            for batch in batches:
                self._apply_batch(batch, work)
            with self._lock:
                self._floods.render(work)
            work.send()
            self._settings.faults.at("ovs.sent")
            self._confirm(work)
            unmade |= self._remove_devices(batches)
        except Exception as problem:
            self._doubt(work)
            if isinstance(problem, (ProgrammerError, OvsdbError, FutureTimeout)):
                raise DataPlaneError(str(problem) or "no answer in time") from problem
            raise
        finally:
            self._activity.end(work)
        work.problems.update((Key(Kind.PORT, port_id), failed(why)) for port_id, why in unmade.items())
        self._mark_installed(work)
        return Applied(work.problems, int((time.perf_counter() - started) * 1e6))

    def _apply_batch(self, batch: Batch, work: Work) -> None:
        """In slices: the next is prepared while the switch works on the last, and other lanes get their turn."""
        for start in range(0, len(batch.upserts), _SLICE):
            part = batch.upserts[start : start + _SLICE]
            with self._lock:
                if batch.kind is Kind.NEIGHBOR:
                    self._neighbors.upsert(part, work.transaction)
                else:
                    for wanted in part:
                        try:
                            self._upsert(wanted, work)
                        except ValueError as problem:
                            # More than fits a message: this resource only, not all that came with it.
                            work.problems[Key(batch.kind, wanted.id)] = failed(f"cannot be put into flows: {problem}")
                work.note_changes(self._members, Key(batch.kind, part[-1].id))
            work.send_full_bundles()
        for start in range(0, len(batch.removals), _SLICE):
            gone = batch.removals[start : start + _SLICE]
            with self._lock:
                if batch.kind is Kind.NEIGHBOR:
                    self._neighbors.remove(gone, work.transaction)
                else:
                    for resource_id in gone:
                        self._remove(batch.kind, resource_id, work)
                work.note_changes(self._members, Key(batch.kind, gone[-1]))
            work.send_full_bundles()
        with self._lock:
            self._withhold(batch, work)

    def _upsert(self, wanted: Wanted, work: Work) -> None:
        transaction = work.transaction
        match wanted:
            case SubnetWanted():
                self._subnet_keys.enter(Key(Kind.SUBNET, wanted.id), (wanted,))
                self._book.set(
                    transaction, (Feature.SUBNET, wanted.id), Key(Kind.SUBNET, wanted.id), subnet_flows(wanted)
                )
            case RouterWanted():
                self._subnet_keys.enter(Key(Kind.ROUTER, wanted.id), (routed.subnet for routed in wanted.subnets))
                self._book.set(
                    transaction, (Feature.ROUTER, wanted.id), Key(Kind.ROUTER, wanted.id), router_flows(wanted)
                )
            case PortWanted():
                self._upsert_port(wanted, work)
            case DhcpWanted():
                self._dhcp[wanted.id] = wanted
                self._set_dhcp(wanted.id, transaction)

    def _remove(self, kind: Kind, resource_id: str, work: Work) -> None:
        transaction = work.transaction
        self._forget(kind, resource_id, transaction)
        key = Key(kind, resource_id)
        self._book.delete(transaction, (_FEATURES[kind], resource_id), key)
        if kind is Kind.PORT:
            self._book.delete(transaction, (Feature.DHCP, resource_id), Key(Kind.DHCP, resource_id))
            self._book.delete(transaction, (Feature.PUNT_UNKNOWN, resource_id), key)
        if kind is Kind.SUBNET:
            self._floods.subnet_deleted(resource_id, work)

    def _withhold(self, batch: Batch, work: Work) -> None:
        """Take away what this agent has programmed, and only that."""
        if not batch.withheld:
            return
        if batch.kind is Kind.NEIGHBOR:
            self._neighbors.withhold(batch.withheld, work.transaction)
        else:
            for resource_id in batch.withheld:
                self._forget(batch.kind, resource_id, work.transaction)
                key = Key(batch.kind, resource_id)
                self._book.set(work.transaction, (_FEATURES[batch.kind], resource_id), key, ())
        work.note_changes(self._members, Key(batch.kind, batch.withheld[-1]))

    def _forget(self, kind: Kind, resource_id: str, transaction: Transaction) -> None:
        if kind in (Kind.SUBNET, Kind.ROUTER):
            self._subnet_keys.enter(Key(kind, resource_id), ())
        elif kind is Kind.PORT:
            self._forget_port(resource_id, transaction)
        elif kind is Kind.DHCP:
            self._dhcp.pop(resource_id, None)

    # -- devices that the agent makes itself

    def _make_devices(self, batches: Sequence[Batch]) -> dict[str, str]:
        wanted = [item for batch in batches for item in batch.upserts if isinstance(item, PortWanted)]
        if not self._maker.active:
            self._reattacher.attach(port for port in wanted if self._wiring.find_device(port) is None)
        return self._maker.make(wanted, self._wiring.find_device)

    def _remove_devices(self, batches: Sequence[Batch]) -> dict[str, str]:
        removed = [port_id for batch in batches if batch.kind is Kind.PORT for port_id in batch.removals]
        return self._maker.remove(removed)

    # -- ports

    def _upsert_port(self, wanted: PortWanted, work: Work) -> None:
        transaction = work.transaction
        before = self._wiring.want(wanted)
        if before is not None:
            self._members.drop_port(before)
        device = self._wiring.find_device(wanted)
        key = Key(Kind.PORT, wanted.id)
        if device is None or device.ofport is None:
            work.problems[key] = pending(self._reattacher.why(self._wiring.why_unwired(wanted, device)))
            if self._wiring.unwire(wanted.id) is not None:
                _LOG.info("port %s has lost its device", wanted.id)
            self._book.set(transaction, (Feature.PORT, wanted.id), key, ())
        else:
            if self._wiring.wire(wanted.id, device, device.ofport):
                _LOG.info("port %s is on device %s, OpenFlow port %d", wanted.id, device.name, device.ofport)
            if wanted.port.admin_state_up:
                self._members.add_port(wanted, device.ofport)
            flows = port_flows(wanted, device.ofport)
            self._book.set(transaction, (Feature.PORT, wanted.id), key, flows, whole=wanted.complete)
            if device.is_down:
                # Its flows stand all the same: once it is up, nothing more is needed.
                work.problems[key] = pending(f"device {device.name} is down: set it up")
            else:
                work.wired[wanted.id] = device
        self._set_dhcp(wanted.id, transaction)
        self._set_unknown(wanted.id, transaction)

    def _forget_port(self, port_id: str, transaction: Transaction) -> None:
        before, device, heirs = self._wiring.forget(port_id)
        self._reattacher.forget(port_id)
        if heirs:
            self._listener(DevicesChanged(heirs))
        if before is not None:
            self._members.drop_port(before)
        self._set_dhcp(port_id, transaction)
        self._set_unknown(port_id, transaction)
        if device is not None and self._ovsdb.by_name(device.name) is not None:
            self._ovsdb.set_external_ids(device.name, {INSTALLED: None, INSTALLED_AT: None})

    def _set_dhcp(self, port_id: str, transaction: Transaction) -> None:
        ofport, wanted = self._wiring.ofport_of(port_id), self._wiring.port(port_id)
        flows: Sequence[Flow] = ()
        if port_id in self._dhcp and ofport is not None and wanted is not None:
            flows = dhcp_flows(wanted, ofport, self._fixed.metered)
        self._book.set(transaction, (Feature.DHCP, port_id), Key(Kind.DHCP, port_id), flows)

    def _set_unknown(self, port_id: str, transaction: Transaction) -> None:
        ofport, wanted = self._wiring.ofport_of(port_id), self._wiring.port(port_id)
        flows: Sequence[Flow] = ()
        if self._settings.on_demand and ofport is not None and wanted is not None:
            flows = unknown_flows(wanted, ofport, self._fixed.ports_metered)
        self._book.set(transaction, (Feature.PUNT_UNKNOWN, port_id), Key(Kind.PORT, port_id), flows)

    def _mark_installed(self, work: Work) -> None:
        """Tell whoever waits for the port (the compute service) that its flows stand. Not waited for."""
        now = str(int(time.time() * 1000))
        for port_id, device in work.wired.items():
            if Key(Kind.PORT, port_id) not in work.problems and device.external_ids.get(INSTALLED) != "true":
                self._ovsdb.set_external_ids(device.name, {INSTALLED: "true", INSTALLED_AT: now})

    # -- confirmation

    def _confirm(self, work: Work) -> None:
        """Wait until the switch has confirmed everything; refusals become outcomes of the resources they are about.

        Raises ProgrammerError or a time-out.
        """
        refused: dict[Blame, OpenFlowError] = {}
        for future, blamed in work.sent:
            for index, error in future.result(self._settings.confirm_timeout_s).items():
                refused.setdefault(blamed[index], error)
        with self._lock:
            for blame, error in refused.items():
                key, _ = blamed_for(blame)
                work.problems[key] = failed(f"Open vSwitch refused a flow: {error}")
                self._doubt_owner(blame)
            for _, blamed in work.sent:
                self._neighbors.confirm(blame for blame in blamed if blame not in refused)

    def _doubt(self, work: Work) -> None:
        """Nobody knows what of this call stands."""
        with self._lock:
            for blame in dict.fromkeys(work.unconfirmed()):
                self._doubt_owner(blame)
            self._floods.doubt(work)

    def _doubt_owner(self, blame: Blame) -> None:
        _, (feature, name) = blamed_for(blame)
        if feature is Feature.NEIGHBOR:
            self._neighbors.doubt(name)
        else:
            self._book.doubt((feature, name))

    # -- the bridge comes and goes ------------------------------------------------------------------------------

    def _on_up(self, programmer: FlowProgrammer, tunnels: Tunnels, takeover: Takeover) -> None:
        timeout = self._settings.confirm_timeout_s
        self._settings.faults.at("ovs.start")
        self._fixed.make_meters(programmer)
        standing = programmer.aggregate(COOKIE_MARK << 56, MARK_MASK).result(timeout)
        flood_in = programmer.dump_flows(0xFF, *cookie_range(COOKIE_MARK, Feature.SEGMENT)).result(timeout)
        with self._lock:
            self._fixed.tunnels = tunnels
            self._book.former_marks = self._neighbors.former_marks = takeover.marks
            if (standing or takeover.former) and not self._book.flow_count():
                self._book.inherited = self._neighbors.inherited = True
                self._floods.inherit(flood_in)
            self._book.doubt_all()
            self._neighbors.doubt_all()
        self._fixed.program(programmer, takeover.harmful_flows)
        self._watch_flows(programmer)
        self._programmer = self._packets.programmer = programmer
        self._tune_connections()
        self._listener(Ready())

    def _watch_flows(self, programmer: FlowProgrammer) -> None:
        try:
            programmer.watch_flows().result(self._settings.confirm_timeout_s)
        except OpenFlowError as error:
            _LOG.warning("the switch does not tell of changed flows (%s): checks find them later", error)

    def _on_down(self, reason: str) -> None:
        self._programmer = self._packets.programmer = None
        self._listener(Lost(reason))

    def _on_bridge(self, state: BridgeState | None) -> None:
        """Somebody took the bridge or a tunnel away: put it back by the way it came."""
        if state is None:
            with self._lock:
                known = self._wiring.device_names()
            if known:
                self._reattacher.bridge_lost(known)
        wrong = what_is_wrong(self._settings.bridge, state, self._fixed.tunnels, self._settings.agent)
        if self._programmer is not None and wrong:
            self._bring_up.look_again(wrong)

    def _on_devices(self, names: frozenset[str]) -> None:
        with self._lock:
            concerned = self._wiring.concerned(names)
        self._tune_connections()
        if concerned:
            self._listener(DevicesChanged(concerned))

    def _tune_connections(self) -> None:
        """The switch takes 50 messages a connection and turn, and a turn costs a poll of each port."""
        programmer = self._programmer
        if programmer is not None:
            count = len(self._ovsdb.devices()) // _PORTS_PER_CONNECTION
            programmer.set_connections(max(1, min(MAX_CONNECTIONS, count)))

    def set_tunnel_address(self, address: bytes) -> None:
        try:
            self._bring_up.set_tunnel_address(address)
        except (OvsdbError, FutureTimeout) as problem:
            raise DataPlaneError(str(problem) or "no answer in time") from problem

    # -- what stands ---------------------------------------------------------------------------------------------

    def check(self) -> Survey:
        with self._asking() as programmer:
            if self._floods.unsettled() and self._activity.quiet:
                self.apply(())
            return self._audit.check(programmer)

    def survey(self, unsettled: Collection[Key]) -> Survey:
        with self._asking() as programmer:
            return self._audit.survey(programmer, unsettled)

    def sweep(self, leftovers: Sequence[Leftover]) -> int:
        with self._asking() as programmer:
            count, again = self._audit.sweep(programmer, leftovers)
            with self._lock:
                if self._audit.all_settled:
                    self._floods.disinherit()
            if self._floods.unsettled():
                self.apply(())
        if again:
            self._listener(Drifted(again))
        return count

    def _look_at(self, changed: Changed) -> None:
        """Flows were changed, by whomever (thread of DriftWatch)."""
        try:
            with self._asking() as programmer:
                found = self._audit.look_at(changed, programmer)
        except DataPlaneError as problem:
            _LOG.warning("changed flows could not be looked at: %s", problem)
            return
        if found.again:
            self._listener(Drifted(found.again, found.examples))

    @contextmanager
    def _asking(self) -> Iterator[FlowProgrammer]:
        """The programmer; what goes wrong with it comes out as DataPlaneError."""
        programmer = self._programmer
        if programmer is None:
            raise DataPlaneError("the bridge is not connected")
        try:
            yield programmer
        except (ProgrammerError, OpenFlowError, OvsdbError, FutureTimeout) as problem:
            raise DataPlaneError(str(problem) or "no answer in time") from problem

    # -- packets ------------------------------------------------------------------------------------------------

    def inject(self, port_id: str, frame: bytes) -> None:
        ofport = self._wiring.ofport_of(port_id)
        if ofport is not None:
            self._packets.to_port(ofport, frame)

    def resubmit(self, punt: Punt) -> None:
        ofport = self._wiring.ofport_of(punt.port_id)
        if ofport is not None:
            self._packets.through_tables(ofport, punt.frame)

    def _hand_up(self, punt: Punt) -> None:
        self._listener(punt)

    def describe(self) -> Mapping[str, Any]:
        with self._lock:
            return {
                "kind": "ovs",
                "bridge": self._settings.bridge,
                "database_connected": self._ovsdb.connected,
                "tunnels": {NetworkType(kind).name: port for kind, port in self._fixed.tunnels.items()},
                "wired_ports": len(self._wiring),
                "neighbors": len(self._neighbors),
                "broadcast_cut_short": self._members.larger_than(MAX_REMOTE),
                "flows": self._book.flow_count() + self._neighbors.flow_count(),
                "punts": dict(self._punts.counts),
            }
