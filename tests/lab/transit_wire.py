"""What the test transit daemon reads and writes, made apart from the client's tables so that each shows the other's
mistakes: structures as text, values as a person would write them (dotted addresses, MACs with colons)."""

import struct
from typing import Any

_ENDPOINT = "interface:s20 ip:a eptype:u remote_ips:A mac:m hosted_interface:s20 veth:s20 tunid:q"
_NETWORK = "interface:s20 prefixlen:u tunid:q netip:a switches_ips:A"
_CIDR = "interface:s20 tunid:q local_ip:a cidr_ip:a cidr_prefixlen:u cidr_type:i"
_PPO = "interface:s20 tunid:q local_ip:a proto:b port:p"
STRUCTURES = {
    "intf": "interface:s20",
    "vpc": "interface:s20 tunid:q routers_ips:A",
    "vpc_key": "interface:s20 tunid:q",
    "network": _NETWORK,
    "network_key": "interface:s20 prefixlen:u tunid:q netip:a",
    "endpoint": _ENDPOINT,
    "endpoint_key": "interface:s20 tunid:q ip:a",
    "port": "interface:s20 ip:a tunid:q port:p target_port:p protocol:b",
    "tun_intf": "interface:s20 ip:a mac:m",
    "agent_metadata": "interface:s20 eth:{tun_intf} ep:{endpoint} net:{network} dst_mac_override:m",
    "xdp_intf": "interface:s20 xdp_path:s256 pcapfile:s256 xdp_flag:b",
    "ebpf_prog": "interface:s20 stage:i xdp_path:s256",
    "ebpf_prog_stage": "interface:s20 stage:i",
    "vsip_cidr": _CIDR + " bit_val:q",
    "vsip_cidr_key": _CIDR,
    "vsip_enforce": "interface:s20 tunid:q local_ip:a",
    "vsip_ppo": _PPO + " bit_val:q",
    "vsip_ppo_key": _PPO,
    "packet_metadata": "interface:s20 ip:a tunid:q pod_label_value:u namespace_label_value:u "
    "egress_bandwidth_bytes_per_sec:q pod_network_class:i pod_network_priority:i",
    "packet_metadata_key": "interface:s20 tunid:q ip:a",
    "pod_label_policy": "interface:s20 tunid:q pod_label_value:u bit_val:q",
    "pod_label_policy_key": "interface:s20 tunid:q pod_label_value:u",
    "namespace_label_policy": "interface:s20 tunid:q namespace_label_value:u bit_val:q",
    "namespace_label_policy_key": "interface:s20 tunid:q namespace_label_value:u",
    "pod_and_namespace_label_policy": "interface:s20 tunid:q pod_label_value:u namespace_label_value:u bit_val:q",
    "pod_and_namespace_label_policy_key": "interface:s20 tunid:q pod_label_value:u namespace_label_value:u",
    "bw_qos_config": "interface:s20 saddr:n egress_bandwidth_bytes_per_sec:q",
    "bw_qos_config_key": "interface:s20 saddr:n",
    "tx_stats": "interface:s20 saddr:a redirect_packets:u redirect_bytes:q pass_packets:u pass_bytes:q "
    "drop_packets:u drop_bytes:q",
    "tx_stats_key": "interface:s20 saddr:a",
}
_POLICIES = (
    "network_policy:vsip_cidr",
    "network_policy_enforcement:vsip_enforce",
    "network_policy_protocol_port:vsip_ppo",
)


def _procedures() -> dict[int, tuple[str, str, str]]:
    found = {}
    text = """1 update_vpc vpc|2 update_net network|3 update_ep endpoint|4 update_port port|5 update_agent_ep endpoint
        |6 update_agent_md agent_metadata|7 delete_vpc vpc_key|8 delete_net network_key|9 delete_ep endpoint_key
        |10 delete_agent_ep endpoint_key|11 delete_agent_md intf|12 get_vpc vpc_key vpc|13 get_net network_key network
        |14 get_ep endpoint_key endpoint|15 get_agent_ep endpoint_key endpoint|16 get_agent_md intf agent_metadata
        |17 load_transit_xdp xdp_intf|18 load_transit_agent_xdp xdp_intf|19 unload_transit_xdp intf
        |20 unload_transit_agent_xdp intf|21 load_transit_xdp_pipeline_stage ebpf_prog
        |22 unload_transit_xdp_pipeline_stage ebpf_prog_stage|35 update_packet_metadata packet_metadata
        |36 delete_packet_metadata packet_metadata_key|37 update_transit_pod_label_policy pod_label_policy
        |38 delete_transit_pod_label_policy pod_label_policy_key
        |39 update_transit_namespace_label_policy namespace_label_policy
        |40 delete_transit_namespace_label_policy namespace_label_policy_key
        |41 update_transit_pod_and_namespace_label_policy pod_and_namespace_label_policy
        |42 delete_transit_pod_and_namespace_label_policy pod_and_namespace_label_policy_key
        |43 update_bw_qos_config bw_qos_config|44 delete_bw_qos_config bw_qos_config_key
        |45 get_bw_qos_config bw_qos_config_key bw_qos_config|46 update_tx_stats tx_stats
        |47 get_tx_stats tx_stats_key tx_stats"""
    for line in text.split("|"):
        number, name, argument, *result = line.split()
        found[int(number)] = (name, argument, result[0] if result else "")
    number = 23
    for side in ("transit", "agent"):
        for policy in _POLICIES:
            name, structure = policy.split(":")
            key = structure if structure == "vsip_enforce" else structure + "_key"
            found[number] = (f"update_{side}_{name}", structure, "")
            found[number + 1] = (f"delete_{side}_{name}", key, "")
            number += 2
    return found


PROCEDURES = _procedures()
"""Number to name, structure of the argument, structure of the result or "" for a code."""


class BadArguments(Exception):  # noqa: N818
    """Bytes that the daemon's stubs refuse."""


def read(structure: str, data: bytes) -> dict[str, Any]:
    """The structure at the start of the data; what follows it is ignored, as the daemon does. Raises BadArguments."""
    try:
        return _read(structure, data, 0)[0]
    except (struct.error, IndexError, ValueError) as error:
        raise BadArguments(str(error)) from error


def _read(structure: str, data: bytes, at: int) -> tuple[dict[str, Any], int]:
    found: dict[str, Any] = {}
    for part in STRUCTURES[structure].split():
        name, kind = part.split(":")
        match kind[0]:
            case "{":
                found[name], at = _read(kind[1:-1], data, at)
            case "s":
                length = struct.unpack_from("!L", data, at)[0]
                if length > int(kind[1:]):
                    raise BadArguments(f"{name} has {length} bytes")
                text = data[at + 4 : at + 4 + length]
                at += 4 + (length + 3) // 4 * 4
                if at > len(data):
                    raise BadArguments(name)
                found[name] = text.decode("latin-1")
            case "A":
                length = struct.unpack_from("!L", data, at)[0]
                if length > 256:
                    raise BadArguments(f"{name} has {length} members")
                words = struct.unpack_from(f"<{length}L", data, at + 4)
                found[name] = [_dotted(word) for word in words]
                at += 4 + 4 * length
            case "m":
                found[name] = ":".join(f"{word & 255:02x}" for word in struct.unpack_from("!6L", data, at))
                at += 24
            case "q":
                found[name] = struct.unpack_from("!Q", data, at)[0]
                at += 8
            case "a":
                found[name] = _dotted(struct.unpack_from("<L", data, at)[0])
                at += 4
            case "n":
                found[name] = _dotted(struct.unpack_from("!L", data, at)[0])
                at += 4
            case "p":
                found[name] = int.from_bytes(struct.pack("<H", struct.unpack_from("!L", data, at)[0] & 0xFFFF), "big")
                at += 4
            case "i":
                found[name] = struct.unpack_from("!l", data, at)[0]
                at += 4
            case _:
                found[name] = struct.unpack_from("!L", data, at)[0]
                at += 4
    return found, at


def write(structure: str, value: dict[str, Any]) -> bytes:
    """The bytes of a structure, as an answer or a request."""
    out = b""
    for part in STRUCTURES[structure].split():
        name, kind = part.split(":")
        field = value[name]
        match kind[0]:
            case "{":
                out += write(kind[1:-1], field)
            case "s":
                text = field.encode("latin-1")
                out += struct.pack("!L", len(text)) + text + b"\0" * (-len(text) % 4)
            case "A":
                out += struct.pack("!L", len(field)) + b"".join(struct.pack("<L", _number(ip)) for ip in field)
            case "m":
                out += b"".join(struct.pack("!L", int(byte, 16)) for byte in field.split(":"))
            case "q":
                out += struct.pack("!Q", field)
            case "a":
                out += struct.pack("<L", _number(field))
            case "n":
                out += struct.pack("!L", _number(field))
            case "p":
                out += struct.pack("!L", struct.unpack("<H", field.to_bytes(2, "big"))[0])
            case "i":
                out += struct.pack("!l", field)
            case _:
                out += struct.pack("!L", field)
    return out


def _dotted(number: int) -> str:
    return ".".join(str(number >> shift & 255) for shift in (24, 16, 8, 0))


def _number(dotted: str) -> int:
    return sum(int(part) << shift for part, shift in zip(dotted.split("."), (24, 16, 8, 0), strict=True))
