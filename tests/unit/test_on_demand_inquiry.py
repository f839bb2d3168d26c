"""What a controller is asked about a packet, and which packets it is never asked about."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aca.goalstate.desired import DesiredState
from aca.ondemand.inquiry import NotAsked, inquiry_about
from aca.ondemand.values import Destination, Inquiry, Protocol
from dataplane.addresses import parse_address
from dataplane.base import Punt, PuntReason, Unresolved
from tests.unit.desired_world import new_state, pair, port, subnet, upsert


def _known() -> DesiredState:
    state = new_state()
    values = (
        subnet("s", "10.0.0.0/24", tunnel=10, gateway="10.0.0.1"),
        subnet("t", "10.0.1.0/24", tunnel=11, gateway="10.0.1.1"),
        subnet("tiny", "10.0.2.0/31", tunnel=12),
        subnet("wide", "0.0.0.0/0", tunnel=13),
        subnet("else", "10.0.0.0/24", tunnel=14, vpc="w"),
        port("p", "s 10.0.0.5", "t 10.0.1.5", pairs=(pair("10.7.0.0/16"),)),
        port("lost", "nowhere 10.0.0.5"),
    )
    for value in values:
        assert state.merge([upsert(value)], 0.0) == [None]
    return state


STATE = _known()


def arp(target: str, source: str = "10.0.0.5") -> bytes:
    head = b"\xff" * 6 + b"\xfa\x16\x3e\0\1\1" + b"\x08\x06"
    speaker, wanted = parse_address(source), parse_address(target)
    return head + struct.pack("!HHBBH6s4s6s4s", 1, 0x800, 6, 4, 1, bytes(6), speaker, bytes(6), wanted)


def ipv4(target: str, protocol: int, body: bytes, *, source: str = "10.0.0.5", offset: int = 0) -> bytes:
    ends = parse_address(source), parse_address(target)
    head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(body), 0, offset, 64, protocol, 0, *ends)
    return b"\xfa\x16\x3e\0\0\1" + b"\xfa\x16\x3e\0\1\1" + b"\x08\x00" + head + body


def about(frame: bytes, address: str, subnet_id: str = "s", port_id: str = "p", vpc: str = "v") -> Inquiry:
    unresolved = Unresolved(vpc, subnet_id, parse_address(address))
    where, inquiry = inquiry_about(STATE, Punt(PuntReason.UNKNOWN_DESTINATION, port_id, frame, unresolved))
    assert where == Destination(subnet_id, parse_address(address))
    return inquiry


def why_not(frame: bytes, address: str, subnet_id: str = "s", port_id: str = "p") -> str:
    with pytest.raises(NotAsked) as caught:
        about(frame, address, subnet_id, port_id)
    return str(caught.value)


def test_an_address_that_is_asked_for_by_arp() -> None:
    source, target = parse_address("10.0.0.5"), parse_address("10.0.0.9")
    assert about(arp("10.0.0.9"), "10.0.0.9") == Inquiry(10, source, target, Protocol.ARP)


@pytest.mark.parametrize(
    ("protocol", "body", "expected", "ports"),
    [
        (6, struct.pack("!HH", 1025, 80) + bytes(16), Protocol.TCP, (1025, 80)),
        (17, struct.pack("!HH", 5353, 53) + bytes(4), Protocol.UDP, (5353, 53)),
        (1, b"\x08\0" + bytes(6), Protocol.ICMP, (0, 0)),
        (17, b"\1", Protocol.UDP, (0, 0)),
    ],
    ids=["tcp", "udp", "icmp", "cut-short"],
)
def test_a_routed_packet_names_its_flow(protocol: int, body: bytes, expected: Protocol, ports: tuple[int, int]) -> None:
    inquiry = about(ipv4("10.0.1.9", protocol, body), "10.0.1.9", "t")
    assert (inquiry.protocol, (inquiry.source_port, inquiry.destination_port)) == (expected, ports)
    assert inquiry.tunnel_id == 10, "of the subnet that the asker is in"


def test_a_later_fragment_has_no_ports() -> None:
    inquiry = about(ipv4("10.0.1.9", 17, struct.pack("!HH", 1, 2), offset=100), "10.0.1.9", "t")
    assert (inquiry.source_port, inquiry.destination_port) == (0, 0)


def test_the_asker_is_named_as_the_controller_knows_it() -> None:
    assert about(arp("10.0.1.9", "10.0.1.5"), "10.0.1.9", "t").tunnel_id == 11
    spoken_for = about(arp("10.0.0.9", "10.7.1.1"), "10.0.0.9")
    assert (spoken_for.source, spoken_for.tunnel_id) == (parse_address("10.0.0.5"), 10)


@pytest.mark.parametrize(
    ("address", "subnet_id"),
    [
        ("10.0.1.9", "s"),
        ("10.0.0.0", "s"),
        ("10.0.0.255", "s"),
        ("10.0.0.1", "s"),
        ("169.254.169.254", "wide"),
        ("224.0.0.9", "wide"),
        ("255.255.255.255", "wide"),
        ("127.0.0.1", "wide"),
        ("10.0.0.9", "unknown"),
        ("10.0.0.9", "else"),
    ],
)
def test_what_cannot_be_in_the_subnet_is_not_asked_for(address: str, subnet_id: str) -> None:
    assert why_not(arp(address), address, subnet_id) == "outside"


def test_both_addresses_of_a_link_are_hosts() -> None:
    assert about(arp("10.0.2.0"), "10.0.2.0", "tiny") and about(arp("10.0.2.1"), "10.0.2.1", "tiny")


def test_a_probe_hopes_for_no_answer() -> None:
    assert why_not(arp("10.0.0.9", "0.0.0.0"), "10.0.0.9") == "probe"


def test_nobody_is_asked_on_behalf_of_nobody() -> None:
    assert why_not(arp("10.0.0.9"), "10.0.0.9", port_id="gone") == "unknown port"
    assert why_not(arp("10.0.0.9"), "10.0.0.9", port_id="lost") == "unknown port"


def test_other_protocols_are_not_asked_for() -> None:
    assert why_not(ipv4("10.0.1.9", 132, bytes(8)), "10.0.1.9", "t") == "other protocol"


@given(st.binary(max_size=80), st.sampled_from([b"", b"\x08\x00", b"\x08\x06", b"\x86\xdd"]))
def test_any_bytes_are_asked_about_or_not(body: bytes, ethertype: bytes) -> None:
    unresolved = Unresolved("v", "s", parse_address("10.0.0.9"))
    punt = Punt(PuntReason.UNKNOWN_DESTINATION, "p", bytes(12) + ethertype + body, unresolved)
    try:
        _, inquiry = inquiry_about(STATE, punt)
    except NotAsked:
        return
    assert inquiry.destination == unresolved.address
    assert 0 <= inquiry.source_port <= 0xFFFF and 0 <= inquiry.destination_port <= 0xFFFF
