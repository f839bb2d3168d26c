"""Of a lab nothing is left, whatever became of the process that had it."""

import gc
import signal
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest

from tests.integration.test_lab import REPOSITORY, alive, pair, running_with
from tests.lab import Lab, LabError
from tests.lab.netns import namespaces_of
from tests.lab.registry import records

pytestmark = pytest.mark.lab

# A process that has a lab with everything in it, and then waits to be killed.
VICTIM = """
import sys, time
from pathlib import Path
from tests.lab import Lab
lab = Lab(Path(sys.argv[1]), "lab")
lab.__enter__()
host = lab.host("h1")
host.vsctl("add-br", "br-int", "--", "set", "bridge", "br-int", "datapath_type=netdev")
guest = host.guest("port-1", mac="02:00:00:00:00:01")
running = guest.start_ping("10.0.0.5")
running.wait_replies()
print(lab.prefix, running.pid, host.ovs.ovsdb.pid, host.ovs.vswitchd.pid, flush=True)
time.sleep(60)
"""

# The same with a netlink host: what the agent has made, and what a guest runs, is in no pid file.
NETLINK_VICTIM = """
import subprocess, sys, time
from pathlib import Path
from tests.conformance.network import Nic, Subnet, port_state, router_state, subnet_state, v1
from tests.lab import Lab
lab = Lab(Path(sys.argv[1]), "lab")
lab.__enter__()
host = lab.host("h1", dataplane="netlink")
agent = host.agent()
agent.wait_ready(60)
net = Subnet("net", "vpc", "10.0.0.0/24", "02:00:00:00:00:ff", 7)
nic = Nic("port-1", "vpc", "02:00:00:00:00:01", host.underlay_ip, ((net, "10.0.0.5"),))
guest = host.guest(nic.id, mac=nic.mac)
sleeper = subprocess.Popen(guest.namespace.argv("sleep", "60"), stdout=subprocess.DEVNULL)
lab.wait(lambda: b"sleep" in Path(f"/proc/{sleeper.pid}/cmdline").read_bytes()[:6], 5.0, "sleep")
agent.push_v1(v1(subnet_state(net), router_state("router", [net]), port_state(nic)))
print(lab.prefix, agent.pid, sleeper.pid, flush=True)
time.sleep(60)
"""


def test_nothing_is_left_behind(tmp_path: Path) -> None:
    def round_trip(number: int) -> str:
        with Lab(tmp_path, f"lab{number}") as lab:
            one, two = pair(lab.host("h1"))
            one.start_ping(two.ip).wait_replies()
            assert one.arp(two.ip)
            assert len(namespaces_of(lab.prefix)) == 4
            return lab.prefix

    me = psutil.Process()
    round_trip(0)
    # What tests before this one have left to the collector must not go while we count.
    gc.collect()
    before = (me.num_fds(), threading.active_count(), len(me.children(recursive=True)))
    prefixes = {round_trip(number) for number in (1, 2)}

    assert (me.num_fds(), threading.active_count(), len(me.children(recursive=True))) == before
    assert [name for prefix in prefixes for name in namespaces_of(prefix)] == []
    assert not prefixes & {record.prefix for record in records()}
    assert running_with(tmp_path) == []


def test_the_lab_of_a_dead_process_is_removed(tmp_path: Path, lab: Lab) -> None:
    lab.host("h1")
    (tmp_path / "victim").mkdir()
    victim = subprocess.Popen(
        [sys.executable, "-c", VICTIM, str(tmp_path / "victim")], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True
    )
    try:
        assert victim.stdout is not None
        prefix, *numbers = victim.stdout.readline().split()
        ping, *daemons = (int(number) for number in numbers)
        assert all(alive(pid) for pid in (ping, *daemons))
        with Lab(tmp_path, "while-it-lives"):
            assert len(namespaces_of(prefix)) == 3, "a living process keeps its lab"
    finally:
        victim.send_signal(signal.SIGKILL)
        victim.communicate(timeout=10)
    lab.wait(lambda: not alive(ping), 5.0, "the dead process's ping ends with it")

    with Lab(tmp_path, "next"):
        assert namespaces_of(prefix) == []
    assert not any(alive(pid) for pid in daemons)
    assert lab.hosts["h1"].ovs.vswitchd.running, "a living lab is left alone"


@pytest.mark.parametrize("how", ["next-lab", "clean"])
def test_what_a_dead_process_left_on_a_netlink_host_is_removed(tmp_path: Path, how: str) -> None:
    (tmp_path / "victim").mkdir()
    victim = subprocess.Popen(
        [sys.executable, "-c", NETLINK_VICTIM, str(tmp_path / "victim")],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert victim.stdout is not None
        prefix, *numbers = victim.stdout.readline().split()
        processes = [int(number) for number in numbers]
        assert all(alive(pid) for pid in processes)
        assert len(namespaces_of(prefix)) == 4, "fabric, host, guest and the router that the agent has made"
    finally:
        victim.send_signal(signal.SIGKILL)
        victim.communicate(timeout=10)

    # Whatever starts a lab on this machine meanwhile may have removed it already.
    if how == "next-lab":
        with Lab(tmp_path, "next"):
            pass
    else:
        clean = [sys.executable, "-m", "tests.lab", "clean", prefix]
        subprocess.run(clean, cwd=REPOSITORY, check=True, timeout=30)
    assert namespaces_of(prefix) == []
    assert not any(alive(pid) for pid in processes)
    assert prefix not in {record.prefix for record in records()}
    assert running_with(tmp_path / "victim") == []


def test_a_kept_lab_outlives_its_process_until_it_is_cleaned(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from tests.lab import Lab\n"
        "with Lab(Path(sys.argv[1]), 'kept') as lab: lab.host('h1'); lab.keep(); print(lab.prefix)"
    )
    argv = [sys.executable, "-c", script, str(tmp_path)]
    prefix = subprocess.run(argv, cwd=REPOSITORY, capture_output=True, text=True, check=True, timeout=30).stdout.strip()

    with Lab(tmp_path, "next"):
        assert len(namespaces_of(prefix)) == 2
    clean = [sys.executable, "-m", "tests.lab", "clean", prefix]
    subprocess.run(clean, cwd=REPOSITORY, check=True, timeout=30)
    assert prefix not in {record.prefix for record in records()}
    assert namespaces_of(prefix) == []
    assert running_with(tmp_path) == []


def test_a_failed_start_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="too long"), Lab(tmp_path, "n" * 100) as lab:
        prefix = lab.prefix
        lab.host("h1")
    assert namespaces_of(prefix) == []
