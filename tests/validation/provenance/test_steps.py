"""Tests of handoffs as steps of a trace."""

from handoffaudit.validation import formats
from handoffaudit.validation.provenance import LONGEST_DATA, Flaw, flaws_of, step_of
from handoffaudit.validation.record import Envelope, Record


def record(data: dict, source: str = "writer", **envelope) -> Record:
    document = {
        "source_agent_id": source,
        "target_agent_id": "critic",
        "tenant_id": "default",
        "call_chain": [source],
        "handoff_type": "note",
        "data": data,
    }
    found = formats.read(document, "payload", Envelope(**envelope)).record
    assert found is not None
    return found


def test_a_step_has_the_texts_and_numbers_and_what_they_rest_on():
    made = step_of(
        "h-1",
        record(
            {"total": 12, "text": "So."}, context={"order": {"total": 13}}, evidence=[{"source": "x", "content": "y"}]
        ),
        [Flaw("a.b", "data")],
    )
    assert (made.key, made.source, made.target, made.brings_facts) == ("h-1", "writer", "critic", False)
    assert set(made.data.splitlines()) == {"12", "So."}
    assert set(made.context.splitlines()) == {"13", "y"}
    assert made.flaws == (Flaw("a.b", "data"),)


def test_people_and_tools_bring_facts():
    assert step_of("h-1", record({"text": "So."}, source="user")).brings_facts


def test_of_a_long_handoff_the_beginning_counts():
    made = step_of("h-1", record({"a": "x" * 150_000, "b": "y" * 150_000, "c": "z"}))
    assert len(made.data) <= LONGEST_DATA + 1
    assert "z" not in made.data


def test_warnings_and_worse_of_a_verdict_are_flaws_with_their_values():
    issues = [
        {"code": "grounding.number", "severity": "warning", "field_path": "data.text", "metadata": {"text": "999"}},
        {"code": "semantic.fabricated", "severity": "error", "field_path": "data", "metadata": {"quote": "made up"}},
        {
            "code": "chain.circular",
            "severity": "error",
            "field_path": "target_agent_id",
            "metadata": {"positions": [1]},
        },
        {"code": "semantic.unavailable", "severity": "warning", "field_path": "", "metadata": {}},
        {"code": "chain.over_recommended", "severity": "info", "field_path": "", "metadata": {}},
    ]
    assert [(flaw.code, flaw.value) for flaw in flaws_of(issues)] == [
        ("grounding.number", "999"),
        ("semantic.fabricated", "made up"),
        ("chain.circular", ""),
    ]


def test_of_a_value_that_was_cut_the_whole_words_count():
    issue = {"code": "grounding.quote", "severity": "warning", "metadata": {"text": "one two thr\u2026"}}
    assert flaws_of([issue])[0].value == "one two"
