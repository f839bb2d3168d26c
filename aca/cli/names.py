"""Names of the contract's enum values; numbers it does not know stay numbers."""

from __future__ import annotations

from typing import Protocol

from goalstate_proto import common_pb2


class _Enum(Protocol):
    def Name(self, number: int) -> str: ...  # noqa: N802 (protobuf's name)


def kind_name(number: int) -> str:
    return _name(common_pb2.ResourceType, number)


def operation_name(number: int) -> str:
    return _name(common_pb2.OperationType, number)


def status_name(number: int) -> str:
    return _name(common_pb2.OperationStatus, number)


def _name(enum: _Enum, number: int) -> str:
    try:
        return enum.Name(number)
    except ValueError:
        return str(number)
