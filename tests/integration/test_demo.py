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
from tests.lab.registry import Record, records

pytestmark = pytest.mark.lab

REPOSITORY = Path(__file__).resolve().parents[2]
SCRIPT = REPOSITORY / "deploy" / "demo.sh"
GOAL_STATES = REPOSITORY / "deploy" / "demo" / "goalstates"
MARKS = {"✓", "∙", "✗"}
TIMEOUT_S = 100.0


def start(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [SCRIPT, "--no-setup", *arguments],
        env={**os.environ, "PYTHON": sys.executable, "PYTHONUTF8": "1"},
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


def demo(*arguments: str) -> tuple[int, str]:
    process = start(*arguments)
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


def test_the_network_works() -> None:
    status, output = demo()

    assert "✓ PASSED" in output
    assert status == 0, output
    assert "\x1b" not in output, "plain where there is no terminal"
    # reef-2, lagoon-1, lagoon-2, then oasis-1 and oasis-2 of the other VPC, then the gateway.
    assert row(output, "reef-1") == ["✓", "✓", "✓", "∙", "∙", "✓"]
    assert row(output, "oasis-1") == ["∙", "∙", "∙", "∙", "✓", "✓"]
    assert "lease: address 10.0.2.12/24, router 10.0.2.1" in output
    hops = re.findall(r"^ +\d +(10\.\S+)", output, re.M)
    assert hops == ["10.0.1.1", "10.0.2.12"]


def test_a_network_that_does_not_work_is_noticed(tmp_path: Path) -> None:
    goal_states = tmp_path / "goalstates"
    shutil.copytree(GOAL_STATES, goal_states)
    # Host h1 looks for the neighbour on the other host (oasis-2) where nobody is.
    of_h1 = goal_states / "dune.h1.v1.txtpb"
    text = of_h1.read_text()
    assert 'host_ip_address: "172.16.0.2"' in text
    of_h1.write_text(text.replace('host_ip_address: "172.16.0.2"', 'host_ip_address: "172.16.0.77"'))

    status, output = demo("--goalstates", str(goal_states))

    assert status == 1, output
    assert "✗ FAILED" in output
    assert "oasis-1 must reach oasis-2 (10.0.1.13): 0 of 2 pings answered, requests seen by nobody" in output
    assert row(output, "oasis-1")[-2:] == ["✗", "✓"]
    assert row(output, "reef-1") == ["✓", "✓", "✓", "∙", "∙", "✓"]
    logs = re.search(r"^logs: (\S+)$", output, re.M)
    assert logs is not None, output
    assert Path(logs[1], "demo", "h1", "agent.log").exists()
    shutil.rmtree(logs[1])


def test_an_interrupt_removes_everything(demos: list[subprocess.Popen[str]]) -> None:
    process = start()
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


def test_a_kept_network_goes_on_until_it_is_cleaned() -> None:
    status, output = demo("--keep")
    assert status == 0, output
    clean = re.search(r"^ +deploy/demo.sh --clean (\S+)$", output, re.M)
    assert clean is not None, output
    enter = re.search(r"^enter guest reef-1 .*\n +(ip netns exec (\S+)) bash$", output, re.M)
    assert enter is not None, output

    pinged = subprocess.run([*enter[1].split(), "ping", "-n", "-c", "1", "-W", "2", "10.0.2.12"], check=False)
    cleaned, told = demo("--clean", clean[1])

    assert pinged.returncode == 0
    assert cleaned == 0, told
    assert f"removed {clean[1]}" in told
    assert not Path("/run/netns", enter[2]).exists()
