"""Client for Claude. The SDK takes a second to import, so the first call imports it unless `prepare` did."""

import asyncio
import json
import logging
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from handoffaudit.llm import errors
from handoffaudit.llm.background import BACKGROUND, Background, StoppedError
from handoffaudit.llm.calls import Messages, Reply, Usage
from handoffaudit.validation.prompts.pricing import ROOM_FOR_THINKING
from handoffaudit.validation.prompts.question import Unavailable

if TYPE_CHECKING:
    import anthropic


LONGEST_BODY: Final = 4 * 1024 * 1024


async def read_bounded(response: Any) -> None:
    """Read the body of an SDK response, decompressed. Raises `Unavailable` where it is longer than `LONGEST_BODY`."""
    parts: list[bytes] = []
    size = 0
    async for part in response.aiter_bytes():
        size += len(part)
        if size > LONGEST_BODY:
            raise errors.too_long(LONGEST_BODY)
        parts.append(part)
    # The HTTP client looks for the body in this attribute. Otherwise it would read the stream again and find nothing.
    response._content = b"".join(parts)  # noqa: SLF001


logger = logging.getLogger(__name__)

CONNECT_SECONDS: Final = 5.0

PREPARING_SECONDS: Final = 60.0

PROVIDERS: Final = ("anthropic", "bedrock", "vertex")

_CLIENTS: Final = {
    "anthropic": "AsyncAnthropic",
    "bedrock": "AsyncAnthropicBedrock",
    "vertex": "AsyncAnthropicVertex",
}

# No context is this long. A larger count is a mistake, and must neither use up a budget nor exceed a database column.
_LARGEST_COUNT = 10_000_000

# LLMs of these generations think before they answer and accept an `effort` parameter. Older ones reject it.
_EFFORT: Final = re.compile(r"(?:haiku|sonnet|opus|fable|mythos)-(?:[5-9]|\d\d)(?!\d)")


class ClaudeClient:
    """A thread-safe `calls.Client` for Claude.

    Without `base_url`, the client uses the provider's own address. Bedrock and Vertex find their credentials where
    their own tools do.
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
            raise ValueError(f"no provider {provider!r}: one of {', '.join(PROVIDERS)}")
        self._provider = provider
        self._api_key = api_key
        self._base_url = base_url
        self._connect_seconds = connect_seconds
        self._background = background
        # Each client belongs to its event loop. After a fork there is another loop, and the old client stays unused.
        self._made: list[tuple[asyncio.AbstractEventLoop, Any]] = []

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
        # The cause may hold the request and the key, so the error does not show it.
        try:
            return self._background.run(self._requested(request, seconds), seconds)
        except TimeoutError:
            raise errors.timed_out(seconds) from None
        except StoppedError:
            raise errors.stopped() from None

    async def completed(
        self,
        *,
        model: str,
        system: str,
        messages: Messages,
        schema: Mapping[str, Any],
        max_tokens: int,
        seconds: float,
    ) -> Reply:
        """Return the reply like `complete`, without blocking the event loop of the caller."""
        self._check_key()
        await asyncio.to_thread(load_sdk)
        request = _request(model, system, messages, schema, max_tokens)
        try:
            return await self._background.awaited(self._requested(request, seconds), seconds)
        except TimeoutError:
            raise errors.timed_out(seconds) from None
        except StoppedError:
            raise errors.stopped() from None

    def prepare(self) -> None:
        """Load the SDK and make its client, so that the first call does not take seconds. Raise `Unavailable`."""
        self._check_key()
        load_sdk()
        try:
            self._background.run(self._prepared(), PREPARING_SECONDS)
        except TimeoutError:
            raise errors.timed_out(PREPARING_SECONDS) from None
        except StoppedError:
            raise errors.stopped() from None

    async def _prepared(self) -> None:
        self._on_this_loop()

    def _check_key(self) -> None:
        key = self._api_key
        if self._provider == "anthropic" and not (key.isascii() and key.isprintable() and " " not in key):
            raise errors.not_a_key()

    async def _requested(self, request: dict[str, Any], seconds: float) -> Reply:
        import anthropic  # noqa: PLC0415

        connect_seconds = min(self._connect_seconds, seconds)
        try:
            client = self._on_this_loop()
            # A timeout outside covers the whole call, so a timeout in here concerns the connection.
            timeout = anthropic.Timeout(seconds + 1, connect=connect_seconds)
            return _reply(await client.messages.create(**request, timeout=timeout))
        except anthropic.APITimeoutError:
            raise errors.not_connected_within(connect_seconds) from None
        except anthropic.APIConnectionError as error:
            raise (error.__cause__ if isinstance(error.__cause__, Unavailable) else errors.not_connected()) from None
        except anthropic.APIStatusError as error:
            raise self._of_status(error) from None
        except (anthropic.APIResponseValidationError, json.JSONDecodeError):
            raise errors.not_a_message() from None
        except Unavailable:
            raise
        except Exception as error:  # noqa: BLE001  (whatever else fails in the SDK is an outage, too)
            logger.warning("The model's SDK failed: %s", type(error).__name__)
            raise self._of_sdk(error) from None

    def _on_this_loop(self) -> Any:
        loop = asyncio.get_running_loop()
        if not self._made or self._made[-1][0] is not loop:
            client = self._client()
            self._made.append((loop, client))
            self._background.when_stopping(client.close)
        return self._made[-1][1]

    def _client(self) -> Any:
        import anthropic  # noqa: PLC0415

        # A redirect would send the key to another host.
        arguments: dict[str, Any] = {
            "max_retries": 0,
            "http_client": anthropic.DefaultAsyncHttpxClient(
                follow_redirects=False, event_hooks={"response": [read_bounded]}
            ),
        }
        if self._provider == "anthropic":
            arguments["api_key"] = self._api_key
        if self._base_url:
            arguments["base_url"] = self._base_url
        try:
            return getattr(anthropic, _CLIENTS[self._provider])(**arguments)
        except (ImportError, ValueError, RuntimeError, anthropic.AnthropicError) as error:
            raise self._of_sdk(error) from None

    def _of_sdk(self, error: Exception) -> Unavailable:
        """Return the error for a failure before anything was sent, such as missing credentials of Bedrock or Vertex."""
        if self._provider == "anthropic":
            return errors.unforeseen(error)
        return errors.not_set_up(self._provider, error)

    def _of_status(self, error: "anthropic.APIStatusError") -> Unavailable:
        said = error.api_message if isinstance(error.api_message, str) else None
        if said and self._api_key:
            said = said.replace(self._api_key, "[masked]")
        return errors.of_status(
            error.status_code, retry_after=error.response.headers.get("retry-after"), said=said, now=datetime.now(UTC)
        )


def load_sdk() -> None:
    """Import the SDK, so that its second does not count against the timeout of the first call."""
    import anthropic  # noqa: F401, PLC0415


def _request(model: str, system: str, messages: Messages, schema: Mapping[str, Any], max_tokens: int) -> dict[str, Any]:
    request: dict[str, Any] = {
        "model": model,
        "messages": [{**one, "content": _sendable(one["content"])} for one in messages],
        "max_tokens": max_tokens + ROOM_FOR_THINKING,
    }
    if system:
        request["system"] = _sendable(system)
    if config := _output_config(model, schema):
        request["output_config"] = config
    return request


def _sendable(content: Any) -> Any:
    """Return the content without lone surrogates, which a cut text may contain and which UTF-8 cannot encode."""
    return content.encode("utf-8", "replace").decode() if isinstance(content, str) else content


def _output_config(model: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    config: dict[str, Any] = {}
    # The service does not support schemas of open objects. For these, only the prompt describes the answer.
    if schema.get("additionalProperties") is False:
        config["format"] = {"type": "json_schema", "schema": dict(schema)}
    if _EFFORT.search(model):
        config["effort"] = "low"
    return config


def _reply(message: Any) -> Reply:
    """Return the reply from an SDK message, without trust in its types: the SDK does not check them."""
    content = getattr(message, "content", None)
    if not isinstance(content, list):
        raise errors.not_a_message()
    return Reply(
        text=_text(content),
        model=str(getattr(message, "model", "") or ""),
        usage=_usage(getattr(message, "usage", None)),
        stop_reason=str(getattr(message, "stop_reason", "") or ""),
    )


def _text(content: Iterable[Any]) -> str:
    """Return all text blocks joined, or the JSON inputs of tool calls where there is no text."""
    texts, inputs = [], []
    for block in content:
        if getattr(block, "type", None) == "text":
            texts.append(str(getattr(block, "text", "") or ""))
        elif getattr(block, "type", None) == "tool_use":
            inputs.append(json.dumps(getattr(block, "input", None)))
    text = "".join(texts)
    return text if text.strip() else "".join(inputs)


def _usage(usage: Any) -> Usage:
    return Usage(
        tokens_in=_count(usage, "input_tokens") + _count(usage, "cache_creation_input_tokens"),
        tokens_out=_count(usage, "output_tokens"),
        tokens_cached=_count(usage, "cache_read_input_tokens"),
    )


def _count(usage: Any, name: str) -> int:
    value = getattr(usage, name, None)
    return min(value, _LARGEST_COUNT) if isinstance(value, int) and value > 0 else 0
