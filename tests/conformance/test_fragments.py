"""Fragments: nothing on the way may put those of two tenants together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pytest

from tests.conformance.cloud import Cloud
from tests.conformance.frames import fragments
from tests.conformance.network import Nic
from tests.lab import Guest

pytestmark = pytest.mark.lab

PORT = 4242
SIZE = 1024


@dataclass(frozen=True, slots=True)
class Tenant:
    """A sender on host one, a receiver beside it and one on host two; all tenants have the same addresses and MACs."""

    letter: bytes
    sender: Nic
    receivers: tuple[Nic, ...]
    guest: Guest
    others: tuple[Guest, ...]

    @property
    def text(self) -> bytes:
        return self.letter * SIZE

    def datagram(self, to: Nic, to_mac: str) -> tuple[bytes, bytes]:
        """The frames of one, with the same identification whoever the tenant."""
        me = self.sender
        return fragments(to_mac, me.mac, me.ip, to.ip, self.text, identification=77, port=PORT)


@pytest.fixture(params=[False, True], ids=["same-subnet", "routed"])
def tenants(cloud: Cloud, request: pytest.FixtureRequest) -> tuple[Tenant, Tenant]:
    made = []
    for letter in (b"a", b"b"):
        vpc = cloud.vpc()
        net, other = vpc.subnet("10.0.1.0/24"), vpc.subnet("10.0.2.0/24")
        target = other if request.param else net
        places = ((cloud.one, (net, 11)), (cloud.one, (target, 21)), (cloud.two, (target, 22)))
        sender, *receivers = (
            vpc.nic(site, place, mac=f"aa:bb:cc:00:02:{n:02x}") for n, (site, place) in enumerate(places)
        )
        guest, *others = cloud.guests(sender, *receivers)
        cloud.announce(vpc, router=(net, other) if request.param else ())
        made.append(Tenant(letter, sender, tuple(receivers), guest, tuple(others)))
    one, two = made
    return one, two


def to_mac_of(tenant: Tenant, receiver: Nic) -> str:
    routed = receiver.subnet is not tenant.sender.subnet
    return tenant.sender.subnet.gateway_mac if routed else receiver.mac


def received(
    tenants: Iterable[Tenant], index: int, frames: Iterable[tuple[Tenant, bytes]], within: float
) -> list[list[bytes]]:
    """The datagrams that each tenant's receiver gets, put together by its own kernel, when these frames are sent."""
    everybody = list(tenants)
    sockets = [tenant.others[index].socket() for tenant in everybody]
    try:
        for one in sockets:
            one.bind(("0.0.0.0", PORT))
            one.settimeout(within)
        for tenant, frame in frames:
            tenant.guest.send_raw(frame)
        found: list[list[bytes]] = []
        for one in sockets:
            texts = []
            try:
                while True:
                    texts.append(one.recv(65535))
                    one.settimeout(0.05)
            except TimeoutError:
                found.append(texts)
        return found
    finally:
        for one in sockets:
            one.close()


def test_fragments_of_tenants_with_equal_addresses_arrive_each_at_its_own(tenants: tuple[Tenant, Tenant]) -> None:
    """Sent in turn, with one identification."""
    a, b = tenants
    for index, receiver in enumerate(a.receivers):
        a1, a2 = a.datagram(receiver, to_mac_of(a, receiver))
        b1, b2 = b.datagram(b.receivers[index], to_mac_of(b, b.receivers[index]))
        for order in ([(a, a1), (b, b1), (b, b2), (a, a2)], [(a, a2), (b, b1), (a, a1), (b, b2)]):
            assert received(tenants, index, order, within=2.0) == [[a.text], [b.text]]


def test_fragments_of_two_tenants_never_make_one_datagram(tenants: tuple[Tenant, Tenant]) -> None:
    """The first half from one, the other half from the other: nobody gets anything."""
    a, b = tenants
    for index, receiver in enumerate(a.receivers):
        a1, _ = a.datagram(receiver, to_mac_of(a, receiver))
        _, b2 = b.datagram(b.receivers[index], to_mac_of(b, b.receivers[index]))
        assert received(tenants, index, [(a, a1), (b, b2)], within=0.3) == [[], []]
        # And the halves that were missing complete each its own.
        _, a2 = a.datagram(receiver, to_mac_of(a, receiver))
        b1, _ = b.datagram(b.receivers[index], to_mac_of(b, b.receivers[index]))
        assert received(tenants, index, [(a, a2), (b, b1)], within=2.0) == [[a.text], [b.text]]
