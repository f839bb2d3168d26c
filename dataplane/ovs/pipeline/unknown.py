"""Flows that hand packets of unknown destination to the agent, each port's by a meter of its own."""

from __future__ import annotations

from dataplane.model import PortWanted
from dataplane.ovs.openflow import actions, oxm
from dataplane.ovs.pipeline import parts
from dataplane.ovs.pipeline.layout import Flag, Flow, Table

PORT_RATE = 200
"""Packets a second of unknown destination that the agent is handed of one port."""
PORT_METERS = range(0x1000, 0x1000 + 512)
"""Made once, not with each port: deleting a meter deletes whatever flows name it by then. The switch numbers its ports
in order, so up to 512 have one each; beyond that some share."""


def meter_of(ofport: int) -> int:
    return PORT_METERS[ofport % len(PORT_METERS)]


def unknown_flows(wanted: PortWanted, ofport: int, metered: bool) -> list[Flow]:
    """The port's own. None if it is down."""
    if not wanted.port.admin_state_up:
        return []
    hand_over = actions.apply_actions(actions.controller())
    if metered:
        hand_over = actions.meter(meter_of(ofport)) + hand_over
    return [Flow(Table.UNKNOWN, 100, oxm.in_port(ofport), hand_over)]


def unresolved_flows() -> list[Flow]:
    """What nobody here can resolve goes to the agent: ARP requests besides being flooded, packets instead of being
    dropped. The copies go out first: a meter that drops ends the packet's processing.

    Packets to an unknown MAC are among them since the owner of an address may answer the flooded request before this
    host has been told of it.
    """
    flood_and_ask = actions.apply_actions(actions.resubmit(Table.FLOOD)) + actions.goto_table(Table.UNKNOWN)
    ask = actions.goto_table(Table.UNKNOWN)
    return [
        Flow(Table.RESOLVE, 20, parts.ARP_REQUEST, flood_and_ask),
        Flow(Table.RESOLVE, 20, parts.ETH_IPV4 + parts.match_flag(Flag.ROUTED), ask),
        Flow(Table.BRIDGE, 20, parts.ETH_IPV4, actions.apply_actions(actions.move(oxm.IPV4_DST, oxm.REG8)) + ask),
    ]
