"""Many messages as one: what hosts that read a log have, whose records are small."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, groupby
from typing import Final

from aca.goalstate.changes import Change
from aca.goalstate.decode.messages import decode_v1, decode_v2
from aca.goalstate.decode.neighbor import decode_neighbors
from dataplane.model import Key, Kind
from goalstate_proto.common_pb2 import DELETE
from goalstate_proto.goalstate_pb2 import GoalState, GoalStateV2

_NOBODY: Final[frozenset[str]] = frozenset()


def decode_together(
    messages: Sequence[GoalState | GoalStateV2], local_addresses: frozenset[str]
) -> Iterator[list[Change]]:
    """The changes of messages in their order: lists of one kind each. As decode_v2, for many."""
    for only_neighbors, run in groupby(messages, _only_neighbors):
        if only_neighbors:
            maps = (one.neighbor_states.items() for one in run if isinstance(one, GoalStateV2))
            yield from decode_neighbors(chain.from_iterable(maps), _NOBODY)
        else:
            for one in run:
                yield from decode_v2(one, local_addresses) if isinstance(one, GoalStateV2) else decode_v1(one)


def removals(keys: Iterable[Key]) -> Iterator[list[Change]]:
    """Deletions of resources by their identity, what depends on others first. No revision: they always count."""
    ordered = sorted(keys, key=lambda key: (_DEPENDENTS_FIRST.index(key.kind), key.id))
    by_kind = groupby(ordered, lambda key: key.kind)
    for kind, group in by_kind:
        yield [Change(kind, key.id, key.id, DELETE, 0, True, False, None, "") for key in group]


_DEPENDENTS_FIRST: Final = (
    Kind.NEIGHBOR, Kind.DHCP, Kind.PORT, Kind.ROUTER, Kind.GATEWAY, Kind.SECURITYGROUP, Kind.SUBNET, Kind.VPC,
)


def _only_neighbors(message: GoalState | GoalStateV2) -> bool:
    """Nothing else, and nothing that is named for one host: whose neighbours can be taken in one go."""
    return isinstance(message, GoalStateV2) and not (
        message.port_states
        or message.subnet_states
        or message.vpc_states
        or message.host_resources
        or message.router_states
        or message.dhcp_states
        or message.security_group_states
        or message.gateway_states
    )
