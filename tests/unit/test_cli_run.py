"""`aca run` and the command line as a whole, up to where the agent starts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from aca.cli import main
from aca.config import setting_infos

REPOSITORY = Path(__file__).parents[2]
CLEAN = {"ACA_CONFIG": None}


def aca(*arguments: str, **environment: str) -> Result:
    return CliRunner().invoke(main, list(arguments), env={**CLEAN, **environment}, prog_name="aca")


def test_help_of_run_explains_every_setting() -> None:
    text = " ".join(aca("run", "--help").output.split())
    for info in setting_infos():
        assert f"{info.flag} {info.kind}" in text
        assert info.environment in text
        assert info.description in text
        assert f"default: {info.default}" in text or not info.default


def test_help_tells_the_exit_statuses() -> None:
    assert "Exit status" in aca("--help").output
    for command in ("run", "check", "push", "status"):
        assert "Exit status" in aca(command, "--help").output


@pytest.mark.parametrize(
    ("arguments", "environment", "told"),
    [
        (["--grpc-listen", "nowhere"], {}, "flag --grpc-listen"),
        ([], {"ACA_LOG__LEVEL": "loud"}, "environment variable ACA_LOG__LEVEL"),
        (["--config", "/nonexistent/aca.toml"], {}, "/nonexistent/aca.toml: cannot be read"),
        (["--no-such-flag"], {}, "--no-such-flag"),
    ],
)
def test_wrong_settings_end_with_status_2_and_the_name(
    arguments: list[str], environment: dict[str, str], told: str
) -> None:
    result = aca("run", "--host-addresses", "192.0.2.1", *arguments, **environment)
    assert result.exit_code == 2
    assert told in result.output


def test_an_unknown_key_in_the_file_ends_with_status_2(tmp_path: Path) -> None:
    file = tmp_path / "aca.toml"
    file.write_text("[grpc]\nport = 1\n")
    for result in (aca("run", "--config", str(file)), aca("run", ACA_CONFIG=str(file))):
        assert result.exit_code == 2
        assert f"{file}: grpc.port is not a setting" in result.output
        assert "max_message_mib" in result.output


def test_an_unknown_data_plane_is_refused_with_those_that_exist() -> None:
    result = aca("run", "--host-addresses", "192.0.2.1", "--dataplane-kind", "abacus")
    assert result.exit_code == 2
    assert "flag --dataplane-kind: 'abacus' is refused: must be 'ovs'" in result.output


def test_version() -> None:
    result = aca("version")
    assert result.exit_code == 0
    assert result.output.startswith("aca ")
    assert aca("--version").output == result.output


def test_the_package_is_a_command() -> None:
    command = [sys.executable, "-m", "aca", "--version"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == aca("version").output


def test_the_benches_explain_themselves() -> None:
    script = REPOSITORY / "tests" / "bench" / "run.sh"
    done = subprocess.run(["bash", script, "--help"], capture_output=True, text=True, timeout=60, check=True)
    assert "tests/bench/run.sh [NAME...]" in done.stdout
    assert "Exit status" in done.stdout
