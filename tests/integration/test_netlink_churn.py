"""The netlink data plane by itself, in a namespace of its own: what is made and removed again leaves nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dataplane.base import Batch
from dataplane.model import Key, Kind, NetworkType, Segment, SubnetRef, SubnetWanted
from tests.integration.netlink_host import BLUE, GREEN, PORT, WHOLE, apply, netlink_host, open_plane, removals
from tests.lab import wait_until
from tests.lab.netns import Namespace, namespaces_of

pytestmark = pytest.mark.lab

ROUNDS = 50
MANY_ROUNDS = 1000


@pytest.fixture
def host() -> Iterator[Namespace]:
    with netlink_host() as made:
        yield made


def descriptors_open(kind: str) -> int:
    count = 0
    for one in Path("/proc/self/fd").iterdir():
        try:
            count += kind in str(one.readlink())
        except OSError:  # closed since it was listed
            continue
    return count


def traces(host: Namespace) -> tuple[list[str], list[str], list[str], str]:
    return (
        # By name: whether the kernel has seen a carrier yet is not ours.
        [line.split()[1] for line in host.run("ip", "-o", "link").splitlines()],
        namespaces_of(host.name),
        # Not the kernel's own entries for groups, which come and go with the carrier.
        [line for line in host.run("bridge", "fdb").splitlines() if " dst " in line or " master " in line],
        host.run("nft", "list", "ruleset"),
    )


@pytest.mark.parametrize(
    "rounds", [ROUNDS, pytest.param(MANY_ROUNDS, marks=[pytest.mark.long, pytest.mark.timeout(1200)])]
)
def test_rounds_of_making_and_removing_leave_nothing(host: Namespace, rounds: int) -> None:
    plane, _ = open_plane(host)

    def once() -> None:
        assert apply(host, plane, WHOLE).problems == {}
        assert apply(host, plane, removals(WHOLE)).problems == {}

    once()
    before = traces(host)
    namespaces_open, sockets_open = descriptors_open("net:["), descriptors_open("socket:[")
    for _ in range(rounds):
        once()
    assert descriptors_open("net:[") <= namespaces_open
    # Those of other tests' threads come and go; not as many as there were rounds.
    assert descriptors_open("socket:[") < sockets_open + rounds
    wait_until(lambda: host.call(lambda: plane.survey(())).leftovers == [], 5.0, "nothing left over")
    wait_until(lambda: traces(host) == before, 5.0, "as before")
    plane.close()


def test_what_the_kernel_refuses_is_told_with_its_object_and_tried_again(host: Namespace) -> None:
    plane, _ = open_plane(host)
    # Somebody else has the tunnel's number and port.
    host.ip("link add foreign type vxlan id 4097 dstport 4789 local 192.0.2.1", "link set foreign up")
    problems = apply(host, plane, [Batch(Kind.SUBNET, [BLUE])]).problems
    reason = problems[Key(Kind.SUBNET, "blue")].reason
    assert "VXLAN device" in reason and "VXLAN/4097" in reason

    host.ip("link del foreign")
    assert apply(host, plane, [Batch(Kind.SUBNET, [BLUE])]).problems == {}
    assert apply(host, plane, [Batch(Kind.SUBNET, (), ["blue"])]).problems == {}
    plane.close()


def test_a_port_in_subnets_of_two_tunnels_is_refused(host: Namespace) -> None:
    plane, _ = open_plane(host)
    other = SubnetWanted(GREEN.subnet, SubnetRef("green", Segment(NetworkType.VXLAN, 4098)))
    problems = apply(host, plane, [Batch(Kind.PORT, [replace(PORT, subnets=(BLUE, other))])]).problems
    assert "different tunnels" in problems[Key(Kind.PORT, PORT.id)].reason
    plane.close()
