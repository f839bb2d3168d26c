"""The part of the pipeline that is there whatever is programmed: fixed flows, punts and their meters."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence

from dataplane.model import Key, Kind
from dataplane.ovs.book import FlowBook, Owner, Transaction
from dataplane.ovs.bringup import Tunnels
from dataplane.ovs.openflow import messages
from dataplane.ovs.openflow.errors import OpenFlowError, ProgrammerError
from dataplane.ovs.openflow.programmer import FlowProgrammer
from dataplane.ovs.pipeline import parts
from dataplane.ovs.pipeline.layout import Feature, Flow
from dataplane.ovs.pipeline.static import punt_flows, static_flows
from dataplane.ovs.pipeline.unknown import PORT_METERS, PORT_RATE, unresolved_flows
from dataplane.ovs.settings import OvsSettings

WHOLE = Key(Kind.SUBNET, "")
"""On whose account flows are programmed that belong to no resource."""

_ASKING: Owner = (Feature.PUNT_UNKNOWN, "")
"""Only with a controller to ask: an earlier agent may have had one."""


class FixedPart:
    """Programs it and puts it back. `lock` guards the book. `metered` is False where the data path has no meters."""

    def __init__(self, settings: OvsSettings, lock: threading.RLock, book: FlowBook) -> None:
        self._settings = settings
        self._lock = lock
        self._book = book
        self.metered = self.ports_metered = True
        self.tunnels: Tunnels = {}

    def owners(self) -> list[Owner]:
        return list(self._flows())

    def program(self, programmer: FlowProgrammer, first: Sequence[bytes] = ()) -> None:
        """Program what is not known to stand, and wait for it. Raises ProgrammerError or a time-out.

        `first` are flow-mods that go before it in the same bundle.
        """
        with self._lock:
            transaction = Transaction(list(first))
            for owner, flows in self._flows().items():
                self._book.set(transaction, owner, WHOLE, flows, whole=owner == _ASKING)
            bodies, _ = transaction.take()
        refused = programmer.submit(bodies).result(self._settings.confirm_timeout_s)
        if refused:
            with self._lock:
                for owner in self.owners():
                    self._book.doubt(owner)
            raise ProgrammerError(f"the switch refuses flows of the pipeline: {next(iter(refused.values()))}")

    def make_meters(self, programmer: FlowProgrammer) -> None:
        """Punts are rate limited where the data path has meters (kernels before 4.15 do not)."""
        self.metered = self._make(programmer, parts.PUNT_METERS.values(), parts.PUNT_RATE)
        if self._settings.on_demand:
            self.ports_metered = self._make(programmer, PORT_METERS, PORT_RATE)

    def _make(self, programmer: FlowProgrammer, meters: Iterable[int], rate: int) -> bool:
        left = list(meters)
        for make in (messages.meter_add, messages.meter_modify):
            asked = [(one, programmer.request(messages.METER_MOD, make(one, rate, rate))) for one in left]
            left = []
            for one, made in asked:
                try:
                    made.result(self._settings.confirm_timeout_s)
                except OpenFlowError:
                    left.append(one)
        return not left

    def _flows(self) -> dict[Owner, list[Flow]]:
        flows: dict[Owner, list[Flow]] = {
            (Feature.STATIC, ""): static_flows(self.tunnels, self._settings.tunnel_mtu),
            _ASKING: unresolved_flows() if self._settings.on_demand else [],
        }
        for feature, flow in punt_flows(self.metered):
            flows.setdefault((feature, ""), []).append(flow)
        return flows
