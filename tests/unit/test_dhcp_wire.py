"""Frames on the wire: golden bytes, odd clients, damaged frames, and any bytes at all."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aca.dhcp import Binding, Reply, respond
from tests.unit.dhcp_client import (
    ADDRESS,
    DISCOVER,
    EVERYONE,
    GATEWAY,
    MAC,
    REQUEST,
    SERVER_MAC,
    ask,
    binding,
    checksum,
    frame,
    ip_frame,
    option,
    payload,
    pseudo_header,
    raw_frame,
    read,
    udp_datagram,
    unanswered,
)

DISCOVER_OPTION = option(53, bytes((DISCOVER,)))
BARE = payload(DISCOVER_OPTION)


# ---- golden bytes

GOLDEN_OFFER = (
    "aabbcc9d5c91 fe5400200101 0800"
    "4500 016a 0000 4000 4011 2346 0a140101 0a140115"  # don't fragment, TTL 64
    "0043 0044 0156 1e61"
    "02010600 3903f326 0000 0000"  # xid; secs 0, flags 0
    "00000000 0a140115 00000000 00000000"  # yiaddr 10.20.1.21
    "aabbcc9d5c91 00000000000000000000" + "00" * 192 + "63825363"
    "3501 02  3604 0a140101"  # OFFER from 10.20.1.1
    "3304 00015180  3a04 0000a8c0  3b04 00012750"  # 86,400, 43,200 and 75,600 s
    "0104 ffffff00  0304 0a140101  1a02 05aa  1c04 0a1401ff"  # mask, router, MTU 1450, broadcast
    "0608 c6336435c6336436"  # DNS
    "0f0b 6578616d706c652e636f6d  0c0a 6c656173652d7a65726f"  # example.com, lease-zero
    "3d07 01aabbcc9d5c91  ff"  # client id
)
GOLDEN_ACK = (
    "ffffffffffff fe5400200101 0800"
    "4500 0148 0000 4000 4011 2e91 0a140101 ffffffff"
    "0043 0044 0134 7e84"
    "02010600 3903f326 0000 8000"  # broadcast flag
    "00000000 0a140115 00000000 00000000"
    "aabbcc9d5c91 00000000000000000000" + "00" * 192 + "63825363"
    "3501 05  3604 0a140101"
    "3304 00015180  3a04 0000a8c0  3b04 00012750"
    "0104 ffffff00  0304 0a140101  1c04 0a1401ff  ff"
)


def test_the_bytes_of_an_offer() -> None:
    reply = respond(frame(DISCOVER, option(61, b"\x01" + MAC), option(55, bytes((1, 3, 6, 15, 12)))), binding())
    assert reply == Reply(bytes.fromhex(GOLDEN_OFFER), "OFFER")


def test_the_bytes_of_an_acknowledgement() -> None:
    data = frame(REQUEST, option(54, GATEWAY), option(50, ADDRESS), option(55, b"\x01\x03"), flags=0x8000)
    reply = respond(data, binding(mtu=0))
    assert reply == Reply(bytes.fromhex(GOLDEN_ACK).ljust(14 + 20 + 8 + 300, b"\0"), "ACK")


# ---- odd clients


def test_a_message_needs_no_padding_and_no_end_option() -> None:
    assert ask(raw_frame(BARE)).kind == "OFFER"
    assert ask(raw_frame(BARE + b"\xff")).kind == "OFFER"


def test_padding_between_and_behind_the_options_is_passed_over() -> None:
    data = payload(b"\0\0" + option(50, ADDRESS) + b"\0" + option(53, bytes((REQUEST,))) + b"\xff" + b"\0" * 300)
    assert ask(raw_frame(data)).kind == "ACK"


def test_what_follows_the_end_option_is_not_read() -> None:
    data = payload(DISCOVER_OPTION + b"\xff" + option(54, b"\x09\x09\x09\x09") + b"\x35\xff")
    assert ask(raw_frame(data)).kind == "OFFER"


@pytest.mark.parametrize("tail", [b"\x36", b"\x36\x04", b"\x36\x04\x0a\x14\x01"])
def test_a_message_with_an_option_cut_off_is_ignored(tail: bytes) -> None:
    assert unanswered(raw_frame(payload(option(53, bytes((REQUEST,))) + option(50, b"\x0a\x14\x01\x63") + tail)))


@pytest.mark.parametrize(
    ("overload", "areas"),
    [(1, {"file"}), (2, {"sname"}), (3, {"file", "sname"})],
)
def test_options_in_the_file_and_name_fields_are_read(overload: int, areas: set[str]) -> None:
    fields = {
        "file": option(50, ADDRESS) + b"\xff" if "file" in areas else b"boot",
        "sname": option(61, b"\x00me") if "sname" in areas else b"name",
    }
    if "file" not in areas:
        fields["sname"] += option(50, ADDRESS)
    answer = ask(frame(REQUEST, option(52, bytes((overload,))), **fields))
    assert answer.kind == "ACK"
    assert answer.options.get(61) == (b"\x00me" if "sname" in areas else None)


def test_an_option_split_over_the_areas_is_joined_in_their_order() -> None:
    data = frame(
        DISCOVER,
        option(61, b"one "),
        option(52, b"\x03"),
        file=option(61, b"two ") + b"\xff",
        sname=option(61, b"three"),
    )
    assert ask(data).options[61] == b"one two three"


def test_fields_are_not_read_as_options_unless_the_client_says_so() -> None:
    assert unanswered(frame(REQUEST, file=option(50, ADDRESS)))


@pytest.mark.parametrize("overload", [b"\x00", b"\x04", b"\x01\x01", b""])
def test_a_message_with_a_wrong_overload_option_is_ignored(overload: bytes) -> None:
    assert unanswered(frame(DISCOVER, option(52, overload)))


def test_an_option_cut_off_in_a_field_makes_the_message_void() -> None:
    assert unanswered(frame(DISCOVER, option(52, b"\x02"), sname=b"\0" * 62 + b"\x0c\x05"))


@pytest.mark.parametrize(
    ("at", "value"),
    [(0, 2), (1, 6), (2, 16), (236, 0)],
    ids=["a reply", "not Ethernet", "a longer hardware address", "no cookie"],
)
def test_other_bootp_messages_are_ignored(at: int, value: int) -> None:
    data = bytearray(BARE)
    data[at] = value
    assert unanswered(raw_frame(bytes(data)))


# ---- the frame


def test_ethernet_padding_and_ip_options_do_not_matter() -> None:
    assert ask(raw_frame(BARE) + b"\xaa" * 30).kind == "OFFER"
    assert ask(ip_frame(udp_datagram(BARE), ip_options=b"\x01" * 8)).kind == "OFFER"


def test_a_priority_tag_is_passed_over_but_a_vlan_is_another_network() -> None:
    udp = udp_datagram(BARE)
    assert ask(ip_frame(udp, tag=b"\x81\x00\xe0\x00")).kind == "OFFER"
    assert unanswered(ip_frame(udp, tag=b"\x81\x00\x00\x05"))
    assert unanswered(ip_frame(udp, tag=b"\x81\x00\x01\x00"))


def test_any_source_port_will_do_but_only_the_server_port_is_served() -> None:
    assert ask(ip_frame(udp_datagram(BARE, source_port=49_152))).port == 68
    assert unanswered(ip_frame(udp_datagram(BARE, port=68)))


def test_checksums_may_be_absent_or_left_to_the_network_card() -> None:
    unfinished = checksum(pseudo_header(b"\0" * 4, EVERYONE, 8 + len(BARE))) ^ 0xFFFF
    assert ask(ip_frame(udp_datagram(BARE, udp_checksum=0))).kind == "OFFER"
    assert ask(ip_frame(udp_datagram(BARE, udp_checksum=unfinished))).kind == "OFFER"


def test_an_odd_number_of_bytes_has_a_checksum_too() -> None:
    assert ask(raw_frame(BARE + b"\xff")).kind == "OFFER"
    assert ask(raw_frame(BARE + b"\xff\0")).kind == "OFFER"


def test_damaged_frames_are_ignored() -> None:
    sound = raw_frame(BARE)
    assert ask(sound).kind == "OFFER"
    for at in (14 + 8, 14 + 12, 14 + 20, len(sound) - 200):
        damaged = bytearray(sound)
        damaged[at] ^= 0x10
        assert unanswered(bytes(damaged)), at


def test_fragments_and_other_protocols_are_ignored() -> None:
    udp = udp_datagram(BARE)
    assert ask(ip_frame(udp, fragment=0x4000)).kind == "OFFER"
    assert unanswered(ip_frame(udp, fragment=0x2000))
    assert unanswered(ip_frame(udp, fragment=0x0001))
    assert unanswered(ip_frame(udp, protocol=6))


@pytest.mark.parametrize("data", [frame(DISCOVER), raw_frame(BARE), ip_frame(udp_datagram(BARE), tag=b"\x81\0\0\0")])
def test_a_frame_cut_off_anywhere_is_ignored(data: bytes) -> None:
    for size in range(len(data)):
        assert unanswered(data[:size]), size


def test_a_udp_datagram_longer_than_its_packet_is_ignored() -> None:
    udp = bytearray(udp_datagram(BARE, udp_checksum=0))
    udp[4:6] = (len(udp) + 1).to_bytes(2, "big")
    assert unanswered(ip_frame(bytes(udp)) + b"\0" * 10)
    udp[4:6] = (7).to_bytes(2, "big")
    assert unanswered(ip_frame(bytes(udp)))


# ---- any bytes

FULL = binding(
    options=(
        ("classless-static-route", "10.0.0.0/8,10.20.1.5"),
        ("domain-search", "a.example.com b.example.com"),
        ("tftp-server", "10.20.1.9"),
        ("bootfile-name", "pxelinux.0"),
        ("224", '"' + "x" * 400 + '"'),
    )
)


def sound_or_silent(data: bytes, offered: Binding = FULL) -> None:
    reply = respond(data, offered)
    if reply is not None:
        answer = read(reply)
        assert 28 + len(answer.payload) <= 1450
        assert answer.yiaddr in (ADDRESS, b"\0" * 4)
        assert answer.ethernet_source == SERVER_MAC


@given(st.binary(max_size=700))
def test_any_bytes_as_a_frame(data: bytes) -> None:
    sound_or_silent(data)


@given(st.binary(max_size=400))
def test_any_bytes_as_a_udp_payload(data: bytes) -> None:
    sound_or_silent(raw_frame(data))


@given(st.integers(0, 9), st.binary(max_size=400), st.binary(max_size=64), st.binary(max_size=128), st.booleans())
def test_any_bytes_as_options(kind: int, options: bytes, sname: bytes, file: bytes, overload: bool) -> None:
    area = option(53, bytes((kind,))) + (option(52, b"\x03") if overload else b"") + options
    sound_or_silent(raw_frame(payload(area, sname=sname, file=file)))


@given(
    st.sampled_from([DISCOVER, REQUEST, 8]),
    st.lists(
        st.tuples(st.sampled_from([50, 52, 53, 54, 55, 57, 61, 82]) | st.integers(1, 254), st.binary(max_size=255)),
        max_size=6,
    ),
    st.binary(min_size=4, max_size=4),
    st.binary(min_size=4, max_size=4),
    st.integers(0, 0xFFFF),
)
def test_any_options_in_a_well_formed_message(
    kind: int, options: list[tuple[int, bytes]], ciaddr: bytes, giaddr: bytes, flags: int
) -> None:
    encoded = (option(code, value) for code, value in options)
    sound_or_silent(frame(kind, *encoded, ciaddr=ciaddr, giaddr=giaddr, flags=flags))


# All but the transaction id, by which the answer is known.
PLACES = st.integers(0, 45) | st.integers(50, 341)


@given(st.lists(st.tuples(PLACES, st.integers(0, 255)), min_size=1, max_size=4))
def test_any_bytes_changed_in_a_sound_frame(changes: list[tuple[int, int]]) -> None:
    # Without a UDP checksum most of the changes reach the parser.
    data = bytearray(ip_frame(udp_datagram(payload(DISCOVER_OPTION + b"\xff").ljust(300, b"\0"), udp_checksum=0)))
    for at, value in changes:
        data[at] = value
    sound_or_silent(bytes(data))
