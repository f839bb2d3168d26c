"""Database rows as plain values: what the pure parts of this package work on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

# Every other type is one of the tunnels. An unknown type is one that the switch refuses, as a tunnel of ours
# of a wrong kind is.
DEVICE_TYPES = frozenset(
    {
        "",
        "system",
        "internal",
        "tap",
        "patch",
        "dpdk",
        "dpdkvhostuser",
        "dpdkvhostuserclient",
        "afxdp",
        "afxdp-nonpmd",
    }
)


@dataclass(frozen=True, slots=True)
class RootRow:
    """The row of table Open_vSwitch. `cur_cfg` follows `next_cfg` when the switch has applied it."""

    uuid: str
    next_cfg: int
    cur_cfg: int
    other_config: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BridgeRow:
    """Our bridge's row of table Bridge. `datapath_id` is the running one, empty if the switch has not made it."""

    uuid: str
    name: str
    datapath_type: str = ""
    datapath_id: str = ""
    fail_mode: str = ""
    protocols: frozenset[str] = frozenset()
    controllers: frozenset[str] = frozenset()
    """Their targets: whom it connects to, and where it listens."""
    other_config: Mapping[str, str] = field(default_factory=dict)
    external_ids: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class InterfaceRow:
    """A row of table Interface. `port` is the Port row's uuid if that is on our bridge, else empty."""

    uuid: str
    name: str
    port: str = ""
    alone: bool = True
    """False for a member of a bond: the port has other interfaces."""
    kind: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    external_ids: Mapping[str, str] = field(default_factory=dict)
    ofport: int | None = None
    ofport_request: int | None = None
    mtu_request: int | None = None
    error: str = ""

    @property
    def is_tunnel(self) -> bool:
        return self.kind not in DEVICE_TYPES


class View(Protocol):
    """The database as it is now, restricted to what requests ask."""

    bridge_name: str

    def root(self) -> RootRow | None: ...

    def bridge(self) -> BridgeRow | None:
        """Our bridge."""
        ...

    def interface(self, name: str) -> InterfaceRow | None:
        """The interface of that name on whatever bridge (names are unique in the database)."""
        ...

    def has_port(self, name: str) -> bool:
        """True if a Port row of that name exists on whatever bridge."""
        ...
