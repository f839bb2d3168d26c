"""Checks, surveys and sweeps of what stands: `surveyor` reads and compares, this acts on what it finds."""

from __future__ import annotations

import threading
from collections.abc import Collection, Sequence
from typing import NamedTuple

from dataplane.base import Leftover, Survey
from dataplane.model import Key, Kind
from dataplane.ovs import leftovers as database
from dataplane.ovs.activity import Activity
from dataplane.ovs.book import FlowBook, FlowId, Owner
from dataplane.ovs.bringup import TUNNEL_NAMES
from dataplane.ovs.devices import DeviceMaker, is_made
from dataplane.ovs.drift import Changed
from dataplane.ovs.fixed import WHOLE, FixedPart
from dataplane.ovs.members import Members
from dataplane.ovs.neighbors import NeighborBook
from dataplane.ovs.openflow.errors import ProgrammerError
from dataplane.ovs.openflow.messages import FlowStat
from dataplane.ovs.openflow.programmer import FlowProgrammer
from dataplane.ovs.ovsdb import Device, Ovsdb
from dataplane.ovs.pipeline.layout import (
    COOKIE_MARK,
    MARK_MASK,
    Feature,
    cookie,
    cookie_feature,
    cookie_range,
    segment_of,
)
from dataplane.ovs.settings import OvsSettings
from dataplane.ovs.surveyor import Findings, Surveyor
from dataplane.ovs.takeover import FORMER
from dataplane.ovs.wiring import Wiring
from dataplane.ovs.work import Work

_EXAMPLES = 5
_KINDS = {
    Feature.SUBNET: Kind.SUBNET,
    Feature.PORT: Kind.PORT,
    Feature.NEIGHBOR: Kind.NEIGHBOR,
    Feature.ROUTER: Kind.ROUTER,
    Feature.DHCP: Kind.PORT,
    Feature.FLOOD: Kind.SUBNET,
    Feature.PUNT_UNKNOWN: Kind.PORT,
}
"""The resource that is applied again for flows of a feature; its id is the owner's name."""


class FlowHandle(NamedTuple):
    """A flow on the switch, its match as the switch spells it."""

    cookie: int
    table: int
    priority: int
    match: bytes


class Audit:
    """See `DataPlane.check`, `survey` and `sweep`. Thread safe; `lock` guards the books, `members` and `wiring`.

    Methods raise ProgrammerError, OpenFlowError, OvsdbError or a time-out.
    """

    def __init__(
        self,
        settings: OvsSettings,
        lock: threading.RLock,
        book: FlowBook,
        neighbors: NeighborBook,
        members: Members,
        wiring: Wiring,
        ovsdb: Ovsdb,
        maker: DeviceMaker,
        fixed: FixedPart,
        activity: Activity,
    ) -> None:
        self._settings = settings
        self._lock = lock
        self._book = book
        self._neighbors = neighbors
        self._members = members
        self._wiring = wiring
        self._ovsdb = ovsdb
        self._maker = maker
        self._fixed = fixed
        self._activity = activity
        self._surveyor = Surveyor(lock, book, neighbors, activity, settings.confirm_timeout_s)
        self._turn = threading.Lock()
        """One look at a time, so that nothing is told twice."""
        self._surplus = 0
        """Flows with our mark that stood without being wanted when they were last counted."""
        self._spared: frozenset[str] = frozenset()
        """Ids of the ports that were unsettled at the last survey: their devices stay."""
        self.all_settled = False
        """Whether everything wanted was programmed at the last survey."""

    def check(self, programmer: FlowProgrammer) -> Survey:
        with self._turn:
            if self._has_fewer(programmer):
                findings = self._surveyor.look_at_all(programmer)
            else:
                findings = self._surveyor.look_further(programmer)
            return self._act_on(findings, programmer)

    def survey(self, programmer: FlowProgrammer, unsettled: Collection[Key]) -> Survey:
        with self._turn:
            findings = self._surveyor.look_at_all(programmer, self._cookies_of(unsettled))
            self._keep_floods(unsettled, findings)
            self._spared = frozenset(key.id for key in unsettled if key.kind is Kind.PORT)
            self.all_settled = not unsettled
            survey = self._act_on(findings, programmer)
            self._surplus = len(findings.leftovers)
            found = [_leftover(flow) for flow in findings.leftovers]
            found += self._found_in_database()
            return Survey(
                survey.standing, survey.missing, survey.altered, survey.examples, survey.again, tuple(found)
            )

    def look_at(self, changed: Changed, programmer: FlowProgrammer) -> Survey:
        """Somebody may have changed flows with these cookies: tell what is not as it should be."""
        with self._turn:
            if changed is None:
                return self._act_on(self._surveyor.look_at_all(programmer), programmer)
            # Neighbours are many and have to be searched for: not on account of what the agent itself has deleted.
            start, mask = cookie_range(COOKIE_MARK, Feature.NEIGHBOR)
            own = {value for value in self._activity.recent().deleted() if value & mask == start}
            owners = self._surveyor.owners_of(changed - own)
            return self._act_on(self._surveyor.look_at(programmer, owners), programmer)

    def sweep(self, programmer: FlowProgrammer, leftovers: Sequence[Leftover]) -> tuple[int, frozenset[Key]]:
        """How many were taken away, and resources that came to want one meanwhile: they are to be applied again."""
        handles = [one.handle for one in leftovers]
        with self._turn, self._activity.watch() as began:
            again, count = self._sweep_flows(programmer, [one for one in handles if isinstance(one, FlowHandle)], began)
            in_database = [one for one in handles if isinstance(one, database.DatabaseHandle)]
            count += database.remove(
                in_database,
                self._tunnels(),
                self._ovsdb,
                self._maker,
                self._is_wanted,
                self._settings.confirm_timeout_s,
            )
            self._surplus = 0
            if self.all_settled:
                self._forget_former()
            return count, again

    def _forget_former(self) -> None:
        """All that an earlier agent left is gone, or is known."""
        with self._lock:
            self._book.inherited = self._neighbors.inherited = False
            former = self._book.former_marks
            self._book.former_marks = self._neighbors.former_marks = ()
        if former:
            self._ovsdb.set_bridge_external_ids({FORMER: None})

    def _sweep_flows(
        self, programmer: FlowProgrammer, handles: Sequence[FlowHandle], began: float
    ) -> tuple[frozenset[Key], int]:
        work = Work(programmer)
        self._activity.begin(work)
        try:
            with self._lock:
                flows = [FlowStat(one.table, one.priority, one.cookie, one.match, b"", 0, 0) for one in handles]
                unaccounted = self._surveyor.unaccounted(flows)
                for flow in unaccounted:
                    identity = (flow.table, flow.priority, flow.match)
                    work.transaction.delete_strict(flow.cookie, identity, (WHOLE, _SWEPT))
            work.send()
            for future, _ in work.sent:
                refused = future.result(self._settings.confirm_timeout_s)
                if refused:
                    raise ProgrammerError(f"the switch refuses to delete a flow: {next(iter(refused.values()))}")
        finally:
            self._activity.end(work)
        # Whoever came to want a flow while it was being deleted may have come first or last.
        swept = {flow.cookie for flow in unaccounted}
        owners = [owner for owner in self._activity.since(began).owners() if cookie(*owner) in swept]
        with self._lock:
            for owner in owners:
                self._doubt(owner)
            return self._keys_of(owners), len(unaccounted)

    def _has_fewer(self, programmer: FlowProgrammer) -> bool:
        """Whether less stands than should, or than stood beside it at the last count."""
        surplus = self._surveyor.surplus(programmer)
        if surplus is None:
            return False
        with self._lock:
            settled = not self._neighbors.doubtful_ids() and not self._book.inherited
        fewer = surplus < 0 or (settled and surplus < self._surplus)
        if fewer or settled:
            self._surplus = max(0, surplus)
        return fewer

    def _act_on(self, findings: Findings, programmer: FlowProgrammer) -> Survey:
        owners = findings.owners()
        if owners:
            with self._lock:
                for owner in owners:
                    self._doubt(owner)
            if owners & set(self._fixed.owners()):
                self._fixed.program(programmer)
        with self._lock:
            again = self._keys_of(owners)
        lost = [("missing", *one) for one in findings.missing] + [("altered", *one) for one in findings.altered]
        return Survey(
            findings.standing,
            len(findings.missing),
            len(findings.altered),
            tuple(_words(*one) for one in lost[:_EXAMPLES]),
            again,
        )

    def _doubt(self, owner: Owner) -> None:
        feature, name = owner
        if feature is Feature.NEIGHBOR:
            self._neighbors.doubt_known(name)
        else:
            self._book.doubt_installed(owner)

    def _keys_of(self, owners: Collection[Owner]) -> frozenset[Key]:
        keys = {Key(_KINDS[feature], name) for feature, name in owners if feature in _KINDS and name}
        for feature, name in owners:
            if feature is Feature.SEGMENT:
                keys |= {Key(Kind.SUBNET, one.ref.subnet_id) for one in self._members.segment(segment_of(name))}
        return frozenset(keys)

    # -- what is not to be swept

    def _cookies_of(self, unsettled: Collection[Key]) -> set[int]:
        features = {
            Kind.SUBNET: (Feature.SUBNET,),
            Kind.PORT: (Feature.PORT, Feature.DHCP, Feature.PUNT_UNKNOWN),
            Kind.NEIGHBOR: (Feature.NEIGHBOR,),
            Kind.ROUTER: (Feature.ROUTER,),
        }
        return {cookie(feature, key.id) for key in unsettled for feature in features.get(key.kind, ())}

    def _keep_floods(self, unsettled: Collection[Key], findings: Findings) -> None:
        """An unsettled port or subnet is served by flood lists too, which carry the ids of subnets and segments."""
        keep: set[int] = set()
        all_of: set[Feature] = set()
        with self._lock:
            for key in unsettled:
                if key.kind is Kind.SUBNET:
                    keep.add(cookie(Feature.FLOOD, key.id))
                    all_of.add(Feature.SEGMENT)
                elif key.kind is Kind.PORT:
                    port = self._wiring.port(key.id)
                    all_of |= {Feature.SEGMENT} if port is not None else {Feature.SEGMENT, Feature.FLOOD}
                    keep |= {cookie(Feature.FLOOD, one.id) for one in port.subnets} if port is not None else set()
        kept = {value & ~MARK_MASK for value in keep}
        findings.leftovers = [
            flow
            for flow in findings.leftovers
            if flow.cookie & ~MARK_MASK not in kept and cookie_feature(flow.cookie) not in all_of
        ]

    def _found_in_database(self) -> list[Leftover]:
        # Whoever turned the making of devices off is left what has been made.
        devices = [one for one in self._ovsdb.devices().values() if self._maker.active or not is_made(one)]
        strays = self._maker.strays(self._spared)
        return database.find(self._ovsdb.bridge_state(), self._tunnels(), devices, self._is_wanted, strays)

    def _is_wanted(self, device: Device) -> bool:
        with self._lock:
            return device.iface_id in self._spared or self._wiring.may_be_wanted(device)

    def _tunnels(self) -> frozenset[str]:
        return frozenset(TUNNEL_NAMES[network_type] for network_type in self._settings.tunnel_ports)


_SWEPT: Owner = (Feature.STATIC, "swept")


def _leftover(flow: FlowStat) -> Leftover:
    return Leftover(
        f"flow of {_feature(cookie_feature(flow.cookie))} in table {flow.table}, cookie {flow.cookie:#x}",
        FlowHandle(flow.cookie, flow.table, flow.priority, flow.match),
    )


def _words(what: str, owner: Owner, identity: FlowId) -> str:
    feature, name = owner
    whose = f"{_feature(feature)} {name}".rstrip()
    return f"flow of {whose} in table {identity[0]}, priority {identity[1]}: {what}"


def _feature(number: int) -> str:
    return Feature(number).name.lower().replace("_", " ") if number in set(Feature) else f"feature {number}"
