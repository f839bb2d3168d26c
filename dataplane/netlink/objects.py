"""Both books as one, for whoever compares what is wanted with what stands."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from dataplane.model import Key, Kind
from dataplane.netlink.book import Book
from dataplane.netlink.items import Item, Value
from dataplane.netlink.neighbors import NeighborBook
from dataplane.netlink.render import neighbor_items


class Objects(Mapping[Item, Value]):
    """What is installed, by object: a view, nothing is copied. Not thread safe: the caller's lock guards it."""

    def __init__(self, book: Book, neighbors: NeighborBook) -> None:
        self._book = book
        self._neighbors = neighbors

    def __getitem__(self, item: Item) -> Value:
        if item in self._book.installed:
            return self._book.installed[item]
        owner = self._neighbors.owner_of(item)
        if owner is None:
            raise KeyError(item)
        return neighbor_items(owner)[item]

    def __iter__(self) -> Iterator[Item]:
        yield from self._book.installed
        for item, _ in self._neighbors.standing():
            yield item

    def __len__(self) -> int:
        return self._book.count() + self._neighbors.count()

    def wants(self, item: Item) -> bool:
        return self._book.wants(item) or self._neighbors.owner_of(item) is not None

    def owners(self, item: Item) -> list[Key]:
        owner = self._neighbors.owner_of(item)
        return self._book.owners(item) if owner is None else [Key(Kind.NEIGHBOR, owner.id)]

    def distrust(self, items: Iterable[Item]) -> None:
        """The kernel has lost them: to be installed again when their owners are set again."""
        lost = list(items)
        self._neighbors.make_room(dict.fromkeys(lost))
        self._book.distrust(lost)
