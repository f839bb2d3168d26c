"""What a subnet is to its guests: one Ethernet, whatever the hosts."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from tests.conformance.cloud import Cloud, together
from tests.conformance.frames import (
    BROADCAST,
    LOCAL_EXPERIMENT,
    arp_frame,
    ethernet,
    gratuitous,
    has,
    is_arp,
    udp_frame,
)
from tests.conformance.network import Nic, Subnet
from tests.lab import Capture, Guest
from tests.lab.wire import arp_answer, arp_request, mac_bytes

pytestmark = pytest.mark.lab

QUIET = 0.05


@dataclass(frozen=True, slots=True)
class Link:
    """Two guests on host one and one on host two in a subnet; beside it an unrouted subnet with one guest on each."""

    net: Subnet
    nics: tuple[Nic, Nic, Nic]
    guests: tuple[Guest, Guest, Guest]
    strangers: tuple[Guest, ...]


@pytest.fixture
def link(cloud: Cloud) -> Link:
    vpc = cloud.vpc()
    net, other = vpc.subnet("10.0.1.0/24"), vpc.subnet("10.0.2.0/24")
    nics = vpc.nic(cloud.one, net), vpc.nic(cloud.one, net), vpc.nic(cloud.two, net)
    strange = vpc.nic(cloud.one, other), vpc.nic(cloud.two, other)
    stranger_vpc = cloud.vpc()
    far = stranger_vpc.nic(cloud.two, stranger_vpc.subnet("10.0.1.0/24"))
    one, two, three, *strangers = cloud.guests(*nics, *strange, far)
    cloud.announce(vpc)
    cloud.announce(stranger_vpc)
    return Link(net, nics, (one, two, three), tuple(strangers))


def received(link: Link, sender: Guest, frame: bytes, mark: bytes) -> dict[str, int]:
    """How often each of the link's guests and strangers gets a frame with the mark when it is sent once."""
    everybody = [*link.guests, *link.strangers]
    captures = [guest.capture() for guest in everybody]
    try:
        sender.send_raw(frame)
        # The ones that must get it first, then time for those that must not.
        pairs = list(zip(everybody, captures, strict=True))
        expected = [(guest, c) for guest, c in pairs if guest in link.guests and guest is not sender]
        first = {guest.port_id: len(c.frames(has(mark), count=1, within=2.0)) for guest, c in expected}
        late = list_late([c for _, c in pairs], mark)
        return {guest.port_id: first.get(guest.port_id, 0) + n for (guest, _), n in zip(pairs, late, strict=True)}
    finally:
        for capture in captures:
            capture.close()


def list_late(captures: Sequence[Capture], mark: bytes) -> list[int]:
    """How many frames with the mark each gets until it has been quiet for a while."""
    (first, *others) = captures
    found = [first.frames(has(mark), count=9, within=QUIET), *(c.frames(has(mark), count=9, within=0) for c in others)]
    return list(map(len, found))


def once_for_the_others(link: Link, sender: Guest) -> dict[str, int]:
    everybody = [*link.guests, *link.strangers]
    return {guest.port_id: int(guest in link.guests and guest is not sender) for guest in everybody}


@pytest.mark.parametrize("sender", [0, 2], ids=["from-host-one", "from-host-two"])
@pytest.mark.parametrize(
    ("to_mac", "to_ip"),
    [
        (BROADCAST, "255.255.255.255"),
        (BROADCAST, "10.0.1.255"),
        ("01:00:5e:00:00:12", "224.0.0.18"),
        ("01:00:5e:00:00:fb", "224.0.0.251"),
    ],
    ids=["broadcast", "subnet-broadcast", "vrrp", "mdns"],
)
def test_group_frames_reach_the_subnet_once(link: Link, sender: int, to_mac: str, to_ip: str) -> None:
    nic, guest = link.nics[sender], link.guests[sender]
    frame = udp_frame(to_mac, nic.mac, nic.ip, to_ip, b"to all of us", ttl=1)

    assert received(link, guest, frame, b"to all of us") == once_for_the_others(link, guest)


def test_group_frames_of_other_protocols_reach_the_subnet_once(link: Link) -> None:
    for sender in (0, 2):
        frame = ethernet(BROADCAST, link.nics[sender].mac, LOCAL_EXPERIMENT, b"no IP at all")
        assert received(link, link.guests[sender], frame, b"no IP at all") == once_for_the_others(
            link, link.guests[sender]
        )


@pytest.mark.parametrize("operation", [1, 2], ids=["request", "reply"])
def test_gratuitous_arp_reaches_the_subnet_once(link: Link, operation: int) -> None:
    for sender in (0, 2):
        nic = link.nics[sender]
        frame = gratuitous(nic.mac, nic.ip, operation)
        assert received(link, link.guests[sender], frame, frame[14:42]) == once_for_the_others(
            link, link.guests[sender]
        )


def test_an_arp_request_for_nobody_reaches_the_subnet_once(link: Link) -> None:
    for sender in (0, 2):
        nic = link.nics[sender]
        frame = arp_request(nic.mac, nic.ip, link.net.at(200))
        assert received(link, link.guests[sender], frame, frame[14:42]) == once_for_the_others(
            link, link.guests[sender]
        )


def test_frames_are_bridged_by_mac_whatever_their_address(link: Link) -> None:
    a, b, c = link.nics
    for sender, receiver in ((0, 1), (0, 2), (2, 1)):
        source, target = link.nics[sender], link.nics[receiver]
        for to_ip in ("203.0.113.7", "10.0.2.77", link.nics[3 - sender - receiver].ip):
            mark = f"{sender} to {receiver} at {to_ip}".encode()
            frame = udp_frame(target.mac, source.mac, source.ip, to_ip, mark)
            counts = received_by_one(link, sender, receiver, frame, mark)
            assert counts == {link.guests[receiver].port_id: 1}, mark
        mark = b"no IP at all"
        frame = ethernet(target.mac, source.mac, LOCAL_EXPERIMENT, mark)
        assert received_by_one(link, sender, receiver, frame, mark) == {link.guests[receiver].port_id: 1}


def received_by_one(link: Link, sender: int, receiver: int, frame: bytes, mark: bytes) -> dict[str, int]:
    everybody = [*link.guests, *link.strangers]
    captures = {guest.port_id: guest.capture() for guest in everybody}
    try:
        link.guests[sender].send_raw(frame)
        owner = link.guests[receiver].port_id
        first = len(captures[owner].frames(has(mark), count=1, within=2.0))
        counts = dict(zip(captures, list_late(list(captures.values()), mark), strict=True))
        counts[owner] += first
        return {name: count for name, count in counts.items() if count}
    finally:
        for capture in captures.values():
            capture.close()


def test_bridged_frames_keep_their_ttl_and_source(link: Link) -> None:
    a, _, c = link.nics
    for sender, receiver in ((0, 2), (2, 0)):
        source, target = link.nics[sender], link.nics[receiver]
        frame = udp_frame(target.mac, source.mac, source.ip, target.ip, b"as it was", ttl=1)
        with link.guests[receiver].capture() as capture:
            link.guests[sender].send_raw(frame)
            (got,) = capture.frames(has(b"as it was"), count=1, within=2.0)
        # The padding of a short frame is no part of it: a bridge may cut it off, a network card puts it back.
        assert got.ljust(60, b"\0") == frame


def test_unicast_to_nobody_goes_nowhere(link: Link) -> None:
    a = link.nics[0]
    frame = udp_frame("aa:bb:00:00:ee:ee", a.mac, a.ip, link.nics[1].ip, b"to nobody")
    captures = [guest.capture() for guest in (*link.guests, *link.strangers)]
    link.guests[0].send_raw(frame)
    assert [c.frames(has(b"to nobody"), count=1, within=QUIET) for c in captures] == [[]] * len(captures)
    for capture in captures:
        capture.close()


def test_a_probe_for_ones_own_address_is_not_answered(link: Link) -> None:
    def heard(nic: Nic, guest: Guest) -> list[bytes]:
        with guest.capture() as capture:
            # RFC 5227: a probe has no sender address; arping -D sends the like.
            for sender_ip in ("0.0.0.0", nic.ip):
                guest.send_raw(arp_request(nic.mac, sender_ip, nic.ip))
            # What its neighbours probe reaches it as well.
            return capture.frames(lambda f: is_arp(f) and mac_bytes(nic.mac) == f[:6], count=1, within=0.5)

    pairs = zip(link.nics, link.guests, strict=True)
    assert together(*(lambda n=nic, g=guest: heard(n, g) for nic, guest in pairs)) == [[], [], []]


@pytest.mark.skipif(shutil.which("arping") is None, reason="arping is not installed")
def test_arping_finds_no_duplicate_of_the_own_address_but_one_of_a_taken(link: Link) -> None:
    a, b, c = link.nics
    guest = link.guests[0]
    assert "Received 0 response" in guest.run("arping", "-D", "-c", "2", "-w", "1", "-I", "eth0", a.ip)
    for taken in (b, c):
        with guest.capture() as capture:
            guest.send_raw(arp_request(a.mac, "0.0.0.0", taken.ip))
            answers = capture.frames(lambda f, ip=taken.ip: arp_answer(f, ip) is not None, count=2, within=0.5)  # type: ignore[misc]
            assert [arp_answer(answer, taken.ip) for answer in answers] == [taken.mac]


def test_arp_is_answered_once_by_the_owners_mac(link: Link) -> None:
    a, b, c = link.nics
    for sender, targets in ((0, (b, c)), (2, (a, b))):
        nic, guest = link.nics[sender], link.guests[sender]
        for target in targets:
            with guest.capture() as capture:
                guest.send_raw(arp_request(nic.mac, nic.ip, target.ip))
                answers = capture.frames(is_arp, count=2, within=0.4)
            assert [arp_answer(answer, target.ip) for answer in answers] == [target.mac]


def test_a_unicast_arp_request_is_answered(link: Link) -> None:
    a, b, c = link.nics
    for target in (b, c):
        with link.guests[0].capture() as capture:
            link.guests[0].send_raw(
                arp_frame(1, (a.mac, a.ip), ("00:00:00:00:00:00", target.ip), to_mac=target.mac)
            )
            answers = capture.frames(is_arp, count=2, within=0.4)
        assert [arp_answer(answer, target.ip) for answer in answers] == [target.mac]


def test_a_unicast_arp_reply_reaches_whom_it_is_for(link: Link) -> None:
    a, b, c = link.nics
    for sender, receiver in ((0, 1), (0, 2), (2, 0)):
        source, target = link.nics[sender], link.nics[receiver]
        frame = arp_frame(2, (source.mac, source.ip), (target.mac, target.ip), to_mac=target.mac)
        with link.guests[receiver].capture() as capture:
            link.guests[sender].send_raw(frame)
            assert len(capture.frames(is_arp, count=2, within=0.3)) == 1
