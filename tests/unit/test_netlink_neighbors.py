"""Neighbours that are kept apart from the netlink data plane's book, and when they go into it."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import given, settings

from dataplane.kernel.rtnl import add_remote_mac, delete_remote_mac, delete_remote_mac_requests, remote_mac_requests
from dataplane.model import (
    FixedIp,
    Key,
    Kind,
    Layer,
    Neighbor,
    NeighborWanted,
    NetworkType,
    Segment,
    SubnetRef,
)
from dataplane.netlink.book import NOTHING, Book, Change
from dataplane.netlink.crowd import elements_of
from dataplane.netlink.filter import number
from dataplane.netlink.items import ElementItem, FloodItem, Item, MacItem, SegmentItem, Via
from dataplane.netlink.names import mark_of
from dataplane.netlink.neighbors import NeighborBook
from dataplane.netlink.nft import key_bytes
from dataplane.netlink.objects import Objects
from dataplane.netlink.population import Population
from dataplane.netlink.render import neighbor_items

SEGMENT = Segment(NetworkType.VXLAN, 7)
REF = SubnetRef("blue", SEGMENT)
HOST, ELSEWHERE = b"\x0a\0\0\x01", b"\x0a\0\0\x02"


def neighbor(number: int, *, host: bytes = HOST, mac: int | None = None, **changes: object) -> NeighborWanted:
    fixed = (FixedIp("blue", bytes((10, 0, 0, number))),)
    own_mac = bytes((2, 0, 0, 0, 0, number if mac is None else mac))
    value = Neighbor(f"n{number}", 1, "vpc", own_mac, host, fixed, Layer.L2, ())
    return NeighborWanted(value._replace(**changes), (REF,))


class Books:
    """The two books, and what a kernel would have of them."""

    def __init__(self) -> None:
        self.book, self.population = Book(), Population()
        self.neighbors = NeighborBook(self.book, self.population)
        self.kernel: dict[Item, object] = {}

    def settle(self) -> list[str]:
        """Carry out everything; returns those that arrived or moved in bulk."""
        self.neighbors.derive()
        for group in self.neighbors.take_leaving().values():
            for wanted in group.values():
                for item in own_items(wanted):
                    del self.kernel[item]
        self.carry_out(self.book.take_changes())
        bulk: list[str] = []
        for groups in self.neighbors.take_arriving():
            for group in groups.values():
                bulk += group
                for wanted in group.values():
                    self.kernel.update(own_items(wanted))
        return bulk

    def carry_out(self, changes: list[Change]) -> None:
        for item, before, after in changes:
            assert self.kernel.get(item, NOTHING) == before
            if after is NOTHING:
                del self.kernel[item]
            else:
                self.kernel[item] = after
        self.book.done(changes, ())

    def stands(self, *neighbors: NeighborWanted) -> bool:
        expected: dict[Item, object] = {}
        for one in neighbors:
            expected.update(neighbor_items(one))
        return self.kernel == expected


def own_items(wanted: NeighborWanted) -> dict[Item, object]:
    items = neighbor_items(wanted).items()
    return {item: value for item, value in items if not isinstance(item, SegmentItem | FloodItem)}


def test_plain_ones_arrive_in_bulk_and_leave_nothing() -> None:
    books = Books()
    books.neighbors.upsert([neighbor(1), neighbor(2)])
    assert books.settle() == ["n1", "n2"]
    assert books.stands(neighbor(1), neighbor(2))
    assert books.population.subnets(SEGMENT) == ["blue"]
    books.neighbors.remove(["n1"])
    books.settle()
    assert books.stands(neighbor(2))
    books.neighbors.remove(["n2"])
    books.settle()
    assert books.kernel == {}
    assert books.population.subnets(SEGMENT) == []


def test_the_same_again_is_nothing_to_do() -> None:
    books = Books()
    books.neighbors.upsert([neighbor(1)])
    books.settle()
    books.neighbors.upsert([neighbor(1, revision=2)])
    assert books.settle() == []


def test_one_that_comes_and_goes_at_once_is_never_installed() -> None:
    books = Books()
    books.neighbors.upsert([neighbor(1)])
    books.neighbors.remove(["n1"])
    assert books.settle() == []
    assert books.kernel == {}


def test_one_that_moves_takes_its_flood_entry_along() -> None:
    books = Books()
    books.neighbors.upsert([neighbor(1), neighbor(2)])
    books.settle()
    books.neighbors.upsert([neighbor(1, host=ELSEWHERE)])
    assert books.settle() == ["n1"]
    assert books.stands(neighbor(1, host=ELSEWHERE), neighbor(2))
    books.neighbors.upsert([neighbor(2, host=ELSEWHERE)])
    books.settle()
    assert FloodItem(SEGMENT, HOST) not in books.kernel


def test_two_with_one_mac_the_last_decides_and_the_other_returns() -> None:
    books = Books()
    first, second = neighbor(1), neighbor(2, mac=1, host=ELSEWHERE)
    books.neighbors.upsert([first])
    books.settle()
    books.neighbors.upsert([second])
    books.settle()
    assert books.stands(first, second)
    assert books.kernel[MacItem(SEGMENT, first.neighbor.mac)] == Via(ELSEWHERE)
    books.neighbors.remove(["n2"])
    books.settle()
    assert books.stands(first)
    books.neighbors.remove(["n1"])
    books.settle()
    assert books.kernel == {}


def test_two_with_one_mac_that_come_together() -> None:
    books = Books()
    first, second = neighbor(1), neighbor(2, mac=1)
    books.neighbors.upsert([first, second])
    assert books.settle() == []
    assert books.stands(first, second)


def test_a_port_that_has_the_address_now_is_not_disturbed_when_the_neighbour_goes() -> None:
    books = Books()
    books.neighbors.upsert([neighbor(1)])
    books.settle()
    address = ElementItem("addresses", key_bytes(number(mark_of("blue")), bytes((10, 0, 0, 1))))
    owner = Key(Kind.PORT, "port")
    books.neighbors.make_room({address: b"PORTMA"})
    books.book.set(owner, {address: b"PORTMA"})
    books.settle()
    assert books.kernel[address] == b"PORTMA"
    books.neighbors.remove(["n1"])
    books.settle()
    assert books.kernel == {address: b"PORTMA"}


def test_one_whose_objects_the_book_had_once_is_plain_again() -> None:
    books = Books()
    mac = MacItem(SEGMENT, neighbor(1).neighbor.mac)
    owner = Key(Kind.PORT, "port")
    books.neighbors.make_room({mac: Via(ifindex=4)})
    books.book.set(owner, {mac: Via(ifindex=4)})
    books.settle()
    books.book.set(owner, {})
    books.settle()
    books.neighbors.upsert([neighbor(1)])
    assert books.settle() == ["n1"]
    assert books.stands(neighbor(1))


def test_a_changed_address_is_changed() -> None:
    books = Books()
    books.neighbors.upsert([neighbor(1)])
    books.settle()
    changed = neighbor(1, fixed_ips=(FixedIp("blue", bytes((10, 0, 0, 9))),))
    books.neighbors.upsert([changed])
    books.settle()
    assert books.stands(changed)
    books.neighbors.remove(["n1"])
    books.settle()
    assert books.kernel == {}


def test_a_subnet_that_changes_its_segment_takes_its_neighbours_along() -> None:
    books = Books()
    other = SubnetRef("blue", Segment(NetworkType.VXLAN, 8))
    books.neighbors.upsert([neighbor(1), neighbor(2)])
    books.settle()
    moved = [neighbor(number)._replace(subnets=(other,)) for number in (1, 2)]
    books.neighbors.upsert(moved)
    books.settle()
    assert books.stands(*moved)
    books.neighbors.remove(["n1", "n2"])
    books.settle()
    assert books.kernel == {}


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(*(st.integers(1, 4) for _ in range(4)), st.booleans()), max_size=25))
def test_whichever_book_a_neighbour_is_in_the_same_stands(steps: list[tuple[int, int, int, int, bool]]) -> None:
    books, alone, alone_kernel = Books(), Book(), dict[Item, object]()
    for who, mac, last, host, settled in steps:
        key = Key(Kind.NEIGHBOR, f"n{who}")
        if mac == 4:
            books.neighbors.remove([key.id])
            alone.set(key, {})
        else:
            address = (FixedIp("blue", bytes((10, 0, 0, last))),)
            wanted = neighbor(who, mac=mac, host=bytes((10, 0, 0, host)), fixed_ips=address)
            books.neighbors.upsert([wanted])
            alone.set(key, neighbor_items(wanted))
        if settled:
            books.settle()
            changes = alone.take_changes()
            alone.done(changes, ())
            for item, _, after in changes:
                alone_kernel[item] = after
            assert books.kernel == {item: value for item, value in alone_kernel.items() if value is not NOTHING}


def test_what_the_kernel_refused_goes_through_the_book() -> None:
    books = Books()
    books.neighbors.upsert([neighbor(1)])
    books.neighbors.derive()
    books.carry_out(books.book.take_changes())
    books.neighbors.take_arriving()
    books.neighbors.not_installed(["n1"])
    assert books.settle() == []
    assert books.stands(neighbor(1))
    assert books.book.owners(MacItem(SEGMENT, neighbor(1).neighbor.mac)) == [Key(Kind.NEIGHBOR, "n1")]


def test_what_could_not_be_removed_is_removed_by_the_book() -> None:
    books = Books()
    books.neighbors.upsert([neighbor(1)])
    books.settle()
    books.neighbors.remove(["n1"])
    books.neighbors.take_leaving()
    books.neighbors.not_removed([neighbor(1)])
    books.settle()
    assert books.kernel == {}


def test_distrusted_ones_are_installed_again_when_they_are_set_again() -> None:
    books = Books()
    books.neighbors.upsert([neighbor(1)])
    books.settle()
    books.neighbors.distrust(["n1"])
    books.neighbors.upsert([neighbor(1)])
    assert books.settle() == ["n1"]
    books.neighbors.upsert([neighbor(1)])
    assert books.settle() == []


def test_both_books_are_one_for_whoever_looks() -> None:
    books = Books()
    objects = Objects(books.book, books.neighbors)
    first, second, third = neighbor(1), neighbor(2), neighbor(3, mac=2)
    books.neighbors.upsert([first, second, third])
    books.settle()
    installed = {item: value for of_kind in objects.installed.values() for item, value in of_kind.items()}
    assert installed == books.kernel
    assert objects.count() == sum(map(len, objects.installed.values())) == len(books.kernel)
    for item in own_items(first):
        assert objects.wants(item)
        assert objects.owners(item) == [Key(Kind.NEIGHBOR, "n1")]
    assert objects.owners(MacItem(SEGMENT, second.neighbor.mac)) == [Key(Kind.NEIGHBOR, "n2"), Key(Kind.NEIGHBOR, "n3")]
    nobodys = MacItem(SEGMENT, b"nobody")
    assert nobodys not in objects.installed[MacItem]
    assert not objects.wants(nobodys) and objects.owners(nobodys) == []


def test_what_the_kernel_lost_is_installed_again() -> None:
    books = Books()
    objects = Objects(books.book, books.neighbors)
    books.neighbors.upsert([neighbor(1), neighbor(2)])
    books.settle()
    lost = MacItem(SEGMENT, neighbor(1).neighbor.mac)
    del books.kernel[lost]
    objects.distrust([lost])
    assert lost not in objects.installed[MacItem]
    books.neighbors.upsert([neighbor(1)])
    books.settle()
    assert books.stands(neighbor(1), neighbor(2))


def test_in_bulk_the_elements_are_those_of_one() -> None:
    tunnel = 12
    by_set = elements_of(REF, tunnel, [neighbor(1)])
    found = {(name, key): data for name, pairs in by_set.items() for key, data in pairs}
    expected = {}
    for item, value in own_items(neighbor(1)).items():
        if isinstance(item, ElementItem):
            key = item.key if item.device is None else key_bytes(number(tunnel), item.key)
            expected[item.set_name, key] = value or b""
    assert found == expected


def test_in_bulk_the_requests_are_those_of_one() -> None:
    mac = neighbor(1).neighbor.mac
    one = add_remote_mac(12, mac, HOST)
    assert remote_mac_requests(12, [(mac, HOST)]) == (one.kind, one.flags, [one.body])
    gone = delete_remote_mac(12, mac)
    assert delete_remote_mac_requests(12, [mac]) == (gone[0].kind, gone[0].flags, [each.body for each in gone])
