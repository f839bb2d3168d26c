"""What all kinds of resources have in common, and the three ways a resource of a message can turn out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from aca.goalstate.changes import Change, RouterPatch
from aca.goalstate.decode.fields import Refused, identifier, one_of, shown
from dataplane.model import Kind, Resource
from goalstate_proto import common_pb2

INFO: Final[int] = common_pb2.INFO
CREATE: Final[int] = common_pb2.CREATE
UPDATE: Final[int] = common_pb2.UPDATE
DELETE: Final[int] = common_pb2.DELETE
FULL: Final[int] = common_pb2.FULL
UPSERTS: Final = frozenset((INFO, CREATE, UPDATE))
"""Real controllers send routers and subnets as INFO and new neighbours as UPDATE (contract table, sections 0b.4 and
2.4): all three mean "make it so"."""
UPDATE_TYPES: Final = frozenset(common_pb2.UpdateType.values())


class Head(NamedTuple):
    """The fields that every resource of a message has."""

    kind: Kind
    resource_id: str
    operation: int
    revision: int
    update_type: int

    @property
    def label(self) -> str:
        """How error messages call the resource."""
        name = self.resource_id
        return f"{self.kind.name} {name if name.isprintable() and 0 < len(name) <= 255 else shown(name)}"


def received_id(map_key: str, configuration_id: str) -> str:
    """The id that counts: the configuration's, else the map key (V2) without the 'L2/' or 'L3/' of neighbours."""
    return configuration_id or map_key.removeprefix("L2/").removeprefix("L3/")


def checked_operation(operation: int) -> int:
    """INFO, CREATE, UPDATE or DELETE. Raises Refused for GET and unknown numbers."""
    if operation in UPSERTS or operation == DELETE:
        return operation
    known = operation in common_pb2.OperationType.values()
    name = common_pb2.OperationType.Name(common_pb2.GET) if known else str(operation)
    raise Refused(f"operation {name} is not supported by agents")


def refusal(head: Head, problem: str) -> Change:
    """The resource is refused: `problem` names field and value."""
    return Change(
        head.kind,
        head.resource_id,
        head.resource_id,
        head.operation,
        head.revision,
        head.operation == DELETE,
        False,
        None,
        f"{head.label}: {problem}",
    )


def withdrawal(head: Head, identify: Callable[[], str], vpc_id: str = "") -> Change:
    """The resource is to be deleted; only what `identify` checks matters then."""
    try:
        key = identify()
    except Refused as problem:
        return refusal(head, str(problem))
    return Change(head.kind, key, head.resource_id, head.operation, head.revision, True, False, None, "", vpc_id)


def upsert(head: Head, build: Callable[[], Resource | RouterPatch]) -> Change:
    """The resource is to be as `build` says."""
    try:
        checked_operation(head.operation)
        full = one_of("update_type", head.update_type, UPDATE_TYPES) == FULL
        value = build()
    except Refused as problem:
        return refusal(head, str(problem))
    return Change(head.kind, value.id, head.resource_id, head.operation, head.revision, False, full, value, "")


def change(head: Head, build: Callable[[], Resource | RouterPatch], vpc_id: str = "") -> Change:
    """A deletion by id if the operation is DELETE, else an upsert."""
    if head.operation == DELETE:
        return withdrawal(head, lambda: identifier("id", head.resource_id), vpc_id)
    return upsert(head, build)
