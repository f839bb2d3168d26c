"""`aca check`: forms, layouts, errors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from google.protobuf import json_format, text_format
from google.protobuf.message import Message

from aca.cli import main
from goalstate_proto import common_pb2
from goalstate_proto.goalstate_pb2 import GoalState, GoalStateV2

SUBNET = "6b28e99c-7c3d-4b23-a22e-434155ef7017"


def check(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["check", *map(str, arguments)])


def fill(state: object, cidr: str, operation: int) -> None:
    state.operation_type = operation  # type: ignore[attr-defined]
    configuration = state.configuration  # type: ignore[attr-defined]
    configuration.revision_number = 1
    configuration.id = SUBNET
    configuration.vpc_id = "vpc-1"
    configuration.cidr = cidr
    configuration.tunnel_id = 70411


def v1(cidr: str = "10.0.0.0/24", operation: int = common_pb2.INFO) -> GoalState:
    message = GoalState()
    fill(message.subnet_states.add(), cidr, operation)
    return message


def v2(cidr: str = "10.0.0.0/24", operation: int = common_pb2.INFO) -> GoalStateV2:
    message = GoalStateV2()
    fill(message.subnet_states[SUBNET], cidr, operation)
    return message


FORMS: dict[str, Callable[[Message], bytes]] = {
    ".txtpb": lambda message: text_format.MessageToString(message).encode(),
    ".json": lambda message: json_format.MessageToJson(message).encode(),
    ".pb": lambda message: message.SerializeToString(),
}


@pytest.mark.parametrize("named", [True, False], ids=["suffix", "no suffix"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("operation", [common_pb2.INFO, common_pb2.CREATE])
@pytest.mark.parametrize(("message", "layout"), [(v1, "v1"), (v2, "v2")], ids=["v1", "v2"])
def test_form_and_layout_are_found_out(
    tmp_path: Path, message: Callable[..., Message], layout: str, operation: int, form: str, named: bool
) -> None:
    file = tmp_path / ("state" + (form if named else ""))
    file.write_bytes(FORMS[form](message(operation=operation)))
    result = check(file)
    assert result.exit_code == 0, result.output
    assert f"{layout}, 1 resources, 0 invalid" in result.output
    assert SUBNET in result.output


def test_the_name_or_a_flag_says_the_layout(tmp_path: Path) -> None:
    file = tmp_path / "state.v2.txtpb"
    file.write_text(text_format.MessageToString(v1()))
    refused = check(file)
    assert refused.exit_code == 2
    assert "as v2" in refused.output
    assert check("--v1", file).exit_code == 0
    assert check("--v1", "--v2", file).exit_code == 2


def test_an_invalid_resource_is_named_with_its_error(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.v1.pb", tmp_path / "bad.v1.pb"
    good.write_bytes(v1().SerializeToString())
    bad.write_bytes(v1(cidr="10.0.0.0/99").SerializeToString())
    result = check(good, bad)
    assert result.exit_code == 1
    assert "good.v1.pb: v1, 1 resources, 0 invalid" in result.output
    assert "bad.v1.pb: v1, 1 resources, 1 invalid" in result.output
    assert "10.0.0.0/99" in result.output


def test_many_resources_are_summed_up_and_the_invalid_ones_listed(tmp_path: Path) -> None:
    message = GoalState()
    for number in range(200):
        fill(message.subnet_states.add(), "10.0.0.0/24" if number != 77 else "nonsense", common_pb2.INFO)
        message.subnet_states[number].configuration.id = f"subnet-{number}"
    file = tmp_path / "state.pb"
    file.write_bytes(message.SerializeToString())
    result = check(file)
    assert result.exit_code == 1
    assert "199" in result.output
    assert "nonsense" in result.output
    assert "subnet-77" in result.output
    assert "subnet-76" not in result.output


def test_only_what_is_meant_for_a_host(tmp_path: Path) -> None:
    message = v2()
    named = message.host_resources["192.0.2.12"].resources.add()
    named.type, named.id = common_pb2.SUBNET, SUBNET
    file = tmp_path / "state.v2.pb"
    file.write_bytes(message.SerializeToString())
    assert "1 resources" in check(file).output
    assert "1 resources" in check("--host", "192.0.2.12", file).output
    assert "0 resources" in check("--host", "192.0.2.11", file).output
    assert check("--host", "nonsense", file).exit_code == 2


def test_nothing_for_a_host_is_told(tmp_path: Path) -> None:
    message = v2()
    named = message.host_resources["2001:db8::12"].resources.add()
    named.type, named.id = common_pb2.SUBNET, SUBNET
    file = tmp_path / "state.v2.pb"
    file.write_bytes(message.SerializeToString())
    assert "nothing is for host 192.0.2.11" in check("--host", "192.0.2.11", file).output
    assert "nothing is for" not in check("--host", "2001:DB8:0::12", file).output


@pytest.mark.parametrize("content", ["", "# nothing\n", "format_version: 7\n"])
def test_an_empty_goal_state_is_valid_and_said_to_be_empty(tmp_path: Path, content: str) -> None:
    file = tmp_path / "empty.txtpb"
    file.write_text(content)
    result = check("--host", "192.0.2.1", file)
    assert result.exit_code == 0
    assert "it is empty" in result.output
    assert "nothing is for" not in result.output


@pytest.mark.parametrize("form", FORMS)
def test_a_goal_state_from_standard_input(form: str) -> None:
    result = CliRunner().invoke(main, ["check", "-"], input=FORMS[form](v1(cidr="nonsense")))
    assert result.exit_code == 1
    assert "standard input: v1, 1 resources, 1 invalid" in result.output


def test_the_error_of_a_row_does_not_repeat_kind_and_id(tmp_path: Path) -> None:
    file = tmp_path / "bad.v1.pb"
    file.write_bytes(v1(cidr="nonsense").SerializeToString())
    output = check(file).output
    assert output.count(SUBNET) == 1
    assert "cidr 'nonsense'" in output


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ('{"nothing": 1}', 'as v1: no field "nothing" at GoalState'),
        (
            '{"port_states": [{"configuration": {"idd": 1}}]}',
            'as v1: no field "idd" at GoalState.port_states[0].configuration',
        ),
        ('{"format_version": "x"}', "as v1: format_version: invalid literal"),
    ],
)
def test_what_is_wrong_in_json_is_told_in_one_short_sentence(tmp_path: Path, content: str, told: str) -> None:
    file = tmp_path / "state.json"
    file.write_text(content)
    result = check("--v1", file)
    assert result.exit_code == 2
    (_, line) = result.output.splitlines()
    assert line.strip().startswith(told)
    assert len(line) < 100


@pytest.mark.parametrize("content", [b"", b"subnet_states {", b'{"nothing": 1}', b"\xff\xff\xff"])
def test_what_is_no_goal_state_ends_with_status_2(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "state"
    if content:
        file.write_bytes(content)
    result = check(file)
    assert result.exit_code == 2
    assert str(file) in result.output
    assert "Traceback" not in result.output
