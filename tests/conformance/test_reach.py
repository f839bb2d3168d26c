"""Who reaches whom: subnets, hosts, routers, VPCs."""

from __future__ import annotations

import pytest

from goalstate_proto import common_pb2, neighbor_pb2
from tests.conformance.cloud import Cloud, eventually, isolated, severed, together
from tests.conformance.frames import is_arp
from tests.conformance.network import deletion, neighbor_state, port_state, router_state, subnet_state
from tests.lab.traffic import transfer
from tests.lab.wire import arp_request

pytestmark = pytest.mark.lab


def test_same_subnet_on_one_host_and_across_hosts(cloud: Cloud) -> None:
    vpc = cloud.vpc()
    net = vpc.subnet("10.0.1.0/24")
    a, b, c = vpc.nic(cloud.one, net), vpc.nic(cloud.one, net), vpc.nic(cloud.two, net)
    here, beside, away = cloud.guests(a, b, c)
    cloud.announce(vpc)

    for guest, other in ((here, b), (here, c), (beside, c), (away, a)):
        result = guest.ping(other.ip, count=3)
        assert (result.received, result.duplicates) == (3, 0)
        assert set(result.ttls) == {64}, "not routed"
        assert guest.arp(other.ip) == other.mac


def test_routed_on_one_host_and_across_hosts(cloud: Cloud) -> None:
    vpc = cloud.vpc()
    blue, green = vpc.subnet("10.0.1.0/24"), vpc.subnet("10.0.2.0/24")
    a, b, c, d = (vpc.nic(site, net) for site in cloud.sites for net in (blue, green))
    guests = dict(zip((a, b, c, d), cloud.guests(a, b, c, d), strict=True))
    cloud.announce(vpc, router=(blue, green))

    for source, target in ((a, b), (a, d), (b, a), (b, c), (c, b), (d, a), (c, d)):
        result = guests[source].ping(target.ip, count=2)
        assert (result.received, result.duplicates) == (2, 0)
        assert set(result.ttls) == {63}, "routed exactly once each way"
    for source, target in ((a, c), (b, d)):
        assert set(guests[source].ping(target.ip, count=2).ttls) == {64}, "within the subnet, not routed"


def test_routed_with_one_segment_per_subnet(cloud: Cloud) -> None:
    vpc = cloud.vpc()
    blue, green = vpc.subnet("10.0.1.0/24"), vpc.subnet("10.0.2.0/24", tunnel_id=vpc.tunnel_id + 0x1000)
    a, b, c, d = (vpc.nic(site, net) for site in cloud.sites for net in (blue, green))
    ga, gb, gc, gd = cloud.guests(a, b, c, d)
    cloud.announce(vpc, router=(blue, green))

    for guest, target in ((ga, b), (ga, c), (ga, d), (gb, d), (gc, b), (gd, a)):
        assert guest.ping(target.ip, count=2).received == 2


def test_routed_frames_come_from_the_guests_own_gateway(cloud: Cloud) -> None:
    vpc = cloud.vpc()
    blue, green = vpc.subnet("10.0.1.0/24"), vpc.subnet("10.0.2.0/24")
    a, b, c = vpc.nic(cloud.one, blue), vpc.nic(cloud.one, green), vpc.nic(cloud.two, green)
    ga, gb, gc = cloud.guests(a, b, c)
    common = cloud.announce(vpc, router=(blue, green))
    dvr = router_state(common[-1].configuration.id, (blue, green), dvr_mac="fe:16:11:00:00:01")
    for site in cloud.sites:
        site.program(dvr)

    for guest, target in ((gb, b), (gc, c)):
        with guest.capture() as capture:
            assert ga.ping(target.ip).received == 1
            (frame,) = capture.frames(lambda f: f[12:14] == b"\x08\x00", count=1, within=1.0)
        assert frame[6:12].hex(":") == green.gateway_mac
        assert frame[0:6].hex(":") == target.mac


def test_vpcs_do_not_see_each_other(cloud: Cloud) -> None:
    reds, blues = cloud.vpc(), cloud.vpc()
    red, blue = reds.subnet("10.0.1.0/24"), blues.subnet("10.0.1.0/24")
    r1, r2 = reds.nic(cloud.one, red), reds.nic(cloud.two, red)
    b1, b2 = blues.nic(cloud.one, (blue, 21)), blues.nic(cloud.two, (blue, 22))
    guest, _, stranger, far_stranger = cloud.guests(r1, r2, b1, b2)
    cloud.announce(reds)
    cloud.announce(blues)
    guest.add_static_neigh(b1.ip, b1.mac)
    guest.add_static_neigh(b2.ip, b2.mac)

    with stranger.capture() as near, far_stranger.capture() as far:
        assert isolated((guest, b1.ip), (guest, b2.ip))
        guest.send_raw(arp_request(r1.mac, r1.ip, red.at(99)))
        assert near.frames(count=1, within=0.3) == []
        assert far.frames(count=1, within=0.1) == []
    assert guest.can_reach(r2.ip)


@pytest.mark.parametrize("same_macs", [False, True], ids=["own-macs", "same-macs"])
def test_two_vpcs_with_the_same_addresses_on_one_host(cloud: Cloud, same_macs: bool) -> None:
    vpcs = cloud.vpc(), cloud.vpc()
    pairs = []
    for vpc in vpcs:
        net, other = vpc.subnet("10.0.1.0/24"), vpc.subnet("10.0.2.0/24")
        places = ((cloud.one, net), (cloud.one, net), (cloud.two, net), (cloud.two, other))
        nics = [
            vpc.nic(site, subnet, mac=f"aa:bb:cc:00:01:{n:02x}" if same_macs else "")
            for n, (site, subnet) in enumerate(places)
        ]
        pairs.append((nics, cloud.guests(*nics)))
        cloud.announce(vpc, router=(net, other))

    for nics, guests in pairs:
        for target, owner in zip(nics[1:], guests[1:], strict=True):
            with owner.capture() as capture:
                assert guests[0].ping(target.ip).received == 1
                assert capture.frames(lambda f: f[23:24] == b"\x01", count=1, within=1.0), "the own VPC's guest got it"
        assert guests[0].arp(nics[1].ip) == nics[1].mac
        assert guests[0].arp(nics[2].ip) == nics[2].mac


def test_unrouted_subnets_of_one_segment_do_not_see_each_other(cloud: Cloud) -> None:
    vpc = cloud.vpc()
    blue, green = vpc.subnet("10.0.1.0/24"), vpc.subnet("10.0.2.0/24")
    a, b, c, d = (vpc.nic(site, net) for site in cloud.sites for net in (blue, green))
    ga, gb, gc, gd = cloud.guests(a, b, c, d)
    cloud.announce(vpc)

    assert isolated((ga, b.ip), (ga, d.ip))
    # As if they were one network: on the link, with a known MAC.
    ways = [(ga, b), (ga, d), (gb, a), (gb, c)]
    for guest, other in ways:
        guest.namespace.ip(f"route add {other.ip}/32 dev eth0")
    assert together(*(lambda g=g, o=o: g.arp(o.ip, within=0.3) for g, o in ways)) == [None] * 4
    for guest, other in ways:
        guest.add_static_neigh(other.ip, other.mac)
    captures = [owner.capture() for owner in (ga, gb, gc, gd)]
    assert isolated(*((guest, other.ip) for guest, other in ways))
    for capture in captures:
        # Who asks for the MAC of its own gateway hears the answer to that.
        assert capture.frames(lambda f: not is_arp(f), count=1, within=0.1) == []
        capture.close()

    with gb.capture() as near, gd.capture() as far, ga.capture() as member:
        gc.send_raw(arp_request(c.mac, c.ip, blue.at(99)))
        assert len(member.frames(count=1, within=1.0)) == 1
        assert near.frames(count=1, within=0.3) == []
        assert far.frames(count=1, within=0.1) == []


def test_a_router_joins_subnets_that_did_not_see_each_other(cloud: Cloud) -> None:
    vpc = cloud.vpc()
    blue, green = vpc.subnet("10.0.1.0/24"), vpc.subnet("10.0.2.0/24")
    a, b, c = vpc.nic(cloud.one, blue), vpc.nic(cloud.one, green), vpc.nic(cloud.two, green)
    ga, _, _ = cloud.guests(a, b, c)
    cloud.announce(vpc)
    assert all(together(lambda: severed(ga, b.ip), lambda: severed(ga, c.ip)))

    router = router_state("joins", (blue, green))
    for site in cloud.sites:
        site.program(router)
    assert ga.can_reach(b.ip)
    assert ga.can_reach(c.ip)

    for site in cloud.sites:
        site.program(deletion(router))
    assert all(together(lambda: severed(ga, b.ip), lambda: severed(ga, c.ip)))


def test_encapsulations_that_are_not_done_are_refused(cloud: Cloud) -> None:
    vpc = cloud.vpc()
    good = vpc.subnet("10.0.9.0/24")
    for network_type in (common_pb2.VLAN, common_pb2.GRE, common_pb2.VXLAN_GPE):
        name = common_pb2.NetworkType.Name(network_type)
        state = subnet_state(vpc.subnet("10.0.1.0/24", tunnel_id=77, network_type=network_type))
        reply = cloud.one.push(state, subnet_state(good))
        assert reply.status(state) == "INVALID_ARG"
        assert name in reply.reason(state)
        assert reply.status(subnet_state(good)) in ("SUCCESS", "")


def test_a_port_with_addresses_in_two_subnets(cloud: Cloud) -> None:
    vpc = cloud.vpc()
    blue, green = vpc.subnet("10.0.1.0/24"), vpc.subnet("10.0.2.0/24")
    both = vpc.nic(cloud.one, (blue, 50), (green, 50))
    others = [vpc.nic(site, net) for site in cloud.sites for net in (blue, green)]
    guest, *_ = cloud.guests(both, *others)
    cloud.announce(vpc)

    for other in others:
        assert guest.ping(other.ip, count=2).received == 2, other
        assert guest.arp(other.ip) in (other.mac, None)
        assert set(guest.ping(other.ip).ttls) == {64}


def test_a_neighbour_with_addresses_in_two_subnets(cloud: Cloud) -> None:
    vpc = cloud.vpc()
    blue, green = vpc.subnet("10.0.1.0/24"), vpc.subnet("10.0.2.0/24")
    both = vpc.nic(cloud.two, (blue, 50), (green, 50))
    a, b = vpc.nic(cloud.one, blue), vpc.nic(cloud.one, green)
    guest, ga, gb = cloud.guests(both, a, b)
    cloud.announce(vpc)

    assert ga.ping(both.addresses[0][1], count=2).received == 2
    assert gb.ping(both.addresses[1][1], count=2).received == 2
    assert guest.ping(a.ip).received == 1


def test_a_neighbour_outside_its_subnets_prefix(cloud: Cloud) -> None:
    vpc = cloud.vpc()
    blue, green = vpc.subnet("10.0.1.0/24"), vpc.subnet("10.0.2.0/24")
    a = vpc.nic(cloud.one, blue)
    odd = vpc.nic(cloud.two, green).but(addresses=((green, "10.7.7.7"),))
    vpc.nics[-1] = odd
    guest, stranger = cloud.guests(a, odd)
    stranger.run("ip", "route", "replace", "default", "via", green.gateway, "dev", "eth0", "onlink")
    cloud.announce(vpc, router=(blue, green))

    assert guest.ping("10.7.7.7", count=2).received == 2


def test_a_neighbour_that_moves_to_another_host(cloud: Cloud) -> None:
    vpc = cloud.vpc()
    net = vpc.subnet("10.0.1.0/24")
    a, b = vpc.nic(cloud.one, net), vpc.nic(cloud.two, net)
    guest, was = cloud.guests(a, b)
    cloud.announce(vpc)
    assert guest.ping(b.ip).received == 1

    # Host one is told that it is here now, then it really comes; host two hears of it last.
    here = b.but(host_ip=cloud.one.ip)
    cloud.two.program(deletion(port_state(b)))
    cloud.remove(was)
    cloud.guest(here)
    cloud.one.program(port_state(here), neighbor_state(here))
    assert guest.can_reach(b.ip)
    cloud.two.program(neighbor_state(here))

    far = vpc.nic(cloud.two, (net, 77))
    third = cloud.guest(far)
    for site in cloud.sites:
        site.program(neighbor_state(far))
    cloud.two.program(port_state(far))
    assert third.ping(b.ip).received == 1


def test_a_guest_that_moves_there_and_back(cloud: Cloud) -> None:
    """Behind a router; each host hears of it in its own time."""
    vpc = cloud.vpc()
    blue, green = vpc.subnet("10.0.1.0/24"), vpc.subnet("10.0.2.0/24")
    a, b, moving = vpc.nic(cloud.one, blue), vpc.nic(cloud.two, green), vpc.nic(cloud.two, (green, 50))
    near, far, guest = cloud.guests(a, b, moving)
    cloud.announce(vpc, router=(blue, green))
    for source, target in ((cloud.two, cloud.one), (cloud.one, cloud.two)):
        assert near.can_reach(moving.ip)
        assert far.can_reach(moving.ip)
        here = moving.but(host_ip=target.ip)
        source.program(deletion(port_state(moving)))
        cloud.remove(guest)
        guest = cloud.guest(here)
        target.program(port_state(here), neighbor_state(here, layer=neighbor_pb2.L3))
        source.program(neighbor_state(here, layer=neighbor_pb2.L3))
    for other in (near, far):
        other.flush_neighbours()
        assert other.can_reach(moving.ip)
        assert other.ping(moving.ip, count=3).duplicates == 0
    assert set(near.ping(moving.ip, count=2).ttls) == {63}
    assert set(far.ping(moving.ip, count=2).ttls) == {64}


def test_a_neighbour_whose_host_changes(cloud: Cloud) -> None:
    vpc = cloud.vpc()
    net = vpc.subnet("10.0.1.0/24")
    a, b = vpc.nic(cloud.one, net), vpc.nic(cloud.two, net)
    guest, _ = cloud.guests(a, b)
    cloud.announce(vpc)
    cloud.one.program(neighbor_state(b.but(host_ip="172.16.0.77")))
    assert severed(guest, b.ip)

    cloud.one.program(neighbor_state(b))
    assert guest.can_reach(b.ip)


def test_a_neighbour_that_changes_its_mac(cloud: Cloud) -> None:
    vpc = cloud.vpc()
    net = vpc.subnet("10.0.1.0/24")
    a, b = vpc.nic(cloud.one, net), vpc.nic(cloud.two, net)
    guest, other = cloud.guests(a, b)
    cloud.announce(vpc)
    assert guest.arp(b.ip) == b.mac

    new = b.but(mac="aa:bb:cc:dd:ee:01")
    other.set_mac(new.mac)
    cloud.two.program(port_state(new), neighbor_state(new))
    cloud.one.program(neighbor_state(new))
    guest.flush_neighbours()
    assert guest.arp(b.ip) == new.mac
    assert guest.ping(b.ip).received == 1


def test_a_port_that_changes_its_mac_and_address(cloud: Cloud) -> None:
    vpc = cloud.vpc()
    net = vpc.subnet("10.0.1.0/24")
    a, b, c = vpc.nic(cloud.one, net), vpc.nic(cloud.one, net), vpc.nic(cloud.two, net)
    changing, near, far = cloud.guests(a, b, c)
    cloud.announce(vpc)
    assert near.ping(a.ip).received == 1

    new = a.but(mac="aa:bb:cc:dd:ee:02", addresses=((net, net.at(99)),))
    for site in cloud.sites:
        site.program(neighbor_state(new))
    cloud.one.program(port_state(new))
    changing.set_mac(new.mac)
    changing.remove_ip(net.with_length(a.ip))
    changing.add_ip(net.with_length(new.ip))
    for guest in (near, far):
        assert guest.ping(new.ip, count=2).received == 2
        guest.flush_neighbours()
        assert guest.arp(a.ip, within=0.3) is None, "nobody has the old address"


def test_admin_state_down_stops_traffic_and_up_brings_it_back(cloud: Cloud) -> None:
    vpc = cloud.vpc()
    net = vpc.subnet("10.0.1.0/24")
    a, b, c = vpc.nic(cloud.one, net), vpc.nic(cloud.one, net), vpc.nic(cloud.two, net)
    down, near, far = cloud.guests(a, b, c)
    cloud.announce(vpc)
    assert near.ping(a.ip).received == 1
    assert far.ping(a.ip).received == 1

    cloud.one.program(port_state(a, up=False))
    ways = ((near, a.ip), (far, a.ip), (down, b.ip))
    assert all(together(*(lambda g=g, ip=ip: severed(g, ip) for g, ip in ways)))
    with down.capture() as capture:
        far.send_raw(arp_request(c.mac, c.ip, net.at(88)))
        assert capture.frames(count=1, within=0.3) == []

    cloud.one.program(port_state(a, up=True))
    for guest in (near, far):
        assert guest.can_reach(a.ip, within=2.0)


def test_deleted_neighbours_and_ports_are_not_reached_any_more(cloud: Cloud) -> None:
    vpc = cloud.vpc()
    net = vpc.subnet("10.0.1.0/24")
    a, b, c, d = vpc.nic(cloud.one, net), vpc.nic(cloud.one, net), vpc.nic(cloud.two, net), vpc.nic(cloud.two, net)
    guest, *_ = cloud.guests(a, b, c, d)
    cloud.announce(vpc)
    assert all(guest.ping(nic.ip).received for nic in (b, c, d))

    cloud.one.program(deletion(neighbor_state(c)), deletion(port_state(b)))

    guest.flush_neighbours()
    for gone in (b, c):
        guest.add_static_neigh(gone.ip, gone.mac)
    assert all(together(lambda: severed(guest, b.ip), lambda: severed(guest, c.ip)))
    assert guest.ping(d.ip).received == 1
    eventually(lambda: guest.ping(d.ip).received == 1, "others go on working")


@pytest.mark.parametrize("routed", [False, True], ids=["same-subnet", "routed"])
def test_fragments_and_bulk_arrive(cloud: Cloud, routed: bool) -> None:
    vpc = cloud.vpc()
    blue, green = vpc.subnet("10.0.1.0/24"), vpc.subnet("10.0.2.0/24")
    target = green if routed else blue
    a, b, c = vpc.nic(cloud.one, blue), vpc.nic(cloud.one, target), vpc.nic(cloud.two, target)
    guest, near, far = cloud.guests(a, b, c)
    cloud.announce(vpc, router=(blue, green))
    for nic, other in ((b, near), (c, far)):
        assert guest.ping(nic.ip, size=5000, count=2).received == 2
        assert transfer(guest, other, nic.ip, size=1 << 20) > 0


def test_a_guest_reaches_its_own_second_network_only_through_itself(cloud: Cloud) -> None:
    """A port in two unrouted subnets does not join them."""
    vpc = cloud.vpc()
    blue, green = vpc.subnet("10.0.1.0/24"), vpc.subnet("10.0.2.0/24")
    both = vpc.nic(cloud.one, (blue, 50), (green, 50))
    a, b = vpc.nic(cloud.one, blue), vpc.nic(cloud.two, green)
    _, ga, gb = cloud.guests(both, a, b)
    cloud.announce(vpc)
    assert ga.ping(both.addresses[0][1]).received == 1
    assert gb.ping(both.addresses[1][1]).received == 1
    assert ga.cannot_reach(b.ip, for_=0.3)
    with gb.capture() as capture:
        ga.send_raw(arp_request(a.mac, a.ip, blue.at(99)))
        assert capture.frames(count=1, within=0.3) == []


def test_a_port_in_two_subnets_behind_a_router(cloud: Cloud) -> None:
    vpc = cloud.vpc()
    blue, green, red = (vpc.subnet(f"10.0.{n}.0/24") for n in (1, 2, 3))
    both = vpc.nic(cloud.one, (blue, 50), (green, 50))
    near, far = vpc.nic(cloud.one, red), vpc.nic(cloud.two, red)
    guest, *others = cloud.guests(both, near, far)
    cloud.announce(vpc, router=(blue, green, red))
    for other in others:
        for _, address in both.addresses:
            assert other.ping(address, count=2).received == 2
    for net in (blue, green):
        assert guest.ping(net.gateway).received == 1
