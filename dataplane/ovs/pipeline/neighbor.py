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


def neighbor_flows(wanted: NeighborWanted) -> list[Flow]:
    """The flows of one neighbour. IPv6 addresses and tunnel ends have none (the outcome says so)."""
    mac, host = wanted.neighbor.mac, wanted.neighbor.host
    if len(host) != 4:
        return []
    remote = actions.set_field(oxm.reg(REG_REMOTE, int.from_bytes(host, "big")))
    answer = remote + actions.set_field(oxm.xreg(XREG_MAC, parts.mac_value(mac)))
    flows = [
        Flow(
            Table.RESOLVE,
            PRIORITY,
            parts.match_subnet(ref) + oxm.reg(REG_ADDRESS, int.from_bytes(address, "big")),
            actions.apply_actions(answer) + actions.goto_table(Table.ACT),
        )
        for ref, address in wanted.addresses
        if len(address) == 4
    ]
    flows += [
        Flow(
            Table.BRIDGE,
            PRIORITY,
            parts.match_subnet(ref) + oxm.eth_dst(mac),
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
    cookie, address, mac, host = b"\xa1COOKIE\xa1", b"\xa2AD\xa2", b"\xa3MACA\xa3", b"\xa4HO\xa4"
    fixed_ips = (FixedIp(ref.subnet_id, address),)
    sample = NeighborWanted(Neighbor("", 0, "", mac, host, fixed_ips, Layer.L2, ()), (ref,))
    by_address, by_mac = (
        messages.flow_add(
            int.from_bytes(cookie, "big"), flow.table, flow.priority, flow.match, flow.instructions
        )
        for flow in neighbor_flows(sample)
    )
    a0, rest = _cut(by_address, cookie)
    a1, rest = _cut(rest, address)
    a2, rest = _cut(rest, host)
    a3, a4 = _cut(rest, mac)
    m0, rest = _cut(by_mac, cookie)
    m1, rest = _cut(rest, mac)
    m2, m3 = _cut(rest, host)

    def make(cookie: bytes, address: bytes, mac: bytes, host: bytes) -> tuple[bytes, bytes]:
        return (
            b"".join((a0, cookie, a1, address, a2, host, a3, mac, a4)),
            b"".join((m0, cookie, m1, mac, m2, host, m3)),
        )

    return make


def _cut(data: bytes, mark: bytes) -> tuple[bytes, bytes]:
    head, found, tail = data.partition(mark)
    if not found or mark in tail:
        raise AssertionError("the sample flow does not hold its variable part exactly once")
    return head, tail
