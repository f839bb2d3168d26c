"""Which resources claim the same address or MAC, for people to see."""

from __future__ import annotations

from typing import Any

from aca.goalstate.desired import DesiredState
from dataplane.addresses import format_address, format_mac
from dataplane.model import Kind


def conflicts(state: DesiredState) -> list[dict[str, Any]]:
    """Addresses and MACs that several resources claim differently, JSON-ready. The holder is the one programmed."""
    found = []
    for subnet_id, index in state.index.items():
        for table, what, show in (
            (index.neighbor_addresses, "address", format_address),
            (index.neighbor_macs, "mac", format_mac),
        ):
            for item, claimants in table.contested():
                known = [state.neighbors[claimant] for claimant in claimants if claimant in state.neighbors]
                if len({(neighbor.mac, neighbor.host) for neighbor in known}) > 1:
                    found.append(_conflict(subnet_id, what, show(item), Kind.NEIGHBOR, claimants))
        for table, what, show in (
            (index.port_addresses, "address", format_address),
            (index.port_macs, "mac", format_mac),
        ):
            found += [
                _conflict(subnet_id, what, show(item), Kind.PORT, claimants) for item, claimants in table.contested()
            ]
        for item in index.port_addresses.items():
            port_id, neighbor_id = index.port_addresses.holder(item), index.neighbor_addresses.holder(item)
            if port_id and neighbor_id and state.neighbors[neighbor_id].mac != state.ports[port_id].mac:
                found.append(_conflict(subnet_id, "address", format_address(item), Kind.PORT, (neighbor_id, port_id)))
    return found


def _conflict(subnet_id: str, what: str, item: str, kind: Kind, claimants: tuple[str, ...]) -> dict[str, Any]:
    return {
        "subnet": subnet_id,
        what: item,
        "holder_kind": kind.name,
        "holder": claimants[-1],
        "others": list(claimants[:-1]),
    }
