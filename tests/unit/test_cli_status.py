"""`aca status` against a real admin socket on a fake engine."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from click.testing import CliRunner, Result

from aca.agent import Agent
from aca.cli import main
from aca.config import load_settings
from tests.integration.fake_engine import FakeEngine

SOMEBODY = 65534
"""A user who owns nothing here."""


class QuietEngine(FakeEngine):
    """`changes` are made to its status."""

    changes: Mapping[str, Any] = MappingProxyType({})

    def status(self) -> dict[str, Any]:
        return {**super().status(), **self.changes}


@pytest.fixture
def engine() -> QuietEngine:
    return QuietEngine()


@pytest.fixture
def socket(engine: QuietEngine) -> Iterator[Path]:
    # Not below pytest's directories, which no other user may enter.
    directory = Path(tempfile.mkdtemp(prefix="aca-test-"))
    directory.chmod(0o755)
    path = directory / "admin.sock"
    flags = {
        "host.id": "compute-1",
        "host.addresses": "192.0.2.11",
        "grpc.listen": "127.0.0.1:0",
        "admin.socket": str(path),
    }
    agent = Agent(load_settings(flags=flags), engine)
    agent.start()
    yield path
    agent.stop()
    shutil.rmtree(directory)


def status(*arguments: str, **environment: str) -> Result:
    return CliRunner().invoke(main, ["status", *arguments], env=environment)


def test_the_agent_the_data_plane_and_what_is_not_done_are_shown(socket: Path) -> None:
    result = status("--socket", str(socket))
    assert result.exit_code == 0, result.output
    assert "on compute-1 (192.0.2.11)" in result.output
    assert "data plane ovs: ready (for 1 min" in result.output
    (counts,) = [line.split() for line in result.output.splitlines() if line.strip().startswith("PORT  ")][:1]
    assert counts[:6] == ["PORT", "7", "5", "1", "0", "1"]
    assert "no device [tapport-2]" in result.output
    (conflict,) = [line.split() for line in result.output.splitlines() if "10.0.0.5" in line]
    assert conflict == ["s1", "10.0.0.5", "n2", "n1"]
    assert "not everything is known: waiting for the end of what these tell: controller; put back" in result.output
    assert "last check 0 s ago: standing 9, missing 0" in result.output


def test_a_data_plane_that_is_not_ready_is_shown_with_the_reason(socket: Path, engine: QuietEngine) -> None:
    engine.set_ready(False)
    output = status("--socket", str(socket)).output
    assert "data plane ovs: not ready: no database" in output
    assert "nothing is programmed: data plane not ready: no database; 1 resource waits" in output
    assert "no device [tapport-2]" in output


def test_no_problems_is_said_only_when_all_is_programmed(socket: Path, engine: QuietEngine) -> None:
    engine.changes = {"problems": [], "problems_total": 0}
    assert "no problems" in status("--socket", str(socket)).output
    engine.set_ready(False)
    assert "no problems" not in status("--socket", str(socket)).output


def test_refused_resources_and_notes_are_shown_if_there_are_any(socket: Path, engine: QuietEngine) -> None:
    without = status("--socket", str(socket)).output
    engine.changes = {"refused": [], "notes": []}
    empty = status("--socket", str(socket)).output
    refused = {"kind": "SUBNET", "id": "s9", "reason": "SUBNET s9: cidr 'x' is no range", "at": time.time() - 125}
    engine.changes = {"refused": [refused], "notes": ["security groups are remembered and not enforced"]}
    both = status("--socket", str(socket)).output
    for output in (without, empty):
        assert "refused" not in output
        assert "note" not in output
    (row,) = [line.split() for line in both.splitlines() if "s9" in line]
    assert row[:3] == ["SUBNET", "s9", "cidr"]
    assert row[-4:] in (["2", "min", "5", "s"], ["2", "min", "6", "s"])
    assert "note: security groups are remembered and not enforced" in both


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_is_told_to_be_root(socket: Path) -> None:
    assert status("--socket", str(socket)).exit_code == 0
    os.setresuid(SOMEBODY, SOMEBODY, 0)
    try:
        result = status("--socket", str(socket))
    finally:
        os.setresuid(0, 0, 0)
    assert result.exit_code == 2
    assert "only the agent's user may ask it; run as root" in result.output


def test_json_is_the_whole_document(socket: Path) -> None:
    result = status("--json", ACA_ADMIN__SOCKET=str(socket))
    document = json.loads(result.stdout)
    assert document["agent"]["host"] == "compute-1"
    assert document["resources"]["PORT"]["desired"] == 7
    assert document["problems"][0]["reason"] == "no device [tapport-2]"


def test_no_agent_ends_with_status_2(tmp_path: Path) -> None:
    result = status("--socket", str(tmp_path / "nobody.sock"))
    assert result.exit_code == 2
    assert "is the agent running?" in result.output


def test_unknown_destinations_are_told_of_where_somebody_is_asked(socket: Path, engine: QuietEngine) -> None:
    counts = {"packets": 9, "released": 4, "dropped_negative": 2, "dropped_too_fast": 1}
    told = {"active": True, "pending": 2, "negative": 1, "bytes_kept": 84, "calls": 1, "trouble": "h:1: UNAVAILABLE"}
    engine.changes = {"on_demand": {**told, "counts": counts}}
    shown = status("--socket", str(socket)).output
    assert "unknown destinations: 2 asked for, 1 known to be nowhere; packets: 9 taken, 4 let go on, 3 dropped" in shown
    assert "controller does not answer: h:1: UNAVAILABLE" in shown
    engine.changes = {"on_demand": {**told, "active": False, "trouble": "", "counts": {}}}
    assert "unknown destinations" not in status("--socket", str(socket)).output
