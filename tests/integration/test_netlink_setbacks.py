"""The netlink data plane by itself: what cannot be put back or made at first, and what else is changed meanwhile."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

import pytest

from dataplane.base import Batch
from dataplane.model import FixedIp, Kind, NetworkType, PortWanted, Segment, SubnetRef, SubnetWanted
from tests.integration.netlink_host import BLUE, PORT, apply, neighbor, netlink_host
from tests.integration.netlink_scene import Scene, standing, whole_scene
from tests.lab import LabError, wait_until

pytestmark = pytest.mark.lab

WITHIN = 20.0
"""Far more than it takes: test machines are busy."""
TAP = PORT.port.device_name


@pytest.fixture
def scene() -> Iterator[Scene]:
    with netlink_host() as host, whole_scene(host) as made:
        yield made


def test_what_could_not_be_put_back_is_not_forgotten_over_what_is_put_back_later(scene: Scene) -> None:
    before, leg = standing(scene.host), scene.legs[0]
    replace_by_a_bridge(scene, leg)
    wait_until(lambda: bool(scene.drifts()), WITHIN, "noticed")
    scene.host.run("bridge", "fdb", "del", neighbor(5).neighbor.mac.hex(":"), "dev", scene.tunnel, "self")
    wait_until(lambda: len(scene.drifts()) > 1, WITHIN, "the other noticed")
    scene.host.run("ip", "link", "del", leg)
    assert_back_with_checks(scene, before)


def test_a_tunnel_that_goes_while_its_bridge_cannot_be_made_comes_back_with_all_that_it_knew(scene: Scene) -> None:
    before = standing(scene.host)
    replace_by_a_bridge(scene, scene.bridge)
    wait_until(lambda: bool(scene.drifts()), WITHIN, "noticed")
    scene.host.run("ip", "link", "del", scene.tunnel)
    scene.host.run("ip", "link", "del", scene.bridge)
    assert_back_with_checks(scene, before)


def test_a_leg_that_cannot_be_made_again_keeps_nothing_else_from_being_changed(scene: Scene) -> None:
    before = standing(scene.host)
    for leg in scene.legs:
        replace_by_a_bridge(scene, leg)
    wait_until(lambda: all(f"leg {leg}" in str(scene.drifts()) for leg in scene.legs), WITHIN, "noticed")
    gone, moved = neighbor(2), neighbor(3)
    elsewhere = moved._replace(neighbor=moved.neighbor._replace(mac=b"\xaa\xbb\0\0\2\3"))
    assert apply(scene.host, scene.plane, [Batch(Kind.NEIGHBOR, [elsewhere], [gone.id])]).problems == {}
    assert apply(scene.host, scene.plane, [Batch(Kind.NEIGHBOR, [moved, gone])]).problems == {}
    for leg in scene.legs:
        scene.host.run("ip", "link", "del", leg)
    assert_back_with_checks(scene, before)


def test_a_port_that_moves_to_another_segment_has_its_entry_there(scene: Scene) -> None:
    before, whole = scene.host.call(lambda: scene.plane.survey(())), standing(scene.host)
    ref = SubnetRef("elsewhere", Segment(NetworkType.VXLAN, 4098))
    elsewhere = SubnetWanted(replace(BLUE.subnet, id=ref.subnet_id, tunnel_id=4098), ref)
    fixed = FixedIp(ref.subnet_id, PORT.held[0].address)
    moved = PortWanted(replace(PORT.port, fixed_ips=(fixed,)), (elsewhere,), (fixed,), frozenset({ref.subnet_id}))
    for wanted in (moved, PORT):
        batches = [Batch(Kind.SUBNET, [elsewhere]), Batch(Kind.PORT, [wanted])]
        assert apply(scene.host, scene.plane, batches).problems == {}
        assert PORT.port.mac.hex(":") in scene.host.run("bridge", "fdb", "show", "dev", TAP, "state", "static")
        found = scene.host.call(lambda: scene.plane.survey(()))
        assert (found.missing, found.altered, found.leftovers) == (0, 0, [])
    assert apply(scene.host, scene.plane, [Batch(Kind.SUBNET, [], [ref.subnet_id])]).problems == {}
    assert standing(scene.host) == whole
    assert scene.host.call(lambda: scene.plane.survey(())).standing == before.standing


def test_a_remote_entry_for_a_guest_of_this_host_goes_with_a_sweep(scene: Scene) -> None:
    before = standing(scene.host)
    entry = (PORT.port.mac.hex(":"), "dev", scene.tunnel, "dst", "192.0.2.9", "self", "static")
    scene.host.run("bridge", "fdb", "append", *entry)
    assert_back_with_checks(scene, before, but=("nft", "fdb"))


def replace_by_a_bridge(scene: Scene, device: str) -> None:
    """The name is somebody else's for a while."""
    scene.host.run("ip", "-batch", "-", stdin=f"link del {device}\nlink add {device} type bridge\n")


def assert_back_with_checks(scene: Scene, before: dict[str, object], but: Collection[str] = ("nft",)) -> None:
    """But for what was said of devices that are gone, and the like: that goes with a sweep."""

    def is_back() -> bool:
        scene.host.call(scene.plane.check)
        now = standing(scene.host)
        return all(now[part] == before[part] for part in before if part not in but)

    try:
        wait_until(is_back, WITHIN, "put back")
    except LabError:
        assert standing(scene.host) == before
    found = scene.host.call(lambda: scene.plane.survey(()))
    assert (found.missing, found.altered) == (0, 0)
    scene.host.call(lambda: scene.plane.sweep(found.leftovers))
    assert standing(scene.host) == before
