"""Whole messages: what they hold, kind by kind in the order of dependence."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from itertools import repeat
from typing import Final, Protocol, TypeVar

from aca.goalstate.changes import Change
from aca.goalstate.decode.head import received_id
from aca.goalstate.decode.hosts import bare_id, ids_of_others
from aca.goalstate.decode.neighbor import decode_neighbors
from aca.goalstate.decode.network import decode_gateway, decode_subnet, decode_vpc
from aca.goalstate.decode.port import decode_dhcp, decode_port, united
from aca.goalstate.decode.router import decode_router
from aca.goalstate.decode.security_group import decode_security_group
from dataplane.model import Kind
from goalstate_proto import goalstate_pb2, goalstateprovisioner_pb2

_NONE: Final[Set[str]] = frozenset()


class _Configuration(Protocol):
    @property
    def id(self) -> str: ...


class _State(Protocol):
    @property
    def configuration(self) -> _Configuration: ...


_S = TypeVar("_S", bound=_State)


def decode_v1(message: goalstate_pb2.GoalState) -> Iterator[list[Change]]:
    """The changes that a V1 goal state asks for: lists of one kind each, in the order in which kinds depend on one
    another, neighbours last and in slices. Empty lists are left out. The message must not change meanwhile.

    Never raises for what the message holds: see `Change.error`.
    """
    yield from filter(
        None,
        (
            _all(message.vpc_states, decode_vpc),
            _all(message.subnet_states, decode_subnet),
            _all(message.security_group_states, decode_security_group),
            _all(message.gateway_states, decode_gateway),
            _all(message.router_states, decode_router),
            united(_all(message.port_states, decode_port)),
            _all(message.dhcp_states, decode_dhcp),
        ),
    )
    yield from decode_neighbors(zip(repeat(""), message.neighbor_states), _NONE)


def decode_v2(message: goalstate_pb2.GoalStateV2, local_addresses: frozenset[str]) -> Iterator[list[Change]]:
    """As `decode_v1`, for a V2 goal state. What it names for other hosts and not for one of `local_addresses` (texts of
    IP addresses, management and data path) gives no change at all."""
    others = ids_of_others(message.host_resources, local_addresses)
    yield from filter(
        None,
        (
            _mine(message.vpc_states, decode_vpc, others.get(Kind.VPC, _NONE)),
            _mine(message.subnet_states, decode_subnet, others.get(Kind.SUBNET, _NONE)),
            _mine(message.security_group_states, decode_security_group, others.get(Kind.SECURITYGROUP, _NONE)),
            _mine(message.gateway_states, decode_gateway, others.get(Kind.GATEWAY, _NONE)),
            _mine(message.router_states, decode_router, others.get(Kind.ROUTER, _NONE)),
            _mine(message.port_states, decode_port, others.get(Kind.PORT, _NONE)),
            _mine(message.dhcp_states, decode_dhcp, others.get(Kind.DHCP, _NONE)),
        ),
    )
    yield from decode_neighbors(message.neighbor_states.items(), others.get(Kind.NEIGHBOR, _NONE))


def decode_neighbor_rules(message: goalstateprovisioner_pb2.NeighborRulesRequest) -> Iterator[list[Change]]:
    """The neighbours of a rules request, in slices; as `decode_v1`."""
    yield from decode_neighbors(zip(repeat(""), message.neigborstates), _NONE)


def _all(states: Iterable[_S], decode: Callable[[str, _S], Change]) -> list[Change]:
    return [decode("", state) for state in states]


def _mine(states: Mapping[str, _S], decode: Callable[[str, _S], Change], others: Set[str]) -> list[Change]:
    # Sorted: the order of a map is random, and of two states with one id the last is to win reproducibly.
    return [
        decode(key, state)
        for key, state in sorted(states.items(), key=lambda item: item[0])
        if bare_id(received_id(key, state.configuration.id)) not in others
    ]
