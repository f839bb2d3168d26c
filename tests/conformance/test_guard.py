"""What a guest may claim to be: its own addresses and its allowed pairs, nothing else."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tests.conformance.cloud import Cloud
from tests.conformance.frames import BROADCAST, arp_frame, gratuitous, has, is_arp, tagged, udp_frame
from tests.conformance.network import Nic, Subnet, neighbor_state, port_state, subnet_state
from tests.lab import Guest
from tests.lab.wire import arp_answer

pytestmark = pytest.mark.lab

PAIR_MAC = "00:00:5e:00:01:07"
FOREIGN_MAC = "aa:bb:00:00:ee:ee"
ZERO_MAC = "00:00:00:00:00:00"


@dataclass(frozen=True, slots=True)
class Guarded:
    """A guest on host one that is watched, one beside it, one on host two; beside them an unrouted subnet."""

    net: Subnet
    nics: tuple[Nic, Nic, Nic]
    guests: tuple[Guest, Guest, Guest]

    def passes(self, frame: bytes, mark: bytes) -> bool:
        """Whether the frame, sent by the watched guest, reaches both others. AssertionError if, always, one only."""
        for _ in range(3):
            # A busy machine may lose a frame, which says nothing about what is allowed.
            near, far = self._arrives(frame, mark)
            if near == far:
                return near
        raise AssertionError(f"near {near}, far {far}")

    def _arrives(self, frame: bytes, mark: bytes) -> tuple[bool, bool]:
        with self.guests[1].capture() as near, self.guests[2].capture() as far:
            self.guests[0].send_raw(frame)
            # A frame that may pass in any case, sent behind it, tells that it would have arrived by now.
            me = self.nics[0]
            self.guests[0].send_raw(udp_frame(BROADCAST, me.mac, me.ip, "255.255.255.255", b"that is all"))
            found = []
            for capture in (near, far):
                frames = capture.frames(lambda f: mark in f or b"that is all" in f, count=1, within=2.0)
                found.append(bool(frames) and mark in frames[0])
        return found[0], found[1]


@pytest.fixture
def guarded(cloud: Cloud) -> Guarded:
    vpc = cloud.vpc()
    net = vpc.subnet("10.0.1.0/24")
    nics = vpc.nic(cloud.one, net), vpc.nic(cloud.one, net), vpc.nic(cloud.two, net)
    other = vpc.subnet("10.0.2.0/24")
    guests = cloud.guests(*nics, vpc.nic(cloud.one, other), vpc.nic(cloud.two, other))
    cloud.announce(vpc)
    return Guarded(net, nics, (guests[0], guests[1], guests[2]))


def test_what_is_ones_own_passes(guarded: Guarded) -> None:
    me = guarded.nics[0]
    assert guarded.passes(udp_frame(BROADCAST, me.mac, me.ip, "255.255.255.255", b"mine"), b"mine")
    frame = gratuitous(me.mac, me.ip)
    assert guarded.passes(frame, frame[14:42])


def test_a_foreign_source_mac_is_dropped(guarded: Guarded) -> None:
    me, other, _ = guarded.nics
    for mac in (FOREIGN_MAC, other.mac):
        assert not guarded.passes(udp_frame(BROADCAST, mac, me.ip, "255.255.255.255", b"not my MAC"), b"not my MAC")


def test_a_foreign_source_address_is_dropped(guarded: Guarded) -> None:
    me, other, _ = guarded.nics
    for ip in ("10.0.1.200", other.ip, "203.0.113.1", guarded.net.gateway, "0.0.0.0"):
        assert not guarded.passes(udp_frame(BROADCAST, me.mac, ip, "255.255.255.255", b"not my IP"), b"not my IP"), ip
    # Unicast as well.
    with guarded.guests[1].capture() as capture:
        guarded.guests[0].send_raw(udp_frame(other.mac, me.mac, "10.0.1.200", other.ip, b"not my IP"))
        assert capture.frames(has(b"not my IP"), count=1, within=0.2) == []


def test_foreign_arp_senders_are_dropped(guarded: Guarded) -> None:
    me, other, _ = guarded.nics
    for sender, source in (
        ((me.mac, "10.0.1.200"), me.mac),
        ((me.mac, other.ip), me.mac),
        ((me.mac, guarded.net.gateway), me.mac),
        ((other.mac, me.ip), me.mac),
        ((FOREIGN_MAC, me.ip), FOREIGN_MAC),
        ((me.mac, me.ip), FOREIGN_MAC),
    ):
        for operation in (1, 2):
            frame = arp_frame(operation, sender, (ZERO_MAC, "10.0.1.199"), from_mac=source)
            assert not guarded.passes(frame, frame[14:42]), (operation, sender, source)


def test_tagged_frames_are_dropped(guarded: Guarded) -> None:
    me, other, far = guarded.nics
    for vlan in (0, 1, 100):
        frame = udp_frame(BROADCAST, me.mac, me.ip, "255.255.255.255", b"tagged")
        assert not guarded.passes(tagged(frame, vlan), b"tagged"), vlan
    for target, guest in ((other, guarded.guests[1]), (far, guarded.guests[2])):
        with guest.capture() as capture:
            guarded.guests[0].send_raw(tagged(udp_frame(target.mac, me.mac, me.ip, target.ip, b"tagged"), 5))
            assert capture.frames(has(b"tagged"), count=1, within=0.2) == []


def test_allowed_pairs_pass(cloud: Cloud, guarded: Guarded) -> None:
    me = guarded.nics[0]
    pairs = [("10.0.1.200", ""), ("192.168.7.0/24", ""), ("10.0.1.201", PAIR_MAC)]
    allowed = [(me.mac, "10.0.1.200"), (me.mac, "192.168.7.1"), (me.mac, "192.168.7.254"), (PAIR_MAC, "10.0.1.201")]
    denied = [(me.mac, "10.0.1.202"), (me.mac, "192.168.8.1"), (PAIR_MAC, "10.0.1.200"), (me.mac, "10.0.1.201")]

    cloud.one.program(port_state(me, pairs=pairs))
    cloud.two.program(neighbor_state(me, pairs=pairs))
    for mac, ip in [*allowed, *denied]:
        frame = gratuitous(mac, ip)
        assert guarded.passes(udp_frame(BROADCAST, mac, ip, "255.255.255.255", b"pair"), b"pair") == (
            (mac, ip) in allowed
        ), (mac, ip)
        assert guarded.passes(frame, frame[14:42]) == ((mac, ip) in allowed), (mac, ip)

    cloud.one.program(port_state(me))
    for mac, ip in allowed:
        assert not guarded.passes(udp_frame(BROADCAST, mac, ip, "255.255.255.255", b"pair"), b"pair"), (mac, ip)


@pytest.mark.parametrize("announced", [False, True], ids=["by-plain-arp", "after-gratuitous-arp"])
def test_a_pair_address_is_reached(cloud: Cloud, guarded: Guarded, announced: bool) -> None:
    me = guarded.nics[0]
    cloud.one.program(port_state(me, pairs=[("10.0.1.200", "")]), neighbor_state(me, pairs=[("10.0.1.200", "")]))
    cloud.two.program(neighbor_state(me, pairs=[("10.0.1.200", "")]))
    holder, near, far = guarded.guests
    holder.add_ip("10.0.1.200/32")
    if announced:
        holder.send_raw(gratuitous(me.mac, "10.0.1.200"))

    for guest in (near, far):
        assert guest.arp("10.0.1.200") == me.mac
        assert guest.ping("10.0.1.200", count=2).received == 2


def test_a_pair_with_another_mac_is_reached_and_moves(cloud: Cloud, guarded: Guarded) -> None:
    """VRRP with a virtual MAC: whoever of the two pair holders answers is reached."""
    me, other, far = guarded.nics
    pairs = [("10.0.1.201", PAIR_MAC)]
    for nic in (me, far):
        for site in cloud.sites:
            site.program(neighbor_state(nic, pairs=pairs))
    cloud.one.program(port_state(me, pairs=pairs))
    cloud.two.program(port_state(far, pairs=pairs))

    for master in (guarded.guests[0], guarded.guests[2], guarded.guests[0]):
        owner = me if master is guarded.guests[0] else far
        master.set_mac(PAIR_MAC)
        master.run("ip", "addr", "add", "10.0.1.201/24", "dev", "eth0")
        master.run("ip", "route", "replace", "10.0.1.0/24", "dev", "eth0", "src", "10.0.1.201")
        guarded.guests[1].flush_neighbours()
        master.send_raw(gratuitous(PAIR_MAC, "10.0.1.201"))
        result = guarded.guests[1].ping("10.0.1.201", count=2)
        assert (result.received, result.duplicates) == (2, 0), owner
        master.remove_ip("10.0.1.201/24")
        master.set_mac(owner.mac)


def test_probes_of_the_own_address_pass(guarded: Guarded) -> None:
    me, other, _ = guarded.nics
    frame = arp_frame(1, (me.mac, "0.0.0.0"), (ZERO_MAC, "10.0.1.199"))
    assert guarded.passes(frame, frame[14:42])
    with guarded.guests[0].capture() as capture:
        guarded.guests[0].send_raw(arp_frame(1, (me.mac, "0.0.0.0"), (ZERO_MAC, other.ip)))
        assert [arp_answer(f, other.ip) for f in capture.frames(is_arp, count=1, within=1.0)] == [other.mac]


def test_an_update_of_a_subnet_keeps_its_guests_connected(cloud: Cloud, guarded: Guarded) -> None:
    state = subnet_state(guarded.net)
    state.configuration.gateway.mac_address = "aa:ff:00:00:ee:01"
    running = guarded.guests[1].start_ping(guarded.nics[2].ip)
    running.wait_replies()
    cloud.one.program(state)
    running.wait_replies(5)
    assert running.stop().lost == ()
    assert guarded.guests[0].arp(guarded.net.gateway) == "aa:ff:00:00:ee:01"
