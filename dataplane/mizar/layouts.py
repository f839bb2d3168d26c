"""The fields of each structure in the order of the wire: one table, from which both directions are done."""

from __future__ import annotations

from typing import Any, Final

from dataplane.mizar import values as v
from dataplane.mizar.limits import INTERFACE_NAME_BYTES, PATH_BYTES
from dataplane.mizar.xdr import IP, IPS, MAC, NATURAL_IP, PORT, U8, U32, U64, Layout, number_to, signed_to, string

_NAME: Final = string(INTERFACE_NAME_BYTES)
_PATH: Final = string(PATH_BYTES)
_LENGTH: Final = number_to(32)
_EPTYPE: Final = number_to(max(v.EndpointType))
_STAGE: Final = signed_to(max(v.Stage))
_CIDR_TYPE: Final = signed_to(max(v.CidrType))
_CLASS: Final = signed_to(max(v.NetworkClass))
_PRIORITY: Final = signed_to(max(v.NetworkPriority))

_TUN_INTF: Final = Layout(v.TunIntf, interface=_NAME, ip=IP, mac=MAC)
_NETWORK: Final = Layout(v.Network, interface=_NAME, prefixlen=_LENGTH, tunid=U64, netip=IP, switches_ips=IPS)
_ENDPOINT: Final = Layout(
    v.Endpoint,
    interface=_NAME,
    ip=IP,
    eptype=_EPTYPE,
    remote_ips=IPS,
    mac=MAC,
    hosted_interface=_NAME,
    veth=_NAME,
    tunid=U64,
)
_CIDR_KEY: Final = {
    "interface": _NAME,
    "tunid": U64,
    "local_ip": IP,
    "cidr_ip": IP,
    "cidr_prefixlen": _LENGTH,
    "cidr_type": _CIDR_TYPE,
}
_PPO_KEY: Final = {"interface": _NAME, "tunid": U64, "local_ip": IP, "proto": U8, "port": PORT}
_POD: Final = {"interface": _NAME, "tunid": U64, "pod_label_value": U32}
_NAMESPACE: Final = {"interface": _NAME, "tunid": U64, "namespace_label_value": U32}
_BOTH: Final = {**_POD, "namespace_label_value": U32}

_ALL: Final[tuple[Layout[Any], ...]] = (
    _TUN_INTF,
    _NETWORK,
    _ENDPOINT,
    Layout(v.Intf, interface=_NAME),
    Layout(v.Vpc, interface=_NAME, tunid=U64, routers_ips=IPS),
    Layout(v.VpcKey, interface=_NAME, tunid=U64),
    Layout(v.NetworkKey, interface=_NAME, prefixlen=_LENGTH, tunid=U64, netip=IP),
    Layout(v.EndpointKey, interface=_NAME, tunid=U64, ip=IP),
    Layout(v.Port, interface=_NAME, ip=IP, tunid=U64, port=PORT, target_port=PORT, protocol=U8),
    Layout(v.PortKey, interface=_NAME, tunid=U64, ip=IP, port=PORT, protocol=U8),
    Layout(
        v.AgentMetadata,
        interface=_NAME,
        eth=_TUN_INTF.nested(),
        ep=_ENDPOINT.nested(),
        net=_NETWORK.nested(),
        dst_mac_override=MAC,
    ),
    Layout(v.XdpIntf, interface=_NAME, xdp_path=_PATH, pcapfile=_PATH, xdp_flag=U8),
    Layout(v.EbpfProg, interface=_NAME, stage=_STAGE, xdp_path=_PATH),
    Layout(v.EbpfProgStage, interface=_NAME, stage=_STAGE),
    Layout(v.VsipCidr, **_CIDR_KEY, bit_val=U64),
    Layout(v.VsipCidrKey, **_CIDR_KEY),
    Layout(v.VsipEnforce, interface=_NAME, tunid=U64, local_ip=IP),
    Layout(v.VsipPpo, **_PPO_KEY, bit_val=U64),
    Layout(v.VsipPpoKey, **_PPO_KEY),
    Layout(
        v.PacketMetadata,
        interface=_NAME,
        ip=IP,
        tunid=U64,
        pod_label_value=U32,
        namespace_label_value=U32,
        egress_bandwidth_bytes_per_sec=U64,
        pod_network_class=_CLASS,
        pod_network_priority=_PRIORITY,
    ),
    Layout(v.PacketMetadataKey, interface=_NAME, tunid=U64, ip=IP),
    Layout(v.PodLabelPolicy, **_POD, bit_val=U64),
    Layout(v.PodLabelPolicyKey, **_POD),
    Layout(v.NamespaceLabelPolicy, **_NAMESPACE, bit_val=U64),
    Layout(v.NamespaceLabelPolicyKey, **_NAMESPACE),
    Layout(v.PodAndNamespaceLabelPolicy, **_BOTH, bit_val=U64),
    Layout(v.PodAndNamespaceLabelPolicyKey, **_BOTH),
    Layout(v.BwQosConfig, interface=_NAME, saddr=NATURAL_IP, egress_bandwidth_bytes_per_sec=U64),
    Layout(v.BwQosConfigKey, interface=_NAME, saddr=NATURAL_IP),
    Layout(
        v.TxStats,
        interface=_NAME,
        saddr=IP,
        redirect_packets=U32,
        redirect_bytes=U64,
        pass_packets=U32,
        pass_bytes=U64,
        drop_packets=U32,
        drop_bytes=U64,
    ),
    Layout(v.TxStatsKey, interface=_NAME, saddr=IP),
)
LAYOUTS: Final[dict[type, Layout[Any]]] = {layout.structure: layout for layout in _ALL}
"""By class; of every structure that a procedure takes or gives, and of those nested in them."""
