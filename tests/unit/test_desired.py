"""The desired state: what is accepted, what is remembered, what has to be looked at again."""

from __future__ import annotations

import pytest

from aca.goalstate import desired
from aca.goalstate.desired import DesiredState
from dataplane.base import Status
from dataplane.model import Kind
from tests.unit.desired_world import (
    FollowingHost,
    delete,
    dhcp,
    gateway,
    group,
    neighbor,
    new_state,
    pair,
    port,
    router,
    rule,
    subnet,
    table,
    upsert,
    vpc,
)


@pytest.fixture
def state() -> DesiredState:
    return new_state()


def _status(state: DesiredState, change: object, now: float = 0.0) -> Status | None:
    (outcome,) = state.merge([change], now)  # type: ignore[list-item]
    return outcome.status if outcome else None


@pytest.mark.parametrize(
    "make",
    [
        lambda revision: vpc(revision=revision),
        lambda revision: subnet(revision=revision),
        lambda revision: port("p", "s 10.0.0.5", revision=revision),
        lambda revision: neighbor("n", "s 10.0.0.5", revision=revision),
        lambda revision: router("r", "s", revision=revision),
        lambda revision: dhcp(revision=revision),
        lambda revision: group("g", revision=revision),
        lambda revision: gateway("w", revision=revision),
    ],
    ids=["vpc", "subnet", "port", "neighbor", "router", "dhcp", "group", "gateway"],
)
class TestRevisions:
    def test_older_is_refused_equal_and_newer_are_taken(self, state: DesiredState, make) -> None:  # type: ignore[no-untyped-def]
        assert _status(state, upsert(make(5))) is None
        assert _status(state, upsert(make(4))) is Status.OUT_OF_ORDER
        assert _status(state, upsert(make(5))) is None
        assert _status(state, upsert(make(6))) is None

    def test_zero_is_taken_and_forgets_nothing(self, state: DesiredState, make) -> None:  # type: ignore[no-untyped-def]
        _status(state, upsert(make(5)))
        assert _status(state, upsert(make(0))) is None
        assert _status(state, upsert(make(4))) is Status.OUT_OF_ORDER

    def test_a_deleted_resource_does_not_come_back_by_an_older_message(self, state: DesiredState, make) -> None:  # type: ignore[no-untyped-def]
        change = upsert(make(5))
        _status(state, change)
        assert _status(state, delete(change.kind, change.id, 4)) is Status.OUT_OF_ORDER
        assert _status(state, delete(change.kind, change.id, 6)) is None
        assert not state.store(change.kind)
        assert _status(state, change) is Status.OUT_OF_ORDER
        assert _status(state, upsert(make(6))) is None

    def test_deleting_the_unknown_succeeds(self, state: DesiredState, make) -> None:  # type: ignore[no-untyped-def]
        change = upsert(make(5))
        assert _status(state, delete(change.kind, change.id, 1)) is None
        assert _status(state, upsert(make(1))) is None


def test_tombstones_age(state: DesiredState) -> None:
    _status(state, delete(Kind.PORT, "p", 9), now=100.0)
    late = 100.0 + desired.TOMBSTONE_SECONDS + 1
    assert _status(state, upsert(port("p", "s 10.0.0.5")), now=late) is None


def test_tombstones_are_bounded(state: DesiredState, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desired, "MAX_TOMBSTONES", 10)
    for number in range(50):
        _status(state, delete(Kind.NEIGHBOR, f"n{number}", 9))
    assert len(state._tombstones) == 10
    assert _status(state, upsert(neighbor("n0", "s 10.0.0.5"))) is None
    assert _status(state, upsert(neighbor("n49", "s 10.0.0.5"))) is Status.OUT_OF_ORDER


def test_old_tombstones_go_when_new_ones_come(state: DesiredState) -> None:
    _status(state, delete(Kind.PORT, "p", 9), now=0.0)
    _status(state, delete(Kind.PORT, "q", 9), now=desired.TOMBSTONE_SECONDS + 1)
    assert [key.id for key in state._tombstones] == ["q"]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (subnet(), subnet(vpc="w", revision=2)),
        (port("p", "s 10.0.0.5"), port("p", "s 10.0.0.5", vpc="w", revision=2)),
        (neighbor("n", "s 10.0.0.5"), neighbor("n", "s 10.0.0.5", vpc="w", revision=2)),
    ],
    ids=["subnet", "port", "neighbor"],
)
def test_a_resource_does_not_move_to_another_vpc(state: DesiredState, first: object, second: object) -> None:
    _status(state, upsert(first))
    assert _status(state, upsert(second)) is Status.INVALID
    change = upsert(second)
    assert _status(state, delete(change.kind, change.id)) is None
    assert _status(state, change._replace(revision=desired.MAX_TOMBSTONES)) is None


def test_a_neighbours_pairs_stay_with_a_delta_and_go_with_a_full(state: DesiredState) -> None:
    pairs = (pair("10.0.0.9"),)
    _status(state, upsert(neighbor("n", "s 10.0.0.5", pairs=pairs)))
    _status(state, upsert(neighbor("n", "s 10.0.0.6", revision=2), full=False))
    assert state.neighbors["n"].allowed_pairs == pairs
    _status(state, upsert(neighbor("n", "s 10.0.0.6", revision=3), full=True))
    assert state.neighbors["n"].allowed_pairs == ()


def test_what_changes_nothing_is_not_planned_again(state: DesiredState) -> None:
    values = [vpc(), subnet(), neighbor("n", "s 10.0.0.5"), router("r", "s"), dhcp(), group("g"), gateway("w")]
    for value in values:
        _status(state, upsert(value))
    state.take_dirty()
    for value in values:
        _status(state, upsert(value))
    assert state.take_dirty() == {}


def test_moving_away_leaves_nothing_behind(state: DesiredState) -> None:
    for value in (
        port("p", "s 10.0.0.5"),
        neighbor("n", "s 10.0.0.6"),
        router("r", "s"),
        port("p", "t 10.1.0.5", revision=2),
        neighbor("n", "t 10.1.0.6", revision=2),
        router("r", "t", revision=2),
    ):
        _status(state, upsert(value))
    assert set(state.index) == {"t"}


def test_all_work_on_a_router_is_in_one_lane() -> None:
    """Whatever becomes of its subnets: two lanes would race."""
    host = FollowingHost()
    lanes = []
    for message in (
        router("r", "s", "t"),
        subnet("t", "10.1.0.0/24"),
        subnet("s", "10.0.0.0/24"),
        delete(Kind.SUBNET, "t"),
        delete(Kind.SUBNET, "s"),
        router("r", "u", revision=2),
        delete(Kind.ROUTER, "r"),
    ):
        plan = host.push(message)
        lanes += [lane for lane, work in plan.lanes.items() if Kind.ROUTER in work]
    assert set(lanes) == {"v"} and len(lanes) >= 5
    host.assert_empty()


def test_a_binding_goes_with_its_port() -> None:
    host = FollowingHost(ofports={"p": 5})
    host.push(subnet(), port("p", "s 10.0.0.5"), dhcp())
    assert (Kind.DHCP, "p") in host.wanted
    host.push(delete(Kind.PORT, "p"))
    assert not host.state.dhcp
    host.push(delete(Kind.SUBNET, "s"))
    host.assert_empty()


@pytest.mark.parametrize("port_first", [True, False])
def test_a_binding_serves_its_port_whichever_comes_first(port_first: bool) -> None:
    host = FollowingHost(ofports={"p": 5})
    host.push(subnet())
    values = [port("p", "s 10.0.0.5"), dhcp()]
    for value in values if port_first else values[::-1]:
        host.push(value)
    with_binding = dict(host.ovs.flows)
    host.push(delete(Kind.DHCP, dhcp().id))
    assert len(host.ovs.flows) == len(with_binding) - 1
    host.push(dhcp(revision=2000))
    assert host.ovs.flows == with_binding


def test_next_hops_are_forgotten_with_their_rules() -> None:
    host = FollowingHost()
    host.push(router("r", table("s", rule("10.9.0.0/16", "10.0.0.9"), rule("10.8.0.0/16", "10.0.0.9"))))
    host.push(router("q", table("t", rule("10.9.0.0/16", "10.0.0.9"))))
    host.push(router("r", "s", revision=2))
    assert host.state.next_hops == {bytes((10, 0, 0, 9)): {"q"}}
    host.push(delete(Kind.ROUTER, "q"), delete(Kind.ROUTER, "r"))
    host.assert_empty()
