"""Changes of ports and elements as changes of the filter, in groups that stand or fall together."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from dataplane.netlink.book import NOTHING, Change
from dataplane.netlink.filtering import Elements, Group, elements_group
from dataplane.netlink.hooks import Hooks
from dataplane.netlink.inheritance import Inheritance
from dataplane.netlink.items import ElementItem, Failed, Item, Tap, TapItem, Value
from dataplane.netlink.places import Places


class _OfSet:
    """Of one set: what is changed, as the elements that are to go and to come."""

    __slots__ = ("gone", "items", "new")

    def __init__(self) -> None:
        self.items: list[Item] = []
        self.gone: Elements = []
        self.new: Elements = []


class FilterChanges:
    """Not thread safe."""

    def __init__(self, hooks: Hooks, places: Callable[[], Places]) -> None:
        self._hooks = hooks
        self._places = places

    def additions(self, added: Iterable[Change], inherited: Inheritance, failed: Failed) -> list[Group]:
        """Of ports and elements that are new or have another value. What stands as it is to be is left alone."""
        places, standing = self._places(), inherited.elements
        groups: list[Group] = []
        sets: dict[str, _OfSet] = {}
        for item, before, after in added:
            if isinstance(item, ElementItem):
                name, key, device, _ = item
                if device is not None:
                    whole = places.key_of(item)
                    if whole is None:
                        failed[item] = "the device it is about is not there"
                        continue
                    key = whole
                of_set = sets.get(name)
                if of_set is None:
                    of_set = sets[name] = _OfSet()
                data = after if isinstance(after, bytes) else b""
                stands = standing.pop((name, key), None) if standing else None
                if before is not NOTHING:
                    of_set.gone.append((key, data_of(before)))
                elif stands == data:
                    continue
                elif stands is not None:
                    of_set.gone.append((key, stands))
                of_set.new.append((key, data))
                of_set.items.append(item)
            elif isinstance(item, TapItem) and isinstance(after, Tap):
                if after.segment not in places.segments:
                    failed[item] = f"device {after.name}: its segment has no bridge"
                    continue
                if isinstance(before, Tap) and before.name != after.name:
                    self._hooks.unhook(item.ifindex, before.name)
                groups.append(Group([item], self._hooks.hook(item.ifindex, after)))
        groups += _of_sets(sets)
        return groups + self._without_stale(added, inherited)

    def removals(self, removed: Iterable[Change]) -> list[Group]:
        places = self._places()
        groups: list[Group] = []
        sets: dict[str, _OfSet] = {}
        for item, before, _ in removed:
            if isinstance(item, TapItem):
                groups += self.unhook([(item, before)])
            elif isinstance(item, ElementItem) and (key := places.key_of(item)) is not None:
                of_set = sets.setdefault(item.set_name, _OfSet())
                of_set.gone.append((key, data_of(before)))
                of_set.items.append(item)
        return groups + _of_sets(sets)

    def unhook(self, taps: Iterable[tuple[Item, object]]) -> list[Group]:
        """Takes them out of the chains that they share, at once; returns what removes their own."""
        groups: list[Group] = []
        for item, tap in taps:
            if isinstance(item, TapItem) and isinstance(tap, Tap):
                self._hooks.unhook(item.ifindex, tap.name)
                groups.append(Group([item], self._hooks.take_own(item.ifindex)))
        return groups

    def _without_stale(self, added: Iterable[Change], inherited: Inheritance) -> list[Group]:
        """What ports said to an earlier agent's liking, and are not to say any more."""
        groups: list[Group] = []
        for item, _, _ in added if self._hooks.inherits else ():
            keys = self._hooks.take_inherited(item.ifindex) if isinstance(item, TapItem) else ()
            for key in keys:
                data = inherited.elements.pop(key, None)
                if data is not None:
                    groups.append(elements_group([item], key[0], [(key[1], data)], []))
        return groups


def _of_sets(sets: dict[str, _OfSet]) -> list[Group]:
    return [elements_group(one.items, name, one.gone, one.new) for name, one in sets.items() if one.items]


def data_of(value: Value | object) -> bytes:
    return value if isinstance(value, bytes) else b""
