"""The desired state: everything the controllers have asked of this host. The only mutable truth.

One writer, no I/O, no threads, no clock (the caller says what time it is). Messages are merged in; what has to be
looked at again is collected in `take_dirty`. References may point to things that are not here yet.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from aca.goalstate.bindings import remove_dhcp, upsert_dhcp
from aca.goalstate.bulk import NewNeighbors
from aca.goalstate.changes import Change, RouterPatch
from aca.goalstate.merge import merge_delta, merge_router, out_of_order, with_revision
from aca.goalstate.neighbors import remove_neighbor, upsert_neighbor
from aca.goalstate.networks import remove_subnet, remove_vpc, upsert_subnet, upsert_vpc
from aca.goalstate.ports import claim_port, remove_port, upsert_port
from aca.goalstate.records import Records
from aca.goalstate.routers import remove_router, upsert_router
from dataplane.base import Outcome, invalid
from dataplane.model import Gateway, Key, Kind, Neighbor, SecurityGroup

MAX_TOMBSTONES = 10_000
TOMBSTONE_SECONDS = 3600.0
PROGRAMMED = frozenset({Kind.SUBNET, Kind.PORT, Kind.NEIGHBOR, Kind.ROUTER})
"""Kinds that a data plane has objects of."""

Stored = TypeVar("Stored", SecurityGroup, Gateway)


@dataclass(slots=True)
class DesiredState(Records):
    """See the module."""

    _tombstones: OrderedDict[Key, tuple[int, float]] = field(default_factory=OrderedDict)

    def merge(self, changes: Iterable[Change], now: float) -> list[Outcome | None]:
        """Merge changes of one kind. Per change: None if accepted, else why it changes nothing.

        `now` is any steadily rising clock, in seconds; it only ages tombstones.
        """
        merge_one = self._merge_one
        new_neighbors = NewNeighbors(self.index, self.subnets, self.neighbors, self.next_hops)
        outcomes: list[Outcome | None] = []
        for change in changes:
            if change.error:
                outcomes.append(invalid(change.error))
            elif change.kind is Kind.NEIGHBOR and not self._tombstones and new_neighbors.take(change):
                outcomes.append(None)
            else:
                outcomes.append(merge_one(change, now))
                new_neighbors.look_again()
        if new_neighbors.taken:
            self.dirty.setdefault(Kind.NEIGHBOR, {}).update(new_neighbors.taken)
        return outcomes

    def _merge_one(self, change: Change, now: float) -> Outcome | None:
        kind = change.kind
        known = self.store(kind).get(change.id)
        stale = self._stale(change, known, now)
        if stale is not None:
            return stale
        if change.delete:
            if known is not None:
                self._removers()[kind](known)
            elif kind in PROGRAMMED:
                # An earlier agent may have programmed it.
                self.mark(kind, change.id, change.vpc_id)
            if change.revision > 1:
                self._bury(Key(kind, change.id), change.revision, now)
            return None
        self._tombstones.pop(Key(kind, change.id), None)
        if kind is Kind.NEIGHBOR:
            assert isinstance(change.value, Neighbor)
            return upsert_neighbor(self, known, change.value, change.full)
        return self._upsert(kind, known, change)

    def _stale(self, change: Change, known: Any, now: float) -> Outcome | None:
        latest = known.revision if known is not None else 0
        if known is None and self._tombstones:
            grave = self._tombstones.get(Key(change.kind, change.id))
            if grave is not None and now - grave[1] <= TOMBSTONE_SECONDS:
                latest = grave[0]
        return out_of_order(change.revision, latest) if 0 < change.revision < latest else None

    def _bury(self, key: Key, revision: int, now: float) -> None:
        self._tombstones[key] = (revision, now)
        self._tombstones.move_to_end(key)
        while self._tombstones:
            oldest = next(iter(self._tombstones.values()))
            if len(self._tombstones) <= MAX_TOMBSTONES and now - oldest[1] <= TOMBSTONE_SECONDS:
                return
            self._tombstones.popitem(last=False)

    def _upsert(self, kind: Kind, known: Any, change: Change) -> Outcome | None:
        value: Any = change.value
        if isinstance(value, RouterPatch):
            value = merge_router(known, value, full=change.full)
        elif known is not None and not change.full:
            value = merge_delta(known, value)
        if known is not None:
            if getattr(known, "vpc_id", "") != getattr(value, "vpc_id", ""):
                return invalid(f"{kind.name} {change.id}: vpc_id cannot change from {known.vpc_id!r}; delete it first")
            if value.revision < known.revision:
                value = with_revision(value, known.revision)
        if value == known:
            self._reassert(kind, value)
            return None
        self._put(kind, known, value)
        return None

    def _put(self, kind: Kind, known: Any, new: Any) -> None:
        match kind:
            case Kind.PORT:
                upsert_port(self, known, new)
            case Kind.VPC:
                upsert_vpc(self, known, new)
            case Kind.SUBNET:
                upsert_subnet(self, known, new)
            case Kind.ROUTER:
                upsert_router(self, known, new)
            case Kind.DHCP:
                upsert_dhcp(self, known, new)
            case Kind.SECURITYGROUP:
                self._plain(kind, self.security_groups, new)
            case Kind.GATEWAY:
                self._plain(kind, self.gateways, new)

    def _removers(self) -> Mapping[Kind, Callable[[Any], None]]:
        return {
            Kind.VPC: partial(remove_vpc, self),
            Kind.SUBNET: partial(remove_subnet, self),
            Kind.PORT: partial(remove_port, self),
            Kind.NEIGHBOR: partial(remove_neighbor, self),
            Kind.ROUTER: partial(remove_router, self),
            Kind.DHCP: partial(remove_dhcp, self),
            Kind.SECURITYGROUP: lambda known: self._drop(Kind.SECURITYGROUP, self.security_groups, known),
            Kind.GATEWAY: lambda known: self._drop(Kind.GATEWAY, self.gateways, known),
        }

    def _plain(self, kind: Kind, store: dict[str, Stored], value: Stored) -> None:
        store[value.id] = value
        self.mark(kind, value.id, getattr(value, "vpc_id", ""))

    def _drop(self, kind: Kind, store: dict[str, Stored], value: Stored) -> None:
        store.pop(value.id, None)
        self.mark(kind, value.id, getattr(value, "vpc_id", ""))

    def _reassert(self, kind: Kind, value: Any) -> None:
        """An unchanged resource that arrives again is the latest word on what it claims, if others claim it too."""
        if kind is Kind.PORT and value.admin_state_up:
            claim_port(self, value)
