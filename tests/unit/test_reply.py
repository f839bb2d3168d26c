"""Replies that old peers understand, with reasons for those who look."""

from __future__ import annotations

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st

from aca.goalstate.reply import ResourceResult, build_reply, encode_results, problems
from dataplane.base import DONE, Outcome, Status, failed, invalid, pending
from dataplane.model import Kind
from goalstate_proto.aca_pb2 import Problem
from goalstate_proto.common_pb2 import FAILURE, INVALID_ARG, OUT_OF_ORDER, PENDING, SUCCESS, OperationStatus
from goalstate_proto.goalstateprovisioner_pb2 import GoalStateOperationReply

NUMBERS = {
    Status.DONE: SUCCESS,
    Status.PENDING: PENDING,
    Status.INVALID: INVALID_ARG,
    Status.FAILED: FAILURE,
    Status.OUT_OF_ORDER: OUT_OF_ORDER,
}
LIMIT = 2**32 - 1

results = st.builds(
    ResourceResult,
    kind=st.sampled_from(Kind),
    resource_id=st.one_of(st.just(""), st.uuids().map(str), st.text(max_size=400)),
    operation=st.one_of(st.integers(0, 4), st.integers(-(2**31), 2**31 - 1)),
    outcome=st.builds(Outcome, st.sampled_from(Status), st.one_of(st.just(""), st.text(max_size=40))),
    programming_us=st.one_of(st.integers(0, 2**33), st.integers(-5, 300)),
    elapsed_us=st.one_of(st.integers(0, 2**33), st.integers(-5, 300)),
)


def clamped(number: int) -> int:
    return min(max(number, 0), LIMIT)


def by_protobuf(statuses: list[ResourceResult], format_version: int, total_us: int) -> GoalStateOperationReply:
    reply = GoalStateOperationReply(format_version=format_version, message_total_operation_time=clamped(total_us))
    for one in statuses:
        reply.operation_statuses.add(
            resource_id=one.resource_id,
            resource_type=int(one.kind),
            operation_type=one.operation,
            operation_status=NUMBERS[one.outcome.status],
            dataplane_programming_time=clamped(one.programming_us),
            state_elapse_time=clamped(one.elapsed_us),
        )
    return reply


@settings(deadline=None)
@given(st.lists(results, max_size=8), st.integers(0, LIMIT), st.integers(-1, 2**40))
def test_reply_is_what_protobuf_would_write(statuses: list[ResourceResult], version: int, total_us: int) -> None:
    data = build_reply([encode_results(statuses)], version, total_us)
    reply = GoalStateOperationReply.FromString(data)
    reply.DiscardUnknownFields()
    assert reply == by_protobuf(statuses, version, total_us)
    wanted = [
        Problem(
            resource_type=int(one.kind),  # type: ignore[arg-type]
            resource_id=one.resource_id,
            status=NUMBERS[one.outcome.status],
            reason=one.outcome.reason,
        )
        for one in statuses
        if one.outcome.reason
    ]
    assert problems(data) == wanted


@pytest.mark.parametrize(
    ("outcome", "number"),
    [
        (DONE, "SUCCESS"),
        (pending("device tap1 is missing"), "PENDING"),
        (invalid("cidr is empty"), "INVALID_ARG"),
        (failed("the switch said no"), "FAILURE"),
        (Outcome(Status.OUT_OF_ORDER, "revision 1 is older than 2"), "OUT_OF_ORDER"),
    ],
)
def test_outcomes(outcome: Outcome, number: str) -> None:
    data = build_reply([encode_results([ResourceResult(Kind.PORT, "p", 1, outcome, 5, 7)])], 102, 9)
    (status,) = GoalStateOperationReply.FromString(data).operation_statuses
    assert OperationStatus.Name(status.operation_status) == number
    assert [problem.reason for problem in problems(data)] == ([outcome.reason] if outcome.reason else [])


def test_reply_to_an_empty_message_is_empty() -> None:
    assert build_reply([], 0, 0) == b""


def test_nothing_is_added_for_peers_when_all_went_well() -> None:
    statuses = [ResourceResult(Kind.DHCP, "", 4, DONE, 0, 0), ResourceResult(Kind.VPC, "v", 0, DONE, 0, 1)]
    data = build_reply([encode_results(statuses[:1]), encode_results(statuses[1:])], 101, 3)
    assert len(data) == by_protobuf(statuses, 101, 3).ByteSize()
    assert problems(data) == []


def test_bytes_that_are_no_reply() -> None:
    with pytest.raises(DecodeError):
        problems(b"\xff\xff\xff")
