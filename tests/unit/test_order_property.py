"""Whatever the order of messages, the wanted state and the flows are the same."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from aca.goalstate.changes import Change
from dataplane.model import Kind, Layer, NetworkType, dhcp_id
from tests.unit import desired_world as world
from tests.unit.desired_world import HERE, MAC, THERE, YONDER, FollowingHost, delete, upsert

SETTINGS = settings(
    max_examples=3000 if os.environ.get("ACA_LONG") else 100,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
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

SEEDS = st.integers(0, 2**32 - 1)
"""Of a world and its orders: drawing every field by itself takes ten times as long as what is tested."""


def _some(rng: random.Random, items: Sequence[str], least: int, most: int) -> list[str]:
    return rng.sample(list(items), min(len(items), rng.randint(least, most)))



def _address(subnet_id: str, owner: str) -> str:
    """Subnets of different VPCs overlap; within one every owner has its own address."""
    return f"10.0.{'abcdef'.index(subnet_id) % 3}.{10 + (PORTS + NEIGHBORS).index(owner)}"


def _stray(subnet_id: str, owner: str) -> str:
    """An address outside the subnet."""
    return f"172.16.{'abcdef'.index(subnet_id)}.{10 + (PORTS + NEIGHBORS).index(owner)}"


def _fixed_ips(rng: random.Random, owner: str) -> list[str]:
    near = [subnet_id for subnet_id, vpc_id in SUBNETS.items() if vpc_id == f"v{int(owner[1]) % 3}"]
    chosen = _some(rng, near if rng.randint(0, 5) else list(SUBNETS), 1, 2)
    ips = [f"{subnet_id} {_address(subnet_id, owner)}" for subnet_id in chosen]
    if rng.randint(0, 4) == 0:
        ips.append(f"{chosen[0]} {_stray(chosen[0], owner)}")
    if rng.randint(0, 6) == 0:
        ips.append(f"{chosen[0]} fd00::{(PORTS + NEIGHBORS).index(owner)}")
    return ips


def _mac(owner: str, variant: int) -> str:
    return f"fa:16:3e:00:{(PORTS + NEIGHBORS).index(owner):02x}:{variant:02x}"


def _pairs(rng: random.Random) -> tuple[Any, ...]:
    shared = world.pair("10.0.0.200/32", "00:00:5e:00:01:01")
    own_mac = world.pair("10.0.1.128/25")
    return rng.choice([(), (), (shared,), (own_mac,), (shared, own_mac)])


def _vpc(rng: random.Random, name: str) -> Any:
    return world.vpc(name, tunnel=rng.choice([0, 20 + int(name[1])]))


def _subnet(rng: random.Random, name: str) -> Any:
    return world.subnet(
        name,
        f"10.0.{'abcdef'.index(name) % 3}.0/{rng.choice([24, 24, 23, 25])}",
        vpc=SUBNETS[name],
        tunnel=rng.choice(TUNNELS[name]),
        kind=rng.choice([None, None, NetworkType.GENEVE, NetworkType.GRE]),
        gateway=rng.choice(["", f"10.0.{'abcdef'.index(name) % 3}.1"]),
        gateway_mac=f"fa:16:3e:ff:00:{'abcdef'.index(name):02x}",
    )


def _port(rng: random.Random, name: str) -> Any:
    return world.port(
        name,
        *_fixed_ips(rng, name),
        vpc=f"v{int(name[1]) % 3}",
        mac=_mac(name, rng.randint(0, 1)),
        up=rng.choice([True, True, False]),
        pairs=_pairs(rng),
    )


def _neighbor(rng: random.Random, name: str) -> Any:
    return world.neighbor(
        name,
        *_fixed_ips(rng, name),
        vpc=f"v{int(name[1]) % 3}",
        mac=_mac(name, rng.randint(0, 1)),
        host=rng.choice([THERE, YONDER, THERE, HERE]),
        layer=rng.choice(list(Layer)),
        pairs=_pairs(rng),
    )


def _rule(rng: random.Random, owner: str) -> Any:
    somebody = rng.choice(PORTS + NEIGHBORS)
    somewhere = rng.choice(ROUTERS[owner])
    hops = [_address(somewhere, somebody), _stray(somewhere, somebody), "10.0.1.99", "fd00::1", None]
    hop = rng.choice(hops)
    if hop == "fd00::1":
        return world.rule("fd01::/64", hop, name="six")
    destination = rng.choice(["0.0.0.0/0", "10.0.1.0/24", "192.168.0.0/16"])
    return world.rule(destination, hop, name=f"{destination} {hop}", priority=rng.randint(0, 2))


def _router(rng: random.Random, name: str) -> Any:
    served = _some(rng, ROUTERS[name], 0, 3)
    tables = [world.table(subnet_id, *(_rule(rng, name) for _ in range(rng.randint(0, 2)))) for subnet_id in served]
    return world.router(name, *tables, mac=rng.choice([None, "fe:16:11:00:00:01"]))


def _dhcp(rng: random.Random, name: str) -> Any:
    owner, subnet_id = name.split("/")
    return world.dhcp(
        subnet_id, _address(subnet_id, owner), mac=_mac(owner, 0), host_name=rng.choice(["", "x"])
    )


RESOURCES: list[tuple[Kind, str, Any]] = [
    *((Kind.VPC, name, _vpc) for name in ("v0", "v1", "v2")),
    *((Kind.SUBNET, name, _subnet) for name in SUBNETS),
    *((Kind.PORT, name, _port) for name in PORTS),
    *((Kind.NEIGHBOR, name, _neighbor) for name in NEIGHBORS),
    *((Kind.ROUTER, name, _router) for name in ROUTERS),
    *((Kind.DHCP, name, _dhcp) for name in ("p0/a", "p1/d", "p3/a")),
    (Kind.SECURITYGROUP, "g", lambda rng, name: world.group(name)),
    (Kind.GATEWAY, "w", lambda rng, name: world.gateway(name)),
]


def _key(kind: Kind, name: str) -> str:
    if kind is not Kind.DHCP:
        return name
    owner, subnet_id = name.split("/")
    return dhcp_id(subnet_id, MAC(_mac(owner, 0)))


def _histories(rng: random.Random) -> list[History]:
    """For each of some resources what is said of it, with rising revisions."""
    found = []
    for kind, name, make in RESOURCES:
        # A binding goes with its port: what is left of both depends on the order if the port comes back.
        may_return = kind is not Kind.PORT
        history: History = []
        for revision in range(1, 1 + rng.choice([0, 1, 1, 2, 3])):
            last = history[-1] if history else None
            if last is not None and not last.delete and rng.randint(0, 2) == 0:
                history.append(delete(kind, _key(kind, name), revision))
                if not may_return:
                    break
                continue
            value = make(rng, name)
            at_revision = (
                value._replace(revision=revision) if hasattr(value, "_replace") else replace(value, revision=revision)
            )
            history.append(upsert(at_revision))
        found.append(history)
    return found


def _world(seed: int) -> tuple[list[History], random.Random]:
    rng = random.Random(seed)
    return _histories(rng), rng


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
@given(SEEDS)
def test_any_order_gives_the_same(seed: int) -> None:
    found, rng = _world(seed)
    squashed = _follow([_in_order(found)])
    _assert_same(squashed, _follow([[change] for change in _in_order(found)]))
    _assert_same(squashed, _follow(_split(_shuffled(found, rng), rng)))
    _assert_same(squashed, _follow(_split(_repeated(_shuffled(found, rng), rng), rng)))


@SETTINGS
@given(SEEDS)
def test_from_scratch_is_as_step_by_step(seed: int) -> None:
    found, rng = _world(seed)
    host = _follow(_split(_shuffled(found, rng), rng))
    fresh = FollowingHost(host.state, OFPORTS)
    fresh.state.mark_all()
    fresh.program()
    _assert_same(host, fresh)


@SETTINGS
@given(SEEDS)
def test_a_switch_that_forgot_gets_everything_again(seed: int) -> None:
    found, rng = _world(seed)
    host = _follow(_split(_shuffled(found, rng), rng))
    before = dict(host.ovs.flows)
    host.ovs.flows.clear()
    host.ovs.connect()
    host.state.mark_all()
    host.program()
    assert host.ovs.flows == before


@SETTINGS
@given(SEEDS)
def test_unchanged_state_sends_nothing(seed: int) -> None:
    host = _follow([_in_order(_world(seed)[0])])
    sent = host.ovs.table.mods
    host.state.mark_all()
    host.program()
    assert host.ovs.table.mods == sent


@SETTINGS
@given(SEEDS)
def test_deleting_everything_leaves_nothing(seed: int) -> None:
    found, rng = _world(seed)
    host = _follow(_split(_shuffled(found, rng), rng))
    deletes = [delete(kind, _key(kind, name)) for kind, name, _ in RESOURCES]
    rng.shuffle(deletes)
    for message in _split(deletes, rng):
        host.push(*message)
    host.assert_empty()
