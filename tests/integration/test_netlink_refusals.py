"""What the kernel refuses the netlink data plane, and devices that are not as expected: told with the object, nothing
half-made, programmed once the cause is gone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from dataplane.addresses import format_mac
from dataplane.base import Batch, DevicesChanged, Event, Status
from dataplane.kernel.channel import Channel
from dataplane.kernel.wire import KernelError, Request
from dataplane.model import FixedIp, Key, Kind
from dataplane.netlink.names import bridge_name, leg_name, namespace_name, tunnel_name
from tests.integration.netlink_host import (
    BLUE,
    PORT,
    ROUTER,
    SEGMENT,
    WHOLE,
    apply,
    neighbor,
    netlink_host,
    open_plane,
    removals,
)
from tests.lab import wait_until
from tests.lab.netns import Namespace, create_namespaces, delete_namespaces, namespaces_of

pytestmark = pytest.mark.lab

WITHIN = 20.0
TAP = PORT.port.device_name
BOTH = [Batch(Kind.SUBNET, [BLUE]), Batch(Kind.PORT, [PORT])]


@pytest.fixture
def host() -> Iterator[Namespace]:
    with netlink_host() as made:
        yield made


def footprint(host: Namespace) -> tuple[list[str], list[str], str]:
    devices = [line.split()[1] for line in host.run("ip", "-o", "link").splitlines() if line[0].isdigit()]
    return sorted(devices), namespaces_of(host.name), host.run("nft", "list", "ruleset")


def changed(events: Sequence[Event], port_id: str) -> bool:
    return any(isinstance(event, DevicesChanged) and port_id in event.port_ids for event in events)


@pytest.mark.parametrize("name", [bridge_name(SEGMENT), tunnel_name(SEGMENT), leg_name("blue")])
def test_a_name_that_a_foreign_device_has(host: Namespace, name: str) -> None:
    plane, _ = open_plane(host)
    host.ip(f"link add {name} type bridge", f"link set {name} alias somebody")
    before = footprint(host)
    problems = apply(host, plane, WHOLE).problems
    about_router = {Key(Kind.ROUTER, ROUTER.id)}
    assert problems.keys() == about_router if name == leg_name("blue") else about_router < problems.keys()
    assert all(problem.status is Status.FAILED for problem in problems.values())
    reason = problems[Key(Kind.ROUTER, ROUTER.id)].reason
    assert name in reason or "bridge" in reason
    assert apply(host, plane, removals(WHOLE)).problems == {}
    assert footprint(host) == before

    assert apply(host, plane, WHOLE).problems.keys() == problems.keys()
    host.ip(f"link del {name}")
    assert apply(host, plane, WHOLE).problems == {}
    assert apply(host, plane, removals(WHOLE)).problems == {}
    plane.close()


def test_a_name_that_a_foreign_namespace_has(host: Namespace) -> None:
    plane, _ = open_plane(host)
    name = namespace_name(f"{host.name}-", ROUTER.id)
    (foreign,) = create_namespaces([name])
    foreign.ip("link add theirs type bridge")
    problems = apply(host, plane, WHOLE).problems
    assert problems.keys() == {Key(Kind.ROUTER, ROUTER.id)}
    assert f"network namespace {name} belongs to somebody else" in problems[Key(Kind.ROUTER, ROUTER.id)].reason
    assert "theirs" in foreign.run("ip", "-o", "link")
    assert "acr" not in foreign.run("ip", "-o", "link")

    delete_namespaces([name])
    assert apply(host, plane, WHOLE).problems == {}
    assert "acr" in foreign.run("ip", "-o", "link")
    plane.close()


def test_a_device_that_is_in_use_otherwise(host: Namespace) -> None:
    """A device has one receiver of its frames: beside another the bridge gets EBUSY."""
    plane, _ = open_plane(host)
    host.ip(f"link add link {TAP} name theirs type macvlan mode bridge")
    before = host.run("nft", "list", "ruleset")
    problems = apply(host, plane, BOTH).problems
    assert problems.keys() == {Key(Kind.PORT, PORT.id)}
    assert problems[Key(Kind.PORT, PORT.id)].status is Status.FAILED
    assert TAP in problems[Key(Kind.PORT, PORT.id)].reason
    assert "busy" in problems[Key(Kind.PORT, PORT.id)].reason
    assert apply(host, plane, removals(BOTH)).problems == {}
    assert host.run("nft", "list", "ruleset") == before

    assert apply(host, plane, BOTH).problems.keys() == problems.keys()
    host.ip("link del theirs")
    assert apply(host, plane, BOTH).problems == {}
    assert f"master {bridge_name(SEGMENT)}" in host.run("ip", "-o", "link", "show", TAP)
    plane.close()


def test_some_of_many_ports_are_refused(host: Namespace) -> None:
    """So many that the kernel has the first while the last are made ready."""
    plane, _ = open_plane(host)
    ports = [replace(PORT, port=replace(PORT.port, **_numbered(number))) for number in range(100, 170)]
    ports = [replace(port, held=port.port.fixed_ips) for port in ports]
    names = [port.port.device_name for port in ports]
    for name in names:
        host.ip(f"link add {name} type veth peer name p{name}", f"link set {name} up")
    refused = {ports[number].id: f"other{number}" for number in (3, 40, 69)}
    for number, other in zip((3, 40, 69), refused.values(), strict=True):
        host.ip(f"link add link {names[number]} name {other} type macvlan mode bridge")
    before = host.run("nft", "list", "ruleset")
    batches = [Batch(Kind.SUBNET, [BLUE]), Batch(Kind.PORT, ports)]
    problems = apply(host, plane, batches).problems
    assert {key.id for key in problems} == refused.keys()
    assert all("busy" in problem.reason and problem.status is Status.FAILED for problem in problems.values())
    joined = host.run("ip", "-o", "link", "show", "master", bridge_name(SEGMENT))
    assert {name for name in names if f" {name}@" in joined} == {*names} - {names[3], names[40], names[69]}
    chains = host.run("nft", "list", "chains", "netdev")
    assert names[4] in chains and names[40] not in chains

    for other in refused.values():
        host.ip(f"link del {other}")
    assert apply(host, plane, batches).problems == {}
    entries = host.run("bridge", "fdb", "show", "br", bridge_name(SEGMENT))
    assert all(f"{format_mac(port.port.mac)} dev {port.port.device_name}" in entries for port in ports)
    assert host.call(lambda: plane.survey(())).leftovers == []
    assert apply(host, plane, removals(batches)).problems == {}
    assert host.run("nft", "list", "ruleset") == before
    plane.close()


def _numbered(number: int) -> dict[str, Any]:
    own = FixedIp("blue", bytes((10, 0, 1, number)))
    return {"id": f"{number:08d}-many", "mac": bytes((0xAA, 0xBB, 0, 0, 2, number)), "fixed_ips": (own,)}


def test_a_full_table(host: Namespace, monkeypatch: pytest.MonkeyPatch) -> None:
    """That the kernel runs out of memory cannot be had on demand."""
    plane, _ = open_plane(host)
    real, really, full = Channel.submit, Channel.submit_alike, [True]
    mac = neighbor(7).neighbor.mac
    refused_mac = mac.hex(":")

    def submit(channel: Channel, requests: Sequence[Request]) -> dict[int, KernelError]:
        found = real(channel, [one for one in requests if not (full[0] and refused_mac in one.about)])
        refused = [n for n, one in enumerate(requests) if full[0] and refused_mac in one.about]
        return found | {n: KernelError(105, "No buffer space available", requests[n].about) for n in refused}

    def submit_alike(channel: Channel, kind: int, flags: int, bodies: Sequence[bytes]) -> dict[int, int]:
        found = really(channel, kind, flags, [body for body in bodies if not (full[0] and mac in body)])
        return found | {n: 105 for n, body in enumerate(bodies) if full[0] and mac in body}

    monkeypatch.setattr(Channel, "submit", submit)
    monkeypatch.setattr(Channel, "submit_alike", submit_alike)
    problems = apply(host, plane, WHOLE).problems
    assert problems.keys() == {Key(Kind.NEIGHBOR, "n7")}
    reason = problems[Key(Kind.NEIGHBOR, "n7")].reason
    assert "No buffer space available" in reason
    assert refused_mac in reason
    full[0] = False
    assert apply(host, plane, [Batch(Kind.NEIGHBOR, [neighbor(7)])]).problems == {}
    assert f"{refused_mac} dev {tunnel_name(SEGMENT)} dst 192.0.2.9" in host.run("bridge", "fdb")
    plane.close()


def test_ports_whose_ids_begin_alike(host: Namespace) -> None:
    plane, events = open_plane(host)
    fixed = FixedIp("blue", bytes((10, 0, 1, 12)))
    twin = replace(PORT, port=replace(PORT.port, id="churn-port-2", mac=b"\xaa\xbb\0\0\0\2", fixed_ips=(fixed,)))
    twin = replace(twin, held=(fixed,))
    assert twin.port.device_name == TAP
    problems = apply(host, plane, [*BOTH, Batch(Kind.PORT, [twin])]).problems
    assert problems.keys() == {Key(Kind.PORT, "churn-port-2")}
    assert problems[Key(Kind.PORT, "churn-port-2")].status is Status.PENDING
    assert f"belongs to {PORT.id}" in problems[Key(Kind.PORT, "churn-port-2")].reason

    host.ip("link add second type veth peer name q", "link set second alias churn-port-2", "link set second up")
    wait_until(lambda: changed(events, "churn-port-2"), WITHIN, "noticed")
    assert apply(host, plane, [Batch(Kind.PORT, [twin])]).problems == {}
    for port, device in ((PORT, TAP), (twin, "second")):
        assert port.port.mac.hex(":") in host.run("bridge", "fdb", "show", "dev", device)
    plane.close()


def test_a_wired_device_known_by_its_alias_may_be_renamed(host: Namespace) -> None:
    host.ip(f"link set {TAP} alias {PORT.id}")
    plane, events = open_plane(host)
    assert apply(host, plane, BOTH).problems == {}
    host.ip(f"link set {TAP} down", f"link set {TAP} name renamed", "link set renamed up")
    wait_until(lambda: changed(events, PORT.id), WITHIN, "noticed")
    assert apply(host, plane, BOTH).problems == {}
    assert PORT.port.mac.hex(":") in host.run("bridge", "fdb", "show", "dev", "renamed")
    # Not of what may have the old name from now on.
    assert 'hook ingress device "renamed"' in host.run("nft", "list", "table", "netdev", "aca")
    assert apply(host, plane, removals(BOTH)).problems == {}
    assert "master" not in host.run("ip", "-o", "link", "show", "renamed")
    assert "renamed" not in host.run("nft", "list", "ruleset")
    plane.close()


def test_a_wired_device_known_by_its_name_waits_when_renamed(host: Namespace) -> None:
    plane, events = open_plane(host)
    assert apply(host, plane, BOTH).problems == {}
    host.ip(f"link set {TAP} down", f"link set {TAP} name renamed")
    wait_until(lambda: changed(events, PORT.id), WITHIN, "noticed")
    problems = apply(host, plane, BOTH).problems
    assert problems[Key(Kind.PORT, PORT.id)].status is Status.PENDING
    assert f"device {TAP} (or one with the alias {PORT.id}) is not there" in problems[Key(Kind.PORT, PORT.id)].reason
    assert "master" not in host.run("ip", "-o", "link", "show", "renamed")

    host.ip(f"link set renamed name {TAP}")
    wait_until(lambda: changed(events[-1:], PORT.id), WITHIN, "noticed again")
    assert apply(host, plane, BOTH).problems == {}
    assert f"master {bridge_name(SEGMENT)}" in host.run("ip", "-o", "link", "show", TAP)
    plane.close()


def test_ranges_that_overlap_the_hosts_own(host: Namespace) -> None:
    host.ip("link add own type veth peer name far", "link set own up", "link set far up")
    host.ip("addr add 10.0.1.1/24 dev own")
    routes, tables = host.run("ip", "route"), host.run("ip", "rule")
    plane, _ = open_plane(host)
    assert apply(host, plane, WHOLE).problems == {}
    assert (host.run("ip", "route"), host.run("ip", "rule")) == (routes, tables)
    assert "dev own" in host.run("ip", "route", "get", "10.0.1.11")
    (router,) = map(Namespace, namespaces_of(host.name))
    assert f"dev {leg_name('blue').replace('acl', 'acr')}" in router.run("ip", "route", "get", "10.0.1.11")
    host.ip("addr del 10.0.1.1/24 dev own", "addr add 10.0.1.1/24 dev own")
    assert host.call(plane.check).missing == 0
    assert apply(host, plane, removals(WHOLE)).problems == {}
    assert host.run("ip", "route") == routes
    plane.close()
