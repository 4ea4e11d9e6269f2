"""One background event loop for each process: other threads submit calls to the loop and wait for the results.

A hundred calls in flight share one connection pool, and each call ends at its timeout, even if the service
sends its answer slowly.
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

_STOP_SECONDS = 2.0
# If the loop is blocked, a caller waits this many seconds beyond its timeout.
_GRACE_SECONDS = 5.0


class StoppedError(Exception):
    """The process is ending, so the call is cancelled."""


class Background:
    """A background event loop. The first call of each process starts its thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._closers: list[Callable[[], Awaitable[None]]] = []
        self._stopped = False
        # A forked process keeps the objects of its parent without using them: the garbage collector would close them,
        # which would write to connections of the parent process.
        self._inherited: list[object] = []
        os.register_at_fork(after_in_child=self._forget)
        atexit.register(self.stop)

    def run(self, coroutine: Coroutine[Any, Any, T], seconds: float) -> T:
        """Return the result of the coroutine.

        Raises TimeoutError after `seconds`, and StoppedError if the process is ending.
        """
        future = self._submit(coroutine, seconds)
        try:
            return future.result(max(seconds, 0) + _GRACE_SECONDS)
        except CancelledError:
            raise StoppedError from None
        finally:
            future.cancel()

    async def run_async(self, coroutine: Coroutine[Any, Any, T], seconds: float) -> T:
        """Return the result of the coroutine like `run`, but do not block the event loop of the caller."""
        future = self._submit(coroutine, seconds)
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            # Either the caller cancelled the call, or the background loop has ended.
            if self._stopped:
                raise StoppedError from None
            raise

    def _submit(self, coroutine: Coroutine[Any, Any, T], seconds: float) -> Future[T]:
        try:
            loop = self._start_loop()
        except BaseException:
            coroutine.close()
            raise
        return asyncio.run_coroutine_threadsafe(_apply_timeout(coroutine, seconds), loop)

    def when_stopping(self, close: Callable[[], Awaitable[None]]) -> None:
        """Register a function that the loop awaits before it ends. Call this method on the loop."""
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
        thread.join(_STOP_SECONDS)

    def _start_loop(self) -> asyncio.AbstractEventLoop:
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
            loop.run_until_complete(self._close_all())
            loop.close()

    async def _close_all(self) -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for close in self._closers:
            with contextlib.suppress(Exception):
                await close()

    def _forget(self) -> None:
        """Reset the state in a forked process, which has no such thread and may have inherited a locked lock."""
        self._inherited += [self._loop, self._thread, self._closers]
        self._lock = threading.Lock()
        self._loop = self._thread = None
        self._closers = []


async def _apply_timeout(coroutine: Coroutine[Any, Any, T], seconds: float) -> T:
    async with asyncio.timeout(seconds):
        return await coroutine


BACKGROUND = Background()
