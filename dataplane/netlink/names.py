"""Names and numbers of what this data plane makes: they follow from ids, so there is nothing to allocate or keep."""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b

from dataplane.model import Segment

ALIAS = "aca:"
"""What the interface aliases of our devices begin with."""
TABLE = "aca"
"""Name of our nftables tables."""
LAYOUT = 1
"""Of the filter (see layout.py): to be raised when the fixed chains, sets or marks, or what they mean, change."""
PREFIXES = ("acb", "acv", "acl", "acg")
LEG_OUTSIDE, LEG_INSIDE = "acl", "acr"
GENEVE_DEVICE = "acgeneve"
"""The one device that all Geneve tunnels of the host go through."""


def _digits(text: str) -> str:
    return blake2b(text.encode(), digest_size=6).hexdigest()[:11]


def segment_id(segment: Segment) -> str:
    return f"{segment.network_type.name}/{segment.tunnel_id}"


def bridge_name(segment: Segment) -> str:
    return "acb" + _digits(segment_id(segment))


def tunnel_name(segment: Segment) -> str:
    return "acv" + _digits(segment_id(segment))


def leg_name(subnet_id: str) -> str:
    """The end of a router's leg that is in the bridge."""
    return LEG_OUTSIDE + _digits(subnet_id)


def leg_inside(subnet_id: str) -> str:
    """The end that is in the router's namespace."""
    return LEG_INSIDE + _digits(subnet_id)


def namespace_name(prefix: str, router_id: str) -> str:
    return prefix + _digits(router_id)


OWN_CHAIN = "port-"


def port_chain(index: int) -> str:
    return f"{OWN_CHAIN}{index}"


def layout_chain(layout: int | str) -> str:
    """Says by its name what layout the table has; it has no rules."""
    return f"layout-{layout}"


_SHARED_CHAINS = 64


def shared_chain(index: int) -> str:
    """Of the chains that ports share: each change of one costs a little for every device in it."""
    return f"ports-{index % _SHARED_CHAINS:02}"


def is_shared_chain(name: str) -> bool:
    return name.startswith("ports-")


def hook_name(chain: str, device: str) -> str:
    """Of a device in a chain that it shares, among the names of chains."""
    return f"{chain} {device}"


def shared_chains() -> list[str]:
    return [shared_chain(index) for index in range(_SHARED_CHAINS)]


@lru_cache(maxsize=1024)
def mark_of(subnet_id: str) -> int:
    """The packet mark that says which subnet a frame is in: 31 bits, not 0."""
    return (int.from_bytes(blake2b(subnet_id.encode(), digest_size=4).digest(), "big") & 0x7FFFFFFF) or 1


def host_number(host: bytes) -> int:
    """A remote host as a packet mark, for the device of a Geneve segment; not 0. IPv4 addresses are their own."""
    if len(host) == 4:
        return int.from_bytes(host, "big")
    return int.from_bytes(blake2b(host, digest_size=4).digest(), "big") or 1


MARK_ASKER_OWNS = 0x80000000
"""Beside the subnet's mark: an ARP request for an address that the asker has itself, or may have."""
