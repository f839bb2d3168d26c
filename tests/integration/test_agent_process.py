"""The agent's process: start, signals, exit."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.integration.fake_engine import WAIT_S

REPOSITORY = Path(__file__).parents[2]
STOP_WITHIN_S = 5.0
UNARY = "/alcor.schema.GoalStateProvisioner/PushNetworkResourceStates"


class Process:
    """One agent; its log is read as it comes."""

    def __init__(self, directory: Path, arguments: list[str], environment: dict[str, str]) -> None:
        usual = ["--host-addresses=192.0.2.11", f"--admin-socket={directory}/admin.sock", "--log-format=json"]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.integration.agent_without_data_plane", *usual, *arguments],
            cwd=REPOSITORY,
            env={**os.environ, **environment},
            stderr=subprocess.PIPE,
            text=True,
        )
        self.lines: list[str] = []

    def wait_for(self, event: str) -> dict[str, Any]:
        """The log entry of that event; fails the test when the log ends before."""
        assert self.process.stderr is not None
        watchdog = threading.Timer(WAIT_S, self.process.kill)
        watchdog.start()
        try:
            for line in self.process.stderr:
                self.lines.append(line)
                if line.startswith("{") and json.loads(line)["event"] == event:
                    return dict(json.loads(line))
        finally:
            watchdog.cancel()
        pytest.fail(f"no {event!r} in the log:\n{''.join(self.lines)}")

    def finish(self, within: float = WAIT_S) -> tuple[int, str]:
        """Exit status and the rest of its log."""
        _, rest = self.process.communicate(timeout=within)
        return self.process.returncode, "".join(self.lines) + rest


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Process]]:
    started: list[Process] = []

    def make(*arguments: str, **environment: str) -> Process:
        started.append(Process(tmp_path, list(arguments), environment))
        return started[-1]

    yield make
    for agent in started:
        if agent.process.poll() is None:
            agent.process.kill()
            agent.process.communicate()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_agent_with_status_0(start: Callable[..., Process], tmp_path: Path, number: int) -> None:
    agent = start("--grpc-listen=127.0.0.1:0")
    (address,) = agent.wait_for("listening for goal states")["addresses"]
    agent.wait_for("agent running")
    with grpc.insecure_channel(address) as channel:
        assert channel.unary_unary(UNARY, None, None)(b"", timeout=WAIT_S) == b""
    agent.process.send_signal(number)
    status, log = agent.finish(STOP_WITHIN_S)
    assert status == 0
    assert "Traceback" not in log
    assert not (tmp_path / "admin.sock").exists()


def test_an_agent_that_hangs_still_exits_0_within_five_seconds(start: Callable[..., Process]) -> None:
    agent = start("--grpc-listen=127.0.0.1:0", FAKE_ENGINE="hung")
    agent.wait_for("agent running")
    agent.process.send_signal(signal.SIGTERM)
    status, log = agent.finish(STOP_WITHIN_S)
    assert status == 0
    assert "did not stop in time" in log


def test_a_second_signal_exits_at_once(start: Callable[..., Process]) -> None:
    agent = start("--grpc-listen=127.0.0.1:0", FAKE_ENGINE="hung")
    agent.wait_for("agent running")
    agent.process.send_signal(signal.SIGTERM)
    agent.wait_for("agent stopping")
    agent.process.send_signal(signal.SIGTERM)
    assert agent.finish()[0] == 128 + signal.SIGTERM


def test_a_port_in_use_is_told_and_ends_with_status_1(start: Callable[..., Process], tmp_path: Path) -> None:
    first = start("--grpc-listen=127.0.0.1:0")
    (address,) = first.wait_for("listening for goal states")["addresses"]
    second = start(f"--grpc-listen={address}", f"--admin-socket={tmp_path}/other.sock")
    status, log = second.finish()
    assert status == 1
    assert re.search(rf"^Error: cannot listen on {address}: Address already in use$", log, re.MULTILINE)
    assert "Traceback" not in log
    assert "taking no more goal states" not in log
    assert not (tmp_path / "other.sock").exists()


def describe(socket: Path) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "aca", "status", "--json", "--socket", str(socket)],
        cwd=REPOSITORY, capture_output=True, text=True, timeout=WAIT_S, check=False,
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def test_a_second_agent_on_one_admin_socket_ends_with_status_1(start: Callable[..., Process], tmp_path: Path) -> None:
    first = start("--grpc-listen=127.0.0.1:0")
    first.wait_for("agent running")
    status, log = start("--grpc-listen=127.0.0.1:0").finish()
    assert status == 1
    (line,) = log.splitlines()  # nothing of what it never came to do, and nothing that gRPC thinks of it
    assert line == f"Error: cannot listen on unix:{tmp_path}/admin.sock: another agent answers there"
    assert describe(tmp_path / "admin.sock")["agent"]["pid"] == first.process.pid


def test_an_agent_that_was_killed_can_start_again(start: Callable[..., Process], tmp_path: Path) -> None:
    arguments = (f"--grpc-listen=unix:{tmp_path}/grpc.sock",)
    first = start(*arguments)
    first.wait_for("agent running")
    first.process.kill()
    first.finish()
    second = start(*arguments)
    second.wait_for("agent running")
    second.process.terminate()
    assert second.finish()[0] == 0
