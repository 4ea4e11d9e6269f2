"""ASGI middleware that observes the messages to an A2A server, whatever the server is written with."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from handoffaudit_client.a2a.messages import question_of, source_in
from handoffaudit_client.plugins import client_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from handoffaudit_client.async_client import AsyncClient
    from handoffaudit_client.client import Client

_METHODS = {"SendMessage", "SendStreamingMessage", "message/send", "message/stream"}
_PATHS = ("/message:send", "/message:stream")

# A stream of events may begin with lines without data. Such lines may also be a chunk of their own.
_NO_DATA = (b":", b"id:", b"event:", b"retry:")

# The server of handoffaudit takes documents of at most 1 MiB, and a message is kept in memory until the answer.
_LONGEST_BODY = 1024 * 1024


class HandoffMiddleware:
    """Send a handoff for each message to an agent, and change neither requests nor answers.

    The middleware reads JSON-RPC and REST requests in the formats of A2A 1.x and 0.3, up to a body of 1 MiB. The source
    is the user that an outer authentication middleware put into the scope. The next choices are `from`, `source` or
    `source_agent_id` in the message's metadata, then the argument `source`. To stop handoffs, use `GatedExecutor`: it
    can resume the task of a held handoff, and a middleware cannot.
    """

    def __init__(
        self,
        app: Callable[..., Awaitable[None]],
        target: str,
        client: Client | AsyncClient | None = None,
        *,
        source: str = "client",
        type: str | None = None,  # noqa: A002 (the word of the API)
    ) -> None:
        """Wrap the application of one agent, whose name is `target`. Raises `ValueError` for a wrong address or key."""
        self.app = app
        self.target = target
        self.client = client_of(client)
        self.source = source
        self.type = type

    async def __call__(self, scope: dict[str, Any], receive: Callable[[], Awaitable[Any]], send: Any) -> None:
        """Pass the request on. If the server does not answer with an error, send the request's message as a handoff."""
        if scope["type"] != "http" or scope["method"] != "POST":
            await self.app(scope, receive, send)
            return
        body = bytearray()

        async def read() -> Any:
            event = await receive()
            if event["type"] == "http.request" and len(body) <= _LONGEST_BODY:
                body.extend(event.get("body", b"")[: _LONGEST_BODY + 1])
            return event

        is_open = False

        async def answer(event: Any) -> None:
            nonlocal is_open
            if event["type"] == "http.response.start":
                is_open = event["status"] < 400 and len(body) <= _LONGEST_BODY
            elif is_open and ((data := _data_in(event.get("body", b""))) or not event.get("more_body")):
                is_open = False
                # A message that the server refuses is not a handoff. JSON-RPC refuses with the status 200.
                if not _is_error(data):
                    self._send(scope, bytes(body))
            await send(event)

        await self.app(scope, read, answer)

    def _send(self, scope: dict[str, Any], body: bytes) -> None:
        message = _message_in(scope["path"], body)
        if message is not None:
            user: Any = scope.get("user")
            try:
                name = getattr(user, "display_name", user) if user.is_authenticated else ""
            except Exception:  # noqa: BLE001 (a user object must not break the answer)
                name = ""
            source = name or source_in(message) or self.source
            self.client.send(**question_of(message, source, self.target, "server", self.type))


def _data_in(chunk: bytes) -> bytes:
    """Return the data of the first event in a chunk. Return any other chunk without the lines in `_NO_DATA`."""
    lines = [line for line in chunk.splitlines() if line.strip() and not line.startswith(_NO_DATA)]
    return lines[0][5:] if lines and lines[0].startswith(b"data:") else b"".join(lines)


def _is_error(data: bytes) -> bool:
    """Return whether an answer or its beginning is an error of JSON-RPC."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return False
    return isinstance(found, dict) and found.get("error") is not None


def _message_in(path: str, body: bytes) -> dict[str, Any] | None:
    """Return the message of a request; None if the request sends none."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if isinstance(found, dict) and "method" in found:
        found = found.get("params") if str(found["method"]) in _METHODS else None
    elif not path.endswith(_PATHS):
        return None
    message = found.get("message") if isinstance(found, dict) else None
    return message if isinstance(message, dict) and message.get("messageId") and message.get("role") else None
