"""Values of the OVSDB side. Column meanings: ovs-vswitchd.conf.db(5)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


class OvsdbError(Exception):
    """The database or the switch refused a request. The message names the object and says what they said."""


class OvsdbUnavailableError(OvsdbError):
    """A request was not decided: no connection, no answer in time, or closed. It may or may not have been applied.

    Every request of this package can be repeated safely.
    """


@dataclass(frozen=True, slots=True)
class Tunnel:
    """A flow-based tunnel port: the remote end and the key are set per packet by the pipeline."""

    name: str
    kind: str
    """Interface type: vxlan or geneve."""
    local_ip: str
    """Outer source address; empty leaves the choice to the host's routes."""
    port: int
    """UDP destination port."""
    ofport_request: int
    """Wanted OpenFlow port number, 1..65279; 0 for any."""


@dataclass(frozen=True, slots=True)
class BridgeSpec:
    """The bridge that is wanted. What it does not name is left as it is."""

    name: str
    datapath_type: str
    """system (kernel) or netdev (user space)."""
    datapath_id: str | None
    """16 hex digits, only used if the bridge has no datapath id set; None leaves it to the switch."""
    tunnels: tuple[Tunnel, ...]
    external_ids: tuple[tuple[str, str], ...]
    """Merged into the bridge's own; other keys stay."""
    listeners: tuple[str, ...] = ()
    """Where it is to listen for OpenFlow, beside what others have set: pssl:PORT:ADDRESS, ptcp:PORT:ADDRESS."""


@dataclass(frozen=True, slots=True)
class Device:
    """An interface on our bridge that is neither a tunnel nor the bridge's local port."""

    name: str
    iface_id: str
    """external_ids:iface-id, the id of the port it belongs to; empty if there is none."""
    ofport: int | None
    """OpenFlow port number, above 0; None while the switch has given none (no such device, not there yet)."""
    mac: bytes | None
    """Address in use on the host's end, 6 bytes."""
    mtu: int | None
    """Bytes."""
    error: str
    """Why it has no OpenFlow port, in the switch's own words if it has any; else empty."""
    external_ids: Mapping[str, str]
    uuid: str = ""
    """Identity of the database row: differs after a delete and create of the port under one name."""
    ifindex: int | None = None
    """Identity of the host's device: differs after a delete and create of the device under one name.

    The switch in user space does not receive from such a new device until its port was deleted and then added, in
    two transactions (tried on OVS 3.1).
    """
    is_down: bool = False
    """Administratively down: the switch passes nothing through it."""


@dataclass(frozen=True, slots=True)
class BridgeState:
    """Our bridge as the database shows it."""

    name: str
    datapath_id: str
    """The running bridge's id, 16 hex digits; empty if the switch could not make the bridge."""
    datapath_type: str
    fail_mode: str
    protocols: frozenset[str]
    """Empty means the switch's default."""
    external_ids: Mapping[str, str]
    ports: Mapping[str, int]
    """Tunnel name to OpenFlow port, of tunnels that have one."""
    errors: Mapping[str, str]
    """Tunnel name to the switch's error text, of tunnels that have one."""
    flow_restore_wait: bool
    """Open_vSwitch other_config:flow-restore-wait holds the switch back (somebody set it)."""
    restarts: int
    """Grows each time a restart of ovs-vswitchd was seen, see `mirror.RestartCanary`."""
