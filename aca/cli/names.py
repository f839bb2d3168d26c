"""Names of the contract's enum values, numbers it does not know stay numbers; and reasons beside such names."""

from __future__ import annotations

from typing import Protocol

from aca.goalstate.decode.fields import shown
from goalstate_proto import common_pb2


class _Enum(Protocol):
    def Name(self, number: int) -> str: ...  # noqa: N802 (protobuf's name)


def kind_name(number: int) -> str:
    return _name(common_pb2.ResourceType, number)


def operation_name(number: int) -> str:
    return _name(common_pb2.OperationType, number)


def status_name(number: int) -> str:
    return _name(common_pb2.OperationStatus, number)


def bare_reason(reason: str, kind: str, resource_id: str) -> str:
    """A reason without 'KIND id: ' before it, for tables that have these in columns of their own."""
    for name in (resource_id, shown(resource_id)):
        if name and reason.startswith(f"{kind} {name}: "):
            return reason[len(f"{kind} {name}: ") :]
    return reason


def _name(enum: _Enum, number: int) -> str:
    try:
        return enum.Name(number)
    except ValueError:
        return str(number)
