"""ICMP errors of a gateway (RFC 792, 1122, 1191, 1812)."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataplane.addresses import parse_address, parse_mac
from dataplane.ovs.icmp import IcmpError, icmp_error

GATEWAY_MAC, GATEWAY = parse_mac("fa:16:3e:ff:00:01"), parse_address("10.0.0.1")
GUEST_MAC, GUEST, TARGET = parse_mac("fa:16:3e:00:01:01"), parse_address("10.0.0.5"), parse_address("10.9.0.9")
UDP = bytes.fromhex("a41c829b00103e5d") + b"payload!"


def packet(
    *,
    source: bytes = GUEST,
    target: bytes = TARGET,
    protocol: int = 17,
    body: bytes = UDP,
    flags: int = 0,
    options: bytes = b"",
) -> bytes:
    words = 5 + len(options) // 4
    head = struct.pack(
        "!BBHHHBBH4s4s", 0x40 | words, 0, words * 4 + len(body), 7, flags, 1, protocol, 0x1234, source, target
    )
    return head + options + body


def frame(inner: bytes, *, target_mac: bytes = GATEWAY_MAC, ethertype: int = 0x0800) -> bytes:
    return target_mac + GUEST_MAC + ethertype.to_bytes(2, "big") + inner


def answer(inner: bytes, error: IcmpError = IcmpError.TIME_EXCEEDED, mtu: int = 1450) -> bytes | None:
    return icmp_error(frame(inner), error, GUEST_MAC, GATEWAY_MAC, GATEWAY, mtu)


def ones_complement_sum(data: bytes) -> int:
    """RFC 1071, the slow way: over data that holds its own checksum it is 0xffff."""
    total = 0
    for index in range(0, len(data), 2):
        total += int.from_bytes(data[index : index + 2].ljust(2, b"\0"), "big")
        total = (total & 0xFFFF) + (total >> 16)
    return total


def test_a_known_answer_to_the_byte() -> None:
    inner = bytes.fromhex("4500002400070000 0111beba 0a000005 0a090009") + UDP
    found = icmp_error(frame(inner), IcmpError.TIME_EXCEEDED, GUEST_MAC, GATEWAY_MAC, GATEWAY, 1450)
    assert found is not None
    assert found[:14] == GUEST_MAC + GATEWAY_MAC + b"\x08\x00"
    assert found[14:34].hex(" ", 4) == "45c00040 00000000 400165f8 0a000001 0a000005"
    assert found[34:36] == b"\x0b\0" and found[38:42] == bytes(4)
    assert found[42:] == inner
    assert ones_complement_sum(found[14:34]) == ones_complement_sum(found[34:]) == 0xFFFF


@pytest.mark.parametrize(("error", "head"), [
    (IcmpError.TIME_EXCEEDED, "0b00 00000000"),
    (IcmpError.NET_UNREACHABLE, "0300 00000000"),
    (IcmpError.FRAGMENTATION_NEEDED, "0304 000005aa"),
])  # fmt: skip
def test_type_code_and_next_hop_mtu(error: IcmpError, head: str) -> None:
    found = answer(packet(flags=0x4000), error)
    assert found is not None
    assert found[34:36] + found[38:42] == bytes.fromhex(head)


@pytest.mark.parametrize("length", [8, 9, 100, 101, 527, 528, 529, 1400])
def test_checksums_hold_and_the_answer_is_at_most_576_bytes(length: int) -> None:
    inner = packet(body=bytes(range(256)) * 6, flags=0x4000)[: 20 + length]
    inner = inner[:2] + len(inner).to_bytes(2, "big") + inner[4:]
    found = answer(inner, IcmpError.FRAGMENTATION_NEEDED)
    assert found is not None
    assert ones_complement_sum(found[14:34]) == ones_complement_sum(found[34:]) == 0xFFFF
    assert int.from_bytes(found[16:18], "big") == len(found) - 14 <= 576
    assert inner.startswith(found[42:]) and len(found[42:]) >= min(len(inner), 28)


def test_the_padding_of_a_short_frame_is_not_quoted() -> None:
    inner = packet(body=UDP[:8])
    assert answer(inner + bytes(18)) == answer(inner)


def test_options_are_quoted() -> None:
    found = answer(packet(options=b"\x07\x07\x04" + bytes(5)))
    assert found is not None and found[42:].endswith(UDP)


QUOTED = packet()[:28]
SILENT = {
    "an ICMP error": packet(protocol=1, body=b"\x03\x01" + bytes(6) + QUOTED),
    "an ICMP redirect": packet(protocol=1, body=b"\x05\x01" + bytes(6) + QUOTED),
    "a later fragment": packet(flags=0x2001),
    "the unspecified source": packet(source=bytes(4)),
    "a loopback source": packet(source=parse_address("127.0.0.1")),
    "a multicast source": packet(source=parse_address("224.0.0.1")),
    "a multicast target": packet(target=parse_address("224.0.0.251")),
    "the broadcast target": packet(target=parse_address("255.255.255.255")),
    "a cut off header": packet()[:19],
    "a cut off payload": packet()[:-1],
    "a length below the header's": packet()[:2] + b"\0\x10" + packet()[4:],
    "a header length below 5": b"\x44" + packet()[1:],
    "version 6": b"\x65" + packet()[1:],
    "nothing": b"",
}


@pytest.mark.parametrize("inner", SILENT.values(), ids=SILENT)
def test_no_error_is_sent_about(inner: bytes) -> None:
    assert answer(inner) is None


def test_no_error_is_sent_about_group_frames_and_other_types() -> None:
    group = frame(packet(), target_mac=b"\xff" * 6)
    assert icmp_error(group, IcmpError.TIME_EXCEEDED, GUEST_MAC, GATEWAY_MAC, GATEWAY, 1450) is None
    other = frame(packet(), ethertype=0x0806)
    assert icmp_error(other, IcmpError.TIME_EXCEEDED, GUEST_MAC, GATEWAY_MAC, GATEWAY, 1450) is None


def test_what_may_be_fragmented_is_not_too_big() -> None:
    assert answer(packet(), IcmpError.FRAGMENTATION_NEEDED) is None


def test_an_echo_request_and_a_first_fragment_are_answered() -> None:
    assert answer(packet(protocol=1, body=b"\x08\0" + bytes(6))) is not None
    assert answer(packet(flags=0x2000)) is not None


@given(st.binary(max_size=80), st.sampled_from(IcmpError))
def test_no_bytes_make_it_raise(data: bytes, error: IcmpError) -> None:
    for whole in (data, frame(data), frame(packet()[:2] + data), frame(data + packet())):
        found = icmp_error(whole, error, GUEST_MAC, GATEWAY_MAC, GATEWAY, 1450)
        assert found is None or ones_complement_sum(found[14:34]) == ones_complement_sum(found[34:]) == 0xFFFF
