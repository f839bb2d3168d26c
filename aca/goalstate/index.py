"""Who refers to a subnet."""

from __future__ import annotations

from aca.goalstate.claims import ClaimTable


class SubnetIndex:
    """Who refers to a subnet, whether or not the subnet itself is known."""

    __slots__ = (
        "neighbor_addresses",
        "neighbor_macs",
        "outliers",
        "port_addresses",
        "port_macs",
        "ports",
        "routers",
        "waiting_for_router",
    )

    def __init__(self) -> None:
        self.neighbor_addresses = ClaimTable()
        self.neighbor_macs = ClaimTable()
        self.port_addresses = ClaimTable()
        self.port_macs = ClaimTable()
        self.ports: dict[str, None] = {}
        self.routers: set[str] = set()
        self.outliers: set[bytes] = set()
        """Addresses in use that lie outside the subnet's CIDR."""
        self.waiting_for_router: set[str] = set()
        """L3 neighbours that were answered 'waits for a router'."""

    def neighbor_ids(self) -> dict[str, None]:
        return dict.fromkeys(self.neighbor_macs.all_claimants())

    def uses(self, address: bytes) -> bool:
        return address in self.neighbor_addresses or address in self.port_addresses

    def is_unused(self) -> bool:
        return not (self.neighbor_addresses or self.neighbor_macs or self.ports or self.routers or self.port_macs)
