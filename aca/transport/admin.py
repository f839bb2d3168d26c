"""The operator's service: on a Unix socket that only the agent's user may open."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol

import grpc
import structlog

from aca.dispatch.upkeep import Mode, ReconcileRefused
from aca.transport.listen import Bound, ListenDeniedError, bind
from goalstate_proto import aca_pb2, aca_pb2_grpc

_STATUS_TIMEOUT_S = 8.0
"""The engine itself gives up after 5 s."""

_RECONCILE_TIMEOUT_S = 300.0
_MODES = {aca_pb2.LOOK: Mode.LOOK, aca_pb2.REPAIR: Mode.REPAIR, aca_pb2.FORCE: Mode.FORCE}

_log = structlog.get_logger(__name__)


class Operated(Protocol):
    """What operators may ask of the agent. Answers are JSON-ready."""

    def status(self) -> Mapping[str, Any]:
        """May block for 5 s; called on a thread of its own."""
        ...

    def reconcile(self, mode: Mode) -> Future[dict[str, Any]]:
        """The future raises ReconcileRefused if it cannot be done now."""
        ...


class AdminServer:
    """Serves aca.v1.Admin."""

    def __init__(self, path: Path, agent: Operated) -> None:
        self._path = path
        self._agent = agent
        self._status_thread = ThreadPoolExecutor(1, thread_name_prefix="aca-status")
        self._server: grpc.aio.Server | None = None
        self._bound: Bound | None = None

    async def start(self) -> None:
        """Listen on the socket, mode 0600. Raises ListenError, with what may help."""
        server = grpc.aio.server(options=[("grpc.max_send_message_length", -1)])
        aca_pb2_grpc.add_AdminServicer_to_server(self, server)
        self._server = server
        try:
            self._bound = bind(server, f"unix:{self._path}")
        except ListenDeniedError as error:
            raise ListenDeniedError(f"{error} (run as root, or set admin.socket)") from None
        await server.start()
        _log.info("listening for operators", socket=str(self._path))

    async def stop(self, grace: float) -> None:
        """End within `grace` seconds and take away the socket file, if it is ours. Idempotent."""
        server, self._server = self._server, None
        if server is None:
            return
        await server.stop(grace)
        self._status_thread.shutdown(wait=False, cancel_futures=True)
        bound, self._bound = self._bound, None
        if bound is not None:
            bound.release()

    async def GetStatus(  # noqa: N802 (the contract's name)
        self,
        _request: aca_pb2.StatusRequest,
        context: grpc.aio.ServicerContext[aca_pb2.StatusRequest, aca_pb2.StatusReply],
    ) -> aca_pb2.StatusReply:
        loop = asyncio.get_running_loop()
        work = loop.run_in_executor(self._status_thread, lambda: json.dumps(self._agent.status()))
        try:
            return aca_pb2.StatusReply(json=await asyncio.wait_for(work, _STATUS_TIMEOUT_S))
        except TimeoutError:
            await context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, "the agent is too busy to describe itself")
        except Exception:
            _log.exception("status failed")
            await context.abort(grpc.StatusCode.INTERNAL, "the agent failed; its log says why")
        raise AssertionError("abort always raises")

    async def Reconcile(  # noqa: N802 (the contract's name)
        self,
        request: aca_pb2.ReconcileRequest,
        context: grpc.aio.ServicerContext[aca_pb2.ReconcileRequest, aca_pb2.ReconcileReply],
    ) -> aca_pb2.ReconcileReply:
        mode = _MODES.get(request.mode)
        if mode is None:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"mode: {request.mode} is not known")
        try:
            found = await asyncio.wait_for(asyncio.wrap_future(self._agent.reconcile(mode)), _RECONCILE_TIMEOUT_S)
            return aca_pb2.ReconcileReply(json=json.dumps(found))
        except TimeoutError:
            await context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, "it takes too long; `aca status` tells how it went")
        except ReconcileRefused as refused:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(refused))
        raise AssertionError("abort always raises")
