"""What a guest notices of its gateway and its router."""

from __future__ import annotations

import pytest

from tests.conformance.cloud import Cloud
from tests.conformance.frames import ethernet, has, is_arp, udp_frame
from tests.conformance.network import port_state, router_state, subnet_state
from tests.lab.wire import arp_answer, arp_request

pytestmark = pytest.mark.lab


def test_the_gateway_answers_from_subnet_state_alone(cloud: Cloud) -> None:
    vpc = cloud.vpc()
    net = vpc.subnet("10.0.1.0/24")
    a, b = vpc.nic(cloud.one, net), vpc.nic(cloud.two, net)
    guests = cloud.guests(a, b)
    for site, nic in zip(cloud.sites, (a, b), strict=True):
        site.program(subnet_state(net), port_state(nic))

    for guest in guests:
        assert guest.arp(net.gateway) == net.gateway_mac
        result = guest.ping(net.gateway, count=3)
        assert (result.received, result.duplicates) == (3, 0)
        big = guest.ping(net.gateway, size=1400)
        assert big.received == 1


def test_arp_for_the_gateway_is_answered_once_and_told_to_nobody(cloud: Cloud) -> None:
    vpc = cloud.vpc()
    net = vpc.subnet("10.0.1.0/24")
    a, b, c = vpc.nic(cloud.one, net), vpc.nic(cloud.one, net), vpc.nic(cloud.two, net)
    guest, near, far = cloud.guests(a, b, c)
    cloud.announce(vpc)

    with guest.capture() as own, near.capture() as beside, far.capture() as away:
        guest.send_raw(arp_request(a.mac, a.ip, net.gateway))
        answers = own.frames(is_arp, count=2, within=0.4)
        assert [arp_answer(answer, net.gateway) for answer in answers] == [net.gateway_mac]
        assert beside.frames(count=1, within=0.05) == []
        assert away.frames(count=1, within=0.05) == []


def test_gateways_of_all_connected_subnets_answer(cloud: Cloud) -> None:
    vpc = cloud.vpc()
    blue, green = vpc.subnet("10.0.1.0/24"), vpc.subnet("10.0.2.0/24")
    a, b = vpc.nic(cloud.one, blue), vpc.nic(cloud.two, green)
    guests = cloud.guests(a, b)
    cloud.announce(vpc, router=(blue, green))

    for guest in guests:
        for net in (blue, green):
            result = guest.ping(net.gateway, count=2)
            assert (result.received, result.duplicates) == (2, 0)


def test_the_gateway_of_an_unrouted_subnet_is_not_reached(cloud: Cloud) -> None:
    vpc = cloud.vpc()
    blue, green = vpc.subnet("10.0.1.0/24"), vpc.subnet("10.0.2.0/24")
    a, b = vpc.nic(cloud.one, blue), vpc.nic(cloud.one, green)
    guest, _ = cloud.guests(a, b)
    cloud.announce(vpc)

    assert guest.cannot_reach(green.gateway, for_=0.3)
    assert guest.arp(green.gateway, within=0.3) is None


def test_a_gateway_that_changes_its_address(cloud: Cloud) -> None:
    vpc = cloud.vpc()
    net = vpc.subnet("10.0.1.0/24")
    a = vpc.nic(cloud.one, net)
    guest = cloud.guest(a)
    state = subnet_state(net)
    cloud.one.program(state, port_state(a))
    assert guest.ping(net.gateway).received == 1

    state.configuration.gateway.ip_address = net.at(254)
    cloud.one.program(state)
    assert guest.arp(net.at(254)) == net.gateway_mac
    assert guest.ping(net.at(254)).received == 1
    guest.flush_neighbours()
    assert guest.arp(net.gateway, within=0.3) is None


def test_a_spent_ttl_is_answered_by_the_gateway(cloud: Cloud) -> None:
    vpc = cloud.vpc()
    blue, green = vpc.subnet("10.0.1.0/24"), vpc.subnet("10.0.2.0/24")
    a, b, c = vpc.nic(cloud.one, blue), vpc.nic(cloud.one, green), vpc.nic(cloud.two, green)
    guest, *_ = cloud.guests(a, b, c)
    cloud.announce(vpc, router=(blue, green))

    for target in (b, c):
        spent = guest.ping(target.ip, ttl=1)
        assert [by for by, _ in spent.faults] == [blue.gateway]
        assert "Time to live exceeded" in spent.faults[0][1]
        assert guest.ping(target.ip, ttl=2).received == 1
    # To the gateway itself one hop is enough.
    assert guest.ping(blue.gateway, ttl=1).received == 1
    assert guest.ping(green.gateway, ttl=1).received == 1


def test_traceroute_shows_the_gateway(cloud: Cloud) -> None:
    vpc = cloud.vpc()
    blue, green = vpc.subnet("10.0.1.0/24"), vpc.subnet("10.0.2.0/24")
    a, b, c = vpc.nic(cloud.one, blue), vpc.nic(cloud.one, green), vpc.nic(cloud.two, green)
    guests = dict(zip((a, b, c), cloud.guests(a, b, c), strict=True))
    cloud.announce(vpc, router=(blue, green))

    # What traceroute does: UDP to high ports with rising TTLs; the errors tell who is on the way.
    for source, target in ((a, b), (a, c), (c, a)):
        hops = []
        for ttl in (1, 2):
            probe = udp_frame(source.subnet.gateway_mac, source.mac, source.ip, target.ip, b"hop", ttl=ttl, port=33434)
            with guests[source].capture() as capture:
                guests[source].send_raw(probe)
                (error,) = capture.frames(lambda f: f[12:14] == b"\x08\x00" and f[23] == 1, count=1, within=5.0)
            hops.append((error[34], ".".join(map(str, error[26:30]))))
        assert hops == [(11, source.subnet.gateway), (3, target.ip)]


def test_too_big_for_the_tunnel_is_answered_with_the_mtu(cloud: Cloud) -> None:
    vpc = cloud.vpc()
    blue, green = vpc.subnet("10.0.1.0/24"), vpc.subnet("10.0.2.0/24")
    a, b, c = vpc.nic(cloud.one, blue), vpc.nic(cloud.one, green), vpc.nic(cloud.two, green)
    guest, *_ = cloud.guests(a, b, c, mtu=1500)
    cloud.announce(vpc, router=(blue, green))

    assert guest.ping(c.ip, size=1450 - 28, df=True).received == 1, "exactly what fits"
    big = guest.ping(c.ip, size=1451 - 28, df=True)
    assert big.received == 0
    assert [by for by, _ in big.faults] == [blue.gateway]
    assert "mtu = 1450" in big.faults[0][1]
    assert guest.ping(b.ip, size=1500 - 28, df=True).received == 1, "no tunnel on the way"


def test_too_big_without_df_is_not_lost(cloud: Cloud) -> None:
    vpc = cloud.vpc()
    blue, green = vpc.subnet("10.0.1.0/24"), vpc.subnet("10.0.2.0/24")
    a, c = vpc.nic(cloud.one, blue), vpc.nic(cloud.two, green)
    guest, far = cloud.guests(a, c, mtu=1500)
    cloud.announce(vpc, router=(blue, green))

    frame = udp_frame(blue.gateway_mac, a.mac, a.ip, c.ip, bytes(1400) + b"the end of it" + bytes(40), df=False)
    with far.capture() as capture:
        guest.send_raw(frame)
        assert capture.frames(has(b"the end of it"), count=1, within=2.0)


def test_what_has_no_route_is_answered_unreachable(cloud: Cloud) -> None:
    vpc = cloud.vpc()
    blue, green = vpc.subnet("10.0.1.0/24"), vpc.subnet("10.0.2.0/24")
    a = vpc.nic(cloud.one, blue)
    guest = cloud.guest(a)
    cloud.announce(vpc, router=(blue, green))

    lost = guest.ping("203.0.113.9")
    assert [by for by, _ in lost.faults] == [blue.gateway]
    assert "Unreachable" in lost.faults[0][1]


def test_errors_are_not_answered_with_errors(cloud: Cloud) -> None:
    vpc = cloud.vpc()
    blue, green = vpc.subnet("10.0.1.0/24"), vpc.subnet("10.0.2.0/24")
    a = vpc.nic(cloud.one, blue)
    guest = cloud.guest(a)
    cloud.announce(vpc, router=(blue, green))

    # An ICMP error and a later fragment (RFC 1122 3.2.2) to nowhere, then something that is answered.
    plain = udp_frame(blue.gateway_mac, a.mac, a.ip, "203.0.113.9", b"later fragment")
    head = plain[14:20] + b"\x00\x10" + plain[22:24]
    fragment = plain[:14] + head + _checksum(head + bytes(2) + plain[26:34]) + plain[26:]
    error = ethernet(blue.gateway_mac, a.mac, 0x0800, _icmp_error(plain))
    with guest.capture() as capture:
        guest.send_raw(fragment)
        guest.send_raw(error)
        guest.send_raw(udp_frame(blue.gateway_mac, a.mac, a.ip, "203.0.113.9", b"to be answered"))
        (answer,) = capture.frames(lambda f: f[12:14] == b"\x08\x00" and f[23] == 1, count=1, within=2.0)
        assert b"to be answered" in answer
        assert capture.frames(lambda f: f[12:14] == b"\x08\x00", count=1, within=0.2) == []


def _checksum(header: bytes) -> bytes:
    total = sum(int.from_bytes(header[i : i + 2], "big") for i in range(0, len(header), 2))
    total = (total & 0xFFFF) + (total >> 16)
    return (~((total & 0xFFFF) + (total >> 16)) & 0xFFFF).to_bytes(2, "big")


def _icmp_error(offending: bytes) -> bytes:
    """The IPv4 packet of a "port unreachable" about another frame, from and to the same addresses."""
    head, body = offending[14:34], b"\x03\x03" + bytes(6) + offending[14:42]
    body = body[:2] + _checksum(body) + body[4:]
    head = head[:2] + (20 + len(body)).to_bytes(2, "big") + head[4:9] + b"\x01" + bytes(2) + head[12:]
    return head[:10] + _checksum(head) + head[12:] + body


def test_a_router_without_further_subnets_still_answers(cloud: Cloud) -> None:
    vpc = cloud.vpc()
    net = vpc.subnet("10.0.1.0/24")
    a, b = vpc.nic(cloud.one, net), vpc.nic(cloud.two, net)
    guest, _ = cloud.guests(a, b)
    cloud.announce(vpc)
    cloud.one.program(router_state("empty", []), router_state("lonely", [net]))

    assert guest.ping(net.gateway).received == 1
    assert guest.ping(b.ip).received == 1
