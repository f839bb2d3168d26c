"""The Open vSwitch data plane: OVSDB for bridge, tunnels and devices, OpenFlow for everything else."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Any

from dataplane.base import (
    Applied,
    Batch,
    Capabilities,
    DataPlane,
    DataPlaneError,
    DevicesChanged,
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
from dataplane.ovs.book import Blame, FlowBook, Transaction, blamed_for
from dataplane.ovs.bringup import BringUp, Tunnels
from dataplane.ovs.devices import DeviceMaker
from dataplane.ovs.inherited import InheritedSegments
from dataplane.ovs.members import Members
from dataplane.ovs.neighbors import NeighborBook
from dataplane.ovs.openflow import actions, messages
from dataplane.ovs.openflow.errors import OpenFlowError, ProgrammerError
from dataplane.ovs.openflow.programmer import MAX_CONNECTIONS, FlowProgrammer
from dataplane.ovs.ovsdb import BridgeState, Ovsdb, OvsdbError
from dataplane.ovs.pipeline import parts
from dataplane.ovs.pipeline.dhcp import dhcp_flows
from dataplane.ovs.pipeline.flood import MAX_REMOTE, flood_flows, segment_flows
from dataplane.ovs.pipeline.layout import Feature, Flow, segment_name, segment_of, subnet_key
from dataplane.ovs.pipeline.port import port_flows
from dataplane.ovs.pipeline.router import router_flows
from dataplane.ovs.pipeline.static import punt_flows, static_flows
from dataplane.ovs.pipeline.subnet import subnet_flows
from dataplane.ovs.pipeline.unknown import PORT_METERS, PORT_RATE, unknown_flows, unresolved_flows
from dataplane.ovs.punts import Punts
from dataplane.ovs.settings import OvsSettings
from dataplane.ovs.subnetkeys import SubnetKeys
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

INSTALLED = "aca-installed"
INSTALLED_AT = "aca-installed-ts"


class OvsDataPlane(DataPlane):
    """See dataplane.base. `_lock` guards what is remembered; it is never held while waiting for the switch."""

    def __init__(self, settings: OvsSettings) -> None:
        self._settings = settings
        self._lock = threading.RLock()
        self._book = FlowBook()
        self._members = Members()
        self._neighbors = NeighborBook(self._members, self._book.round)
        self._dhcp: dict[str, DhcpWanted] = {}
        self._subnet_keys = SubnetKeys()
        self._inherited_segments = InheritedSegments(())
        self._programmer: FlowProgrammer | None = None
        self._tunnels: Tunnels = {}
        self._metered = self._ports_metered = True
        self._listener: Callable[[Event], None] = lambda event: None
        self._ovsdb = Ovsdb(
            settings.database,
            settings.bridge,
            on_connected=lambda: self._bring_up.database_connected(),
            on_lost=lambda reason: self._bring_up.database_lost(reason),
            on_devices=self._on_devices,
            on_bridge=self._on_bridge,
        )
        self._wiring = Wiring(self._ovsdb, settings.bridge)
        self._punts = Punts(
            self._wiring.port_at,
            self._subnet_keys.find,
            self._send_to_ofport,
            self._resubmit,
            self._hand_up,
            settings.tunnel_mtu,
        )
        self._maker = DeviceMaker(settings.devices, self._ovsdb, settings.confirm_timeout_s)
        self._bring_up = BringUp(
            settings, self._ovsdb, up=self._on_up, down=self._on_down, on_packet_in=self._punts.handle
        )

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(network_types=frozenset(self._settings.tunnel_ports))

    def open(self, listener: Callable[[Event], None]) -> None:
        self._listener = listener
        self._punts.start()
        self._ovsdb.start()
        self._bring_up.start()

    def close(self) -> None:
        self._bring_up.close()
        self._punts.close()
        self._ovsdb.close()

    # -- programming --------------------------------------------------------------------------------------------

    def apply(self, batches: Sequence[Batch]) -> Applied:
        programmer = self._programmer
        if programmer is None:
            raise DataPlaneError("the bridge is not connected")
        started = time.perf_counter()
        work = Work(programmer)
        try:
            unmade = self._make_devices(batches)
            for batch in batches:
                self._apply_batch(batch, work)
            with self._lock:
                self._flood(work)
            work.send()
            self._confirm(work)
            unmade |= self._remove_devices(batches)
        except Exception as problem:
            self._doubt(work)
            if isinstance(problem, (ProgrammerError, OvsdbError, FutureTimeout)):
                raise DataPlaneError(str(problem) or "no answer in time") from problem
            raise
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
            if self._members.subnet(resource_id) is None:
                self._book.delete(transaction, (Feature.FLOOD, resource_id), key)
            for segment in self._inherited_segments.subnet_deleted(resource_id):
                work.segments[segment] = key

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
        wanted = (item for batch in batches for item in batch.upserts if isinstance(item, PortWanted))
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
            work.problems[key] = pending(self._wiring.why_unwired(wanted, device))
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
            flows = dhcp_flows(wanted, ofport, self._metered)
        self._book.set(transaction, (Feature.DHCP, port_id), Key(Kind.DHCP, port_id), flows)

    def _set_unknown(self, port_id: str, transaction: Transaction) -> None:
        ofport, wanted = self._wiring.ofport_of(port_id), self._wiring.port(port_id)
        flows: Sequence[Flow] = ()
        if self._settings.on_demand and ofport is not None and wanted is not None:
            flows = unknown_flows(wanted, ofport, self._ports_metered)
        self._book.set(transaction, (Feature.PUNT_UNKNOWN, port_id), Key(Kind.PORT, port_id), flows)

    def _mark_installed(self, work: Work) -> None:
        """Tell whoever waits for the port (the compute service) that its flows stand. Not waited for."""
        now = str(int(time.time() * 1000))
        for port_id, device in work.wired.items():
            if Key(Kind.PORT, port_id) not in work.problems and device.external_ids.get(INSTALLED) != "true":
                self._ovsdb.set_external_ids(device.name, {INSTALLED: "true", INSTALLED_AT: now})

    # -- flood lists

    def _flood(self, work: Work) -> None:
        subnets = {name: Key(Kind.SUBNET, name) for name in self._book.doubtful(Feature.FLOOD)} | work.subnets
        for subnet_id, account in subnets.items():
            members = self._members.subnet(subnet_id)
            flows = flood_flows(members, self._tunnels[members.ref.segment.network_type]) if members else []
            self._book.set(work.transaction, (Feature.FLOOD, subnet_id), account, flows)
        segments = {segment_of(name): Key(Kind.SUBNET, "") for name in self._book.doubtful(Feature.SEGMENT)}
        for segment, account in (segments | work.segments).items():
            in_segment = self._members.segment(segment)
            # Subnets that an earlier agent served and of which nothing has been heard yet are served on.
            others = self._inherited_segments.keys(segment) - {subnet_key(one.ref.subnet_id) for one in in_segment}
            owner = (Feature.SEGMENT, segment_name(segment))
            flows = segment_flows(segment, in_segment, sorted(others))
            if flows:
                self._book.set(work.transaction, owner, account, flows)
            elif not others:
                self._book.delete(work.transaction, owner, account)

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
            for subnet_id in work.subnets:
                self._book.doubt((Feature.FLOOD, subnet_id))
            for segment in work.segments:
                self._book.doubt((Feature.SEGMENT, segment_name(segment)))

    def _doubt_owner(self, blame: Blame) -> None:
        _, (feature, name) = blamed_for(blame)
        if feature is Feature.NEIGHBOR:
            self._neighbors.doubt(name)
        else:
            self._book.doubt((feature, name))

    # -- the bridge comes and goes ------------------------------------------------------------------------------

    def _on_up(self, programmer: FlowProgrammer, tunnels: Tunnels) -> None:
        timeout = self._settings.confirm_timeout_s
        self._metered = self._make_meters(programmer, parts.PUNT_METERS.values(), parts.PUNT_RATE)
        if self._settings.on_demand:
            self._ports_metered = self._make_meters(programmer, PORT_METERS, PORT_RATE)
        standing = programmer.aggregate(0, 0).result(timeout)
        flood_in = programmer.dump_flows(cookie=Feature.SEGMENT << 48, mask=0xFF << 48).result(timeout)
        with self._lock:
            self._tunnels = tunnels
            if standing and not self._book.flow_count():
                self._book.inherited = self._neighbors.inherited = True
                self._inherited_segments = InheritedSegments(flood_in)
            self._book.doubt_all()
            self._neighbors.doubt_all()
            transaction = Transaction()
            whole = Key(Kind.SUBNET, "")
            self._book.set(transaction, (Feature.STATIC, ""), whole, static_flows(tunnels, self._settings.tunnel_mtu))
            for feature in (Feature.PUNT_TTL, Feature.PUNT_TOO_BIG, Feature.PUNT_UNREACHABLE):
                flows = [flow for owner, flow in punt_flows(self._metered) if owner is feature]
                self._book.set(transaction, (feature, ""), whole, flows)
            asking = unresolved_flows() if self._settings.on_demand else ()
            self._book.set(transaction, (Feature.PUNT_UNKNOWN, ""), whole, asking, whole=True)
            bodies, _ = transaction.take()
        refused = programmer.submit(bodies).result(timeout)
        if refused:
            raise ProgrammerError(f"the switch refuses flows of the pipeline: {next(iter(refused.values()))}")
        self._programmer = programmer
        self._tune_connections()
        self._listener(Ready())

    def _make_meters(self, programmer: FlowProgrammer, meters: Collection[int], rate: int) -> bool:
        """Punts are rate limited where the data path has meters (kernels before 4.15 do not)."""
        left = list(meters)
        for make in (messages.meter_add, messages.meter_modify):
            asked = [(one, programmer.request(messages.METER_MOD, make(one, rate, rate))) for one in left]
            left = []
            for one, made in asked:
                try:
                    made.result(self._settings.confirm_timeout_s)
                except OpenFlowError:
                    left.append(one)
        return not left

    def _on_down(self, reason: str) -> None:
        self._programmer = None
        self._listener(Lost(reason))

    def _on_bridge(self, state: BridgeState | None) -> None:
        """Somebody took the bridge or a tunnel away: put it back by the way it came."""
        if self._programmer is None:
            return
        if state is None:
            self._bring_up.look_again(f"bridge {self._settings.bridge} is gone")
        elif len(state.ports) < len(self._tunnels):
            self._bring_up.look_again(f"a tunnel port of {self._settings.bridge} is gone")

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
        raise DataPlaneError("the tunnel address of this data plane cannot change while it runs")

    # -- what stands ---------------------------------------------------------------------------------------------

    def check(self) -> Survey:
        return Survey()

    def survey(self, unsettled: Collection[Key]) -> Survey:
        return Survey()

    def sweep(self, leftovers: Sequence[Leftover]) -> int:
        return 0

    # -- packets ------------------------------------------------------------------------------------------------

    def inject(self, port_id: str, frame: bytes) -> None:
        ofport = self._wiring.ofport_of(port_id)
        if ofport is not None:
            self._send_to_ofport(ofport, frame)

    def resubmit(self, punt: Punt) -> None:
        ofport = self._wiring.ofport_of(punt.port_id)
        if ofport is not None:
            self._resubmit(ofport, punt.frame)

    def _send_to_ofport(self, ofport: int, frame: bytes) -> None:
        programmer = self._programmer
        if programmer is not None:
            programmer.packet_out(messages.packet_out(frame, actions.output(ofport)))

    def _resubmit(self, ofport: int, frame: bytes) -> None:
        programmer = self._programmer
        if programmer is not None:
            through_tables = actions.output(actions.PORT_TABLE)
            programmer.packet_out(messages.packet_out(frame, through_tables, in_port=ofport))

    def _hand_up(self, punt: Punt) -> None:
        self._listener(punt)

    def describe(self) -> Mapping[str, Any]:
        with self._lock:
            return {
                "kind": "ovs",
                "bridge": self._settings.bridge,
                "database_connected": self._ovsdb.connected,
                "tunnels": {NetworkType(kind).name: port for kind, port in self._tunnels.items()},
                "wired_ports": len(self._wiring),
                "neighbors": len(self._neighbors),
                "broadcast_cut_short": self._members.larger_than(MAX_REMOTE),
                "flows": self._book.flow_count() + self._neighbors.flow_count(),
                "punts": dict(self._punts.counts),
            }
