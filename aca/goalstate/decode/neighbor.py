"""Neighbours: the one kind of which a message may carry a million."""

from __future__ import annotations

from binascii import a2b_hex
from collections.abc import Iterable, Iterator, Set
from functools import partial
from socket import AF_INET, AF_INET6, inet_pton
from typing import Final

from aca.goalstate.changes import Change
from aca.goalstate.decode.fields import (
    Refused,
    address_pairs,
    identifier,
    mac,
    one_of,
    optional_identifier,
    unicast_address,
)
from aca.goalstate.decode.head import FULL, UPDATE_TYPES, UPSERTS, Head, change, received_id
from aca.goalstate.decode.hosts import bare_id
from dataplane.addresses import is_unicast_address
from dataplane.model import FixedIp, Kind, Layer, Neighbor
from goalstate_proto import neighbor_pb2

SLICE: Final = 4000
"""Neighbours per list: enough to make a batch worth its round trip, few enough to begin programming early."""

_LAYERS: Final = frozenset(Layer)
_LAYER: Final[dict[int, Layer]] = {layer.value: layer for layer in Layer}
_FULL: Final[dict[int, bool]] = {number: number == FULL for number in UPDATE_TYPES}
_MAC_COLONS: Final = ":::::"
_NO_MAC: Final = bytes(6)
_UNICAST_BYTES: Final = frozenset(first for first in range(256) if is_unicast_address(bytes((first, 0, 0, 1))))
"""First bytes of the IPv4 addresses that one host may own."""
_SHORT_ID: Final = 63
"""Characters that cannot be more than 255 bytes of UTF-8."""


def decode_neighbor(map_key: str, state: neighbor_pb2.NeighborState) -> Change:
    """`map_key` is empty for V1. The VPC may be left out: the subnet tells it."""
    wire = state.configuration
    head = Head(
        Kind.NEIGHBOR, received_id(map_key, wire.id), state.operation_type, wire.revision_number, wire.update_type
    )
    return change(head, partial(_neighbor, head, wire), wire.vpc_id)


def _neighbor(head: Head, wire: neighbor_pb2.NeighborConfiguration) -> Neighbor:
    own_id = identifier("id", head.resource_id)
    vpc_id = optional_identifier("vpc_id", wire.vpc_id)
    own_mac = mac("mac_address", wire.mac_address)
    host = unicast_address("host_ip_address", wire.host_ip_address)
    layer = Layer.L2
    fixed_ips: dict[FixedIp, None] = {}
    for index, one in enumerate(wire.fixed_ips):
        field = f"fixed_ips[{index}]"
        layer = max(layer, Layer(one_of(f"{field}.neighbor_type", one.neighbor_type, _LAYERS)))
        subnet_id = identifier(f"{field}.subnet_id", one.subnet_id)
        fixed_ips[FixedIp(subnet_id, unicast_address(f"{field}.ip_address", one.ip_address))] = None
    if not fixed_ips:
        raise Refused("fixed_ips is empty")
    pairs = address_pairs(wire.allow_address_pairs, own_mac)
    return Neighbor(own_id, head.revision, vpc_id, own_mac, host, tuple(fixed_ips), layer, pairs)


class _Ids(dict[str, str]):
    """Ids that repeat within a message, checked once and kept once. Raises Refused."""

    def __missing__(self, text: str) -> str:
        return self.setdefault(text, identifier("id", text))


class _Hosts(dict[str, bytes]):
    """Host addresses by their text, parsed once and kept once. Raises Refused."""

    def __missing__(self, text: str) -> bytes:
        return self.setdefault(text, unicast_address("host_ip_address", text))


def decode_neighbors(
    states: Iterable[tuple[str, neighbor_pb2.NeighborState]], others: Set[str]
) -> Iterator[list[Change]]:
    """Changes in slices, decoded as they are asked for; without the neighbours whose bare id is in `others`.

    `states` are pairs of map key (empty for V1) and state.

    What nearly all neighbours look like is decoded here in one go: an upsert with one address and a MAC in its usual
    form. At any doubt `decode_neighbor` decides, so the short way may only accept, and only what that accepts.
    """
    ids, hosts = _Ids(), _Hosts()
    changes: list[Change] = []
    # Looked up once instead of a hundred thousand times. Named tuples are made without their own constructors, which
    # cost as much again as the tuple.
    add, new, kind = changes.append, tuple.__new__, Kind.NEIGHBOR
    for map_key, state in states:
        wire = state.configuration
        own_id = wire.id
        if others and bare_id(own_id or map_key) in others:
            continue
        try:
            operation, fixed_ips, mac_text = state.operation_type, wire.fixed_ips, wire.mac_address
            if (
                operation in UPSERTS
                and len(fixed_ips) == 1
                and len(mac_text) == 17
                and mac_text[2::3] == _MAC_COLONS
                and 0 < len(own_id) <= _SHORT_ID
                and own_id.isprintable()
                and not wire.allow_address_pairs
            ):
                fixed_ip = fixed_ips[0]
                ip_text = fixed_ip.ip_address
                address = inet_pton(AF_INET6 if ":" in ip_text else AF_INET, ip_text)
                own_mac = a2b_hex(mac_text.replace(":", ""))
                if (
                    len(own_mac) == 6
                    and not own_mac[0] & 1
                    and own_mac != _NO_MAC
                    and (address[0] in _UNICAST_BYTES if len(address) == 4 else is_unicast_address(address))
                ):
                    revision = wire.revision_number
                    one = new(FixedIp, (ids[fixed_ip.subnet_id], address))
                    full, layer = _FULL[wire.update_type], _LAYER[fixed_ip.neighbor_type]
                    vpc_id, host = ids[wire.vpc_id], hosts[wire.host_ip_address]
                    value = new(Neighbor, (own_id, revision, vpc_id, own_mac, host, (one,), layer, ()))
                    add(new(Change, (kind, own_id, own_id, operation, revision, False, full, value, "", "")))
                else:
                    add(decode_neighbor(map_key, state))
            else:
                add(decode_neighbor(map_key, state))
        except (ValueError, OSError, KeyError):
            add(decode_neighbor(map_key, state))
        if len(changes) == SLICE:
            yield changes
            changes = []
            add = changes.append
    if changes:
        yield changes
