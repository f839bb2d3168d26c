"""Fragmenting (RFC 791 3.2)."""

from __future__ import annotations

import struct

from hypothesis import given
from hypothesis import strategies as st

from dataplane.ovs import ipv4
from tests.unit.test_icmp import frame, ones_complement_sum, packet


def reassembled(frames: list[bytes]) -> bytes:
    """The payload, put together by the offsets; every byte must come exactly once."""
    pieces: dict[int, bytes] = {}
    for one in frames:
        parsed = ipv4.parse(one)
        assert parsed is not None
        pieces[(parsed.flags & ipv4.OFFSET) * 8] = parsed.payload
    whole = b""
    for offset in sorted(pieces):
        assert offset == len(whole)
        whole += pieces[offset]
    return whole


@given(st.binary(min_size=1, max_size=5000), st.integers(68, 1500))
def test_fragments_fit_and_make_up_the_packet(body: bytes, mtu: int) -> None:
    parsed = ipv4.parse(frame(packet(body=body)))
    assert parsed is not None
    frames = ipv4.fragments(parsed, mtu)
    assert reassembled(frames) == body
    for index, one in enumerate(frames):
        assert len(one) - ipv4.ETHERNET <= mtu
        assert ones_complement_sum(one[14:34]) == 0xFFFF
        more = struct.unpack("!H", one[20:22])[0] & ipv4.MORE_FRAGMENTS
        assert bool(more) == (index + 1 < len(frames))


def test_only_options_that_are_to_be_copied_are_in_later_fragments() -> None:
    # Loose source route (131: copied) and a timestamp (68: not), padded.
    options = bytes.fromhex("83030444040500 00")
    parsed = ipv4.parse(frame(packet(body=bytes(200), options=options)))
    assert parsed is not None
    first, *later = ipv4.fragments(parsed, 100)
    assert first[34:42] == options
    assert all(one[14] == 0x46 and one[34:38] == bytes.fromhex("83030400") for one in later)


def test_what_must_not_be_fragmented_is_not() -> None:
    parsed = ipv4.parse(frame(packet(body=bytes(3000), flags=ipv4.DONT_FRAGMENT)))
    assert parsed is not None
    assert ipv4.fragments(parsed, 1450) == []


def test_a_fragment_is_divided_further() -> None:
    whole = ipv4.parse(frame(packet(body=bytes(range(250)) * 12)))
    assert whole is not None
    halves = [ipv4.parse(one) for one in ipv4.fragments(whole, 1500)]
    quarters = [one for half in halves if half for one in ipv4.fragments(half, 600)]
    assert reassembled(quarters) == whole.payload
    assert [bool(ipv4.parse(one).flags & ipv4.MORE_FRAGMENTS) for one in quarters][-1] is False  # type: ignore[union-attr]


@given(st.binary(max_size=200))
def test_any_bytes_parse_or_do_not(data: bytes) -> None:
    parsed = ipv4.parse(data)
    if parsed is not None:
        ipv4.fragments(parsed, 68)
