"""Bringing the bridge up and keeping it up: one thread that connects, waits, and connects again."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import TimeoutError as FutureTimeout
from hashlib import blake2b

from dataplane.addresses import format_address
from dataplane.model import NetworkType
from dataplane.ovs.openflow.errors import OpenFlowError, ProgrammerError
from dataplane.ovs.openflow.messages import FlowUpdates, PacketIn
from dataplane.ovs.openflow.programmer import FlowProgrammer
from dataplane.ovs.ovsdb import BridgeSpec, BridgeState, Ovsdb, OvsdbError, OvsdbUnavailableError, Tunnel
from dataplane.ovs.pipeline.layout import PIPELINE_VERSION
from dataplane.ovs.settings import OvsSettings
from dataplane.ovs.takeover import AGENT, PIPELINE, Takeover, other_agent, take_over

_FIRST_DELAY_S = 0.2
_MAX_DELAY_S = 5.0
_CLOSE_TIMEOUT_S = 1.5
_SAY_AGAIN_S = 1.0

TUNNEL_NAMES: Mapping[NetworkType, str] = {NetworkType.VXLAN: "vxlan-aca", NetworkType.GENEVE: "geneve-aca"}
_TUNNEL_KINDS: Mapping[NetworkType, str] = {NetworkType.VXLAN: "vxlan", NetworkType.GENEVE: "geneve"}
_TUNNEL_OFPORTS: Mapping[NetworkType, int] = {NetworkType.VXLAN: 100, NetworkType.GENEVE: 101}

Tunnels = Mapping[NetworkType, int]
"""OpenFlow port of each encapsulation's flow-based tunnel port."""


class BringUp:
    """Calls `up(programmer, tunnels, takeover)` when the bridge is there and connected, `down(reason)` when it is not.

    Both are called by this object's thread. `up` returns once the fixed flows are confirmed; it may raise
    ProgrammerError, OpenFlowError or a time-out, which count as not up.
    """

    def __init__(
        self,
        settings: OvsSettings,
        ovsdb: Ovsdb,
        *,
        up: Callable[[FlowProgrammer, Tunnels, Takeover], None],
        down: Callable[[str], None],
        on_packet_in: Callable[[PacketIn], None],
        on_flow_updates: Callable[[FlowUpdates], None],
        on_bridge_made: Callable[[], None],
    ) -> None:
        self._settings = settings
        self._tunnel_address = settings.tunnel_address
        self._ovsdb = ovsdb
        self._up = up
        self._down = down
        self._on_packet_in = on_packet_in
        self._on_flow_updates = on_flow_updates
        self._on_bridge_made = on_bridge_made
        self._wishes: queue.SimpleQueue[str] = queue.SimpleQueue()
        """Reasons to look again; the empty string ends the thread."""
        self._closing = threading.Event()
        self._database_up = threading.Event()
        self._has_taken_over = False
        self._programmer: FlowProgrammer | None = None
        self._thread = threading.Thread(target=self._loop, name="ovs-bring-up", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._closing.set()
        self._database_up.set()
        self._wishes.put("")
        if self._thread.is_alive():
            self._thread.join(_CLOSE_TIMEOUT_S)
        if self._programmer is not None:
            self._programmer.close()

    def set_tunnel_address(self, address: bytes) -> None:
        """Change the tunnels' local address in place: their OpenFlow ports stay. Raises OvsdbError or a time-out.

        Thread safe. Without a database it counts from the next time that there is one, and this raises all the same.
        """
        self._tunnel_address = address
        if not self._database_up.is_set():
            raise OvsdbUnavailableError(f"database {self._settings.database}: not connected")
        bridge = self._ovsdb.bridge_state()
        self._stand_back_for_another(bridge)
        spec = bridge_spec(self._settings, address, take_over(bridge))
        self._ovsdb.ensure_bridge(spec).result(self._settings.ready_timeout_s)

    def look_again(self, reason: str) -> None:
        """Something that the bridge rests on has changed: verify it and connect again. Thread safe."""
        self._wishes.put(reason)

    def database_connected(self) -> None:
        self._database_up.set()

    def database_lost(self, reason: str) -> None:
        """Without the database nothing can be said of devices, and a switch that has lost it may stop forwarding."""
        if self._database_up.is_set():
            self._database_up.clear()
            self.look_again(f"database {reason}")

    def _loop(self) -> None:
        delay = _FIRST_DELAY_S
        while not self._closing.is_set():
            try:
                self._connect()
            except (OvsdbError, ProgrammerError, OpenFlowError, FutureTimeout) as problem:
                self._down(str(problem) or "no answer in time")
                self._disconnect()
                self._closing.wait(delay)
                delay = min(_MAX_DELAY_S, delay * 2)
                continue
            delay = _FIRST_DELAY_S
            reason = self._wait_for_wish()
            if not self._closing.is_set():
                self._down(reason)
            self._disconnect()

    def _wait_for_wish(self) -> str:
        while True:
            try:
                return self._wishes.get(timeout=60.0)
            except queue.Empty:
                continue

    def _connect(self) -> None:
        timeout = self._settings.ready_timeout_s
        while not self._wishes.empty():
            self._wishes.get_nowait()
        while not self._database_up.wait(_SAY_AGAIN_S) and not self._closing.is_set():
            self._down(self._why_no_database())
        if self._closing.is_set():
            return
        bridge = self._ovsdb.bridge_state()
        takeover = take_over(bridge)
        self._stand_back_for_another(bridge)
        spec = bridge_spec(self._settings, self._tunnel_address, takeover)
        ports = self._ovsdb.ensure_bridge(spec).result(timeout)
        self._has_taken_over = True
        if bridge is None:
            self._on_bridge_made()
        self._programmer = FlowProgrammer(
            self._settings.bridge_remote,
            on_packet_in=self._on_packet_in,
            on_lost=self.look_again,
            on_flow_updates=self._on_flow_updates,
            on_data=lambda: self._settings.faults.at("ovs.openflow"),
            connect_timeout=timeout,
            tls=self._settings.tls,
        )
        self._programmer.start()
        self._check_identity(self._programmer.datapath_id)
        by_type = {network_type: ports[TUNNEL_NAMES[network_type]] for network_type in self._settings.tunnel_ports}
        self._up(self._programmer, by_type, takeover)

    def _why_no_database(self) -> str:
        database = self._settings.database
        trouble = self._ovsdb.trouble.removeprefix(f"{database}: ") or "no connection"
        hint = "" if self._settings.is_elsewhere else "; is Open vSwitch running?"
        return f"database {database}: {trouble}{hint}"

    def _stand_back_for_another(self, bridge: BridgeState | None) -> None:
        """An agent that was started after this one has the bridge: two would undo each other's work.

        Raises OvsdbError.
        """
        other = other_agent(bridge, self._settings.agent)
        if other and self._has_taken_over:
            raise OvsdbError(taken_over(self._settings.bridge, other))

    def _check_identity(self, datapath_id: str) -> None:
        """Database and OpenFlow are set separately when they are on another host. Raises OvsdbError."""
        state = self._ovsdb.bridge_state()
        named = state.datapath_id if state is not None else ""
        if named and datapath_id and named != datapath_id:
            raise OvsdbError(
                f"{self._settings.bridge_remote} leads to the bridge with datapath id {datapath_id}, but "
                f"{self._settings.bridge} in {self._settings.database} has {named}: nothing is programmed"
            )

    def _disconnect(self) -> None:
        if self._programmer is not None:
            self._programmer.close()
            self._programmer = None


def taken_over(bridge: str, other: str) -> str:
    return (
        f"agent {other} has taken over bridge {bridge}; this one stands back until it is started again (or the bridge "
        "is made anew)"
    )


def what_is_wrong(name: str, state: BridgeState | None, tunnels: Tunnels, agent: str) -> str:
    """What somebody has done to the bridge that has to be put right by looking again; empty if nothing."""
    if state is None:
        return f"bridge {name} is gone"
    if state.external_ids.get(PIPELINE, str(PIPELINE_VERSION)) != str(PIPELINE_VERSION):
        return f"another agent has taken over bridge {name}"
    if other := other_agent(state, agent):
        return taken_over(name, other)
    if len(state.ports) < len(tunnels):
        return f"a tunnel port of {name} is gone"
    if state.fail_mode != "secure":
        return f"bridge {name} has another fail_mode"
    return ""


def bridge_spec(settings: OvsSettings, tunnel_address: bytes, takeover: Takeover) -> BridgeSpec:
    local = format_address(tunnel_address)
    # Two bridges with one datapath id mix up their flows, so ours is named explicitly (field fault 34).
    identity = blake2b(f"{local}/{settings.bridge}".encode(), digest_size=6).hexdigest()
    return BridgeSpec(
        settings.bridge,
        settings.datapath_type,
        "0000" + identity,
        tuple(
            Tunnel(
                TUNNEL_NAMES[network_type],
                _TUNNEL_KINDS[network_type],
                local,
                port,
                _TUNNEL_OFPORTS[network_type],
            )
            for network_type, port in settings.tunnel_ports.items()
        ),
        (*takeover.external_ids, (AGENT, settings.agent)),
        settings.listeners,
    )
