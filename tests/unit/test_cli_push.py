"""`aca push` against a real server on a fake engine."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from urllib.parse import quote_plus

import pytest
from click.testing import CliRunner, Result
from google.protobuf import text_format

from aca.cli import main
from aca.transport.intake import GoalStateMessage
from goalstate_proto import common_pb2
from goalstate_proto.aca_pb2 import ReplyExtension
from goalstate_proto.goalstate_pb2 import GoalState, GoalStateV2
from goalstate_proto.goalstateprovisioner_pb2 import GoalStateOperationReply
from tests.integration.fake_engine import FakeEngine, Host


class TalkativeEngine(FakeEngine):
    """Also answers DHCP entries, the last with FAILURE, and ports called 'makes' (a device) and 'named' (a reason)."""

    def submit(self, message: GoalStateMessage) -> Future[bytes]:
        future = super().submit(message)
        if not isinstance(message, GoalState):
            return future
        reply, extension = GoalStateOperationReply(), ReplyExtension()
        for number in range(1, len(message.dhcp_states) + 1):
            failed = number == len(message.dhcp_states)
            verdict = common_pb2.FAILURE if failed else common_pb2.SUCCESS
            reply.operation_statuses.add(resource_type=common_pb2.DHCP, operation_status=verdict)
        for port in message.port_states:
            usual = {"resource_type": common_pb2.PORT, "resource_id": port.configuration.id}
            if port.configuration.name == "makes":
                reply.operation_statuses.add(**usual, network_configuration_time=10)
            if port.configuration.name == "named":
                reply.operation_statuses.add(**usual, operation_status=common_pb2.PENDING)
                reason = f"PORT {port.configuration.id}: admin state is down"
                extension.problems.add(**usual, status=common_pb2.PENDING, reason=reason)
        if reply.operation_statuses:
            future = Future()
            future.set_result(reply.SerializeToString() + extension.SerializeToString())
        return future


@pytest.fixture(scope="module")
def host() -> Iterator[Host]:
    made = Host(TalkativeEngine())
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


def push_to(target: str, file: Path) -> Result:
    return CliRunner().invoke(main, ["push", "--connect-timeout", "0.2", "--to", target, str(file)])


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of a listener whose queue is full: the system answers nobody else there."""
    with socket.socket() as listener, socket.socket() as first, socket.socket() as second:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for waiting in (first, second):
            waiting.setblocking(False)
            waiting.connect_ex(listener.getsockname())
        yield f"127.0.0.1:{listener.getsockname()[1]}"


def test_an_agent_that_is_silent_ends_with_status_2(tmp_path: Path, silent: str) -> None:
    result = push_to(silent, v1_file(tmp_path, p1=""))
    assert result.exit_code == 2
    assert "no agent answers there (0.2 s)" in result.output


def test_an_agent_that_is_not_there_is_told_apart_from_a_silent_one(tmp_path: Path) -> None:
    file = v1_file(tmp_path, p1="")
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        refused = push_to(f"127.0.0.1:{unused.getsockname()[1]}", file)
    missing = push_to(f"unix:{tmp_path}/nobody", file)
    # Names under "invalid" never exist (RFC 6761 section 6.4).
    unknown = push_to("host.invalid:50001", file)
    assert [result.exit_code for result in (refused, missing, unknown)] == [2, 2, 2]
    assert "connection refused" in refused.output
    assert "no such socket" in missing.output
    assert "cannot resolve host.invalid" in unknown.output


@pytest.mark.parametrize("target", ["h1", "192.0.2.1", "192.0.2.1:", ":50001", "192.0.2.1:70000", "::1", "unix:"])
def test_a_target_without_host_or_port_is_refused_at_once(tmp_path: Path, target: str) -> None:
    result = push_to(target, tmp_path / "not-even-read")
    assert result.exit_code == 2
    assert f"{target}: needs HOST:PORT, e.g. 127.0.0.1:50001" in result.output


def test_devices_have_a_column_only_if_an_agent_says_something_of_them(host: Host, tmp_path: Path) -> None:
    assert "devices ms" not in push(host, v1_file(tmp_path, p1="")).stdout
    assert "devices ms" in push(host, v1_file(tmp_path, p1="makes")).stdout


def test_a_reason_does_not_repeat_kind_and_id(host: Host, tmp_path: Path) -> None:
    result = push(host, v1_file(tmp_path, p1="named"))
    assert row(result, "p1").count("p1") == 1
    assert "admin state" in row(result, "p1")


def test_entries_without_an_id_are_shown_by_what_the_file_says_of_them(host: Host, tmp_path: Path) -> None:
    message = GoalState()
    for mac in ("00:00:00:00:00:01", "00:00:00:00:00:02"):
        configuration = message.dhcp_states.add(operation_type=common_pb2.CREATE).configuration
        configuration.subnet_id, configuration.mac_address = "s1", mac
    file = tmp_path / "leases.v1.pb"
    file.write_bytes(message.SerializeToString())
    result = push(host, file)
    assert "SUCCESS" in row(result, "s1 00:00:00:00:00:01")
    assert "FAILURE" in row(result, "s1 00:00:00:00:00:02")
    assert [entry["id"] for entry in json.loads(push(host, "--json", file).stdout)[0]["resources"]] == ["", ""]


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
