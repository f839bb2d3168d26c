"""The interface between the agent and a data plane.

In terms of what is wanted, never of how. A backend imports nothing of the agent, sees no protobuf and talks to no
controller. Backends are found by name through the entry point group `aca.dataplanes`.
"""

from __future__ import annotations

import abc
import enum
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from typing import Any

from dataplane.model import Key, Kind, NetworkType, Wanted

ENTRY_POINT_GROUP = "aca.dataplanes"


class Status(enum.Enum):
    """What became of one resource."""

    DONE = "done"
    """Confirmed by the data plane."""
    PENDING = "pending"
    """Remembered; will be programmed when what it waits for is there."""
    INVALID = "invalid"
    """Refused: the resource itself must change."""
    FAILED = "failed"
    """The data plane refused or broke; retried with back-off."""
    OUT_OF_ORDER = "out of order"
    """Older than what is known; nothing changed."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result for one resource; `reason` is a sentence for people, empty if done."""

    status: Status
    reason: str = ""


DONE = Outcome(Status.DONE)


def pending(reason: str) -> Outcome:
    return Outcome(Status.PENDING, reason)


def invalid(reason: str) -> Outcome:
    return Outcome(Status.INVALID, reason)


def failed(reason: str) -> Outcome:
    return Outcome(Status.FAILED, reason)


@dataclass(frozen=True, slots=True)
class Batch:
    """Changes of one kind. An id stands in one of the three at most, and there once.

    `removals` are gone for good, whoever programmed them. `withheld` are wanted but cannot be programmed now: what this
    agent has programmed of them goes, but not what one before it has, since it may only be that not all is known yet.
    """

    kind: Kind
    upserts: Sequence[Wanted] = ()
    removals: Sequence[str] = ()
    withheld: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Applied:
    """What became of some batches: resources that are not in `problems` are done.

    `programming_us` is the time the data plane needed, in microseconds.
    """

    problems: Mapping[Key, Outcome] = field(default_factory=dict)
    programming_us: int = 0


@dataclass(frozen=True, slots=True)
class Ready:
    """The data plane can be programmed. Whatever was programmed before may be gone."""


@dataclass(frozen=True, slots=True)
class Lost:
    """The data plane cannot be programmed until the next `Ready`."""

    reason: str


@dataclass(frozen=True, slots=True)
class DevicesChanged:
    """Devices of these ports appeared, vanished or changed; apply the ports again."""

    port_ids: frozenset[str]


@dataclass(frozen=True, slots=True)
class Drifted:
    """Somebody removed or altered what stands of these resources. It is no longer taken for installed: applying them
    again puts it back. `examples` says of some objects what happened, in words for people."""

    keys: frozenset[Key]
    examples: tuple[str, ...] = ()


class PuntReason(enum.Enum):
    DHCP = "dhcp"
    UNKNOWN_DESTINATION = "unknown destination"
    """Nobody here knows who has the address that the packet has to go to: see `Punt.unresolved`."""


@dataclass(frozen=True, slots=True)
class Unresolved:
    """An address (packed) that is looked for in a subnet, and that no port or neighbour is known to have."""

    vpc_id: str
    subnet_id: str
    address: bytes


@dataclass(frozen=True, slots=True)
class Punt:
    """A guest's packet that the agent is asked about: a whole Ethernet frame as the guest sent it, and the port it came
    from.

    Where a router of the data plane asks itself, by ARP, for what guests' packets wait for in the router, `frame` is
    that request, and `port_id` is one of the ports that the router serves.
    """

    reason: PuntReason
    port_id: str
    frame: bytes
    unresolved: Unresolved | None = None


Event = Ready | Lost | DevicesChanged | Drifted | Punt


@dataclass(frozen=True, slots=True)
class Leftover:
    """An object with this agent's mark that nothing wanted accounts for.

    `name` is for people; `handle` is the backend's own, and means something to the backend that gave it only.
    """

    name: str
    handle: Hashable


@dataclass(frozen=True, slots=True)
class Survey:
    """What was found when what stands was compared with what was programmed.

    `standing`, `missing` and `altered` count objects (flows, devices, entries); `examples` names some of the missing
    and altered. `again` are the resources to be applied again to put those back.
    """

    standing: int = 0
    missing: int = 0
    altered: int = 0
    examples: tuple[str, ...] = ()
    again: frozenset[Key] = frozenset()
    leftovers: Sequence[Leftover] = ()


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a backend can program. What it cannot is answered INVALID_ARG with the reason, never pretended."""

    network_types: frozenset[NetworkType]
    lacks: Mapping[NetworkType, str] = field(default_factory=dict)
    """Why a network type is not among them, in words that follow "is", where there is more to say than that."""
    ipv6: bool = False
    security_groups: bool = False
    gateways: bool = False


class DataPlaneError(Exception):
    """The data plane did not do what was asked; the message says what and why."""


class DataPlane(abc.ABC):
    """One way to make a host's network match the desired state.

    Thread safety: `apply` may be called by several threads at once, but never for the same id, and never for two ids
    of one VPC. `inject` and `resubmit` may be called by any thread. `open` and `close` are called once, by one thread.
    """

    @property
    @abc.abstractmethod
    def capabilities(self) -> Capabilities: ...

    @abc.abstractmethod
    def open(self, listener: Callable[[Event], None]) -> None:
        """Start and return at once. `listener` gets `Ready` when programming can begin; it must not block."""

    @abc.abstractmethod
    def close(self) -> None:
        """Stop within 2 s; traffic keeps flowing. Idempotent."""

    @abc.abstractmethod
    def set_tunnel_address(self, address: bytes) -> None:
        """Tunnels of this host end at this address from now on (packed). Returns when they do.

        Called by any thread, one at a time. Raises DataPlaneError; the former address is then still in use, or it is
        not known which.
        """

    @abc.abstractmethod
    def apply(self, batches: Sequence[Batch]) -> Applied:
        """Make the batches true, in their order, and wait for the data plane to confirm.

        A backend makes as few transactions of them as it can. Idempotent: what is already so costs nothing. Removing
        what is not there succeeds. Never raises for what a single resource does wrong; raises DataPlaneError when the
        data plane as a whole cannot be reached or gives no answer in time.
        """

    @abc.abstractmethod
    def check(self) -> Survey:
        """A cheap look for drift, called every few seconds: counts, and a slice of the objects at a time, so that all
        are read within some minutes. Finds no leftovers. What belongs to no resource (the fixed part of a pipeline, a
        segment's devices) the backend puts back itself; the rest is told in `again`.

        May run beside `apply`; what is being programmed at the moment does not count as drift. Raises DataPlaneError.
        """

    @abc.abstractmethod
    def survey(self, unsettled: Collection[Key]) -> Survey:
        """Read back everything with this agent's mark and compare. As `check`, but all of it and with leftovers.

        `unsettled` are wanted but not programmed now (pending or failed): what an earlier agent left of them still
        serves, and is no leftover. Changes nothing that is somebody's traffic. Raises DataPlaneError.
        """

    @abc.abstractmethod
    def sweep(self, leftovers: Sequence[Leftover]) -> int:
        """Take these away, atomically where the data plane can, unless they have come to be wanted meanwhile.

        Returns how many were taken away. Raises DataPlaneError when the data plane refuses or gives no answer.
        """

    @abc.abstractmethod
    def inject(self, port_id: str, frame: bytes) -> None:
        """Hand a frame to a local port. Best effort, like any packet; a port that is gone is ignored."""

    @abc.abstractmethod
    def resubmit(self, punt: Punt) -> None:
        """Let a packet of unknown destination that was handed up go on, now that its destination is programmed.

        It takes the way of any packet of its port's: nothing is delivered that would not have been. If the destination
        is still unknown it may be handed up again. Best effort, callable by any thread, as `inject`.
        """

    @abc.abstractmethod
    def describe(self) -> Mapping[str, Any]:
        """A JSON-ready description of what is programmed, for `aca status`. Cheap; no data plane calls."""


def backend_names() -> list[str]:
    return sorted(point.name for point in entry_points(group=ENTRY_POINT_GROUP))


def load_backend(name: str) -> type[DataPlane]:
    """The backend class registered as `name`. Raises DataPlaneError naming those that exist."""
    for point in entry_points(group=ENTRY_POINT_GROUP):
        if point.name == name:
            loaded: type[DataPlane] = point.load()
            return loaded
    raise DataPlaneError(f"no data plane named {name!r}; there are: {', '.join(backend_names()) or 'none'}")
