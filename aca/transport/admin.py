"""The operator's service: on a Unix socket that only the agent's user may open."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import structlog

from aca.transport.listen import Bound, ListenDeniedError, bind
from goalstate_proto import aca_pb2, aca_pb2_grpc

_STATUS_TIMEOUT_S = 8.0
"""The engine itself gives up after 5 s."""

_log = structlog.get_logger(__name__)


class AdminServer:
    """Serves aca.v1.Admin. `status` gives a JSON-ready value; it may block and is called on a thread of its own."""

    def __init__(self, path: Path, status: Callable[[], Mapping[str, Any]]) -> None:
        self._path = path
        self._status = status
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
        work = loop.run_in_executor(self._status_thread, lambda: json.dumps(self._status()))
        try:
            return aca_pb2.StatusReply(json=await asyncio.wait_for(work, _STATUS_TIMEOUT_S))
        except TimeoutError:
            await context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, "the agent is too busy to describe itself")
        except Exception:
            _log.exception("status failed")
            await context.abort(grpc.StatusCode.INTERNAL, "the agent failed; its log says why")
        raise AssertionError("abort always raises")
