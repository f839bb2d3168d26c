"""What is installed of remote neighbours: the hot path, a hundred thousand of them.

Nearly all have one IPv4 address and share no object with anybody: those are kept here as they came, their objects
follow from the value. Whoever shares an object (two that claim one MAC, a port that had the address before), has
several addresses or pairs, or was refused by the kernel, goes the general way, through the book.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from dataplane.model import Key, Kind, NeighborWanted, NetworkType, Segment, SubnetRef, Wanted
from dataplane.netlink.book import Book
from dataplane.netlink.filter import number
from dataplane.netlink.items import ElementItem, FloodItem, Item, Items, MacItem, SegmentItem, Value
from dataplane.netlink.names import mark_of, segment_id
from dataplane.netlink.population import Population
from dataplane.netlink.render import neighbor_items

Group = dict[str, NeighborWanted]
"""Neighbours of one subnet, by id."""


@dataclass(slots=True)
class _InSegment:
    macs: dict[bytes, str] = field(default_factory=dict)
    """Whose they are."""
    hosts: dict[bytes, int] = field(default_factory=dict)
    """How many neighbours each has."""
    foreign: set[bytes] = field(default_factory=set)
    """MACs that objects of the book are or were about."""


@dataclass(slots=True)
class _InSubnet:
    """By the subnet's mark."""

    segment: Segment | None = None
    addresses: dict[bytes, str] = field(default_factory=dict)
    foreign: set[bytes] = field(default_factory=set)
    """Addresses and MACs."""


def is_plain(wanted: NeighborWanted) -> bool:
    """Whether it has one IPv4 address, a MAC, holds both, and its tunnel takes no further objects."""
    neighbor, refs, lost = wanted
    return (
        len(neighbor.fixed_ips) == 1
        and len(refs) == 1
        and refs[0].segment.network_type is NetworkType.VXLAN
        and not lost
        and not neighbor.allowed_pairs
        and len(neighbor.fixed_ips[0].address) == 4
        and len(neighbor.host) == 4
    )


def hosts_owner(segment: Segment) -> Key:
    """Who owns the segment and its flood entries in the book, on behalf of all neighbours that are kept here."""
    return Key(Kind.NEIGHBOR, f"/{segment_id(segment)}")


class NeighborBook:
    """Not thread safe: the caller's lock guards it.

    Whatever else is put into the book is told here first (`make_room`).
    """

    def __init__(self, book: Book, population: Population) -> None:
        self._book = book
        self._population = population
        self._known: dict[str, NeighborWanted] = {}
        self._general: set[str] = set()
        """Those that are in the book."""
        self._doubtful: set[str] = set()
        """Known ones of which something may be gone."""
        self._segments: dict[Segment, _InSegment] = {}
        self._subnets: dict[bytes, _InSubnet] = {}
        self._places: dict[SubnetRef, tuple[_InSegment, _InSubnet]] = {}
        self._arriving: dict[SubnetRef, Group] = {}
        self._moving: dict[SubnetRef, Group] = {}
        self._stood: dict[str, NeighborWanted] = {}
        """How those that are moving stand until then."""
        self._leaving: dict[SubnetRef, Group] = {}
        self._changed: dict[Segment, None] = {}

    # -- what is wanted

    def upsert(self, upserts: Iterable[Wanted]) -> None:
        known, general = self._known, self._general
        others: list[NeighborWanted] = []
        last: SubnetRef | None = None
        new = 0
        for wanted in upserts:
            assert isinstance(wanted, NeighborWanted)
            neighbor, refs, lost = wanted
            neighbor_id, _, _, mac, host, fixed_ips, _, pairs = neighbor
            if (
                neighbor_id in known
                or neighbor_id in general
                or lost
                or pairs
                or len(fixed_ips) != 1
                or len(refs) != 1
                or len(host) != 4
                or len(address := fixed_ips[0].address) != 4
            ):
                others.append(wanted)
                continue
            ref = refs[0]
            if ref is not last:
                if last is not None:
                    self._population.shift(last, new)
                last, new = ref, 0
                in_segment, in_subnet = self._place(ref)
                same_segment = in_subnet.segment == ref.segment and ref.segment.network_type is NetworkType.VXLAN
                arriving = self._arriving.setdefault(ref, {})
                macs, addresses, hosts = in_segment.macs, in_subnet.addresses, in_segment.hosts
            if (
                mac in macs
                or address in addresses
                or not same_segment
                or mac in in_segment.foreign
                or mac in in_subnet.foreign
                or address in in_subnet.foreign
            ):
                others.append(wanted)
                continue
            macs[mac] = addresses[address] = neighbor_id
            if host in hosts:
                hosts[host] += 1
            else:
                hosts[host] = 1
                self._changed[ref.segment] = None
            known[neighbor_id] = arriving[neighbor_id] = wanted
            new += 1
        if last is not None:
            self._population.shift(last, new)
        for wanted in others:
            self._upsert_one(wanted)

    def _place(self, ref: SubnetRef) -> tuple[_InSegment, _InSubnet]:
        place = self._places.get(ref)
        if place is None:
            in_subnet = self._subnets.setdefault(number(mark_of(ref.subnet_id)), _InSubnet())
            place = self._places[ref] = self._segments.setdefault(ref.segment, _InSegment()), in_subnet
        in_subnet = place[1]
        if in_subnet.segment is None or not in_subnet.addresses:
            in_subnet.segment = ref.segment
        return place

    def _upsert_one(self, wanted: NeighborWanted) -> None:
        before = self._known.get(wanted.id)
        if before is not None:
            if _programmed(before) == _programmed(wanted):
                self._known[wanted.id] = wanted
                if wanted.id in self._doubtful:
                    self._doubtful.discard(wanted.id)
                    self._arriving.setdefault(wanted.subnets[0], {})[wanted.id] = wanted
                return
            if is_plain(wanted) and _but_for_the_host(before) == _but_for_the_host(wanted):
                self._move(before, wanted)
                return
            self._into_book(wanted.id)
        elif wanted.id not in self._general and is_plain(wanted) and self._is_free(wanted):
            self._enter(wanted)
            return
        self._set_general(wanted)

    def _is_free(self, wanted: NeighborWanted) -> bool:
        """Whether nobody has to do with its objects, really."""
        (ref,) = wanted.subnets
        mac, address = wanted.neighbor.mac, wanted.neighbor.fixed_ips[0].address
        in_segment, in_subnet = self._place(ref)
        if mac in in_segment.macs or address in in_subnet.addresses or in_subnet.segment != ref.segment:
            return False
        if any(self._book.concerns(item) for item in neighbor_items(wanted) if not _is_common(item)):
            return False
        in_segment.foreign.discard(mac)
        in_subnet.foreign -= {mac, address}
        return True

    def _enter(self, wanted: NeighborWanted) -> None:
        (ref,) = wanted.subnets
        in_segment, in_subnet = self._place(ref)
        in_segment.macs[wanted.neighbor.mac] = wanted.id
        in_subnet.addresses[wanted.neighbor.fixed_ips[0].address] = wanted.id
        self._count(ref.segment, wanted.neighbor.host, 1)
        self._population.shift(ref, 1)
        self._known[wanted.id] = self._arriving.setdefault(ref, {})[wanted.id] = wanted

    def _count(self, segment: Segment, host: bytes, by: int) -> None:
        hosts = self._segments[segment].hosts
        count = hosts.get(host, 0) + by
        if count:
            hosts[host] = count
        else:
            del hosts[host]
        if count == 0 or count == by:
            self._changed[segment] = None

    def _move(self, before: NeighborWanted, wanted: NeighborWanted) -> None:
        """It is on another host now: its other objects are the same."""
        (ref,) = wanted.subnets
        self._count(ref.segment, wanted.neighbor.host, 1)
        self._count(ref.segment, before.neighbor.host, -1)
        self._known[wanted.id] = wanted
        arriving = self._arriving.setdefault(ref, {})
        if wanted.id in arriving or wanted.id in self._doubtful:
            self._doubtful.discard(wanted.id)
            arriving[wanted.id] = wanted
        else:
            self._moving.setdefault(ref, {})[wanted.id] = wanted
            self._stood.setdefault(wanted.id, before)

    def remove(self, neighbor_ids: Iterable[str]) -> None:
        for neighbor_id in neighbor_ids:
            if neighbor_id in self._known:
                _, stood = self._leave(neighbor_id)
                if stood is not None:
                    self._leaving.setdefault(stood.subnets[0], {})[neighbor_id] = stood
            elif neighbor_id in self._general:
                self._general.discard(neighbor_id)
                self._book.set(Key(Kind.NEIGHBOR, neighbor_id), {})
                self._population.enter(Key(Kind.NEIGHBOR, neighbor_id), ())

    def _leave(self, neighbor_id: str) -> tuple[NeighborWanted, NeighborWanted | None]:
        """Forget one; returns it as it is wanted, and as it stands, if it does."""
        wanted = self._known.pop(neighbor_id)
        self._doubtful.discard(neighbor_id)
        (ref,) = wanted.subnets
        in_segment, in_subnet = self._place(ref)
        del in_segment.macs[wanted.neighbor.mac]
        del in_subnet.addresses[wanted.neighbor.fixed_ips[0].address]
        self._count(ref.segment, wanted.neighbor.host, -1)
        self._population.shift(ref, -1)
        self._moving.get(ref, {}).pop(neighbor_id, None)
        stood = self._stood.pop(neighbor_id, wanted)
        arriving = self._arriving.get(ref, {}).pop(neighbor_id, None)
        return wanted, stood if arriving is None else None

    # -- the general way

    def _set_general(self, wanted: NeighborWanted) -> None:
        key, items = Key(Kind.NEIGHBOR, wanted.id), neighbor_items(wanted)
        self.make_room(items)
        self._general.add(wanted.id)
        self._book.set(key, items)
        self._population.enter(key, wanted.mac_subnets)

    def _into_book(self, neighbor_id: str) -> None:
        """Hand one over to the book, with what stands of it."""
        wanted, stood = self._leave(neighbor_id)
        key, items = Key(Kind.NEIGHBOR, neighbor_id), neighbor_items(wanted)
        self._note_foreign(items)
        self._general.add(neighbor_id)
        if stood is not None:
            standing = neighbor_items(stood)
            self._book.adopt(key, standing, (item for item in standing if not _is_common(item)))
        self._book.set(key, items)
        self._population.enter(key, wanted.mac_subnets)

    def make_room(self, items: Items) -> None:
        """These are going to be in the book: whoever is kept here and has one of them goes there too."""
        for neighbor_id in self._note_foreign(items):
            if neighbor_id in self._known:
                self._into_book(neighbor_id)

    def _note_foreign(self, items: Items) -> list[str]:
        """Remember that the book has to do with these; returns those who are kept here and have one of them."""
        found: list[str | None] = []
        for item in items:
            if isinstance(item, ElementItem):
                name = item.set_name
                if name == "senders" and isinstance(item.device, Segment):
                    found.append(self._note_mac(item.device, item.key))
                elif name == "members":
                    in_subnet, mac = self._in_subnet(item.key[:4]), item.key[4:10]
                    in_subnet.foreign.add(mac)
                    owners = self._segments[in_subnet.segment].macs if in_subnet.segment is not None else {}
                    found.append(owners.get(mac))
                elif name == "addresses":
                    in_subnet, address = self._in_subnet(item.key[:4]), item.key[4:8]
                    in_subnet.foreign.add(address)
                    found.append(in_subnet.addresses.get(address))
            elif isinstance(item, MacItem):
                found.append(self._note_mac(item.segment, item.mac))
        return [owner for owner in found if owner]

    def _note_mac(self, segment: Segment, mac: bytes) -> str | None:
        in_segment = self._segments.get(segment)
        if in_segment is None:
            in_segment = self._segments[segment] = _InSegment()
        in_segment.foreign.add(mac)
        return in_segment.macs.get(mac)

    def _in_subnet(self, mark: bytes) -> _InSubnet:
        in_subnet = self._subnets.get(mark)
        if in_subnet is None:
            in_subnet = self._subnets[mark] = _InSubnet()
        return in_subnet

    # -- what is to be done

    def derive(self) -> None:
        """Put the segments and flood entries of the neighbours that are kept here into the book."""
        for segment in self._changed:
            hosts = self._segments[segment].hosts
            items: Items = {SegmentItem(segment): None} if hosts else {}
            items.update((FloodItem(segment, host), None) for host in hosts)
            self._book.set(hosts_owner(segment), items)
        self._changed.clear()

    def take_leaving(self) -> dict[SubnetRef, Group]:
        """To be removed before the changes of the book are carried out."""
        taken, self._leaving = self._leaving, {}
        return taken

    def take_arriving(self) -> tuple[dict[SubnetRef, Group], dict[SubnetRef, Group]]:
        """(to be installed in full, moved to another host), after the changes of the book."""
        taken = self._arriving, self._moving
        self._arriving, self._moving = {}, {}
        self._stood.clear()
        return taken

    def not_removed(self, neighbors: Iterable[NeighborWanted]) -> None:
        """They were to leave, and something may stand still: the book is to see to it."""
        for wanted in neighbors:
            key, items = Key(Kind.NEIGHBOR, wanted.id), neighbor_items(wanted)
            own: Items = {
                item: value
                for item, value in items.items()
                if not _is_common(item) and not self._book.concerns(item)
            }
            self._book.adopt(key, own, own)
            self._book.set(key, {})

    def not_installed(self, neighbor_ids: Iterable[str]) -> None:
        """The kernel has refused something of them: the book is to try, and to say what. One may be named twice."""
        for neighbor_id in dict.fromkeys(neighbor_ids):
            wanted, _ = self._leave(neighbor_id)
            self._set_general(wanted)

    def without_flooding(self, problems: Container[Key], neighbor_ids: Iterable[str]) -> list[str]:
        """Of these the ones in segments whose flood entries have a problem."""
        if not any(hosts_owner(segment) in problems for segment in self._segments):
            return []
        found = ((neighbor_id, self._known.get(neighbor_id)) for neighbor_id in neighbor_ids)
        return [name for name, wanted in found if wanted and hosts_owner(wanted.subnets[0].segment) in problems]

    # -- for whoever compares with what stands

    def owner_of(self, item: Item) -> NeighborWanted | None:
        """Whoever is kept here and has this object."""
        found: str | None = None
        if isinstance(item, MacItem):
            found = self._owner_of_mac(item.segment, item.mac)
        elif isinstance(item, ElementItem) and isinstance(item.device, Segment):
            found = self._owner_of_mac(item.device, item.key) if item.set_name == "senders" else None
        elif isinstance(item, ElementItem) and (in_subnet := self._subnets.get(item.key[:4])) is not None:
            if item.set_name == "addresses":
                found = in_subnet.addresses.get(item.key[4:8])
            elif item.set_name == "members" and in_subnet.segment is not None:
                found = self._owner_of_mac(in_subnet.segment, item.key[4:10])
        return None if found is None else self._known[found]

    def _owner_of_mac(self, segment: Segment, mac: bytes) -> str | None:
        in_segment = self._segments.get(segment)
        return None if in_segment is None else in_segment.macs.get(mac)

    def standing(self) -> Iterator[tuple[Item, Value]]:
        """Every object of those that are kept here, but for segments and flood entries, which are in the book."""
        for neighbor_id, wanted in self._known.items():
            if neighbor_id not in self._doubtful:
                yield from ((item, value) for item, value in neighbor_items(wanted).items() if not _is_common(item))

    def ids(self) -> list[str]:
        """Of all that are kept here."""
        return list(self._known)

    def items_of(self, neighbor_id: str) -> Items:
        """The objects of one that is kept here and stands, but for the common ones; none of another."""
        wanted = self._known.get(neighbor_id)
        if wanted is None or neighbor_id in self._doubtful:
            return {}
        return {item: value for item, value in neighbor_items(wanted).items() if not _is_common(item)}

    def by_subnet(self) -> Iterator[tuple[SubnetRef, list[NeighborWanted]]]:
        """All that are kept here and stand."""
        found: dict[SubnetRef, list[NeighborWanted]] = {}
        doubtful = self._doubtful
        for neighbor_id, wanted in self._known.items():
            if neighbor_id not in doubtful:
                ref = wanted[1][0]
                if ref in found:
                    found[ref].append(wanted)
                else:
                    found[ref] = [wanted]
        yield from found.items()

    def distrust(self, neighbor_ids: Sequence[str]) -> None:
        """The kernel has lost something of these: to be installed in full when they are set again."""
        self._doubtful.update(name for name in neighbor_ids if name in self._known)

    def __len__(self) -> int:
        """How many stand, as far as is known."""
        return len(self._known) - len(self._doubtful)

    def count(self) -> int:
        """How many objects there are."""
        return OBJECTS_EACH * len(self._known)


OBJECTS_EACH = 4
_COMMON = (SegmentItem, FloodItem)


def _is_common(item: Item) -> bool:
    return isinstance(item, _COMMON)


def _but_for_the_host(wanted: NeighborWanted) -> tuple[object, ...]:
    neighbor = wanted.neighbor
    return neighbor.mac, neighbor.fixed_ips, wanted.subnets


def _programmed(wanted: NeighborWanted) -> tuple[object, ...]:
    return *_but_for_the_host(wanted), wanted.neighbor.host, wanted.neighbor.allowed_pairs, wanted.lost
