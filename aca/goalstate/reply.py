"""Outcomes to the reply that controllers know, and the reasons beside it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from dataplane.base import Outcome, Status
from dataplane.model import Kind
from goalstate_proto import aca_pb2, common_pb2
from goalstate_proto.goalstateprovisioner_pb2 import GoalStateOperationReply

_MAX_TIME: Final = 0xFFFFFFFF
_STATUSES: Final = {
    Status.DONE: common_pb2.SUCCESS,
    Status.PENDING: common_pb2.PENDING,
    Status.INVALID: common_pb2.INVALID_ARG,
    Status.FAILED: common_pb2.FAILURE,
    Status.OUT_OF_ORDER: common_pb2.OUT_OF_ORDER,
}


class ResourceResult(NamedTuple):
    """What became of one resource of a message."""

    kind: Kind
    resource_id: str
    """As received."""
    operation: int
    """As received."""
    outcome: Outcome
    programming_us: int
    """Microseconds that the data plane needed."""
    elapsed_us: int
    """Microseconds from taking the resource up to its result."""


class Statuses(NamedTuple):
    """Part of a reply, serialized: statuses, and the reasons that go with them."""

    statuses: bytes
    reasons: bytes


def build_reply(parts: Iterable[Statuses], format_version: int, total_us: int) -> bytes:
    """A serialized GoalStateOperationReply of parts, in their order.

    The reasons are a serialized aca.v1.ReplyExtension: to a peer that does not know it, an unknown field (protobuf's
    rule that concatenated messages merge). Times are microseconds, those beyond 32 bits stand at the limit.
    """
    head = GoalStateOperationReply(format_version=format_version, message_total_operation_time=_time(total_us))
    every = list(parts)
    return b"".join(
        (head.SerializeToString(), *(part.statuses for part in every), *(part.reasons for part in every))
    )


def encode_results(results: Iterable[ResourceResult]) -> Statuses:
    """One status per result, in their order, and the reasons of those that have one."""
    parts: list[bytes] = []
    extension = aca_pb2.ReplyExtension()
    # A hundred thousand results differ in id and time, but mostly share the rest with the one before. Tags: 0x12 is
    # field 2 of the reply (a status), 0x0a and 0x38 are fields 1 (resource_id) and 7 (state_elapse_time) of a status.
    shared: tuple[Kind, int, Status, int] | None = None
    middle = b""
    for kind, resource_id, operation, outcome, programming_us, elapsed_us in results:
        status = outcome.status
        if shared != (kind, operation, status, programming_us):
            shared = (kind, operation, status, programming_us)
            middle = _middle(*shared)
        text = resource_id.encode()
        tail = _varint(elapsed_us if 0 < elapsed_us < _MAX_TIME else _time(elapsed_us))
        length = len(text) + len(middle) + len(tail) + 3
        if text and length < 0x80:
            parts.append(b"\x12%c\x0a%c%b%b\x38%b" % (length, len(text), text, middle, tail))
        else:
            parts.append(_status(text, middle, tail))
        if outcome.reason:
            extension.problems.add(
                resource_type=kind, resource_id=resource_id, status=_STATUSES[status], reason=outcome.reason
            )
    return Statuses(b"".join(parts), extension.SerializeToString())


def _middle(kind: Kind, operation: int, status: Status, programming_us: int) -> bytes:
    """A serialized GoalStateOperationStatus without its first field, resource_id, and its last, state_elapse_time."""
    # Enums are open: any number passes at run time, which the generated types do not say.
    numbers: dict[str, Any] = {"resource_type": kind, "operation_type": operation}
    return GoalStateOperationReply.GoalStateOperationStatus(
        operation_status=_STATUSES[status], dataplane_programming_time=_time(programming_us), **numbers
    ).SerializeToString()


def _status(text: bytes, middle: bytes, tail: bytes) -> bytes:
    """Field 2 of a reply: an operation status of any length, put together from its parts."""
    head = b"\x0a%b%b" % (_varint(len(text)), text) if text else b""
    end = b"\x38" + tail if tail != b"\0" else b""
    return b"\x12%b%b%b%b" % (_varint(len(head) + len(middle) + len(end)), head, middle, end)


def _varint(number: int) -> bytes:
    """Protobuf's base 128 varint: 7 bits a byte, the lowest first."""
    if number < 0x80:
        return b"%c" % number
    if number < 0x4000:
        return b"%c%c" % (number & 0x7F | 0x80, number >> 7)
    return b"%c%c%b" % (number & 0x7F | 0x80, number >> 7 & 0x7F | 0x80, _varint(number >> 14))


def problems(reply: bytes) -> list[aca_pb2.Problem]:
    """The reasons in a serialized reply of an agent of ours; none if it is another's. Raises
    google.protobuf.message.DecodeError if `reply` is no reply at all."""
    return list(aca_pb2.ReplyExtension.FromString(reply).problems)


def _time(microseconds: int) -> int:
    return min(max(microseconds, 0), _MAX_TIME)
