"""Tables, registers, flags, priorities and cookies of the pipeline. docs/ovs-pipeline.md explains them."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from hashlib import blake2b
from types import MappingProxyType
from typing import NamedTuple

from dataplane.model import NetworkType, Segment


class Table(enum.IntEnum):
    CLASSIFY = 0
    ANTI_SPOOF = 10
    ND_TARGET = 12
    SELECT = 15
    SERVICES = 20
    EGRESS_SG = 30
    FORWARD = 40
    ROUTE = 41
    RESOLVE = 50
    BRIDGE = 51
    DELIVER = 52
    UNKNOWN = 55
    ACT = 60
    FIT = 61
    TUNNEL = 62
    FLOOD_IN = 64
    FLOOD = 65
    FLOOD_LOCAL = 66
    INGRESS_SG = 70
    OUTPUT = 80


# Registers (docs/ovs-pipeline.md): metadata = key of the subnet that the frame is in.
REG_SEGMENT = 0
REG_FLAGS = 1
REG_LOCAL = 2
"""OpenFlow port of the local destination; 0: none."""
REG_REMOTE = 3
"""IPv4 tunnel end of the destination's host; 0: local."""
XREG_ROUTER = 2
XREG_MAC = 3
"""MAC of the resolved destination, in the low 48 bits."""
REG_ADDRESS = 8
"""IPv4 address to resolve."""
REG_ATTEMPT = 9
"""Which subnet of a port with several is being tried; which chunk of a flood list comes next."""
REG_LOCAL_CHUNK = 10
XREG_WIRE_SOURCE = 6
"""Source MAC of a routed frame that leaves for another host."""


class Flag(enum.IntEnum):
    """Bits of register 1, by position."""

    ROUTED = 0
    FLOODED = 1
    LOOKUP = 2
    """The destination is not wanted, only which subnet knows the frame's source (see FLOOD_IN)."""
    SHARED_MAC = 3
    """Several ports may own the destination MAC: flood."""
    TOO_BIG = 4


class Feature(enum.IntEnum):
    """Second byte of a cookie: what kind of owner a flow has, and for punts the reason."""

    STATIC = 1
    SUBNET = 2
    PORT = 3
    NEIGHBOR = 4
    ROUTER = 5
    FLOOD = 6
    SEGMENT = 7
    DHCP = 8
    PUNT_TTL = 16
    PUNT_TOO_BIG = 17
    PUNT_UNREACHABLE = 18
    PUNT_UNKNOWN = 19
    """The owner is the port whose packets are handed up."""


class Flow(NamedTuple):
    """One flow: match TLVs and instructions as bytes. (table, priority, match) is its identity."""

    table: int
    priority: int
    match: bytes
    instructions: bytes


DVR_MAC = bytes.fromhex("fe1611000000")
DVR_MAC_MASK = bytes.fromhex("ffffff000000")
"""Hosts' MACs for routed frames on the wire (behaviour page 1.2)."""

GROUP_BIT = bytes.fromhex("010000000000")

OWNER_HASH_BYTES = 6

PIPELINE_VERSION = 2
"""Of everything in this module that two agents must agree on to share a bridge. 1: cookies began with 0."""
COOKIE_MARK = 0xA0 + PIPELINE_VERSION
"""First byte of the cookies of our flows: flows of other owners have 0 there, or anything."""
MARK_MASK = 0xFF << 56
FORMER_MARKS: Mapping[int, int] = MappingProxyType({1: 0x00})
"""First byte of the cookies of older versions."""
HARMLESS_VERSIONS = frozenset({1})
"""Older versions whose flows may stand beside ours: they use tables, registers and flags as we do."""


def cookie(feature: Feature, owner: str) -> int:
    """64-bit cookie: mark (8 bits), feature (8), hash of the owner's id (48)."""
    digest = blake2b(owner.encode(), digest_size=OWNER_HASH_BYTES).digest()
    return int.from_bytes(bytes((COOKIE_MARK, feature)) + digest, "big")


def cookie_feature(value: int) -> int:
    return value >> 48 & 0xFF


def cookie_range(mark: int, feature: Feature) -> tuple[int, int]:
    """(cookie, mask) of all flows with this mark and feature."""
    return mark << 56 | feature << 48, 0xFFFF << 48


def subnet_key(subnet_id: str) -> int:
    """The subnet's 64-bit metadata value. A hash: the same on every start, with no table to keep."""
    return int.from_bytes(blake2b(subnet_id.encode(), digest_size=8, person=b"subnet").digest(), "big")


def router_key(router_id: str) -> int:
    return int.from_bytes(blake2b(router_id.encode(), digest_size=8, person=b"router").digest(), "big")


def segment_key(segment: Segment) -> int:
    """Register 0: encapsulation + 1 in the top byte (so that it is never 0), tunnel id in the low 24 bits."""
    return network_type_bits(segment.network_type) << 24 | segment.tunnel_id


def network_type_bits(network_type: NetworkType) -> int:
    return network_type + 1


def segment_name(segment: Segment) -> str:
    """The segment as the id of an owner of flows."""
    return f"{segment.network_type.value}/{segment.tunnel_id}"


def segment_of(name: str) -> Segment:
    """The inverse of `segment_name`."""
    network_type, _, tunnel_id = name.partition("/")
    return Segment(NetworkType(int(network_type)), int(tunnel_id))
