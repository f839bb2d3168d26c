"""A guest and the host that it is on: nothing passes between them."""

from __future__ import annotations

import pytest

from tests.conformance.cloud import Cloud, isolated
from tests.conformance.frames import echo_request, has, udp_frame

pytestmark = pytest.mark.lab


@pytest.mark.parametrize("routed", [False, True], ids=["unrouted", "routed"])
def test_a_guest_does_not_reach_its_host(cloud: Cloud, routed: bool) -> None:
    vpc = cloud.vpc()
    net, other = vpc.subnet("10.0.1.0/24"), vpc.subnet("10.0.2.0/24")
    a, b = vpc.nic(cloud.one, net), vpc.nic(cloud.two, net)
    guest, _ = cloud.guests(a, b)
    cloud.announce(vpc, router=(net, other) if routed else ())
    assert guest.ping(b.ip).received == 1

    # By the gateway, on the link, and by the MAC of each device of the host.
    assert isolated(*((guest, site.ip) for site in cloud.sites))
    for site in cloud.sites:
        guest.namespace.ip(f"route add {site.ip}/32 dev eth0")
        assert guest.arp(site.ip, within=0.3) is None
    with guest.capture() as capture:
        macs = cloud.one.host_macs()
        assert macs
        for mac in macs:
            frame = echo_request(mac, a.mac, a.ip, cloud.one.ip)
            guest.send_raw(frame)
        assert capture.frames(lambda f: f[12:14] == b"\x08\x00", count=1, within=0.5) == []


def test_a_guest_gets_nothing_forwarded_by_its_host(cloud: Cloud) -> None:
    vpc = cloud.vpc()
    net = vpc.subnet("10.0.1.0/24")
    a = vpc.nic(cloud.one, net)
    guest = cloud.guest(a)
    cloud.announce(vpc)
    host = cloud.one.host
    host.namespace.sysctl(ipv4__ip_forward=1)
    try:
        with cloud.two.host.capture() as uplink:
            for mac in cloud.one.host_macs():
                guest.send_raw(udp_frame(mac, a.mac, a.ip, cloud.two.ip, b"forward me"))
            assert uplink.frames(has(b"forward me"), count=1, within=0.3) == []
    finally:
        host.namespace.sysctl(ipv4__ip_forward=0)


def test_the_hosts_own_addresses_may_be_a_guests(cloud: Cloud) -> None:
    """A subnet that overlaps the underlay."""
    vpc = cloud.vpc()
    net = vpc.subnet("172.16.0.0/24")
    # Host one's address is the gateway's; host two's is a guest's.
    b, c = vpc.nic(cloud.one, (net, 2)), vpc.nic(cloud.two, (net, 3))
    guest, _ = cloud.guests(b, c)
    cloud.announce(vpc)
    assert guest.ping(c.ip, count=2).received == 2
    assert guest.ping(net.gateway).received == 1
    assert guest.arp(c.ip) == c.mac
