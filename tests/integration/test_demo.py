"""deploy/demo.sh: shows a network that works, notices one that does not, and leaves nothing behind."""

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab import wait_until
from tests.lab.netns import namespaces_of
from tests.lab.processes import is_ours, recorded_processes
from tests.lab.registry import Record, records

pytestmark = pytest.mark.lab

REPOSITORY = Path(__file__).resolve().parents[2]
SCRIPT = REPOSITORY / "deploy" / "demo.sh"
GOAL_STATES = REPOSITORY / "deploy" / "demo" / "goalstates"
MARKS = {"✓", "∙", "✗"}
TIMEOUT_S = 100.0


def start(*arguments: str, path: str = os.environ["PATH"]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [SCRIPT, "--no-setup", *arguments],
        env={**os.environ, "PATH": path, "PYTHON": sys.executable, "PYTHONUTF8": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.fixture
def demos() -> Iterator[list[subprocess.Popen[str]]]:
    """Those started here; one that a failed test leaves is ended."""
    started: list[subprocess.Popen[str]] = []
    yield started
    for process in started:
        if process.poll() is None:
            process.terminate()
            process.wait(TIMEOUT_S)
        if process.stdout is not None:
            process.stdout.close()


def demo(*arguments: str, path: str = os.environ["PATH"]) -> tuple[int, str]:
    process = start(*arguments, path=path)
    try:
        output, _ = process.communicate(timeout=TIMEOUT_S)
    except BaseException:
        process.terminate()
        process.communicate(timeout=TIMEOUT_S)
        raise
    return process.returncode, output


def labs_of(process: subprocess.Popen[str]) -> list[Record]:
    """The labs that a running demonstration owns: one, once it has begun."""
    return [record for record in records() if record.pid == process.pid]


def row(output: str, guest: str) -> list[str]:
    """The marks in a guest's row of the ping matrix."""
    heading, *lines = output.partition("from \\ to")[2].splitlines()
    assert guest in heading
    line = next(line for line in lines if line.split()[:1] == [guest])
    return [word for word in line.split() if word in MARKS]


def programs_without_ovs(directory: Path) -> str:
    """A PATH with all that is installed here but Open vSwitch."""
    directory.mkdir()
    for place in os.environ["PATH"].split(os.pathsep):
        for program in Path(place).iterdir() if Path(place).is_dir() else ():
            if not program.name.startswith("ovs") and not (directory / program.name).exists():
                (directory / program.name).symlink_to(program)
    return str(directory)


def assert_it_works(status: int, output: str) -> None:
    """What everybody must see, whatever the hosts forward with."""
    assert "✓ PASSED" in output, output
    assert status == 0, output
    assert "\x1b" not in output, "plain where there is no terminal"
    # reef-2, lagoon-1, lagoon-2, then oasis-1 and oasis-2 of the other VPC, then the gateway.
    assert row(output, "reef-1") == ["✓", "✓", "✓", "∙", "∙", "✓"]
    assert row(output, "oasis-1") == ["∙", "∙", "∙", "∙", "✓", "✓"]
    assert "lease: address 10.0.2.12/24, router 10.0.2.1" in output
    hops = re.findall(r"^ +\d +(10\.\S+)", output, re.M)
    assert hops == ["10.0.1.1", "10.0.2.12"]


def refusals(output: str) -> list[str]:
    """The subnets that were refused, with the reasons."""
    return re.findall(r"^  SUBNET +(\S+ +INVALID_ARG +.*)$", output, re.M)


def test_the_network_works_on_open_vswitch() -> None:
    status, output = demo()

    assert_it_works(status, output)
    assert "GENEVE 7002" in output
    assert refusals(output) == []
    assert len(re.findall(r"✓ \d+ flows altogether", output)) == 2


def test_the_network_works_where_open_vswitch_is_not_installed(tmp_path: Path) -> None:
    status, output = demo("--dataplane", "netlink", path=programs_without_ovs(tmp_path / "bin"))

    assert_it_works(status, output)
    assert "two hosts without Open vSwitch" in output
    assert len(refusals(output)) == 2, "one on each host"
    assert all("network_type GENEVE is not supported by this kernel" in refusal for refusal in refusals(output))
    assert "GENEVE 7002" not in output
    assert len(re.findall("✓ 2 bridges, one for each tunnel id", output)) == 2
    assert "flows" not in output


def test_the_network_works_across_hosts_with_and_without_open_vswitch() -> None:
    status, output = demo("--dataplane", "mixed")

    assert_it_works(status, output)
    assert "Open vSwitch on h1 only" in output
    assert len(refusals(output)) == 1, "on h2"
    assert len(re.findall(r"✓ \d+ flows altogether", output)) == 1
    assert len(re.findall("✓ 2 bridges, one for each tunnel id", output)) == 1
    assert "data plane ovs: ready" in output
    assert "data plane netlink: ready" in output


@pytest.mark.parametrize("arguments", [("--dataplane", "bridge"), ("--dataplane",), ("--dataplane", "")])
def test_an_unknown_data_plane_is_answered_with_the_usage(arguments: tuple[str, ...]) -> None:
    status, output = demo(*arguments)

    assert status == 2
    usage, problem = output.splitlines()
    assert usage.startswith("usage: sudo deploy/demo.sh [--dataplane ovs|netlink|mixed]")
    assert problem == f"demo: --dataplane is ovs, netlink or mixed, not '{''.join(arguments[1:])}'"


@pytest.mark.parametrize("dataplane", ["ovs", "netlink"])
def test_a_network_that_does_not_work_is_noticed(tmp_path: Path, dataplane: str) -> None:
    goal_states = tmp_path / "goalstates"
    shutil.copytree(GOAL_STATES, goal_states)
    # Host h1 looks for the neighbour on the other host (oasis-2) where nobody is.
    of_h1 = goal_states / "dune.h1.v1.txtpb"
    text = of_h1.read_text()
    assert 'host_ip_address: "172.16.0.2"' in text
    of_h1.write_text(text.replace('host_ip_address: "172.16.0.2"', 'host_ip_address: "172.16.0.77"'))

    status, output = demo("--dataplane", dataplane, "--goalstates", str(goal_states))

    assert status == 1, output
    assert "✗ FAILED" in output
    assert "oasis-1 must reach oasis-2 (10.0.1.13): 0 of 2 pings answered, requests seen by nobody" in output
    assert re.search(r"^  ✗ .* send reef-2, lagoon-2, oasis-2 through a tunnel.*; NOT for oasis-2$", output, re.M)
    assert row(output, "oasis-1")[-2:] == ["✗", "✓"]
    assert row(output, "reef-1") == ["✓", "✓", "✓", "∙", "∙", "✓"]
    logs = re.search(r"^logs: (\S+)$", output, re.M)
    assert logs is not None, output
    assert Path(logs[1], "demo", "h1", "agent.log").exists()
    shutil.rmtree(logs[1])


@pytest.mark.parametrize("dataplane", ["ovs", "netlink"])
def test_an_interrupt_removes_everything(demos: list[subprocess.Popen[str]], dataplane: str) -> None:
    process = start("--dataplane", dataplane)
    demos.append(process)
    lab = wait_until(lambda: labs_of(process), 30.0, "the demonstration's lab")[0]
    wait_until(lambda: len(namespaces_of(lab.prefix)) > 1, 30.0, "its first host")

    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=TIMEOUT_S)

    assert process.returncode == 128 + signal.SIGINT, output
    assert "stopped by SIGINT" in output
    assert namespaces_of(lab.prefix) == []
    assert lab not in records()
    assert not Path(lab.directory).parent.exists()


@pytest.mark.parametrize("then", [("--clean",), ("--dataplane", "netlink")], ids=["clean", "next"])
def test_what_a_killed_one_left_is_removed_later(demos: list[subprocess.Popen[str]], then: tuple[str, ...]) -> None:
    process = start("--dataplane", "mixed")
    demos.append(process)
    lab = wait_until(lambda: labs_of(process), 30.0, "the demonstration's lab")[0]
    router = f"{lab.prefix}-h2-r-"
    wait_until(lambda: any(n.startswith(router) for n in namespaces_of(lab.prefix)), 30.0, "the router on host h2")
    process.kill()
    process.wait(TIMEOUT_S)
    left = recorded_processes(Path(lab.directory))
    assert left

    status, output = demo(*then)

    assert status == 0, output
    assert namespaces_of(lab.prefix) == []
    assert lab not in records()
    assert not Path(lab.directory).parent.exists()
    assert not any(is_ours(pid, Path(lab.directory)) for pid in left)


@pytest.mark.parametrize("dataplane", ["ovs", "mixed"])
def test_a_kept_network_goes_on_until_it_is_cleaned(dataplane: str) -> None:
    status, output = demo("--dataplane", dataplane, "--keep")
    assert status == 0, output
    clean = re.search(r"^ +deploy/demo.sh --clean (\S+)$", output, re.M)
    assert clean is not None, output
    enter = re.search(r"^enter guest reef-1 .*\n +(ip netns exec (\S+)) bash$", output, re.M)
    assert enter is not None, output
    looks = re.findall(r"^the (?:flows|bridges|filter|routes) of .*:\n +(.*)$", output, re.M)

    pinged = subprocess.run([*enter[1].split(), "ping", "-n", "-c", "1", "-W", "2", "10.0.2.12"], check=False)
    seen = [subprocess.run(look, shell=True, capture_output=True, text=True, check=False) for look in looks]
    cleaned, told = demo("--clean", clean[1])

    assert pinged.returncode == 0
    # One command for flows; for the kernel's bridges, filter and routes one each.
    assert len(looks) == {"ovs": 1, "mixed": 4}[dataplane]
    assert all(one.returncode == 0 and re.search(r"10\.0\.2\.1|aa:bb:cc:01:02", one.stdout) for one in seen), seen
    assert cleaned == 0, told
    assert f"removed {clean[1]}" in told
    assert namespaces_of(clean[1]) == []
    assert not Path("/run/netns", enter[2]).exists()
