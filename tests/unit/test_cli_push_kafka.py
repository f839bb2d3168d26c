"""`aca push --kafka`: what is refused before any broker is asked."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from aca.cli import main
from aca.cli.publish import first_delta
from goalstate_proto import common_pb2
from goalstate_proto.goalstate_pb2 import GoalState, GoalStateV2

FILE = "tests/fixtures/07-port-delete.v2.txtpb"
LOG = ("--kafka", "127.0.0.1:1", "--topic", "t")


def push(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["push", *arguments])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((FILE,), "--to or --kafka must be given"),
        (("--to", "127.0.0.1:1", *LOG, FILE), "exclude each other"),
        (("--to", "127.0.0.1:1", "--key", "k", FILE), "are for --kafka"),
        (("--to", "127.0.0.1:1"), "no FILES"),
        (("--kafka", "127.0.0.1:1", FILE), "needs --topic"),
        (LOG, "no FILES"),
        ((*LOG, "--tombstone"), "--tombstone needs --key"),
        ((*LOG, "--tombstone", "--key", "k", FILE), "--tombstone takes no FILES"),
        ((*LOG, "--property", "acks=0", FILE), "acks: is set by aca push itself"),
        ((*LOG, "--property", "no.such.property=1", FILE), "no.such.property"),
        ((*LOG, "--property-file", "sasl.password=/nowhere", FILE), "sasl.password: /nowhere: No such file"),
    ],
)
def test_what_does_not_go_together_is_refused(arguments: tuple[str, ...], words: str) -> None:
    result = push(*arguments)
    assert result.exit_code == 2
    assert words in result.stderr


def test_a_secret_is_never_repeated(tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text("wrong-horse\n")
    for arguments in (
        ("--property", "wrong-horse"),
        ("--property-file", f"sasl.password={secret}", "--property", "sasl.username=u", "--timeout", "1"),
    ):
        result = push(*LOG, *arguments, FILE)
        assert result.exit_code == 2
        assert "wrong-horse" not in result.output


def test_a_delta_update_is_found_in_either_layout() -> None:
    first = GoalState()
    first.neighbor_states.add().configuration.id = "n1"
    second = GoalStateV2()
    second.port_states["p1"].configuration.update_type = common_pb2.FULL
    assert first_delta(first) == "neighbor_states n1"
    assert first_delta(second) is None
    second.host_resources["10.0.0.1"].resources.add(id="p1")
    second.gateway_states["g1"].configuration.id = "g1"
    assert first_delta(second) is None
    second.port_states["p2"].configuration.id = "p2"
    assert first_delta(second) == "port_states p2"
