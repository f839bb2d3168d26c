"""What elements that are in no book have to do with, and what goes with deleted resources."""

from __future__ import annotations

from dataplane.kernel.rtnl import Link, Vxlan
from dataplane.model import Key, Kind, NetworkType, Segment
from dataplane.netlink.filter import number
from dataplane.netlink.items import LegItem, SegmentItem
from dataplane.netlink.leftovers import Gone, device_of_port, gone_with, item_of, traces_of
from dataplane.netlink.names import mark_of
from dataplane.netlink.nft import key_bytes
from dataplane.netlink.notices import Suspicion
from dataplane.netlink.standing import Entries
from dataplane.netlink.traces import (
    About,
    ChainTrace,
    DeviceTrace,
    ElementTrace,
    LocalTrace,
    MemberTrace,
    RemoteTrace,
    about,
    removal_of,
)

MARK, MAC, OTHER = number(mark_of("blue")), b"\2\0\0\0\0\5", b"\2\0\0\0\0\6"
GUEST = Link(3, "tapabc", "abc", 8, b"", "veth", True, 1500)
BRIDGE = Link(8, "acb0", "aca:VXLAN/7", 0, b"", "bridge", True, 1500)
TUNNEL = Link(9, "acv0", "aca:VXLAN/7", 8, b"", "vxlan", True, 1500, vxlan=Vxlan(7, b"\1\2\3\4", 4789))
LINKS = {link.ifindex: link for link in (GUEST, BRIDGE, TUNNEL)}


def test_what_elements_are_about() -> None:
    address = key_bytes(MARK, b"\x0a\0\0\5")
    assert about(("addresses", address), MAC) == About(mark=MARK, mac=MAC)
    assert about(("members", key_bytes(MARK, MAC)), b"") == About(mark=MARK, mac=MAC)
    assert about(("listeners", key_bytes(MARK, number(3))), b"") == About(device=3, mark=MARK)
    assert about(("owners", key_bytes(number(3), MAC)), b"") == About(device=3, mac=MAC)
    assert about(("senders", key_bytes(number(9), MAC)), MARK) == About(tunnel=9, mark=MARK, mac=MAC)
    assert about(("only", number(9)), MARK) == About(tunnel=9, mark=MARK)
    # The data of this one is a host's number.
    assert about(("hosts", key_bytes(number(9), MAC)), b"\1\2\3\4") == About(tunnel=9, mac=MAC)


def test_devices_are_known_by_their_alias() -> None:
    assert item_of("aca:VXLAN/7") == SegmentItem(Segment(NetworkType.VXLAN, 7))
    assert item_of("aca:some-subnet") == LegItem("some-subnet")
    assert item_of("aca:VXLAN/seven") == LegItem("VXLAN/seven")


def test_a_ports_device_is_found_by_alias_before_name() -> None:
    port_id = "0123456789abcdef"
    named = Link(5, f"tap{port_id[:11]}", "", 0, b"", "veth", True, 1500)
    assert device_of_port(port_id, {5: named}) == 5
    assert device_of_port(port_id, {5: named._replace(alias="another")}) == 0
    assert device_of_port(port_id, {5: named, 6: named._replace(ifindex=6, name="x", alias=port_id)}) == 6
    assert device_of_port(port_id, {6: named._replace(ifindex=6, name="x", alias=f"aca-port:{port_id}")}) == 6


def test_a_deleted_port_takes_along_what_is_its_own_only() -> None:
    own = {
        ("ports", number(3)): b"",
        ("owners", key_bytes(number(3), MAC)): b"",
        ("listeners", key_bytes(MARK, number(3))): b"",
        ("members", key_bytes(MARK, MAC)): b"",
        ("addresses", key_bytes(MARK, b"\x0a\0\0\5")): MAC,
    }
    others = {
        ("members", key_bytes(MARK, OTHER)): b"",
        ("senders", key_bytes(number(9), OTHER)): MARK,
        ("tunnels", number(9)): b"",
    }
    gone = gone_with([Key(Kind.PORT, "abc")], LINKS, {}, "aca-")
    entries = Entries(local={(8, MAC): 3, (8, OTHER): 9})
    found = set(traces_of(gone, {**own, **others}, entries, LINKS, lambda _: False))
    assert found == {
        *(ElementTrace(*key, data) for key, data in own.items()),
        LocalTrace(8, 3, MAC),
        ChainTrace(3),
        MemberTrace(3, "tapabc"),
    }


def test_a_deleted_subnet_takes_along_its_neighbours_and_the_empty_bridge() -> None:
    elements = {("senders", key_bytes(number(9), OTHER)): MARK, ("tunnels", number(9)): b""}
    links = {8: BRIDGE, 9: TUNNEL}
    gone = Gone(marks={MARK})
    found = set(traces_of(gone, elements, Entries(), links, lambda _: False))
    assert found == {
        *(ElementTrace(*key, data) for key, data in elements.items()),
        RemoteTrace(9, OTHER),
        DeviceTrace(9, "acv0", "aca:VXLAN/7"),
        DeviceTrace(8, "acb0", "aca:VXLAN/7"),
    }
    wanted = set(traces_of(gone, elements, Entries(), links, lambda _: True))
    assert {type(trace) for trace in wanted} == {ElementTrace, RemoteTrace}


def test_many_devices_are_removed_by_one_request() -> None:
    devices = [DeviceTrace(number, f"acb{number}", "") for number in range(1, 21)]
    requests = removal_of(devices, 77).route
    assert len(requests) == len(devices) + 1
    assert requests[-1].about == "device group 77"
    assert [one.about for one in removal_of(devices[:2], 77).route] == ["device acb1", "device acb2"]


def test_many_suspected_entries_become_all() -> None:
    suspicion = Suspicion()
    suspicion.note_entries({(9, MAC)})
    assert suspicion.entries == {(9, MAC)}
    suspicion.note_entries({(9, n.to_bytes(6, "big")) for n in range(1, 2000)})
    assert suspicion.entries == {(9, bytes(6))}
    assert suspicion
    assert not Suspicion()
