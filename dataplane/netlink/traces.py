"""Objects with this agent's mark that are in no book: what they are, what they concern, how they are removed."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from dataplane.addresses import Prefix, format_address, format_mac
from dataplane.kernel import rtnl
from dataplane.kernel.wire import Request
from dataplane.netlink import nft
from dataplane.netlink.filter import SETS, SHARED_PRIORITY
from dataplane.netlink.names import TABLE, port_chain
from dataplane.netlink.standing import ElementKey

_MAC = 6


class ElementTrace(NamedTuple):
    set_name: str
    key: bytes
    data: bytes


class ChainTrace(NamedTuple):
    """The chain of a device, by its index."""

    ifindex: int
    tag: str = "chain"


class HookTrace(NamedTuple):
    """A device in a chain that ports share; `ifindex` is 0 if there is no such device any more."""

    ifindex: int
    chain: str
    device: str
    tag: str = "hook"


class MemberTrace(NamedTuple):
    """A device that is not ours in a bridge of ours."""

    ifindex: int
    name: str
    tag: str = "member"


class LocalTrace(NamedTuple):
    """A bridge's entry for a MAC at a port."""

    bridge: int
    port: int
    mac: bytes
    tag: str = "local"


class RemoteTrace(NamedTuple):
    """Entries of a tunnel and its bridge for a MAC."""

    tunnel: int
    mac: bytes
    tag: str = "remote"


class FloodTrace(NamedTuple):
    tunnel: int
    host: bytes
    tag: str = "flood"


class DeviceTrace(NamedTuple):
    ifindex: int
    name: str
    alias: str


class NamespaceTrace(NamedTuple):
    name: str
    alias: str
    tag: str = "namespace"


class RouteTrace(NamedTuple):
    router_id: str
    table: int
    destination: Prefix
    tag: str = "route"


class RuleTrace(NamedTuple):
    router_id: str
    device: str
    table: int
    tag: str = "rule"


Trace = (
    ElementTrace
    | ChainTrace
    | HookTrace
    | MemberTrace
    | LocalTrace
    | RemoteTrace
    | FloodTrace
    | DeviceTrace
    | NamespaceTrace
    | RouteTrace
    | RuleTrace
)


def name_of(trace: Trace) -> str:
    """For people."""
    match trace:
        case ElementTrace(set_name, key, _):
            return f"element {key.hex()} of nftables set {set_name}"
        case ChainTrace(index):
            return f"nftables chain {port_chain(index)}"
        case HookTrace(_, chain, device):
            return f"device {device} in nftables chain {chain}"
        case MemberTrace(_, name):
            return f"device {name} in a bridge"
        case LocalTrace(_, port, mac):
            return f"MAC {format_mac(mac)} at device {port}"
        case RemoteTrace(_, mac):
            return f"remote MAC {format_mac(mac)}"
        case FloodTrace(_, host):
            return f"flooding to {format_address(host)}"
        case DeviceTrace(_, name, alias):
            return f"device {name} ({alias})"
        case NamespaceTrace(name, alias):
            return f"network namespace {name} ({alias})"
        case RouteTrace(router_id, _, destination):
            return f"route to {destination} of router {router_id}"
        case RuleTrace(router_id, device, _):
            return f"routing rule of {device} of router {router_id}"


# -- what an element has to do with


class About(NamedTuple):
    """What is known of an element: the device, the tunnel, the subnet's mark, the MAC; empty where there is none."""

    device: int = 0
    tunnel: int = 0
    mark: bytes = b""
    mac: bytes = b""


def about(element: ElementKey, data: bytes) -> About:
    name, key = element
    match name:
        case "addresses":
            return About(mark=key[:4], mac=data)
        case "members" | "shared" | "gateways":
            return About(mark=key[:4], mac=key[4 : 4 + _MAC])
        case "listeners":
            return About(device=_number(key[4:8]), mark=key[:4])
        case "owners" | "macs" | "sources" | "sources6":
            return About(device=_number(key[:4]), mac=key[4 : 4 + _MAC])
        case "ports" | "own_gateway" | "owned" | "dhcp" | "apart":
            return About(device=_number(key[:4]))
        case "marks":
            return About(device=_number(key[:4]), mark=data)
        case "senders":
            return About(tunnel=_number(key[:4]), mark=data, mac=key[4 : 4 + _MAC])
        case "hosts":
            return About(tunnel=_number(key[:4]), mac=key[4 : 4 + _MAC])
        case "only":
            return About(tunnel=_number(key[:4]), mark=data)
        case _:
            return About(tunnel=_number(key[:4]))


def _number(value: bytes) -> int:
    return int.from_bytes(value, sys.byteorder)


def marks_and_macs(elements: Mapping[ElementKey, bytes], devices: Iterable[int]) -> set[tuple[bytes, bytes]]:
    """(mark, MAC) of what these devices are in their subnets, by the elements that name the devices."""
    wanted = set(devices)
    marks: dict[int, set[bytes]] = {}
    macs: dict[int, set[bytes]] = {}
    for element, data in elements.items():
        if element[0] in ("listeners", "owners"):
            what = about(element, data)
            if what.device in wanted:
                (marks if element[0] == "listeners" else macs).setdefault(what.device, set()).add(what.mark or what.mac)
    return {(mark, mac) for device in wanted for mark in marks.get(device, ()) for mac in macs.get(device, ())}


# -- removal


class Removal(NamedTuple):
    """Requests to rtnetlink in the host's namespace, and to nftables."""

    route: list[Request]
    filter: list[Request]


_FEW = 4


def removal_of(traces: Sequence[Trace], group: int) -> Removal:
    """Of all but namespaces and what is in them. First what sends traffic there, at last the devices: many of these by
    `group`, a number that nobody else uses."""
    entries: list[Request] = []
    filters: list[Request] = []
    devices: list[DeviceTrace] = []
    elements: dict[str, list[tuple[bytes, bytes]]] = {}
    for trace in traces:
        match trace:
            case RemoteTrace(tunnel, mac):
                entries += rtnl.delete_remote_mac(tunnel, mac)
            case FloodTrace(tunnel, host):
                entries.append(rtnl.delete_flood(tunnel, host))
            case LocalTrace(_, port, mac):
                entries.append(rtnl.delete_local_mac(port, mac))
            case MemberTrace(index, name):
                entries.append(rtnl.enslave(index, 0, f"device {name}"))
            case DeviceTrace():
                devices.append(trace)
            case ChainTrace(index):
                filters += without_chain(index)
            case HookTrace(_, chain, device):
                filters.append(nft.delete_device(TABLE, chain, SHARED_PRIORITY, device))
            case ElementTrace(set_name, key, data):
                elements.setdefault(set_name, []).append((key, data))
            case _:
                continue
    for set_name, found in elements.items():
        filters += nft.delete_elements(TABLE, SETS[set_name], found)
    if len(devices) > _FEW:
        entries += [rtnl.set_group(trace.ifindex, group) for trace in devices]
        entries.append(rtnl.delete_group(group))
    else:
        entries += [rtnl.delete_index(trace.ifindex, trace.name) for trace in devices]
    return Removal(entries, filters)


def without_chain(index: int) -> list[Request]:
    """Some kernels remove a chain with its device; so it is made first, which is nothing if it is there."""
    chain = port_chain(index)
    return [
        nft.add_table(nft.NETDEV, TABLE),
        nft.add_chain(nft.NETDEV, TABLE, chain),
        nft.flush_chain(nft.NETDEV, TABLE, chain),
        nft.delete_chain(nft.NETDEV, TABLE, chain),
    ]
