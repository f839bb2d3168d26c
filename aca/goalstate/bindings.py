"""DHCP bindings. Functions that change `Records`."""

from __future__ import annotations

from aca.goalstate.records import Records
from dataplane.model import DhcpBinding, Kind, dhcp_id


def upsert_dhcp(records: Records, known: DhcpBinding | None, new: DhcpBinding) -> None:
    records.dhcp[new.id] = new
    records.mark(Kind.DHCP, new.id, records.subnet_lane(new.subnet_id))
    mark_bound_port(records, new.subnet_id, new.mac)


def remove_dhcp(records: Records, known: DhcpBinding) -> None:
    drop_binding(records, known.subnet_id, known.mac)


def drop_binding(records: Records, subnet_id: str, mac: bytes) -> None:
    binding = records.dhcp.pop(dhcp_id(subnet_id, mac), None)
    if binding is not None:
        records.mark(Kind.DHCP, binding.id, records.subnet_lane(subnet_id))
        mark_bound_port(records, subnet_id, mac)


def mark_bound_port(records: Records, subnet_id: str, mac: bytes) -> None:
    index = records.index.get(subnet_id)
    if index is not None:
        records.mark_port(index.port_macs.holder(mac))
