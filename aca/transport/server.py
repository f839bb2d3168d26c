"""The gRPC server through which controllers push goal states.

Works on raw message bytes: the parsing is ours, so that bytes that are no message are answered INVALID_ARGUMENT with
a reason and nothing else makes a gRPC error. Controllers stall for minutes after a gRPC error, so what is wrong with
a resource is said in the reply only (contract 0b.11).

All methods are registered as streams, unary ones included: on the wire they are the same, and only a stream's handler
decides when a message is read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import grpc
import structlog
from grpc_health.v1 import health
from grpc_reflection.v1alpha import reflection

from aca.transport.exchange import Context, Exchange
from aca.transport.health import HealthFollower
from aca.transport.intake import Engine, Intake, Parser, parse_neighbor_rules, parse_v1, parse_v2, shutting_down
from aca.transport.listen import Bound, bind

SERVICE = "alcor.schema.GoalStateProvisioner"

_FLUSH_S = 0.3
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ServerSettings:
    listen: tuple[str, ...]
    """`HOST:PORT`, `[IPv6]:PORT` or `unix:/PATH`."""
    max_message_bytes: int
    max_concurrent_messages: int


class GoalStateServer:
    """Serves GoalStateProvisioner, health and reflection. Every method but the constructor runs on one event loop."""

    def __init__(self, engine: Engine, settings: ServerSettings) -> None:
        self._engine = engine
        self._settings = settings
        self._parse_thread = ThreadPoolExecutor(1, thread_name_prefix="aca-parse")
        self._intake = Intake(engine, settings.max_concurrent_messages, self._parse_thread)
        self._health = HealthFollower()
        self._server: grpc.aio.Server | None = None
        self._bound: list[Bound] = []
        self._calls: dict[asyncio.Task[Any], Exchange] = {}
        self._listening = False
        self._stopping = False

    async def start(self) -> Sequence[str]:
        """Listen and serve at once, ready or not; returns the addresses with their real ports. Raises ListenError."""
        server = grpc.aio.server(options=_server_options(self._settings.max_message_bytes))
        server.add_generic_rpc_handlers((_Methods(self),))
        self._health.add_to(server)
        reflection.enable_server_reflection((SERVICE, health.SERVICE_NAME, reflection.SERVICE_NAME), server)
        self._server = server
        for address in self._settings.listen:
            # One by one: what is bound when a later one fails has to be released.
            self._bound.append(bind(server, address))
        await self._health.follow(self._engine)
        await server.start()
        self._listening = True
        addresses = [bound.address for bound in self._bound]
        _log.info("listening for goal states", addresses=addresses)
        return addresses

    async def drain(self) -> None:
        """Take no more messages; what is in hand goes on. Health says NOT_SERVING from here on. Idempotent."""
        if self._stopping:
            return
        self._stopping = True
        if self._listening:
            _log.info("taking no more goal states", open_calls=len(self._calls))
        await self._health.stop()
        for exchange in self._calls.values():
            exchange.stop_reading()

    async def stop(self, grace: float) -> None:
        """Drain, let what is in hand be answered, end every call: within `grace` seconds. Idempotent."""
        await self.drain()
        server, self._server = self._server, None
        if server is None:
            return
        flush = min(_FLUSH_S, grace / 3)
        await self._wait_for_calls(grace - 2 * flush)
        self._intake.abandon()
        await self._wait_for_calls(flush)
        await server.stop(flush)
        for bound in self._bound:
            bound.release()
        self._parse_thread.shutdown(wait=False, cancel_futures=True)

    async def serve(self, context: Context, parse: Parser, limit: int | None) -> None:
        """One call of a method that takes `limit` messages (None: any number)."""
        if self._stopping:
            refused = shutting_down()
            await context.abort(refused.code, refused.details)
        task = asyncio.current_task()
        assert task is not None
        exchange = Exchange(self._intake, context, parse, limit)
        self._calls[task] = exchange
        try:
            await exchange.run()
        finally:
            del self._calls[task]

    async def _wait_for_calls(self, timeout: float) -> None:
        if self._calls:
            await asyncio.wait(list(self._calls), timeout=timeout)


class _Methods(grpc.GenericRpcHandler):  # type: ignore[type-arg]  # generic in the stubs only
    """The methods of the service, as handlers of raw bytes."""

    def __init__(self, server: GoalStateServer) -> None:
        self._handlers = {
            f"/{SERVICE}/{method}": grpc.stream_stream_rpc_method_handler(behaviour)
            for method, behaviour in (
                ("PushNetworkResourceStates", self._push_v1),
                ("PushGoalStatesStream", self._push_v2),
                ("PushGoalstates", self._push_neighbor_rules),
                ("RequestGoalStates", self._request),
            )
        }
        self._server = server

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        return self._handlers.get(handler_call_details.method)

    async def _push_v1(self, _requests: object, context: Context) -> None:
        await self._server.serve(context, parse_v1, 1)

    async def _push_v2(self, _requests: object, context: Context) -> None:
        await self._server.serve(context, parse_v2, None)

    async def _push_neighbor_rules(self, _requests: object, context: Context) -> None:
        await self._server.serve(context, parse_neighbor_rules, 1)

    async def _request(self, _requests: object, context: Context) -> None:
        await context.abort(grpc.StatusCode.UNIMPLEMENTED, "agents ask for goal states, controllers answer")


def _server_options(max_message_bytes: int) -> list[tuple[str, int]]:
    return [
        ("grpc.max_receive_message_length", max_message_bytes),
        ("grpc.max_send_message_length", -1),
        # Two agents on one port must not silently share its connections.
        ("grpc.so_reuseport", 0),
        # Controllers ping idle channels every 10 s (contract 2.7) and must not be cut off for it.
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.min_ping_interval_without_data_ms", 1_000),
        ("grpc.http2.max_ping_strikes", 0),
        # Idle streams of a controller that vanished would stay for ever.
        ("grpc.keepalive_time_ms", 60_000),
        ("grpc.keepalive_timeout_ms", 20_000),
    ]
