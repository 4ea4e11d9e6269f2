"""Tests of the token budget and of the declared count."""

import orjson
import pytest

from handoffaudit.validation.json_text import compact
from handoffaudit.validation.tokenizers import CharacterCounter, default_counter
from handoffaudit.validation.tokenizers import estimate as estimate_of

from ..support import codes, judge, payload, universal


def test_the_count_is_that_of_the_whole_compact_document() -> None:
    document = universal()
    counts = judge(document).token_counts
    assert counts is not None
    assert counts.total == default_counter().count(compact(document).decode())
    assert (counts.declared, counts.budget, counts.tokenizer, counts.estimated) == (150, 2000, "o200k_base", False)


@pytest.mark.parametrize("document", [payload(), universal()], ids=["payload", "universal"])
def test_sections_add_up(document: dict) -> None:
    counts = judge(document).token_counts
    assert counts is not None
    assert sum(section.count for section in counts.sections) == counts.total


def test_the_budget_itself_is_within_budget() -> None:
    counts = judge(payload()).token_counts
    assert counts is not None
    assert codes(judge(payload(), policy={"token_budget": counts.total})) == []
    assert codes(judge(payload(), policy={"token_budget": counts.total - 1})) == ["tokens.over_budget"]


def test_over_budget_names_the_largest_sections() -> None:
    (issue,) = judge(payload(data={"text": "word " * 3000})).issues
    assert issue.hint.startswith("Remove 1,1")
    assert "data 3,0" in issue.hint


def test_without_a_tokenizer_it_is_estimated_and_said() -> None:
    verdict = judge(payload(), counter=CharacterCounter())
    assert codes(verdict) == ["tokens.estimated"]
    assert verdict.issues[0].message == "tiktoken unavailable. Using estimation."
    assert verdict.token_counts is not None
    assert verdict.token_counts.estimated


def test_drift_is_measured_against_the_estimate() -> None:
    estimate = estimate_of(compact(universal(meta={"token_count": 100})).decode())
    for share, expected in [(1.29, []), (0.71, []), (1.31, ["tokens.count_drift"]), (0.69, ["tokens.count_drift"])]:
        assert codes(judge(universal(meta={"token_count": round(estimate * share)}))) == expected, share


def test_outputs_have_a_budget_of_their_own() -> None:
    long = {"thesis": "The trend is up and the volume confirms it. " * 400}
    output = {
        "parsed_output": {"_output_type": "Signal", **long},
        "envelope": {"envelope_id": "e", "trace_id": "t", "agent_id": "a", "agent_type": "analyst", "tenant_id": "x"},
    }
    assert "tokens.over_budget" not in codes(judge(output, "output"))
    assert "tokens.over_budget" in codes(judge(output, "output", policy={"output_token_budget": 2000}))
    assert "tokens.over_budget" in codes(judge(payload(data=long)))


def test_the_count_of_the_document_as_sent_is_right_too() -> None:
    document = universal(meta={"token_count": 1000})
    compacted = estimate_of(compact(document).decode())
    indented = orjson.dumps(document, option=orjson.OPT_INDENT_2)
    estimate = estimate_of(indented.decode())
    assert estimate > 1.31 * compacted
    for count, expected in [
        (compacted, []),
        (estimate, []),
        (estimate * 1.29, []),
        (estimate * 1.31, ["tokens.count_drift"]),
        (compacted * 0.69, ["tokens.count_drift"]),
    ]:
        document["handoff"]["meta"]["token_count"] = round(count)
        assert codes(judge(document, sent=indented)) == expected, count
    document["handoff"]["meta"]["token_count"] = round(estimate * 1.1)
    assert codes(judge(document)) == ["tokens.count_drift"]
    assert codes(judge(document, sent=b"\xff" * len(indented))) == []
