"""Settings of the netlink data plane."""

from __future__ import annotations

from dataclasses import dataclass, field

from dataplane.devices.settings import DeviceSettings
from dataplane.faults import Faults


@dataclass(frozen=True, slots=True)
class NetlinkSettings:
    """`tunnel_address` is the host's data path address, packed; `tunnel_mtu` the largest IP packet of a guest that
    fits a tunnel, in bytes; `namespace_prefix` begins the names of the routers' network namespaces."""

    tunnel_address: bytes
    tunnel_mtu: int = 1450
    vxlan_port: int = 4789
    geneve_port: int = 6081
    namespace_prefix: str = "aca-"
    devices: DeviceSettings = field(default_factory=DeviceSettings)
    faults: Faults = field(default_factory=Faults)
    on_demand: bool = False
    """Hand up questions for unknown addresses."""
