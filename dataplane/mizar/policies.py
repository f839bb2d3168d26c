"""Security group rules as the transit daemon's network policies.

A port is open until its enforcement entry stands in a direction; then a TCP or UDP packet passes if the policy bits of
its protocol and port meet those of a CIDR that holds the other side. Each rule of one direction has a bit of its own,
so that ports of one rule do not mix with the CIDRs of another. The daemon never filters ICMP or other protocols.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Final

from dataplane.addresses import Prefix
from dataplane.mizar import procedures as p
from dataplane.mizar import values as v
from dataplane.mizar.errors import ValueRefused
from dataplane.mizar.limits import POLICIES
from dataplane.mizar.procedures import Call
from dataplane.model import Direction, SecurityGroupRule

TCP: Final = 6
UDP: Final = 17
PORTS_OF_A_RULE: Final = 256
"""Each port of a range is an entry of its own."""
_ANYWHERE: Final = Prefix(bytes(4), 0)


def policies(
    interface: str, tunid: int, ip: bytes, direction: Direction, rules: Iterable[SecurityGroupRule]
) -> list[Call]:
    """The calls by which only what `rules` allow in `direction` gets to or from the port with `ip`, enforcement last.

    `interface`: the transit interface for ingress, the host's end of the port's veth for egress. Rules of the other
    direction and of IPv6 (which the daemon drops anyway) are left out. With no rule left nothing passes.

    Raises ValueRefused, naming rule and field, for what the daemon cannot express: a protocol other than TCP, UDP or
    any, a remote group (its members are not known here), all ports of one protocol or more than 256, over 64 rules.
    """
    chosen = sorted({rule for rule in rules if rule.direction == direction and not rule.ipv6}, key=lambda rule: rule.id)
    if len(chosen) > POLICIES:
        raise ValueRefused("SecurityGroup", "rules", len(chosen), f"at most {POLICIES} in one direction of a port")
    cidrs: dict[Prefix, int] = defaultdict(int)
    ports: dict[tuple[int, int], int] = defaultdict(int)
    for number, rule in enumerate(chosen):
        cidrs[_remote(rule)] |= 1 << number
        for pair in _ports(rule):
            ports[pair] |= 1 << number
    if direction == Direction.INGRESS:
        cidr, ppo = p.UPDATE_TRANSIT_NETWORK_POLICY, p.UPDATE_TRANSIT_NETWORK_POLICY_PROTOCOL_PORT
        enforcement = p.UPDATE_TRANSIT_NETWORK_POLICY_ENFORCEMENT
    else:
        cidr, ppo = p.UPDATE_AGENT_NETWORK_POLICY, p.UPDATE_AGENT_NETWORK_POLICY_PROTOCOL_PORT
        enforcement = p.UPDATE_AGENT_NETWORK_POLICY_ENFORCEMENT
    primary = v.CidrType.PRIMARY
    return [
        *(
            cidr(v.VsipCidr(interface, tunid, ip, at.address, at.length, primary, _with_wider(at, cidrs)))
            for at in cidrs
        ),
        *(ppo(v.VsipPpo(interface, tunid, ip, protocol, port, bits)) for (protocol, port), bits in ports.items()),
        enforcement(v.VsipEnforce(interface, tunid, ip)),
    ]


def _with_wider(at: Prefix, cidrs: dict[Prefix, int]) -> int:
    """The daemon finds the longest prefix only, so that it must carry the bits of those around it."""
    bits = 0
    for other, more in cidrs.items():
        if other.length <= at.length and other.contains(at.address):
            bits |= more
    return bits


def _remote(rule: SecurityGroupRule) -> Prefix:
    if rule.remote_group_id:
        raise _refused(rule, "remote_group_id", rule.remote_group_id, "a group on the other side cannot be expressed")
    if rule.remote_prefix is not None and not rule.remote_prefix.is_ipv4:
        raise _refused(rule, "remote_prefix", str(rule.remote_prefix), "not IPv4")
    return rule.remote_prefix or _ANYWHERE


def _ports(rule: SecurityGroupRule) -> list[tuple[int, int]]:
    """Protocol and port of each entry; both 0 stand for everything."""
    if rule.protocol not in (None, TCP, UDP):
        raise _refused(rule, "protocol", rule.protocol, "only TCP and UDP are filtered")
    span = (rule.port_min, rule.port_max)
    if span == (0, 0):
        if rule.protocol is not None:
            raise _refused(rule, "port_max", span, "all ports of one protocol cannot be expressed")
        return [(0, 0)]
    if not 0 < span[0] <= span[1] < 65_536 or span[1] - span[0] >= PORTS_OF_A_RULE:
        raise _refused(rule, "port_max", span, f"not a range of 1 to {PORTS_OF_A_RULE} ports")
    protocols = (TCP, UDP) if rule.protocol is None else (rule.protocol,)
    return [(protocol, port) for protocol in protocols for port in range(span[0], span[1] + 1)]


def _refused(rule: SecurityGroupRule, field: str, value: object, reason: str) -> ValueRefused:
    return ValueRefused(f"SecurityGroupRule {rule.id}", field, value, reason)
