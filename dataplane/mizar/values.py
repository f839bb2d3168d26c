"""What the transit daemon's procedures take and give, one frozen value per XDR structure, fields in wire order.

IPv4 addresses are 4 packed bytes in network order, MACs 6 packed bytes, L4 ports and labels plain numbers: how each
travels is the layouts' matter. `interface` is the transit interface, or the host's end of a port's veth for what the
agent program keeps. Values are not checked here but where they are encoded. A field that a GET fills may be stale or
garbage in the daemon, and an enum field may hold a number outside its enum.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

NO_MAC: Final = bytes(6)
NO_IP: Final = bytes(4)


class EndpointType(IntEnum):
    SUBSTRATE = 0
    SIMPLE = 1
    SCALED = 2
    GATEWAY = 3


class Stage(IntEnum):
    """Places of the transit program where another program can be put in."""

    TX = 0
    PASS = 1
    REDIRECT = 2
    DROP = 3
    SCALED_EP = 4


class CidrType(IntEnum):
    PRIMARY = 0
    SUPPLEMENTARY = 1
    EXCEPTION = 2


class NetworkClass(IntEnum):
    BEST_EFFORT = 0
    EXPEDITED = 1
    PREMIUM = 2


class NetworkPriority(IntEnum):
    HIGH = 0
    MEDIUM = 1
    LOW = 2


class XdpFlag(IntEnum):
    """Attach flags of the kernel (linux/if_link.h, XDP_FLAGS_*)."""

    KERNEL_CHOICE = 0
    GENERIC = 2
    NATIVE = 4
    OFFLOAD = 8


class Code(IntEnum):
    """What a procedure that changes something answers."""

    SUCCESS = 0
    WARN = 1
    ERROR = 2
    FATAL = 3
    NOT_IMPLEMENTED = 4
    UNSET = -1


@dataclass(frozen=True, slots=True)
class Intf:
    interface: str


@dataclass(frozen=True, slots=True)
class Vpc:
    interface: str
    tunid: int
    routers_ips: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class VpcKey:
    interface: str
    tunid: int


@dataclass(frozen=True, slots=True)
class Network:
    interface: str
    prefixlen: int
    tunid: int
    netip: bytes
    switches_ips: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class NetworkKey:
    interface: str
    prefixlen: int
    tunid: int
    netip: bytes


@dataclass(frozen=True, slots=True)
class Endpoint:
    """`hosted_interface`: the host's end of the endpoint's veth if it is on this host, else empty. The daemon ignores
    `veth`."""

    interface: str
    ip: bytes
    eptype: int
    remote_ips: tuple[bytes, ...]
    mac: bytes
    hosted_interface: str = ""
    veth: str = ""
    tunid: int = 0


def substrate(interface: str, ip: bytes, mac: bytes) -> Endpoint:
    """The entry by which a host reaches another at `ip` with `mac` on the underlay."""
    return Endpoint(interface, ip, EndpointType.SUBSTRATE, (), mac)


@dataclass(frozen=True, slots=True)
class EndpointKey:
    """In the order of the wire, which is not that of Endpoint."""

    interface: str
    tunid: int
    ip: bytes


@dataclass(frozen=True, slots=True)
class Port:
    """A port of a scaled endpoint: `port` of `ip` is `target_port` of its back ends."""

    interface: str
    ip: bytes
    tunid: int
    port: int
    target_port: int
    protocol: int


@dataclass(frozen=True, slots=True)
class PortKey:
    """No procedure takes it."""

    interface: str
    tunid: int
    ip: bytes
    port: int
    protocol: int


@dataclass(frozen=True, slots=True)
class TunIntf:
    interface: str
    ip: bytes
    mac: bytes


@dataclass(frozen=True, slots=True)
class AgentMetadata:
    """The nested values carry interface names of their own. The daemon ignores `ep.interface`, `ep.tunid`,
    `ep.hosted_interface` and `net.interface`; an all-zero `dst_mac_override` means none."""

    interface: str
    eth: TunIntf
    ep: Endpoint
    net: Network
    dst_mac_override: bytes = NO_MAC


@dataclass(frozen=True, slots=True)
class XdpIntf:
    """The daemon ignores `pcapfile`, which must be a valid string all the same."""

    interface: str
    xdp_path: str
    pcapfile: str = ""
    xdp_flag: int = XdpFlag.GENERIC


@dataclass(frozen=True, slots=True)
class EbpfProg:
    interface: str
    stage: int
    xdp_path: str


@dataclass(frozen=True, slots=True)
class EbpfProgStage:
    interface: str
    stage: int


@dataclass(frozen=True, slots=True)
class VsipCidr:
    interface: str
    tunid: int
    local_ip: bytes
    cidr_ip: bytes
    cidr_prefixlen: int
    cidr_type: int
    bit_val: int


@dataclass(frozen=True, slots=True)
class VsipCidrKey:
    interface: str
    tunid: int
    local_ip: bytes
    cidr_ip: bytes
    cidr_prefixlen: int
    cidr_type: int


@dataclass(frozen=True, slots=True)
class VsipEnforce:
    interface: str
    tunid: int
    local_ip: bytes


@dataclass(frozen=True, slots=True)
class VsipPpo:
    """Protocol 0 with port 0 stands for all traffic."""

    interface: str
    tunid: int
    local_ip: bytes
    proto: int
    port: int
    bit_val: int


@dataclass(frozen=True, slots=True)
class VsipPpoKey:
    interface: str
    tunid: int
    local_ip: bytes
    proto: int
    port: int


@dataclass(frozen=True, slots=True)
class PacketMetadata:
    interface: str
    ip: bytes
    tunid: int
    pod_label_value: int
    namespace_label_value: int
    egress_bandwidth_bytes_per_sec: int
    pod_network_class: int
    pod_network_priority: int


@dataclass(frozen=True, slots=True)
class PacketMetadataKey:
    interface: str
    tunid: int
    ip: bytes


@dataclass(frozen=True, slots=True)
class PodLabelPolicy:
    interface: str
    tunid: int
    pod_label_value: int
    bit_val: int


@dataclass(frozen=True, slots=True)
class PodLabelPolicyKey:
    interface: str
    tunid: int
    pod_label_value: int


@dataclass(frozen=True, slots=True)
class NamespaceLabelPolicy:
    interface: str
    tunid: int
    namespace_label_value: int
    bit_val: int


@dataclass(frozen=True, slots=True)
class NamespaceLabelPolicyKey:
    interface: str
    tunid: int
    namespace_label_value: int


@dataclass(frozen=True, slots=True)
class PodAndNamespaceLabelPolicy:
    interface: str
    tunid: int
    pod_label_value: int
    namespace_label_value: int
    bit_val: int


@dataclass(frozen=True, slots=True)
class PodAndNamespaceLabelPolicyKey:
    interface: str
    tunid: int
    pod_label_value: int
    namespace_label_value: int


@dataclass(frozen=True, slots=True)
class BwQosConfig:
    interface: str
    saddr: bytes
    egress_bandwidth_bytes_per_sec: int


@dataclass(frozen=True, slots=True)
class BwQosConfigKey:
    interface: str
    saddr: bytes


@dataclass(frozen=True, slots=True)
class TxStats:
    """Mizar uses one entry, of address 0."""

    interface: str
    saddr: bytes
    redirect_packets: int
    redirect_bytes: int
    pass_packets: int
    pass_bytes: int
    drop_packets: int
    drop_bytes: int


@dataclass(frozen=True, slots=True)
class TxStatsKey:
    interface: str
    saddr: bytes
