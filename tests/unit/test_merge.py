"""How what arrives is joined with what is known."""

from __future__ import annotations

from aca.goalstate.changes import RouterPatch
from aca.goalstate.merge import merge_delta, merge_router, strongest
from dataplane.model import Router, RoutingRule
from tests.unit.desired_world import dhcp, pair, port, router, rule, subnet, table


def _merged(*patches: RouterPatch) -> Router:
    known = None
    for patch in patches:
        known = merge_router(known, patch, full=False)
    assert known is not None
    return known


def _rules(merged: Router, subnet_id: str = "s") -> list[str]:
    return [one.id for one in next(table.rules for table in merged.tables if table.subnet_id == subnet_id)]


def test_what_a_delta_leaves_unset_stays() -> None:
    known = port("p", "s 10.0.0.5", pairs=(pair("10.0.0.9"),), label="web", device_id="d", groups=("g",))
    merged = merge_delta(known, port("p", mac="fa:16:3e:00:01:02", revision=2))
    assert (merged.fixed_ips, merged.allowed_pairs, merged.security_group_ids) == (
        known.fixed_ips, known.allowed_pairs, known.security_group_ids
    )  # fmt: skip
    assert (merged.name, merged.device_id, merged.mac[-1], merged.revision) == ("web", "d", 2, 2)


def test_what_a_delta_sets_replaces() -> None:
    known = port("p", "s 10.0.0.5", pairs=(pair("10.0.0.9"),))
    merged = merge_delta(known, port("p", "s 10.0.0.6", pairs=(pair("10.0.0.8"),)))
    assert merged == port("p", "s 10.0.0.6", pairs=(pair("10.0.0.8"),))


def test_a_delta_switches_off() -> None:
    assert not merge_delta(port("p", "s 10.0.0.5"), port("p", "s 10.0.0.5", up=False)).admin_state_up
    assert merge_delta(subnet(tunnel=7), subnet(tunnel=0)).tunnel_id == 0
    assert not merge_delta(subnet(), subnet(dhcp_enable=False)).dhcp_enable


def test_a_delta_keeps_the_gateway_and_the_dhcp_address() -> None:
    known = subnet(gateway="10.0.0.1")
    assert merge_delta(known, subnet()).gateway_mac == known.gateway_mac
    assert merge_delta(dhcp(), dhcp(ipv4=None, host_name="x")).ipv4 == dhcp().ipv4


def test_a_delta_adds_replaces_and_withdraws_rules() -> None:
    one, two = rule("10.1.0.0/16", "10.0.0.9", name="one"), rule("10.2.0.0/16", "10.0.0.9", name="two")
    moved = rule("10.3.0.0/16", "10.0.0.8", name="one")
    merged = _merged(router("r", table("s", one)), router("r", table("s", two)), router("r", table("s", moved)))
    assert _rules(merged) == ["two", "one"]
    assert _rules(merge_router(merged, router("r", table("s", without=(two,))), full=False)) == ["one"]


def test_tables_of_other_subnets_stay_with_a_delta_and_go_with_a_full() -> None:
    known = _merged(router("r", table("s", rule("10.1.0.0/16", "10.0.0.9"))), router("r", "t"))
    assert [one.subnet_id for one in known.tables] == ["s", "t"]
    assert [one.subnet_id for one in merge_router(known, router("r", "t"), full=True).tables] == ["t"]


def test_a_withdrawal_under_an_unknown_id_goes_by_destination() -> None:
    one, two = rule("10.1.0.0/16", "10.0.0.9", name="one"), rule("10.2.0.0/16", "10.0.0.9", name="two")
    known = _merged(router("r", table("s", one, two)))
    by_destination = table("s", without=(rule("10.1.0.0/16", None, name="other"),))
    assert _rules(merge_router(known, router("r", by_destination), full=False)) == ["two"]
    nobody = table("s", without=(rule("10.9.0.0/16", None, name="other"),))
    assert _rules(merge_router(known, router("r", nobody), full=False)) == ["one", "two"]


def test_of_rules_to_one_destination_the_withdrawn_one_is_told_by_priority_and_hop() -> None:
    near, far = (
        rule("10.1.0.0/16", "10.0.0.8", name="near", priority=1),
        rule("10.1.0.0/16", "10.0.0.9", name="far", priority=2),
    )
    known = _merged(router("r", table("s", near, far)))
    gone = table("s", without=(rule("10.1.0.0/16", "10.0.0.9", name="other", priority=2),))
    assert _rules(merge_router(known, router("r", gone), full=False)) == ["near"]


def test_a_rule_withdrawn_and_set_in_one_message_stands() -> None:
    old, new = rule("10.1.0.0/16", "10.0.0.8", name="old"), rule("10.1.0.0/16", "10.0.0.9", name="new")
    known = _merged(router("r", table("s", old)))
    assert _rules(merge_router(known, router("r", table("s", new, without=(old,))), full=False)) == ["new"]


def test_the_router_mac_stays_with_a_delta() -> None:
    known = _merged(router("r", "s", mac="fe:16:11:00:00:01"), router("r", "s"))
    assert known.host_dvr_mac is not None
    assert merge_router(known, router("r", "s"), full=True).host_dvr_mac is None


def test_the_smallest_priority_number_wins_and_none_comes_last() -> None:
    def winner(*priorities: int) -> RoutingRule:
        (found,) = strongest(
            rule("10.1.0.0/16", "10.0.0.9", name=str(priority), priority=priority) for priority in priorities
        )
        return found

    assert winner(500, 100).id == "100"
    assert winner(0, 500).id == "500"
    assert winner(0).id == "0"
