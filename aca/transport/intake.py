"""From message bytes to the engine and back: parsing, and the bound on what is in hand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Protocol

import grpc
import structlog
from google.protobuf.message import DecodeError

from aca.dispatch.engine import EngineClosed
from goalstate_proto.goalstate_pb2 import GoalState, GoalStateV2
from goalstate_proto.goalstateprovisioner_pb2 import NeighborRulesRequest

GoalStateMessage = GoalState | GoalStateV2 | NeighborRulesRequest
Parser = Callable[[bytes], GoalStateMessage]

_PARSE_ASIDE_BYTES = 64 * 1024
"""Larger messages are parsed on a thread of their own, so that other calls go on meanwhile."""

_log = structlog.get_logger(__name__)


class Engine(Protocol):
    """What the server needs of the engine."""

    @property
    def ready(self) -> bool:
        """True while the data plane can be programmed."""
        ...

    def submit(self, message: GoalStateMessage) -> Future[bytes]:
        """Take a message without blocking; the future gives the serialized reply. Raises EngineClosed."""
        ...

    def on_ready(self, callback: Callable[[bool], None]) -> None:
        """Call `callback`, from any thread, after `ready` has changed."""
        ...


class RefusalError(Exception):
    """A call ends with this gRPC status: the transport's own refusal, never one about content."""

    def __init__(self, code: grpc.StatusCode, details: str) -> None:
        super().__init__(details)
        self.code = code
        self.details = details


def shutting_down() -> RefusalError:
    return RefusalError(grpc.StatusCode.UNAVAILABLE, "the agent is shutting down")


def parse_v1(data: bytes) -> GoalState:
    return GoalState.FromString(data)


def parse_v2(data: bytes) -> GoalStateV2:
    return GoalStateV2.FromString(data)


def parse_neighbor_rules(data: bytes) -> NeighborRulesRequest:
    return NeighborRulesRequest.FromString(data)


class Intake:
    """Hands messages to the engine, `limit` at once at most. Lives on one event loop."""

    def __init__(self, engine: Engine, limit: int, parse_thread: Executor) -> None:
        self._engine = engine
        self._permits = asyncio.Semaphore(limit)
        self._parse_thread = parse_thread
        self._in_hand: set[asyncio.Future[bytes]] = set()

    async def take(self, data: bytes, parse: Parser) -> asyncio.Future[bytes]:
        """Wait for room, parse, hand over; the returned future gives the serialized reply.

        A message of no bytes is answered at once: controllers warm up their channels with it. Raises RefusalError when
        the bytes are no message or the engine takes no more; the future raises it when there will be no answer.
        """
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[bytes] = loop.create_future()
        if not data:
            answer.set_result(b"")
            return answer
        await self._permits.acquire()
        try:
            message = await self._parse(data, parse)
            work = self._submit(message)
        except BaseException:
            self._permits.release()
            raise
        self._in_hand.add(answer)
        work.add_done_callback(lambda done: _call_soon(loop, lambda: self._settle(done, answer)))
        return answer

    def abandon(self) -> None:
        """Give up waiting for the engine: whatever is in hand ends UNAVAILABLE."""
        for answer in self._in_hand:
            if not answer.done():
                _fail(answer, shutting_down())

    async def _parse(self, data: bytes, parse: Parser) -> GoalStateMessage:
        try:
            if len(data) <= _PARSE_ASIDE_BYTES:
                return parse(data)
            return await asyncio.get_running_loop().run_in_executor(self._parse_thread, parse, data)
        except DecodeError:
            raise RefusalError(
                grpc.StatusCode.INVALID_ARGUMENT, f"these {len(data)} bytes are not a message of this method"
            ) from None

    def _submit(self, message: GoalStateMessage) -> Future[bytes]:
        try:
            return self._engine.submit(message)
        except EngineClosed:
            raise shutting_down() from None

    def _settle(self, done: Future[bytes], answer: asyncio.Future[bytes]) -> None:
        self._permits.release()
        self._in_hand.discard(answer)
        if answer.done():  # the caller has gone, or was given up
            return
        if done.cancelled() or isinstance(done.exception(), EngineClosed):
            _fail(answer, shutting_down())
        elif error := done.exception():
            _log.error("a message was not answered", exc_info=error)
            _fail(answer, RefusalError(grpc.StatusCode.INTERNAL, "the agent failed; its log says why"))
        else:
            answer.set_result(done.result())


def _fail(answer: asyncio.Future[bytes], refused: RefusalError) -> None:
    answer.set_exception(refused)
    # The caller may have gone; without this asyncio would report an exception that nobody took.
    answer.exception()


def _call_soon(loop: asyncio.AbstractEventLoop, action: Callable[[], None]) -> None:
    try:
        loop.call_soon_threadsafe(action)
    except RuntimeError:
        # The loop is closed: nobody waits for this reply any more.
        pass
