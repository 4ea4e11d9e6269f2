"""A request as the server received it, and the errors that the real API would answer it with."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from handoffaudit.validation.prompts.question import Use

# Each of these properties is in the answers of one use alone.
_USE_BY_PROPERTY = {"valid": Use.GROUNDING, "status": Use.OBJECTIVE, "overall_score": Use.CRITIQUE}
# the fields of a request, as the SDK has them; a test holds them to it
FIELDS = frozenset(
    [
        "cache_control",
        "container",
        "diagnostics",
        "inference_geo",
        "max_tokens",
        "messages",
        "metadata",
        "model",
        "output_config",
        "service_tier",
        "speed",
        "stop_sequences",
        "stream",
        "system",
        "thinking",
        "tool_choice",
        "tools",
        "user_profile_id",
        "workspace_id",
    ]
)
_SAMPLING = frozenset({"temperature", "top_p", "top_k"})
_ELSEWHERE_TOO = frozenset({"anthropic_version"})
_NO_SAMPLING = re.compile(r"-5(-\d)?$")
# Other providers name the LLM in the address.
_ELSEWHERE = re.compile(
    r"/model/([^/]+)/invoke|/projects/[^/]+/locations/[^/]+/publishers/anthropic/models/([^/:]+):rawPredict"
)


@dataclass(frozen=True)
class Request:
    """A request; `raw` is the whole request in bytes, and names in `headers` are in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    raw: bytes

    @cached_property
    def json(self) -> dict[str, Any]:
        value = json.loads(self.body)
        return value if isinstance(value, dict) else {}

    @property
    def model(self) -> str:
        elsewhere = _ELSEWHERE.fullmatch(self.path)
        return elsewhere[1] or elsewhere[2] if elsewhere else str(self.json.get("model"))

    @property
    def system(self) -> str:
        return str(self.json.get("system") or "")

    @property
    def content(self) -> str:
        """Return the text of the first message."""
        return str(self.json["messages"][0]["content"])

    @property
    def schema(self) -> dict[str, Any]:
        return ((self.json.get("output_config") or {}).get("format") or {}).get("schema") or {}

    @property
    def use(self) -> Use | None:
        """Return the use of the LLM, by the schema of the answer or by the tags around the question's content."""
        for name, use in _USE_BY_PROPERTY.items():
            if name in self.schema.get("properties", {}):
                return use
        return Use.REPAIR if "<document>" in self.content else None

    def as_json(self) -> dict[str, Any]:
        return {
            "method": self.method,
            "path": self.path,
            "headers": dict(self.headers),
            "body": self.body.decode("utf-8", "replace"),
            "raw": self.raw.decode("latin-1"),
        }


def complaint(request: Request) -> tuple[int, str] | None:
    """Return the status and the message with which the API would reject this request, or None."""
    if request.method != "POST" or not (request.path == "/v1/messages" or _ELSEWHERE.fullmatch(request.path)):
        return 404, f"no {request.method} {request.path}"
    if not (request.headers.get("authorization") or request.headers.get("x-api-key")):
        return 401, "no key was sent"
    try:
        body = request.json
    except ValueError as error:
        return 400, f"the body is not JSON: {error}"
    words = next(_of_body(body, request.model), None) or next(_of_schema(request.schema), None)
    return (400, words) if words else None


def _of_body(body: Mapping[str, Any], model: str) -> Iterator[str]:
    for name in ("messages", "max_tokens"):
        if not body.get(name):
            yield f"{name}: Field required"
    messages = body.get("messages") or [{}]
    if messages[-1].get("role") != "user":
        yield "This model does not support assistant message prefill. The conversation must end with a user message."
    if any(not str(message.get("content") or "").strip() for message in messages):
        yield "messages: text content blocks must be non-empty"
    for name in sorted(body.keys() - FIELDS - _SAMPLING - _ELSEWHERE_TOO):
        yield f"{name}: Extra inputs are not permitted"
    if _NO_SAMPLING.search(model) and body.keys() & _SAMPLING:
        yield "temperature, top_p and top_k are not supported for this model"


def _of_schema(schema: Mapping[str, Any]) -> Iterator[str]:
    if schema.get("type") == "object" and schema.get("additionalProperties") is not False:
        yield "output_config.format.schema: For 'object' type, 'additionalProperties' must be explicitly set to false"
    for one in [*schema.get("properties", {}).values(), *([schema["items"]] if "items" in schema else [])]:
        yield from _of_schema(one)
