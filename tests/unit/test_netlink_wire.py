"""Netlink messages: layout, attributes, acknowledgements."""

from __future__ import annotations

import struct

import pytest

from dataplane.kernel.wire import (
    ACK_TLVS,
    CAPPED,
    ERROR,
    KernelError,
    Message,
    Request,
    answer_of,
    attribute,
    attributes,
    be32,
    encode,
    messages,
    nested,
    text,
)
from dataplane.model import NetworkType, Segment
from dataplane.netlink import nft
from dataplane.netlink.names import mark_of, namespace_name, tunnel_name


@pytest.mark.parametrize("size", range(9))
def test_attributes_are_padded_and_read_back(size: int) -> None:
    data = attribute(3, bytes(range(size))) + text(4, "after")
    assert len(attribute(3, bytes(size))) % 4 == 0
    assert attributes(data) == {3: bytes(range(size)), 4: b"after\0"}


def test_a_nested_attribute_is_read_by_its_plain_number() -> None:
    assert attributes(attributes(nested(2, be32(1, 5), be32(7, 6)))[2]) == {1: b"\0\0\0\5", 7: b"\0\0\0\6"}


def test_messages_are_told_apart() -> None:
    data = encode(Request(16, 0, b"12345678"), 5) + encode(Request(17, 4, b""), 6)
    found = list(messages(data))
    assert [(one.kind, one.sequence, one.body) for one in found] == [(16, 5, b"12345678"), (17, 6, b"")]


def test_an_acknowledgement_and_a_refusal_with_the_kernels_words() -> None:
    head = struct.pack("=IHHII", 16, 16, 5, 1, 0)
    assert answer_of(Message(ERROR, 0, 1, struct.pack("=i", 0) + head)) == (0, "")
    body = struct.pack("=i", -17) + head + text(1, "so said the kernel")
    assert answer_of(Message(ERROR, CAPPED | ACK_TLVS, 1, body)) == (17, "so said the kernel")


def test_a_refusal_names_its_object() -> None:
    assert str(KernelError(17, "", "bridge b1")) == "bridge b1: File exists"
    assert str(KernelError(22, "Invalid VNI", "tunnel t1")) == "tunnel t1: Invalid VNI"
    assert "the bridge has as many ports as it can have" in str(KernelError(54, "", "device tap1"))


def test_parts_of_a_key_begin_at_words() -> None:
    assert nft.key_bytes(b"1234", b"abcdef", b"xy") == b"1234abcdef\0\0xy\0\0"


def test_many_elements_go_in_messages_that_fit_an_attribute() -> None:
    spec = nft.SetSpec(nft.BRIDGE, "s", ((nft.TYPE_MARK, 4), (nft.TYPE_ETHER, 6)), (nft.TYPE_ETHER, 6))
    elements = [(number.to_bytes(12, "big"), b"abcdef") for number in range(1234)]
    requests = list(nft.add_elements("t", spec, elements))
    assert len(requests) == 3
    assert all(len(request.body) < 65535 for request in requests)
    assert list(nft.add_elements("t", spec, [])) == []


def test_names_fit_the_kernel_and_differ() -> None:
    names = {tunnel_name(Segment(NetworkType.VXLAN, number)) for number in range(1000)}
    assert len(names) == 1000
    assert all(len(name) < 16 for name in names)
    assert namespace_name("aca-", "a" * 500) != namespace_name("aca-", "a" * 499)
    assert all(0 < mark_of(f"subnet-{number}") < 1 << 31 for number in range(1000))
