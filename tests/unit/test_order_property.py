"""Whatever the order of messages, the wanted state and the flows are the same."""

from __future__ import annotations

import os
import random
from dataclasses import replace
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aca.goalstate.changes import Change
from dataplane.model import Kind, Layer, NetworkType, dhcp_id
from tests.unit import desired_world as world
from tests.unit.desired_world import HERE, MAC, THERE, YONDER, FollowingHost, delete, upsert

SETTINGS = settings(
    max_examples=3000 if os.environ.get("ACA_LONG") else 40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)

SUBNETS = {"a": "v0", "b": "v0", "c": "v0", "d": "v1", "e": "v1", "f": "v2"}
"""a and b share a segment, c has its VPC's, d and e share theirs, f has its own. In id order, so numbers are stable."""
TUNNELS = {"a": (10, 11), "b": (10,), "c": (0,), "d": (0, 40), "e": (0,), "f": (30,)}
PORTS = ("p0", "p1", "p2", "p3")
NEIGHBORS = ("n0", "n1", "n2", "n3", "n4")
ROUTERS = {"r0": "abc", "r1": "de", "r2": "bc"}
OFPORTS = {"p0": 5, "p1": 6, "p2": 7}
"""p3 has no device."""

History = list[Change]
Draw = Any


def _address(subnet_id: str, owner: str) -> str:
    """Subnets of different VPCs overlap; within one every owner has its own address."""
    return f"10.0.{'abcdef'.index(subnet_id) % 3}.{10 + (PORTS + NEIGHBORS).index(owner)}"


def _stray(subnet_id: str, owner: str) -> str:
    """An address outside the subnet."""
    return f"172.16.{'abcdef'.index(subnet_id)}.{10 + (PORTS + NEIGHBORS).index(owner)}"


def _fixed_ips(draw: Draw, owner: str) -> list[str]:
    home = draw(st.sampled_from(sorted(set(SUBNETS.values()))))
    near = [subnet_id for subnet_id, vpc_id in SUBNETS.items() if vpc_id == home]
    chosen = draw(st.lists(st.sampled_from(near + ["a"]), min_size=1, max_size=2, unique=True))
    ips = [f"{subnet_id} {_address(subnet_id, owner)}" for subnet_id in chosen]
    if draw(st.integers(0, 4)) == 0:
        ips.append(f"{chosen[0]} {_stray(chosen[0], owner)}")
    if draw(st.integers(0, 6)) == 0:
        ips.append(f"{chosen[0]} fd00::{(PORTS + NEIGHBORS).index(owner)}")
    return ips


def _mac(owner: str, variant: int) -> str:
    return f"fa:16:3e:00:{(PORTS + NEIGHBORS).index(owner):02x}:{variant:02x}"


def _pairs(draw: Draw) -> tuple[Any, ...]:
    shared = world.pair("10.0.0.200/32", "00:00:5e:00:01:01")
    own_mac = world.pair("10.0.1.128/25")
    return draw(st.sampled_from([(), (), (shared,), (own_mac,), (shared, own_mac)]))


def _vpc(draw: Draw, name: str) -> Any:
    return world.vpc(name, tunnel=draw(st.sampled_from([0, 20 + int(name[1])])))


def _subnet(draw: Draw, name: str) -> Any:
    return world.subnet(
        name,
        f"10.0.{'abcdef'.index(name) % 3}.0/{draw(st.sampled_from([24, 24, 23, 25]))}",
        vpc=SUBNETS[name],
        tunnel=draw(st.sampled_from(TUNNELS[name])),
        kind=draw(st.sampled_from([None, None, NetworkType.GENEVE, NetworkType.GRE])),
        gateway=draw(st.sampled_from(["", f"10.0.{'abcdef'.index(name) % 3}.1"])),
        gateway_mac=f"fa:16:3e:ff:00:{'abcdef'.index(name):02x}",
    )


def _port(draw: Draw, name: str) -> Any:
    return world.port(
        name,
        *_fixed_ips(draw, name),
        vpc=f"v{int(name[1]) % 3}",
        mac=_mac(name, draw(st.integers(0, 1))),
        up=draw(st.sampled_from([True, True, False])),
        pairs=_pairs(draw),
    )


def _neighbor(draw: Draw, name: str) -> Any:
    return world.neighbor(
        name,
        *_fixed_ips(draw, name),
        vpc=f"v{int(name[1]) % 3}",
        mac=_mac(name, draw(st.integers(0, 1))),
        host=draw(st.sampled_from([THERE, YONDER, THERE, HERE])),
        layer=draw(st.sampled_from(list(Layer))),
        pairs=_pairs(draw),
    )


def _rule(draw: Draw, owner: str) -> Any:
    somebody = draw(st.sampled_from(PORTS + NEIGHBORS))
    somewhere = draw(st.sampled_from(ROUTERS[owner]))
    hops = [_address(somewhere, somebody), _stray(somewhere, somebody), "10.0.1.99", "fd00::1", None]
    hop = draw(st.sampled_from(hops))
    if hop == "fd00::1":
        return world.rule("fd01::/64", hop, name="six")
    destination = draw(st.sampled_from(["0.0.0.0/0", "10.0.1.0/24", "192.168.0.0/16"]))
    return world.rule(destination, hop, name=f"{destination} {hop}", priority=draw(st.integers(0, 2)))


def _router(draw: Draw, name: str) -> Any:
    served = draw(st.lists(st.sampled_from(ROUTERS[name]), min_size=0, max_size=3, unique=True))
    tables = [world.table(subnet_id, *(_rule(draw, name) for _ in range(draw(st.integers(0, 2))))) for subnet_id in served]
    return world.router(name, *tables, mac=draw(st.sampled_from([None, "fe:16:11:00:00:01"])))


def _dhcp(draw: Draw, name: str) -> Any:
    owner, subnet_id = name.split("/")
    return world.dhcp(
        subnet_id, _address(subnet_id, owner), mac=_mac(owner, 0), host_name=draw(st.sampled_from(["", "x"]))
    )


RESOURCES: list[tuple[Kind, str, Any]] = [
    *((Kind.VPC, name, _vpc) for name in ("v0", "v1", "v2")),
    *((Kind.SUBNET, name, _subnet) for name in SUBNETS),
    *((Kind.PORT, name, _port) for name in PORTS),
    *((Kind.NEIGHBOR, name, _neighbor) for name in NEIGHBORS),
    *((Kind.ROUTER, name, _router) for name in ROUTERS),
    *((Kind.DHCP, name, _dhcp) for name in ("p0/a", "p1/d", "p3/a")),
    (Kind.SECURITY_GROUP, "g", lambda draw, name: world.group(name)),
    (Kind.GATEWAY, "w", lambda draw, name: world.gateway(name)),
]


def _key(kind: Kind, name: str) -> str:
    if kind is not Kind.DHCP:
        return name
    owner, subnet_id = name.split("/")
    return dhcp_id(subnet_id, MAC(_mac(owner, 0)))


@st.composite
def histories(draw: Draw) -> list[History]:
    """For each of some resources what is said of it, with rising revisions."""
    found = []
    for kind, name, make in RESOURCES:
        # A binding goes with its port: what is left of both depends on the order if the port comes back.
        may_return = kind is not Kind.PORT
        history: History = []
        for revision in range(1, 1 + draw(st.sampled_from([0, 1, 1, 2, 3]))):
            last = history[-1] if history else None
            if last is not None and not last.delete and draw(st.integers(0, 2)) == 0:
                history.append(delete(kind, _key(kind, name), revision))
                if not may_return:
                    break
                continue
            value = make(draw, name)
            at_revision = (
                value._replace(revision=revision) if hasattr(value, "_replace") else replace(value, revision=revision)
            )
            history.append(upsert(at_revision))
        found.append(history)
    return found


def _in_order(found: list[History]) -> list[Change]:
    return [change for history in found for change in history]


def _shuffled(found: list[History], rng: random.Random) -> list[Change]:
    """Any order at all: revisions decide."""
    changes = _in_order(found)
    rng.shuffle(changes)
    return changes


def _repeated(changes: list[Change], rng: random.Random) -> list[Change]:
    """Some things are said again later."""
    result = list(changes)
    for change in rng.sample(changes, len(changes) // 3):
        result.insert(rng.randint(result.index(change) + 1, len(result)), change)
    return result


def _follow(messages: list[list[Change]]) -> FollowingHost:
    host = FollowingHost(ofports=OFPORTS)
    for message in messages:
        host.merge(*message)
        host.program()
    return host


def _split(changes: list[Change], rng: random.Random) -> list[list[Change]]:
    messages, rest = [], changes
    while rest:
        size = rng.choice([1, 1, 2, 5, 20])
        messages.append(rest[:size])
        rest = rest[size:]
    return messages


def _assert_same(one: FollowingHost, other: FollowingHost) -> None:
    assert other.wanted == one.wanted
    assert other.verdicts == one.verdicts
    assert other.ovs.flows == one.ovs.flows


@SETTINGS
@given(histories(), st.randoms(use_true_random=False))
def test_any_order_gives_the_same(found: list[History], rng: random.Random) -> None:
    squashed = _follow([_in_order(found)])
    _assert_same(squashed, _follow([[change] for change in _in_order(found)]))
    _assert_same(squashed, _follow(_split(_shuffled(found, rng), rng)))
    _assert_same(squashed, _follow(_split(_repeated(_shuffled(found, rng), rng), rng)))


@SETTINGS
@given(histories(), st.randoms(use_true_random=False))
def test_from_scratch_is_as_step_by_step(found: list[History], rng: random.Random) -> None:
    host = _follow(_split(_shuffled(found, rng), rng))
    fresh = FollowingHost(host.state, OFPORTS)
    fresh.state.mark_all()
    fresh.program()
    _assert_same(host, fresh)


@SETTINGS
@given(histories(), st.randoms(use_true_random=False))
def test_a_switch_that_forgot_gets_everything_again(found: list[History], rng: random.Random) -> None:
    host = _follow(_split(_shuffled(found, rng), rng))
    before = dict(host.ovs.flows)
    host.ovs.flows.clear()
    host.ovs.connect()
    host.state.mark_all()
    host.program()
    assert host.ovs.flows == before


@SETTINGS
@given(histories(), st.randoms(use_true_random=False))
def test_unchanged_state_sends_nothing(found: list[History], rng: random.Random) -> None:
    host = _follow([_in_order(found)])
    sent = host.ovs.table.mods
    host.state.mark_all()
    host.program()
    assert host.ovs.table.mods == sent


@SETTINGS
@given(histories(), st.randoms(use_true_random=False))
def test_deleting_everything_leaves_nothing(found: list[History], rng: random.Random) -> None:
    host = _follow(_split(_shuffled(found, rng), rng))
    deletes = [delete(kind, _key(kind, name)) for kind, name, _ in RESOURCES]
    rng.shuffle(deletes)
    for message in _split(deletes, rng):
        host.push(*message)
    host.assert_empty()
