"""The one thread that runs the event loop of all servers and clients."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")

_CLOSE_TIMEOUT_S = 1.0


class ServerThread:
    """Owns an event loop and its thread. Servers live on it; other threads reach them through `run`."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._main, name="aca-servers", daemon=True)

    @property
    def started(self) -> bool:
        return self._thread.ident is not None

    def start(self) -> None:
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T], timeout: float) -> T:
        """Run a coroutine on the loop and wait for its result, `timeout` seconds at most (then TimeoutError)."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result(timeout)
        except TimeoutError:
            future.cancel()
            raise

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Have a coroutine run on the loop. Raises RuntimeError if the loop is closed."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def close(self) -> None:
        """Stop the loop and end the thread. Idempotent; what still runs on the loop is cancelled."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(_CLOSE_TIMEOUT_S)

    def _main(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            left = asyncio.all_tasks(self._loop)
            for task in left:
                task.cancel()
            self._loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        finally:
            self._loop.close()
