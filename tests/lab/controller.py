"""A controller that agents ask: a gRPC server in this process, on a unix socket, that answers as a test wants."""

import threading
from collections.abc import Callable
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc

from goalstate_proto.common_pb2 import FAILURE, ON_DEMAND, SUCCESS, OperationStatus
from goalstate_proto.goalstateprovisioner_pb2 import HostRequest, HostRequestReply
from goalstate_proto.goalstateprovisioner_pb2_grpc import (
    GoalStateProvisionerServicer,
    add_GoalStateProvisionerServicer_to_server,
)

Decide = Callable[[Any], "OperationStatus | None"]
"""Decides about one state request; None: it gets no status. May push states meanwhile."""

THREADS = 16


def refuse(_request: object) -> OperationStatus:
    """There is no way."""
    return FAILURE


def promise(_request: object) -> OperationStatus:
    """There is a way; whether the state comes is another matter."""
    return SUCCESS


class Controller(GoalStateProvisionerServicer):
    """`decide` may be exchanged at any time. A context manager; start() and stop() take it up and down."""

    def __init__(self, socket: Path, credentials: grpc.ServerCredentials | None = None) -> None:
        """On a unix socket; with credentials on a port of localhost, chosen when it starts."""
        self.target = f"unix:{socket}"
        self._credentials = credentials
        self.decide: Decide = refuse
        self.first: Callable[[list[Any]], None] = lambda requests: None
        """Called once for each call, with all its state requests, before they are decided about."""
        self._asked: list[Any] = []
        self._lock = threading.Lock()
        self._server: grpc.Server | None = None

    def __enter__(self) -> "Controller":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        server = grpc.server(futures.ThreadPoolExecutor(THREADS))
        add_GoalStateProvisionerServicer_to_server(self, server)  # type: ignore[no-untyped-call]
        if self._credentials is None:
            server.add_insecure_port(self.target)
        else:
            self.target = f"localhost:{server.add_secure_port('localhost:0', self._credentials)}"
        server.start()
        self._server = server

    def stop(self) -> None:
        """End every call at once and listen no more; fine if it does not run."""
        server, self._server = self._server, None
        if server is not None:
            server.stop(None).wait(5.0)

    @property
    def asked(self) -> list[Any]:
        """Every state request so far."""
        with self._lock:
            return list(self._asked)

    @property
    def questions(self) -> list[Any]:
        """Those about packets."""
        return [request for request in self.asked if request.request_type == ON_DEMAND]

    def destinations(self) -> list[str]:
        """The addresses that were asked for, in order."""
        return [request.destination_ip for request in self.questions]

    def forget(self) -> None:
        """As if nobody had asked yet."""
        with self._lock:
            self._asked.clear()

    def RequestGoalStates(self, request: HostRequest, context: grpc.ServicerContext) -> HostRequestReply:  # noqa: N802
        with self._lock:
            self._asked += request.state_requests
        self.first(list(request.state_requests))
        reply = HostRequestReply(format_version=1)
        for one in request.state_requests:
            status = self.decide(one)
            if status is not None:
                reply.operation_statuses.add(request_id=one.request_id, operation_status=status)
        return reply
