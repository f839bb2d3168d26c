"""Which resources of a V2 message are for other hosts (`host_resources`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from dataplane.addresses import AddressError, parse_address
from goalstate_proto import goalstate_pb2

_MAPPED: Final = bytes(10) + b"\xff\xff"
"""Prefix of IPv4-mapped IPv6 addresses (RFC 4291, section 2.5.5.2)."""


def bare_id(name: str) -> str:
    """The id without what controllers put before it: 'L2/' or 'L3/' for neighbours, '<host>/' for routers."""
    return name.rpartition("/")[2]


def ids_of_others(
    host_resources: Mapping[str, goalstate_pb2.HostResources], local_addresses: Iterable[str]
) -> Mapping[int, set[str]]:
    """Bare ids by resource type number of what is named for other hosts and not for this one.

    The names are incomplete in what real controllers send, so all the rest is meant for this host (contract table,
    section 0b.2). Keys that are no address belong to other hosts.
    """
    local = {_host(text) for text in local_addresses}
    own = [resources for host, resources in host_resources.items() if _host(host) in local]
    if len(own) == len(host_resources):
        return {}
    others: dict[int, set[str]] = {}
    for host, resources in host_resources.items():
        if _host(host) not in local:
            for name in resources.resources:
                others.setdefault(name.type, set()).add(name.id.rpartition("/")[2])
    for resources in own:
        for name in resources.resources:
            ids = others.get(name.type)
            if ids:
                ids.discard(name.id.rpartition("/")[2])
    return {number: ids for number, ids in others.items() if ids}


def concerns(host_resources: Mapping[str, goalstate_pb2.HostResources], local_addresses: Iterable[str]) -> bool:
    """Whether a V2 message names this host, or none at all (a multicast reaches hosts that it does not name)."""
    local = {_host(text) for text in local_addresses}
    return not host_resources or any(_host(host) in local for host in host_resources)


def _host(text: str) -> bytes | str:
    """Equal for all texts of one address."""
    try:
        address = parse_address(text)
    except AddressError:
        return text
    return address[12:] if address.startswith(_MAPPED) and len(address) == 16 else address
