"""One call: messages in, replies out in the same order."""

from __future__ import annotations

import asyncio
from typing import TypeAlias

import grpc
import structlog

from aca.transport.intake import Intake, Parser, RefusalError, shutting_down

STREAM_WINDOW = 16
"""Messages of one stream in hand at once: they merge in order, and wait for the data plane together."""

Context: TypeAlias = "grpc.aio.ServicerContext[bytes, bytes]"

_log = structlog.get_logger(__name__)


class _End:
    """The client has said all it wants to say."""


class Exchange:
    """A reader task hands over what the client sends; the call's own task writes the replies.

    `limit` is the number of messages the method takes, None for any number until the client half-closes. The window
    bounds the queue between the two tasks: a client that does not read its replies is not read from either.
    """

    def __init__(self, intake: Intake, context: Context, parse: Parser, limit: int | None) -> None:
        self._intake = intake
        self._context = context
        self._parse = parse
        self._limit = limit
        self._window = asyncio.Semaphore(STREAM_WINDOW)
        self._replies: asyncio.Queue[asyncio.Future[bytes] | RefusalError | _End] = asyncio.Queue()
        self._reader: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Serve the call to its end. Raises what ends a call early (the client has gone, a refusal was sent)."""
        self._reader = asyncio.create_task(self._read())
        try:
            await self._write()
        except RefusalError as refused:
            if refused.code is not grpc.StatusCode.UNAVAILABLE:  # that is shutting down: one line says it for all
                _log.warning(
                    "call refused", peer=self._context.peer(), status=refused.code.name, reason=refused.details
                )
            await self._context.abort(refused.code, refused.details)
        finally:
            self._reader.cancel()

    def stop_reading(self) -> None:
        """Take no further message of this call. What is in hand is still answered; the call then ends UNAVAILABLE.

        A call that has already said all it wants ends as usual.
        """
        if self._reader is not None:
            self._reader.cancel()
        self._replies.put_nowait(shutting_down())

    async def _write(self) -> None:
        while True:
            item = await self._replies.get()
            if isinstance(item, _End):
                return
            if isinstance(item, RefusalError):
                raise item
            reply = await item
            self._window.release()
            await self._context.write(reply)

    async def _read(self) -> None:
        last: RefusalError | _End = _End()
        try:
            await self._read_messages()
        except RefusalError as refused:
            last = refused
        except Exception:
            _log.exception("reading from a client failed")
            last = RefusalError(grpc.StatusCode.INTERNAL, "the agent failed; its log says why")
        finally:
            self._replies.put_nowait(last)

    async def _read_messages(self) -> None:
        count = 0
        while self._limit is None or count < self._limit:
            await self._window.acquire()
            data = await self._context.read()
            if not isinstance(data, bytes):  # grpc.aio.EOF
                if self._limit is not None:
                    raise RefusalError(grpc.StatusCode.INVALID_ARGUMENT, "the call carries no message")
                return
            count += 1
            self._replies.put_nowait(await self._intake.take(data, self._parse))
            # The next message may be long in coming, and this one large.
            del data
