"""A guest that asks for its address."""

from __future__ import annotations

import shutil
import socket
import struct

import pytest

from tests.conformance.cloud import Cloud, together
from tests.conformance.frames import ethernet, ip_packet
from tests.conformance.network import Nic, deletion, dhcp_state, port_state, subnet_state
from tests.lab import CommandError, Guest
from tests.lab.wire import mac_bytes

pytestmark = [
    pytest.mark.lab,
    pytest.mark.skipif(shutil.which("udhcpc") is None, reason="udhcpc is not installed"),
]

# The client runs this with what it was given in its environment.
SCRIPT = """#!/bin/sh
[ "$1" = bound ] || exit 0
echo "got ip=$ip subnet=$subnet router=$router dns=$dns mtu=$mtu hostname=$hostname serverid=$serverid"
ip addr add "$ip/$mask" dev eth0
ip route replace default via "$router" dev eth0 onlink
"""


def lease(guest: Guest, *options: str) -> dict[str, str]:
    """Lease an address and take it; what was given, empty if nothing."""
    script = guest.host.directory / f"{guest.device}-lease.sh"
    script.write_text(SCRIPT)
    script.chmod(0o755)
    client = ("udhcpc", "-i", "eth0", "-n", "-q", "-f", "-t", "2", "-T", "1", "-s", str(script), *options)
    try:
        output = guest.run(*client, timeout=20.0)
    except CommandError as error:
        if "no lease" not in error.output:
            raise
        return {}
    (line,) = [line for line in output.splitlines() if line.startswith("got ")]
    return dict(pair.partition("=")[::2] for pair in line.removeprefix("got ").split(" ") if "=" in pair)


def test_a_guest_leases_its_address(cloud: Cloud) -> None:
    vpc = cloud.vpc()
    net = vpc.subnet("10.0.1.0/24")
    a, b = vpc.nic(cloud.one, net), vpc.nic(cloud.two, net)
    bare = cloud.guest(a, addressed=False)
    cloud.guest(b)
    cloud.announce(vpc)
    subnet = subnet_state(net)
    subnet.configuration.dhcp_enable = True
    subnet.configuration.dns_entry_list.add(entry="198.51.100.53")
    cloud.one.program(subnet, dhcp_state(a, name="web-1"))

    got = lease(bare, "-O", "mtu", "-O", "hostname")
    assert got["ip"] == a.ip
    assert got["subnet"] == "255.255.255.0"
    assert got["router"] == net.gateway
    assert got["dns"] == "198.51.100.53"
    assert got["mtu"] == "1450"
    assert got["hostname"] == "web-1"
    assert bare.ping(b.ip).received == 1
    assert bare.ping(net.gateway).received == 1


def test_no_binding_no_lease(cloud: Cloud) -> None:
    vpc = cloud.vpc()
    net = vpc.subnet("10.0.1.0/24")
    a, b = vpc.nic(cloud.one, net), vpc.nic(cloud.one, net)
    without, having = cloud.guests(a, b, addressed=False)
    cloud.one.program(subnet_state(net), port_state(a), port_state(b), dhcp_state(b))
    nothing, something = together(lambda: lease(without), lambda: lease(having))
    assert nothing == {}
    assert something["ip"] == b.ip

    cloud.one.program(deletion(dhcp_state(b)))
    having.namespace.ip("addr flush dev eth0")
    assert lease(having) == {}


def test_a_binding_before_its_port_and_device(cloud: Cloud) -> None:
    vpc = cloud.vpc()
    net = vpc.subnet("10.0.1.0/24")
    a = vpc.nic(cloud.one, net)
    cloud.one.program(dhcp_state(a))
    assert cloud.one.push(subnet_state(net), port_state(a)).status(port_state(a)) == "PENDING"
    guest = cloud.guest(a, addressed=False)
    cloud.one.wait_programmed(port_state(a))
    assert lease(guest)["ip"] == a.ip


def test_a_binding_that_changes(cloud: Cloud) -> None:
    vpc = cloud.vpc()
    net = vpc.subnet("10.0.1.0/24")
    a = vpc.nic(cloud.one, net)
    guest = cloud.guest(a, addressed=False)
    cloud.one.program(subnet_state(net), port_state(a), dhcp_state(a))
    assert lease(guest)["ip"] == a.ip
    guest.namespace.ip("addr flush dev eth0")
    new = a.but(addresses=((net, net.at(77)),))
    cloud.one.program(port_state(new), dhcp_state(new))
    assert lease(guest)["ip"] == net.at(77)


def test_a_lease_is_renewed_at_the_server_itself(cloud: Cloud) -> None:
    """By unicast (RFC 2131, 4.3.2, RENEWING), to an address that answers pings as well."""
    vpc = cloud.vpc()
    net = vpc.subnet("10.0.1.0/24")
    a = vpc.nic(cloud.one, net)
    guest = cloud.guest(a)
    cloud.one.program(subnet_state(net), port_state(a), dhcp_state(a))
    assert guest.ping(net.gateway).received == 1
    with guest.capture() as capture:
        guest.send_raw(renewal(a))
        (answer,) = capture.frames(lambda f: f[23:24] == b"\x11", count=1, within=2.0)
    assert answer[:6].hex(":") == a.mac
    assert answer[6:12].hex(":") == net.gateway_mac
    message = answer[42:]
    assert message[:4] == b"\x02\x01\x06\x00"
    assert message[16:20] == socket.inet_aton(a.ip)
    assert b"\x35\x01\x05" in message[240:], "an acknowledgement"


def renewal(nic: Nic) -> bytes:
    """A request for the address that the interface has, to its gateway."""
    message = b"\x01\x01\x06\x00" + b"\x12\x34\x56\x78" + bytes(4) + socket.inet_aton(nic.ip) + bytes(12)
    message += mac_bytes(nic.mac).ljust(208, b"\0") + b"\x63\x82\x53\x63" + b"\x35\x01\x03" + b"\xff"
    udp = struct.pack("!HHHH", 68, 67, 8 + len(message), 0) + message
    packet = ip_packet(nic.ip, nic.subnet.gateway, socket.IPPROTO_UDP, udp)
    return ethernet(nic.subnet.gateway_mac, nic.mac, 0x0800, packet)


def test_a_client_hears_only_its_own_server(cloud: Cloud) -> None:
    vpc = cloud.vpc()
    net = vpc.subnet("10.0.1.0/24")
    a, b, c = vpc.nic(cloud.one, net), vpc.nic(cloud.one, net), vpc.nic(cloud.two, net)
    asking, near, far = cloud.guest(a, addressed=False), *cloud.guests(b, c)
    cloud.announce(vpc)
    cloud.one.program(dhcp_state(a))
    with near.capture() as beside, far.capture() as away:
        assert lease(asking)["ip"] == a.ip
        for capture in (beside, away):
            dhcp = capture.frames(lambda f: f[23] == 17 and f[34:36] in (b"\x00\x43", b"\x00\x44"), count=1, within=0.1)
            assert dhcp == [], "neither the question nor the answer is for others"
