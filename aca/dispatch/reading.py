"""What the engine makes of a message before it merges it. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from aca.dispatch.inbox import Message, Removal, Together
from aca.goalstate.changes import Change
from aca.goalstate.decode import (
    concerns,
    decode_neighbor_rules,
    decode_together,
    decode_v1,
    decode_v2,
    ends_replay,
    removals,
)
from dataplane.base import Capabilities
from dataplane.model import Kind
from goalstate_proto.goalstate_pb2 import GoalState, GoalStateV2

FORMAT_V1 = 101
FORMAT_V2 = 102


def reply_version(message: Message) -> int:
    """The format_version of the reply."""
    if isinstance(message, Together | Removal):
        return FORMAT_V2
    return message.format_version or (FORMAT_V2 if isinstance(message, GoalStateV2) else FORMAT_V1)


def silent_kinds(message: Message, hosts: frozenset[str], capabilities: Capabilities) -> frozenset[Kind]:
    """Kinds that get no status in the reply.

    Security groups are remembered but not enforced: saying SUCCESS would be a lie, so nothing is said. And what a
    multicast tells everybody about the network is no answer to a host that it does not name (fixture 11).
    """
    if isinstance(message, Together):
        return frozenset(Kind)
    silent = set() if capabilities.security_groups else {Kind.SECURITYGROUP}
    if isinstance(message, GoalStateV2) and not concerns(message.host_resources, hosts):
        silent |= {Kind.VPC, Kind.SUBNET}
    return frozenset(silent)


def changes_of(message: Message, hosts: frozenset[str]) -> Iterator[list[Change]]:
    """Lists of changes of one kind each, as they are asked for. `hosts`: texts of this host's addresses."""
    if isinstance(message, GoalState):
        return decode_v1(message)
    if isinstance(message, GoalStateV2):
        return decode_v2(message, hosts)
    if isinstance(message, Together):
        return decode_together(message.messages, hosts)
    if isinstance(message, Removal):
        return removals(message.keys)
    return decode_neighbor_rules(message)


def replay_end(message: Message) -> str:
    """The id of the request whose replay ends with it; empty if it ends none. Replays come by gRPC alone."""
    return "" if isinstance(message, Together | Removal) else ends_replay(message)
