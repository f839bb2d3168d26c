"""`aca status` against a real admin socket on a fake engine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from aca.agent import Agent
from aca.cli import main
from aca.config import load_settings
from tests.integration.fake_engine import FakeEngine


@pytest.fixture
def engine() -> FakeEngine:
    return FakeEngine()


@pytest.fixture
def socket(tmp_path: Path, engine: FakeEngine) -> Iterator[Path]:
    path = tmp_path / "admin.sock"
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


def test_a_data_plane_that_is_not_ready_is_shown_with_the_reason(socket: Path, engine: FakeEngine) -> None:
    engine.set_ready(False)
    assert "not ready: no database" in status("--socket", str(socket)).output


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
