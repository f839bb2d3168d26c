"""The gRPC health service: SERVING while the data plane can be programmed."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
from grpc_health.v1 import _async as health_async
from grpc_health.v1 import health_pb2, health_pb2_grpc

from aca.transport.intake import Engine

SERVICES = ("", "alcor.schema.GoalStateProvisioner")
"""The agent as a whole, and its one service: both follow the data plane."""


class HealthFollower:
    """Keeps the health service in step with the engine. Lives on one event loop; the engine calls from any thread."""

    def __init__(self) -> None:
        self._servicer: Any = health_async.HealthServicer()
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def add_to(self, server: grpc.aio.Server) -> None:
        health_pb2_grpc.add_HealthServicer_to_server(self._servicer, server)

    async def follow(self, engine: Engine) -> None:
        """Show the engine's readiness from now on."""
        await self._set(False)
        loop = asyncio.get_running_loop()

        def changed(_ready: bool) -> None:
            try:
                loop.call_soon_threadsafe(self._changed.set)
            except RuntimeError:
                pass  # the loop is closed: nobody asks any more

        engine.on_ready(changed)
        self._changed.set()
        self._task = asyncio.create_task(self._keep_in_step(engine))

    async def stop(self) -> None:
        """NOT_SERVING for good."""
        if self._task is not None:
            self._task.cancel()
        await self._servicer.enter_graceful_shutdown()

    async def _keep_in_step(self, engine: Engine) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            # Asked now, not taken from the call: calls of several threads may arrive in another order.
            await self._set(engine.ready)

    async def _set(self, ready: bool) -> None:
        status = health_pb2.HealthCheckResponse.SERVING if ready else health_pb2.HealthCheckResponse.NOT_SERVING
        for service in SERVICES:
            await self._servicer.set(service, status)
