"""The API reference, read from the OpenAPI description."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from django.conf import settings
from django.http import Http404

PROBLEM: Final = "ProblemOut"

_EXAMPLE_TENANT: Final = '"tenant_id": "default"'

_METHODS: Final = ("get", "put", "post", "delete", "patch")


@dataclass(frozen=True, slots=True)
class Field:
    """A parameter, or a field of a body or a response; `place` is empty for a field."""

    name: str
    kind: str
    about: str
    required: bool = False
    place: str = ""
    default: str = ""


@dataclass(frozen=True, slots=True)
class Example:
    summary: str
    text: str


@dataclass(frozen=True, slots=True)
class Answer:
    """A response of an operation; `problem` is true for a problem document."""

    status: str
    about: str
    fields: Sequence[Field]
    problem: bool


@dataclass(frozen=True, slots=True)
class Operation:
    name: str
    method: str
    path: str
    tag: str
    summary: str
    about: str
    parameters: Sequence[Field]
    body: Sequence[Field]
    content_type: str
    examples: Sequence[Example]
    answers: Sequence[Answer]
    keyed: bool

    def curl(self, server: str, tenant_slug: str) -> str:
        """Return a curl command that lacks only the key and the values in capitals; its example names the tenant."""
        path = self.path
        for field in self.parameters:
            if field.place == "path":
                path = path.replace("{" + field.name + "}", field.name.upper())
        needed = [field.name for field in self.parameters if field.place == "query" and field.required]
        query = "&".join(f"{name}={name.upper()}" for name in needed)
        address = f"'{server}{path}?{query}'" if query else f"'{server}{path}'"
        parts = [f"curl {address}" if self.method == "GET" else f"curl -X {self.method} {address}"]
        if self.keyed:
            parts.append("-H 'Authorization: Bearer YOUR_KEY'")
        if self.examples:
            body = self.examples[0].text.replace(_EXAMPLE_TENANT, f'"tenant_id": "{tenant_slug}"')
            parts += [f"-H 'Content-Type: {self.content_type}'", f"-d '{_quoted(body)}'"]
        return " \\\n  ".join(parts)


@cache
def operations() -> Sequence[Operation]:
    """Return the operations by tag and then by path, with the tag Handoffs first."""
    described = _described()
    found = [
        _operation(described, path, method, one)
        for path, methods in described["paths"].items()
        for method, one in methods.items()
        if method in _METHODS
    ]
    tags = list(dict.fromkeys(one.tag for one in sorted(found, key=lambda one: one.tag != "Handoffs")))
    return sorted(found, key=lambda one: tags.index(one.tag))


def by_tag() -> dict[str, list[Operation]]:
    tags: dict[str, list[Operation]] = {}
    for one in operations():
        tags.setdefault(one.tag, []).append(one)
    return tags


def operation(name: str) -> Operation:
    found = next((one for one in operations() if one.name == name), None)
    if found is None:
        raise Http404("The API has no such call.")
    return found


@cache
def _described() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((Path(settings.WEB) / "docs" / "openapi.json").read_text(encoding="utf-8"))
    return found


def _operation(described: Mapping[str, Any], path: str, method: str, one: Mapping[str, Any]) -> Operation:
    content = one.get("requestBody", {}).get("content", {})
    content_type = next(iter(content), "")
    body = content.get(content_type, {})
    return Operation(
        name=_short(one["operationId"]),
        method=method.upper(),
        path=path,
        tag=(one.get("tags") or ["Other"])[0],
        summary=one.get("summary", ""),
        about=one.get("description", ""),
        parameters=[_parameter(given) for given in one.get("parameters", ())],
        body=list(_fields(described, body.get("schema", {}))),
        content_type=content_type,
        examples=list(_examples(body)),
        answers=[_answer(described, status, given) for status, given in one["responses"].items()],
        keyed=bool(one.get("security")),
    )


def _short(operation_id: str) -> str:
    """Shorten the id of an operation: ninja names a view that exists in two modules by its full path."""
    return operation_id.rpartition("_alerts_")[2] or operation_id


def _parameter(given: Mapping[str, Any]) -> Field:
    schema = given.get("schema", {})
    default = schema.get("default")
    return Field(
        name=given["name"],
        kind=_kind(schema),
        about=given.get("description", ""),
        required=given.get("required", False),
        place=given["in"],
        default="" if default in (None, "") else str(default),
    )


def _examples(body: Mapping[str, Any]) -> Iterator[Example]:
    given = [("", {"value": body["example"]})] if "example" in body else list(body.get("examples", {}).items())
    for name, one in given:
        value = one.get("value")
        text = value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)
        yield Example(one.get("summary") or name or "An example", text)


def _answer(described: Mapping[str, Any], status: str, given: Mapping[str, Any]) -> Answer:
    content = given.get("content", {})
    first: Mapping[str, Any] = next(iter(content.values()), {})
    schema = first.get("schema", {})
    problem = schema.get("$ref", "").endswith(f"/{PROBLEM}")
    about = given.get("description", "") + (
        "" if not content or "application/json" in content else f", {next(iter(content))}"
    )
    return Answer(status, about, [] if problem else list(_fields(described, schema)), problem)


def _fields(described: Mapping[str, Any], schema: Mapping[str, Any]) -> Iterator[Field]:
    """Yield the fields of an object, or of each of its variants; nested objects appear only with their kind."""
    schema = _resolved(described, schema)
    for variant in schema.get("oneOf") or schema.get("anyOf") or ():
        yield from _fields(described, variant)
    required = schema.get("required", ())
    for name, one in schema.get("properties", {}).items():
        about = one.get("description") or _resolved(described, one).get("description", "")
        yield Field(name, _kind(one), about, name in required)


def _resolved(described: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    reference = schema.get("$ref", "")
    if not reference:
        return schema
    found: Any = described
    for part in reference.removeprefix("#/").split("/"):
        found = found[part]
    return dict(found)


def _kind(schema: Mapping[str, Any]) -> str:
    if "$ref" in schema:
        return "object"
    if "enum" in schema:
        return "one of " + ", ".join(str(value) for value in schema["enum"])
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_kind(one) for one in schema["anyOf"]))
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items', {}))}"
    return str(schema.get("type", "any"))


def _quoted(text: str) -> str:
    """Escape a text for use inside single quotes of a shell."""
    return text.replace("'", "'\\''")
