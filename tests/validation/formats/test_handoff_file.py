"""Tests of handoff files and their reports as records."""

from typing import Any

import orjson
import pytest

from ..support import codes, record_of
from .documents import checked, example, report

FILE = example("handoff-file")
BLOCK = "---HANDOFF---\nSTATUS: blocked\nARTIFACTS: none\nNEXT: null\nSUMMARY: No plan."


def test_the_record_of_a_file() -> None:
    record = record_of(FILE, agent="planner", trace_id="run-17")
    assert record.format == "handoff-file"
    assert (record.source_agent_id, record.target_agent_id) == ("planner", "plan_review")
    assert (record.handoff_type, record.trace_id, record.call_chain) == ("phase_result", "run-17", ())
    assert record.data == FILE
    assert record.original_document is None
    assert codes(checked(FILE)) == []


def test_a_file_that_names_its_agent_and_run_is_believed() -> None:
    record = record_of({**FILE, "agent": "own", "run_id": "own-run"}, agent="planner", trace_id="run-17")
    assert (record.source_agent_id, record.trace_id) == ("own", "own-run")


@pytest.mark.parametrize(
    ("following", "target"),
    [(None, "end"), ("review", "review"), ({"agent": "b"}, '{"agent":"b"}'), (["a"], '["a"]'), (3, "3")],
)
def test_next_may_be_anything(following: Any, target: str) -> None:
    document = {**FILE, "next": following}
    assert record_of(document).target_agent_id == target
    assert codes(checked(document)) == []


@pytest.mark.parametrize("field", FILE)
def test_each_field_must_be_there(field: str) -> None:
    document = {name: value for name, value in FILE.items() if name != field}
    (issue,) = checked(document).issues
    assert (issue.code, issue.field_path) == ("structure.missing_field", field)


def test_artifacts_that_are_files_are_referred_to() -> None:
    document = {**FILE, "artifacts": ["a.md", {"path": "/tmp/b.md"}, "https://example.org/c", 4, {"name": "d"}]}  # noqa: S108
    verdict = checked(document, files=type("None", (), {"exists": lambda self, path: path == "a.md"})())
    assert [(issue.code, issue.field_path) for issue in verdict.issues] == [
        ("references.ephemeral", "artifacts[1].path"),
        ("references.missing_file", "artifacts[1].path"),
    ]


@pytest.mark.parametrize("content", [FILE, orjson.dumps(FILE).decode()], ids=["object", "text"])
def test_the_record_of_a_report_is_that_of_the_file(content: Any) -> None:
    document = report(content)
    record = record_of(document)
    assert (record.source_agent_id, record.target_agent_id, record.trace_id) == ("planner", "plan_review", "run-17")
    assert (record.document, record.data, record.original_document) == (FILE, FILE, document)
    assert codes(checked(document)) == []


def test_a_missing_file_is_rejected_and_the_nearest_is_named() -> None:
    paths = ["other/handoff.json", "run-17/plannr/handoff.json"]
    (issue,) = checked(report(None, elsewhere=paths)).issues
    assert (issue.code, issue.field_path) == ("files.handoff_file_missing", "file.exists")
    assert issue.metadata["reason"] == "file_missing"
    assert issue.metadata["wrong_path"] == "run-17/plannr/handoff.json"
    assert "plannr" in issue.hint


def test_a_file_that_breaks_the_contract_is_placed_in_the_report() -> None:
    (issue,) = checked(report({**FILE, "status": 1})).issues
    assert (issue.code, issue.field_path) == ("structure.wrong_type", "file.content.status")
    assert issue.metadata["reason"] == "schema_invalid"


@pytest.mark.parametrize("content", ["{", None, "[]", {"status": "s"}], ids=["text", "missing", "list", "fields"])
def test_the_responses_block_counts_where_the_file_does_not(content: Any) -> None:
    document = report(content, response_text=f"Done.\n{BLOCK}")
    record, verdict = record_of(document), checked(document)
    assert (record.target_agent_id, record.data["status"]) == ("end", "blocked")
    assert (verdict.outcome, codes(verdict)) == ("accepted", ["files.text_fallback"])


def test_without_a_block_the_files_faults_stand() -> None:
    verdict = checked(report("{", response_text="Done."))
    assert (verdict.outcome, codes(verdict)) == ("rejected", ["structure.json_parse"])


@pytest.mark.parametrize(
    ("change", "code", "path"),
    [
        ({"run_id": 3}, "structure.wrong_type", "run_id"),
        ({"agent": "a" * 201}, "structure.too_long", "agent"),
        ({"iteration": "first"}, "structure.wrong_type", "iteration"),
    ],
)
def test_a_reports_own_faults(change: dict[str, Any], code: str, path: str) -> None:
    (issue,) = checked(report(FILE, **change)).issues
    assert (issue.code, issue.field_path) == (code, path)
