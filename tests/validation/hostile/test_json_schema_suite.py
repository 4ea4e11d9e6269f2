"""Tests of JSON Schema draft 2020-12 by its official test suite, through the functions that users call."""

import gzip
from functools import cache
from pathlib import Path
from typing import Any

import orjson
import pytest

from handoffaudit.validation import LLMEnvelope, SchemaValidator
from handoffaudit.validation.data_schema import DataSchema

SUITE = Path(__file__).parents[1] / "data" / "json-schema-2020-12" / "cases.jsonl.gz"


@cache
def cases() -> list[dict[str, Any]]:
    with gzip.open(SUITE) as lines:
        return [orjson.loads(line) for line in lines]


def demanded() -> list[dict[str, Any]]:
    return [case for case in cases() if not case["optional"] and not case["needs_remote"]]


def envelope(schema: Any) -> LLMEnvelope:
    names = ("envelope_id", "trace_id", "agent_id", "agent_type", "tenant_id")
    return LLMEnvelope(instructions="", expected_output_schema=schema, **dict.fromkeys(names, "a"))


def test_the_suite_is_whole() -> None:
    assert (len(cases()), len(demanded())) == (1171, 682)
    assert {case["valid"] for case in demanded()} == {True, False}


def test_the_library_agrees_with_every_demanded_case() -> None:
    validator = SchemaValidator()
    differing = [
        case["id"]
        for case in demanded()
        if (validator.validate(case["data"], envelope(case["schema"])) == []) is not case["valid"]
    ]
    assert differing == []


def test_a_schema_of_a_type_agrees_with_every_demanded_case() -> None:
    differing = [
        case["id"]
        for case in demanded()
        if (DataSchema.of(case["schema"]).check(case["data"]) == []) is not case["valid"]
    ]
    assert differing == []


def test_every_issue_names_its_keyword_and_its_place() -> None:
    for case in demanded():
        for issue in DataSchema(case["schema"]).check(case["data"]):
            assert issue.code.startswith("schema.")
            assert issue.message
            assert issue.metadata["schema_path"].startswith("/") or case["schema"] is False


@pytest.mark.parametrize("kind", ["optional", "needs_remote"])
def test_what_is_not_demanded_is_judged_without_a_crash(kind: str) -> None:
    for case in cases():
        if case[kind]:
            assert isinstance(DataSchema(case["schema"]).check(case["data"]), list)
