"""Flows of remote neighbours: the hot path. One flow per address and one per MAC."""

from __future__ import annotations

from collections.abc import Callable

from dataplane.model import FixedIp, Layer, Neighbor, NeighborWanted, SubnetRef
from dataplane.ovs.openflow import actions, messages, oxm
from dataplane.ovs.pipeline import parts
from dataplane.ovs.pipeline.layout import (
    REG_ADDRESS,
    REG_REMOTE,
    XREG_MAC,
    Flow,
    Table,
)

PRIORITY = 100

_COOKIE, _ADDRESS, _MAC, _HOST = b"\xa1COOKIE\xa1", b"\xa2AD\xa2", b"\xa3MACA\xa3", b"\xa4HO\xa4"
"""Variable parts of a sample neighbour, which occur nowhere else in its flows."""


def neighbor_flows(wanted: NeighborWanted) -> list[Flow]:
    """The flows of one neighbour. IPv6 addresses and tunnel ends have none (the outcome says so).

    Their fields are in the order in which Open vSwitch reports them, so that reading back compares bytes.
    """
    mac, host = wanted.neighbor.mac, wanted.neighbor.host
    if len(host) != 4:
        return []
    remote = actions.set_field(oxm.reg(REG_REMOTE, int.from_bytes(host, "big")))
    answer = remote + actions.set_field(oxm.xreg(XREG_MAC, parts.mac_value(mac)))
    flows = [
        Flow(
            Table.RESOLVE,
            PRIORITY,
            oxm.reg(REG_ADDRESS, int.from_bytes(address, "big")) + parts.match_subnet(ref),
            actions.apply_actions(answer) + actions.goto_table(Table.ACT),
        )
        for ref, address in wanted.addresses
        if len(address) == 4
    ]
    flows += [
        Flow(
            Table.BRIDGE,
            PRIORITY,
            oxm.eth_dst(mac) + parts.match_subnet(ref),
            actions.apply_actions(remote) + actions.goto_table(Table.ACT),
        )
        for ref in wanted.mac_subnets
    ]
    return flows


BodyMaker = Callable[[bytes, bytes, bytes, bytes], tuple[bytes, bytes]]
"""(cookie, address, mac, host) -> bodies of the address flow and the MAC flow."""


def body_maker(ref: SubnetRef) -> BodyMaker:
    """A fast encoder of the two flow-mod bodies of a neighbour with one IPv4 address in this subnet.

    Made from the bytes of `neighbor_flows` itself: a sample is encoded and cut where the variable parts stand, so the
    two can never disagree.
    """
    mark = int.from_bytes(_COOKIE, "big")
    by_address, by_mac = (messages.flow_add(mark, *flow) for flow in neighbor_flows(_sample(ref)))
    a0, rest = _cut(by_address, _COOKIE)
    a1, rest = _cut(rest, _ADDRESS)
    a2, rest = _cut(rest, _HOST)
    a3, a4 = _cut(rest, _MAC)
    m0, rest = _cut(by_mac, _COOKIE)
    m1, rest = _cut(rest, _MAC)
    m2, m3 = _cut(rest, _HOST)

    def make(cookie: bytes, address: bytes, mac: bytes, host: bytes) -> tuple[bytes, bytes]:
        return (
            b"".join((a0, cookie, a1, address, a2, host, a3, mac, a4)),
            b"".join((m0, cookie, m1, mac, m2, host, m3)),
        )

    return make


FlowMaker = Callable[[bytes, bytes, bytes], tuple[bytes, bytes, bytes, bytes]]
"""(address, mac, host) -> match and instructions of the address flow, match and instructions of the MAC flow."""


def flow_maker(ref: SubnetRef) -> FlowMaker:
    """As `body_maker`, for the flows themselves."""
    by_address, by_mac = neighbor_flows(_sample(ref))
    a0, a1 = _cut(by_address.match, _ADDRESS)
    b0, rest = _cut(by_address.instructions, _HOST)
    b1, b2 = _cut(rest, _MAC)
    c0, c1 = _cut(by_mac.match, _MAC)
    d0, d1 = _cut(by_mac.instructions, _HOST)

    def make(address: bytes, mac: bytes, host: bytes) -> tuple[bytes, bytes, bytes, bytes]:
        return a0 + address + a1, b"".join((b0, host, b1, mac, b2)), c0 + mac + c1, d0 + host + d1

    return make


def _sample(ref: SubnetRef) -> NeighborWanted:
    """A neighbour whose variable parts can be told from everything else."""
    fixed_ips = (FixedIp(ref.subnet_id, _ADDRESS),)
    return NeighborWanted(Neighbor("", 0, "", _MAC, _HOST, fixed_ips, Layer.L2, ()), (ref,))


def _cut(data: bytes, mark: bytes) -> tuple[bytes, bytes]:
    head, found, tail = data.partition(mark)
    if not found or mark in tail:
        raise AssertionError("the sample flow does not hold its variable part exactly once")
    return head, tail
