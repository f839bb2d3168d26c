"""Matches and actions that several renderers share."""

from __future__ import annotations

from dataplane.addresses import Prefix
from dataplane.model import SubnetRef
from dataplane.ovs.openflow import actions, oxm
from dataplane.ovs.pipeline.layout import (
    GROUP_BIT,
    REG_FLAGS,
    REG_SEGMENT,
    XREG_WIRE_SOURCE,
    Feature,
    Flag,
    segment_key,
    subnet_key,
)

ETH_IPV4 = oxm.eth_type(0x0800)
ETH_IPV6 = oxm.eth_type(0x86DD)
ETH_ARP = oxm.eth_type(0x0806)
ETH_RARP = oxm.eth_type(0x8035)
ARP_REQUEST = ETH_ARP + oxm.arp_op(1)
MULTICAST = oxm.eth_dst(GROUP_BIT, GROUP_BIT)
ICMP_ECHO_REQUEST = ETH_IPV4 + oxm.ip_proto(1) + oxm.icmpv4_type(8)
UDP4 = ETH_IPV4 + oxm.ip_proto(17)

MAC_BITS = 48

PUNT_METERS = {Feature.PUNT_TTL: 1, Feature.PUNT_TOO_BIG: 2, Feature.PUNT_UNREACHABLE: 3, Feature.DHCP: 4}
PUNT_RATE = 1000
"""Packets a second that the agent is handed of one punt class."""


def match_flag(flag: Flag) -> bytes:
    return oxm.reg(REG_FLAGS, 1 << flag, 1 << flag)


def raise_flag(flag: Flag) -> bytes:
    return actions.load(oxm.REG1, 1, offset=flag, bits=1)


def clear_flag(flag: Flag) -> bytes:
    return actions.load(oxm.REG1, 0, offset=flag, bits=1)


def match_subnet(ref: SubnetRef) -> bytes:
    return oxm.metadata(subnet_key(ref.subnet_id))


def enter_subnet(ref: SubnetRef) -> bytes:
    """Actions that put the frame into a subnet and its segment."""
    return actions.set_field(oxm.metadata(subnet_key(ref.subnet_id))) + actions.set_field(
        oxm.reg(REG_SEGMENT, segment_key(ref.segment))
    )


def mac_value(mac: bytes) -> int:
    return int.from_bytes(mac, "big")


def set_wire_source(mac: bytes) -> bytes:
    return actions.set_field(oxm.xreg(XREG_WIRE_SOURCE, mac_value(mac)))


def answer_echo(gateway_mac: bytes, gateway_address: bytes) -> bytes:
    """Instructions that turn an ICMP echo request round as the gateway's reply (RFC 792)."""
    return actions.apply_actions(
        actions.move(oxm.ETH_SRC, oxm.ETH_DST),
        actions.set_field(oxm.eth_src(gateway_mac)),
        actions.move(oxm.IPV4_SRC, oxm.IPV4_DST),
        actions.set_field(oxm.ipv4_src(gateway_address)),
        actions.set_field(oxm.ip_ttl(64)),
        actions.set_field(oxm.icmpv4_type(0)),
        actions.in_port_output(),
    )


def punt(feature: Feature, metered: bool) -> bytes:
    """Instructions that hand the packet to the agent; the flow's cookie says why."""
    hand_over = actions.apply_actions(actions.controller())
    return actions.meter(PUNT_METERS[feature]) + hand_over if metered else hand_over


def match_ipv4_prefix(prefix: Prefix) -> bytes:
    return ETH_IPV4 + oxm.ipv4_dst(prefix.address, prefix.length)
