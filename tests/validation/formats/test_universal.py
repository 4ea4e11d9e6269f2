"""Tests of version 2.0, which is lifted at the sender's request without loss."""

import copy
from typing import Any
from uuid import UUID

import pytest

from handoffaudit.validation.formats.universal import lift

from ..support import codes, record_of, universal
from .documents import checked, example

ADAPT: dict[str, Any] = {"envelope": {"adapt": True}}


def old(**changes: Any) -> dict[str, Any]:
    document = example("universal-2.0")
    document["handoff"] |= changes
    return document


def test_it_is_rejected_unless_asked_for() -> None:
    (issue,) = checked(old()).issues
    assert issue.code == "structure.version_mismatch"
    assert "adapt=true" in issue.message
    assert "adapt=true" in issue.hint
    assert record_of(old()).original_document is None


def test_it_is_judged_as_what_it_was_lifted_to() -> None:
    record = record_of(old(), adapt=True)
    assert record.original_document == old()
    handoff = record.document["handoff"]
    assert (handoff["version"], handoff["schema_type"]) == ("3.0", "universal")
    assert handoff["context"]["summary"] == "Compare the suppliers' prices."
    assert handoff["source"]["phase"] == "unknown"
    assert (record.source_agent_id, record.target_agent_id, record.handoff_type) == ("researcher", "writer", "research")
    assert record.data == {"working": {"findings": {"answered": 3, "asked": 5}}}
    verdict = checked(old(), **ADAPT)
    assert (verdict.outcome, codes(verdict)) == ("accepted", ["structure.generated_trace_id"])


def test_lifting_twice_gives_the_same() -> None:
    first, second = record_of(old(), adapt=True), record_of(old(), adapt=True)
    assert first == second
    made = first.document["handoff"]["trace_id"]
    assert UUID(made).version == 4
    assert first.trace_id == made
    assert record_of(old(), adapt=True, trace_id=made) == first


def test_the_submissions_trace_id_is_taken_where_it_fits() -> None:
    given = "d53a8f7e-049d-4f0d-910f-824ba3bf6e11"
    assert record_of(old(), adapt=True, trace_id=given).document["handoff"]["trace_id"] == given
    odd = record_of(old(), adapt=True, trace_id="run-17")
    assert (odd.trace_id, UUID(odd.document["handoff"]["trace_id"]).version) == ("run-17", 4)


def test_its_own_trace_id_stays() -> None:
    given = "d53a8f7e-049d-4f0d-910f-824ba3bf6e11"
    assert codes(checked(old(trace_id=given), **ADAPT)) == []


def test_a_document_of_version_3_is_left_alone() -> None:
    assert record_of(universal(), adapt=True) == record_of(universal())


@pytest.mark.parametrize("version", ["1.0", "2.1", "4.0", ""])
def test_no_other_version_is_lifted(version: str) -> None:
    assert codes(checked(old(version=version), **ADAPT)) == ["structure.version_mismatch"]


@pytest.mark.parametrize(
    ("changes", "code", "path"),
    [
        ({"source": {"skill": "a"}}, "structure.missing_field", "handoff.source.session_path"),
        ({"timestamp": "yesterday"}, "structure.bad_format", "handoff.timestamp"),
        ({"target": None}, "structure.wrong_type", "handoff.target"),
        ({"context": {"problem_type": "research"}}, "structure.missing_field", "handoff.context.original_prompt"),
    ],
)
def test_it_must_keep_to_its_own_version_first(changes: dict[str, Any], code: str, path: str) -> None:
    assert (code, path) in [(issue.code, issue.field_path) for issue in checked(old(**changes), **ADAPT).issues]


def test_then_to_version_3() -> None:
    context = {"original_prompt": "Compare.", "problem_type": "thinking"}
    found = [(issue.code, issue.field_path) for issue in checked(old(context=context), **ADAPT).issues]
    assert ("structure.bad_enum", "handoff.context.problem_type") in found


def test_a_long_prompt_is_cut_in_the_summary_only() -> None:
    document = old(context={"original_prompt": "p" * 600, "problem_type": "research"})
    context = record_of(document, adapt=True).document["handoff"]["context"]
    assert context["summary"] == "p" * 497 + "..."
    assert context["original_prompt"] == "p" * 600


@pytest.mark.parametrize(
    ("payload", "working"),
    [
        ({"working": {"a": 1}}, {"a": 1, "findings": {"answered": 3, "asked": 5}}),
        ({"a": 1}, {"a": 1, "findings": {"answered": 3, "asked": 5}}),
        ("text", {"payload": "text", "findings": {"answered": 3, "asked": 5}}),
        ({"findings": 1}, {"findings": 1, "handoff.findings": {"answered": 3, "asked": 5}}),
    ],
)
def test_nothing_is_lost(payload: Any, working: dict[str, Any]) -> None:
    assert record_of(old(payload=payload), adapt=True).data["working"] == working


def test_what_was_computed_of_the_old_payload_goes_unless_it_is_kept() -> None:
    meta = {"payload_hash": "sha256:" + "0" * 64, "payload_size_bytes": 3, "token_count": 9, "handoff_chain": ["a"]}
    lifted = record_of(old(meta=meta), adapt=True).document["handoff"]["meta"]
    assert {name: lifted.get(name) for name in meta} == {
        "payload_hash": None,
        "payload_size_bytes": None,
        "token_count": lifted["token_count"],
        "handoff_chain": ["a"],
    }
    kept = old(meta=meta, payload={"working": {}})
    del kept["handoff"]["findings"]
    assert "integrity.payload_hash_mismatch" in codes(checked(kept, **ADAPT))


def test_the_original_is_not_touched() -> None:
    document = old(meta={}, payload={"working": {"a": 1}})
    before = copy.deepcopy(document)
    lift(document, "t")
    assert document == before


def test_a_long_document_is_over_budget_and_not_out_of_range() -> None:
    verdict = checked(old(findings=["word"] * 5000), **ADAPT)
    assert "tokens.over_budget" in codes(verdict)
    assert "structure.out_of_range" not in codes(verdict)
