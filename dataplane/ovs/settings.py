"""Settings of the Open vSwitch data plane."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from dataplane.devices.settings import DeviceSettings
from dataplane.faults import Faults
from dataplane.model import NetworkType


@dataclass(frozen=True, slots=True)
class OvsSettings:
    """`tunnel_address` is the host's data path address, packed; `tunnel_ports` UDP ports by encapsulation;

    `tunnel_mtu` the largest IP packet of a guest that fits a tunnel, in bytes.
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

    @property
    def management_socket(self) -> Path:
        return self.run_directory / f"{self.bridge}.mgmt"
