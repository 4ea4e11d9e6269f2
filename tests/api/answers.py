"""A check of the API's answers against the committed OpenAPI document."""

import gzip
import json
import re
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import Any

import jsonschema_rs
from django.core.handlers.base import BaseHandler
from django.http import HttpRequest, HttpResponse

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "openapi.json"
PREFIX = "/api/v1/"
# The documentation itself, and addresses at which there is no operation.
BESIDE = ("/api/v1/", "/api/v1/docs", "/api/v1/openapi.json")
WITH_SLASHES = ("trace_id", "workflow_id")
# Where no operation is: a host that is not ours, no such address, another method. Other tests see to these answers.
NO_OPERATION = (HTTPStatus.BAD_REQUEST, HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED)


class Undocumented(AssertionError):
    """An answer that the OpenAPI document does not describe."""


@cache
def document() -> dict[str, Any]:
    read: dict[str, Any] = json.loads(DOCUMENT.read_text())
    return read


@cache
def paths() -> list[tuple[re.Pattern[str], str]]:
    """Return a pattern for each documented path, with fewer parameters and longer names first."""
    known = sorted(document()["paths"], key=lambda path: (path.count("{"), -len(path)))
    return [(re.compile(_pattern(path)), path) for path in known]


def _pattern(path: str) -> str:
    parts = re.split(r"\{(\w+)\}", path)
    return "".join(
        re.escape(part) if number % 2 == 0 else ".+" if part in WITH_SLASHES else "[^/]+"
        for number, part in enumerate(parts)
    )


@cache
def validator(path: str, method: str, status: str, media: str) -> jsonschema_rs.Validator | None:
    """Return the validator of an answer's body, or None where the answer has no schema. Raise `Undocumented`."""
    answers = document()["paths"][path][method]["responses"]
    name = f"{method.upper()} {path}"
    if status not in answers:
        raise Undocumented(f"{name} answered {status}; documented are {', '.join(answers)}.")
    kinds = answers[status].get("content", {})
    if not kinds and not media:
        return None
    if media not in kinds:
        raise Undocumented(f"{name} answered {status} as {media or 'nothing'}; documented is {', '.join(kinds)}.")
    schema = kinds[media].get("schema")
    if schema is None or not media.endswith("json"):
        return None
    return jsonschema_rs.validator_for({**schema, "components": document()["components"]})


def check(method: str, path: str, status: int, media: str, body: bytes) -> None:
    """Raise `Undocumented` unless the answer's status, content type and body are as documented."""
    if not path.startswith(PREFIX) or path in BESIDE:
        return
    template = next((template for pattern, template in paths() if pattern.fullmatch(path)), None)
    if template is None or method.lower() not in document()["paths"][template]:
        if status not in NO_OPERATION:
            raise Undocumented(f"{method} {path} is not documented, and was answered {status}.")
        return
    checked = validator(template, method.lower(), str(status), media)
    errors = [] if checked is None else list(checked.iter_errors(json.loads(body)))
    if errors:
        told = "\n".join(f"  {'.'.join(map(str, one.instance_path))}: {one.message[:300]}" for one in errors[:5])
        raise Undocumented(f"{method} {template} answered {status} with a body that is not as documented:\n{told}")


def install() -> None:
    """Check each answer that Django gives in this process, whichever client asked for it."""
    original = BaseHandler.get_response

    def get_response(self: BaseHandler, request: HttpRequest) -> HttpResponse:
        response = original(self, request)
        if request.path_info.startswith(PREFIX) and not response.streaming:
            body = response.content
            if response.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            media = response.get("Content-Type", "").partition(";")[0]
            # An empty message is an answer, too.
            media = media if body or media == "application/x-protobuf" else ""
            check(str(request.method), request.path_info, response.status_code, media, body)
        return response

    BaseHandler.get_response = get_response  # type: ignore[method-assign]
