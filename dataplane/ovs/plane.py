"""The Open vSwitch data plane: OVSDB for bridge, tunnels and devices, OpenFlow for everything else."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
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
    Lost,
    Outcome,
    Punt,
    Ready,
    failed,
    pending,
)
from dataplane.model import (
    DhcpWanted,
    Key,
    Kind,
    NeighborWanted,
    NetworkType,
    PortWanted,
    RouterWanted,
    SubnetRef,
    SubnetWanted,
    Wanted,
)
from dataplane.ovs.book import FlowBook, Owner, Transaction
from dataplane.ovs.bringup import BringUp, Tunnels
from dataplane.ovs.members import Members
from dataplane.ovs.openflow import actions, messages
from dataplane.ovs.openflow.errors import OpenFlowError, ProgrammerError
from dataplane.ovs.openflow.programmer import MAX_CONNECTIONS, FlowProgrammer
from dataplane.ovs.ovsdb import Device, Ovsdb
from dataplane.ovs.pipeline import parts
from dataplane.ovs.pipeline.dhcp import dhcp_flows
from dataplane.ovs.pipeline.flood import flood_flows, segment_flows
from dataplane.ovs.pipeline.layout import Feature, Flow, cookie_bytes
from dataplane.ovs.pipeline.neighbor import BodyMaker, body_maker, neighbor_flows
from dataplane.ovs.pipeline.port import port_flows
from dataplane.ovs.pipeline.router import router_flows
from dataplane.ovs.pipeline.static import punt_flows, static_flows
from dataplane.ovs.pipeline.subnet import subnet_flows
from dataplane.ovs.punts import Punts
from dataplane.ovs.settings import OvsSettings

_SLICE = 2000
"""Flow-mods to a bundle: larger ones stall traffic while they are committed."""
_PORTS_PER_CONNECTION = 16

INSTALLED = "aca-installed"
INSTALLED_AT = "aca-installed-ts"


class _Submission:
    """Transactions under way for one `apply`, and who is told of refusals."""

    def __init__(self, programmer: FlowProgrammer) -> None:
        self.programmer = programmer
        self.sent: list[tuple[Future[Mapping[int, OpenFlowError]], list[tuple[Key, Owner]]]] = []

    def send(self, bodies: list[bytes], blamed: list[tuple[Key, Owner]]) -> None:
        if bodies:
            self.sent.append((self.programmer.submit(bodies), blamed))


class OvsDataPlane(DataPlane):
    """See dataplane.base. `_lock` guards what is remembered; it is never held while waiting for the switch."""

    def __init__(self, settings: OvsSettings) -> None:
        self._settings = settings
        self._lock = threading.RLock()
        self._book = FlowBook()
        self._members = Members()
        self._ports: dict[str, PortWanted] = {}
        self._wired: dict[str, Device] = {}
        self._by_device_name: dict[str, dict[str, None]] = {}
        self._by_ofport: dict[int, str] = {}
        self._dhcp: dict[str, DhcpWanted] = {}
        self._neighbors: dict[str, NeighborWanted] = {}
        self._unsure_neighbors: dict[str, NeighborWanted] = {}
        """Neighbours whose flows the switch may have forgotten."""
        self._makers: dict[SubnetRef, BodyMaker] = {}
        self._programmer: FlowProgrammer | None = None
        self._tunnels: Tunnels = {}
        self._metered = True
        self._listener: Callable[[Event], None] = lambda event: None
        self._punts = Punts(self._port_at, self._send_to_ofport, self._hand_up, settings.tunnel_mtu)
        self._ovsdb = Ovsdb(
            settings.database,
            settings.bridge,
            on_connected=lambda: None,
            on_lost=lambda reason: None,
            on_devices=self._on_devices,
        )
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
        submission = _Submission(programmer)
        transaction = Transaction()
        problems: dict[Key, Outcome] = {}
        wired: dict[str, Device] = {}
        try:
            for batch in batches:
                if batch.kind is Kind.NEIGHBOR:
                    self._apply_neighbors(batch, transaction, submission)
                    continue
                with self._lock:
                    for wanted in batch.upserts:
                        self._upsert(wanted, transaction, problems, wired)
                    for resource_id in batch.removals:
                        self._remove(batch.kind, resource_id, transaction)
            with self._lock:
                self._flood(transaction)
            self._flush(transaction, submission)
            self._confirm(submission, problems)
        except ProgrammerError as problem:
            raise DataPlaneError(str(problem)) from problem
        self._mark_installed(wired, problems)
        return Applied(problems, int((time.perf_counter() - started) * 1e6))

    def _upsert(
        self, wanted: Wanted, transaction: Transaction, problems: dict[Key, Outcome], wired: dict[str, Device]
    ) -> None:
        match wanted:
            case SubnetWanted():
                self._set(transaction, Feature.SUBNET, Key(Kind.SUBNET, wanted.id), subnet_flows(wanted))
            case RouterWanted():
                self._set(transaction, Feature.ROUTER, Key(Kind.ROUTER, wanted.id), router_flows(wanted))
            case PortWanted():
                self._upsert_port(wanted, transaction, problems, wired)
            case DhcpWanted():
                self._dhcp[wanted.id] = wanted
                self._set_dhcp(wanted.id, transaction)

    def _remove(self, kind: Kind, resource_id: str, transaction: Transaction) -> None:
        match kind:
            case Kind.SUBNET:
                self._set(transaction, Feature.SUBNET, Key(kind, resource_id), ())
            case Kind.ROUTER:
                self._set(transaction, Feature.ROUTER, Key(kind, resource_id), ())
            case Kind.PORT:
                self._remove_port(resource_id, transaction)
            case Kind.DHCP:
                self._dhcp.pop(resource_id, None)
                self._set_dhcp(resource_id, transaction)

    def _set(self, transaction: Transaction, feature: Feature, key: Key, flows: Sequence[Flow]) -> None:
        self._book.set(transaction, (feature, key.id), key, flows)

    # -- ports

    def _upsert_port(
        self, wanted: PortWanted, transaction: Transaction, problems: dict[Key, Outcome], wired: dict[str, Device]
    ) -> None:
        before = self._ports.get(wanted.id)
        if before is not None:
            self._members.drop_port(before)
        else:
            self._by_device_name.setdefault(wanted.port.device_name, {})[wanted.id] = None
        self._ports[wanted.id] = wanted
        device = self._device_of(wanted)
        key = Key(Kind.PORT, wanted.id)
        ofport = device.ofport if device is not None else None
        if device is None or ofport is None:
            problems[key] = pending(self._why_no_device(wanted, device))
            self._unwire(wanted.id)
            self._set(transaction, Feature.PORT, key, ())
        else:
            previous = self._wired.get(wanted.id)
            if previous is not None and previous.ofport != ofport:
                self._unwire(wanted.id)
            self._wired[wanted.id] = device
            self._by_ofport[ofport] = wanted.id
            if wanted.port.admin_state_up:
                self._members.add_port(wanted, ofport)
            self._set(transaction, Feature.PORT, key, port_flows(wanted, ofport))
            wired[wanted.id] = device
        self._set_dhcp(wanted.id, transaction)

    def _remove_port(self, port_id: str, transaction: Transaction) -> None:
        before = self._ports.pop(port_id, None)
        if before is not None:
            self._members.drop_port(before)
            names = self._by_device_name.get(before.port.device_name, {})
            names.pop(port_id, None)
            if not names:
                self._by_device_name.pop(before.port.device_name, None)
        device = self._wired.get(port_id)
        self._unwire(port_id)
        self._set(transaction, Feature.PORT, Key(Kind.PORT, port_id), ())
        self._set_dhcp(port_id, transaction)
        if device is not None and self._ovsdb.by_name(device.name) is not None:
            self._ovsdb.set_external_ids(device.name, {INSTALLED: None, INSTALLED_AT: None})

    def _unwire(self, port_id: str) -> None:
        device = self._wired.pop(port_id, None)
        if device is not None and device.ofport is not None and self._by_ofport.get(device.ofport) == port_id:
            del self._by_ofport[device.ofport]

    def _device_of(self, wanted: PortWanted) -> Device | None:
        """The port's device: by iface-id, else by its name, unless that device says it belongs to another port."""
        device = self._ovsdb.by_iface_id(wanted.id)
        if device is not None:
            return device
        device = self._ovsdb.by_name(wanted.port.device_name)
        return device if device is not None and device.iface_id in ("", wanted.id) else None

    def _why_no_device(self, wanted: PortWanted, device: Device | None) -> str:
        name = wanted.port.device_name
        if device is None:
            other = self._ovsdb.by_name(name)
            if other is not None:
                return f"device {name} on {self._settings.bridge} belongs to port {other.iface_id}"
            return f"device {name} (or external_ids:iface-id={wanted.id}) is not on bridge {self._settings.bridge}"
        return f"device {device.name} has no OpenFlow port yet" + (f": {device.error}" if device.error else "")

    def _set_dhcp(self, port_id: str, transaction: Transaction) -> None:
        device = self._wired.get(port_id)
        wanted = self._ports.get(port_id)
        flows: Sequence[Flow] = ()
        if port_id in self._dhcp and device is not None and device.ofport is not None and wanted is not None:
            flows = dhcp_flows(wanted, device.ofport, self._metered)
        self._book.set(transaction, (Feature.DHCP, port_id), Key(Kind.DHCP, port_id), flows)

    def _mark_installed(self, wired: Mapping[str, Device], problems: Mapping[Key, Outcome]) -> None:
        """Tell whoever waits for the port (the compute service) that its flows stand. Not waited for."""
        now = str(int(time.time() * 1000))
        for port_id, device in wired.items():
            if Key(Kind.PORT, port_id) not in problems and device.external_ids.get(INSTALLED) != "true":
                self._ovsdb.set_external_ids(device.name, {INSTALLED: "true", INSTALLED_AT: now})

    # -- neighbours: the hot path

    def _apply_neighbors(self, batch: Batch, transaction: Transaction, submission: _Submission) -> None:
        upserts = batch.upserts
        for start in range(0, len(upserts), _SLICE):
            with self._lock:
                self._upsert_neighbors(upserts[start : start + _SLICE], transaction)
                if len(transaction.bodies) >= _SLICE:
                    self._flood(transaction)
            if len(transaction.bodies) >= _SLICE:
                self._flush(transaction, submission)
        for start in range(0, len(batch.removals), _SLICE):
            with self._lock:
                for neighbor_id in batch.removals[start : start + _SLICE]:
                    self._remove_neighbor(neighbor_id, transaction)
            if len(transaction.bodies) >= _SLICE:
                self._flush(transaction, submission)

    def _upsert_neighbors(self, upserts: Sequence[Wanted], transaction: Transaction) -> None:
        bodies, blamed = transaction.bodies, transaction.blamed
        known, unsure, makers = self._neighbors, self._unsure_neighbors, self._makers
        add_member = self._members.add_neighbor
        round_number = self._book.round
        for wanted in upserts:
            assert isinstance(wanted, NeighborWanted)
            neighbor_id = wanted.id
            before = known.get(neighbor_id)
            if before is None and len(wanted.addresses) == 1 and not (unsure and neighbor_id in unsure):
                ref, address = wanted.addresses[0]
                if len(address) == 4 and len(wanted.host) == 4 and wanted.mac_subnets == (ref,):
                    make = makers.get(ref)
                    if make is None:
                        make = makers[ref] = body_maker(ref)
                    mark = cookie_bytes(round_number, Feature.NEIGHBOR, neighbor_id)
                    bodies += make(mark, address, wanted.mac, wanted.host)
                    blame = (Key(Kind.NEIGHBOR, neighbor_id), (Feature.NEIGHBOR, neighbor_id))
                    blamed += (blame, blame)
                    known[neighbor_id] = wanted
                    add_member(wanted)
                    continue
            if before is not None:
                if before == wanted:
                    continue
                self._replace_neighbor(wanted, before, transaction, again=False)
            else:
                self._replace_neighbor(wanted, unsure.pop(neighbor_id, None), transaction, again=True)
            known[neighbor_id] = wanted

    def _replace_neighbor(
        self, wanted: NeighborWanted | None, before: NeighborWanted | None, transaction: Transaction, *, again: bool
    ) -> None:
        """Send the difference between two forms of a neighbour; `again`: the old flows may be gone from the switch."""
        some = wanted or before
        assert some is not None
        owner = (Feature.NEIGHBOR, some.id)
        mark = int.from_bytes(cookie_bytes(self._book.round, *owner), "big")
        blame = (Key(Kind.NEIGHBOR, some.id), owner)
        old = {flow[:3]: flow.instructions for flow in neighbor_flows(before)} if before is not None else {}
        new = {flow[:3]: flow.instructions for flow in neighbor_flows(wanted)} if wanted is not None else {}
        for identity, instructions in new.items():
            if again or old.get(identity) != instructions:
                transaction.bodies.append(messages.flow_add(mark, *identity, instructions))
                transaction.blamed.append(blame)
        for identity in old.keys() - new.keys():
            transaction.bodies.append(messages.flow_delete_strict(mark, *identity))
            transaction.blamed.append(blame)
        # The new membership first: a host that stays in must not be taken off the list in between.
        if wanted is not None:
            self._members.add_neighbor(wanted)
        if before is not None:
            self._members.drop_neighbor(before)

    def _remove_neighbor(self, neighbor_id: str, transaction: Transaction) -> None:
        before = self._neighbors.pop(neighbor_id, None) or self._unsure_neighbors.pop(neighbor_id, None)
        if before is not None:
            self._replace_neighbor(None, before, transaction, again=False)

    # -- flood lists

    def _flood(self, transaction: Transaction) -> None:
        subnets, segments = self._members.take_changed()
        for subnet_id in subnets:
            members = self._members.subnet(subnet_id)
            flows = flood_flows(members, self._tunnels[members.ref.segment.network_type]) if members else []
            self._book.set(transaction, (Feature.FLOOD, subnet_id), Key(Kind.SUBNET, subnet_id), flows)
        for segment in segments:
            owner = (Feature.SEGMENT, f"{segment.network_type}/{segment.tunnel_id}")
            in_segment = self._members.segment(segment)
            blame = Key(Kind.SUBNET, in_segment[0].ref.subnet_id if in_segment else "")
            self._book.set(transaction, owner, blame, segment_flows(segment, in_segment))

    # -- sending

    def _flush(self, transaction: Transaction, submission: _Submission) -> None:
        bodies, blamed = transaction.take()
        if len(bodies) <= _SLICE:
            submission.send(bodies, blamed)
            return
        for start in range(0, len(bodies), _SLICE):
            submission.send(bodies[start : start + _SLICE], blamed[start : start + _SLICE])

    def _confirm(self, submission: _Submission, problems: dict[Key, Outcome]) -> None:
        """Wait until the switch has confirmed everything; refusals become outcomes of the resources they are about."""
        for future, blamed in submission.sent:
            try:
                refused = future.result(self._settings.confirm_timeout_s)
            except FutureTimeout:
                self._doubt(blamed)
                raise DataPlaneError(f"no confirmation within {self._settings.confirm_timeout_s:g} s") from None
            except ProgrammerError:
                self._doubt(blamed)
                raise
            for index, error in refused.items():
                key, owner = blamed[index]
                problems[key] = failed(f"Open vSwitch refused a flow: {error}")
                self._doubt([(key, owner)])

    def _doubt(self, blamed: Sequence[tuple[Key, Owner]]) -> None:
        with self._lock:
            for _, owner in dict.fromkeys(blamed):
                feature, name = owner
                if feature is Feature.NEIGHBOR:
                    known = self._neighbors.pop(name, None)
                    if known is not None:
                        self._unsure_neighbors[name] = known
                else:
                    self._book.doubt(owner)

    # -- the bridge comes and goes ------------------------------------------------------------------------------

    def _on_up(self, programmer: FlowProgrammer, tunnels: Tunnels) -> None:
        timeout = self._settings.confirm_timeout_s
        self._metered = self._make_meters(programmer)
        with self._lock:
            self._tunnels = tunnels
            self._book.doubt_all()
            self._unsure_neighbors.update(self._neighbors)
            self._neighbors.clear()
            transaction = Transaction()
            whole = Key(Kind.SUBNET, "")
            self._book.set(
                transaction, (Feature.STATIC, ""), whole, static_flows(tunnels, self._settings.tunnel_mtu)
            )
            for feature in (Feature.PUNT_TTL, Feature.PUNT_TOO_BIG, Feature.PUNT_UNREACHABLE):
                flows = [flow for owner, flow in punt_flows(self._metered) if owner is feature]
                self._book.set(transaction, (feature, ""), whole, flows)
            bodies, _ = transaction.take()
        refused = programmer.submit(bodies).result(timeout)
        if refused:
            raise ProgrammerError(f"the switch refuses flows of the pipeline: {next(iter(refused.values()))}")
        self._programmer = programmer
        self._tune_connections()
        self._listener(Ready())

    def _make_meters(self, programmer: FlowProgrammer) -> bool:
        """Punts are rate limited where the data path has meters (kernels before 4.15 do not)."""
        for meter in parts.PUNT_METERS.values():
            for body in (
                messages.meter_add(meter, parts.PUNT_RATE, parts.PUNT_RATE),
                messages.meter_modify(meter, parts.PUNT_RATE, parts.PUNT_RATE),
            ):
                try:
                    programmer.request(messages.METER_MOD, body).result(self._settings.confirm_timeout_s)
                except OpenFlowError:
                    continue
                break
            else:
                return False
        return True

    def _on_down(self, reason: str) -> None:
        self._programmer = None
        self._listener(Lost(reason))

    def _on_devices(self, names: frozenset[str]) -> None:
        with self._lock:
            concerned = {port_id for name in names for port_id in self._by_device_name.get(name, ())}
            concerned |= {port_id for port_id, device in self._wired.items() if device.name in names}
            for name in names:
                device = self._ovsdb.by_name(name)
                if device is not None and device.iface_id in self._ports:
                    concerned.add(device.iface_id)
            moved = frozenset(port_id for port_id in concerned if self._wiring_differs(port_id))
        self._tune_connections()
        if moved:
            self._listener(DevicesChanged(moved))

    def _wiring_differs(self, port_id: str) -> bool:
        wanted = self._ports.get(port_id)
        if wanted is None:
            return False
        device, wired = self._device_of(wanted), self._wired.get(port_id)
        if device is None or wired is None:
            return device is not wired
        return (device.ofport, device.name, device.error) != (wired.ofport, wired.name, wired.error)

    def _tune_connections(self) -> None:
        """The switch takes 50 messages a connection and turn, and a turn costs a poll of each port."""
        programmer = self._programmer
        if programmer is not None:
            count = len(self._ovsdb.devices()) // _PORTS_PER_CONNECTION
            programmer.set_connections(max(1, min(MAX_CONNECTIONS, count)))

    # -- packets ------------------------------------------------------------------------------------------------

    def inject(self, port_id: str, frame: bytes) -> None:
        device = self._wired.get(port_id)
        if device is not None and device.ofport is not None:
            self._send_to_ofport(device.ofport, frame)

    def _send_to_ofport(self, ofport: int, frame: bytes) -> None:
        programmer = self._programmer
        if programmer is not None:
            programmer.packet_out(messages.packet_out(frame, actions.output(ofport)))

    def _port_at(self, ofport: int) -> PortWanted | None:
        port_id = self._by_ofport.get(ofport)
        return self._ports.get(port_id) if port_id is not None else None

    def _hand_up(self, punt: Punt) -> None:
        self._listener(punt)

    def describe(self) -> Mapping[str, Any]:
        with self._lock:
            return {
                "kind": "ovs",
                "bridge": self._settings.bridge,
                "tunnels": {NetworkType(kind).name: port for kind, port in self._tunnels.items()},
                "wired_ports": len(self._wired),
                "neighbors": len(self._neighbors),
                "flows": self._book.flow_count()
                + sum(len(known.addresses) + len(known.mac_subnets) for known in self._neighbors.values()),
                "punts": dict(self._punts.counts),
            }
