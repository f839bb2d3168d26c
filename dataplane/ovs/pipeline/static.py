"""Flows that every bridge has, whatever is programmed: the generic machinery of the pipeline."""

from __future__ import annotations

from collections.abc import Mapping

from dataplane.model import NetworkType
from dataplane.ovs.openflow import actions, oxm
from dataplane.ovs.pipeline import parts
from dataplane.ovs.pipeline.layout import (
    REG_ATTEMPT,
    REG_LOCAL,
    REG_LOCAL_CHUNK,
    REG_REMOTE,
    Feature,
    Flag,
    Flow,
    Table,
    network_type_bits,
)

ETHERNET_HEADER = 14


def static_flows(tunnels: Mapping[NetworkType, int], tunnel_mtu: int) -> list[Flow]:
    """The fixed flows. `tunnels` are the OpenFlow ports by encapsulation, `tunnel_mtu` the largest inner IP packet."""
    return [
        *_from_tunnels(tunnels),
        *_anti_spoof(),
        *_pass_through(),
        *_services(),
        *_forward(),
        *_resolve(),
        *_act(tunnel_mtu),
        *_into_tunnels(tunnels),
        *_output(),
    ]


def punt_flows(metered: bool) -> list[tuple[Feature, Flow]]:
    """Flows that hand packets to the agent to be answered by ICMP errors; each has its class as its owner."""
    return [
        (
            Feature.PUNT_TTL,
            Flow(
                Table.ROUTE,
                64000,
                parts.ETH_IPV4 + oxm.ip_ttl(1),
                parts.punt(Feature.PUNT_TTL, metered),
            ),
        ),
        (
            Feature.PUNT_TTL,
            Flow(Table.ROUTE, 64000, parts.ETH_IPV4 + oxm.ip_ttl(0), parts.punt(Feature.PUNT_TTL, metered)),
        ),
        (
            Feature.PUNT_UNREACHABLE,
            Flow(Table.ROUTE, 1, parts.ETH_IPV4, parts.punt(Feature.PUNT_UNREACHABLE, metered)),
        ),
        (
            Feature.PUNT_TOO_BIG,
            Flow(
                Table.FIT,
                100,
                parts.ETH_IPV4 + parts.match_flag(Flag.TOO_BIG),
                parts.punt(Feature.PUNT_TOO_BIG, metered),
            ),
        ),
    ]


def _from_tunnels(tunnels: Mapping[NetworkType, int]) -> list[Flow]:
    flows = []
    for network_type, ofport in tunnels.items():
        take_segment = actions.apply_actions(
            actions.move(oxm.TUN_ID, oxm.REG0, bits=24),
            actions.load(oxm.REG0, network_type_bits(network_type), offset=24, bits=8),
        )
        entry = oxm.in_port(ofport)
        flows += [
            Flow(Table.CLASSIFY, 100, entry + parts.MULTICAST, take_segment + actions.goto_table(Table.FLOOD_IN)),
            Flow(Table.CLASSIFY, 90, entry, take_segment + actions.goto_table(Table.DELIVER)),
        ]
    return flows


def _anti_spoof() -> list[Flow]:
    """What no guest may send, and what must not fall through to the flow that passes other EtherTypes by MAC alone."""
    icmpv6 = parts.ETH_IPV6 + oxm.ip_proto(58)
    never = [
        # Answers of a DHCP server; router advertisements and redirects (RFC 6105); and ICMPv6 in fragments, in which an
        # advertisement could hide (RFC 6980).
        parts.UDP4 + oxm.udp_src(67) + oxm.udp_dst(68),
        icmpv6 + oxm.icmpv6_type(134),
        icmpv6 + oxm.icmpv6_type(137),
        icmpv6 + oxm.ip_frag(1, 1),
        # Addresses that bridges keep to themselves (IEEE 802.1D table 7-10): spanning tree, pause, LLDP.
        oxm.eth_dst(bytes.fromhex("0180c2000000"), bytes.fromhex("fffffffffff0")),
    ]
    addressed = (parts.ETH_ARP, parts.ETH_RARP, parts.ETH_IPV4, parts.ETH_IPV6)
    return [Flow(Table.ANTI_SPOOF, 200, match, b"") for match in never] + [
        Flow(Table.ANTI_SPOOF, 50, ethertype, b"") for ethertype in addressed
    ]


def _pass_through() -> list[Flow]:
    return [
        Flow(Table.SELECT, 0, b"", actions.goto_table(Table.SERVICES)),
        Flow(Table.EGRESS_SG, 0, b"", actions.goto_table(Table.FORWARD)),
        Flow(Table.INGRESS_SG, 0, b"", actions.goto_table(Table.OUTPUT)),
    ]


def _services() -> list[Flow]:
    resolve_target = actions.apply_actions(actions.move(oxm.ARP_TPA, oxm.REG8)) + actions.goto_table(Table.RESOLVE)
    return [
        Flow(Table.SERVICES, 50, parts.ARP_REQUEST, resolve_target),
        Flow(Table.SERVICES, 0, b"", actions.goto_table(Table.EGRESS_SG)),
    ]


def _forward() -> list[Flow]:
    return [
        Flow(Table.FORWARD, 100, parts.MULTICAST, actions.goto_table(Table.FLOOD)),
        Flow(Table.FORWARD, 0, b"", actions.goto_table(Table.BRIDGE)),
    ]


def _resolve() -> list[Flow]:
    # Nobody here knows who has the address: whoever does (a virtual address that wanders, say) answers for itself.
    return [Flow(Table.RESOLVE, 10, parts.ARP_REQUEST, actions.goto_table(Table.FLOOD))]


def _act(tunnel_mtu: int) -> list[Flow]:
    return [
        Flow(
            Table.ACT,
            200,
            parts.match_flag(Flag.LOOKUP),
            actions.apply_actions(
                actions.move(oxm.XREG7, oxm.ETH_DST, bits=parts.MAC_BITS),
                parts.clear_flag(Flag.LOOKUP),
                parts.clear_flag(Flag.SHARED_MAC),
                actions.set_field(oxm.reg(REG_LOCAL_CHUNK, 0)),
            )
            + actions.goto_table(Table.FLOOD_LOCAL),
        ),
        Flow(
            Table.ACT,
            190,
            parts.match_flag(Flag.SHARED_MAC),
            actions.apply_actions(actions.set_field(oxm.reg(REG_ATTEMPT, 0))) + actions.goto_table(Table.FLOOD),
        ),
        Flow(Table.ACT, 150, parts.ARP_REQUEST, _answer_arp()),
        # Only a gateway has neither a local port nor a tunnel end: nothing is routed to it.
        Flow(
            Table.ACT,
            100,
            parts.match_flag(Flag.ROUTED) + oxm.reg(REG_REMOTE, 0) + oxm.reg(REG_LOCAL, 0),
            b"",
        ),
        Flow(
            Table.ACT,
            90,
            parts.match_flag(Flag.ROUTED) + oxm.reg(REG_REMOTE, 0) + parts.ETH_IPV4,
            actions.apply_actions(
                actions.move(oxm.XREG3, oxm.ETH_DST, bits=parts.MAC_BITS),
                actions.dec_ttl(),
            )
            + actions.goto_table(Table.INGRESS_SG),
        ),
        Flow(
            Table.ACT,
            80,
            parts.match_flag(Flag.ROUTED) + parts.ETH_IPV4,
            actions.apply_actions(
                actions.check_pkt_larger(tunnel_mtu + ETHERNET_HEADER, oxm.REG1, Flag.TOO_BIG),
            )
            + actions.goto_table(Table.FIT),
        ),
        Flow(Table.ACT, 40, oxm.reg(REG_REMOTE, 0), actions.goto_table(Table.INGRESS_SG)),
        Flow(Table.ACT, 0, b"", actions.goto_table(Table.TUNNEL)),
        Flow(
            Table.FIT,
            0,
            parts.ETH_IPV4,
            actions.apply_actions(
                actions.move(oxm.XREG6, oxm.ETH_SRC, bits=parts.MAC_BITS),
                actions.move(oxm.XREG3, oxm.ETH_DST, bits=parts.MAC_BITS),
                actions.dec_ttl(),
            )
            + actions.goto_table(Table.TUNNEL),
        ),
    ]


def _answer_arp() -> bytes:
    """Turn the request round with the resolved MAC as the answer (RFC 826)."""
    return actions.apply_actions(
        actions.move(oxm.ETH_SRC, oxm.ETH_DST),
        actions.move(oxm.XREG3, oxm.ETH_SRC, bits=parts.MAC_BITS),
        actions.set_field(oxm.arp_op(2)),
        actions.move(oxm.ARP_SHA, oxm.ARP_THA),
        actions.move(oxm.ARP_SPA, oxm.ARP_TPA),
        actions.move(oxm.XREG3, oxm.ARP_SHA, bits=parts.MAC_BITS),
        actions.move(oxm.REG8, oxm.ARP_SPA),
        actions.in_port_output(),
    )


def _into_tunnels(tunnels: Mapping[NetworkType, int]) -> list[Flow]:
    return [
        Flow(
            Table.TUNNEL,
            100,
            oxm.reg(0, network_type_bits(network_type) << 24, 0xFF000000),
            actions.apply_actions(
                actions.move(oxm.REG0, oxm.TUN_ID, bits=24),
                actions.move(oxm.REG3, oxm.TUN_IPV4_DST),
                actions.output(ofport),
            ),
        )
        for network_type, ofport in tunnels.items()
    ]


def _output() -> list[Flow]:
    return [
        # A flooded frame must not come back to its port: OpenFlow sees to that as long as in_port stands.
        Flow(Table.OUTPUT, 200, parts.match_flag(Flag.FLOODED), actions.apply_actions(actions.output_reg(oxm.REG2))),
        Flow(Table.OUTPUT, 0, b"", deliver()),
    ]


def deliver(*before: bytes) -> bytes:
    """Instructions that give the frame to the local port in register 2, its own port included (hairpin)."""
    return actions.apply_actions(*before, actions.load(oxm.IN_PORT, 0), actions.output_reg(oxm.REG2))
