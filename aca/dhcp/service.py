"""DHCP requests that the data plane hands up, answered on one thread from the bindings of the desired state."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

import structlog

from aca.dhcp import respond
from aca.dhcp.binding import Binding
from aca.goalstate.desired import DesiredState
from dataplane.base import Punt
from dataplane.model import dhcp_id

log = structlog.get_logger(__name__)

_QUEUE_LENGTH = 10_000
NO_GATEWAY_SERVER = bytes((169, 254, 169, 254))
"""Server identifier where the subnet has no gateway."""
_DEFAULT_SERVER_MAC = bytes.fromhex("fe1611ffffff")


def binding_of(state: DesiredState, port_id: str, mtu: int) -> Binding | None:
    """What the port's DHCP client is to be given; None if the port is gone or has no binding or subnet."""
    port = state.ports.get(port_id)
    if port is None:
        return None
    for fixed in port.fixed_ips:
        lease = state.dhcp.get(dhcp_id(fixed.subnet_id, port.mac))
        subnet = state.subnets.get(fixed.subnet_id)
        if lease is None or subnet is None or lease.ipv4 is None or not subnet.cidr.is_ipv4:
            continue
        gateway = subnet.gateway_address
        return Binding(
            mac=port.mac,
            address=lease.ipv4,
            prefix_length=subnet.cidr.length,
            server=gateway or NO_GATEWAY_SERVER,
            router=gateway,
            dns=tuple(address for address in subnet.dns if len(address) == 4),
            mtu=mtu,
            host_name=lease.host_name,
            domain="",
            options=subnet.dhcp_options,
            server_mac=subnet.gateway_mac or _DEFAULT_SERVER_MAC,
        )
    return None


class DhcpService:
    """`update` is called by the engine's thread, `handle` by the data plane's; answers go out through `inject`."""

    def __init__(self, inject: Callable[[str, bytes], None]) -> None:
        self._inject = inject
        self._bindings: dict[str, Binding] = {}
        self._queue: queue.Queue[Punt | None] = queue.Queue(_QUEUE_LENGTH)
        self._thread = threading.Thread(target=self._loop, name="dhcp", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        if self._thread.is_alive():
            try:
                self._queue.put(None, timeout=0.5)
            except queue.Full:
                return
            self._thread.join(1.0)

    def update(self, port_id: str, binding: Binding | None) -> None:
        if binding is None:
            self._bindings.pop(port_id, None)
        else:
            self._bindings[port_id] = binding

    def handle(self, punt: Punt) -> None:
        """Queue a request; under a flood the newest are dropped, as a busy server would."""
        try:
            self._queue.put_nowait(punt)
        except queue.Full:
            return

    def _loop(self) -> None:
        while True:
            try:
                punt = self._queue.get(timeout=60.0)
            except queue.Empty:
                continue
            if punt is None:
                return
            binding = self._bindings.get(punt.port_id)
            reply = respond(punt.frame, binding) if binding is not None else None
            if reply is not None:
                self._inject(punt.port_id, reply.frame)
                log.debug("dhcp", port=punt.port_id, answer=reply.kind)
