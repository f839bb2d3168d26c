"""Settings of making ports' devices."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class MakeDevices(enum.Enum):
    """Whether the agent makes the devices of ports itself."""

    NO = "no"
    TAP = "tap"
    VETH = "veth"


@dataclass(frozen=True, slots=True)
class DeviceSettings:
    """`mtu` is in bytes; `namespace_prefix` begins the names of the ports' network namespaces.

    Without `checksum_offload` guests finish their checksums: a switch in user space does not do it for them.
    """

    how: MakeDevices = MakeDevices.NO
    mtu: int = 1450
    namespace_prefix: str = "acaport-"
    checksum_offload: bool = True
