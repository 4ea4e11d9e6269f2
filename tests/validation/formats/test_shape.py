"""Tests of the published schemas and of their errors in bounded time."""

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import jsonschema
import jsonschema_rs
import pytest

from handoffaudit.validation.formats import SCHEMA_NAMES, read, schema
from handoffaudit.validation.formats.schema_check import Shape
from handoffaudit.validation.paths import dotted_path
from handoffaudit.validation.record import Envelope
from tests.elapsed import grows_linearly
from tests.scale import size

from ..support import codes, judge, payload, universal
from .documents import example


@pytest.mark.parametrize("name", SCHEMA_NAMES)
def test_schemas_are_draft_2020_12(name: str) -> None:
    assert schema(name)["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    jsonschema_rs.meta.validate(schema(name))


@pytest.mark.parametrize("name", SCHEMA_NAMES)
def test_every_example_in_a_schema_keeps_to_it(name: str) -> None:
    def walk(rule: Any) -> None:
        if isinstance(rule, dict):
            for example in [*rule.get("examples", []), *([rule["default"]] if "default" in rule else [])]:
                jsonschema_rs.validate(rule, example)
            for part in rule.values():
                walk(part)

    walk(schema(name))


def test_a_schema_is_the_callers_own() -> None:
    schema("payload")["properties"].clear()
    assert schema("payload")["properties"]
    with pytest.raises(KeyError):
        schema("../record")


@pytest.mark.parametrize("name", SCHEMA_NAMES)
def test_an_independent_validator_agrees(name: str) -> None:
    document = example(name.removesuffix("-3.0"))
    jsonschema.Draft202012Validator(schema(name)).validate(document)
    assert Shape(name, {}).check(document) == []


@pytest.mark.parametrize(
    ("section", "change"),
    [
        ("source", {"phase": None}),
        ("context", {"summary": "x" * 500}),
        ("payload", {"session": {"artifacts": [{"name": "n", "path": "p", "type": "data", "more": 1}]}}),
        ("tracing", {"parent_span_id": None, "events": [], "tags": {}}),
        ("meta", {"token_count": 1.0}),
        ("meta", {"handoff_chain": []}),
        ("expires_at", None),
        ("version", 3),
    ],
)
def test_it_finds_what_an_independent_validator_finds(section: str, change: Any) -> None:
    document = universal(**{section: change})
    expected = {
        "/".join(map(str, e.path))
        for e in jsonschema.Draft202012Validator(schema("universal-3.0")).iter_errors(document)
    }
    found = {issue.json_pointer[1:] for issue in Shape("universal-3.0", {}).check(document)}
    assert found == expected


def test_all_errors_are_found_in_one_go() -> None:
    verdict = judge(payload(confidence=2, data=[], call_chain=[], source_agent_id=""))
    assert sorted(codes(verdict)) == [
        "structure.empty",
        "structure.empty",
        "structure.out_of_range",
        "structure.wrong_type",
    ]


def test_of_what_is_empty_it_is_said_in_words_what_is_expected() -> None:
    issues = judge(payload(call_chain=[], source_agent_id="")).issues
    expected = {issue.field_path: issue.expected for issue in issues if issue.code == "structure.empty"}
    assert expected == {"call_chain": "at least one entry", "source_agent_id": "at least one character"}


def keys(count: int) -> dict[str, Any]:
    return {f"k{number}": number for number in range(count)}


def test_deeper_objects_of_universal_are_open() -> None:
    assert codes(judge(universal(source={"more": 1}, context={"more": 1}, meta={"more": 1}))) == []


@pytest.mark.parametrize(
    "document",
    [
        lambda n: payload(call_chain=[1] * n),
        lambda n: payload(call_chain=["x" * 201] * (n // 100)),
        lambda n: payload(call_chain=["a"] * (n // 5)),
        lambda n: {**payload(), **keys(n // 10), "confidence": 2},
        lambda n: {"handoff": keys(n // 10)},
        lambda n: universal(tracing={"tags": keys(n // 5)}),
        lambda n: universal(payload={"references": {"files": [{"path": 1}] * (n // 10)}}),
        lambda n: payload(**{"k" * n: 1, "target_agent_id": "y" * n}),
        lambda n: payload(timestamp="2" * 2 * n),
        lambda n: payload(data={"text": "a" * 2 * n}),
        lambda n: payload(data="It has 12 parts. " * (n // 8)),
        lambda n: {"parsed_output": {"evidence_refs": keys(n // 5)}, "envelope": {"agent_id": "a"}},
        lambda n: {"parsed_output": {}, "envelope": {"agent_id": "a", "retrieved_evidence": [{}] * (n // 5 * 2)}},
        lambda n: {
            "tool": {"name": "Task", "parameters": {"prompt": "p" * 2 * n}, "result": [[]] * (n // 5 * 3)},
            "sessionId": 1,
        },
        lambda n: {
            "status": 1,
            "artifacts": [{"path": "/tmp/" + "x" * 100}] * (n // 50),  # noqa: S108
            "next": {"a": "b" * 2 * n},
        },
        lambda n: {
            "status": "s",
            "artifacts": [{"path": "/tmp/x"}] * (n // 10),  # noqa: S108
            "next": None,
            "summary": "s" * n,
        },
    ],
    ids=[
        "types",
        "long ids",
        "chain",
        "keys",
        "unknown",
        "tags",
        "files",
        "long key",
        "time",
        "text",
        "data",
        "refs",
        "evidence",
        "prompt",
        "next",
        "artifacts",
    ],
)
def test_hostile_documents_take_time_in_proportion(document: Callable[[int], dict[str, Any]]) -> None:
    assert grows_linearly(lambda count: partial(judge, document(count)), size(31_250))
    verdict = judge(document(size(500_000)))
    assert len(verdict.issues) <= 110
    assert len(json.dumps([issue.to_dict() for issue in verdict.issues])) < 200_000


def test_the_last_of_many_issues_says_that_there_are_more() -> None:
    issues = judge(payload(call_chain=[1] * 500)).issues
    assert len(issues) == 100
    assert "only the first 100" in issues[-1].message
    assert issues[-1].metadata["more"] is True


def test_a_single_error_far_down_a_long_list_is_found() -> None:
    document = payload(call_chain=["researcher"] * 1000 + [7])
    (issue,) = judge(document).issues
    assert (issue.code, issue.field_path) == ("structure.wrong_type", "call_chain[1000]")


def test_documents_of_other_parsers_do_not_crash_it() -> None:
    deep: dict[str, Any] = {}
    for _ in range(5000):
        deep = {"d": deep}
    assert codes(judge(payload(data={"text": "\ud800", "n": 2**80}))) == []
    assert [issue.code for issue in read(payload(data=deep), None, Envelope()).issues] == ["structure.json_parse"]
    assert "structure.bad_format" in codes(judge(payload(handoff_type="\ud800")))


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        (5, 'Give an RFC 3339 date and time, for example "2026-02-01T08:00:00Z".'),
        (1_770_000_000, 'Write it as an RFC 3339 date and time: "2026-02-02T02:40:00Z".'),
        (None, 'Give an RFC 3339 date and time, for example "2026-02-01T08:00:00Z".'),
    ],
)
def test_a_time_of_the_wrong_type_is_asked_for_in_its_form(value: object, hint: str) -> None:
    (issue,) = judge(payload(timestamp=value)).issues
    assert (issue.code, issue.expected, issue.hint) == ("structure.wrong_type", "string", hint)


def test_the_form_of_a_time_is_said_in_words() -> None:
    (issue,) = judge(payload(timestamp="yesterday")).issues
    assert (issue.code, issue.expected) == ("structure.bad_format", "an RFC 3339 date and time")


@pytest.mark.parametrize("details", ["text", 3, True, None, ["a"]])
def test_the_details_of_an_event_are_an_object(details: Any) -> None:
    event = {"timestamp": "2026-02-01T08:00:00Z", "event_type": "created", "workflow": "w", "details": details}
    verdict = judge(universal(tracing={"events": [{**event, "details": {"tool": "search"}}, event]}))
    (issue,) = verdict.issues
    assert (issue.code, dotted_path(issue.location)) == ("structure.wrong_type", "handoff.tracing.events[1].details")
    assert verdict.outcome == "rejected"


@pytest.mark.parametrize(
    "blank",
    [
        "\u200b",
        "\u2060",
        "\u00ad",
        "\u3164",
        "\u2800",
        "\ufeff",
        "\u202e",
        "\u00a0",
        "\ufe0f",
        "\x07",
        " \u200b\u3164 ",
    ],
)
def test_a_type_of_invisible_characters_is_empty(blank: str) -> None:
    assert "structure.empty" in codes(judge(payload(handoff_type=blank)))
    document = example("output")
    document["parsed_output"]["_output_type"] = blank
    assert "structure.empty" in codes(judge(document))
    assert "structure.empty" not in codes(judge(payload(handoff_type=f"{blank}\u00e9")))
