"""The kernel objects that wanted values become, each with an identity and, beside it, a value that may change.

Identities carry a tag, since named tuples of different classes with equal fields are equal.
"""

from __future__ import annotations

from typing import NamedTuple

from dataplane.addresses import Prefix
from dataplane.model import Segment


class SegmentItem(NamedTuple):
    """A bridge with its tunnel device. No value."""

    segment: Segment
    tag: str = "segment"


class RouterItem(NamedTuple):
    """A router's network namespace. No value."""

    router_id: str
    tag: str = "router"


class LegItem(NamedTuple):
    subnet_id: str
    tag: str = "leg"


class Leg(NamedTuple):
    """A router's leg in a subnet."""

    router_id: str
    segment: Segment
    mark: int
    mac: bytes
    address: bytes
    """Empty if there is none."""


class TapItem(NamedTuple):
    """A port's device in its segment's bridge, its frames checked."""

    ifindex: int
    tag: str = "tap"


class Tap(NamedTuple):
    segment: Segment
    name: str
    rules: tuple[bytes, ...]
    """Of a chain of its own; empty if it has none, since sets describe it."""


class MacItem(NamedTuple):
    """Where a MAC of a segment is: the value is a `Via`."""

    segment: Segment
    mac: bytes
    tag: str = "mac"


class Via(NamedTuple):
    """Exactly one is set: a remote host, a local device's index, or the subnet whose leg it is."""

    host: bytes = b""
    ifindex: int = 0
    leg: str = ""


class FloodItem(NamedTuple):
    """A remote host that gets a copy of the segment's group frames. No value."""

    segment: Segment
    host: bytes
    tag: str = "flood"


class ElementItem(NamedTuple):
    """An element of an nftables set or map, by the set's name; the value is the map's data or empty.

    Where the key or the data begin with a device's index that is not known while rendering, `device` says whose:
    a segment's tunnel or a subnet's leg.
    """

    set_name: str
    key: bytes
    device: Segment | str | None = None
    tag: str = "element"


def element(set_name: str, key: bytes) -> ElementItem:
    """ElementItem(set_name, key) in a third of the time: a port has a dozen."""
    return tuple.__new__(ElementItem, (set_name, key, None, "element"))


class RouteItem(NamedTuple):
    """A route in a router's namespace; the value is a `RouteValue`."""

    router_id: str
    table: int
    destination: Prefix
    tag: str = "route"


class RouteValue(NamedTuple):
    leg: str
    """Id of the subnet whose leg it goes out of."""
    via: bytes
    source: bytes
    mtu: int


class RuleItem(NamedTuple):
    """Packets from a subnet's leg are looked up in a table of their own. No value."""

    router_id: str
    subnet_id: str
    table: int
    tag: str = "rule"


Item = (
    SegmentItem | RouterItem | LegItem | TapItem | MacItem | FloodItem | ElementItem | RouteItem | RuleItem
)
Value = Leg | Tap | Via | RouteValue | bytes | None
Items = dict[Item, Value]
Failed = dict[Item, str]
"""What cannot be done, and why: is added to."""
