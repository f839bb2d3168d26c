"""Requests to rtnetlink: links, forwarding entries, addresses, routes, rules. All pure.

Numbers are those of linux/rtnetlink.h, if_link.h, neighbour.h, if_addr.h and fib_rules.h.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable
from typing import NamedTuple

from dataplane.addresses import Prefix, format_address, format_mac
from dataplane.kernel.wire import (
    APPEND,
    CREATE,
    EXCL,
    REPLACE,
    Message,
    Request,
    attribute,
    attributes,
    chars,
    nested,
    text,
    u8,
    u32,
)

NEW_LINK, DEL_LINK, GET_LINK = 16, 17, 18
_NEW_ADDRESS, _NEW_ROUTE, _DEL_ROUTE, _NEW_NEIGHBOR, _DEL_NEIGHBOR = 20, 24, 25, 28, 29
_NEW_RULE, _DEL_RULE = 32, 33
_UP = 0x1
_IFNAME, _MTU, _ADDRESS, _MASTER, _LINKINFO, _ALIAS, _AF_SPEC, _GROUP, _NS_FD = 3, 4, 1, 10, 18, 20, 26, 27, 28
_OPERSTATE = 16
_KIND, _DATA, _SLAVE_KIND, _SLAVE_DATA = 1, 2, 4, 5
_NTF_SELF, _NTF_MASTER = 0x02, 0x04
_REACHABLE, _NOARP = 0x02, 0x40
_ENOENT, _ESRCH, _ENODEV, _EEXIST, _EAFNOSUPPORT = 2, 3, 19, 17, 97
_PROTOCOL_KERNEL = 2
_PROTOCOL_STATIC, _SCOPE_LINK, _SCOPE_UNIVERSE, _UNICAST = 4, 253, 0, 1
_LOCK_MTU = 1 << 2
_MAIN = 254


class Vxlan(NamedTuple):
    """A VXLAN device's number, own address, UDP port."""

    vni: int
    local: bytes
    port: int


class Link(NamedTuple):
    """What the kernel tells of a device; `master` is the bridge's index or 0, `learns` if it does as a bridge port or
    as a tunnel."""

    ifindex: int
    name: str
    alias: str
    master: int
    mac: bytes
    kind: str
    up: bool
    mtu: int
    learns: bool = False
    vxlan: Vxlan | None = None
    odd: tuple[str, ...] = ()
    """What of a bridge is otherwise than `add_bridge` makes it."""


_KEPT_OFF = {
    5: "STP",
    7: "VLAN filtering",
    23: "multicast snooping",
    36: "iptables",
    37: "ip6tables",
    38: "arptables",
}
"""Settings of a bridge (IFLA_BR_*) that are 0."""
_STP = 5


def link_of(message: Message) -> Link:
    _, _, index, flags, _ = struct.unpack_from("=BxHiII", message.body)
    found = attributes(message.body, 16)
    master = found.get(_MASTER, bytes(4))
    info = attributes(found.get(_LINKINFO, b""))
    kind = chars(info.get(_KIND, b""))
    data = attributes(info.get(_DATA, b"")) if kind == "vxlan" else {}
    of_bridge = attributes(info.get(_DATA, b"")) if kind == "bridge" else {}
    as_port = attributes(info.get(_SLAVE_DATA, b"")) if chars(info.get(_SLAVE_KIND, b"")) == "bridge" else {}
    return Link(
        index,
        chars(found.get(_IFNAME, b"")),
        chars(found.get(_ALIAS, b"")),
        struct.unpack("=I", master)[0],
        found.get(_ADDRESS, b""),
        kind,
        bool(flags & _UP),
        struct.unpack("=I", found.get(_MTU, bytes(4)))[0],
        any(as_port.get(8, b"")) or any(data.get(7, b"")),
        _vxlan_of(data) if data else None,
        tuple(name for number, name in _KEPT_OFF.items() if any(of_bridge.get(number, b""))),
    )


def _vxlan_of(data: dict[int, bytes]) -> Vxlan:
    (vni,) = struct.unpack("=I", data.get(1, bytes(4)))
    return Vxlan(vni, data.get(4, data.get(17, b"")), int.from_bytes(data.get(15, b""), "big"))


def is_bridge_notice(message: Message) -> bool:
    """A notice of the bridge about a port, not of the device itself."""
    return message.body[0] == socket.AF_BRIDGE


def operational_state(message: Message) -> int:
    """RFC 2863 ifOperStatus of a device, as of linux/if.h; 0 is unknown."""
    return attributes(message.body, 16).get(_OPERSTATE, b"\0")[0]


def list_links() -> Request:
    return Request(GET_LINK, 0, _link(0), "links")


def get_link(index: int) -> Request:
    return Request(GET_LINK, 0, _link(index), f"device {index}")


def _link(index: int, *, up: bool | None = None) -> bytes:
    change = 0 if up is None else _UP
    return struct.pack("=BxHiII", socket.AF_UNSPEC, 0, index, _UP if up else 0, change)


def no_ipv6_address(index: int, about: str) -> Request:
    """The host is to have no link-local address there. For a device that is down; fine where there is no IPv6."""
    body = _link(index) + nested(_AF_SPEC, nested(socket.AF_INET6, u8(8, 1)))
    return Request(NEW_LINK, 0, body, about, (_EAFNOSUPPORT,))


def add_bridge(name: str, alias: str) -> Request:
    """Without STP, ageing or snooping: every entry is ours, every group frame goes to whom the filter says."""
    data = nested(_DATA, u32(1, 0), u32(5, 0), u8(23, 0))
    body = _link(0) + text(_IFNAME, name) + nested(_LINKINFO, text(_KIND, "bridge"), data)
    return Request(NEW_LINK, CREATE | EXCL, body, f"bridge {name} ({alias})")


def keep_bridge(index: int, odd: Iterable[str], about: str) -> list[Request]:
    """Makes of a bridge that is there what add_bridge() makes; `odd` as in Link. What a kernel does not know cannot be
    turned off."""
    numbers = [number for number, name in _KEPT_OFF.items() if name in set(odd)]
    if not numbers:
        return []
    data = nested(_DATA, *(u32(number, 0) if number == _STP else u8(number, 0) for number in numbers))
    return [Request(NEW_LINK, 0, _link(index) + nested(_LINKINFO, text(_KIND, "bridge"), data), about)]


def add_vxlan(name: str, alias: str, bridge: int, identity: Vxlan, mtu: int) -> Request:
    """No learning; UDP checksum zero as RFC 7348 section 5 has it (a switch in user space cannot finish ours)."""
    local = identity.local
    source = attribute(4, local) if len(local) == 4 else attribute(17, local)
    port = attribute(15, identity.port.to_bytes(2, "big"))
    data = nested(_DATA, u32(1, identity.vni), source, u8(7, 0), port, u8(18, 0))
    body = _link(0) + text(_IFNAME, name) + u32(_MTU, mtu) + u32(_MASTER, bridge)
    body += nested(_LINKINFO, text(_KIND, "vxlan"), data)
    return Request(NEW_LINK, CREATE | EXCL, body, f"VXLAN device {name} ({alias})")


def add_geneve(name: str, port: int, mtu: int, about: str) -> Request:
    """Without a tunnel id or remote host: every frame brings its own."""
    data = nested(_DATA, attribute(6, b""), attribute(5, port.to_bytes(2, "big")), u8(10, 1))
    body = _link(0) + text(_IFNAME, name) + u32(_MTU, mtu) + nested(_LINKINFO, text(_KIND, "geneve"), data)
    return Request(NEW_LINK, CREATE | EXCL, body, about)


def add_dummy(name: str, bridge: int, mtu: int, about: str) -> Request:
    """A bridge port behind which is nothing but the filters on it."""
    body = _link(0) + text(_IFNAME, name) + u32(_MTU, mtu) + u32(_MASTER, bridge)
    return Request(NEW_LINK, CREATE | EXCL, body + nested(_LINKINFO, text(_KIND, "dummy")), about)


def impossible_device(kind: str) -> Request:
    """A MAC of one byte: refused with EINVAL if the kernel has such devices, with EOPNOTSUPP if it has not."""
    body = _link(0) + text(_IFNAME, "acg-probe") + attribute(_ADDRESS, b"\0")
    return Request(NEW_LINK, CREATE | EXCL, body + nested(_LINKINFO, text(_KIND, kind)), f"devices of kind {kind}")


def add_leg(name: str, peer: str, peer_mac: bytes, namespace_fd: int, bridge: int, mtu: int, about: str) -> Request:
    """A veth pair whose other end is born in the router's namespace."""
    born = _link(0) + text(_IFNAME, peer) + attribute(_ADDRESS, peer_mac) + u32(_MTU, mtu) + u32(_NS_FD, namespace_fd)
    info = nested(_LINKINFO, text(_KIND, "veth"), nested(_DATA, nested(1, born)))
    body = _link(0) + text(_IFNAME, name) + u32(_MTU, mtu) + u32(_MASTER, bridge) + info
    return Request(NEW_LINK, CREATE | EXCL, body, about)


def set_alias(index: int, alias: str) -> Request:
    return Request(NEW_LINK, 0, _link(index) + text(_ALIAS, alias), f"alias {alias}")


def set_up(index: int, about: str) -> Request:
    return Request(NEW_LINK, 0, _link(index, up=True), about)


def enslave(index: int, bridge: int, about: str) -> Request:
    """`bridge` 0: release."""
    forgiven = () if bridge else (_ENODEV,)
    return Request(NEW_LINK, 0, _link(index) + u32(_MASTER, bridge), about, forgiven)


_NO_LEARNING = nested(_LINKINFO, text(_SLAVE_KIND, "bridge"), nested(_SLAVE_DATA, u8(8, 0)))


def no_learning(index: int, about: str) -> Request:
    """For a bridge port. Two hosts have the same gateway MAC: learning it would send frames astray."""
    return Request(NEW_LINK, 0, _link(index) + _NO_LEARNING, about)


def join(index: int, bridge: int, about: str) -> tuple[Request, Request]:
    """Into a bridge, where it does not learn, and up."""
    return (
        Request(NEW_LINK, 0, _link(index) + u32(_MASTER, bridge), about),
        Request(NEW_LINK, 0, _link(index, up=True) + _NO_LEARNING, about),
    )


def set_mtu(index: int, mtu: int, about: str) -> Request:
    return Request(NEW_LINK, 0, _link(index) + u32(_MTU, mtu), f"{about}: MTU {mtu}")


def keep_vxlan(index: int, about: str) -> Request:
    """A VXLAN device that is there, as add_vxlan() makes it."""
    learning = nested(_LINKINFO, text(_KIND, "vxlan"), nested(_DATA, u8(7, 0)))
    return Request(NEW_LINK, 0, _link(index) + learning, about)


def set_local(index: int, local: bytes, about: str) -> Request:
    """A VXLAN device sends from this address now; kernels before 4.12 refuse."""
    source = attribute(4, local) if len(local) == 4 else attribute(17, local)
    return Request(NEW_LINK, 0, _link(index) + nested(_LINKINFO, text(_KIND, "vxlan"), nested(_DATA, source)), about)


def set_mac(index: int, mac: bytes, about: str) -> Request:
    return Request(NEW_LINK, 0, _link(index) + attribute(_ADDRESS, mac), f"{about}: MAC {format_mac(mac)}")


def set_group(index: int, group: int) -> Request:
    return Request(NEW_LINK, 0, _link(index) + u32(_GROUP, group), f"device {index}", (_ENODEV,))


def delete_group(group: int) -> Request:
    """All devices of a group at once, which costs hardly more than one."""
    return Request(DEL_LINK, 0, _link(0) + u32(_GROUP, group), f"device group {group}", (_ENODEV,))


def delete_index(index: int, name: str) -> Request:
    """`name` is for people: whatever it is called now."""
    return Request(DEL_LINK, 0, _link(index), f"device {name}", (_ENODEV,))


def delete_link(name: str) -> Request:
    return Request(DEL_LINK, 0, _link(0) + text(_IFNAME, name), f"device {name}", (_ENODEV,))


def finish(index: int, alias: str, about: str) -> list[Request]:
    """What makes a new device ours, and puts it to use."""
    return [set_alias(index, alias), no_ipv6_address(index, about), set_up(index, about)]


# -- forwarding entries

GONE = (_ENOENT, _ENODEV)
"""Errors of the deletion of what is not there."""


def _entry(index: int, flags: int, state: int, mac: bytes, host: bytes) -> bytes:
    body = struct.pack("=BxxxiHBB", socket.AF_BRIDGE, index, state, flags, 0) + attribute(2, mac)
    return body + attribute(1, host) if host else body


def add_remote_mac(vxlan: int, mac: bytes, host: bytes) -> Request:
    """In one request: the bridge's entry for the tunnel port and the tunnel's entry for the host."""
    body = _entry(vxlan, _NTF_SELF | _NTF_MASTER, _NOARP | _REACHABLE, mac, host)
    return Request(_NEW_NEIGHBOR, CREATE | REPLACE, body, f"MAC {format_mac(mac)} at {format_address(host)}")


def remote_mac_requests(vxlan: int, entries: Iterable[tuple[bytes, bytes]]) -> tuple[int, int, list[bytes]]:
    """add_remote_mac() of many (MAC, host): message type, flags, bodies."""
    mac, host = b"\xa1MACA\xa1", b"\xa2HO\xa2"
    sample = add_remote_mac(vxlan, mac, host)
    before, _, rest = sample.body.partition(mac)
    between, _, after = rest.partition(host)
    return sample.kind, sample.flags, [before + mac + between + host + after for mac, host in entries]


def delete_remote_mac_requests(vxlan: int, macs: Iterable[bytes]) -> tuple[int, int, list[bytes]]:
    """delete_remote_mac() of many: message type, flags, bodies; two for each."""
    mac = b"\xa1MACA\xa1"
    own, of_bridge = delete_remote_mac(vxlan, mac)
    (one, _, after), (two, _, _) = own.body.partition(mac), of_bridge.body.partition(mac)
    return own.kind, own.flags, [head + mac + after for mac in macs for head in (one, two)]


def delete_remote_mac(vxlan: int, mac: bytes) -> list[Request]:
    about = f"remote MAC {format_mac(mac)}"
    return [
        Request(_DEL_NEIGHBOR, 0, _entry(vxlan, flag, _NOARP, mac, b""), about, GONE)
        for flag in (_NTF_SELF, _NTF_MASTER)
    ]


def add_local_mac(port: int, mac: bytes) -> Request:
    body = _entry(port, _NTF_MASTER, _NOARP, mac, b"")
    return Request(_NEW_NEIGHBOR, CREATE | REPLACE, body, f"MAC {format_mac(mac)} at device {port}")


def delete_local_mac(port: int, mac: bytes) -> Request:
    body = _entry(port, _NTF_MASTER, _NOARP, mac, b"")
    return Request(_DEL_NEIGHBOR, 0, body, f"MAC {format_mac(mac)} at device {port}", (_ENOENT, _ENODEV, 22, 95))


def add_flood(vxlan: int, host: bytes) -> Request:
    body = _entry(vxlan, _NTF_SELF, _NOARP | _REACHABLE, bytes(6), host)
    return Request(_NEW_NEIGHBOR, CREATE | APPEND, body, f"flooding to {format_address(host)}", (_EEXIST,))


def delete_flood(vxlan: int, host: bytes) -> Request:
    body = _entry(vxlan, _NTF_SELF, _NOARP, bytes(6), host)
    return Request(_DEL_NEIGHBOR, 0, body, f"flooding to {format_address(host)}", (_ENOENT, _ENODEV))


# -- inside a router's namespace


def add_address(index: int, address: bytes) -> Request:
    """As a host address, so that no route comes with it."""
    family = socket.AF_INET if len(address) == 4 else socket.AF_INET6
    body = struct.pack("=BBBBi", family, len(address) * 8, 0, 0, index) + attribute(2, address) + attribute(1, address)
    return Request(_NEW_ADDRESS, CREATE | REPLACE, body, f"gateway address {format_address(address)}")


def add_route(
    table: int, destination: Prefix, device: int, *, via: bytes = b"", source: bytes = b"", mtu: int = 0
) -> Request:
    body = _route(table, destination, _SCOPE_UNIVERSE if via else _SCOPE_LINK) + u32(4, device)
    if via:
        body += attribute(5, via)
    if source:
        body += attribute(7, source)
    if mtu:
        body += nested(8, u32(1, _LOCK_MTU), u32(2, mtu))
    return Request(_NEW_ROUTE, CREATE | REPLACE, body, f"route to {destination}")


def delete_route(table: int, destination: Prefix) -> Request:
    body = _route(table, destination, 255)
    return Request(_DEL_ROUTE, 0, body, f"route to {destination}", (_ESRCH, _ENODEV))


_ONLINK = 4


def _route(table: int, destination: Prefix, scope: int) -> bytes:
    family = socket.AF_INET if destination.is_ipv4 else socket.AF_INET6
    flags = _ONLINK if scope == _SCOPE_UNIVERSE else 0
    head = struct.pack("=BBBBBBBBI", family, destination.length, 0, 0, 0, _PROTOCOL_STATIC, scope, _UNICAST, flags)
    return head + attribute(1, destination.address) + u32(15, table)


def add_rule(device: str, table: int) -> Request:
    return Request(_NEW_RULE, CREATE | EXCL, _rule(device, table), f"routing rule of {device}", (_EEXIST,))


def delete_rule(device: str, table: int) -> Request:
    return Request(_DEL_RULE, 0, _rule(device, table), f"routing rule of {device}", (_ENOENT,))


def _rule(device: str, table: int) -> bytes:
    head = struct.pack("=BBBBBBBBI", socket.AF_INET, 0, 0, 0, 0, 0, 0, 1, 0)
    return head + text(3, device) + u32(15, table) + u32(6, 1000)


USUAL_TABLES = {32766: _MAIN, 32767: 253}
"""The tables in which any packet is looked up by the rules that a network namespace begins with (but for its own
addresses), by the rules' priority."""


def usual_rules() -> list[Request]:
    about, by_kernel = "usual routing rules", attribute(21, bytes([_PROTOCOL_KERNEL]))
    head = struct.pack("=BBBBBBBBI", socket.AF_INET, 0, 0, 0, 0, 0, 0, 1, 0)
    return [
        Request(_NEW_RULE, CREATE | EXCL, head + u32(15, table) + u32(6, priority) + by_kernel, about, (_EEXIST,))
        for priority, table in USUAL_TABLES.items()
    ]


def forget_neighbor(index: int, address: bytes) -> Request:
    """A resolved neighbour of a router's leg."""
    family = socket.AF_INET if len(address) == 4 else socket.AF_INET6
    body = struct.pack("=BxxxiHBB", family, index, 0, 0, 0) + attribute(1, address)
    return Request(_DEL_NEIGHBOR, 0, body, f"resolved address {format_address(address)}", (_ENOENT, _ENODEV, _ESRCH))


MAIN_TABLE = _MAIN
