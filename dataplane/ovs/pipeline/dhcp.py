"""Flows that hand a port's DHCP requests to the agent."""

from __future__ import annotations

from dataplane.model import PortWanted
from dataplane.ovs.openflow import oxm
from dataplane.ovs.pipeline import parts
from dataplane.ovs.pipeline.layout import Feature, Flow, Table


def dhcp_flows(wanted: PortWanted, ofport: int, metered: bool) -> list[Flow]:
    """Client to server (UDP 68 to 67), broadcast and unicast alike. None if the port is down."""
    if not wanted.port.admin_state_up:
        return []
    request = oxm.in_port(ofport) + parts.UDP4 + oxm.udp_src(68) + oxm.udp_dst(67)
    return [Flow(Table.SERVICES, 100, request, parts.punt(Feature.DHCP, metered))]
