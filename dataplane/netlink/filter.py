"""The nftables tables: what is in them from the start, and the rules of a port. All pure.

Table `netdev aca`: checks who speaks, marks the frame with its subnet, answers ARP and pings to the gateway by turning
the frame around. Table `bridge aca`: who of a bridge's ports may get a frame.

What a port may say is in sets, and its device in one of a few chains: the kernel walks through all rules of a table
when one that decides something is added, so with rules for each port every new one would cost more than the one before.
Only ports that sets cannot describe have a chain of their own.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence

from dataplane.addresses import Prefix, host_prefix, link_local_from_mac
from dataplane.kernel.wire import Request
from dataplane.model import PortWanted
from dataplane.netlink import nft
from dataplane.netlink.names import LAYOUT, MARK_ASKER_OWNS, TABLE, layout_chain, mark_of, shared_chains
from dataplane.netlink.nft import (
    LINK,
    NETWORK,
    TRANSPORT,
    SetSpec,
    compare,
    constant,
    forward,
    load,
    lookup,
    masked,
    matches,
    matches_prefix,
    meta,
    set_mark,
    store,
    verdict,
)

_MARK, _INDEX, _MAC, _IPV4 = (nft.TYPE_MARK, 4), (nft.TYPE_IFINDEX, 4), (nft.TYPE_ETHER, 6), (nft.TYPE_IPV4, 4)
_IPV6_ADDRESS = (nft.TYPE_IPV6, 16)

SETS = {
    spec.name: spec
    for spec in (
        SetSpec(nft.NETDEV, "addresses", (_MARK, _IPV4), _MAC),
        SetSpec(nft.NETDEV, "gateways", (_MARK, _MAC, _IPV4)),
        SetSpec(nft.NETDEV, "marks", (_INDEX,), _MARK),
        SetSpec(nft.NETDEV, "macs", (_INDEX, _MAC)),
        SetSpec(nft.NETDEV, "sources", (_INDEX, _MAC, _IPV4)),
        SetSpec(nft.NETDEV, "sources6", (_INDEX, _MAC, _IPV6_ADDRESS)),
        SetSpec(nft.NETDEV, "owned", (_INDEX, _IPV4)),
        SetSpec(nft.NETDEV, "dhcp", (_INDEX,)),
        SetSpec(nft.NETDEV, "apart", (_INDEX,)),
        SetSpec(nft.BRIDGE, "ports", (_INDEX,)),
        SetSpec(nft.BRIDGE, "tunnels", (_INDEX,)),
        SetSpec(nft.BRIDGE, "members", (_MARK, _MAC)),
        SetSpec(nft.BRIDGE, "shared", (_MARK, _MAC)),
        SetSpec(nft.BRIDGE, "listeners", (_MARK, _INDEX)),
        SetSpec(nft.BRIDGE, "owners", (_INDEX, _MAC)),
        SetSpec(nft.BRIDGE, "senders", (_INDEX, _MAC), _MARK),
        SetSpec(nft.BRIDGE, "only", (_INDEX,), _MARK),
        SetSpec(nft.BRIDGE, "own_gateway", (_INDEX,), _MAC),
        SetSpec(nft.BRIDGE, "hosts", (_INDEX, _MAC), _MARK),
    )
}

OF_PORTS = ("marks", "macs", "sources", "sources6", "owned", "dhcp", "apart")
"""What a port may say: keys begin with its device."""
SERVE, CHECK = "serve", "check"
CHAIN_PRIORITY, SHARED_PRIORITY = 0, 10
"""Of a port's own chain, and of the chains that ports share, at the ingress of devices."""
_INPUT, _FORWARDED = "input", "forward"
_ARP, _IP, _IPV6 = b"\x08\x06", b"\x08\x00", b"\x86\xdd"
_DVR_MAC, _DVR_MASK = bytes.fromhex("fe1611000000"), bytes.fromhex("ffffff000000")
_INGRESS, _LOCAL_IN, _FORWARD = 0, 1, 2
_PRIORITY = -200
"""Where bridges are filtered. Not 0: of hooks there br_netfilter, if it is in use, skips those that come after it."""
R = nft.REG_1


def number(value: int) -> bytes:
    """As marks and device indexes stand in registers."""
    return value.to_bytes(4, sys.byteorder)


def protocol(value: bytes) -> bytes:
    return meta(nft.META_PROTOCOL) + compare(value)


def mark(value: int) -> bytes:
    return constant(number(value)) + set_mark()


_PASSED = verdict(nft.GOTO, SERVE)
CHECKED = verdict(nft.GOTO, CHECK)
_ASKS_DHCP = protocol(_IP) + matches(NETWORK, 9, b"\x11") + matches(TRANSPORT, 2, b"\0\x43")
_ADVERTISES = meta(nft.META_L4PROTO) + compare(b"\x3a") + matches(TRANSPORT, 0, b"\x88")
_FLAGGED = (
    meta(nft.META_MARK) + masked(number(MARK_ASKER_OWNS - 1), xor=number(MARK_ASKER_OWNS)) + set_mark()
)


# -- what is there from the start


def static_requests() -> list[Request]:
    """Both tables with all their sets, without ports. What stands of it already is replaced, elements excepted."""
    found = [nft.add_table(family, TABLE) for family in (nft.NETDEV, nft.BRIDGE)]
    found += [nft.add_set(TABLE, spec, n) for n, spec in enumerate(SETS.values(), 1)]
    for name, hook in ((_INPUT, _LOCAL_IN), (_FORWARDED, _FORWARD)):
        found.append(nft.add_base_chain(nft.BRIDGE, TABLE, name, hook, _PRIORITY, nft.ACCEPT))
    chains = static_chains()
    for family, name in chains:
        if name not in (_INPUT, _FORWARDED):
            found.append(nft.add_chain(family, TABLE, name))
    for family, name in chains:
        found.append(nft.flush_chain(family, TABLE, name))
    for (family, name), rules in chains.items():
        found += [nft.add_rule(family, TABLE, name, rule) for rule in rules]
    return found


def static_counts() -> dict[tuple[int, str], int]:
    """How many rules the chains have that are there from the start, by family and name."""
    return {chain: len(rules) for chain, rules in static_chains().items()}


def static_chains() -> dict[tuple[int, str], list[bytes]]:
    """The rules of the chains that are there from the start, by family and name."""
    iif = meta(nft.META_IIF)
    chains: dict[str, Iterable[bytes]] = {
        "from_port": _from_port(),
        "to_member": _to_member(),
        "to_all": _to_all(),
        "from_tunnel": _from_tunnel(),
        "to_one": _to_one(),
        # Nothing from a guest or a tunnel is for the host itself, whatever its addresses.
        _INPUT: (iif + lookup(which) + verdict(nft.DROP) for which in ("ports", "tunnels")),
        _FORWARDED: (
            iif + lookup(which) + verdict(nft.GOTO, chain)
            for which, chain in (("tunnels", "from_tunnel"), ("ports", "from_port"))
        ),
    }
    found = {(nft.BRIDGE, name): list(rules) for name, rules in chains.items()}
    found[nft.NETDEV, SERVE] = list(_serve())
    found[nft.NETDEV, CHECK] = list(_check())
    found[nft.NETDEV, layout_chain(LAYOUT)] = found[nft.BRIDGE, layout_chain(LAYOUT)] = []
    return found


def shared_requests() -> list[Request]:
    """The chains that ports share, without devices. Before Linux 6.4 a chain has the devices that it was made with."""
    found: list[Request] = []
    for chain in shared_chains():
        found += [
            nft.add_base_chain(nft.NETDEV, TABLE, chain, _INGRESS, SHARED_PRIORITY, nft.DROP),
            nft.flush_chain(nft.NETDEV, TABLE, chain),
            nft.add_rule(nft.NETDEV, TABLE, chain, CHECKED),
        ]
    return found


def shared_counts() -> dict[tuple[int, str], int]:
    """static_counts() of those."""
    return {(nft.NETDEV, chain): 1 for chain in shared_chains()}


def _is_group(yes: int) -> bytes:
    return load(LINK, 0, 1) + masked(b"\x01") + compare(bytes((yes,)))


def _from_port() -> Iterator[bytes]:
    target = meta(nft.META_MARK, R) + load(LINK, 0, 6, R + 1)
    yield _is_group(1) + verdict(nft.GOTO, "to_all")
    yield target + lookup("members") + verdict(nft.GOTO, "to_member")
    yield target + lookup("shared") + verdict(nft.GOTO, "to_all")
    yield verdict(nft.DROP)


def _to_member() -> Iterator[bytes]:
    """The mark has said its own; for the device of a Geneve segment it now says which host the frame is for."""
    yield meta(nft.META_OIF, R) + load(LINK, 0, 6, R + 1) + lookup("hosts", R, R + 4) + set_mark(R + 4)
    yield verdict(nft.ACCEPT)


_LISTENS = meta(nft.META_MARK, R) + meta(nft.META_OIF, R + 1) + lookup("listeners") + verdict(nft.ACCEPT)


def _to_all() -> Iterator[bytes]:
    # Without a mark it is for all hosts.
    yield meta(nft.META_OIF) + lookup("tunnels") + mark(0) + verdict(nft.ACCEPT)
    yield _LISTENS
    yield verdict(nft.DROP)


def _from_tunnel() -> Iterator[bytes]:
    """A tunnel id names a segment, which may hold several subnets: the sender tells which one a group frame is for."""
    yield _is_group(0) + verdict(nft.GOTO, "to_one")
    yield mark(0)
    yield meta(nft.META_IIF, R) + load(LINK, 6, 6, R + 1) + lookup("senders", R, R + 4) + set_mark(R + 4)
    unknown = meta(nft.META_MARK) + compare(number(0))
    yield unknown + meta(nft.META_IIF) + lookup("only", R, R + 4) + set_mark(R + 4)
    yield _LISTENS
    yield verdict(nft.DROP)


def _to_one() -> Iterator[bytes]:
    # Routed frames from other hosts may carry their router's MAC; the guest is to see its own gateway's.
    routed = load(LINK, 6, 6) + masked(_DVR_MASK) + compare(_DVR_MAC)
    yield routed + meta(nft.META_OIF) + lookup("own_gateway", R, R + 4) + store(LINK, 6, 6, R + 4)
    # An answer to ARP whose sender is not known yet is of no use: what is sent there would be dropped, and be lost.
    yield mark(0)
    yield meta(nft.META_IIF, R) + load(LINK, 6, 6, R + 1) + lookup("senders", R, R + 4) + set_mark(R + 4)
    early = meta(nft.META_MARK) + compare(number(0)) + protocol(_ARP) + matches(NETWORK, 6, b"\0\2")
    yield early + verdict(nft.DROP)
    yield meta(nft.META_OIF, R) + load(LINK, 0, 6, R + 1) + lookup("owners") + verdict(nft.ACCEPT)
    yield verdict(nft.DROP)


def _serve() -> Iterator[bytes]:
    back = meta(nft.META_IIF, R) + forward(R)
    # ARP request for an address that is known: registers 1 target, 2 asker's MAC, 4 owner's MAC, 6 asker, 7 "reply".
    yield (
        protocol(_ARP)
        + matches(NETWORK, 6, b"\x00\x01")
        + meta(nft.META_MARK, R)
        + load(NETWORK, 24, 4, R + 1)
        + lookup("addresses", R, R + 4)
        + load(NETWORK, 8, 6, R + 2)
        + load(NETWORK, 14, 4, R + 6)
        + constant(b"\x00\x02", R + 7)
        + store(NETWORK, 6, 2, R + 7)
        + store(NETWORK, 8, 6, R + 4)
        + store(NETWORK, 14, 4, R + 1)
        + store(NETWORK, 18, 6, R + 2)
        + store(NETWORK, 24, 4, R + 6)
        + store(LINK, 0, 6, R + 2)
        + store(LINK, 6, 6, R + 4)
        + back
    )
    yield meta(nft.META_MARK) + masked(number(MARK_ASKER_OWNS - 1)) + set_mark()
    # Echo request to the own gateway, not fragmented: registers 1-2 gateway's MAC, 3 its address, 4-5 and 6 the guest.
    yield (
        protocol(_IP)
        + matches(NETWORK, 9, b"\x01")
        + load(NETWORK, 6, 2)
        + masked(b"\x3f\xff")
        + compare(b"\0\0")
        + matches(TRANSPORT, 0, b"\x08")
        + meta(nft.META_MARK, R)
        + load(LINK, 0, 6, R + 1)
        + load(NETWORK, 16, 4, R + 3)
        + lookup("gateways")
        + load(LINK, 6, 6, R + 4)
        + load(NETWORK, 12, 4, R + 6)
        + store(LINK, 0, 6, R + 4)
        + store(LINK, 6, 6, R + 1)
        + store(NETWORK, 12, 4, R + 3, checksum_at=10)
        + store(NETWORK, 16, 4, R + 6, checksum_at=10)
        + constant(b"\x40\x01", R + 7)
        + store(NETWORK, 8, 2, R + 7, checksum_at=10)
        + constant(b"\x00\x00", R + 7)
        + store(TRANSPORT, 0, 2, R + 7, checksum_at=2)
        + back
    )
    yield verdict(nft.ACCEPT)


# -- ports that sets describe


def _check() -> Iterator[bytes]:
    """What `port_rules` says of one port, for all that have elements. Registers: 0 device, 1-2 MAC, from 3 address."""
    device = meta(nft.META_IIF, R)
    sender = device + load(LINK, 6, 6, R + 1)
    yield device + lookup("apart") + verdict(nft.ACCEPT)
    yield device + lookup("marks", R, R + 4) + set_mark(R + 4)
    yield from _drop_tagged()
    yield _ASKS_DHCP + device + lookup("dhcp") + verdict(nft.DROP)
    asks = protocol(_ARP) + matches(NETWORK, 6, b"\0\1") + device + load(NETWORK, 24, 4, R + 1)
    yield asks + lookup("owned") + _FLAGGED
    yield protocol(_IP) + sender + load(NETWORK, 12, 4, R + 3) + lookup("sources") + _PASSED
    speaks_arp = protocol(_ARP) + sender + load(NETWORK, 14, 4, R + 3) + lookup("sources")
    yield speaks_arp + load(NETWORK, 8, 6, R + 1) + lookup("sources") + _PASSED
    speaks_ipv6 = sender + load(NETWORK, 8, 16, R + 3) + lookup("sources6")
    yield (
        protocol(_IPV6) + _ADVERTISES + speaks_ipv6 + load(TRANSPORT, 8, 16, R + 3) + lookup("sources6") + _PASSED
    )
    yield protocol(_IPV6) + _ADVERTISES + verdict(nft.DROP)
    yield protocol(_IPV6) + speaks_ipv6 + _PASSED
    known = sender + lookup("macs")
    yield from _of_any_address(known, known + load(NETWORK, 8, 6, R + 1) + lookup("macs"))
    yield verdict(nft.DROP)


def is_apart(wanted: PortWanted) -> bool:
    """Whether it needs a chain of its own: whoever is in several subnets, or may use whole prefixes."""
    if not wanted.port.admin_state_up:
        return False
    return len(wanted.subnets) > 1 or any(not _is_host(pair.prefix) for pair in wanted.port.allowed_pairs)


def _is_host(prefix: Prefix) -> bool:
    return prefix.length == len(prefix.address) * 8


def port_elements(wanted: PortWanted, device: bytes, *, hands_up_dhcp: bool) -> Iterator[tuple[str, bytes, bytes]]:
    """(set, key, data) of a port that sets describe; `device` is its number. None if it is administratively down."""
    if not wanted.port.admin_state_up:
        return
    yield "marks", device, number(mark_of(wanted.subnets[0].id))
    if hands_up_dhcp:
        yield "dhcp", device, b""
    pairs = allowed_pairs(wanted)
    for mac in dict.fromkeys([mac for mac, _ in pairs]):
        sender = nft.mac_key(device, mac)
        yield "macs", sender, b""
        yield "sources6", sender + link_local_from_mac(mac), b""
    for mac, prefix in pairs:
        sender = nft.mac_key(device, mac)
        if prefix.is_ipv4:
            yield "sources", sender + prefix.address, b""
            yield "owned", device + prefix.address, b""
        else:
            yield "sources6", sender + prefix.address, b""


# -- ports with a chain of their own


def allowed_pairs(wanted: PortWanted) -> list[tuple[bytes, Prefix]]:
    """Every (MAC, prefix) that the port may use as a source, each once: its own addresses and its pairs."""
    port = wanted.port
    own = [(port.mac, host_prefix(fixed.address)) for fixed in port.fixed_ips]
    if not port.allowed_pairs:
        return own
    more = [(pair.mac or port.mac, pair.prefix) for pair in port.allowed_pairs]
    return list(dict.fromkeys(own + more))


def port_rules(wanted: PortWanted, *, hands_up_dhcp: bool) -> tuple[bytes, ...]:
    """The rules of the port's chain, whose policy is to drop. None at all if it is administratively down."""
    if not wanted.port.admin_state_up:
        return ()
    pairs = allowed_pairs(wanted)
    macs = list(dict.fromkeys(mac for mac, _ in pairs))
    rules = [*_select_subnet(wanted), *_drop_tagged()]
    if hands_up_dhcp:
        # The agent's packet socket has had it before any rule.
        rules.append(_ASKS_DHCP + verdict(nft.DROP))
    for prefix in dict.fromkeys(prefix for _, prefix in pairs):
        if prefix.is_ipv4:
            asked = protocol(_ARP) + matches(NETWORK, 6, b"\0\1") + matches_prefix(NETWORK, 24, *prefix)
            rules.append(asked + _FLAGGED)
    for mac, prefix in pairs:
        if prefix.is_ipv4:
            rules += _ipv4_sources(mac, prefix)
    for mac in macs:
        own = [prefix for holder, prefix in pairs if holder == mac and not prefix.is_ipv4]
        rules += _ipv6_sources(mac, [*own, host_prefix(link_local_from_mac(mac))])
        rules += _sources_of_any_address(mac)
    return tuple(rules)


def leg_rules(subnet_mark: int) -> tuple[bytes, ...]:
    return (mark(subnet_mark) + verdict(nft.GOTO, SERVE),)


def _select_subnet(wanted: PortWanted) -> Iterator[bytes]:
    """A port in several subnets speaks in the one whose prefix holds the target, else in its first."""
    yield mark(mark_of(wanted.subnets[0].id))
    if len(wanted.subnets) < 2:
        return
    # The last rule that matches counts: the longest prefix, and among equals the earliest subnet.
    last_first = list(reversed(wanted.subnets))
    for subnet in sorted(last_first, key=lambda one: one.subnet.cidr.length):
        cidr = subnet.subnet.cidr
        enter = mark(mark_of(subnet.id))
        if cidr.is_ipv4:
            yield protocol(_ARP) + matches_prefix(NETWORK, 24, *cidr) + enter
            yield protocol(_IP) + matches_prefix(NETWORK, 16, *cidr) + enter
        elif wanted.subnets[0].subnet.cidr.is_ipv4:
            yield protocol(_IPV6) + enter
    for subnet in reversed(wanted.subnets):
        if subnet.subnet.gateway_mac is not None:
            yield matches(LINK, 0, subnet.subnet.gateway_mac) + mark(mark_of(subnet.id))


def _drop_tagged() -> Iterator[bytes]:
    for tag in (b"\x81\x00", b"\x88\xa8"):
        yield matches(LINK, 12, tag) + verdict(nft.DROP)


def _ipv4_sources(mac: bytes, prefix: Prefix) -> Iterator[bytes]:
    sender = matches(LINK, 6, mac)
    yield protocol(_IP) + sender + matches_prefix(NETWORK, 12, *prefix) + _PASSED
    yield protocol(_ARP) + sender + matches(NETWORK, 8, mac) + matches_prefix(NETWORK, 14, *prefix) + _PASSED


def _ipv6_sources(mac: bytes, prefixes: Sequence[Prefix]) -> Iterator[bytes]:
    """An advertisement (RFC 4861 4.4) claims its target: that must be the port's as well as the source."""
    sender = protocol(_IPV6) + matches(LINK, 6, mac)
    for target in prefixes:
        for prefix in prefixes:
            speaks = matches_prefix(NETWORK, 8, *prefix)
            yield sender + speaks + _ADVERTISES + matches_prefix(TRANSPORT, 8, *target) + _PASSED
    yield sender + _ADVERTISES + verdict(nft.DROP)
    for prefix in prefixes:
        yield sender + matches_prefix(NETWORK, 8, *prefix) + _PASSED


def _from_nobody(icmp_type: bytes) -> bytes:
    """ICMPv6 to a group, from '::'."""
    source_and_group = matches(NETWORK, 8, bytes(16)) + matches(NETWORK, 24, b"\xff\x02")
    return source_and_group + meta(nft.META_L4PROTO) + compare(b"\x3a") + matches(TRANSPORT, 0, icmp_type) + _PASSED


_NOBODY = bytes(4)
_PROBES = matches(NETWORK, 14, _NOBODY) + _PASSED
_ASKS_FOR_ADDRESS = (
    matches(NETWORK, 12, _NOBODY)
    + matches(NETWORK, 16, b"\xff" * 4)
    + matches(NETWORK, 9, b"\x11")
    + matches(TRANSPORT, 0, b"\0\x44\0\x43")
    + _PASSED
)
# Duplicate address detection (RFC 4862 5.4.2) and multicast listener reports.
_SPEAK_FROM_NOBODY = (_from_nobody(b"\x87"), _from_nobody(b"\x8f"))
_NEITHER_IP_NOR_ARP = meta(nft.META_PROTOCOL) + b"".join(
    compare(known, operation=nft.NOT_EQUAL) for known in (_IP, _ARP, _IPV6)
)


def _sources_of_any_address(mac: bytes) -> Iterator[bytes]:
    sender = matches(LINK, 6, mac)
    yield from _of_any_address(sender, sender + matches(NETWORK, 8, mac))


def _of_any_address(sender: bytes, sender_of_arp: bytes) -> Iterator[bytes]:
    yield protocol(_ARP) + sender_of_arp + _PROBES
    yield protocol(_IP) + sender + _ASKS_FOR_ADDRESS
    for speaks in _SPEAK_FROM_NOBODY:
        yield protocol(_IPV6) + sender + speaks
    yield _NEITHER_IP_NOR_ARP + sender + _PASSED
