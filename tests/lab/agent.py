"""The agent as a process in a host's namespace, and the clients that talk to it."""

import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import psutil

from tests.lab.commands import LabError, environment, wait_until
from tests.lab.toml import dumps

if TYPE_CHECKING:
    from goalstate_proto.goalstate_pb2 import GoalState, GoalStateV2
    from goalstate_proto.goalstateprovisioner_pb2 import GoalStateOperationReply
    from tests.lab.netns import Namespace

REPOSITORY = Path(__file__).resolve().parents[2]
COMMAND = (sys.executable, "-m", "aca.cli")
UNLIMITED = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
EAGER = [
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 100),
]
STOP_TIMEOUT = 15.0
CALL_TIMEOUT = 60.0
LOG_TAIL = 4000


class AgentHost(Protocol):
    """What an agent needs to know of its host."""

    name: str
    directory: Path
    namespace: "Namespace"
    underlay_ip: str
    dataplane: str
    bridge: str
    grpc_target: str
    admin_socket: Path

    @property
    def has_ovs(self) -> bool: ...
    @property
    def db_socket(self) -> str: ...
    def owns(self, agent: "AgentProcess") -> None: ...


def usual_config(host: AgentHost) -> dict[str, Any]:
    """The configuration of an agent for a host of the lab; it serves on unix sockets in the host's directory."""
    # Hosts of a lab share one directory of named namespaces; the lab removes what begins with its own prefix.
    dataplane: dict[str, Any] = {"kind": host.dataplane, "port_namespace_prefix": f"{host.namespace.name}-p-"}
    if host.has_ovs:
        dataplane["ovs"] = {
            "run_directory": str(host.directory),
            "database": host.db_socket,
            "bridge": host.bridge,
            "datapath_type": "netdev",
        }
    if host.dataplane == "netlink":
        dataplane["netlink"] = {"namespace_prefix": f"{host.namespace.name}-r-"}
    return {
        "host": {"id": host.name, "addresses": [host.underlay_ip], "tunnel_address": host.underlay_ip},
        "grpc": {"listen": host.grpc_target},
        "admin": {"socket": str(host.admin_socket)},
        "dataplane": dataplane,
    }


def target_of(listen: str | Sequence[str]) -> str:
    """The first unix socket among the listen addresses: the others are inside the namespace, where no client is.

    Raises LabError if there is none.
    """
    addresses = listen.split(",") if isinstance(listen, str) else listen
    for address in addresses:
        if address.strip().startswith("unix:"):
            return address.strip()
    raise LabError(f"no unix socket to reach the agent at among {', '.join(addresses)}")


def laid_over(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """`base` with the values of `over`, section by section."""
    merged = dict(base)
    for key, value in over.items():
        below = merged.get(key)
        merged[key] = laid_over(below, value) if isinstance(value, dict) and isinstance(below, dict) else value
    return merged


class AgentProcess:
    """One agent: start(), wait_ready(), push, stop() or kill(), start() again with the same configuration."""

    def __init__(self, host: AgentHost, config: dict[str, Any] | None = None, command: Sequence[str] = COMMAND) -> None:
        self.host = host
        self.config = laid_over(usual_config(host), config or {})
        self.config_file = host.directory / "agent.toml"
        self.log = host.directory / "agent.log"
        self.target = target_of(self.config["grpc"]["listen"])
        self._pidfile = host.directory / "agent.pid"
        self.command = tuple(command)
        """May be changed between two starts."""
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: Any = None
        host.owns(self)

    # -- the process

    def start(self) -> None:
        """Write the configuration and start the process; it need not serve yet. Raises LabError if it runs."""
        if self.running:
            raise LabError(f"the agent of {self.host.name} runs already")
        self.config_file.write_text(dumps(self.config))
        # Settings of whoever runs the tests are none of the agent's.
        inherited = {name: value for name, value in environment().items() if not name.startswith("ACA_")}
        command = (*self.command, "run", "--config", str(self.config_file))
        # The namespaces that an agent makes outlive it only if it shares our mounts, which `ip netns exec` prevents.
        argv = self.host.namespace.entering(*command)
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                argv,
                cwd=REPOSITORY,
                env={**inherited, "PYTHONPATH": str(REPOSITORY), "PYTHONUNBUFFERED": "1"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self._pidfile.write_text(str(self._process.pid))

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """Raises LabError if it was never started."""
        if self._process is None:
            raise LabError(f"the agent of {self.host.name} was not started")
        return self._process.pid

    def wait_ready(self, timeout: float = 15.0) -> None:
        """Wait until its health service says SERVING. Raises LabError, with its log, if it ends or is late."""
        try:
            wait_until(lambda: not self.running or self.health() == "SERVING", timeout, "SERVING")
        except LabError as error:
            raise LabError(f"{self!r}: {error}; {self.health()}\n{self.log_tail()}") from error
        if not self.running:
            status = None if self._process is None else self._process.returncode
            raise LabError(f"{self!r} ended with exit status {status}\n{self.log_tail()}")

    def health(self) -> str:
        """SERVING, NOT_SERVING, ..., or UNREACHABLE while nothing listens."""
        import grpc
        from grpc_health.v1 import health_pb2, health_pb2_grpc

        stub = health_pb2_grpc.HealthStub(self.channel())
        try:
            reply = stub.Check(health_pb2.HealthCheckRequest(), timeout=1.0)
        except grpc.RpcError:
            return "UNREACHABLE"
        return str(health_pb2.HealthCheckResponse.ServingStatus.Name(reply.status))

    def stop(self, within: float = STOP_TIMEOUT) -> int:
        """SIGTERM, wait for the end, return the exit status. Raises LabError (and kills it) if it is late."""
        return self._end(signal.SIGTERM, within)

    def kill(self) -> None:
        """SIGKILL, as a crash."""
        self._end(signal.SIGKILL, STOP_TIMEOUT)

    def close(self) -> None:
        """End it, however; fine if it does not run."""
        self._hang_up()
        if self.running:
            self.kill()

    def log_tail(self) -> str:
        """The last part of its output."""
        return self.log.read_text(errors="replace")[-LOG_TAIL:] if self.log.exists() else ""

    # -- talking to it

    def channel(self) -> Any:
        """A gRPC channel to its goal state service, made once per start."""
        import grpc

        if self._channel is None:
            # A subchannel pool of its own: a lab that is made again at the same path must not inherit back-off.
            self._channel = grpc.insecure_channel(self.target, options=[*UNLIMITED, *EAGER])
        return self._channel

    def push_v1(self, goalstate: "GoalState", timeout: float = CALL_TIMEOUT) -> "GoalStateOperationReply":
        """PushNetworkResourceStates. Raises grpc.RpcError."""
        reply: GoalStateOperationReply = self._stub().PushNetworkResourceStates(goalstate, timeout=timeout)
        return reply

    def push_v2(self, *goalstates: "GoalStateV2", timeout: float = CALL_TIMEOUT) -> "list[GoalStateOperationReply]":
        """PushGoalStatesStream: all the goal states in one stream, the replies in order. Raises grpc.RpcError."""
        return list(self._stub().PushGoalStatesStream(iter(goalstates), timeout=timeout))

    def status(self) -> dict[str, Any]:
        """What `aca status` shows. Raises grpc.RpcError."""
        import grpc

        from goalstate_proto.aca_pb2 import StatusRequest
        from goalstate_proto.aca_pb2_grpc import AdminStub

        with grpc.insecure_channel(f"unix:{self.config['admin']['socket']}", options=UNLIMITED) as channel:
            stub: Any = AdminStub(channel)  # type: ignore[no-untyped-call]
            reply = stub.GetStatus(StatusRequest(), timeout=CALL_TIMEOUT)
        status: dict[str, Any] = json.loads(reply.json)
        return status

    def reconcile(self, mode: str, timeout: float = 120.0) -> dict[str, Any]:
        """What `aca reconcile` finds and does; `mode` is LOOK, REPAIR or FORCE. Raises grpc.RpcError."""
        import grpc

        from goalstate_proto.aca_pb2 import ReconcileMode, ReconcileRequest
        from goalstate_proto.aca_pb2_grpc import AdminStub

        with grpc.insecure_channel(f"unix:{self.config['admin']['socket']}", options=UNLIMITED) as channel:
            stub: Any = AdminStub(channel)  # type: ignore[no-untyped-call]
            reply = stub.Reconcile(ReconcileRequest(mode=ReconcileMode.Value(mode)), timeout=timeout)
        found: dict[str, Any] = json.loads(reply.json)
        return found

    # -- what it uses

    @property
    def rss_bytes(self) -> int:
        return int(psutil.Process(self.pid).memory_info().rss)

    @property
    def fds(self) -> int:
        return int(psutil.Process(self.pid).num_fds())

    @property
    def threads(self) -> int:
        return int(psutil.Process(self.pid).num_threads())

    def __repr__(self) -> str:
        return f"AgentProcess on {self.host.name!r}"

    def _stub(self) -> Any:
        from goalstate_proto.goalstateprovisioner_pb2_grpc import GoalStateProvisionerStub

        return GoalStateProvisionerStub(self.channel())  # type: ignore[no-untyped-call]

    def _end(self, with_signal: signal.Signals, within: float) -> int:
        if self._process is None:
            raise LabError(f"{self!r} was not started")
        self._hang_up()
        self._process.send_signal(with_signal)
        try:
            status = self._process.wait(within)
        except subprocess.TimeoutExpired as error:
            self._process.kill()
            self._process.wait(STOP_TIMEOUT)
            late = f"{self!r} still ran {within:g} s after {with_signal.name}\n{self.log_tail()}"
            raise LabError(late) from error
        self._pidfile.unlink(missing_ok=True)
        return status

    def _hang_up(self) -> None:
        if self._channel is not None:
            self._channel.close()
            self._channel = None
