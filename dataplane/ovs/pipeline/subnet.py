"""Flows of a subnet: its gateway, which answers ARP and ping whether or not a router is there."""

from __future__ import annotations

from dataplane.model import SubnetWanted
from dataplane.ovs.openflow import actions, oxm
from dataplane.ovs.pipeline import parts
from dataplane.ovs.pipeline.layout import XREG_MAC, Flow, Table


def subnet_flows(wanted: SubnetWanted) -> list[Flow]:
    subnet = wanted.subnet
    address, mac = subnet.gateway_address, subnet.gateway_mac
    if address is None or mac is None or len(address) != 4:
        return []
    inside = parts.match_subnet(wanted.ref)
    return [
        Flow(
            Table.SERVICES,
            80,
            inside + oxm.eth_dst(mac) + parts.ICMP_ECHO_REQUEST + oxm.ipv4_dst(address),
            parts.answer_echo(mac, address),
        ),
        # Without a router, what is sent to the gateway goes nowhere; the router's own flow stands above this one.
        Flow(Table.FORWARD, 80, inside + oxm.eth_dst(mac), b""),
        Flow(
            Table.RESOLVE,
            # Above ports and neighbours: whoever claims the gateway's address does not get it.
            110,
            inside + oxm.reg(8, int.from_bytes(address, "big")),
            actions.apply_actions(actions.set_field(oxm.xreg(XREG_MAC, parts.mac_value(mac))))
            + actions.goto_table(Table.ACT),
        ),
    ]
