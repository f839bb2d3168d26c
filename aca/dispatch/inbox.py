"""What arrives at the engine's inbox, beside the data plane's events."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from aca.dispatch.plan import LaneWork
from dataplane.base import Applied
from dataplane.model import Key
from goalstate_proto.goalstate_pb2 import GoalState, GoalStateV2
from goalstate_proto.goalstateprovisioner_pb2 import NeighborRulesRequest


@dataclass(frozen=True, slots=True)
class Together:
    """Many small messages with one answer, in their order. The reply carries no statuses; what is refused is logged."""

    messages: tuple[GoalState | GoalStateV2, ...]


@dataclass(frozen=True, slots=True)
class Removal:
    """Resources that nobody wants any more, by what identifies them in the desired state."""

    keys: tuple[Key, ...]


Message = GoalState | GoalStateV2 | NeighborRulesRequest | Together | Removal


@dataclass(frozen=True, slots=True)
class Push:
    message: Message
    future: Future[bytes]
    received: float


@dataclass(frozen=True, slots=True)
class TurnOver:
    lane: str
    turn: int
    work: LaneWork
    applied: Applied
    error: str


@dataclass(frozen=True, slots=True)
class Call:
    """Something to be run on the engine's thread."""

    function: Callable[[], Any]
    future: Future[Any]


@dataclass(frozen=True, slots=True)
class Stop:
    seconds: float
    """How long to wait for the work in hand."""
