"""Client of the HTTP API for the MCP tools: every call is bounded in time and size, and errors are texts for an LLM."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any, Final

import httpx2
from mcp.server.mcpserver.exceptions import ToolError

# The longest wait for a verdict, in seconds. Hosts give up a call after about a minute.
LONGEST_WAIT: Final = 50

MIB: Final = 1024 * 1024

_LONGEST_BODY: Final = 16 * MIB
_LONGEST_ANSWER: Final = 16 * MIB
_LONGEST_ERROR: Final = 2_000

_CONNECT_SECONDS: Final = 5.0
_ANSWER_SECONDS: Final = 20.0

_MOST_CONNECTIONS: Final = 8

_LATER: Final = {408, 425, 429, 502, 503, 504}


class Api:
    """The API of one server, with one key."""

    def __init__(self, url: str, key: str) -> None:
        self.url = url
        self._http = httpx2.AsyncClient(
            headers={"Authorization": f"Bearer {key}", "Accept": "application/json"},
            timeout=httpx2.Timeout(_ANSWER_SECONDS + LONGEST_WAIT, connect=_CONNECT_SECONDS),
            limits=httpx2.Limits(max_connections=_MOST_CONNECTIONS),
        )

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        params: Mapping[str, str] | None = None,
        wait: int = 0,
        idempotency_key: str = "",
        takes: tuple[int, ...] = (200, 202),
    ) -> tuple[int, dict[str, Any]]:
        """Return the status and the JSON object of an answer whose status is one of `takes`.

        `wait` is the number of seconds for which the server may wait for a verdict. Raises `ToolError` for any other
        answer, and for an answer or a body that is too long. Also raises `ToolError` if a body can't be written as
        JSON, or if the server can't be reached or is too slow.
        """
        headers = {"Prefer": f"wait={wait}"} if wait else {}
        if idempotency_key:
            headers["Idempotency-Key"] = idempotency_key
        content = None
        if body is not None:
            content = _to_json(body)
            headers["Content-Type"] = "application/json"
        address = f"{self.url}/api/v1{path}"
        request = self._http.build_request(method, address, params=params, headers=headers, content=content)
        try:
            async with asyncio.timeout(wait + _ANSWER_SECONDS):
                status, retry_after, answer = await self._exchange(request)
        except TimeoutError:
            raise ToolError(f"{self.url} gave no answer in time. Try again with the same arguments.") from None
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
            why = " ".join(str(error).split())[:200] or type(error).__name__
            raise ToolError(
                f"{self.url} can't be reached ({why}). Check HANDOFFAUDIT_URL, and that the server runs."
            ) from None
        if answer is None:
            raise ToolError(f"{self.url} answered {status} without JSON: check HANDOFFAUDIT_URL, the server's address.")
        if status not in takes:
            raise ToolError(_explain(self.url, status, retry_after, answer)[:_LONGEST_ERROR])
        return status, answer

    async def _exchange(self, request: httpx2.Request) -> tuple[int, str, dict[str, Any] | None]:
        response = await self._http.send(request, stream=True)
        try:
            read = bytearray()
            async for chunk in response.aiter_bytes():
                read += chunk
                if len(read) > _LONGEST_ANSWER:
                    raise ToolError(f"The answer of {self.url} is longer than {_LONGEST_ANSWER // MIB} MiB.")
        finally:
            await response.aclose()
        try:
            found = json.loads(read)
        except (ValueError, RecursionError):
            found = None
        is_object = isinstance(found, dict)
        return response.status_code, response.headers.get("Retry-After", ""), found if is_object else None


def _to_json(body: Any) -> bytes:
    try:
        written = json.dumps(body, allow_nan=False).encode()
    except (ValueError, RecursionError) as error:
        raise ToolError(f"The arguments can't be written as JSON: {error}. Send plain JSON values.") from None
    if len(written) > _LONGEST_BODY:
        raise ToolError(
            f"The handoff has {len(written) / MIB:.1f} MiB of JSON: send a summary, and name the files that hold the "
            "rest."
        )
    return written


def _explain(url: str, status: int, retry_after: str, answer: Mapping[str, Any]) -> str:
    """Return the fault of a request and its remedy, as a text for an LLM."""
    said = ": ".join(str(answer[name]).rstrip(".") for name in ("title", "detail") if answer.get(name)) or str(status)
    if status == 401:
        return (
            f"{url} refuses the key ({said}). Create one with `handoffaudit key create NAME --scopes ingest,read`, "
            "and set HANDOFFAUDIT_KEY."
        )
    if status in _LATER:
        return f"{url} is busy ({said}). Try again with the same arguments in {retry_after or 'a few'} seconds."
    if status >= 500:
        return f"{url} failed ({status}: {said}). Try again with the same arguments; if it fails again, tell a person."
    errors = answer.get("errors")
    lines = [_line(one) for one in (errors if isinstance(errors, list) else ())[:10] if isinstance(one, dict)]
    return "\n".join([f"The server refuses the request: {said}.", *filter(None, lines)])


def _line(error: Mapping[str, Any]) -> str:
    """Return the members of an error that are not empty as one line; an empty text if there are none."""
    field = f"{error['field']}:" if error.get("field") else ""
    line = " ".join(str(part) for part in (field, error.get("message"), error.get("remedy")) if part)
    return f"- {line}" if line else ""
