"""The netlink data plane: a plain Linux host without Open vSwitch, programmed through rtnetlink and nftables."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from dataplane.addresses import format_address
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
    Outcome,
    Punt,
    PuntReason,
    Ready,
    Survey,
    failed,
    invalid,
    pending,
)
from dataplane.devices.maker import PortDevices
from dataplane.kernel.rtnl import Link
from dataplane.kernel.wire import KernelError
from dataplane.model import (
    DhcpWanted,
    Key,
    Kind,
    NeighborWanted,
    NetworkType,
    PortWanted,
    RouterWanted,
    SubnetWanted,
    Wanted,
)
from dataplane.netlink.asking import asking
from dataplane.netlink.book import Book
from dataplane.netlink.crowd import add_neighbors, remove_neighbors, tunnels_of
from dataplane.netlink.delivery import Delivery
from dataplane.netlink.filter import number
from dataplane.netlink.geneve import why_no_geneve
from dataplane.netlink.installer import Installer
from dataplane.netlink.items import ElementItem, FloodItem, Items
from dataplane.netlink.layout import LayoutError
from dataplane.netlink.links import Links
from dataplane.netlink.made import MadeDevices, MadeTrace
from dataplane.netlink.names import mark_of, segment_id
from dataplane.netlink.neighbors import NeighborBook
from dataplane.netlink.nft import key_bytes
from dataplane.netlink.notices import Notices, Suspicion
from dataplane.netlink.objects import Objects
from dataplane.netlink.population import Population
from dataplane.netlink.precedence import Precedence
from dataplane.netlink.render import only_items, port_items, router_items, subnet_items
from dataplane.netlink.settings import NetlinkSettings
from dataplane.netlink.sockets import DHCP_REQUESTS, PacketSockets, send_frame
from dataplane.netlink.unknown import UnknownTargets
from dataplane.netlink.upkeep import Upkeep
from dataplane.netlink.wiring import Wiring

_AGAIN_AFTER_S = 5.0
_CLOSE_WAIT_S = 0.5
_PORTS_FIRST, _PORTS_MOST = 16, 64
"""Ports that are made ready before the kernel begins, and at most at a time while it is busy with others."""
_TUNNELS = frozenset({NetworkType.VXLAN, NetworkType.GENEVE})
_log = logging.getLogger(__name__)
_T = TypeVar("_T")


class NetlinkDataPlane(DataPlane):
    """See dataplane.base. `_lock` guards everything that is remembered; the kernel serialises changes anyway."""

    def __init__(self, settings: NetlinkSettings) -> None:
        self._settings = settings
        self._lacks = {kind: why for kind, why in ((NetworkType.GENEVE, why_no_geneve()),) if why}
        self._lock = threading.RLock()
        self._book = Book()
        self._population = Population()
        self._neighbors = NeighborBook(self._book, self._population)
        self._objects = Objects(self._book, self._neighbors)
        self._delivery = Delivery(self._book, self._objects, self._put_off)
        self._precedence = Precedence()
        self._links = Links(self._on_link, self._on_port_setting, self._precedence)
        own_devices = PortDevices(settings.devices)
        self._wiring = Wiring(self._links, own_devices)
        self._made = MadeDevices(own_devices, self._links)
        self._sockets = PacketSockets("netlink-dhcp", DHCP_REQUESTS, self._hand_up)
        self._unknown = UnknownTargets(lambda punt: self._listener(punt), self._address_of, settings.on_demand)
        self._dhcp: set[str] = set()
        self._routers: dict[str, RouterWanted] = {}
        self._router_of: dict[str, str] = {}
        self._marks: dict[int, str] = {}
        self._installer: Installer | None = None
        self._notices: Notices | None = None
        self._upkeep: Upkeep | None = None
        self._listener: Callable[[Event], None] = lambda event: None
        self._closing = threading.Event()
        self._starter = threading.Thread(target=self._bring_up, name="netlink-start", daemon=True)

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(network_types=_TUNNELS - self._lacks.keys(), lacks=self._lacks)

    def open(self, listener: Callable[[Event], None]) -> None:
        self._listener = listener
        self._sockets.start()
        self._unknown.start()
        self._made.open()
        self._starter.start()

    def close(self) -> None:
        self._closing.set()
        if self._starter.is_alive():
            self._starter.join(1.0)
        self._sockets.close()
        self._unknown.close()
        self._links.close()
        self._made.close()
        if self._notices is not None:
            self._notices.close()
        # What is in hand ends at its next request; it is not waited for longer than that.
        held = self._lock.acquire(timeout=_CLOSE_WAIT_S)
        installer, self._installer, self._upkeep = self._installer, None, None
        if installer is not None:
            installer.close()
        if held:
            self._lock.release()

    def _bring_up(self) -> None:
        while not self._closing.is_set():
            installer: Installer | None = None
            notices = Notices(self._on_suspicion, self._precedence)
            try:
                installer = Installer(self._settings, notices)
                installer.prepare()
                self._links.start()
            except (KernelError, OSError, LayoutError) as problem:
                notices.close()
                if installer is not None:
                    installer.close()
                frozen = isinstance(problem, LayoutError)
                self._listener(Lost(str(problem) if frozen else f"the kernel cannot be programmed: {problem}"))
                self._closing.wait(_AGAIN_AFTER_S)
                continue
            tell = self._listener
            with self._lock:
                # The address may have changed meanwhile.
                if installer.settings != self._settings:
                    installer.move_tunnels(self._settings, ())
                self._upkeep = Upkeep(self._lock, self._objects, installer, self._put_back, tell)
                self._upkeep.dismiss_vanished()
                self._notices, self._installer = notices, installer
            tell(Ready())
            return

    # -- programming --------------------------------------------------------------------------------------------

    def apply(self, batches: Sequence[Batch]) -> Applied:
        with self._precedence.first():
            return self._apply(batches)

    def _apply(self, batches: Sequence[Batch]) -> Applied:
        started = time.perf_counter()
        problems: dict[Key, Outcome] = {}
        if self._installer is None:
            raise DataPlaneError("the kernel's netlink sockets are not open")
        # Not under the lock, it has no part in that.
        unmade = self._made.make(batches)
        with self._lock:
            installer = self._installer
            if installer is None:
                raise DataPlaneError("the kernel's netlink sockets are not open")
            with asking():
                # Whether a port's DHCP is handed up is known before the port is rendered, once.
                for batch in sorted(batches, key=lambda one: one.kind is not Kind.DHCP):
                    if batch.kind is Kind.NEIGHBOR:
                        self._take_neighbors(batch, problems)
                        continue
                    begin_at, growing = (_PORTS_FIRST if batch.kind is Kind.PORT else 0), _PORTS_FIRST
                    for count, wanted in enumerate(batch.upserts, 1):
                        problem = self._upsert(wanted)
                        if problem is not None:
                            problems[Key(batch.kind, wanted.id)] = problem
                        if count == begin_at:
                            # While the kernel has these, the next are made ready.
                            self._derive()
                            self._delivery.begin(installer, problems)
                            growing = min(growing * 4 // 3, _PORTS_MOST)
                            begin_at += growing
                    for resource_id in (*batch.removals, *batch.withheld):
                        self._remove(batch.kind, resource_id)
                self._derive()
                self._remove_neighbors(installer)
                self._delivery.install(installer, problems)
                self._add_neighbors(installer, problems)
                self._dismiss([Key(batch.kind, name) for batch in batches for name in batch.removals], problems)
                self._unknown.listen()
        problems.update(unmade)
        problems.update(self._made.remove(batches))
        return Applied(problems, int((time.perf_counter() - started) * 1e6))

    def _dismiss(self, removed: Sequence[Key], problems: dict[Key, Outcome]) -> None:
        """What an earlier agent programmed of these goes too."""
        try:
            if self._upkeep is not None:
                self._upkeep.dismiss(removed)
        except KernelError as problem:
            problems.update((key, failed(f"not removed: {problem}")) for key in removed)

    # -- objects

    def _put_off(self, owners: Iterable[Key]) -> None:
        if self._upkeep is not None:
            self._upkeep.put_off(owners)

    def _upsert(self, wanted: Wanted) -> Outcome | None:
        match wanted:
            case SubnetWanted():
                return self._upsert_subnet(wanted)
            case PortWanted():
                return self._upsert_port(wanted)
            case RouterWanted():
                self._forget_router(wanted.id)
                self._routers[wanted.id] = wanted
                self._router_of.update((routed.subnet.id, wanted.id) for routed in wanted.subnets)
                self._set_router(wanted)
                self._unknown.set_router(wanted)
            case DhcpWanted():
                self._dhcp.add(wanted.id)
                return self._refresh_port(wanted.id)
        return None

    def _remove(self, kind: Kind, resource_id: str) -> None:
        key = Key(kind, resource_id)
        match kind:
            case Kind.PORT:
                heirs = self._wiring.forget(resource_id)
                self._sockets.ignore(resource_id)
                self._unwire(resource_id)
                if heirs:
                    self._listener(DevicesChanged(heirs))
            case Kind.DHCP:
                self._dhcp.discard(resource_id)
                self._refresh_port(resource_id)
            case Kind.ROUTER:
                self._forget_router(resource_id)
                self._unknown.forget_router(resource_id)
                self._book.set(key, {})
            case Kind.SUBNET:
                self._book.set(key, {})
                mark = mark_of(resource_id)
                if self._marks.get(mark) == resource_id:
                    del self._marks[mark]

    def _upsert_subnet(self, wanted: SubnetWanted) -> Outcome | None:
        taken_by = self._marks.setdefault(mark_of(wanted.id), wanted.id)
        if taken_by != wanted.id:
            return failed(f"the packet mark of the subnet is that of subnet {taken_by} already")
        self._set(Key(Kind.SUBNET, wanted.id), subnet_items(wanted))
        return None

    # -- neighbours

    def _take_neighbors(self, batch: Batch, problems: dict[Key, Outcome]) -> None:
        """Nearly all may be kept apart from the book; see neighbors.py."""
        size = len(self._settings.tunnel_address)
        upserts = [wanted for wanted in batch.upserts if isinstance(wanted, NeighborWanted)]
        reachable = [wanted for wanted in upserts if len(wanted.neighbor.host) == size]
        for wanted in upserts if len(reachable) < len(upserts) else ():
            if len(wanted.neighbor.host) != size:
                self._neighbors.remove([wanted.id])
                problems[Key(Kind.NEIGHBOR, wanted.id)] = invalid(
                    "the host of the neighbour has an address of another family than this host"
                )
        self._neighbors.upsert(reachable)
        self._neighbors.remove(batch.removals)
        self._neighbors.remove(batch.withheld)

    def _remove_neighbors(self, installer: Installer) -> None:
        leaving = self._neighbors.take_leaving()
        left = [wanted for group in leaving.values() for wanted in group.values()]
        try:
            with installer.muted(len(left), tunnels_of(installer, leaving)):
                left = remove_neighbors(installer, leaving)
        finally:
            self._neighbors.not_removed(left)

    def _add_neighbors(self, installer: Installer, problems: dict[Key, Outcome]) -> None:
        arriving, moving = self._neighbors.take_arriving()
        ids = [neighbor_id for groups in (arriving, moving) for group in groups.values() for neighbor_id in group]
        try:
            with installer.muted(len(ids), tunnels_of(installer, {**arriving, **moving})):
                refused = add_neighbors(installer, arriving, moving)
        except OSError:
            self._neighbors.distrust(ids)
            raise
        refused += self._neighbors.without_flooding(problems, ids)
        if refused:
            self._neighbors.not_installed(refused)
            self._derive()
            self._delivery.install(installer, problems)

    # -- ports

    def _upsert_port(self, wanted: PortWanted) -> Outcome | None:
        link = self._wiring.want(wanted)
        if link is None:
            self._sockets.ignore(wanted.id)
            self._unwire(wanted.id)
            return pending(self._wiring.why_unwired(wanted))
        if len({subnet.ref.segment for subnet in wanted.subnets}) > 1:
            self._unwire(wanted.id)
            return invalid("its subnets have different tunnels, and this data plane has a device in one bridge only")
        key = Key(Kind.PORT, wanted.id)
        up = wanted.port.admin_state_up
        self._population.enter(key, tuple(subnet.ref for subnet in wanted.subnets) if up else ())
        held: dict[str, tuple[bytes, ...]] = {}
        for fixed in wanted.held if up else ():
            held[fixed.subnet_id] = (*held.get(fixed.subnet_id, ()), fixed.address)
        self._population.settle(wanted.id, held)
        return self._set_port(wanted, link)

    def _set_port(self, wanted: PortWanted, link: Link) -> Outcome | None:
        hands_up = wanted.id in self._dhcp
        if hands_up:
            try:
                self._sockets.listen(wanted.id, link.ifindex, link.name)
            except OSError as problem:
                return failed(f"cannot listen on device {link.name}: {problem}")
        else:
            self._sockets.ignore(wanted.id)
        items = port_items(wanted, link.ifindex, link.name, hands_up_dhcp=hands_up)
        self._set(Key(Kind.PORT, wanted.id), items)
        self._unknown.set_port(wanted)
        return None

    def _refresh_port(self, port_id: str) -> Outcome | None:
        wanted, link = self._wiring.port(port_id), self._wiring.device_of(port_id)
        return self._set_port(wanted, link) if wanted is not None and link is not None else None

    def _unwire(self, port_id: str) -> None:
        key = Key(Kind.PORT, port_id)
        self._book.set(key, {})
        self._unknown.forget_port(port_id)
        self._population.enter(key, ())
        self._population.settle(port_id, {})

    def _set(self, owner: Key, items: Items) -> None:
        self._neighbors.make_room(items)
        self._book.set(owner, items)

    # -- routers, and what follows from many resources

    def _forget_router(self, router_id: str) -> None:
        known = self._routers.pop(router_id, None)
        for routed in known.subnets if known is not None else ():
            if self._router_of.get(routed.subnet.id) == router_id:
                del self._router_of[routed.subnet.id]

    def _set_router(self, wanted: RouterWanted) -> None:
        local = self._population.local(routed.subnet.id for routed in wanted.subnets)
        items = router_items(wanted, local, self._settings.tunnel_mtu)
        self._set(Key(Kind.ROUTER, wanted.id), items)

    def _derive(self) -> None:
        self._neighbors.derive()
        segments, subnets = self._population.take_changed()
        for segment in segments:
            owner = Key(Kind.SUBNET, f"/{segment_id(segment)}")
            self._set(owner, only_items(segment, self._population.subnets(segment)))
        touched = dict.fromkeys(self._router_of[name] for name in subnets if name in self._router_of)
        for router_id in touched:
            self._set_router(self._routers[router_id])

    # -- devices come and go ------------------------------------------------------------------------------------

    def _on_link(self, before: Link | None, after: Link | None) -> None:
        link = after or before
        if link is not None:
            self._on_port_setting(link.ifindex)
            self._unknown.device_changed(link.name)
        with self._lock:
            concerned = frozenset(filter(self._wiring.differs, self._wiring.concerned(before, after)))
        if concerned:
            self._listener(DevicesChanged(concerned))

    def _on_port_setting(self, index: int) -> None:
        if self._notices is not None:
            self._notices.suspect_link(index)

    def set_tunnel_address(self, address: bytes) -> None:
        with self._lock:
            settings = replace(self._settings, tunnel_address=address)
            if len(address) != len(self._settings.tunnel_address):
                raise DataPlaneError(f"tunnel address {format_address(address)} is of another family than before")
            self._settings = settings
            if self._installer is not None:
                self._move_tunnels(self._installer)

    def _move_tunnels(self, installer: Installer) -> None:
        floods = [item for item in self._book.installed.get(FloodItem, ()) if isinstance(item, FloodItem)]
        with asking():
            refused = installer.move_tunnels(self._settings, floods)
        if refused:
            # Tunnels that end elsewhere are made anew, with all that has to do with them.
            _log.info("tunnels are made anew: %s", refused[min(refused)])
            self._kept_up(lambda upkeep: upkeep.heal(Suspicion(everything=True)))

    # -- what stands ---------------------------------------------------------------------------------------------

    def check(self) -> Survey:
        return self._kept_up(lambda upkeep: upkeep.check())

    def survey(self, unsettled: Collection[Key]) -> Survey:
        found = self._kept_up(lambda upkeep: upkeep.survey(unsettled))
        made = self._kept_up(lambda _: self._made.leftovers(unsettled))
        return replace(found, leftovers=[*found.leftovers, *made])

    def sweep(self, leftovers: Sequence[Leftover]) -> int:
        made = [one for one in leftovers if isinstance(one.handle, MadeTrace)]
        others = [one for one in leftovers if not isinstance(one.handle, MadeTrace)]
        return self._kept_up(lambda upkeep: upkeep.sweep(others) + self._made.sweep(made))

    def _kept_up(self, work: Callable[[Upkeep], _T]) -> _T:
        upkeep = self._upkeep
        if upkeep is None:
            raise DataPlaneError("the kernel's netlink sockets are not open")
        try:
            with asking():
                return work(upkeep)
        except KeyError as problem:
            # At the end what is in hand is not waited for, and finds that nothing is anywhere any more.
            if self._closing.is_set():
                raise DataPlaneError("the data plane is closing") from problem
            raise

    def _on_suspicion(self, suspicion: Suspicion) -> None:
        if self._upkeep is not None:
            self._upkeep.heal(suspicion)

    def _put_back(self) -> Collection[Key]:
        problems: dict[Key, Outcome] = {}
        if self._installer is not None:
            self._delivery.install(self._installer, problems)
            self._unknown.listen()
        return problems.keys()

    # -- packets ------------------------------------------------------------------------------------------------

    def inject(self, port_id: str, frame: bytes) -> None:
        link = self._wiring.device_of(port_id)
        if link is not None:
            try:
                send_frame(link.name, frame)
            except OSError as problem:
                _log.debug("a frame for port %s is lost: %s", port_id, problem)

    def resubmit(self, punt: Punt) -> None:
        link = self._wiring.device_of(punt.port_id)
        try:
            self._unknown.answer(punt, link.name if link is not None else None)
        except OSError as problem:
            _log.debug("an answer for port %s is lost: %s", punt.port_id, problem)

    def _address_of(self, subnet_id: str, address: bytes) -> bytes | None:
        with self._lock:
            stands = self._objects.value_of(ElementItem("addresses", key_bytes(number(mark_of(subnet_id)), address)))
        return stands if isinstance(stands, bytes) else None

    def _hand_up(self, port_id: str, frame: bytes) -> None:
        self._listener(Punt(PuntReason.DHCP, port_id, frame))

    def describe(self) -> Mapping[str, Any]:
        ports = {NetworkType.VXLAN: self._settings.vxlan_port, NetworkType.GENEVE: self._settings.geneve_port}
        with self._lock:
            return {
                "kind": "netlink",
                "tunnels": {kind.name: ports[kind] for kind in sorted(self.capabilities.network_types)},
                "wired_ports": len(self._wiring),
                "routers": len(self._routers),
                "objects": self._objects.count(),
                "unknown_dropped": self._unknown.dropped,
            }
