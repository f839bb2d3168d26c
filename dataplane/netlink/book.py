"""What is installed, and for whom.

Every owner (a port, a neighbour...) is rendered as a whole by a pure function; what is done is the difference. An
object that several owners want stands until the last gives it up; its value is the one's that came last.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from dataplane.model import Key
from dataplane.netlink.items import (
    ElementItem,
    Item,
    Items,
    LegItem,
    MacItem,
    RouteItem,
    RouteValue,
    RuleItem,
    Value,
    Via,
)


class Nothing(enum.Enum):
    """That there is no object (None is a value)."""

    NOTHING = 0


NOTHING = Nothing.NOTHING


class Change(NamedTuple):
    item: Item
    before: Value | Nothing
    after: Value | Nothing


class Book:
    """Objects by owner. Not thread safe: the caller's lock guards it."""

    def __init__(self) -> None:
        self._by_owner: dict[Key, Items] = {}
        self._claims: dict[Item, dict[Key, Value]] = {}
        self._installed: dict[Item, Value] = {}
        self._by_kind: dict[type[Item], dict[Item, Value]] = {}
        self._in_sets: Counter[str] = Counter()
        self._touched: dict[Item, None] = {}

    def set(self, owner: Key, items: Items) -> None:
        """Make these the owner's objects. Those whose installation failed before are tried again."""
        before = self._by_owner.get(owner)
        if before is None:
            self._set_new(owner, items)
            return
        for item, value in items.items():
            if item not in before or before[item] != value:
                claims = self._claims.setdefault(item, {})
                claims.pop(owner, None)
                claims[owner] = value
                self._touched[item] = None
            elif item not in self._installed:
                self._touched[item] = None
        for item in before.keys() - items.keys():
            claims = self._claims[item]
            del claims[owner]
            if not claims:
                del self._claims[item]
            self._touched[item] = None
        if items:
            self._by_owner[owner] = items
        else:
            self._by_owner.pop(owner, None)

    def _set_new(self, owner: Key, items: Items) -> None:
        """set() for who has nothing yet: a port has a dozen objects, and nobody else has any of them."""
        if not items:
            return
        claims_of = self._claims
        for item, value in items.items():
            claims = claims_of.get(item)
            if claims is None:
                claims_of[item] = {owner: value}
            else:
                claims[owner] = value
        self._touched.update(dict.fromkeys(items))
        self._by_owner[owner] = items

    def adopt(self, owner: Key, items: Items, standing: Iterable[Item]) -> None:
        """Take over somebody's objects, of which these stand. He has none here yet."""
        self._by_owner[owner] = items
        for item, value in items.items():
            self._claims.setdefault(item, {})[owner] = value
        for item in standing:
            self._put(item, items[item])

    def concerns(self, item: Item) -> bool:
        """Whether somebody wants it, or it stands, or it is to be changed."""
        return item in self._claims or item in self._installed or item in self._touched

    def of(self, owner: Key) -> Items:
        return self._by_owner.get(owner, {})

    def owners(self, item: Item) -> list[Key]:
        return list(self._claims.get(item, ()))

    def value_of(self, item: Item) -> Value | Nothing:
        """The value that stands."""
        return self._installed.get(item, NOTHING)

    def take_evictions(self) -> list[Change]:
        """What stands on a router's leg that is to be made anew, elsewhere or otherwise: the leg and all that goes
        with it. To be removed, and followed by `done`, before the changes are taken."""
        moving = {
            item.subnet_id
            for item in self._touched
            if isinstance(item, LegItem) and item in self._installed
            if self.wanted_value(item) != self._installed[item]
        }
        if not moving:
            return []
        evicted = [item for item, value in self._installed.items() if leg_of(item, value) in moving]
        self._touched.update(dict.fromkeys(evicted))
        return [Change(item, self._installed[item], NOTHING) for item in evicted]

    def wanted_value(self, item: Item) -> Value | Nothing:
        """The value that it is to have."""
        claims = self._claims.get(item)
        return claims[next(reversed(claims))] if claims else NOTHING

    def take_changes(self) -> list[Change]:
        """What is to be done now, to be followed by `done`."""
        changes = []
        claims_of, installed, new = self._claims, self._installed, tuple.__new__
        for item in self._touched:
            claims = claims_of.get(item)
            after: Value | Nothing = NOTHING
            if claims is not None:
                # Nearly all objects have one owner.
                after = next(iter(claims.values())) if len(claims) == 1 else claims[next(reversed(claims))]
            before = installed.get(item, NOTHING)
            if before is not after and before != after:
                changes.append(new(Change, (item, before, after)))
        self._touched.clear()
        return changes

    def done(self, changes: Iterable[Change], failed: Iterable[Item]) -> None:
        """These were carried out, but for the failed: of those nothing stands."""
        lost, put = set(failed), self._put
        for item, _, after in changes:
            if after is NOTHING or (lost and item in lost):
                self._drop(item)
            else:
                put(item, after)

    def distrust(self, items: Iterable[Item]) -> None:
        """The kernel has lost them: to be installed again when their owners are set again."""
        for item in items:
            self._drop(item)

    def _put(self, item: Item, value: Value) -> None:
        kind = type(item)
        if kind is ElementItem and item not in self._installed:
            self._in_sets[item.set_name] += 1  # type: ignore[union-attr]
        self._installed[item] = value
        of_kind = self._by_kind.get(kind)
        if of_kind is None:
            of_kind = self._by_kind[kind] = {}
        of_kind[item] = value

    def _drop(self, item: Item) -> None:
        if isinstance(item, ElementItem) and item in self._installed:
            self._in_sets[item.set_name] -= 1
        self._installed.pop(item, None)
        self._by_kind.get(type(item), {}).pop(item, None)

    def lose(self, items: Iterable[Item]) -> None:
        """distrust(), and those that are wanted are among the next changes whoever is set again."""
        for item in items:
            self._drop(item)
            if item in self._claims:
                self._touched[item] = None

    def touch_missing(self, owners: Iterable[Key]) -> None:
        """What these want and is not installed is among the next changes."""
        for owner in owners:
            self._touched.update((item, None) for item in self.of(owner) if item not in self._installed)

    def lacking(self, owners: Iterable[Key]) -> frozenset[Key]:
        """Those of them that want something which is not installed."""
        return frozenset(
            owner for owner in owners if any(item not in self._installed for item in self.of(owner))
        )

    @property
    def installed(self) -> Mapping[type[Item], Mapping[Item, Value]]:
        """By kind; a view."""
        return self._by_kind

    @property
    def elements_of_sets(self) -> Mapping[str, int]:
        """How many elements each set is to have; a view."""
        return self._in_sets

    def wants(self, item: Item) -> bool:
        return item in self._claims

    def count(self) -> int:
        return len(self._installed)


def leg_of(item: Item, value: Value) -> str | None:
    """The subnet of the leg that the object is, or goes away with."""
    match item:
        case LegItem() | RuleItem():
            return item.subnet_id
        case ElementItem():
            return item.device if isinstance(item.device, str) else None
        case MacItem():
            return value.leg or None if isinstance(value, Via) else None
        case RouteItem():
            return value.leg if isinstance(value, RouteValue) else None
    return None
