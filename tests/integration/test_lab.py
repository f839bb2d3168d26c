"""The lab itself: hosts, guests and tunnels carry traffic, and nothing is left behind."""

import os
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from tests.lab import AgentProcess, Guest, GuestSpec, Host, Lab, LabError
from tests.lab.toml import dumps
from tests.lab.traffic import transfer
from tests.lab.wire import arp_request, mac_bytes

pytestmark = pytest.mark.lab

REPOSITORY = Path(__file__).resolve().parents[2]

# Stands in for an agent: serves the health service, ends well on SIGTERM.
FAKE_AGENT = """
import signal, sys, threading, tomllib
from concurrent import futures
import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
config = tomllib.load(open(sys.argv[-1], "rb"))
over = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: over.set())
if config["host"]["id"] == "broken":
    sys.exit("no such data plane")
server = grpc.server(futures.ThreadPoolExecutor(2))
service = health.HealthServicer()
service.set("", health_pb2.HealthCheckResponse.SERVING)
health_pb2_grpc.add_HealthServicer_to_server(service, server)
server.add_insecure_port(config["grpc"]["listen"])
server.start()
while not over.wait(0.05):
    pass
server.stop(0)
sys.exit(7)
"""


def switch(host: Host) -> None:
    """A plain learning switch as the integration bridge."""
    host.vsctl("add-br", "br-int", "--", "set", "bridge", "br-int", "datapath_type=netdev", "fail_mode=standalone")


def tunnel(host: Host, *others: Guest) -> None:
    """A flow-based VXLAN port, and flows that know on which host each of the others' guests is."""
    host.vsctl(
        *("add-port", "br-int", "vxlan0", "--", "set", "interface", "vxlan0", "type=vxlan"),
        *("ofport_request=100", "options:remote_ip=flow", "options:key=flow"),
        f"options:local_ip={host.underlay_ip}",
    )
    to_all = ""
    for guest in others:
        there = f"set_field:7->tun_id,set_field:{guest.host.underlay_ip}->tun_dst,output:100"
        host.ofctl("add-flow", "br-int", f"priority=10,dl_dst={guest.mac},actions={there}")
        to_all += f",{there}"
    host.ofctl("add-flow", "br-int", f"priority=9,dl_dst=ff:ff:ff:ff:ff:ff,actions=normal{to_all}")
    host.ofctl("add-flow", "br-int", "priority=11,in_port=100,actions=normal")


def pair(host: Host) -> tuple[Guest, Guest]:
    """Two guests on a plain switch."""
    switch(host)
    one, two = host.guests(
        [
            GuestSpec("port-1", "02:00:00:00:00:01", ("10.0.0.1/24",)),
            GuestSpec("port-2", "02:00:00:00:00:02", ("10.0.0.2/24",)),
        ]
    )
    return one, two


def test_two_guests_of_one_host(lab: Lab) -> None:
    one, two = pair(lab.host("h1"))

    result = one.ping(two.ip, count=3)

    assert (result.sent, result.received, len(result.rtts), result.duplicates) == (3, 3, 3, 0)
    assert one.arp(two.ip) == two.mac
    assert one.can_reach(two.ip)
    assert one.cannot_reach("10.0.0.77", for_=0.3)
    assert one.arp("10.0.0.77", within=0.3) is None
    assert not one.can_reach("10.0.0.77", within=0.3)


def test_cannot_reach_needs_a_way_to_send(lab: Lab) -> None:
    one, _ = pair(lab.host("h1"))

    with pytest.raises(LabError, match="sent nothing"):
        one.cannot_reach("192.168.1.1")


def test_two_hosts_over_a_tunnel(lab: Lab) -> None:
    h1, h2 = lab.host("h1"), lab.host("h2")
    for host in (h1, h2):
        switch(host)
    one = h1.guest("port-1", mac="02:00:00:00:00:01", ips=("10.0.0.1/24",), mtu=1500)
    two = h2.guest("port-2", mac="02:00:00:00:00:02", ips=("10.0.0.2/24",), mtu=1500)
    tunnel(h1, two)
    tunnel(h2, one)

    assert one.ping(two.ip, count=3).received == 3, "not even the first packet may be lost"
    assert one.ping(two.ip, size=1472, df=True).received == 1
    too_big = one.ping(two.ip, size=1473, df=True)
    assert (too_big.received, "mtu=1500" in too_big.output) == (0, True)
    assert transfer(one, two, two.ip, size=1 << 20) > 0

    h2.underlay_down()
    assert one.cannot_reach(two.ip, for_=0.5)
    h2.underlay_up()
    assert one.can_reach(two.ip)


def test_a_switch_that_crashes_comes_back_with_its_underlay(lab: Lab) -> None:
    h1, h2 = lab.host("h1"), lab.host("h2")
    for host in (h1, h2):
        switch(host)
    one = h1.guest("port-1", mac="02:00:00:00:00:01", ips=("10.0.0.1/24",))
    two = h2.guest("port-2", mac="02:00:00:00:00:02", ips=("10.0.0.2/24",))
    tunnel(h1, two)
    tunnel(h2, one)
    assert one.can_reach(two.ip)
    ways: list[Callable[[], None]] = [h1.ovs.vswitchd.kill, h1.ovs.vswitchd.stop]

    for end in ways:
        end()
        assert not h1.ovs.vswitchd.running
        h1.vsctl("set", "bridge", "br-int", "external_ids:touched=yes")  # does not wait for the dead
        h1.ovs.vswitchd.start()
        h1.vsctl("del-port", "vxlan0")
        tunnel(h1, two)
        assert one.ping(two.ip, count=3).received == 3


def test_the_database_can_restart_by_itself(lab: Lab) -> None:
    host = lab.host("h1")
    one, two = pair(host)
    switch_pid = host.vswitchd_pid

    # Without its database's lock the switch polls no port in user space: no traffic meanwhile (not so in the kernel).
    host.ovs.ovsdb.kill()
    assert not host.ovs.ovsdb.running
    host.ovs.ovsdb.start()

    assert one.can_reach(two.ip)

    assert host.vsctl("list-br").split() == ["br-int", "br-phy"]
    assert host.vswitchd_pid == switch_pid


def test_hosts_and_the_fabric_talk_tcp(lab: Lab) -> None:
    hosts = [lab.host(f"h{n}") for n in (1, 2)]
    other = lab.host("h3", dataplane="none")

    for host in [*hosts, other]:
        assert "0% packet loss" in lab.fabric.run("ping", "-n", "-c1", "-W2", host.underlay_ip)
        assert transfer(lab.fabric, host.namespace, host.underlay_ip, size=1 << 18) > 0
    assert "0% packet loss" in hosts[0].run("ping", "-n", "-c1", "-W2", other.underlay_ip)


def test_fifty_guests_at_once(lab: Lab) -> None:
    host = lab.host("h1")
    switch(host)
    specs = [GuestSpec(f"{n:08x}-cafe", f"02:00:00:00:01:{n:02x}", (f"10.0.0.{n}/24",)) for n in range(1, 51)]

    guests = host.guests(specs)

    listed = host.vsctl("--bare", "--columns=ofport", "list", "interface", *(g.device for g in guests))
    assert len({int(port) for port in listed.split()}) == 50
    assert min(int(port) for port in listed.split()) > 0
    for guest in guests[1:]:
        assert guest.can_reach(guests[0].ip)


def test_a_guest_attaches_like_one_of_nova(lab: Lab) -> None:
    host = lab.host("h1")
    switch(host)
    guest = host.guest("0123456789abcdef", mac="02:00:00:00:00:01", ips=(), attach=False)
    assert guest.device in host.devices()
    assert host.vsctl("list-ports", "br-int") == ""

    guest.attach()
    assert host.vsctl("list-ports", "br-int").split() == ["tap0123456789a"]
    found = host.vsctl("--bare", "--columns=name", "find", "interface", "external_ids:iface-id=0123456789abcdef")
    assert found.strip() == "tap0123456789a"
    attached = host.vsctl("get", "interface", guest.device, "external_ids:attached-mac")
    assert attached.strip().strip('"') == "02:00:00:00:00:01"

    guest.remove()
    assert host.vsctl("list-ports", "br-int") == ""
    assert guest.device not in host.devices()
    assert not guest.namespace.path.exists()


def test_a_wire_can_be_pulled_and_plugged(lab: Lab) -> None:
    host = lab.host("h1")
    one, two = pair(host)

    two.unplug()
    assert host.vsctl("list-ports", "br-int").split() == [one.device, two.device]
    assert one.cannot_reach(two.ip, for_=0.3)
    two.plug()
    two.detach()
    two.attach()
    assert one.can_reach(two.ip)


def test_settings_of_a_guest(lab: Lab) -> None:
    host = lab.host("h1")
    switch(host)
    one = host.guest("port-1", mac="02:00:00:00:00:01", ips=("10.0.0.1/24", "fd00::1/64"), gateway="10.0.0.2")
    two = host.guest("port-2", mac="02:00:00:00:00:02", ips=("10.0.0.2/24", "fd00::2/64"))
    three = host.guest("port-3", mac="02:00:00:00:00:03", ips=())

    two.add_ip("192.168.9.9/32")
    assert one.can_reach("192.168.9.9"), "through the default route"
    assert one.can_reach("fd00::2")
    assert three.arp(one.ip) == one.mac, "a probe needs no address of one's own"

    one.add_static_neigh("10.0.0.2", "02:00:00:00:00:99")
    assert one.cannot_reach("10.0.0.2", for_=0.3)
    one.add_static_neigh("10.0.0.2", two.mac)
    assert one.can_reach("10.0.0.2")


def test_no_guest_says_anything_unasked(lab: Lab) -> None:
    host = lab.host("h1")
    switch(host)
    quiet = host.guest("port-1", mac="02:00:00:00:00:01", ips=("10.0.0.1/24",))

    with quiet.capture() as capture:
        host.guest("port-2", mac="02:00:00:00:00:02", ips=("10.0.0.2/24",))
        assert capture.frames(count=1, within=0.5) == []


def test_raw_frames_arrive_as_they_were_sent(lab: Lab) -> None:
    one, two = pair(lab.host("h1"))
    plain = mac_bytes(two.mac) + mac_bytes(one.mac) + b"\x88\xb5" + bytes(range(60))
    tagged = plain[:12] + b"\x81\x00\x60\x05" + plain[12:]
    request = arp_request(one.mac, one.ip, two.ip)

    with two.capture() as capture:
        for frame in (plain, tagged, request):
            one.send_raw(frame)
        assert capture.frames(count=3, within=2.0) == [plain, tagged, request]
        assert capture.frames(count=1, within=0.2) == [], "what the guest itself sends is not received"


def test_a_running_ping_tells_losses_from_none(lab: Lab) -> None:
    host = lab.host("h1")
    one, two = pair(host)

    running = one.start_ping(two.ip, interval=0.02)
    running.wait_replies(20)
    calm = running.stop()
    assert calm.sent >= 20
    assert calm.lost == ()

    running = one.start_ping(two.ip, interval=0.02)
    running.wait_replies(5)
    two.link_down()
    assert one.cannot_reach(two.ip, for_=0.5)
    two.link_up()
    running.wait_replies(5)
    shaken = running.stop()
    assert len(shaken.lost) >= 10
    assert shaken.longest_gap_ms >= 300
    assert not any(lost for number, lost in shaken.sequence if number <= 5)


def test_flows_are_comparable(lab: Lab) -> None:
    host = lab.host("h1")
    pair(host)
    host.ofctl("add-flows", "br-int", "-", stdin="table=3,cookie=0x5,arp,in_port=1,actions=output:2\n")

    assert host.flows() == ["priority=0 actions=NORMAL", "table=3, arp,in_port=1 actions=output:2"]
    assert host.flows(cookies=True) == [
        "cookie=0x5, table=3, arp,in_port=1 actions=output:2",
        "priority=0 actions=NORMAL",
    ]
    assert host.flows(names=True)[1].replace('"', "") == "table=3, arp,in_port=tapport-1 actions=output:tapport-2"


def test_labs_do_not_see_each_other(tmp_path: Path) -> None:
    with Lab(tmp_path, "a") as a, Lab(tmp_path, "b") as b:
        of_a, of_b = (pair(lab.host("h1")) for lab in (a, b))
        of_b[1].remove()

        assert a.prefix != b.prefix
        assert of_a[0].can_reach("10.0.0.2")
        assert of_b[0].cannot_reach("10.0.0.2", for_=0.3)


def test_an_agent_process(lab: Lab, tmp_path: Path) -> None:
    host = lab.host("h1")
    script = tmp_path / "agent.py"
    script.write_text(FAKE_AGENT)
    agent = AgentProcess(host, {"dataplane": {"ovs": {"bridge": "br-x"}}}, command=(sys.executable, str(script)))
    assert agent.health() == "UNREACHABLE"

    agent.start()
    agent.wait_ready()
    assert tomllib.loads(agent.config_file.read_text()) == {
        "host": {"id": "h1", "addresses": ["172.16.0.1"], "tunnel_address": "172.16.0.1"},
        "grpc": {"listen": host.grpc_target},
        "admin": {"socket": str(host.admin_socket)},
        "dataplane": {
            "kind": "ovs",
            "port_namespace_prefix": f"{host.namespace.name}-p-",
            "ovs": {
                "run_directory": str(host.rundir),
                "database": host.db_socket,
                "bridge": "br-x",
                "datapath_type": "netdev",
            },
        },
    }
    assert str(agent.pid) in host.lab.fabric.run("ip", "netns", "pids", host.namespace.name).split()
    assert agent.rss_bytes > 1 << 20
    assert agent.fds > 3
    assert agent.threads >= 1
    assert agent.stop() == 7

    agent.start()
    agent.wait_ready()
    agent.kill()
    assert agent.health() == "UNREACHABLE"


def test_an_agent_that_fails_shows_its_log(lab: Lab, tmp_path: Path) -> None:
    script = tmp_path / "agent.py"
    script.write_text(FAKE_AGENT)
    agent = AgentProcess(lab.host("h1"), {"host": {"id": "broken"}}, command=(sys.executable, str(script)))
    agent.start()
    with pytest.raises(LabError, match=r"exit status 1\n.*no such data plane"):
        agent.wait_ready()


def test_toml_reads_back() -> None:
    document = {
        "top": 1,
        "a": {"text": 'quote " back \\ tab \t é \x7f', "yes": True, "many": ["x", "y"], "f": 0.5},
        "b": {"c": {"d": []}, "e": -3, "not.bare": {"dotted.name": "x"}},
    }
    assert tomllib.loads(dumps(document)) == document
    with pytest.raises(TypeError):
        dumps({"a": None})


def alive(pid: int) -> bool:
    """True if the process runs; a zombie does not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def running_with(directory: Path) -> list[int]:
    """The processes, besides this one, whose command line mentions a directory."""
    return [
        process.pid
        for process in psutil.process_iter(["cmdline"])
        if process.pid != os.getpid() and any(str(directory) in part for part in process.info["cmdline"] or [])
    ]
