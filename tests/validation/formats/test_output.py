"""Tests of an LLM's output with its envelope as a record."""

from typing import Any

import pytest

from handoffaudit.validation.formats import read
from handoffaudit.validation.record import Envelope

from ..support import codes, record_of
from .documents import checked, example


def output(parsed: dict[str, Any] | None = None, **envelope: Any) -> dict[str, Any]:
    document = example("output")
    document["parsed_output"] |= parsed or {}
    document["envelope"] |= envelope
    return document


def test_the_record() -> None:
    record = record_of(output())
    assert record.format == "output"
    assert (record.source_agent_id, record.target_agent_id, record.handoff_type) == ("analyst", "trader", "Signal")
    assert (record.tenant_id, record.trace_id) == ("default", "d53a8f7e-049d-4f0d-910f-824ba3bf6e11")
    assert (record.handoff_id, record.call_chain, record.confidence) == (None, (), 0.8)
    assert record.data == output()["parsed_output"]
    assert record.context == {"question": "Does revenue grow?"}
    assert [item["source"] for item in record.evidence] == ["report-2025"]
    assert record.expected_schema == {"type": "object", "required": ["rationale"]}


def test_only_the_output_and_the_agent_are_required() -> None:
    document = {"parsed_output": {"text": "t"}, "envelope": {"agent_id": "a"}}
    verdict = checked(document)
    assert (codes(verdict), verdict.outcome) == ([], "accepted")
    record = record_of(document)
    assert (record.handoff_type, record.target_agent_id, record.tenant_id, record.expected_schema) == ("",) * 2 + (
        None,
        None,
    )


@pytest.mark.parametrize("schema", [{}, True, None])
def test_a_schema_that_demands_nothing_is_none(schema: Any) -> None:
    document = output(expected_output_schema=schema)
    assert codes(checked(document)) == []
    assert record_of(document).expected_schema is None


def test_the_schema_false_refuses_every_output() -> None:
    document = output(expected_output_schema=False)
    assert record_of(document).expected_schema is False
    assert codes(checked(document)) == ["schema.false"]


def test_the_submission_adds_to_the_document() -> None:
    record = record_of(
        output(),
        trace_id="t",
        handoff_id="h",
        context={"question": "other", "more": 1},
        evidence=[{"source": "beside"}],
    )
    assert (record.trace_id, record.handoff_id) == ("d53a8f7e-049d-4f0d-910f-824ba3bf6e11", "h")
    assert record.context == {"question": "Does revenue grow?", "more": 1}
    assert [item["source"] for item in record.evidence] == ["report-2025", "beside"]


@pytest.mark.parametrize(
    ("given", "read_as"),
    [(0.2, 0.2), ("low", 0.3), ("high", 0.9), (85, None), ("sure", None), (True, None), ([], None)],
)
def test_confidence_is_the_rules_matter_where_it_cannot_be_read(given: Any, read_as: float | None) -> None:
    document = output({"confidence": given})
    assert record_of(document).confidence == read_as
    assert codes(checked(document)) == (["confidence.low"] if read_as in (0.2, 0.3) else [])


@pytest.mark.parametrize(
    ("document", "code", "path"),
    [
        (output({"evidence_refs": ["report-2025"]}), "structure.wrong_type", "parsed_output.evidence_refs"),
        (output({"evidence_refs": {"a": 1}}), "structure.wrong_type", "parsed_output.evidence_refs.a"),
        (output({"assumptions": "thesis"}), "structure.wrong_type", "parsed_output.assumptions"),
        (output({"_output_type": 1}), "structure.wrong_type", "parsed_output._output_type"),
        (output({"_output_type": ""}), "structure.empty", "parsed_output._output_type"),
        (output({"_output_type": " \t\u00a0"}), "structure.empty", "parsed_output._output_type"),
        (output(agent_id=""), "structure.empty", "envelope.agent_id"),
        (output(agent_id="a" * 201), "structure.too_long", "envelope.agent_id"),
        (output(tenant_id="a\0"), "structure.bad_format", "envelope.tenant_id"),
        (output(retrieved_evidence=[{}]), "structure.missing_field", "envelope.retrieved_evidence[0].source"),
        (output(expected_output_schema="{}"), "structure.wrong_type", "envelope.expected_output_schema"),
        ({"parsed_output": {}}, "structure.missing_field", "envelope"),
        ({"envelope": {"agent_id": "a"}}, "structure.missing_field", "parsed_output"),
    ],
)
def test_what_is_wrong_has_its_place(document: dict[str, Any], code: str, path: str) -> None:
    assert [(issue.code, issue.field_path) for issue in checked(document).issues] == [(code, path)]


def test_python_times_are_read() -> None:
    evidence = [{"source": "s", "retrieved_at": "2026-02-01T08:00:00.123456"}, {"source": "t", "retrieved_at": None}]
    assert codes(checked(output(retrieved_evidence=evidence))) == []


def test_a_payload_with_such_fields_stays_a_payload() -> None:
    document = {"source_agent_id": "a", "parsed_output": {}, "envelope": {"agent_id": "b"}}
    assert read(document, None, Envelope()).format == "payload"
