"""Pushing goal states to an agent, as a controller does."""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import grpc
from google.protobuf.message import DecodeError

from aca.cli.console import CommandError
from aca.cli.goalstates import GoalStateFile, Layout
from aca.cli.target import check_target, reach
from goalstate_proto import common_pb2
from goalstate_proto.aca_pb2 import ReplyExtension
from goalstate_proto.goalstate_pb2 import GoalState, GoalStateV2
from goalstate_proto.goalstateprovisioner_pb2 import GoalStateOperationReply

_UNARY = "/alcor.schema.GoalStateProvisioner/PushNetworkResourceStates"
_STREAM = "/alcor.schema.GoalStateProvisioner/PushGoalStatesStream"
_OPTIONS = [
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    # A proxy for the web is not on the way to an agent, and is not asked when we look whether one is there.
    ("grpc.enable_http_proxy", 0),
]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an agent answered for one resource. Numbers are the contract's enums; times are in microseconds."""

    kind: int
    id: str
    """As received: empty for DHCP entries of the first layout."""
    label: str
    """What to call the resource: the id, else what the file says of it, '-' if nobody knows."""
    operation: int
    status: int
    reason: str
    dataplane_us: int
    network_us: int
    elapsed_us: int


@dataclass(frozen=True, slots=True)
class Push:
    """One message and its reply. `total_us` is the agent's own time, `seconds` ours from sending to the reply."""

    file: GoalStateFile
    outcomes: tuple[Outcome, ...]
    total_us: int
    seconds: float


class AgentClient:
    """A connection to one agent. Raises CommandError for everything that goes wrong on the way."""

    def __init__(self, target: str, connect_timeout_s: float, reply_timeout_s: float) -> None:
        check_target(target)
        reach(target, connect_timeout_s)
        self._target = target
        self._reply_timeout_s = reply_timeout_s
        self._channel = grpc.insecure_channel(target, options=_OPTIONS)
        try:
            grpc.channel_ready_future(self._channel).result(timeout=connect_timeout_s)
        except grpc.FutureTimeoutError:
            self._channel.close()
            raise CommandError(f"{target}: no agent answers there ({connect_timeout_s:g} s)") from None

    def __enter__(self) -> AgentClient:
        return self

    def __exit__(self, *_exc: object) -> None:
        self._channel.close()

    def push(self, file: GoalStateFile) -> Push:
        """Send one goal state (first layout: unary; second: a stream of one message) and wait for the reply."""
        message = file.message.SerializeToString()
        begin = time.monotonic()
        try:
            reply = self._unary(message) if file.layout is Layout.V1 else self._stream(message)
        except grpc.RpcError as error:
            raise CommandError(f"{self._target}: {file.name}: {_describe(error)}") from None
        return _push(file, reply, time.monotonic() - begin)

    def _unary(self, message: bytes) -> bytes:
        reply: bytes = self._channel.unary_unary(_UNARY, None, None)(message, timeout=self._reply_timeout_s)
        return reply

    def _stream(self, message: bytes) -> bytes:
        call = self._channel.stream_stream(_STREAM, None, None)
        replies: list[bytes] = list(call(iter([message]), timeout=self._reply_timeout_s))
        if len(replies) != 1:
            raise CommandError(f"{self._target}: answered one message with {len(replies)} replies")
        return replies[0]


def _describe(error: Any) -> str:
    return f"{error.code().name}: {error.details()}"


def _push(file: GoalStateFile, data: bytes, seconds: float) -> Push:
    try:
        reply = GoalStateOperationReply.FromString(data)
        extension = ReplyExtension.FromString(data)
    except DecodeError:
        raise CommandError(f"{file.name}: the reply is not a GoalStateOperationReply") from None
    return Push(file, tuple(_outcomes(file, reply, extension)), reply.message_total_operation_time, seconds)


def _outcomes(file: GoalStateFile, reply: GoalStateOperationReply, extension: ReplyExtension) -> Iterator[Outcome]:
    # Ids repeat (DHCP entries have none), so the reasons of one id are taken in their order.
    reasons: defaultdict[tuple[int, str, int], deque[str]] = defaultdict(deque)
    for problem in extension.problems:
        reasons[problem.resource_type, problem.resource_id, problem.status].append(problem.reason)
    nameless = sum(_is_nameless(status) for status in reply.operation_statuses)
    labels = iter(_labels_of_nameless(file.message, nameless))
    for status in reply.operation_statuses:
        mine = reasons.get((status.resource_type, status.resource_id, status.operation_status))
        yield Outcome(
            status.resource_type,
            status.resource_id,
            next(labels, "-") if _is_nameless(status) else status.resource_id or "-",
            status.operation_type,
            status.operation_status,
            mine.popleft() if mine else "",
            status.dataplane_programming_time,
            status.network_configuration_time,
            status.state_elapse_time,
        )


def _is_nameless(status: GoalStateOperationReply.GoalStateOperationStatus) -> bool:
    return status.resource_type == common_pb2.DHCP and not status.resource_id


def _labels_of_nameless(message: GoalState | GoalStateV2, answered: int) -> list[str]:
    """Subnet and MAC of the DHCP entries that have no id, in their order: replies keep it, and tell no more.

    None if not as many as are in the message were `answered`: then nobody knows which.
    """
    if not isinstance(message, GoalState):
        return []
    entries = [state.configuration for state in message.dhcp_states if not state.configuration.id]
    return [f"{entry.subnet_id} {entry.mac_address}" for entry in entries] if len(entries) == answered else []
