"""The agent as a whole: builds the parts, starts and stops them in order.

Start: log, servers, which listen at once, ready or not, engine (it opens the data plane): an agent that is refused its
sockets, because another runs, has not touched the data plane. Stop: no new messages, what is in hand is finished or
answered, servers, engine; all within five seconds. Traffic keeps flowing.
"""

from __future__ import annotations

import gc
import os
import platform
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Protocol

import structlog

from aca import interpreter
from aca.config import DataPlaneKind, Settings
from aca.dispatch.completeness import CONTROLLER, kafka_source
from aca.dispatch.inbox import Message
from aca.dispatch.upkeep import Mode, UpkeepSettings
from aca.ending import FAILED_STATUS, AgentFailed, Signals, arm_exit
from aca.interface_address import AddressFollower, address_of
from aca.kafkasettings import KafkaError
from aca.ondemand.questions import Limits
from aca.ondemand.service import Asker
from aca.telemetry.logs import configure_logging
from aca.transport import intake
from aca.transport.admin import AdminServer
from aca.transport.controller import ControllerClient, ControllerSettings, TlsError, TlsFiles
from aca.transport.listen import ListenError
from aca.transport.replay import ask_for_replay
from aca.transport.server import GoalStateServer, ServerSettings
from aca.transport.subscriptions import SubscriptionServer
from aca.transport.thread import ServerThread
from aca.version import agent_version
from dataplane.addresses import format_address, parse_address
from dataplane.base import DataPlane, DataPlaneError, load_backend
from dataplane.devices.settings import DeviceSettings, MakeDevices
from dataplane.faults import Faults, parse_fault
from dataplane.model import NetworkType

if TYPE_CHECKING:
    from aca.transport.kafka.service import KafkaService

_START_TIMEOUT_S = 10.0
_DRAIN_TIMEOUT_S = 0.5
_KAFKA_STOP_S = 0.9
_ENGINE_CLOSE_S = 2.2
_SERVER_GRACE_S = 0.9
_ADMIN_GRACE_S = 0.1

_log = structlog.get_logger(__name__)


class StartError(Exception):
    """The agent cannot start; the message says why."""


class Packets(Protocol):
    """What the agent needs of who handles packets."""

    def ask_with(self, ask: Asker, limits: Limits) -> None:
        """Whom to ask for unknown destinations, and how much. Before the engine is started."""
        ...


class Engine(intake.Engine, Protocol):
    """What the agent needs of the engine."""

    @property
    def packets(self) -> Packets: ...

    def submit(self, message: Message) -> Future[bytes]:
        """Take a message without blocking; the future gives the serialized reply. Raises EngineClosed."""
        ...

    def start(self) -> None: ...

    def close(self, timeout: float) -> None:
        """Take no more, finish or answer what is in hand, close the data plane: within `timeout` seconds."""
        ...

    def status(self) -> Mapping[str, Any]:
        """JSON-ready: what is desired, programmed, pending and why. May block for 5 s."""
        ...

    def move_tunnels(self, address: bytes) -> None:
        """Tunnels of this host end here from now on. Raises DataPlaneError."""
        ...

    def expect_replay(self, request_id: str) -> None:
        """The controllers are about to be told that this agent has started."""
        ...

    def everything_told(self, source: str) -> None:
        """This source has told everything, and all of it has been answered."""
        ...

    def replay_answered(self, request_id: str) -> None:
        """One of them has answered that request with success."""
        ...

    def reconcile(self, mode: Mode) -> Future[dict[str, Any]]:
        """Compare what stands with what is wanted; the future raises ReconcileRefused if that cannot be done."""
        ...


def backend_settings(settings: Settings, faults: Faults) -> object:
    """The settings object of the configured backend: the only place that knows both sides."""
    return _BACKEND_SETTINGS[settings.dataplane.kind](settings, faults)


def _ovs_settings(settings: Settings, faults: Faults) -> object:
    # Here and not above: what a host does not use is not loaded.
    from dataplane.ovs.remote import TlsFiles, parse_remote
    from dataplane.ovs.settings import OvsSettings

    ovs = settings.dataplane.ovs
    tls = None
    if ovs.tls_ca is not None and ovs.tls_certificate is not None and ovs.tls_key is not None:
        tls = TlsFiles(ovs.tls_ca, ovs.tls_certificate, ovs.tls_key, ovs.tls_peer_name)
    return OvsSettings(
        run_directory=ovs.run_directory,
        database=ovs.database,
        bridge=ovs.bridge,
        datapath_type=ovs.datapath_type,
        tunnel_address=parse_address(settings.host.data_path_address),
        tunnel_ports={NetworkType.VXLAN: ovs.vxlan_port, NetworkType.GENEVE: ovs.geneve_port},
        tunnel_mtu=settings.dataplane.tunnel_mtu,
        # A switch in user space forwards what it is given: nobody would finish the guests' checksums.
        devices=_device_settings(settings, checksum_offload=ovs.datapath_type == "system"),
        faults=faults,
        openflow=parse_remote(ovs.openflow) if ovs.openflow is not None else None,
        tls=tls,
        on_demand=settings.asks_on_demand,
    )


def _netlink_settings(settings: Settings, faults: Faults) -> object:
    from dataplane.netlink.settings import NetlinkSettings

    return NetlinkSettings(
        tunnel_address=parse_address(settings.host.data_path_address),
        tunnel_mtu=settings.dataplane.tunnel_mtu,
        vxlan_port=settings.dataplane.netlink.vxlan_port,
        geneve_port=settings.dataplane.netlink.geneve_port,
        namespace_prefix=settings.dataplane.netlink.namespace_prefix,
        devices=_device_settings(settings, checksum_offload=True),
        faults=faults,
        on_demand=settings.asks_on_demand,
    )


def _device_settings(settings: Settings, *, checksum_offload: bool) -> DeviceSettings:
    return DeviceSettings(
        how=MakeDevices(settings.dataplane.make_devices),
        mtu=settings.dataplane.tunnel_mtu,
        namespace_prefix=settings.dataplane.port_namespace_prefix,
        checksum_offload=checksum_offload,
    )


_BACKEND_SETTINGS: Mapping[DataPlaneKind, Callable[[Settings, Faults], object]] = {
    "ovs": _ovs_settings,
    "netlink": _netlink_settings,
}


def build_engine(settings: Settings) -> Engine:
    """The engine on the configured data plane, not started. Raises StartError."""
    from aca.dispatch.engine import Engine as RealEngine
    from aca.dispatch.engine import EngineSettings

    faults = Faults(map(parse_fault, settings.faults.rules))
    wanted = backend_settings(settings, faults)
    try:
        # Only a backend knows what its settings are, so its constructor's type says nothing.
        make_backend: Any = load_backend(settings.dataplane.kind)
        plane: DataPlane = make_backend(wanted)
    except DataPlaneError as error:
        raise StartError(f"dataplane.kind: {error}") from None
    return RealEngine(
        plane,
        EngineSettings(
            local_addresses=settings.host.packed_addresses,
            tunnel_address=parse_address(settings.host.data_path_address),
            default_network_type=NetworkType[settings.dataplane.default_network_type.upper()],
            tunnel_mtu=settings.dataplane.tunnel_mtu,
            not_ready_wait_s=settings.dataplane.ready_wait_s,
            reply_timeout_s=settings.dataplane.reply_timeout_s,
            workers=settings.dataplane.workers,
            sources=_sources(settings),
            faults=faults,
            upkeep=UpkeepSettings(
                check_every_s=settings.reconcile.check_every_s,
                survey_every_s=settings.reconcile.survey_every_s,
                sweep_limit=settings.reconcile.sweep_limit,
            ),
        ),
    )


def _sources(settings: Settings) -> frozenset[str]:
    """Who says when everything has been told."""
    sources = {CONTROLLER} if settings.reconcile.controller_replays else set()
    sources |= set(map(kafka_source, settings.kafka.compacted))
    if sources and settings.kafka.incomplete:
        # Nobody says it of logs that may have lost their beginning, so nothing that they told may be swept.
        sources.add("kafka topics that are not compacted, which never say it")
    return frozenset(sources)


def _controller_client(settings: Settings) -> ControllerClient:
    """Raises StartError."""
    wanted = settings.controller
    tls = TlsFiles(wanted.tls_ca, wanted.tls_certificate, wanted.tls_key) if wanted.tls_ca is not None else None
    try:
        return ControllerClient(
            ControllerSettings(
                addresses=wanted.addresses,
                request_timeout_s=wanted.request_timeout_s,
                keepalive_s=wanted.keepalive_s,
                tls=tls,
            )
        )
    except TlsError as problem:
        raise StartError(f"controller: {problem}") from None


def _kafka_service(settings: Settings, engine: Engine, failed: Callable[[str], None]) -> KafkaService:
    """Raises StartError."""
    try:
        # Here and not above: most hosts do not use it, and need not have it.
        from aca.transport.kafka.service import KafkaService
    except ImportError as error:
        raise StartError(f"kafka.bootstrap_servers: {error.name} is not installed (pip install 'aca[kafka]')") from None
    try:
        return KafkaService(
            settings.kafka,
            engine,
            host_id=settings.host.id,
            addresses={*settings.host.addresses, settings.host.data_path_address},
            failed=failed,
            faults=Faults(map(parse_fault, settings.faults.rules)),
        )
    except KafkaError as error:
        raise StartError(str(error)) from None


def _limits(settings: Settings) -> Limits:
    wanted = settings.on_demand
    return Limits(
        questions=wanted.max_questions,
        bytes_kept=wanted.max_kept_kib * 1024,
        deadline_s=wanted.deadline_s,
        negative_s=wanted.negative_s,
    )


class Agent:
    """Engine and servers. `start` and `stop` are called once each, by one thread."""

    def __init__(
        self, settings: Settings, engine: Engine, failed: Callable[[str], None] = lambda reason: None
    ) -> None:
        """`failed` is told, by any thread, why the agent must end. Raises StartError."""
        self._settings = settings
        self._engine = engine
        self._kafka = _kafka_service(settings, engine, failed) if settings.kafka.bootstrap_servers else None
        self._subscriptions: SubscriptionServer | None = None
        if self._kafka is not None and settings.kafka.told:
            self._subscriptions = SubscriptionServer(self._kafka, settings.kafka.told_listen)
        self._started_at = time.time()
        self._thread = ServerThread()
        self._server = GoalStateServer(
            engine,
            ServerSettings(
                listen=settings.grpc.listen,
                max_message_bytes=settings.grpc.max_message_mib * 1024 * 1024,
                max_concurrent_messages=settings.grpc.max_concurrent_messages,
            ),
        )
        self._controller = _controller_client(settings) if settings.controller.addresses else None
        self._admin = AdminServer(settings.admin.socket, self)
        self._tunnel_address = parse_address(settings.host.data_path_address)
        self._follower: AddressFollower | None = None
        self._replay: Future[None] | None = None

    def start(self) -> Sequence[str]:
        """Start everything; returns the addresses listened on. Raises StartError, with everything stopped again."""
        try:
            self._thread.start()
            self._thread.run(self._admin.start(), _START_TIMEOUT_S)
            bound = self._thread.run(self._server.start(), _START_TIMEOUT_S)
            if self._subscriptions is not None:
                self._thread.run(self._subscriptions.start(), _START_TIMEOUT_S)
            if self._controller is not None and self._settings.asks_on_demand:
                client = self._controller
                self._engine.packets.ask_with(
                    lambda inquiries: self._thread.submit(client.request_goal_states(inquiries)),
                    _limits(self._settings),
                )
            self._engine.start()
            if self._kafka is not None:
                self._kafka.start()
            self._ask_for_replay()
            interface = self._settings.host.tunnel_interface
            if interface is not None:
                self._follower = AddressFollower(interface, self._tunnel_address, self._move_tunnels)
                self._follower.start()
        except (DataPlaneError, KafkaError, ListenError) as error:
            self.stop()
            raise StartError(str(error)) from None
        return bound

    def stop(self) -> None:
        """Stop taking work, finish or answer what is in hand, end everything; within about 4 s."""
        if self._follower is not None:
            self._attempt(self._follower.close)
        if self._replay is not None:
            self._replay.cancel()
        with_servers = self._thread.started
        if with_servers and (subscriptions := self._subscriptions) is not None:
            self._attempt(lambda: self._thread.run(subscriptions.stop(_ADMIN_GRACE_S), _ADMIN_GRACE_S + 0.5))
        kafka = self._kafka
        if kafka is not None:
            self._attempt(kafka.begin_stop)
        if with_servers:
            self._attempt(lambda: self._thread.run(self._server.drain(), _DRAIN_TIMEOUT_S))
        # Before the engine: what that answers at its end has not been done.
        if kafka is not None:
            self._attempt(lambda: kafka.stop(_KAFKA_STOP_S))
        self._attempt(lambda: self._engine.close(_ENGINE_CLOSE_S))
        if with_servers:
            self._attempt(lambda: self._thread.run(self._server.stop(_SERVER_GRACE_S), _SERVER_GRACE_S + 0.5))
            if (client := self._controller) is not None:
                self._attempt(lambda: self._thread.run(client.close(), _ADMIN_GRACE_S + 0.5))
            self._attempt(lambda: self._thread.run(self._admin.stop(_ADMIN_GRACE_S), _ADMIN_GRACE_S + 0.5))
            self._thread.close()

    def status(self) -> dict[str, Any]:
        """JSON-ready: who this agent is, and the engine's status. May block for 5 s."""
        host = self._settings.host
        return {
            "agent": {
                "version": agent_version(),
                "python": platform.python_version(),
                "pid": os.getpid(),
                "host": host.id,
                "tunnel_address": format_address(self._tunnel_address),
                "data_plane": self._settings.dataplane.kind,
                "uptime_s": round(time.time() - self._started_at, 1),
            },
            **self._engine.status(),
            **({"kafka": self._kafka.status()} if self._kafka is not None else {}),
        }

    def _move_tunnels(self, address: bytes) -> None:
        self._engine.move_tunnels(address)
        self._tunnel_address = address
        self._ask_for_replay()

    def _ask_for_replay(self) -> None:
        """Have everything told (once more): the controllers know the host by its address."""
        if self._replay is not None:
            self._replay.cancel()
        if self._controller is not None:
            replay = ask_for_replay(self._controller, self._engine, self._tunnel_address)
            self._replay = self._thread.submit(replay)

    def reconcile(self, mode: Mode) -> Future[dict[str, Any]]:
        return self._engine.reconcile(mode)

    def _attempt(self, step: Callable[[], None]) -> None:
        """What goes wrong in one step of stopping must not keep the others from being done."""
        try:
            step()
        except Exception:
            _log.exception("a step of stopping failed")


def with_interface_address(settings: Settings) -> Settings:
    """The settings with the tunnel address that the interface has now. Raises StartError."""
    host = settings.host
    if host.tunnel_interface is None:
        return settings
    try:
        address = address_of(host.tunnel_interface)
    except OSError as error:
        raise StartError(f"host.tunnel_interface: the kernel cannot be asked: {error}") from None
    if address is None:
        _log.warning("no address yet", interface=host.tunnel_interface, instead=host.data_path_address)
        return settings
    return settings.model_copy(update={"host": host.model_copy(update={"tunnel_address": format_address(address)})})


def run_agent(settings: Settings, make_engine: Callable[[Settings], Engine] = build_engine) -> None:
    """Run until SIGTERM or SIGINT; then stop and return, or at the latest exit 0, within 5 s of the signal.

    A second signal exits at once. To be called by the main thread of a process that does nothing else. Raises
    StartError, and AgentFailed when the agent has ended itself.
    """
    configure_logging(settings.log.level, settings.log.format)
    signals = Signals()
    interpreter.prepare()
    settings = with_interface_address(settings)
    agent = Agent(settings, make_engine(settings), signals.fail)
    agent.start()
    gc.freeze()
    _log.info("agent running", host=settings.host.id, version=agent_version(), data_plane=settings.dataplane.kind)
    number = signals.wait()
    failure = signals.failure
    if failure:
        _log.error("agent has to end", reason=failure)
    else:
        _log.info("agent stopping", signal=signal.Signals(number).name)
    arm_exit(FAILED_STATUS if failure else 0)
    agent.stop()
    _log.info("agent stopped")
    if failure:
        raise AgentFailed(failure)
