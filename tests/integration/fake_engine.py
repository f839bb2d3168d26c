"""An engine without a data plane: answers at once, on demand, or never; and a server on it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any

import grpc

from aca.dispatch.engine import EngineClosed
from aca.dispatch.upkeep import Mode
from aca.transport.intake import GoalStateMessage
from aca.transport.server import GoalStateServer, ServerSettings
from aca.transport.thread import ServerThread
from goalstate_proto import aca_pb2, common_pb2, goalstate_pb2, goalstateprovisioner_pb2
from goalstate_proto.goalstateprovisioner_pb2_grpc import GoalStateProvisionerStub

WAIT_S = 20.0
UNLIMITED = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]


class FakeEngine:
    """Answers each port of a message: FAILURE with a reason if its name is 'bad', else SUCCESS.

    `hold` keeps messages unanswered until `release`; `close` leaves them so (a hung engine).
    """

    def __init__(self, ready: bool = True, hold: bool = False) -> None:
        self._lock = threading.Lock()
        self._ready = ready
        self._hold = hold
        self._held: list[tuple[GoalStateMessage, Future[bytes]]] = []
        self._callbacks: list[Callable[[bool], None]] = []
        self._closed = False
        self.received: list[GoalStateMessage] = []
        self.arrived = threading.Semaphore(0)
        """Released once for each message."""
        self.started = False
        self.packets: Any = None

    @property
    def ready(self) -> bool:
        return self._ready

    def set_ready(self, ready: bool) -> None:
        self._ready = ready
        for callback in self._callbacks:
            callback(ready)

    def on_ready(self, callback: Callable[[bool], None]) -> None:
        self._callbacks.append(callback)

    def start(self) -> None:
        self.started = True

    def move_tunnels(self, address: bytes) -> None:
        pass

    def expect_replay(self, request_id: str) -> None:
        pass

    def replay_answered(self, request_id: str) -> None:
        pass

    def reconcile(self, mode: Mode) -> Future[dict[str, Any]]:
        return nothing_found()

    def close(self, timeout: float) -> None:
        self._closed = True

    def status(self) -> dict[str, Any]:
        problem = {"kind": "PORT", "id": "port-2", "status": "pending", "reason": "no device [tapport-2]", "since": 0.0}
        conflict = {"subnet": "s1", "address": "10.0.0.5", "holder_kind": "NEIGHBOR", "holder": "n2", "others": ["n1"]}
        return {
            "host": {"addresses": ["192.0.2.11"]},
            "dataplane": {
                "ready": self._ready,
                "reason": "" if self._ready else "no database",
                "since": time.time() - 65,
            },
            "resources": {"PORT": {"desired": 7, "programmed": 5, "pending": 1, "invalid": 0, "failed": 1}},
            "in_work": 0,
            "messages_in_hand": 0,
            "problems": [problem],
            "problems_total": 1,
            "conflicts": [conflict],
            "reconcile": {
                "complete": False, "waiting": "waiting for the end of what these tell: controller", "alarm": "",
                "put_back": 2, "swept": 0, "last": {"check": {"at": time.time(), "standing": 9, "missing": 0}},
            },
        }

    def submit(self, message: GoalStateMessage) -> Future[bytes]:
        if self._closed:
            raise EngineClosed("closing")
        future: Future[bytes] = Future()
        with self._lock:
            self.received.append(message)
            if self._hold:
                self._held.append((message, future))
            else:
                future.set_result(reply_to(message))
        self.arrived.release()
        return future

    def release(self) -> None:
        """Answer what is held, last first, and everything from now on at once."""
        with self._lock:
            self._hold = False
            held, self._held = self._held, []
        for message, future in reversed(held):
            future.set_result(reply_to(message))


def reply_to(message: GoalStateMessage) -> bytes:
    reply = goalstateprovisioner_pb2.GoalStateOperationReply(format_version=message.format_version or 1)
    extension = aca_pb2.ReplyExtension()
    for state in _ports(message):
        bad = state.configuration.name == "bad"
        status = reply.operation_statuses.add()
        status.resource_id = state.configuration.id
        status.resource_type = common_pb2.PORT
        status.operation_type = state.operation_type
        status.operation_status = common_pb2.FAILURE if bad else common_pb2.SUCCESS
        status.state_elapse_time = 1500
        if state.configuration.name == "waits":
            status.operation_status = common_pb2.PENDING
        if state.configuration.name:
            extension.problems.add(
                resource_type=common_pb2.PORT,
                resource_id=state.configuration.id,
                status=status.operation_status,
                reason=f"the device of {state.configuration.id} is out of order",
            )
    return reply.SerializeToString() + extension.SerializeToString()


def _ports(message: GoalStateMessage) -> list[Any]:
    if isinstance(message, goalstate_pb2.GoalState):
        return list(message.port_states)
    if isinstance(message, goalstate_pb2.GoalStateV2):
        return [message.port_states[key] for key in sorted(message.port_states)]
    return []


class Host:
    """A server on a fake engine, and a channel to it."""

    def __init__(self, engine: FakeEngine, **settings: Any) -> None:
        self.engine = engine
        self.thread = ServerThread()
        self.thread.start()
        usual = ServerSettings(("127.0.0.1:0",), max_message_bytes=512 << 20, max_concurrent_messages=64)
        self.server = GoalStateServer(engine, replace(usual, **settings))
        self.address = self.thread.run(self.server.start(), WAIT_S)[0]
        self.channel = grpc.insecure_channel(self.address, options=UNLIMITED)
        self.stub: Any = GoalStateProvisionerStub(self.channel)

    def stop(self, grace: float = 3.0) -> None:
        self.thread.run(self.server.stop(grace), WAIT_S)

    def close(self) -> None:
        self.engine.release()
        self.channel.close()
        self.stop()
        self.thread.close()


@dataclass(frozen=True)
class FakeAgent:
    """What operators ask: the status is as given, and there is nothing to reconcile."""

    said: dict[str, Any]

    def status(self) -> dict[str, Any]:
        return self.said

    def reconcile(self, mode: Mode) -> Future[dict[str, Any]]:
        return nothing_found()


def nothing_found() -> Future[dict[str, Any]]:
    found: Future[dict[str, Any]] = Future()
    found.set_result(
        {"standing": 0, "missing": 0, "altered": 0, "examples": [], "leftovers": [], "leftovers_total": 0}
        | {"removed": 0, "kept_because": ""}
    )
    return found
