"""Which fields are claims, of which kind, and at which place."""

from typing import Any

import pytest

from handoffaudit.validation.claims import SHIPPED_FIELDS, claim_to_dict, extract, parse_fields
from handoffaudit.validation.flaws import InvalidDemand
from handoffaudit.validation.paths import dotted


def kinds(data: dict[str, Any], *fields: str, **given: Any) -> dict[str, str]:
    found = extract(data, fields or None, **given)
    return {dotted(claim.location): claim.claim_type.value for claim in found.claims}


def test_the_first_of_the_four_that_holds_counts() -> None:
    data = {
        "cited": "Short",
        "cited_number": 3,
        "assumed": 4,
        "named": "The assumption is that it rains.",
        "number": 4.5,
        "text": "Longer than ten characters.",
        "ten_chars": "0123456789",
        "flag": True,
        "nested": {"text": "Longer than ten characters."},
        "_output_type": "Longer than ten characters.",
        "evidence_refs": {"cited": "a", "cited_number": ["a", "b"]},
        "assumptions": ["assumed"],
    }
    assert kinds(data) == {
        "cited": "cited",
        "cited_number": "cited",
        "assumed": "assumption",
        "named": "assumption",
        "number": "derived",
        "text": "uncited",
    }
    assert [claim.evidence_ids for claim in extract(data).claims][:2] == [("a",), ("a", "b")]


def test_configured_fields_reach_into_lists_and_objects() -> None:
    data = {
        "thesis": "Prices are going to rise.",
        "trade_plan": {"entry_price": 101.5, "targets": [110, 120]},
        "layers": {"trend": {"key_findings": ["Higher highs since May.", "no"]}, "volume": {}},
        "evidence_refs": {"trade_plan.targets": "chart-1", "layers.trend.key_findings[0]": "chart-2"},
    }
    assert kinds(data, *SHIPPED_FIELDS["CMTAssessmentResponse"]) == {
        "thesis": "uncited",
        "trade_plan.entry_price": "derived",
        "trade_plan.targets[0]": "cited",
        "trade_plan.targets[1]": "cited",
        "layers.trend.key_findings[0]": "cited",
    }


def test_fields_that_overlap_give_each_claim_once() -> None:
    assert list(kinds({"a": {"b": 1, "c": 2}}, "a.*", "a.b")) == ["a.b", "a.c"]


def test_of_a_universal_handoff_the_working_part_states() -> None:
    data = {"working": {"title": "Review and polish", "evidence_refs": {"title": "a"}}, "session": {"state": {}}}
    assert kinds(data, within=("working",)) == {"working.title": "cited"}
    data["working"]["evidence_refs"] = {"working.title": "a"}
    assert kinds(data, within=("working",)) == {"working.title": "cited"}


@pytest.mark.parametrize("wrong", [None, 3, "text", ["a"], {"text": 3}, {"text": [None, ""]}, {"text": {}}])
def test_references_of_a_wrong_type_cite_nothing(wrong: Any) -> None:
    assert kinds({"text": "Longer than ten.", "evidence_refs": wrong, "assumptions": {"text": 1}}) == {
        "text": "uncited"
    }


def test_a_great_many_claims_are_counted_and_not_all_kept() -> None:
    found = extract({f"key{number:04}": "Longer than ten." for number in reversed(range(2000))})
    assert (len(found.claims), found.total, found.uncited) == (500, 2000, 2000)
    assert found.claims[0].location == ("key0000",)


def test_a_claim_can_be_stored() -> None:
    (claim,) = extract({"a\0b": "NUL \0 and \ud800 " * 100}).claims
    shown = claim_to_dict(claim)
    assert len(shown["claim_text"]) == 500
    assert "\0" not in str(shown)
    str(shown).encode()


def test_flawed_claim_fields_are_all_told() -> None:
    assert parse_fields(["thesis", "layers.*.key_findings", "thesis"]) == ("thesis", "layers.*.key_findings")
    with pytest.raises(InvalidDemand) as told:
        parse_fields(["", "a..b", 3, "a[", "fine"])
    assert [flaw.place for flaw in told.value.flaws] == ["[0]", "[1]", "[2]", "[3]"]
