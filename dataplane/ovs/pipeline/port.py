"""Flows of a local port: where its frames enter, what it may claim to be, how it is reached."""

from __future__ import annotations

from collections.abc import Iterator

from dataplane.addresses import Prefix, host_prefix, link_local_from_mac
from dataplane.model import AddressPair, PortWanted, SubnetWanted
from dataplane.ovs.openflow import actions, oxm
from dataplane.ovs.pipeline import parts
from dataplane.ovs.pipeline.layout import (
    DVR_MAC,
    DVR_MAC_MASK,
    REG_ATTEMPT,
    REG_LOCAL,
    REG_SEGMENT,
    XREG_MAC,
    Flow,
    Table,
    segment_key,
)
from dataplane.ovs.pipeline.static import deliver

_ANY_IPV4 = bytes(4)
_ANY_IPV6 = bytes(16)
_BROADCAST = b"\xff" * 4
_ALL_ROUTERS_AND_NODES = bytes.fromhex("ff02") + bytes(14)


def port_flows(wanted: PortWanted, ofport: int) -> list[Flow]:
    """All flows of the port whose device has this OpenFlow port number. None at all if it is administratively down."""
    if not wanted.port.admin_state_up:
        return []
    return [
        *_classify(wanted, ofport),
        *_anti_spoof(wanted, ofport),
        *_select_subnet(wanted, ofport),
        *_own_addresses(wanted, ofport),
        *_reach(wanted, ofport),
        *_restore_gateway_mac(wanted, ofport),
    ]


def _classify(wanted: PortWanted, ofport: int) -> Iterator[Flow]:
    first = wanted.subnets[0]
    yield Flow(
        Table.CLASSIFY,
        50,
        oxm.in_port(ofport) + oxm.vlan_none(),
        actions.apply_actions(parts.enter_subnet(first.ref)) + actions.goto_table(Table.ANTI_SPOOF),
    )


def allowed_pairs(wanted: PortWanted) -> list[tuple[bytes, Prefix]]:
    """Every (MAC, prefix) that the port may use as a source, each once: its own addresses and its pairs."""
    port = wanted.port
    own = [(port.mac, host_prefix(fixed.address)) for fixed in port.fixed_ips]
    more = [(pair.mac or port.mac, pair.prefix) for pair in port.allowed_pairs]
    return list(dict.fromkeys(own + more))


def _anti_spoof(wanted: PortWanted, ofport: int) -> Iterator[Flow]:
    entry = oxm.in_port(ofport)
    passed = actions.goto_table(Table.SELECT)
    pairs = allowed_pairs(wanted)
    for mac, prefix in pairs:
        source = entry + oxm.eth_src(mac)
        if prefix.is_ipv4:
            yield Flow(
                Table.ANTI_SPOOF,
                100,
                source + parts.ETH_ARP + oxm.arp_sha(mac) + oxm.arp_spa(prefix.address, prefix.length),
                passed,
            )
            yield Flow(
                Table.ANTI_SPOOF, 100, source + parts.ETH_IPV4 + oxm.ipv4_src(prefix.address, prefix.length), passed
            )
        else:
            yield from _ipv6_source(entry, mac, prefix, passed)
    for mac in dict.fromkeys(mac for mac, _ in pairs):
        source = entry + oxm.eth_src(mac)
        yield Flow(
            Table.ANTI_SPOOF, 100, source + parts.ETH_ARP + oxm.arp_sha(mac) + oxm.arp_spa(_ANY_IPV4), passed
        )
        yield Flow(
            Table.ANTI_SPOOF,
            100,
            source
            + parts.UDP4
            + oxm.ipv4_src(_ANY_IPV4)
            + oxm.ipv4_dst(_BROADCAST)
            + oxm.udp_src(68)
            + oxm.udp_dst(67),
            passed,
        )
        yield from _ipv6_source(entry, mac, host_prefix(link_local_from_mac(mac)), passed)
        # Duplicate address detection (RFC 4862 5.4.2) and multicast listener reports speak from '::'.
        for icmp_type in (135, 143):
            yield Flow(
                Table.ANTI_SPOOF,
                110,
                source
                + parts.ETH_IPV6
                + oxm.ip_proto(58)
                + oxm.ipv6_src(_ANY_IPV6)
                + oxm.ipv6_dst(_ALL_ROUTERS_AND_NODES, 16)
                + oxm.icmpv6_type(icmp_type),
                passed,
            )
        yield Flow(Table.ANTI_SPOOF, 10, source, passed)


def _ipv6_source(entry: bytes, mac: bytes, prefix: Prefix, passed: bytes) -> Iterator[Flow]:
    sender = entry + oxm.eth_src(mac) + parts.ETH_IPV6
    speaks_for = oxm.ipv6_src(prefix.address, prefix.length)
    yield Flow(Table.ANTI_SPOOF, 100, sender + speaks_for, passed)
    # An advertisement (RFC 4861 4.4) claims its target, so the target must be the port's as well as the source.
    claims = oxm.ip_proto(58) + oxm.icmpv6_type(136)
    checked = actions.goto_table(Table.ND_TARGET)
    yield Flow(Table.ANTI_SPOOF, 110, sender + oxm.ip_proto(58) + speaks_for + oxm.icmpv6_type(136), checked)
    target = oxm.nd_target(prefix.address, prefix.length)
    yield Flow(Table.ND_TARGET, 100, entry + parts.ETH_IPV6 + claims + target, passed)


def _select_subnet(wanted: PortWanted, ofport: int) -> Iterator[Flow]:
    """A port in several subnets speaks in the one whose prefix holds the target, else in its first."""
    entry = oxm.in_port(ofport)
    for other in wanted.subnets[1:]:
        enter = actions.apply_actions(parts.enter_subnet(other.ref)) + actions.goto_table(Table.SERVICES)
        cidr = other.subnet.cidr
        if other.subnet.gateway_mac is not None:
            yield Flow(Table.SELECT, 200, entry + oxm.eth_dst(other.subnet.gateway_mac), enter)
        if cidr.is_ipv4:
            target = parts.ETH_ARP + oxm.arp_tpa(cidr.address, cidr.length)
            yield Flow(Table.SELECT, 100 + cidr.length, entry + target, enter)
            yield Flow(Table.SELECT, 100 + cidr.length, entry + parts.match_ipv4_prefix(cidr), enter)
        elif all(earlier.subnet.cidr.is_ipv4 for earlier in wanted.subnets[: wanted.subnets.index(other)]):
            yield Flow(Table.SELECT, 100, entry + parts.ETH_IPV6, enter)
    first = wanted.subnets[0].subnet
    if len(wanted.subnets) > 1 and first.cidr.is_ipv4:
        # The first subnet's own prefix must stand against a shorter one of another subnet.
        stay = actions.goto_table(Table.SERVICES)
        yield Flow(
            Table.SELECT,
            100 + first.cidr.length,
            entry + parts.ETH_ARP + oxm.arp_tpa(first.cidr.address, first.cidr.length),
            stay,
        )
        yield Flow(Table.SELECT, 100 + first.cidr.length, entry + parts.match_ipv4_prefix(first.cidr), stay)
        if first.gateway_mac is not None:
            yield Flow(Table.SELECT, 210, entry + oxm.eth_dst(first.gateway_mac), stay)


def _own_addresses(wanted: PortWanted, ofport: int) -> Iterator[Flow]:
    """A request for an address that the asker itself owns or may own is never answered here (RFC 5227): flood it."""
    for _, prefix in dict.fromkeys((b"", prefix) for _, prefix in allowed_pairs(wanted)):
        if prefix.is_ipv4:
            yield Flow(
                Table.SERVICES,
                90,
                oxm.in_port(ofport) + parts.ARP_REQUEST + oxm.arp_tpa(prefix.address, prefix.length),
                actions.goto_table(Table.FLOOD),
            )


def _reach(wanted: PortWanted, ofport: int) -> Iterator[Flow]:
    port = wanted.port
    to_port = actions.set_field(oxm.reg(REG_LOCAL, ofport))
    answer = actions.apply_actions(to_port, actions.set_field(oxm.xreg(XREG_MAC, parts.mac_value(port.mac))))
    refs = {subnet.id: subnet.ref for subnet in wanted.subnets}
    for fixed in wanted.held:
        if len(fixed.address) == 4:
            yield Flow(
                Table.RESOLVE,
                100,
                parts.match_subnet(refs[fixed.subnet_id]) + oxm.reg(8, int.from_bytes(fixed.address, "big")),
                answer + actions.goto_table(Table.ACT),
            )
    mac = oxm.eth_dst(port.mac)
    refs = {name: ref for name, ref in refs.items() if name in wanted.mac_held}
    for ref in refs.values():
        yield Flow(
            Table.BRIDGE,
            100,
            parts.match_subnet(ref) + mac,
            actions.apply_actions(to_port) + actions.goto_table(Table.ACT),
        )
    for segment in dict.fromkeys(ref.segment for ref in refs.values()):
        yield Flow(
            Table.DELIVER,
            100,
            oxm.reg(REG_SEGMENT, segment_key(segment)) + mac,
            actions.apply_actions(to_port) + actions.goto_table(Table.INGRESS_SG),
        )
    yield from _try_other_subnets(wanted, ofport)


def _try_other_subnets(wanted: PortWanted, ofport: int) -> Iterator[Flow]:
    """Frames are bridged by MAC whatever their address: a port in several subnets tries each in turn."""
    for attempt, following in enumerate(wanted.subnets):
        if len(wanted.subnets) > 1:
            yield Flow(
                Table.BRIDGE,
                50,
                oxm.in_port(ofport) + oxm.reg(REG_ATTEMPT, attempt),
                actions.apply_actions(
                    parts.enter_subnet(following.ref),
                    actions.set_field(oxm.reg(REG_ATTEMPT, attempt + 1)),
                    actions.resubmit(Table.BRIDGE),
                ),
            )


def _restore_gateway_mac(wanted: PortWanted, ofport: int) -> Iterator[Flow]:
    """Routed frames from other hosts carry their router's MAC; the guest is to see its own gateway's."""
    arriving = oxm.reg(REG_LOCAL, ofport) + oxm.eth_src(DVR_MAC, DVR_MAC_MASK)
    several = len(wanted.subnets) > 1
    for subnet in wanted.subnets:
        mac = subnet.subnet.gateway_mac
        if mac is None:
            continue
        restore = deliver(actions.set_field(oxm.eth_src(mac)))
        if subnet is wanted.subnets[0]:
            yield Flow(Table.OUTPUT, 100, arriving, restore)
        elif several and subnet.subnet.cidr.is_ipv4:
            yield Flow(Table.OUTPUT, 110, arriving + parts.match_ipv4_prefix(subnet.subnet.cidr), restore)


def shared_macs(port_mac: bytes, pairs: tuple[AddressPair, ...]) -> set[bytes]:
    """MACs of allowed pairs that are not the port's own: several ports may own one (VRRP), so frames to it flood."""
    return {pair.mac for pair in pairs if pair.mac is not None and pair.mac != port_mac}


def subnet_of(wanted: PortWanted, address: bytes) -> SubnetWanted:
    """The port's subnet whose prefix holds the address, else its first."""
    return next((subnet for subnet in wanted.subnets if subnet.subnet.cidr.contains(address)), wanted.subnets[0])


def mac_of(wanted: PortWanted, address: bytes) -> bytes:
    """The MAC that the port uses with a source address of its own or of an allowed pair."""
    own = (mac for mac, prefix in allowed_pairs(wanted) if prefix.contains(address))
    return next(own, wanted.port.mac)
