"""A controller that knows what a host is to have, tells changes, and replays everything to an agent that has started.

It is what the agent's controller contract asks for (docs/wire-extensions.md): AGENT_RESTARTED is answered with SUCCESS
and with pushes of all that is meant for the host, the last of which carries the closing marker.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import grpc

from goalstate_proto import common_pb2, goalstateprovisioner_pb2_grpc
from goalstate_proto.aca_pb2 import GoalStateExtension
from goalstate_proto.goalstate_pb2 import GoalStateV2
from goalstate_proto.goalstateprovisioner_pb2 import HostRequest, HostRequestReply
from tests.conformance.cloud import DELETION_ORDER, Reply
from tests.conformance.network import State, deletion, kind_of, v2
from tests.lab import AgentProcess
from tests.lab.agent import EAGER, UNLIMITED

PUSH_S = 60.0
REACH_S = 5.0
RETRY_S = 0.02
STOP_S = 5.0
PER_MESSAGE = 500

Provisioner: Any = goalstateprovisioner_pb2_grpc.GoalStateProvisionerServicer


class Controller(Provisioner):  # type: ignore[misc]
    """The controller of one host. Thread safe; owns a server, a channel to the agent and a thread that replays."""

    def __init__(self, agent: AgentProcess) -> None:
        self._agent = agent
        self.address = f"unix:{agent.host.directory}/controller.sock"
        self._wanted: dict[tuple[str, str], State] = {}
        self._revisions = itertools.count(1)
        # Held while a message is under way: what is told later comes later.
        self._lock = threading.RLock()
        self._channel: Any = grpc.insecure_channel(agent.target, options=[*UNLIMITED, *EAGER])
        self._stub: Any = goalstateprovisioner_pb2_grpc.GoalStateProvisionerStub(self._channel)
        self._replays = ThreadPoolExecutor(1, thread_name_prefix="controller-replay")
        self._server: Any = None
        self._closing = threading.Event()
        self.asked = 0
        """How often an agent has said that it has started."""

    # -- being there, or not

    def start(self) -> None:
        """Listen for the agent."""
        self._server = grpc.server(ThreadPoolExecutor(2, thread_name_prefix="controller"))
        goalstateprovisioner_pb2_grpc.add_GoalStateProvisionerServicer_to_server(self, self._server)
        self._server.add_insecure_port(self.address)
        self._server.start()

    def leave(self) -> None:
        """Nobody listens any more; fine if nobody did."""
        if self._server is not None:
            self._server.stop(0).wait(STOP_S)
            self._server = None

    def close(self) -> None:
        self._closing.set()
        self.leave()
        self._replays.shutdown(wait=True, cancel_futures=True)
        self._channel.close()

    # -- what is wanted, and telling it

    def wanted(self) -> list[State]:
        """In an order in which it can be told."""
        with self._lock:
            return sorted(self._wanted.values(), key=lambda one: -DELETION_ORDER.index(kind_of(one)))

    def expect(self, *states: State) -> list[State]:
        """They are wanted from now on, and nobody is told. Returns them with their revisions."""
        with self._lock:
            numbered = [self._numbered(state) for state in states]
            self._wanted.update({_identity(state): state for state in numbered})
            return numbered

    def forget(self, *states: State) -> list[State]:
        """They are not wanted any more, and nobody is told. Returns the deletions."""
        with self._lock:
            for state in states:
                self._wanted.pop(_identity(state), None)
            return [deletion(self._numbered(state), revision=next(self._revisions)) for state in states]

    def tell(self, *states: State) -> Reply | None:
        """They are wanted from now on, and the agent is told; None if it was not reached, which a replay makes good."""
        with self._lock:
            return self._push(v2(*self.expect(*states)))

    def remove(self, *states: State) -> Reply | None:
        """They are not wanted any more, and the agent is told; None as with tell()."""
        with self._lock:
            return self._push(v2(*self.forget(*states)))

    def change(self, add: Iterable[State], remove: Iterable[State]) -> Reply | None:
        """Both in one message."""
        with self._lock:
            return self._push(v2(*self.expect(*add), *self.forget(*remove)))

    def replay(self, request_id: str = "") -> bool:
        """Tell the agent everything, with the closing marker of that request. False if it was not all answered."""
        with self._lock:
            states = self.wanted()
            messages = [v2(*states[start : start + PER_MESSAGE]) for start in range(0, len(states), PER_MESSAGE)]
            end = GoalStateV2()
            end.MergeFromString(GoalStateExtension(replay_end=request_id).SerializeToString())
            return all(self._push(message) is not None for message in (*messages, end))

    # -- what the agent asks (goalstateprovisioner.proto)

    def RequestGoalStates(self, request: HostRequest, _: Any) -> HostRequestReply:  # noqa: N802 - the contract's name
        reply = HostRequestReply(format_version=request.format_version)
        for one in request.state_requests:
            restarted = one.request_type == common_pb2.AGENT_RESTARTED
            if restarted:
                self.asked += 1
                self._replays.submit(self.replay, one.request_id).add_done_callback(_raise)
            # Everything there is has been told: other destinations are nowhere.
            status = common_pb2.SUCCESS if restarted else common_pb2.FAILURE
            reply.operation_statuses.add(request_id=one.request_id, operation_status=status)
        return reply

    def _push(self, message: GoalStateV2) -> Reply | None:
        with self._lock:
            deadline = time.monotonic() + REACH_S
            while (replies := self._attempt(message)) is None:
                # An agent that has just started may not be connected to yet.
                if not self._agent.running or time.monotonic() >= deadline:
                    return None
                self._closing.wait(RETRY_S)
            return Reply.of(replies[0])

    def _attempt(self, message: GoalStateV2) -> list[Any] | None:
        try:
            return list(self._stub.PushGoalStatesStream(iter([message]), timeout=PUSH_S)) or None
        except grpc.RpcError as error:
            if error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED):
                return None
            raise

    def _numbered(self, state: State) -> State:
        made = type(state)()
        made.CopyFrom(state)  # type: ignore[arg-type]
        made.configuration.revision_number = next(self._revisions)
        return made


def _identity(state: State) -> tuple[str, str]:
    configuration: Any = state.configuration
    if kind_of(state) == "DHCP":
        return "DHCP", f"{configuration.subnet_id}/{configuration.mac_address.lower()}"
    return kind_of(state), configuration.id


def _raise(done: Future[bool]) -> None:
    if not done.cancelled():
        done.result()
