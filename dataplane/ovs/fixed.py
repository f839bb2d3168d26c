"""The part of the pipeline that is there whatever is programmed: fixed flows, punts and their meters."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from dataplane.model import Key, Kind
from dataplane.ovs.book import FlowBook, Owner, Transaction
from dataplane.ovs.bringup import Tunnels
from dataplane.ovs.openflow import messages
from dataplane.ovs.openflow.errors import OpenFlowError, ProgrammerError
from dataplane.ovs.openflow.programmer import FlowProgrammer
from dataplane.ovs.pipeline import parts
from dataplane.ovs.pipeline.layout import Feature, Flow
from dataplane.ovs.pipeline.static import punt_flows, static_flows
from dataplane.ovs.settings import OvsSettings

WHOLE = Key(Kind.SUBNET, "")
"""On whose account flows are programmed that belong to no resource."""


class FixedPart:
    """Programs it and puts it back. `lock` guards the book. `metered` is False where the data path has no meters."""

    def __init__(self, settings: OvsSettings, lock: threading.RLock, book: FlowBook) -> None:
        self._settings = settings
        self._lock = lock
        self._book = book
        self.metered = True
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
                self._book.set(transaction, owner, WHOLE, flows)
            bodies, _ = transaction.take()
        refused = programmer.submit(bodies).result(self._settings.confirm_timeout_s)
        if refused:
            with self._lock:
                for owner in self.owners():
                    self._book.doubt(owner)
            raise ProgrammerError(f"the switch refuses flows of the pipeline: {next(iter(refused.values()))}")

    def make_meters(self, programmer: FlowProgrammer) -> None:
        """Punts are rate limited where the data path has meters (kernels before 4.15 do not)."""
        self.metered = all(self._make_meter(programmer, meter) for meter in parts.PUNT_METERS.values())

    def _make_meter(self, programmer: FlowProgrammer, meter: int) -> bool:
        for make in (messages.meter_add, messages.meter_modify):
            body = make(meter, parts.PUNT_RATE, parts.PUNT_RATE)
            try:
                programmer.request(messages.METER_MOD, body).result(self._settings.confirm_timeout_s)
            except OpenFlowError:
                continue
            return True
        return False

    def _flows(self) -> dict[Owner, list[Flow]]:
        flows: dict[Owner, list[Flow]] = {
            (Feature.STATIC, ""): static_flows(self.tunnels, self._settings.tunnel_mtu),
        }
        for feature, flow in punt_flows(self.metered):
            flows.setdefault((feature, ""), []).append(flow)
        return flows
