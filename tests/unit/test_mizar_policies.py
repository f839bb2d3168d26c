"""Security group rules as network policies: what passes by the entries, as the daemon would look them up."""

import pytest

from dataplane.addresses import Prefix
from dataplane.mizar import values as v
from dataplane.mizar.errors import ValueRefused
from dataplane.mizar.policies import TCP, UDP, policies
from dataplane.model import Direction, SecurityGroupRule

IP = bytes([10, 0, 0, 5])
WIDE, NARROW = Prefix(bytes([10, 0, 0, 0]), 8), Prefix(bytes([10, 1, 0, 0]), 16)


def rule(
    name: str, protocol: int | None, ports: tuple[int, int], remote: Prefix | None = None, group: str = ""
) -> SecurityGroupRule:
    return SecurityGroupRule(name, Direction.INGRESS, False, protocol, *ports, remote, group)


def passes(rules: list[SecurityGroupRule], source: bytes, protocol: int, port: int) -> bool:
    arguments = [call.argument for call in policies("eth0", 3, IP, Direction.INGRESS, rules)]
    assert arguments[-1] == v.VsipEnforce("eth0", 3, IP)
    by_port = 0
    cidrs = []
    for entry in arguments:
        if isinstance(entry, v.VsipPpo) and (entry.proto, entry.port) in ((0, 0), (protocol, port)):
            by_port |= entry.bit_val
        if isinstance(entry, v.VsipCidr) and Prefix(entry.cidr_ip, entry.cidr_prefixlen).contains(source):
            cidrs.append((entry.cidr_prefixlen, entry.bit_val))
    return bool(by_port & max(cidrs, default=(0, 0))[1])


def test_each_rule_keeps_its_ports_to_its_cidr() -> None:
    rules = [rule("a", TCP, (80, 81), WIDE), rule("b", UDP, (53, 53), NARROW)]
    assert passes(rules, bytes([10, 9, 0, 1]), TCP, 81)
    assert not passes(rules, bytes([10, 9, 0, 1]), TCP, 82)
    assert not passes(rules, bytes([10, 9, 0, 1]), UDP, 53)
    assert passes(rules, bytes([10, 1, 0, 1]), UDP, 53)
    assert passes(rules, bytes([10, 1, 0, 1]), TCP, 80)
    assert not passes(rules, bytes([192, 0, 2, 1]), TCP, 80)


def test_without_rules_nothing_passes_and_a_bare_rule_lets_all_through() -> None:
    assert not passes([], bytes([10, 1, 0, 1]), TCP, 80)
    assert passes([rule("a", None, (0, 0))], bytes([192, 0, 2, 1]), UDP, 9)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (rule("icmp", 1, (0, 0)), "SecurityGroupRule icmp.protocol 1"),
        (rule("all", TCP, (0, 0)), "all ports of one protocol"),
        (rule("wide", TCP, (1, 257)), "1 to 256 ports"),
        (rule("group", TCP, (80, 80), None, "sg"), "remote_group_id 'sg'"),
    ],
)
def test_what_cannot_be_expressed_is_refused(bad: SecurityGroupRule, message: str) -> None:
    with pytest.raises(ValueRefused, match=message):
        policies("eth0", 3, IP, Direction.INGRESS, [bad])


def test_more_rules_than_bits_are_refused() -> None:
    with pytest.raises(ValueRefused, match="at most 64"):
        policies("eth0", 3, IP, Direction.INGRESS, [rule(str(n), TCP, (n + 1, n + 1)) for n in range(65)])
