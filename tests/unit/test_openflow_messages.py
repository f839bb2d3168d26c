"""Messages we send have the layout of OpenFlow 1.4; whatever bytes come in give a value or a DecodeError."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dataplane.ovs.openflow import actions, messages, oxm
from dataplane.ovs.openflow.errors import DecodeError, OpenFlowError

FRAME = bytes.fromhex("ffffffffffff0200000000010806") + bytes(46)


def property_tlv(kind: int, value: bytes) -> bytes:
    data = struct.pack("!HH", kind, 4 + len(value)) + value
    return data + bytes(-len(data) % 8)


def match_bytes(fields: bytes) -> bytes:
    data = struct.pack("!HH", 1, 4 + len(fields)) + fields
    return data + bytes(-len(data) % 8)


def flow_entry(table: int, priority: int, cookie: int, match: bytes, instructions: bytes) -> bytes:
    body = match_bytes(match) + instructions
    head = struct.pack("!HBxIIHHHHHxxQQQ", 48 + len(body), table, 1, 2, priority, 0, 0, 0, 0, cookie, 10, 640)
    return head + body


PACKET_IN = (
    struct.pack("!IHBBQ", 0xFFFFFFFF, len(FRAME), 1, 20, 0xABC)
    + match_bytes(oxm.in_port(3) + oxm.metadata(9) + oxm.tunnel_id(77) + oxm.reg(2, 5) + oxm.xreg(2, 1 << 32 | 2))
    + b"\0\0"
    + FRAME
)
PACKET_IN2 = (
    struct.pack("!II", actions.NICIRA, 30)
    + property_tlv(0, FRAME)
    + property_tlv(3, b"\x14")
    + property_tlv(4, bytes(4) + (0xABC).to_bytes(8, "big"))
    + property_tlv(5, b"\x01")
    + property_tlv(6, oxm.in_port(3) + oxm.metadata(9) + oxm.tunnel_id(77) + oxm.reg(2, 5) + oxm.xreg(2, 1 << 32 | 2))
    + property_tlv(7, b"arp")
)
HELLO = messages.hello()
FLOWS = flow_entry(5, 100, 1, oxm.eth_type(0x0800), actions.goto_table(9)) + flow_entry(6, 0, 2, b"", b"")


def test_a_flow_body_has_the_layout_of_the_specification() -> None:
    body = messages.flow_add(0x1122, 20, 100, oxm.eth_type(0x0806), actions.goto_table(50), idle_timeout=30)
    assert body == bytes.fromhex(
        "0000000000001122 0000000000000000 14 00 001e 0000 0064 ffffffff ffffffff ffffffff 0000 0000"
        "0001 000a 80000a02 0806 000000000000 0001 0008 32 000000"
    )


def test_deletes_are_guarded_by_the_whole_cookie() -> None:
    body = messages.flow_delete_strict(0x1122, 20, 100, oxm.in_port(1))
    assert body[:18] == bytes.fromhex("0000000000001122 ffffffffffffffff 14 04")
    assert body[22:24] == (100).to_bytes(2, "big")
    assert messages.flow_delete_by_cookie(5, 0xFF)[:18] == bytes.fromhex("0000000000000005 00000000000000ff ff 03")


@given(st.integers(0, 15).map(lambda n: b"".join(oxm.reg(i, i) for i in range(n))), st.booleans())
def test_flow_bodies_are_aligned_whatever_the_match(match: bytes, with_type: bool) -> None:
    match += oxm.eth_type(0x0800) if with_type else b""
    body = messages.flow_add(1, 2, 3, match, actions.goto_table(4))
    assert len(body) % 8 == 0
    assert int.from_bytes(body[42:44], "big") == 4 + len(match)
    assert len(messages.flow_delete_strict(1, 2, 3, match)) == len(body) - 8


def test_meters_and_packet_outs_have_the_layout_of_the_specification() -> None:
    assert messages.meter_add(7, 100, 20) == bytes.fromhex("0000 0006 00000007 0001 0010 00000064 00000014 00000000")
    assert messages.meter_modify(7, 1, 2)[:8] == bytes.fromhex("0001 0006 00000007")
    assert messages.meter_delete(7) == bytes.fromhex("0002 0000 00000007")
    assert (
        messages.packet_out(b"frame", actions.dec_ttl())
        == bytes.fromhex("ffffffff fffffffd 0008 000000000000 0018 0008 00000000") + b"frame"
    )


@pytest.mark.parametrize(
    ("packet", "userdata"),
    [
        (messages.decode_packet_in(PACKET_IN), b""),
        (messages.decode_nicira_packet_in(PACKET_IN2), b"arp"),
    ],
)
def test_a_punted_packet_carries_its_context(packet: messages.PacketIn, userdata: bytes) -> None:
    assert (packet.reason, packet.table, packet.cookie) == (1, 20, 0xABC)
    assert (packet.in_port, packet.metadata, packet.tunnel_id) == (3, 9, 77)
    assert packet.registers == (0, 0, 5, 0, 1, 2) + (0,) * 10
    assert (packet.userdata, packet.data) == (userdata, FRAME)


def test_other_experimenter_messages_are_no_packets() -> None:
    assert messages.decode_nicira_packet_in(struct.pack("!II", actions.NICIRA, 31)) is None


def test_flows_are_read_back() -> None:
    first, second = messages.decode_flow_stats(FLOWS)
    assert first == (5, 100, 1, oxm.eth_type(0x0800), actions.goto_table(9), 10, 640)
    assert (second.table, second.match, second.instructions) == (6, b"", b"")


def test_small_answers_are_read() -> None:
    assert messages.decode_hello(5, HELLO) == {5}
    assert messages.decode_hello(4, b"") == {1, 2, 3, 4}
    assert messages.decode_bundle_reply(bytes.fromhex("00000009 0005 0003")) == (9, 5)
    assert messages.decode_multipart(bytes.fromhex("0001 0001 00000000 aa")) == (1, True, b"\xaa")
    assert messages.decode_aggregate(struct.pack("!QQI4x", 1, 2, 3)) == (1, 2, 3)
    error = messages.decode_error(12, bytes.fromhex("0004 0006 0102"))
    assert (error.type, error.code, error.xid, error.data) == (4, 6, 12, b"\1\2")
    assert "BAD_MATCH/BAD_FIELD" in str(error)
    assert messages.decode_error(1, bytes.fromhex("ffff 0001 00002320 aa")).data == b"\xaa"


def test_an_unknown_refusal_still_reads_as_numbers() -> None:
    assert str(OpenFlowError(99, 98)) == "UNKNOWN (99, 98)"


DECODERS: list[Callable[[bytes], object]] = [
    lambda data: messages.decode_hello(5, data),
    lambda data: messages.decode_error(1, data),
    messages.decode_packet_in,
    messages.decode_nicira_packet_in,
    lambda data: messages.decode_nicira_packet_in(struct.pack("!II", actions.NICIRA, 30) + data),
    messages.decode_bundle_reply,
    messages.decode_multipart,
    lambda data: list(messages.decode_flow_stats(data)),
    messages.decode_aggregate,
]
SAMPLES = [HELLO, PACKET_IN, PACKET_IN2, FLOWS]


@pytest.mark.parametrize("decode", DECODERS)
@given(data=st.binary(max_size=200))
@example(data=b"")
@example(data=bytes(64))
@example(data=b"\xff" * 64)
def test_any_bytes_give_a_value_or_a_decode_error(decode: Callable[[bytes], object], data: bytes) -> None:
    try:
        decode(data)
    except DecodeError as error:
        assert isinstance(error, ValueError)


@pytest.mark.parametrize("decode", DECODERS)
@given(sample=st.sampled_from(SAMPLES), position=st.integers(0, 500), byte=st.integers(0, 255), cut=st.integers(0, 80))
def test_damaged_messages_give_a_value_or_a_decode_error(
    decode: Callable[[bytes], object], sample: bytes, position: int, byte: int, cut: int
) -> None:
    damaged = bytearray(sample)
    damaged[position % len(sample)] = byte
    try:
        decode(bytes(damaged[: len(damaged) - cut % len(sample)]))
    except DecodeError as error:
        assert isinstance(error, ValueError)


@given(st.integers(1, len(FLOWS) - 1))
def test_a_cut_flow_list_is_refused_or_shorter(size: int) -> None:
    try:
        flows = list(messages.decode_flow_stats(FLOWS[:size]))
    except DecodeError:
        return
    assert len(flows) < 2
