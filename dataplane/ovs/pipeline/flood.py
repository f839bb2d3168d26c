"""Flows that carry broadcast and multicast: a list per subnet, in chunks so that no flow outgrows its message.

Lists of actions in flows, not groups: a list changes atomically with the flows that rest on it, and needs no numbers to
be allocated or recovered. The switch gives up on a packet whose actions exceed 64 KB, whether by flows or by groups: at
about 80 bytes for each copy into a tunnel that is some 780 remote hosts, so the list ends at MAX_REMOTE.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from dataplane.model import Segment, SubnetRef
from dataplane.ovs.openflow import actions, oxm
from dataplane.ovs.pipeline import parts
from dataplane.ovs.pipeline.layout import (
    REG_ATTEMPT,
    REG_LOCAL,
    REG_LOCAL_CHUNK,
    REG_SEGMENT,
    Flag,
    Flow,
    Table,
    segment_key,
    subnet_key,
)

T = TypeVar("T")

_LOCAL_CHUNK = 200
_REMOTE_CHUNK = 500
_SUBNET_CHUNK = 200
MAX_REMOTE = 700
"""Remote hosts that get a copy of a flooded frame."""


@dataclass(frozen=True, slots=True)
class Membership:
    """Who is in a subnet: OpenFlow ports here, IPv4 tunnel ends elsewhere, MACs that several may own. All sorted."""

    ref: SubnetRef
    local: tuple[int, ...]
    remote: tuple[bytes, ...]
    shared_macs: tuple[bytes, ...]


def flood_flows(members: Membership, tunnel_port: int) -> list[Flow]:
    """Flows of one subnet. `tunnel_port` is the OpenFlow port of its encapsulation. None without local ports."""
    if not members.local:
        return []
    inside = parts.match_subnet(members.ref)
    flows = [
        Flow(
            Table.BRIDGE,
            90,
            inside + oxm.eth_dst(mac),
            actions.apply_actions(parts.raise_flag(Flag.SHARED_MAC)) + actions.goto_table(Table.ACT),
        )
        for mac in members.shared_macs
    ]
    chunks = _chunks(members.remote[:MAX_REMOTE], _REMOTE_CHUNK)
    for index, chunk in enumerate(chunks):
        steps = []
        if index == 0:
            steps += [parts.raise_flag(Flag.FLOODED), actions.resubmit(Table.FLOOD_LOCAL)]
            steps += [actions.move(oxm.REG0, oxm.TUN_ID, bits=24)] if members.remote else []
        for host in chunk:
            steps += [actions.set_field(oxm.tun_ipv4_dst(host)), actions.output(tunnel_port)]
        steps += _continue(index, len(chunks), REG_ATTEMPT, Table.FLOOD)
        flows.append(Flow(Table.FLOOD, 100, inside + oxm.reg(REG_ATTEMPT, index), actions.apply_actions(*steps)))
    chunks_here = _chunks(members.local, _LOCAL_CHUNK)
    for index, ports in enumerate(chunks_here):
        steps = []
        for ofport in ports:
            steps += [actions.set_field(oxm.reg(REG_LOCAL, ofport)), actions.resubmit(Table.INGRESS_SG)]
        steps += _continue(index, len(chunks_here), REG_LOCAL_CHUNK, Table.FLOOD_LOCAL)
        match = inside + oxm.reg(REG_LOCAL_CHUNK, index)
        flows.append(Flow(Table.FLOOD_LOCAL, 100, match, actions.apply_actions(*steps)))
    return flows


def segment_flows(segment: Segment, members: Sequence[Membership], others: Sequence[int] = ()) -> list[Flow]:
    """Flows for what arrives from the tunnels of a segment; `members` are its subnets, those without ports included.

    `others` are keys of further subnets that are to be served.

    A tunnel key names a segment, not a subnet. Where a segment holds several subnets, the one whose bridge table knows
    the frame's source MAC gets it: source and destination are exchanged, each subnet is asked, and ACT delivers.
    """
    here = [subnet for subnet in members if subnet.local]
    if not here:
        return []
    arriving = oxm.reg(REG_SEGMENT, segment_key(segment))
    flows = [
        Flow(Table.DELIVER, 90, arriving + oxm.eth_dst(mac), actions.goto_table(Table.FLOOD_IN))
        for mac in sorted({mac for subnet in here for mac in subnet.shared_macs})
    ]
    if len(members) == 1 and not others:
        whole = actions.apply_actions(parts.raise_flag(Flag.FLOODED), parts.enter_subnet(here[0].ref))
        flows.append(Flow(Table.FLOOD_IN, 100, arriving, whole + actions.goto_table(Table.FLOOD_LOCAL)))
        return flows
    keys = [subnet_key(subnet.ref.subnet_id) for subnet in here] + list(others)
    chunks = _chunks(keys, _SUBNET_CHUNK)
    for index, chunk in enumerate(chunks):
        steps = []
        if index == 0:
            steps += [parts.raise_flag(Flag.FLOODED), actions.move(oxm.ETH_DST, oxm.XREG7, bits=parts.MAC_BITS)]
        for key in chunk:
            steps += [
                actions.set_field(oxm.metadata(key)),
                actions.move(oxm.ETH_SRC, oxm.ETH_DST),
                parts.raise_flag(Flag.LOOKUP),
                actions.resubmit(Table.BRIDGE),
            ]
        steps += _continue(index, len(chunks), REG_ATTEMPT, Table.FLOOD_IN)
        match = arriving + oxm.reg(REG_ATTEMPT, index)
        flows.append(Flow(Table.FLOOD_IN, 100, match, actions.apply_actions(*steps)))
    return flows


def _chunks(items: Sequence[T], size: int) -> list[Sequence[T]]:
    return [items[start : start + size] for start in range(0, len(items), size)] or [()]


def _continue(index: int, count: int, register: int, table: Table) -> list[bytes]:
    if index + 1 == count:
        return []
    return [actions.set_field(oxm.reg(register, index + 1)), actions.resubmit(table)]
