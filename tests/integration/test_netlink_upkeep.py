"""The netlink data plane by itself: what others change is put back, what an earlier agent left goes, nothing else."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from dataplane.base import Batch, Drifted, Survey
from dataplane.model import (
    FixedIp,
    Key,
    Kind,
    NeighborWanted,
    NetworkType,
    Segment,
    SubnetRef,
)
from tests.integration.netlink_host import (
    BLUE,
    GREEN,
    PORT,
    ROUTER,
    WHOLE,
    apply,
    neighbor,
    netlink_host,
    open_plane,
    removals,
)
from tests.integration.netlink_scene import Scene, names_of, ruleset, standing, whole_scene
from tests.lab import wait_until
from tests.lab.netns import Namespace, create_namespaces, delete_namespaces, namespaces_of

pytestmark = pytest.mark.lab

WITHIN = 20.0
"""Far more than it takes: test machines are busy."""
TAP = PORT.port.device_name


@pytest.fixture
def host() -> Iterator[Namespace]:
    with netlink_host() as made:
        yield made


@pytest.fixture
def scene(host: Namespace) -> Iterator[Scene]:
    with whole_scene(host) as made:
        yield made


def in_router(scene: Scene, setting: str, value: str) -> tuple[str, ...]:
    return ("ip", "netns", "exec", scene.router.name, "sh", "-c", f"echo {value} > /proc/sys/net/ipv4/{setting}")


def last_rule(scene: Scene) -> tuple[str, str]:
    """Of chain from_port."""
    listed = scene.host.run("nft", "-a", "list", "chain", "bridge", "aca", "from_port")
    return "handle", re.findall(r"# handle (\d+)", listed)[-1]


REMOTE = neighbor(5).neighbor.mac.hex(":")
BY_HAND: dict[str, Callable[[Scene], tuple[str, ...]]] = {
    "all of nftables": lambda s: ("nft", "flush", "ruleset"),
    "a table": lambda s: ("nft", "delete", "table", "netdev", "aca"),
    "the other table": lambda s: ("nft", "delete", "table", "bridge", "aca"),
    "rules": lambda s: ("nft", "flush", "chain", "bridge", "aca", "forward"),
    "elements": lambda s: ("nft", "flush", "set", "bridge", "aca", "members"),
    "the bridge": lambda s: ("ip", "link", "del", s.bridge),
    "the tunnel": lambda s: ("ip", "link", "del", s.tunnel),
    "a leg": lambda s: ("ip", "link", "del", s.legs[0]),
    "a leg from inside": lambda s: ("ip", "-n", s.router.name, "link", "del", s.inside),
    "the name of the router's namespace": lambda s: ("ip", "netns", "del", s.router.name),
    "the routes": lambda s: ("ip", "-n", s.router.name, "route", "flush", "table", "main"),
    "the routing rules": lambda s: ("ip", "-n", s.router.name, "rule", "flush"),
    "a leg's address": lambda s: ("ip", "-n", s.router.name, "addr", "flush", "dev", s.inside),
    "a remote MAC": lambda s: ("bridge", "fdb", "del", REMOTE, "dev", s.tunnel, "self"),
    "a remote MAC in the bridge": lambda s: ("bridge", "fdb", "del", REMOTE, "dev", s.tunnel, "master"),
    "the guest's MAC": lambda s: ("bridge", "fdb", "del", PORT.port.mac.hex(":"), "dev", TAP, "master"),
    "a host to flood to": lambda s: (
        *("bridge", "fdb", "del", "00:00:00:00:00:00", "dev", s.tunnel, "self", "dst", "192.0.2.9"),
    ),
    "a remote MAC, now elsewhere": lambda s: (
        *("bridge", "fdb", "replace", REMOTE, "dev", s.tunnel, "self", "dst", "192.0.2.77"),
    ),
    "the tunnel, out of the bridge": lambda s: ("ip", "link", "set", s.tunnel, "nomaster"),
    "the guest's device, out of the bridge": lambda s: ("ip", "link", "set", TAP, "nomaster"),
    "a leg, out of the bridge": lambda s: ("ip", "link", "set", s.legs[0], "nomaster"),
    "the bridge, down": lambda s: ("ip", "link", "set", s.bridge, "down"),
    "the tunnel, down": lambda s: ("ip", "link", "set", s.tunnel, "down"),
    "a leg, down from inside": lambda s: ("ip", "-n", s.router.name, "link", "set", s.inside, "down"),
    "the tunnel's MTU": lambda s: ("ip", "link", "set", s.tunnel, "mtu", "1300"),
    "the tunnel, learning": lambda s: ("ip", "link", "set", s.tunnel, "type", "vxlan", "learning"),
    "the tunnel's port, learning": lambda s: ("bridge", "link", "set", "dev", s.tunnel, "learning", "on"),
    "the guest's port, learning": lambda s: ("bridge", "link", "set", "dev", TAP, "learning", "on"),
    "the bridge, snooping": lambda s: ("ip", "link", "set", s.bridge, "type", "bridge", "mcast_snooping", "1"),
    "the bridge, with STP": lambda s: ("ip", "link", "set", s.bridge, "type", "bridge", "stp_state", "1"),
    "the router's forwarding": lambda s: in_router(s, "ip_forward", "0"),
    "the source check of a leg": lambda s: in_router(s, f"conf/{s.inside}/rp_filter", "1"),
    "a rule, by another": lambda s: ("nft", "replace", "rule", "bridge", "aca", "from_port", *last_rule(s), "accept"),
    "the bridge's alias": lambda s: ("ip", "link", "set", s.bridge, "alias", "nobody"),
}


@pytest.mark.parametrize("what", BY_HAND)
def test_what_is_removed_or_altered_by_hand_is_put_back(scene: Scene, what: str) -> None:
    before = standing(scene.host)
    scene.host.run(*BY_HAND[what](scene))
    wait_until(lambda: bool(scene.drifts()), WITHIN, f"{what}: noticed")
    try:
        wait_until(lambda: standing(scene.host) == before, WITHIN, f"{what}: put back")
    except Exception:
        assert standing(scene.host) == before
    assert scene.drifts()[0].examples
    assert apply(scene.host, scene.plane, WHOLE).problems == {}
    assert standing(scene.host) == before
    found = scene.host.call(lambda: scene.plane.survey(()))
    assert (found.missing, found.altered, found.leftovers) == (0, 0, [])


def test_an_altered_element_is_put_back(scene: Scene) -> None:
    before = ruleset(scene.host)
    (gateway,) = [line for line in before if line.endswith(f"10.0.1.1 : {BLUE.subnet.gateway_mac.hex(':')}")]  # type: ignore[union-attr]
    key = gateway.rpartition(" : ")[0]
    change = f"delete element netdev aca addresses {{ {key} }}; "
    change += f"add element netdev aca addresses {{ {key} : 02:00:00:00:00:01 }}"
    scene.host.run("nft", change)
    wait_until(lambda: bool(scene.drifts()), WITHIN, "noticed")
    wait_until(lambda: ruleset(scene.host) == before, WITHIN, "put back")


def test_own_changes_are_no_drift(scene: Scene) -> None:
    for _ in range(5):
        assert apply(scene.host, scene.plane, removals(WHOLE)).problems == {}
        assert apply(scene.host, scene.plane, WHOLE).problems == {}
    scene.host.run("nft", "flush", "chain", "bridge", "aca", "forward")
    # What comes after it was noticed says that nothing was before.
    wait_until(lambda: bool(scene.drifts()), WITHIN, "noticed")
    assert [drift.examples for drift in scene.drifts()] == [("nftables chain forward of family bridge",)]


def test_an_uplink_that_was_down_is_no_trouble(host: Namespace) -> None:
    host.ip("link add uplink type veth peer name far", "link set uplink up", "link set far up")
    host.ip("addr add 192.0.2.1/24 dev uplink")
    plane, _ = open_plane(host)
    assert apply(host, plane, WHOLE).problems == {}
    before = standing(host)
    host.ip("link set uplink down")
    host.ip("link set uplink up")
    assert host.call(plane.check).missing == 0
    wait_until(lambda: standing(host) == before, WITHIN, "as before")
    plane.close()


def unnoticed(scene: Scene, *command: str) -> None:
    """As while the agent itself changes many things, when nobody listens; nor does anybody from then on, so that it is
    for the next check to find."""
    notices = scene.plane._notices
    assert notices is not None
    notices._suspect = lambda suspicion: None
    with notices.muted():
        scene.host.run(*command)


def test_a_check_finds_what_no_notice_told(scene: Scene) -> None:
    before = standing(scene.host)
    for command in (
        ("bridge", "fdb", "del", REMOTE, "dev", scene.tunnel, "self"),
        ("bridge", "fdb", "replace", REMOTE, "dev", scene.tunnel, "self", "dst", "192.0.2.77"),
    ):
        unnoticed(scene, *command)
        assert standing(scene.host) != before
        found = scene.host.call(scene.plane.check)
        assert found.missing == 1
        assert any(REMOTE in example for example in found.examples)
        assert Key(Kind.NEIGHBOR, "n5") in found.again
        assert standing(scene.host) == before
    assert scene.host.call(scene.plane.check).missing == 0


def test_one_check_finds_all_that_was_done_while_nobody_listened(scene: Scene) -> None:
    """However many there are: more than a check asks about one by one."""
    many = [
        one_of_many(number, bytes((0xAA, 0xCC, 0, 0, number >> 8, number & 255)), bytes((10, 0, 3, 0)))
        for number in range(1000)
    ]
    assert apply(scene.host, scene.plane, [Batch(Kind.NEIGHBOR, many)]).problems == {}
    assert scene.host.call(scene.plane.check).missing == 0
    before = standing(scene.host)
    for wanted in (many[0], many[400], many[999]):
        unnoticed(scene, "bridge", "fdb", "del", wanted.neighbor.mac.hex(":"), "dev", scene.tunnel, "self")
    elsewhere = many[700].neighbor.mac.hex(":")
    unnoticed(scene, "bridge", "fdb", "replace", elsewhere, "dev", scene.tunnel, "self", "static", "dst", "192.0.2.77")
    # The next look follows the one before it at some distance.
    found = wait_until(lambda: found_by_check(scene), WITHIN, "found")
    assert (found.missing, found.altered) == (3, 1)
    assert found.again >= {Key(Kind.NEIGHBOR, f"many{number}") for number in (0, 400, 700, 999)}
    assert standing(scene.host) == before
    found = scene.host.call(scene.plane.check)
    assert (found.missing, found.altered) == (0, 0)


def test_where_group_frames_go_is_heard_in_any_case(scene: Scene) -> None:
    before = standing(scene.host)
    notices = scene.plane._notices
    assert notices is not None
    with notices.muted():
        scene.host.run(*BY_HAND["a host to flood to"](scene))
    wait_until(lambda: bool(scene.drifts()), WITHIN, "noticed")
    wait_until(lambda: standing(scene.host) == before, WITHIN, "put back")


def found_by_check(scene: Scene) -> Survey | None:
    found = scene.host.call(scene.plane.check)
    return found if found.missing else None


def one_of_many(number: int, mac: bytes, network: bytes) -> NeighborWanted:
    """One of many."""
    address = (int.from_bytes(network, "big") + number).to_bytes(4, "big")
    made = neighbor(5)
    return made._replace(
        neighbor=made.neighbor._replace(id=f"many{number}", mac=mac, fixed_ips=(FixedIp("green", address),))
    )


def test_a_rule_that_was_replaced_unnoticed_is_found(scene: Scene) -> None:
    before = ruleset(scene.host)
    unnoticed(scene, "nft", "replace", "rule", "bridge", "aca", "from_port", *last_rule(scene), "accept")
    assert ruleset(scene.host) != before
    assert scene.host.call(scene.plane.check).altered == 1
    assert ruleset(scene.host) == before


def test_a_survey_changes_nothing_and_says_what_to_apply_again(scene: Scene) -> None:
    before = standing(scene.host)
    unnoticed(scene, "bridge", "fdb", "del", REMOTE, "dev", scene.tunnel, "self")
    changed = standing(scene.host)
    found = scene.host.call(lambda: scene.plane.survey(()))
    assert found.missing == 1
    assert found.again == {Key(Kind.NEIGHBOR, "n5")}
    assert standing(scene.host) == changed
    assert apply(scene.host, scene.plane, [Batch(Kind.NEIGHBOR, (neighbor(5),))]).problems == {}
    assert standing(scene.host) == before


# -- another agent comes


def test_a_fresh_agent_deletes_what_it_is_told_to(host: Namespace) -> None:
    empty, _ = open_plane(host)
    empty.close()
    before = standing(host)
    plane, _ = open_plane(host)
    assert apply(host, plane, WHOLE).problems == {}
    plane.close()
    whole = standing(host)

    fresh, _ = open_plane(host)
    assert standing(host) == whole
    assert apply(host, fresh, removals(WHOLE)).problems == {}
    wait_until(lambda: standing(host) == before, WITHIN, "nothing left")
    assert host.call(lambda: fresh.survey(())).leftovers == []
    fresh.close()


def test_what_an_earlier_agent_left_of_devices_that_are_gone_goes_at_the_start(host: Namespace) -> None:
    """They went while no agent ran, and others have their names now."""
    plane, _ = open_plane(host)
    assert apply(host, plane, WHOLE).problems == {}
    plane.close()
    delete_namespaces(namespaces_of(f"{host.name}-r"))
    host.ip(f"link del {TAP}", f"link add {TAP} type veth peer name theirs", f"link set {TAP} up")

    fresh, _ = open_plane(host)
    assert apply(host, fresh, WHOLE).problems == {}
    assert host.call(lambda: fresh.survey(())).leftovers == []
    pattern = r"chain (\S+) \{\s*type filter hook ingress devices? ([^;]*?) priority"
    hooked = re.findall(pattern, host.run("nft", "list", "ruleset"))
    assert sum(TAP in devices for _, devices in hooked) == 1
    fresh.close()


def test_a_fresh_agent_that_withholds_touches_nothing(host: Namespace) -> None:
    plane, _ = open_plane(host)
    assert apply(host, plane, WHOLE).problems == {}
    plane.close()
    whole = standing(host)
    fresh, _ = open_plane(host)
    withheld = [Batch(one.kind, (), (), [wanted.id for wanted in one.upserts]) for one in WHOLE]
    assert apply(host, fresh, withheld).problems == {}
    assert standing(host) == whole
    fresh.close()


def test_a_deleted_port_takes_nothing_of_others_along(host: Namespace) -> None:
    plane, _ = open_plane(host)
    without_port = [batch for batch in WHOLE if batch.kind is not Kind.PORT]
    assert apply(host, plane, without_port).problems == {}
    before = standing(host)
    assert apply(host, plane, WHOLE).problems == {}
    plane.close()
    fresh, _ = open_plane(host)
    assert apply(host, fresh, without_port).problems == {}
    assert apply(host, fresh, [Batch(Kind.PORT, (), (PORT.id,))]).problems == {}
    after = standing(host)
    assert after["fdb"] == before["fdb"]
    assert after["nft"] == before["nft"]
    assert after["links"] == before["links"]
    fresh.close()


def test_what_nobody_wants_is_swept_and_the_rest_stays(host: Namespace) -> None:
    wanted = [Batch(Kind.SUBNET, (BLUE,)), Batch(Kind.PORT, (PORT,))]
    first, _ = open_plane(host)
    assert apply(host, first, wanted).problems == {}
    expected = standing(host)
    assert apply(host, first, WHOLE).problems == {}
    first.close()

    fresh, events = open_plane(host)
    assert apply(host, fresh, wanted).problems == {}
    found = host.call(lambda: fresh.survey(()))
    assert (found.missing, found.altered) == (0, 0)
    assert any("network namespace" in one.name for one in found.leftovers)
    assert any("flooding to 192.0.2.9" in one.name for one in found.leftovers)
    assert host.call(lambda: fresh.sweep(found.leftovers)) == len(found.leftovers)
    wait_until(lambda: standing(host) == expected, WITHIN, "only what is wanted")
    assert host.call(lambda: fresh.survey(())).leftovers == []
    assert not [event for event in events if isinstance(event, Drifted)]
    fresh.close()


def test_what_has_come_to_be_wanted_meanwhile_is_not_swept(host: Namespace) -> None:
    first, _ = open_plane(host)
    assert apply(host, first, WHOLE).problems == {}
    first.close()
    whole = standing(host)
    fresh, _ = open_plane(host)
    found = host.call(lambda: fresh.survey(()))
    assert len(found.leftovers) > 60
    assert apply(host, fresh, WHOLE).problems == {}
    assert host.call(lambda: fresh.sweep(found.leftovers)) == 0
    assert standing(host) == whole
    fresh.close()


@pytest.mark.parametrize(
    "unsettled",
    [
        {Key(Kind.PORT, PORT.id)},
        {Key(Kind.ROUTER, ROUTER.id)},
        {Key(Kind.SUBNET, BLUE.id)},
        {Key(Kind.NEIGHBOR, "n2")},
    ],
    ids=lambda keys: next(iter(keys)).kind.name,
)
def test_what_may_be_an_unsettled_resources_is_no_leftover(host: Namespace, unsettled: set[Key]) -> None:
    first, _ = open_plane(host)
    assert apply(host, first, WHOLE).problems == {}
    first.close()
    fresh, _ = open_plane(host)
    found = host.call(lambda: fresh.survey(unsettled))
    host.call(lambda: fresh.sweep(found.leftovers))
    (key,) = unsettled
    after = standing(host)
    nft, fdb = "\n".join(ruleset(host)), after["fdb"]
    assert names_of(host, "acb") and names_of(host, "acv")
    match key.kind:
        case Kind.PORT:
            assert f'hook ingress device "{TAP}"' in nft
            assert (PORT.port.mac.hex(":"), TAP, "master") in fdb  # type: ignore[operator]
            assert f": {PORT.port.mac.hex(':')}" in nft
        case Kind.ROUTER:
            assert len(namespaces_of(host.name)) == 1
            assert len(names_of(host, "acl")) == 2
        case Kind.SUBNET:
            assert f"10.0.1.1 : {BLUE.subnet.gateway_mac.hex(':')}" in nft  # type: ignore[union-attr]
            assert f"10.0.2.1 : {GREEN.subnet.gateway_mac.hex(':')}" not in nft  # type: ignore[union-attr]
        case _:
            assert (REMOTE, names_of(host, "acv")[0], "dst 192.0.2.9") in fdb  # type: ignore[operator]
            assert f"10.0.2.5 : {REMOTE}" in nft
            assert namespaces_of(host.name) == []
    fresh.close()


def test_many_devices_are_swept_at_once(host: Namespace) -> None:
    first, _ = open_plane(host)
    subnets = [
        replace(
            BLUE,
            subnet=replace(BLUE.subnet, id=f"s{n}"),
            ref=SubnetRef(f"s{n}", Segment(NetworkType.VXLAN, 5000 + n)),
        )
        for n in range(20)
    ]
    before = names_of(host, "ac")
    assert apply(host, first, [Batch(Kind.SUBNET, subnets)]).problems == {}
    first.close()
    assert len(names_of(host, "ac")) == 40
    fresh, _ = open_plane(host)
    started = time.monotonic()
    found = host.call(lambda: fresh.survey(()))
    assert host.call(lambda: fresh.sweep(found.leftovers)) == len(found.leftovers)
    assert names_of(host, "ac") == before, f"after {time.monotonic() - started:.1f} s"
    fresh.close()


def test_foreign_things_are_never_touched(host: Namespace) -> None:
    prefix = f"{host.name}-"
    foreign, named_alike = f"{prefix}0123456789", f"{prefix}0123456789a"
    create_namespaces([foreign, named_alike])
    host.ip(
        "link add br-foreign type bridge",
        "link set br-foreign up alias somebody",
        "link add acbforeign type bridge",
        "link add fv type vxlan id 77 dstport 8472 local 192.0.2.1",
        "link set fv master br-foreign",
        "link add f0 type veth peer name f1",
        "link set f0 master br-foreign",
    )
    host.run("bridge", "fdb", "add", "02:00:00:00:00:77", "dev", "fv", "self", "dst", "192.0.2.50")
    host.run("bridge", "fdb", "add", "02:00:00:00:00:78", "dev", "f0", "master", "static")
    host.run("nft", "add table bridge other; add set bridge other members { type ether_addr; }")
    host.run("nft", "add element bridge other members { 02:00:00:00:00:79 }")
    before = standing(host)
    first, _ = open_plane(host)
    assert apply(host, first, WHOLE).problems == {}
    first.close()

    fresh, _ = open_plane(host)
    found = host.call(lambda: fresh.survey(()))
    host.call(lambda: fresh.sweep(found.leftovers))
    host.run("nft", "delete", "table", "bridge", "aca")
    wait_until(lambda: "table bridge aca" in host.run("nft", "list", "tables"), WITHIN, "put back")
    host.call(fresh.check)
    after = standing(host)
    assert [one for one in before["nft"] if one not in after["nft"]] == []  # type: ignore[attr-defined,operator]
    assert [one for one in before["fdb"] if one not in after["fdb"]] == []  # type: ignore[attr-defined,operator]
    assert {name for name, *_ in before["links"]} == {name for name, *_ in after["links"]}  # type: ignore[attr-defined]
    assert after["routers"] == before["routers"]
    fresh.close()
