"""Both books as one, for whoever compares what is wanted with what stands."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from dataplane.model import Key, Kind
from dataplane.netlink.book import NOTHING, Book, Nothing
from dataplane.netlink.items import ElementItem, Item, MacItem, Value
from dataplane.netlink.neighbors import NeighborBook
from dataplane.netlink.render import neighbor_items

_OF_NEIGHBORS: tuple[tuple[type[Item], int], ...] = ((MacItem, 1), (ElementItem, 3))
"""The kinds of objects that are kept apart, and how many of each a neighbour has."""

SETS_OF_NEIGHBORS = frozenset({"addresses", "members", "senders"})
"""Where each neighbour that is kept apart has one element."""


class Objects:
    """Nothing is copied. Not thread safe: the caller's lock guards it."""

    def __init__(self, book: Book, neighbors: NeighborBook) -> None:
        self._book = book
        self._neighbors = neighbors

    @property
    def installed(self) -> Mapping[type[Item], Mapping[Item, Value]]:
        """By kind; a view."""
        both = {kind: _Installed(kind, each, self._book, self._neighbors) for kind, each in _OF_NEIGHBORS}
        return {**self._book.installed, **both}

    @property
    def of_book(self) -> Mapping[type[Item], Mapping[Item, Value]]:
        """By kind, without the objects of the neighbours that are kept apart; a view."""
        return self._book.installed

    @property
    def neighbors(self) -> NeighborBook:
        """Those that are kept apart."""
        return self._neighbors

    def chosen(self, items: Iterable[Item], neighbor_ids: Iterable[str]) -> dict[type[Item], dict[Item, Value]]:
        """Those of the book's objects, and all of these neighbours', that are installed, by kind."""
        found: dict[type[Item], dict[Item, Value]] = {}
        of_book = self._book.installed
        for item in items:
            value = of_book.get(type(item), {}).get(item, NOTHING)
            if not isinstance(value, Nothing):
                found.setdefault(type(item), {})[item] = value
        for neighbor_id in neighbor_ids:
            for item, value in self._neighbors.items_of(neighbor_id).items():
                found.setdefault(type(item), {})[item] = value
        return found

    @property
    def elements_of_sets(self) -> Mapping[str, int]:
        """How many elements each set is to have."""
        counts = Counter(self._book.elements_of_sets)
        counts.update(dict.fromkeys(SETS_OF_NEIGHBORS, len(self._neighbors)))
        return counts

    def value_of(self, item: Item) -> Value | Nothing:
        """The value that stands."""
        owner = self._neighbors.owner_of(item)
        return self._book.value_of(item) if owner is None else neighbor_items(owner)[item]

    def wants(self, item: Item) -> bool:
        return self._book.wants(item) or self._neighbors.owner_of(item) is not None

    def wanted_value(self, item: Item) -> Value | Nothing:
        """The value that it is to have."""
        owner = self._neighbors.owner_of(item)
        return self._book.wanted_value(item) if owner is None else neighbor_items(owner)[item]

    def owners(self, item: Item) -> list[Key]:
        owner = self._neighbors.owner_of(item)
        return self._book.owners(item) if owner is None else [Key(Kind.NEIGHBOR, owner.id)]

    def distrust(self, items: Iterable[Item]) -> None:
        """See Book; whoever has lost something is kept there from now on."""
        lost = list(items)
        self._neighbors.make_room(dict.fromkeys(lost))
        self._book.distrust(lost)

    def lose(self, items: Iterable[Item]) -> None:
        """See Book; whoever has lost something is kept there from now on."""
        lost = list(items)
        self._neighbors.make_room(dict.fromkeys(lost))
        self._book.lose(lost)

    def touch_missing(self, owners: Iterable[Key]) -> None:
        """See Book."""
        self._book.touch_missing(owners)

    def lacking(self, owners: Iterable[Key]) -> frozenset[Key]:
        """See Book."""
        return self._book.lacking(owners)

    def count(self) -> int:
        return self._book.count() + self._neighbors.count()


class _Installed(Mapping[Item, Value]):
    """Of one kind."""

    def __init__(self, kind: type[Item], each: int, book: Book, neighbors: NeighborBook) -> None:
        self._kind = kind
        self._each = each
        self._of_book = book.installed.get(kind, {})
        self._neighbors = neighbors

    def __getitem__(self, item: Item) -> Value:
        value = self._of_book.get(item, NOTHING)
        if value is not NOTHING:
            return value
        owner = self._neighbors.owner_of(item) if isinstance(item, self._kind) else None
        if owner is None:
            raise KeyError(item)
        return neighbor_items(owner)[item]

    def __iter__(self) -> Iterator[Item]:
        yield from self._of_book
        for item, _ in self._neighbors.standing():
            if isinstance(item, self._kind):
                yield item

    def __len__(self) -> int:
        return len(self._of_book) + self._each * len(self._neighbors)
