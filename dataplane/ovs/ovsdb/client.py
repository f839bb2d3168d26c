"""The OVSDB client: one thread that owns the connection, and a thread-safe front."""

from __future__ import annotations

import logging
import select
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any

from dataplane.ovs.ovsdb.link import Poller
from dataplane.ovs.ovsdb.mirror import Changes, Snapshot
from dataplane.ovs.ovsdb.model import BridgeSpec, BridgeState, Device, OvsdbError, OvsdbUnavailableError
from dataplane.ovs.ovsdb.operations import IFACE_ID, check_text
from dataplane.ovs.ovsdb.owner import Owner
from dataplane.ovs.ovsdb.requests import (
    AddPort,
    DelPort,
    EnsureBridge,
    Request,
    SetBridgeExternalIds,
    SetExternalIds,
)
from dataplane.ovs.ovsdb.transactor import Job
from dataplane.ovs.remote import TlsFiles, parse_remote

LOG = logging.getLogger(__name__)

MAX_UNDECIDED = 100_000
CLOSE_TIMEOUT = 2.0


class Ovsdb:
    """One bridge in one Open vSwitch database.

    Callbacks and the callbacks of futures run in the owner thread: they must be quick and must not wait for a
    future of this object. After each connect `on_devices` names every device, those that vanished meanwhile
    included. While the connection is down reads give the last known state and requests wait for the next one.
    Every future is resolved or failed within `timeout` seconds.
    """

    def __init__(
        self,
        remote: str,
        bridge: str,
        *,
        on_connected: Callable[[], None],
        on_lost: Callable[[str], None],
        on_devices: Callable[[frozenset[str]], None],
        on_bridge: Callable[[BridgeState | None], None] = lambda _: None,
        on_data: Callable[[], None] = lambda: None,
        tls: TlsFiles | None = None,
        timeout: float = 30.0,
    ) -> None:
        """`remote` is unix:PATH, tcp:ADDRESS:PORT, or ssl:ADDRESS:PORT, which needs `tls`. Raises ValueError.

        `on_bridge` is called when the bridge's state differs: a tunnel's OpenFlow port or error, the running
        datapath id, a restart of the switch; None if the bridge is gone.
        """
        self._remote = parse_remote(remote)
        self._tls = tls
        self._on_data = on_data
        self._bridge = bridge
        self._on_connected = on_connected
        self._on_lost = on_lost
        self._on_devices = on_devices
        self._on_bridge = on_bridge
        self._timeout = timeout
        self._lock = threading.Lock()
        self._inbox: deque[Job] = deque()
        self._undecided = 0
        self._closed = False
        self._thread: threading.Thread | None = None
        self._waker: socket.socket | None = None
        self._snapshot = Snapshot()
        self._connected = False
        self._trouble = ""
        self._generation = 0

    # ---- any thread

    def start(self) -> None:
        """Start the owner thread; returns at once, `on_connected` follows. Raises OvsdbUnavailableError if closed."""
        with self._lock:
            if self._closed:
                raise OvsdbUnavailableError("closed")
            if self._thread is not None:
                return
            self._waker, wakee = socket.socketpair()
            self._waker.setblocking(False)
            wakee.setblocking(False)
            self._thread = threading.Thread(target=self._own, args=(wakee,), name="ovsdb", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Stop; pending requests fail with OvsdbUnavailableError. The bridge stays as it is. Can be repeated."""
        with self._lock:
            self._closed = True
            thread = self._thread
            if thread is None:
                orphans, self._inbox = self._inbox, deque()
        if thread is None:
            for job in orphans:
                job.fail(OvsdbUnavailableError("closed"))
            return
        self._wake()
        if thread is not threading.current_thread():
            thread.join(CLOSE_TIMEOUT)
            if thread.is_alive():
                LOG.warning("the database thread did not end within %g s", CLOSE_TIMEOUT)

    @property
    def connected(self) -> bool:
        """True while the view is fed by a live connection."""
        return self._connected

    @property
    def trouble(self) -> str:
        """Why the last attempt to connect failed, or the last connection ended."""
        return self._trouble

    @property
    def generation(self) -> int:
        """How many connections there have been; 0 before the first."""
        return self._generation

    def devices(self) -> Mapping[str, Device]:
        """The devices on our bridge by interface name: an immutable snapshot."""
        return self._snapshot.devices

    def by_name(self, name: str) -> Device | None:
        return self._snapshot.devices.get(name)

    def by_iface_id(self, iface_id: str) -> Device | None:
        """The device with that external_ids:iface-id; of several the one that has an OpenFlow port."""
        return self._snapshot.by_iface_id.get(iface_id)

    def bridge_state(self) -> BridgeState | None:
        """Our bridge; None before the first connection and if it does not exist."""
        return self._snapshot.bridge

    def ensure_bridge(self, spec: BridgeSpec) -> Future[Mapping[str, int]]:
        """Make the bridge and its tunnels as wanted, changing only what differs. Tunnel name to OpenFlow port.

        Also takes away Open_vSwitch other_config:flow-restore-wait. Fails with OvsdbError if the switch refuses
        the bridge or a tunnel, with its words.
        """
        if spec.name != self._bridge:
            return _failed(OvsdbError(f"bridge {spec.name} is not {self._bridge}"))
        texts = [spec.name, spec.datapath_type, spec.datapath_id or ""]
        texts += [text for pair in spec.external_ids for text in pair]
        texts += [text for t in spec.tunnels for text in (t.name, t.kind, t.local_ip)]
        return self._submit(EnsureBridge(spec), texts)

    def set_external_ids(self, interface: str, values: Mapping[str, str | None]) -> Future[None]:
        """Merge external_ids of an interface on our bridge; None removes a key. OvsdbError if it is not there.

        Calls made while a transaction is under way become one transaction.
        """
        return self._submit(SetExternalIds(interface, dict(values)), [interface, *_texts(values)])

    def set_bridge_external_ids(self, values: Mapping[str, str | None]) -> Future[None]:
        """Merge external_ids of our bridge; None removes a key. OvsdbError if there is no bridge."""
        return self._submit(SetBridgeExternalIds(self._bridge, dict(values)), _texts(values))

    def add_port(
        self,
        device: str,
        iface_id: str,
        mtu: int | None = None,
        external_ids: Mapping[str, str] | None = None,
    ) -> Future[int]:
        """Attach a device of the host to our bridge. Its OpenFlow port, once the switch has attached it.

        Fails with OvsdbError and the switch's words if it cannot; the record stays then, and the switch attaches
        the device when it appears. `mtu` is in bytes; None leaves it.
        """
        ids = {**(external_ids or {}), IFACE_ID: iface_id}
        return self._submit(AddPort(device, mtu, ids), [device, *_texts(ids)])

    def del_port(self, device: str) -> Future[None]:
        """Detach a device from our bridge, confirmed by the switch; a success if it is not on it."""
        return self._submit(DelPort(device), [device])

    def _submit(self, request: Request, texts: list[str]) -> Future[Any]:
        try:
            check_text(*texts)
        except OvsdbError as error:
            return _failed(error)
        future: Future[Any] = Future()
        with self._lock:
            if self._closed:
                return _failed(OvsdbUnavailableError("closed"))
            if self._undecided >= MAX_UNDECIDED:
                return _failed(OvsdbUnavailableError(f"{MAX_UNDECIDED} requests wait for the database already"))
            self._undecided += 1
            self._inbox.append(Job(request, future, time.monotonic() + self._timeout))
        future.add_done_callback(self._decided)
        self._wake()
        return future

    def _decided(self, _: Future[Any]) -> None:
        with self._lock:
            self._undecided -= 1

    def _wake(self) -> None:
        with self._lock:
            if self._waker is not None:
                try:
                    self._waker.send(b"\0")
                except BlockingIOError:
                    pass  # It has enough to wake up for.

    # ---- owner thread

    def _own(self, wakee: socket.socket) -> None:
        owner = Owner(self._remote, self._tls, self._bridge, self._up, self._changed, self._down, self._on_data)
        try:
            while not self._closed:
                with self._lock:
                    arrived, self._inbox = self._inbox, deque()
                owner.transactor.add(arrived)
                owner.turn(time.monotonic())
                self._trouble = owner.trouble
                poller = Poller()
                poller.fd_wait(wakee, select.POLLIN)
                owner.wait(poller, time.monotonic())
                poller.block()
                _drain(wakee)
        finally:
            self._connected = False
            with self._lock:
                self._closed = True
                waker, self._waker = self._waker, None
                arrived, self._inbox = self._inbox, deque()
            owner.transactor.add(arrived)
            owner.close()
            wakee.close()
            if waker is not None:
                waker.close()

    def _up(self, snapshot: Snapshot) -> None:
        names = frozenset(self._snapshot.devices) | frozenset(snapshot.devices)
        self._snapshot = snapshot
        self._generation += 1
        self._connected = True
        _call(self._on_connected)
        _call(self._on_bridge, snapshot.bridge)
        if names:
            _call(self._on_devices, names)

    def _changed(self, snapshot: Snapshot, changes: Changes) -> None:
        self._snapshot = snapshot
        if changes.bridge:
            _call(self._on_bridge, snapshot.bridge)
        if changes.devices:
            _call(self._on_devices, changes.devices)

    def _down(self, reason: str) -> None:
        self._connected = False
        _call(self._on_lost, reason)


def _call(callback: Callable[..., None], *arguments: object) -> None:
    """Call back; the connection does not depend on what the callee makes of it."""
    try:
        callback(*arguments)
    except Exception:
        LOG.exception("a callback failed")


def _drain(wakee: socket.socket) -> None:
    try:
        wakee.recv(4096)
    except BlockingIOError:
        pass


def _texts(values: Mapping[str, str | None]) -> list[str]:
    return [text for pair in values.items() for text in pair if text is not None]


def _failed(error: OvsdbError) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_exception(error)
    return future
