"""`aca push` against a real server on a fake engine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote_plus

import pytest
from click.testing import CliRunner, Result
from google.protobuf import text_format

from aca.cli import main
from goalstate_proto import common_pb2
from goalstate_proto.goalstate_pb2 import GoalState, GoalStateV2
from tests.integration.fake_engine import FakeEngine, Host


@pytest.fixture(scope="module")
def host() -> Iterator[Host]:
    made = Host(FakeEngine())
    yield made
    made.close()


def push(host: Host, *arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["push", "--to", host.address, *map(str, arguments)])


def v1_file(directory: Path, **ports: str) -> Path:
    """A goal state of ports by id; the name says what the fake engine does: '' success, 'bad', 'waits'."""
    message = GoalState()
    for id_, name in ports.items():
        state = message.port_states.add(operation_type=common_pb2.CREATE)
        state.configuration.id, state.configuration.name = id_, name
    file = directory / f"{'-'.join(ports)[:40]}.v1.txtpb"
    file.write_text(text_format.MessageToString(message))
    return file


def v2_state(port: str) -> GoalStateV2:
    message = GoalStateV2()
    message.port_states[port].configuration.id = port
    return message


def v2_file(directory: Path, port: str) -> Path:
    file = directory / f"{quote_plus(port)}.v2.pb"
    file.write_bytes(v2_state(port).SerializeToString())
    return file


def row(result: Result, word: str) -> str:
    (line,) = [line for line in result.stdout.splitlines() if word in line]
    return line


def test_outcomes_are_printed_with_status_times_and_reason(host: Host, tmp_path: Path) -> None:
    result = push(host, v1_file(tmp_path, p1="", p2="waits"), v2_file(tmp_path, "p3"))
    assert result.exit_code == 0, result.output
    assert "CREATE" in row(result, "p1")
    assert "SUCCESS" in row(result, "p1")
    assert "1.50" in row(result, "p1")
    assert "PENDING" in row(result, "p2")
    assert "the device of p2 is out of order" in row(result, "p2")
    assert "SUCCESS" in row(result, "p3")
    assert "2 messages, 3 resources" in result.stdout


def test_files_are_sent_in_order_and_by_the_way_of_their_layout(host: Host, tmp_path: Path) -> None:
    before = len(host.engine.received)
    assert push(host, v2_file(tmp_path, "a"), v1_file(tmp_path, b=""), v2_file(tmp_path, "c")).exit_code == 0
    received = host.engine.received[before:]
    assert [type(message) for message in received] == [GoalStateV2, GoalState, GoalStateV2]
    assert [message for message in received if isinstance(message, GoalStateV2)] == [v2_state("a"), v2_state("c")]


def test_repeat_sends_all_again(host: Host, tmp_path: Path) -> None:
    before = len(host.engine.received)
    assert push(host, "--repeat", "3", v1_file(tmp_path, p1="")).exit_code == 0
    assert len(host.engine.received) == before + 3


def test_a_failed_resource_makes_the_exit_status_1(host: Host, tmp_path: Path) -> None:
    result = push(host, v1_file(tmp_path, p1="", p2="bad"))
    assert result.exit_code == 1
    assert "FAILURE" in row(result, "p2")


def test_a_pending_resource_makes_the_exit_status_1_only_if_asked(host: Host, tmp_path: Path) -> None:
    file = v1_file(tmp_path, p1="waits")
    assert push(host, file).exit_code == 0
    assert push(host, "--fail-pending", file).exit_code == 1


def test_many_resources_are_summed_up_and_the_failed_ones_listed(host: Host, tmp_path: Path) -> None:
    ports = {f"port-{number}": "" for number in range(60)} | {"port-60": "bad", "port-61": "waits"}
    result = push(host, v1_file(tmp_path, **ports))
    assert result.exit_code == 1
    assert row(result, "SUCCESS").split()[2] == "60"
    assert row(result, "PENDING").split()[2] == "1"
    assert "FAILURE" in row(result, "CREATE")  # the only one listed
    assert "port-60" in row(result, "CREATE")


def test_json(host: Host, tmp_path: Path) -> None:
    file = v1_file(tmp_path, p1="bad")
    result = push(host, "--json", file)
    assert result.exit_code == 1
    (message,) = json.loads(result.stdout)
    assert message["file"] == str(file)
    assert message["layout"] == "v1"
    assert message["seconds"] > 0
    (resource,) = message["resources"]
    assert resource == {
        "kind": "PORT",
        "id": "p1",
        "operation": "CREATE",
        "status": "FAILURE",
        "reason": "the device of p1 is out of order",
        "dataplane_us": 0,
        "network_us": 0,
        "elapsed_us": 1500,
    }


def test_ids_are_not_read_as_markup(host: Host, tmp_path: Path) -> None:
    result = push(host, v2_file(tmp_path, "[bold]p[/]"))
    assert result.exit_code == 0
    assert "[bold]p[/]" in result.stdout


def test_no_agent_ends_with_status_2(tmp_path: Path) -> None:
    file = v1_file(tmp_path, p1="")
    arguments = ["push", "--connect-timeout", "0.2", "--to", f"unix:{tmp_path}/nobody", str(file)]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2
    assert "no agent answers there" in result.output


def test_a_refused_call_ends_with_status_2_after_the_outcomes_before_it(tmp_path: Path) -> None:
    small = Host(FakeEngine(), max_message_bytes=1000)
    try:
        result = push(small, v1_file(tmp_path, p1=""), v1_file(tmp_path, big="x" * 2000))
    finally:
        small.close()
    assert result.exit_code == 2
    assert "SUCCESS" in row(result, "p1")
    assert "RESOURCE_EXHAUSTED" in result.stderr
    assert "big.v1.txtpb" in result.stderr


def test_a_file_that_cannot_be_read_sends_nothing(host: Host, tmp_path: Path) -> None:
    before = len(host.engine.received)
    result = push(host, v1_file(tmp_path, p1=""), tmp_path / "missing.v1.txtpb")
    assert result.exit_code == 2
    assert "missing.v1.txtpb: cannot be read" in result.output
    assert len(host.engine.received) == before
