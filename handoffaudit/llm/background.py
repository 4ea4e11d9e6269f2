"""One event loop for each process, in a thread of its own: threads hand their calls to the loop and wait.

A hundred calls in flight share one connection pool, and each call ends exactly at its timeout, however slowly the
service sends its answer.
"""

import asyncio
import atexit
import contextlib
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import CancelledError, Future
from typing import Any, TypeVar

T = TypeVar("T")

_STOPPING_SECONDS = 2.0
# A caller waits this many seconds beyond its timeout for a loop that is held up.
_GRACE_SECONDS = 5.0


class StoppedError(Exception):
    """The process is ending, and the call ends with it."""


class Background:
    """A background event loop. Its thread starts on the first call, and again in a forked process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._closers: list[Callable[[], Awaitable[None]]] = []
        self._stopped = False
        # Inherited objects are kept and never used: closing them would write to connections of the parent process.
        self._inherited: list[object] = []
        os.register_at_fork(after_in_child=self._forget)
        atexit.register(self.stop)

    def run(self, coroutine: Coroutine[Any, Any, T], seconds: float) -> T:
        """Return the result of the coroutine.

        Raises TimeoutError after `seconds`, and StoppedError where the process is ending.
        """
        future = self._submitted(coroutine, seconds)
        try:
            return future.result(max(seconds, 0) + _GRACE_SECONDS)
        except CancelledError:
            raise StoppedError from None
        finally:
            future.cancel()

    async def awaited(self, coroutine: Coroutine[Any, Any, T], seconds: float) -> T:
        """Return the result of the coroutine like `run`, without blocking the event loop of the caller."""
        future = self._submitted(coroutine, seconds)
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            # Either the caller cancelled the call, or the background loop has ended.
            if self._stopped:
                raise StoppedError from None
            raise

    def _submitted(self, coroutine: Coroutine[Any, Any, T], seconds: float) -> Future[T]:
        try:
            loop = self._running()
        except BaseException:
            coroutine.close()
            raise
        return asyncio.run_coroutine_threadsafe(_within(coroutine, seconds), loop)

    def when_stopping(self, close: Callable[[], Awaitable[None]]) -> None:
        """Register `close`, which the loop awaits before it ends. Call on the loop."""
        self._closers.append(close)

    def stop(self) -> None:
        """Cancel all calls and end the thread. No call is accepted afterwards."""
        with self._lock:
            self._stopped = True
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop is None or thread is None:
            return
        loop.call_soon_threadsafe(loop.stop)
        thread.join(_STOPPING_SECONDS)

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._stopped:
                raise StoppedError
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=self._serve, args=(self._loop,), name="handoffaudit-llm", daemon=True
                )
                self._thread.start()
            return self._loop

    def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
        finally:
            loop.run_until_complete(self._wind_up())
            loop.close()

    async def _wind_up(self) -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for close in self._closers:
            with contextlib.suppress(Exception):
                await close()

    def _forget(self) -> None:
        """Reset the state in a forked process, where the thread does not run and the lock may be held forever."""
        self._inherited += [self._loop, self._thread, self._closers]
        self._lock = threading.Lock()
        self._loop = self._thread = None
        self._closers = []


async def _within(coroutine: Coroutine[Any, Any, T], seconds: float) -> T:
    async with asyncio.timeout(seconds):
        return await coroutine


BACKGROUND = Background()
