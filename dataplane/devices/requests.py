"""Requests to rtnetlink for a port's device and the inside of its namespace. All pure.

Numbers are those of linux/rtnetlink.h, if_link.h, if_addr.h, veth.h.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable
from typing import NamedTuple

from dataplane.addresses import Prefix, format_address
from dataplane.devices.spec import ALIAS, INSIDE, DeviceSpec
from dataplane.kernel import rtnl
from dataplane.kernel.wire import CREATE, EXCL, REPLACE, Message, Request, attribute, attributes, nested, text, u8, u32

GOING = 0x61636167
"""The device group of what is being deleted: many devices go in one request, and in the time of one."""
OURS = 172
"""Who made an address or route (IFA_PROTO, rtm_protocol): what the guest added itself is left alone."""
_NEW_LINK = 16
_NEW_ADDRESS, _DEL_ADDRESS, _GET_ADDRESS = 20, 21, 22
_NEW_ROUTE, _DEL_ROUTE, _GET_ROUTE = 24, 25, 26
_IFNAME, _MTU, _ADDRESS, _PEER, _LINKINFO, _NS_FD = 3, 4, 1, 5, 18, 28
_KIND, _DATA, _VETH_PEER = 1, 2, 1
_ENODEV, _ESRCH, _EADDRNOTAVAIL = 19, 3, 99
_MAIN, _UNIVERSE, _UNICAST, _ONLINK = 254, 0, 1, 4
_NO_DAD = 0x02


class Inside(NamedTuple):
    """What a namespace has: devices by index with the index of their other ends, our addresses and default routes."""

    links: tuple[tuple[rtnl.Link, int], ...]
    addresses: frozenset[tuple[int, Prefix]]
    gateways: frozenset[tuple[int, bytes]]

    def counterpart(self, near: int) -> rtnl.Link | None:
        """The other end of a device of the host, whatever the guest has called it."""
        return next((link for link, peer in self.links if peer == near and link.kind == "veth"), None)

    def named(self, name: str) -> tuple[rtnl.Link, int] | None:
        return next((one for one in self.links if one[0].name == name), None)


def _link(index: int) -> bytes:
    return struct.pack("=BxHiII", socket.AF_UNSPEC, 0, index, 0, 0)


def _family(address: bytes) -> int:
    return socket.AF_INET if len(address) == 4 else socket.AF_INET6


# -- devices


def add_pair(name: str, mac: bytes, namespace_fd: int, mtu: int, about: str) -> Request:
    """A veth pair whose other end is born in the namespace: to move a device costs the kernel a grace period."""
    born = _link(0) + text(_IFNAME, INSIDE) + attribute(_ADDRESS, mac) + u32(_MTU, mtu) + u32(_NS_FD, namespace_fd)
    info = nested(_LINKINFO, text(_KIND, "veth"), nested(_DATA, nested(_VETH_PEER, born)))
    return Request(_NEW_LINK, CREATE | EXCL, _link(0) + text(_IFNAME, name) + u32(_MTU, mtu) + info, about)


def finish_near(index: int, alias: str, about: str) -> list[Request]:
    """The host's end: ours, without an address of the host, up."""
    return [rtnl.set_alias(index, alias), rtnl.no_ipv6_address(index, about), rtnl.set_up(index, about)]


def delete_devices(indexes: Iterable[int]) -> list[Request]:
    """All at once; those that are gone already are deleted."""
    requests = [rtnl.set_group(index, GOING) for index in indexes]
    return [*requests, rtnl.delete_group(GOING)] if requests else []


# -- the inside of a namespace


def list_addresses() -> Request:
    return Request(_GET_ADDRESS, 0, struct.pack("=BBBBi", 0, 0, 0, 0, 0), "addresses")


def list_routes() -> Request:
    return Request(_GET_ROUTE, 0, struct.pack("=BBBBBBBBI", 0, 0, 0, 0, 0, 0, 0, 0, 0), "routes")


def inside_of(links: Iterable[Message], addresses: Iterable[Message], routes: Iterable[Message]) -> Inside:
    """From the answers to the lists."""
    found = []
    for message in links:
        peer = attributes(message.body, 16).get(_PEER, bytes(4))
        found.append((rtnl.link_of(message), int(struct.unpack("=i", peer)[0])))
    own = filter(None, map(_address_of, addresses))
    gateways = filter(None, map(_gateway_of, routes))
    return Inside(tuple(found), frozenset(own), frozenset(gateways))


def _address_of(message: Message) -> tuple[int, Prefix] | None:
    _, length, _, _, index = struct.unpack_from("=BBBBi", message.body)
    found = attributes(message.body, 8)
    address = found.get(2, found.get(1, b""))
    return (index, Prefix(address, length)) if found.get(11) == bytes((OURS,)) else None


def _gateway_of(message: Message) -> tuple[int, bytes] | None:
    _, length, _, _, _, protocol, _, _, _ = struct.unpack_from("=BBBBBBBBI", message.body)
    found = attributes(message.body, 12)
    if length or protocol != OURS or 5 not in found or 4 not in found:
        return None
    return int(struct.unpack("=i", found[4])[0]), found[5]


def furnish(spec: DeviceSpec, index: int, about: str) -> list[Request]:
    """Everything that a new guest's end needs, which has its MAC and MTU already."""
    return [
        rtnl.set_alias(index, spec.alias),
        *(_address(_NEW_ADDRESS, index, prefix, about) for prefix in spec.addresses),
        rtnl.set_up(index, about),
        *(_default_route(_NEW_ROUTE, index, gateway, about) for gateway in spec.gateways),
    ]


def refurnish(spec: DeviceSpec, link: rtnl.Link, mtu: int, inside: Inside, about: str) -> list[Request]:
    """What is to be done where there is something already: nothing, if it is as it should be."""
    index = link.ifindex
    stale = [one for at, one in inside.addresses if at == index and one not in spec.addresses]
    lacking = [one for one in spec.addresses if (index, one) not in inside.addresses]
    old = [gateway for at, gateway in inside.gateways if at == index]
    requests = []
    if link.alias != spec.alias:
        requests.append(rtnl.set_alias(index, spec.alias))
    if link.mac != spec.mac:
        requests.append(rtnl.set_mac(index, spec.mac, about))
    if link.mtu != mtu:
        requests.append(rtnl.set_mtu(index, mtu, about))
    requests += [_address(_DEL_ADDRESS, index, prefix, about) for prefix in stale]
    # With the first address of a range the kernel deletes the others of it: so all are put there again.
    requests += [_address(_NEW_ADDRESS, index, one, about) for one in (spec.addresses if stale else lacking)]
    if not link.up:
        requests.append(rtnl.set_up(index, about))
    requests += [_default_route(_DEL_ROUTE, index, one, about) for one in old if one not in spec.gateways]
    again = bool(stale) or not link.up
    requests += [_default_route(_NEW_ROUTE, index, one, about) for one in spec.gateways if again or one not in old]
    return requests


def _address(kind: int, index: int, prefix: Prefix, about: str) -> Request:
    """Without duplicate address detection: whose an address is has been decided elsewhere."""
    address = prefix.address
    flags = 0 if len(address) == 4 else _NO_DAD
    body = struct.pack("=BBBBi", _family(address), prefix.length, flags, 0, index) + attribute(2, address)
    body += attribute(1, address) + u8(11, OURS)
    new = CREATE | REPLACE if kind == _NEW_ADDRESS else 0
    return Request(kind, new, body, f"{about}: address {prefix}", () if new else (_EADDRNOTAVAIL,))


def _default_route(kind: int, index: int, gateway: bytes, about: str) -> Request:
    """On-link, since a gateway need not be in the subnet's range."""
    head = struct.pack("=BBBBBBBBI", _family(gateway), 0, 0, 0, _MAIN, OURS, _UNIVERSE, _UNICAST, _ONLINK)
    body = head + u32(4, index) + attribute(5, gateway)
    new = CREATE | REPLACE if kind == _NEW_ROUTE else 0
    return Request(kind, new, body, f"{about}: default route via {format_address(gateway)}", () if new else (_ESRCH,))


def port_of(alias: str) -> str:
    """The port whose device has this alias; empty if it is not one that we made."""
    return alias.removeprefix(ALIAS) if alias.startswith(ALIAS) else ""
