"""Settings of the Open vSwitch data plane."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from dataplane.devices.settings import DeviceSettings
from dataplane.faults import Faults
from dataplane.model import NetworkType
from dataplane.ovs.remote import Remote, Scheme, TlsFiles, parse_remote


def _name_of_this_agent() -> str:
    return f"{socket.gethostname()}/{os.getpid()}/{secrets.token_hex(4)}"


@dataclass(frozen=True, slots=True)
class OvsSettings:
    """`tunnel_address` is the host's data path address, packed; `tunnel_ports` UDP ports by encapsulation;

    `tunnel_mtu` the largest IP packet of a guest that fits a tunnel, in bytes. `openflow` is where the bridge listens,
    if not at its management socket; `agent` names this agent to others that find it on the bridge, never twice.
    """

    run_directory: Path
    database: str
    bridge: str
    datapath_type: str
    tunnel_address: bytes
    tunnel_mtu: int = 1450
    tunnel_ports: Mapping[NetworkType, int] = field(
        default_factory=lambda: {NetworkType.VXLAN: 4789, NetworkType.GENEVE: 6081}
    )
    devices: DeviceSettings = field(default_factory=DeviceSettings)
    on_demand: bool = False
    """Hand up packets of unknown destination."""
    ready_timeout_s: float = 10.0
    confirm_timeout_s: float = 60.0
    faults: Faults = field(default_factory=Faults)
    openflow: Remote | None = None
    tls: TlsFiles | None = None
    agent: str = field(default_factory=_name_of_this_agent)

    @property
    def bridge_remote(self) -> Remote:
        return self.openflow or Remote.local(self.run_directory / f"{self.bridge}.mgmt")

    @property
    def listeners(self) -> tuple[str, ...]:
        """What the bridge must be told to listen on; its management socket is there by itself."""
        remote = self.bridge_remote
        return (remote.passive,) if remote.scheme is not Scheme.UNIX else ()

    @property
    def is_elsewhere(self) -> bool:
        """Whether the switch is another host's: the devices of our kernel are none of its."""
        return self.bridge_remote.is_elsewhere or parse_remote(self.database).is_elsewhere
