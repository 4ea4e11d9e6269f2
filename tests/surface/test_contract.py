"""Snapshots of the names in the API: operations, parameters, bodies, answers, problem types, rule codes."""

import json
from pathlib import Path
from typing import Any

from tests.surface.doors import CATALOGUE, FAMILIES, PROBLEM_TYPES, type_of
from tests.surface.snapshots import check

OPENAPI = Path(__file__).resolve().parents[2] / "docs" / "openapi.json"
BOUNDS = ("format", "pattern", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "default")


def kind(schema: Any) -> Any:
    """Return a schema in short: a text, or its properties."""
    if not schema or isinstance(schema, bool):
        return "anything"
    if "$ref" in schema:
        return schema["$ref"].rpartition("/")[2]
    for name in ("anyOf", "oneOf", "allOf"):
        if name in schema:
            parts = [kind(one) for one in schema[name]]
            return " | ".join(parts) if all(isinstance(one, str) for one in parts) else {name: parts}
    if "properties" in schema:
        required = schema.get("required", [])
        told = {f"{name}{'' if name in required else '?'}": kind(one) for name, one in schema["properties"].items()}
        return told | ({} if schema.get("additionalProperties", True) else {"nothing else": "true"})
    return scalar(schema)


def scalar(schema: dict[str, Any]) -> Any:
    if "items" in schema or isinstance(schema.get("additionalProperties"), dict):
        name, under = ("list of", "items") if "items" in schema else ("object of", "additionalProperties")
        inner = kind(schema[under])
        return f"{name} {inner}" if isinstance(inner, str) else {name: inner}
    parts = [str(schema.get("type", "anything"))]
    parts += [f"one of {json.dumps(schema['enum'])}"] if "enum" in schema else []
    parts += [f"always {json.dumps(schema['const'])}"] if "const" in schema else []
    return " ".join(parts + [f"{name} {json.dumps(schema[name])}" for name in BOUNDS if name in schema])


def content(one: dict[str, Any]) -> dict[str, Any]:
    return {media: kind(told.get("schema")) for media, told in one.get("content", {}).items()}


def operation(one: dict[str, Any]) -> dict[str, Any]:
    parameters = {
        f"{given['in']} {given['name']}{'' if given.get('required') else '?'}": kind(given["schema"])
        for given in one.get("parameters", [])
    }
    answers = {status: content(told) for status, told in one["responses"].items()}
    told: dict[str, Any] = {
        "name": one["operationId"],
        "parameters": parameters,
        "answers": answers,
        "key": bool(one.get("security")),
    }
    if "requestBody" in one:
        told["body"] = content(one["requestBody"])
    return told


def document() -> dict[str, Any]:
    """Return the committed document; another test holds it against the one that is served."""
    read: dict[str, Any] = json.loads(OPENAPI.read_text())
    return read


def operations() -> dict[str, dict[str, Any]]:
    return {
        f"{method.upper()} {path}": one
        for path, methods in document()["paths"].items()
        for method, one in methods.items()
    }


def test_openapi() -> None:
    shapes = document()["components"]["schemas"]
    check(
        "openapi",
        {
            "operations": {name: operation(one) for name, one in operations().items()},
            "schemas": {name: kind(one) for name, one in shapes.items()},
        },
    )


def test_query_parameters_of_the_api() -> None:
    check(
        "query-parameters",
        {
            name: sorted(given["name"] for given in one["parameters"] if given["in"] == "query")
            for name, one in operations().items()
            if any(given["in"] == "query" for given in one.get("parameters", []))
        },
    )


def test_problem_types() -> None:
    check(
        "problem-types",
        {type_of(one.title): {"title": one.title, "status": one.status} for one in PROBLEM_TYPES.values()},
    )


def test_finding_codes() -> None:
    check(
        "finding-codes",
        {
            code: {
                "layer": one.layer,
                "severity": one.severity.value,
                "holds": one.holds,
                "approvable": one.approvable,
            }
            for code, one in {**CATALOGUE, **{f"{name}.*": one for name, one in FAMILIES.items()}}.items()
        },
    )
