"""Packets that the data plane hands up, and who answers them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from aca.dhcp.service import DhcpService, binding_of
from aca.dispatch.plan import Absence, LaneWork
from aca.goalstate.desired import DesiredState
from aca.ondemand.questions import Limits
from aca.ondemand.service import Asker, OnDemandService
from dataplane.base import Applied, DataPlane, Punt, PuntReason
from dataplane.model import FixedIp, Key, Kind, NeighborWanted, PortWanted, Wanted


class PacketServices:
    """DHCP and unknown destinations. `handle` is called by the data plane's threads, all else by the engine's."""

    def __init__(self, dataplane: DataPlane, state: DesiredState, tunnel_mtu: int) -> None:
        self._state = state
        self._tunnel_mtu = tunnel_mtu
        self._dhcp = DhcpService(dataplane.inject)
        self._on_demand = OnDemandService(state, dataplane.resubmit)

    def ask_with(self, ask: Asker, limits: Limits) -> None:
        """Whom to ask for unknown destinations, and how much. Before `start`; without it nobody is asked."""
        self._on_demand.ask_with(ask, limits)

    def start(self) -> None:
        self._dhcp.start()
        self._on_demand.start()

    def close(self) -> None:
        self._dhcp.close()
        self._on_demand.close()

    def handle(self, punt: Punt) -> None:
        if punt.reason is PuntReason.DHCP:
            self._dhcp.handle(punt)
        else:
            self._on_demand.handle(punt)

    def planned(self, port_ids: Iterable[str]) -> None:
        """These ports have been planned again: what their clients are to be given may have changed."""
        for port_id in port_ids:
            self._dhcp.update(port_id, binding_of(self._state, port_id, self._tunnel_mtu))

    def programmed(self, work: LaneWork, applied: Applied) -> None:
        """The data plane has confirmed this work, but for its problems."""
        for kind in (Kind.PORT, Kind.NEIGHBOR):
            if items := work.get(kind):
                self._on_demand.arrived(_addresses(kind, items, applied))

    def status(self) -> Mapping[str, Any]:
        return {"on_demand": self._on_demand.status()}


def _addresses(kind: Kind, items: Mapping[str, Wanted | Absence], applied: Applied) -> Iterator[FixedIp]:
    for resource_id, wanted in items.items():
        if Key(kind, resource_id) in applied.problems:
            continue
        if isinstance(wanted, NeighborWanted):
            yield from wanted.neighbor.fixed_ips
        elif isinstance(wanted, PortWanted):
            yield from wanted.port.fixed_ips
