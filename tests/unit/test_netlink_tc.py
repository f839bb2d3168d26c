"""Geneve as it is asked of the kernel: layouts of linux/if_link.h, pkt_cls.h, tc_act/tc_tunnel_key.h, tc_mirred.h."""

from __future__ import annotations

import errno
import socket
import struct

import pytest

from dataplane.addresses import parse_address
from dataplane.kernel import rtnl
from dataplane.kernel.wire import KernelError, Message, Request, attributes
from dataplane.model import NetworkType, Segment
from dataplane.netlink import geneve, tc
from dataplane.netlink.audit import Findings, compare_sending
from dataplane.netlink.items import FloodItem, SegmentItem
from dataplane.netlink.names import host_number
from dataplane.netlink.places import Places, SegmentDevices
from dataplane.netlink.settings import NetlinkSettings

LOCAL, HOST = parse_address("172.16.0.1"), parse_address("172.16.0.2")
LOCAL6, HOST6 = parse_address("fd00::1"), parse_address("fd00::2")
INGRESS, EGRESS = 0xFFFFFFF2, 0xFFFFFFF3
PIPE, STOLEN, CONTINUE = 3, 4, -1


def filter_of(request: Request) -> tuple[int, int, int, int, str, dict[int, bytes]]:
    """(device, handle, parent, order, kind, options) of a filter for all protocols."""
    family, index, handle, parent, info = struct.unpack_from("=BxxxiIII", request.body)
    assert family == socket.AF_UNSPEC
    assert info & 0xFFFF == socket.htons(0x0003)
    found = attributes(request.body, 20)
    return index, handle, parent, info >> 16, found[1].rstrip(b"\0").decode(), attributes(found.get(2, b""))


def actions(data: bytes) -> list[tuple[str, dict[int, bytes]]]:
    found = attributes(data)
    assert list(found) == list(range(1, len(found) + 1))
    return [
        (parts[1].rstrip(b"\0").decode(), attributes(parts[2])) for parts in (attributes(one) for one in found.values())
    ]


def test_the_device_of_all_tunnels_learns_from_each_frame_where_to() -> None:
    request = rtnl.add_geneve("acgeneve", 6081, 1450, "geneve")
    info = attributes(attributes(request.body, 16)[18])
    assert info[1] == b"geneve\0"
    data = attributes(info[2])
    assert data[6] == b"", "IFLA_GENEVE_COLLECT_METADATA is a flag"
    assert data[5] == b"\x17\xc1", "IFLA_GENEVE_PORT, network order"
    assert not {1, 2, 7} & data.keys(), "no id and no remote host of its own"


def test_what_comes_out_of_a_tunnel_enters_its_segment() -> None:
    index, handle, parent, order, kind, options = filter_of(tc.receive(7, 0x012345, 9, ""))
    assert (index, handle, parent, order, kind) == (7, 0x012345, INGRESS, 1, "flower")
    assert options[26] == b"\0\x01\x23\x45", "TCA_FLOWER_KEY_ENC_KEY_ID, network order"
    (release, first), (mirred, second) = actions(options[3])
    assert (release, struct.unpack("=IIiiii", first[2])[2::3]) == ("tunnel_key", (PIPE, 2))
    assert (mirred, struct.unpack("=IIiiiiI", second[2])) == ("mirred", (0, 0, STOLEN, 0, 0, 3, 9))
    assert filter_of(tc.receive_no_more(7, 0x012345, ""))[:5] == (7, 0x012345, INGRESS, 1, "flower")


@pytest.mark.parametrize(("local", "host", "at"), [(LOCAL, HOST, (3, 4)), (LOCAL6, HOST6, (5, 6))])
def test_a_host_gets_what_is_marked_for_it_and_a_copy_of_what_is_for_all(
    local: bytes, host: bytes, at: tuple[int, int]
) -> None:
    marked, copied = tc.add_host(9, 0xAC100002, 7, 0x012345, local, host, 6081)
    wanted = ((marked, "fw", 1, 4, 1, STOLEN), (copied, "basic", 2, 3, 2, CONTINUE))
    for request, kind, order, place, how, after in wanted:
        *head, options = filter_of(request)
        assert head == [9, 0xAC100002, EGRESS, order, kind]
        (tunnel, key), (mirred, to) = actions(options[place])
        assert (tunnel, struct.unpack("=IIiiii", key[2])[2::3]) == ("tunnel_key", (PIPE, 1))
        assert (key[at[0]], key[at[1]]) == (local, host)
        assert key[7] == b"\0\x01\x23\x45"
        assert (key[9], key[10], key[13]) == (b"\x17\xc1", b"\1", b"\x40"), "port, no checksum, TTL"
        assert (mirred, struct.unpack("=IIiiiiI", to[2])) == ("mirred", (0, 0, after, 0, 0, how, 7))
    for made, gone in zip((marked, copied), tc.delete_host(9, 0xAC100002, host), strict=True):
        assert filter_of(gone)[:5] == filter_of(made)[:5]
        assert not filter_of(gone)[5]


def as_it_stands(request: Request) -> Message:
    """What the kernel tells of a filter has the form in which it was asked for."""
    return Message(44, 0, 1, request.body)


@pytest.mark.parametrize(("local", "host"), [(LOCAL, HOST), (LOCAL6, HOST6)])
def test_filters_are_read_back_as_the_ways_that_they_are(local: bytes, host: bytes) -> None:
    marked, copied = tc.add_host(9, 0xAC100002, 7, 0x012345, local, host, 6081)
    there = (0xAC100002, 0x012345, local, host, 6081, 7)
    assert tc.way_of(as_it_stands(marked)) == tc.Way(9, tc.BY_MARK, *there)
    assert tc.way_of(as_it_stands(copied)) == tc.Way(9, tc.TO_ALL, *there)
    back = tc.receive(7, 0x012345, 9, "")
    assert tc.way_of(as_it_stands(back)) == tc.Way(7, tc.BACK, 0x012345, 0x012345, out=9)
    # The list of a device's filters begins with one that has nothing.
    assert tc.way_of(as_it_stands(tc.delete_host(9, 0, host)[0])) is None
    # Copies where frames should go, and the other way round.
    right, wrong = (struct.pack("=iiiiI", after, 0, 0, how, 7) for after, how in ((STOLEN, 1), (CONTINUE, 2)))
    swapped = marked.body.replace(right, wrong)
    assert swapped != marked.body and tc.way_of(Message(44, 0, 1, swapped)) is None


def test_a_filter_that_was_altered_or_removed_is_found() -> None:
    segment, settings = Segment(NetworkType.GENEVE, 0x012345), NetlinkSettings(LOCAL)
    places = Places({segment: SegmentDevices(8, 9, has_hosts=False)}, {}, {}, geneve=7)
    there = (host_number(HOST), 0x012345, LOCAL, HOST, 6081, 7)
    right = [tc.Way(9, tc.BY_MARK, *there), tc.Way(9, tc.TO_ALL, *there)]
    right.append(tc.Way(7, tc.BACK, 0x012345, 0x012345, out=9))
    flood = FloodItem(segment, HOST)

    def findings(stand: list[tc.Way]) -> list[object]:
        found = Findings()
        compare_sending(found, {FloodItem: {flood: None}}, places, stand, settings)
        return list(found.items)

    assert findings(right) == []
    assert findings([*right, tc.Way(9, 3, 1, 1)]) == [], "others' filters"
    assert findings(right[1:]) == [flood]
    assert findings([right[0], right[1]._replace(local=HOST), right[2]]) == [flood]
    assert findings(right[:2]) == [SegmentItem(segment)]


class Kernel:
    """Answers the questions for devices, each kind with an error number."""

    def __init__(self, answers: dict[bytes, int]) -> None:
        self._answers = answers

    def submit(self, requests: list[Request]) -> dict[int, KernelError]:
        kinds = [attributes(attributes(one.body, 16)[18])[1].rstrip(b"\0") for one in requests]
        return {n: KernelError(self._answers[kind], "") for n, kind in enumerate(kinds)}

    def close(self) -> None: ...


@pytest.mark.parametrize(
    ("answers", "why"),
    [
        ({b"geneve": errno.EINVAL, b"dummy": errno.EINVAL}, ""),
        ({b"geneve": errno.EPERM, b"dummy": errno.EPERM}, ""),
        (
            {b"geneve": errno.EOPNOTSUPP, b"dummy": errno.EINVAL},
            "not supported by this kernel, which lacks geneve devices",
        ),
        (
            {b"geneve": errno.EOPNOTSUPP, b"dummy": errno.EOPNOTSUPP},
            "not supported by this kernel, which lacks geneve and dummy devices",
        ),
    ],
)
def test_a_kernel_without_geneve_is_recognised(
    monkeypatch: pytest.MonkeyPatch, answers: dict[bytes, int], why: str
) -> None:
    monkeypatch.setattr(geneve, "Channel", lambda protocol: Kernel(answers))
    assert geneve.why_no_geneve() == why
