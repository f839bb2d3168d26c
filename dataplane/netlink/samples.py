"""A slice of what is installed at a time, asked for one by one."""

from __future__ import annotations

from dataplane.netlink.audit import Findings, Installed, compare_elements, compare_entries, of_kinds
from dataplane.netlink.filter import number
from dataplane.netlink.items import ElementItem, Item, MacItem, SegmentItem, Via
from dataplane.netlink.neighbors import OBJECTS_EACH
from dataplane.netlink.objects import Objects
from dataplane.netlink.places import Places
from dataplane.netlink.standing import ElementKey, Entries, Reader, elements_of, note_entry

_SELF, _MASTER = 0x02, 0x04
_LEAST, _PARTS = 500, 256
"""A slice is a part of all objects, so that all have been looked at after so many."""


class Sampler:
    """Remembers where it is. Not thread safe."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._items: list[Item] = []
        self._neighbors: list[str] = []
        self._routers: list[str] = []
        self._at_once = _LEAST, _LEAST

    def compare(self, found: Findings, objects: Objects, places: Places) -> None:
        """Forwarding entries and elements, those of tunnel devices too. Raises OSError."""
        if not self._items and not self._neighbors:
            self._items = [item for item, _ in of_kinds(objects.of_book, SegmentItem, MacItem, ElementItem)]
            self._neighbors = objects.neighbors.ids()
            counts = len(self._items), len(self._neighbors) * OBJECTS_EACH
            slices = (max(_LEAST * count // max(sum(counts), 1), count // _PARTS, 1) for count in counts)
            of_items, of_neighbors = slices
            self._at_once = of_items, max(1, of_neighbors // OBJECTS_EACH)
        of_items, of_neighbors = self._at_once
        items, self._items = self._items[-of_items:], self._items[:-of_items]
        names, self._neighbors = self._neighbors[-of_neighbors:], self._neighbors[:-of_neighbors]
        compare_one_by_one(found, objects.chosen(items, names), places, self._reader)

    def next_router(self, places: Places) -> str | None:
        """Each in turn."""
        if not self._routers:
            self._routers = list(places.routers)
        while self._routers:
            router_id = self._routers.pop()
            if router_id in places.routers:
                return router_id
        return None


def compare_one_by_one(found: Findings, chosen: Installed, places: Places, reader: Reader) -> None:
    """Elements, tunnel devices' among them, and MACs; the kernel is asked about each. Raises OSError."""
    elements: dict[ElementKey, bytes] = {}
    keys = [
        (item.set_name, key)
        for item, _ in of_kinds(chosen, ElementItem)
        if isinstance(item, ElementItem) and (key := places.key_of(item)) is not None
    ]
    keys += [
        ("tunnels", number(places.segments[item.segment].tunnel))
        for item, _ in of_kinds(chosen, SegmentItem)
        if isinstance(item, SegmentItem) and item.segment in places.segments
    ]
    for answer in reader.look_up_elements(keys):
        if answer is not None:
            elements.update(elements_of(answer))
    compare_elements(found, chosen, places, elements, {name for name, _ in keys})
    compare_entries(found, chosen, places, _entries(chosen, places, reader))


def _entries(chosen: Installed, places: Places, reader: Reader) -> Entries:
    asked: list[tuple[int, bytes, int]] = []
    for item, value in of_kinds(chosen, MacItem):
        if not isinstance(item, MacItem) or not isinstance(value, Via) or item.segment not in places.segments:
            continue
        _, tunnel, has_hosts = places.segments[item.segment]
        asked.append((tunnel, item.mac, _MASTER))
        if value.host and has_hosts:
            asked.append((tunnel, item.mac, _SELF))
    found = Entries()
    bridges, tunnels = set(places.bridges), set(places.tunnels)
    for answer in reader.look_up_entries(asked):
        if answer is not None:
            note_entry(found, answer, bridges, tunnels)
    return found
