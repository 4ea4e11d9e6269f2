"""Scripted answers of the server, made by functions or read from a script."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "invalid_request_error",
    429: "rate_limit_error",
    500: "api_error",
    504: "timeout_error",
    529: "overloaded_error",
}


@dataclass(frozen=True, slots=True)
class Scripted:
    """One scripted answer.

    `blocks` is the content of the message. A `status` other than 200 sends an error. `raw` replaces any body.

    The answer begins after `delay` seconds or as soon as `until` returns true. `drip` is the pause in seconds after
    each byte. `cut` ends the connection `before` any byte, in the `header`, or in the `body`.
    """

    blocks: tuple[Mapping[str, Any], ...] = ()
    stop_reason: str = "end_turn"
    usage: Mapping[str, int] = field(default_factory=dict)
    status: int = 200
    message: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    raw: bytes | None = None
    content_type: str = "application/json"
    delay: float = 0.0
    until: Callable[[], bool] | None = None
    drip: float = 0.0
    cut: str = ""


def says(answer: Any, **more: Any) -> Scripted:
    """Return an answer with this text of the LLM; any other value is written as JSON."""
    text = answer if isinstance(answer, str) else json.dumps(answer)
    return Scripted(blocks=({"type": "text", "text": text},), **more)


def fails(status: int, *, retry_after: object = None, message: str = "", **more: Any) -> Scripted:
    """Return an error in the form of the API."""
    headers = {} if retry_after is None else {"retry-after": str(retry_after)}
    return Scripted(status=status, message=message or f"scripted {status}", headers=headers, **more)


def cuts(where: str, **more: Any) -> Scripted:
    """Return an answer whose connection ends `before` the answer, in its `header` or in its `body`."""
    return replace(says("{}"), cut=where, **more)


def from_json(one: Mapping[str, Any]) -> Scripted:
    """Return the answer that a script describes.

    `answer` holds the text or JSON of the LLM; the other fields have the names of `Scripted`.
    """
    fields = dict(one)
    if "answer" in fields:
        return says(fields.pop("answer"), **fields)
    if "retry_after" in fields:
        fields["headers"] = {**fields.get("headers", {}), "retry-after": str(fields.pop("retry_after"))}
    if "raw" in fields:
        fields["raw"] = fields["raw"].encode()
    if "blocks" in fields:
        fields["blocks"] = tuple(fields["blocks"])
    return Scripted(**fields)


def error_body(scripted: Scripted) -> dict[str, Any]:
    kind = ERROR_TYPES.get(scripted.status, "api_error")
    return {
        "type": "error",
        "error": {"type": kind, "message": scripted.message or f"scripted {scripted.status}"},
        "request_id": "req_scripted",
    }


def message_body(scripted: Scripted, model: str, sent_size: int) -> dict[str, Any]:
    size = sum(len(json.dumps(block)) for block in scripted.blocks)
    usage = {"input_tokens": sent_size // 4, "output_tokens": size // 4 + 1, **scripted.usage}
    return {
        "id": "msg_scripted",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": list(scripted.blocks),
        "stop_reason": scripted.stop_reason,
        "stop_sequence": None,
        "usage": {"cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, **usage},
    }
