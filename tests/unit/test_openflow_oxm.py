"""Match fields: their bytes as the specifications give them, masks, and one spelling for comparison."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataplane.ovs.openflow import oxm
from dataplane.ovs.openflow.errors import DecodeError

MAC = bytes.fromhex("020000000001")
V4 = ipaddress.ip_address("10.1.2.3").packed
V6 = ipaddress.ip_address("fd00::1:2").packed

numbers = st.integers(min_value=0)
u32 = st.integers(0, 2**32 - 1)


@pytest.mark.parametrize(
    ("tlv", "expected"),
    [
        (oxm.in_port(7), "80000004 00000007"),
        (oxm.metadata(1), "80000408 0000000000000001"),
        (oxm.metadata(0xFF01, 0xFF), "80000510 0000000000000001 00000000000000ff"),
        (oxm.eth_dst(MAC), "80000606 020000000001"),
        (oxm.eth_dst(MAC, bytes.fromhex("010000000000")), "8000070c 000000000000 010000000000"),
        (oxm.eth_src(MAC), "80000806 020000000001"),
        (oxm.eth_type(0x0806), "80000a02 0806"),
        (oxm.vlan_none(), "80000c02 0000"),
        (oxm.ip_proto(17), "80001401 11"),
        (oxm.ipv4_src(V4), "80001604 0a010203"),
        (oxm.ipv4_dst(V4, 16), "80001908 0a010000 ffff0000"),
        (oxm.tcp_src(80), "80001a02 0050"),
        (oxm.tcp_dst(80), "80001c02 0050"),
        (oxm.udp_src(67), "80001e02 0043"),
        (oxm.udp_dst(68), "80002002 0044"),
        (oxm.icmpv4_type(8), "80002601 08"),
        (oxm.icmpv4_code(4), "80002801 04"),
        (oxm.arp_op(1), "80002a02 0001"),
        (oxm.arp_spa(V4), "80002c04 0a010203"),
        (oxm.arp_tpa(V4, 24), "80002f08 0a010200 ffffff00"),
        (oxm.arp_sha(MAC), "80003006 020000000001"),
        (oxm.arp_tha(MAC), "80003206 020000000001"),
        (oxm.ipv6_src(V6), "80003410 fd000000000000000000000000010002"),
        (oxm.ipv6_dst(V6, 8), "80003720 fd000000000000000000000000000000 ff000000000000000000000000000000"),
        (oxm.icmpv6_type(135), "80003a01 87"),
        (oxm.icmpv6_code(0), "80003c01 00"),
        (oxm.nd_target(V6), "80003e10 fd000000000000000000000000010002"),
        (oxm.nd_sll(MAC), "80004006 020000000001"),
        (oxm.nd_tll(MAC), "80004206 020000000001"),
        (oxm.tunnel_id(5), "80004c08 0000000000000005"),
        (oxm.tun_ipv4_dst(V4), "00014004 0a010203"),
        (oxm.ip_ttl(1), "00013a01 01"),
        (oxm.ip_frag(3, 2), "00013502 02 02"),
        (oxm.ip_frag(3, 3), "00013401 03"),
        (oxm.reg(15, 1), "00011e04 00000001"),
        (oxm.reg(0, 0xAB, 0xF0), "00010108 000000a0 000000f0"),
        (oxm.xreg(7, 2), "80010e08 0000000000000002"),
        (oxm.xxreg(3, V6), "0001e410 fd000000000000000000000000010002"),
    ],
)
def test_a_field_has_the_bytes_of_the_specification(tlv: bytes, expected: str) -> None:
    assert tlv == bytes.fromhex(expected)


@given(st.binary(min_size=4, max_size=4), st.integers(0, 32))
def test_a_prefix_keeps_the_network_bits_only(address: bytes, length: int) -> None:
    tlv = oxm.ipv4_dst(address, length)
    network = ipaddress.ip_network((address, length), strict=False)
    if length == 0:
        assert tlv == b""
    elif length == 32:
        assert tlv == oxm.ipv4_dst(address)
    else:
        assert tlv[4:] == network.network_address.packed + network.netmask.packed


@given(st.integers(0, 7), st.integers(0, 2**64 - 1))
def test_masks_that_cover_all_or_nothing_vanish(n: int, value: int) -> None:
    assert oxm.xreg(n, value, 2**64 - 1) == oxm.xreg(n, value)
    assert oxm.xreg(n, value, 0) == b""
    assert oxm.eth_src(MAC, b"\xff" * 6) == oxm.eth_src(MAC)
    assert oxm.eth_src(MAC, bytes(6)) == b""
    assert oxm.xxreg(0, V6, b"\xff" * 16) == oxm.xxreg(0, V6)
    assert oxm.ip_frag(1, 0) == b""


@pytest.mark.parametrize(
    "make",
    [
        lambda: oxm.eth_dst(V4),
        lambda: oxm.eth_dst(MAC, b"\xff"),
        lambda: oxm.ipv4_src(V6),
        lambda: oxm.ipv6_src(V6, 129),
        lambda: oxm.ipv4_src(V4, -1),
        lambda: oxm.ip_proto(256),
        lambda: oxm.reg(0, 2**32),
        lambda: oxm.ip_frag(4, 3),
        lambda: oxm.tun_ipv4_dst(b""),
    ],
)
def test_what_does_not_fit_is_refused(make: object) -> None:
    with pytest.raises((ValueError, OverflowError)):
        make()  # type: ignore[operator]


@given(st.lists(st.tuples(st.integers(0, 15), u32, u32), unique_by=lambda t: t[0]), st.randoms())
def test_the_order_of_fields_does_not_matter_for_comparison(regs: list[tuple[int, int, int]], rnd: object) -> None:
    fields = [oxm.reg(*reg) for reg in regs] + [oxm.eth_type(0x0800), oxm.in_port(1)]
    shuffled = list(fields)
    rnd.shuffle(shuffled)  # type: ignore[attr-defined]
    assert oxm.canonical(b"".join(shuffled)) == oxm.canonical(b"".join(fields))


@given(st.integers(0, 3), st.lists(u32, min_size=4, max_size=4), st.lists(u32, min_size=4, max_size=4))
def test_wide_registers_compare_equal_to_the_single_ones(n: int, words: list[int], masks: list[int]) -> None:
    def whole(values: list[int]) -> bytes:
        return b"".join(value.to_bytes(4, "big") for value in values)

    singles = oxm.canonical(b"".join(oxm.reg(4 * n + i, words[i], masks[i]) for i in range(4)))
    doubles = b"".join(
        oxm.xreg(2 * n + i, words[2 * i] << 32 | words[2 * i + 1], masks[2 * i] << 32 | masks[2 * i + 1])
        for i in range(2)
    )
    assert oxm.canonical(oxm.xxreg(n, whole(words), whole(masks))) == singles
    assert oxm.canonical(doubles) == singles


def test_different_matches_stay_different() -> None:
    assert oxm.canonical(oxm.reg(0, 1)) != oxm.canonical(oxm.reg(1, 1))
    assert oxm.canonical(oxm.reg(0, 1)) != oxm.canonical(oxm.reg(0, 1, 1))
    assert oxm.canonical(oxm.ipv4_dst(V4, 24)) != oxm.canonical(oxm.ipv4_dst(V4, 16))


@given(st.binary(max_size=80))
def test_any_bytes_are_split_or_refused(data: bytes) -> None:
    try:
        fields = list(oxm.split(data))
        canonical = oxm.canonical(data)
    except DecodeError:
        return
    assert sum(4 + len(value) + len(mask or b"") for _, value, mask in fields) == len(data)
    assert oxm.canonical(canonical) == canonical


@pytest.mark.parametrize("cut", range(1, 12))
def test_a_match_that_is_cut_off_is_refused(cut: int) -> None:
    with pytest.raises(DecodeError):
        list(oxm.split((oxm.in_port(1) + oxm.ipv4_dst(V4, 8))[:-cut]))
