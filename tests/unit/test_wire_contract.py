"""The generated modules match their sources and, name by name, the contract that controllers speak."""

import importlib
import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)

import goalstate_proto
from goalstate_proto import aca_pb2, goalstate_pb2, goalstateprovisioner_pb2, goalstateprovisioner_pb2_grpc
from goalstate_proto.common_pb2 import PENDING, PORT
from goalstate_proto.generate import GRPC_FLOOR, PACKAGE, PROTOBUF_FLOOR, generate, generated_files

CONTRACT_PACKAGE = "alcor.schema"
TABLE: dict[str, Any] = json.loads((Path(__file__).parent / "data" / "wire-contract.json").read_text())
# Read off the directory, so that a file that is added later is held against the table as well.
MODULES = sorted(path.stem + "_pb2" for path in PACKAGE.glob("*.proto"))


def contract_files() -> list[FileDescriptorProto]:
    """The loaded descriptors of every file of the contract's package."""
    files = []
    for name in MODULES:
        proto = FileDescriptorProto()
        importlib.import_module(f"goalstate_proto.{name}").DESCRIPTOR.CopyToProto(proto)
        if proto.package == CONTRACT_PACKAGE:
            files.append(proto)
    return files


def messages(scope: str, among: Any) -> Iterator[tuple[str, DescriptorProto]]:
    for message in among:
        name = f"{scope}.{message.name}"
        yield name, message
        yield from messages(name, message.nested_type)


def all_messages() -> dict[str, DescriptorProto]:
    return {
        name: message for file in contract_files() for name, message in messages(file.package, file.message_type)
    }


def all_enums() -> dict[str, EnumDescriptorProto]:
    enums = {f"{file.package}.{enum.name}": enum for file in contract_files() for enum in file.enum_type}
    for scope, message in all_messages().items():
        enums |= {f"{scope}.{enum.name}": enum for enum in message.enum_type}
    return enums


def table_row(message: DescriptorProto, field: FieldDescriptorProto) -> list[Any]:
    oneof = message.oneof_decl[field.oneof_index].name if field.HasField("oneof_index") else ""
    repeated = field.label == FieldDescriptorProto.LABEL_REPEATED
    return [field.number, int(field.type), repeated, field.type_name.removeprefix("."), oneof]


def test_messages_of_contract() -> None:
    assert all_messages().keys() == TABLE["messages"].keys()


@pytest.mark.parametrize("name", sorted(TABLE["messages"]))
def test_fields_of_contract(name: str) -> None:
    message = all_messages()[name]
    assert {field.name: table_row(message, field) for field in message.field} == TABLE["messages"][name]
    assert len(message.field) == len(TABLE["messages"][name])


def test_map_entries_of_contract() -> None:
    entries = {name for name, message in all_messages().items() if message.options.map_entry}
    assert entries == {name for name in TABLE["messages"] if name.endswith("Entry") and ".GoalStateV2." in name}
    assert len(entries) == 9


def test_enums_of_contract() -> None:
    found = {name: {v.name: v.number for v in enum.value} for name, enum in all_enums().items()}
    assert found == TABLE["enums"]


def test_services_of_contract() -> None:
    found = {
        f"{file.package}.{service.name}": {
            method.name: [
                method.input_type.removeprefix("."),
                method.output_type.removeprefix("."),
                method.client_streaming,
                method.server_streaming,
            ]
            for method in service.method
        }
        for file in contract_files()
        for service in file.service
    }
    assert found == TABLE["services"]


def test_scalars_are_without_presence() -> None:
    """proto3 without ``optional``: a peer that sends a default value sends nothing."""
    assert all(file.syntax == "proto3" for file in contract_files())
    optional = [
        f"{name}.{field.name}"
        for name, message in all_messages().items()
        for field in message.field
        if field.proto3_optional
    ]
    assert optional == []


def test_known_bytes_of_a_port() -> None:
    """Written out by hand from the table, so that it does not depend on what compiled the .proto files."""
    wire = bytes.fromhex("08 65") + bytes.fromhex("22 10 08 01 12 0c 08 01 1a 02 70 31 50 01 62 02 12 00")
    state = goalstate_pb2.GoalState.FromString(wire)
    assert state.format_version == 101
    (port,) = state.port_states
    assert (port.operation_type, port.configuration.revision_number, port.configuration.id) == (1, 1, "p1")
    assert port.configuration.admin_state_up
    assert [fixed.ip_address for fixed in port.configuration.fixed_ips] == [""]


def test_grpc_paths_are_those_of_the_contract() -> None:
    paths: list[str] = []

    class Channel:
        def unary_unary(self, path: str, **_: object) -> None:
            paths.append(path)

        stream_stream = unary_unary

    goalstateprovisioner_pb2_grpc.GoalStateProvisionerStub(Channel())  # type: ignore[no-untyped-call]
    assert sorted(paths) == [
        "/alcor.schema.GoalStateProvisioner/PushGoalStatesStream",
        "/alcor.schema.GoalStateProvisioner/PushGoalstates",
        "/alcor.schema.GoalStateProvisioner/PushNetworkResourceStates",
        "/alcor.schema.GoalStateProvisioner/RequestGoalStates",
    ]


def test_extension_of_a_reply_is_skipped_by_old_peers_and_read_by_ours() -> None:
    reply = goalstateprovisioner_pb2.GoalStateOperationReply(format_version=1, message_total_operation_time=250)
    reply.operation_statuses.add(resource_id="p1", resource_type=PORT, operation_status=PENDING)
    extension = aca_pb2.ReplyExtension()
    extension.problems.add(
        resource_id="p1", resource_type=PORT, status=PENDING, reason="device tap1 is not there"
    )
    wire = reply.SerializeToString() + extension.SerializeToString()

    seen_by_old = goalstateprovisioner_pb2.GoalStateOperationReply.FromString(wire)
    seen_by_old.DiscardUnknownFields()
    assert seen_by_old == reply
    (problem,) = aca_pb2.ReplyExtension.FromString(wire).problems
    assert (problem.resource_id, problem.status, problem.reason) == ("p1", PENDING, "device tap1 is not there")
    assert list(aca_pb2.ReplyExtension.FromString(reply.SerializeToString()).problems) == []


def test_committed_modules_are_what_the_generator_writes(tmp_path: Path) -> None:
    fresh = generate(tmp_path)
    committed = generated_files(PACKAGE)
    assert [path.name for path in sorted(fresh)] == [path.name for path in sorted(committed)]
    differing = [path.name for path in fresh if path.read_bytes() != (PACKAGE / path.name).read_bytes()]
    assert differing == [], "run: python -m goalstate_proto.generate"


def test_modules_load_with_the_oldest_supported_runtimes() -> None:
    """The generator's version stamps are the lower bounds that the project declares."""
    pyproject = Path(goalstate_proto.__file__).parents[1] / "pyproject.toml"
    dependencies: list[str] = tomllib.loads(pyproject.read_text())["project"]["dependencies"]
    for package, floor in (("protobuf", PROTOBUF_FLOOR), ("grpcio", GRPC_FLOOR)):
        (bound,) = [d for d in dependencies if d.startswith(f"{package}>=")]
        lowest = bound.removeprefix(f"{package}>=").split(",")[0]
        assert tuple(map(int, lowest.split("."))) == floor[: lowest.count(".") + 1]
