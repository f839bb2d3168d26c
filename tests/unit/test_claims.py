"""Addresses that several resources claim: the last wins, the one before gets it back."""

from __future__ import annotations

from aca.goalstate.claims import ClaimTable
from aca.goalstate.conflicts import conflicts
from dataplane.base import DONE
from dataplane.model import Kind, NeighborWanted, PortWanted
from tests.unit.desired_world import THERE, YONDER, FollowingHost, delete, neighbor, port, subnet

ITEM = b"\n\0\0\5"


def test_the_last_to_claim_holds() -> None:
    claims = ClaimTable()
    assert claims.claim(ITEM, "a") is None
    assert claims.claim(ITEM, "b") == "a"
    assert claims.claim(ITEM, "c") == "b"
    assert (claims.holder(ITEM), claims.claimants(ITEM)) == ("c", ("a", "b", "c"))
    assert list(claims.contested()) == [(ITEM, ("a", "b", "c"))]


def test_the_one_before_gets_it_back() -> None:
    claims = ClaimTable()
    for claimant in "abc":
        claims.claim(ITEM, claimant)
    assert claims.release(ITEM, "b") is None
    assert claims.release(ITEM, "c") == "a"
    assert not list(claims.contested())
    assert claims.release(ITEM, "a") is None
    assert not claims and ITEM not in claims and claims.claimants(ITEM) == ()


def test_claiming_again_makes_the_holder() -> None:
    claims = ClaimTable()
    for claimant in "abc":
        claims.claim(ITEM, claimant)
    assert claims.claim(ITEM, "a") == "c"
    assert claims.claim(ITEM, "a") is None
    assert claims.claimants(ITEM) == ("b", "c", "a")
    assert sorted(claims.all_claimants()) == ["a", "b", "c"]


def test_withdrawing_what_was_not_claimed_changes_nothing() -> None:
    claims = ClaimTable()
    assert claims.release(ITEM, "a") is None
    claims.claim(ITEM, "a")
    assert claims.release(ITEM, "b") is None
    claims.claim(ITEM, "b")
    assert claims.release(ITEM, "c") is None
    assert claims.holder(ITEM) == "b"


def _addresses(host: FollowingHost, name: str) -> list[bytes]:
    wanted = host.wanted.get((Kind.NEIGHBOR, name))  # type: ignore[call-overload]
    return [address for _, address in wanted.addresses] if isinstance(wanted, NeighborWanted) else []


def test_of_two_neighbours_the_last_has_the_address_and_the_first_gets_it_back() -> None:
    host = FollowingHost()
    host.push(subnet())
    first = neighbor("n1", "s 10.0.0.5", mac="fa:16:3e:00:02:01")
    second = neighbor("n2", "s 10.0.0.5", mac="fa:16:3e:00:02:02", host=YONDER)
    host.push(first)
    alone = dict(host.ovs.flows)
    host.push(second)
    assert (_addresses(host, "n1"), _addresses(host, "n2")) == ([], [ITEM])
    (conflict,) = conflicts(host.state)
    assert conflict == {
        "subnet": "s", "address": "10.0.0.5", "holder_kind": "NEIGHBOR", "holder": "n2", "others": ["n1"]
    }  # fmt: skip
    host.push(first)
    assert (_addresses(host, "n1"), _addresses(host, "n2")) == ([ITEM], [])
    host.push(delete(Kind.NEIGHBOR, "n2"))
    assert _addresses(host, "n1") == [ITEM]
    assert host.ovs.flows == alone
    assert not conflicts(host.state)


def test_a_moved_neighbour_that_two_ids_describe_alike_is_no_conflict() -> None:
    host = FollowingHost()
    host.push(subnet(), neighbor("n1", "s 10.0.0.5"), neighbor("n2", "s 10.0.0.5"))
    assert not conflicts(host.state)


def test_a_local_port_beats_a_neighbour() -> None:
    host = FollowingHost(ofports={"p": 5})
    host.push(subnet(), neighbor("n", "s 10.0.0.5"))
    alone = dict(host.ovs.flows)
    host.push(port("p", "s 10.0.0.5"))
    host.push(neighbor("n", "s 10.0.0.5", revision=2))
    assert _addresses(host, "n") == []
    assert [conflict["holder"] for conflict in conflicts(host.state)] == ["p"]
    host.push(delete(Kind.PORT, "p"))
    assert _addresses(host, "n") == [ITEM]
    assert host.ovs.flows == alone


def test_a_port_that_is_down_leaves_its_address_to_others() -> None:
    host = FollowingHost(ofports={"p": 5})
    host.push(subnet(), neighbor("n", "s 10.0.0.5"), port("p", "s 10.0.0.5"))
    assert _addresses(host, "n") == []
    host.push(port("p", "s 10.0.0.5", up=False, revision=2))
    assert _addresses(host, "n") == [ITEM]
    host.push(port("p", "s 10.0.0.5", revision=3))
    assert _addresses(host, "n") == []


def _held(host: FollowingHost, name: str) -> int:
    wanted = host.wanted[(Kind.PORT, name)]  # type: ignore[index]
    assert isinstance(wanted, PortWanted)
    return len(wanted.held)


def test_of_two_ports_with_one_address_and_mac_the_last_is_reached() -> None:
    host = FollowingHost(ofports={"p": 5, "q": 6})
    host.push(subnet(), port("p", "s 10.0.0.5"))
    alone = dict(host.ovs.flows)
    host.push(port("q", "s 10.0.0.5"))
    assert (_held(host, "p"), _held(host, "q")) == (0, 1)
    assert {tuple(conflict.get("mac", "") and conflict["others"]) for conflict in conflicts(host.state)} == {(), ("p",)}
    host.push(port("p", "s 10.0.0.5"))
    assert (_held(host, "p"), _held(host, "q")) == (1, 0)
    host.push(delete(Kind.PORT, "q"))
    assert host.ovs.flows == alone


def test_a_gateway_keeps_its_address_whoever_claims_it() -> None:
    host = FollowingHost()
    host.push(subnet(gateway="10.0.0.1"))
    alone = dict(host.ovs.flows)
    host.push(neighbor("n", "s 10.0.0.1"))
    assert alone.items() <= host.ovs.flows.items()
    host.push(delete(Kind.NEIGHBOR, "n"))
    assert host.ovs.flows == alone


def test_every_claimant_is_answered_as_done() -> None:
    host = FollowingHost()
    assert host.merge(subnet(), neighbor("n1", "s 10.0.0.5"), neighbor("n2", "s 10.0.0.5", host=THERE)) == [None] * 3
    host.program()
    assert host.verdict(Kind.NEIGHBOR, "n1") == host.verdict(Kind.NEIGHBOR, "n2") == DONE.reason
