"""Client for Claude. All calls share one event loop, and all calls of a client share one connection pool.

Importing the SDK takes a second, so this module imports the SDK only when a call needs it.
"""

import asyncio
import atexit
import contextlib
import json
import logging
import os
import re
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from concurrent.futures import CancelledError, Future
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, TypeVar

from handoffaudit.llm import errors
from handoffaudit.llm.calls import Messages, Reply, Usage
from handoffaudit.validation.prompts.pricing import ROOM_FOR_THINKING
from handoffaudit.validation.prompts.question import Unavailable

if TYPE_CHECKING:
    import anthropic

logger = logging.getLogger(__name__)

T = TypeVar("T")

LONGEST_BODY: Final = 4 * 1024 * 1024
CONNECT_SECONDS: Final = 5.0
PREPARE_SECONDS: Final = 60.0
_STOP_SECONDS = 2.0
# If the loop is blocked, a caller waits this many seconds beyond its timeout.
_GRACE_SECONDS = 5.0


class Background:
    """A background event loop. The first call of each process starts its thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._closers: list[Callable[[], Awaitable[None]]] = []
        self._stopped = False
        # A forked process keeps the objects of its parent without using them. Otherwise, the garbage collector would
        # close the objects, which would write to connections of the parent process.
        self._inherited: list[object] = []
        os.register_at_fork(after_in_child=self._forget)
        atexit.register(self.stop)

    def run(self, coroutine: Coroutine[Any, Any, T], seconds: float) -> T:
        """Return the result of the coroutine.

        Raises TimeoutError after `seconds`, and errors.StoppedError if the process is ending.
        """
        future = self._submit(coroutine, seconds)
        try:
            return future.result(max(seconds, 0) + _GRACE_SECONDS)
        except CancelledError:
            raise errors.StoppedError from None
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
                raise errors.StoppedError from None
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
                raise errors.StoppedError
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
        """Reset the state in a forked process, which lacks its parent's thread, and whose old lock may stay locked."""
        self._inherited += [self._loop, self._thread, self._closers]
        self._lock = threading.Lock()
        self._loop = self._thread = None
        self._closers = []


async def _apply_timeout(coroutine: Coroutine[Any, Any, T], seconds: float) -> T:
    async with asyncio.timeout(seconds):
        return await coroutine


BACKGROUND = Background()


async def read_bounded(response: Any) -> None:
    """Read the body of an SDK response, decompressed. Raises `Unavailable` if the body exceeds `LONGEST_BODY`."""
    parts: list[bytes] = []
    size = 0
    async for part in response.aiter_bytes():
        size += len(part)
        if size > LONGEST_BODY:
            raise errors.too_long_error(LONGEST_BODY)
        parts.append(part)
    # The HTTP client looks for the body in this attribute first. The stream of the response is empty now.
    response._content = b"".join(parts)  # noqa: SLF001


_CLIENTS: Final = {
    "anthropic": "AsyncAnthropic",
    "bedrock": "AsyncAnthropicBedrock",
    "vertex": "AsyncAnthropicVertex",
}
PROVIDERS: Final = tuple(_CLIENTS)

# No context is this long. A larger count is a mistake of the service, and must not use up a budget or overflow a
# database column.
_LARGEST_COUNT = 10_000_000

# LLMs of these generations think before they answer and accept the parameter `effort`. Older LLMs reject `effort`.
_EFFORT: Final = re.compile(r"(?:haiku|sonnet|opus|fable|mythos)-(?:[5-9]|\d\d)(?!\d)")


class ClaudeClient:
    """A thread-safe `calls.Client` for Claude.

    Without `base_url`, the client uses the provider's own address. The clients for Bedrock and Vertex look for
    credentials in the same places as the command line tools of AWS and Google Cloud. Raises `ValueError` for an unknown
    provider.
    """

    def __init__(
        self,
        provider: str,
        api_key: str,
        base_url: str = "",
        *,
        connect_seconds: float = CONNECT_SECONDS,
        background: Background = BACKGROUND,
    ) -> None:
        if provider not in PROVIDERS:
            raise ValueError(f"Unknown provider {provider!r}: choose one of {', '.join(PROVIDERS)}.")
        self._provider = provider
        self._api_key = api_key
        self._base_url = base_url
        self._connect_seconds = connect_seconds
        self._background = background
        # Each client belongs to one event loop. A forked process has another loop and does not use the old client.
        self._clients: list[tuple[asyncio.AbstractEventLoop, Any]] = []

    def __repr__(self) -> str:
        return f"ClaudeClient({self._provider!r})"

    def complete(
        self,
        *,
        model: str,
        system: str,
        messages: Messages,
        schema: Mapping[str, Any],
        max_tokens: int,
        seconds: float,
    ) -> Reply:
        """Return the reply to one request, without retries. Raises `Unavailable`."""
        self._check_key()
        load_sdk()
        request = _request(model, system, messages, schema, max_tokens)
        with errors.raise_unavailable(seconds):
            return self._background.run(self._send(request, seconds), seconds)

    async def complete_async(
        self,
        *,
        model: str,
        system: str,
        messages: Messages,
        schema: Mapping[str, Any],
        max_tokens: int,
        seconds: float,
    ) -> Reply:
        """Return the reply like `complete`, but do not block the event loop of the caller."""
        self._check_key()
        await asyncio.to_thread(load_sdk)
        request = _request(model, system, messages, schema, max_tokens)
        with errors.raise_unavailable(seconds):
            return await self._background.run_async(self._send(request, seconds), seconds)

    def prepare(self) -> None:
        """Load the SDK and create its client, so that the first call is fast. Raises `Unavailable`."""
        self._check_key()
        load_sdk()
        with errors.raise_unavailable(PREPARE_SECONDS):
            self._background.run(self._prepare_client(), PREPARE_SECONDS)

    async def _prepare_client(self) -> None:
        self._client_of_loop()

    def _check_key(self) -> None:
        key = self._api_key
        if self._provider == "anthropic" and not (key.isascii() and key.isprintable() and " " not in key):
            raise errors.invalid_key_error()

    async def _send(self, request: dict[str, Any], seconds: float) -> Reply:
        import anthropic  # noqa: PLC0415

        connect_seconds = min(self._connect_seconds, seconds)
        try:
            client = self._client_of_loop()
            # The background loop limits the whole call, so a timeout of the SDK means that connecting took too long.
            timeout = anthropic.Timeout(seconds + 1, connect=connect_seconds)
            return _read_reply(await client.messages.create(**request, timeout=timeout))
        except anthropic.APITimeoutError:
            raise errors.connect_timeout_error(connect_seconds) from None
        except anthropic.APIConnectionError as error:
            raise (error.__cause__ if isinstance(error.__cause__, Unavailable) else errors.connection_error()) from None
        except anthropic.APIStatusError as error:
            raise self._status_error(error) from None
        except (anthropic.APIResponseValidationError, json.JSONDecodeError):
            raise errors.invalid_message_error() from None
        except Unavailable:
            raise
        except Exception as error:  # noqa: BLE001  (any other failure of the SDK is an outage, too)
            logger.warning("The SDK of the LLM failed: %s", type(error).__name__)
            raise errors.sdk_error(error, self._provider) from None

    def _client_of_loop(self) -> Any:
        loop = asyncio.get_running_loop()
        if not self._clients or self._clients[-1][0] is not loop:
            client = self._make_client()
            self._clients.append((loop, client))
            self._background.when_stopping(client.close)
        return self._clients[-1][1]

    def _make_client(self) -> Any:
        import anthropic  # noqa: PLC0415

        # A redirect would send the key to another host.
        http = anthropic.DefaultAsyncHttpxClient(follow_redirects=False, event_hooks={"response": [read_bounded]})
        arguments: dict[str, Any] = {"max_retries": 0, "http_client": http}
        if self._provider == "anthropic":
            arguments["api_key"] = self._api_key
        if self._base_url:
            arguments["base_url"] = self._base_url
        try:
            return getattr(anthropic, _CLIENTS[self._provider])(**arguments)
        except (ImportError, ValueError, RuntimeError, anthropic.AnthropicError) as error:
            raise errors.sdk_error(error, self._provider) from None

    def _status_error(self, error: "anthropic.APIStatusError") -> Unavailable:
        message = error.api_message if isinstance(error.api_message, str) else None
        if message and self._api_key:
            message = message.replace(self._api_key, "[masked]")
        return errors.error_of_status(
            error.status_code,
            retry_after=error.response.headers.get("retry-after"),
            message=message,
            now=datetime.now(UTC),
        )


def load_sdk() -> None:
    """Import the SDK, so that the import does not count against the timeout of the first call."""
    import anthropic  # noqa: F401, PLC0415


def _request(model: str, system: str, messages: Messages, schema: Mapping[str, Any], max_tokens: int) -> dict[str, Any]:
    request: dict[str, Any] = {
        "model": model,
        "messages": [{**one, "content": _remove_surrogates(one["content"])} for one in messages],
        "max_tokens": max_tokens + ROOM_FOR_THINKING,
    }
    if system:
        request["system"] = _remove_surrogates(system)
    if config := _output_config(model, schema):
        request["output_config"] = config
    return request


def _remove_surrogates(content: Any) -> Any:
    """Replace lone surrogates, which a cut text may contain and which UTF-8 cannot encode."""
    return content.encode("utf-8", "replace").decode() if isinstance(content, str) else content


def _output_config(model: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    config: dict[str, Any] = {}
    # The service only accepts schemas that exclude other properties. Without a schema, only the prompt describes the
    # answer.
    if schema.get("additionalProperties") is False:
        config["format"] = {"type": "json_schema", "schema": dict(schema)}
    if _EFFORT.search(model):
        config["effort"] = "low"
    return config


def _read_reply(message: Any) -> Reply:
    """Return the reply from an SDK message. Check all types, because the SDK does not."""
    content = getattr(message, "content", None)
    if not isinstance(content, list):
        raise errors.invalid_message_error()
    return Reply(
        text=_read_text(content),
        model=str(getattr(message, "model", "") or ""),
        usage=_read_usage(getattr(message, "usage", None)),
        stop_reason=str(getattr(message, "stop_reason", "") or ""),
    )


def _read_text(content: Iterable[Any]) -> str:
    """Join all text blocks, or the JSON inputs of the tool calls if there is no text."""
    texts, inputs = [], []
    for block in content:
        if getattr(block, "type", None) == "text":
            texts.append(str(getattr(block, "text", "") or ""))
        elif getattr(block, "type", None) == "tool_use":
            inputs.append(json.dumps(getattr(block, "input", None)))
    text = "".join(texts)
    return text if text.strip() else "".join(inputs)


def _read_usage(usage: Any) -> Usage:
    return Usage(
        tokens_in=_read_count(usage, "input_tokens") + _read_count(usage, "cache_creation_input_tokens"),
        tokens_out=_read_count(usage, "output_tokens"),
        tokens_cached=_read_count(usage, "cache_read_input_tokens"),
    )


def _read_count(usage: Any, name: str) -> int:
    value = getattr(usage, name, None)
    return min(value, _LARGEST_COUNT) if isinstance(value, int) and value > 0 else 0
