"""What not every data plane can do: it does it, or answers that it cannot."""

from __future__ import annotations

import pytest

from goalstate_proto import common_pb2, gateway_pb2
from tests.conformance.cloud import Cloud
from tests.conformance.network import port_state, subnet_state

pytestmark = pytest.mark.lab


def test_geneve_between_hosts(cloud: Cloud) -> None:
    vpc = cloud.vpc()
    net = vpc.subnet("10.0.1.0/24", network_type=common_pb2.GENEVE)
    other = vpc.subnet("10.0.2.0/24", network_type=common_pb2.GENEVE)
    if cloud.refuses("geneve", "network_type GENEVE is not supported by this kernel", subnet_state(net)):
        # So are the ports in it; what has nothing to do with it is not.
        usual = subnet_state(vpc.subnet("10.0.3.0/24", tunnel_id=77, network_type=common_pb2.VXLAN))
        for site in (site for site in cloud.sites if "geneve" in site.backend.lacks):
            port = port_state(vpc.nic(site, net))
            reply = site.push(subnet_state(net), port, usual)
            assert reply.status(port) == "INVALID_ARG"
            assert "network_type GENEVE is not supported by this kernel" in reply.reason(port)
            assert reply.status(usual) in ("SUCCESS", "")
        return
    a, b, c = vpc.nic(cloud.one, net), vpc.nic(cloud.two, net), vpc.nic(cloud.two, other)
    ga, _, _ = cloud.guests(a, b, c)
    cloud.announce(vpc, router=(net, other))

    with cloud.two.host.capture() as uplink:
        assert ga.ping(b.ip, count=2).received == 2
        wire = uplink.frames(lambda f: f[12:14] == b"\x08\x00" and f[23] == 17, count=1, within=1.0)
    assert int.from_bytes(wire[0][36:38], "big") == 6081, "the UDP port of Geneve"
    assert ga.ping(c.ip, count=2).received == 2


def test_a_port_whose_subnets_have_different_tunnel_ids(cloud: Cloud) -> None:
    vpc = cloud.vpc()
    blue, green = vpc.subnet("10.0.1.0/24"), vpc.subnet("10.0.2.0/24", tunnel_id=vpc.tunnel_id + 0x1000)
    for site in cloud.sites:
        if "two tunnels" in site.backend.lacks:
            site.program(subnet_state(blue), subnet_state(green))
    here, there = (vpc.nic(site, (blue, n), (green, n)) for site, n in ((cloud.one, 50), (cloud.two, 51)))
    for site, nic in zip(cloud.sites, (here, there), strict=True):
        if "two tunnels" in site.backend.lacks:
            cloud.guest(nic)
            assert cloud.refuses("two tunnels", "tunnel", port_state(nic), on=[site])
    others = [vpc.nic(site, net) for site in cloud.sites for net in (blue, green)]
    guests = cloud.guests(*others)
    able = [nic for nic in (here, there) if "two tunnels" not in cloud.site_of(nic).backend.lacks]
    cloud.guests(*able)
    vpc.nics = [*able, *others]
    cloud.announce(vpc)
    for nic in able:
        for guest, other in zip(guests, others, strict=True):
            (own,) = (address for net, address in nic.addresses if net is other.subnet)
            assert guest.ping(own, count=2).received == 2, (own, other)


def test_guests_with_ipv6_addresses(cloud: Cloud) -> None:
    vpc = cloud.vpc()
    net = vpc.subnet("fd00:1::/64")
    a, b, c = vpc.nic(cloud.one, net), vpc.nic(cloud.one, net), vpc.nic(cloud.two, net)
    if cloud.refuses("ipv6", "IPv6", subnet_state(net), port_state(a)):
        return
    guest, *_ = cloud.guests(a, b, c)
    cloud.announce(vpc)
    for other in (b, c):
        assert guest.ping(other.ip, count=2).received == 2


@pytest.mark.parametrize("kind", ["ZETA", "ARION"])
def test_gateways_outside_the_host(cloud: Cloud, kind: str) -> None:
    """Zeta's and Arion's."""
    state = gateway_pb2.GatewayState(operation_type=common_pb2.CREATE)
    number = next(cloud.numbers)
    state.configuration.id = f"gateway-{number}"
    if kind == "ARION":
        state.configuration.gateway_type = gateway_pb2.ARION
        state.configuration.arion_info.vpc_id = f"vpc-{number}"
        state.configuration.arion_info.subnet_id = f"subnet-{number}"
        state.configuration.arion_info.vni = 0x10000 + number
        state.configuration.arion_info.port_inband_operation = 7777
    else:
        state.configuration.gateway_type = gateway_pb2.ZETA
        state.configuration.zeta_info.port_inband_operation = 7777
    state.configuration.destinations.add(ip_address="172.16.0.99", mac_address="02:00:00:00:99:99")
    if not cloud.refuses("gateways", kind, state):
        for site in cloud.sites:
            site.program(state)
