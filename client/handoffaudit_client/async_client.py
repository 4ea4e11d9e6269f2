"""Async client: the twin of `Client` for asyncio. Calls that wait for the network run in threads."""

from __future__ import annotations

from handoffaudit_client.client import EXIT_SECONDS, Client

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from typing import Any, TypeVar

    from handoffaudit_client.tool_calls import ToolCall
    from handoffaudit_client.traces import TraceScope
    from handoffaudit_client.verdict import Verdict

    Result = TypeVar("Result")


class HandoffId(str):
    """The id of a handoff. `await` returns the same id."""

    __slots__ = ()

    def __await__(self) -> Generator[None, None, str]:
        return str(self)
        yield  # makes the method a generator


class AsyncVerdict:
    """A `Verdict` whose `wait` is awaited."""

    __slots__ = ("findings", "handoff_id", "is_open", "state", "url", "verdict", "why")

    def __init__(self, verdict: Verdict) -> None:
        self.verdict = verdict
        self.state = verdict.state
        self.why = verdict.why
        self.findings = verdict.findings
        self.handoff_id = verdict.handoff_id
        self.url = verdict.url
        self.is_open = verdict.is_open

    def __bool__(self) -> bool:
        return bool(self.verdict)

    def __repr__(self) -> str:
        return f"Async{self.verdict!r}"

    async def wait(self, timeout: float = 300.0) -> AsyncVerdict:
        """Wait at most `timeout` seconds for the decision; see `Verdict.wait`."""
        return AsyncVerdict(await _decision(self.verdict, timeout))


class AsyncClient:
    """Client for asyncio: `gate`, `flush` and `close` are awaited; the other calls never wait."""

    def __init__(self, url: str | None = None, key: str | None = None, **options: Any) -> None:
        """Create a client; the parameters are those of `Client`."""
        self.client = Client(url, key, **options)

    def send(self, source: str, target: str, data: Any, **options: Any) -> HandoffId:
        """Send a handoff in the background, and return its id, which may be awaited; see `Client.send`."""
        return HandoffId(self.client.send(source, target, data, **options))

    async def gate(self, source: str, target: str, data: Any, *, wait: float = 0.0, **options: Any) -> AsyncVerdict:
        """Submit a handoff, and return the verdict; see `Client.gate`. Other tasks go on meanwhile."""
        verdict = await _in_thread(self.client.gate, source, target, data, **options)
        return AsyncVerdict(await _decision(verdict, wait))

    def tool_result(self, tool: str, *result: Any, **options: Any) -> ToolCall:
        """Record what a tool returned, also as a decorator or a context manager; see `Client.tool_result`."""
        return self.client.tool_result(tool, *result, **options)

    def trace(self, id: str | None = None) -> TraceScope:  # noqa: A002 (the word of the API)
        """Return a context manager, for `with` or `async with`; see `Client.trace`."""
        return self.client.trace(id)

    async def flush(self, timeout: float = 10.0) -> bool:
        """Wait until all items are sent, refused or dropped; see `Client.flush`."""
        return await _in_thread(self.client.flush, timeout)

    def stats(self) -> dict[str, int]:
        """Return the numbers of `Client.stats`."""
        return self.client.stats()

    async def close(self, timeout: float = EXIT_SECONDS) -> None:
        """Send the remaining items, and close the client; see `Client.close`."""
        await _in_thread(self.client.close, timeout)

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


async def _decision(verdict: Verdict, timeout: float) -> Verdict:
    # A waiting thread could not be cancelled, and the program could not end before the thread.
    from handoffaudit_client.plugins import wait_for_decision

    return await wait_for_decision(verdict, timeout)


async def _in_thread(function: Callable[..., Result], *args: Any, **kwargs: Any) -> Result:
    # A thread gets a copy of the context, with the current trace.
    import asyncio

    return await asyncio.to_thread(function, *args, **kwargs)
