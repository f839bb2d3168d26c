"""What one message asks for: the values that decode hands to the desired state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from dataplane.model import Kind, Resource, RoutingRule


@dataclass(frozen=True, slots=True)
class TablePatch:
    """Rules of one subnet to set and to withdraw. What is withdrawn matches by id, else by destination (0b.9)."""

    subnet_id: str
    upserts: tuple[RoutingRule, ...]
    removals: tuple[RoutingRule, ...]


@dataclass(frozen=True, slots=True)
class RouterPatch:
    """A router as a message carries it; the desired state merges it (DELTA) or puts it in its place (FULL)."""

    id: str
    revision: int
    host_dvr_mac: bytes | None
    tables: tuple[TablePatch, ...]


class Change(NamedTuple):
    """One resource of a message.

    A named tuple: a message may carry a million. Either `error` says why the resource is refused, or it is a delete
    (`value` is None), or `value` is to be upserted.
    """

    kind: Kind
    id: str
    """Key in the desired state."""
    resource_id: str
    """What the reply carries: the id as received (random or empty for DHCP)."""
    operation: int
    """alcor.schema.OperationType as received."""
    revision: int
    delete: bool
    full: bool
    """update_type FULL: the value replaces; DELTA: its unset fields keep what is known."""
    value: Resource | RouterPatch | None
    error: str
    vpc_id: str = ""
    """The VPC that a deletion names: where a resource belonged that this agent may know nothing of."""
