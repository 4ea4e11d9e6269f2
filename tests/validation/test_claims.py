"""Tests of the fields that are claims, of their kinds, and of their places."""

from typing import Any

import pytest

from handoffaudit.validation.claims import SHIPPED_FIELDS, claim_to_dict, extract, parse_fields
from handoffaudit.validation.errors import InvalidConfigError
from handoffaudit.validation.paths import dotted_path

SUPPLIED = frozenset({"a", "b", "chart-1", "chart-2"})


def kinds(data: dict[str, Any], *fields: str, **given: Any) -> dict[str, str]:
    found = extract(data, fields or None, **{"supplied": SUPPLIED, **given})
    return {dotted_path(claim.location): claim.claim_type.value for claim in found.claims}


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
    assert [claim.evidence_ids for claim in extract(data, supplied=SUPPLIED).claims][:2] == [("a",), ("a", "b")]


@pytest.mark.parametrize(
    ("ids", "kind"), [("a", "cited"), (["x", "a"], "cited"), ("x", "cites_unknown"), (["x", "y"], "cites_unknown")]
)
@pytest.mark.parametrize("statement", ["Longer than ten characters.", "Short", 3, "This is an assumption."])
def test_a_claim_is_cited_where_one_of_its_sources_was_supplied(statement: Any, ids: Any, kind: str) -> None:
    data = {"text": statement, "evidence_refs": {"text": ids}, "assumptions": ["text"]}
    found = extract(data, supplied=SUPPLIED)
    assert [claim.claim_type for claim in found.claims] == [kind]
    assert found.uncited == (kind == "cites_unknown")
    assert [claim.claim_type for claim in extract(data, supplied=()).claims] == ["cites_unknown"]


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
    found = extract({f"key{number:04}": "Longer than ten." for number in reversed(range(2000))}, supplied=())
    assert (len(found.claims), found.total, found.uncited) == (500, 2000, 2000)
    assert found.claims[0].location == ("key0000",)


def test_a_claim_can_be_stored() -> None:
    (claim,) = extract({"a\0b": "NUL \0 and \ud800 " * 100}, supplied=()).claims
    shown = claim_to_dict(claim)
    assert len(shown["claim_text"]) == 500
    assert "\0" not in str(shown)
    str(shown).encode()


def test_flawed_claim_fields_are_all_told() -> None:
    assert parse_fields(["thesis", "layers.*.key_findings", "thesis"]) == ("thesis", "layers.*.key_findings")
    with pytest.raises(InvalidConfigError) as told:
        parse_fields(["", "a..b", 3, "a[", "fine"])
    assert [flaw.place for flaw in told.value.flaws] == ["[0]", "[1]", "[2]", "[3]"]


def test_a_number_is_spelled_out_as_a_claim() -> None:
    found = extract({"rates": [1e-05, 5e16, 0.25, 1e-300]}, ["rates"], supplied=())
    assert [claim.text for claim in found.claims] == ["0.00001", "50000000000000000", "0.25", "1e-300"]


def rows(number: int, size: int = 4) -> dict[str, Any]:
    return {"rows": [{f"k{key}": "Nobody has looked this up." for key in range(size)} for _ in range(number)]}


def test_claim_fields_take_a_bounded_number_of_steps() -> None:
    data = rows(2_000)
    fields = ["rows.*.k0", *(f"rows.*.*{'.*' * more}" for more in range(99))]
    found = extract(data, fields, supplied=())
    assert found.unread
    assert set(found.unread) < set(fields)
    assert found.total >= 2_000
    assert found.uncited == found.total


def test_a_field_that_cannot_be_read_is_unread_as_a_whole() -> None:
    data = rows(30_000)
    backwards = {"rows": [dict(reversed(row.items())) for row in data["rows"]]}
    for document in (data, backwards):
        found = extract(document, ["rows[0].k0", "rows.*.*", "rows[0].k1"], supplied=())
        assert (found.total, found.unread) == (1, ("rows.*.*", "rows[0].k1"))
    within = extract(rows(100), ["rows.*.*"], supplied=())
    assert (within.total, within.unread) == (400, ())


def test_long_lists_take_steps_too() -> None:
    data = {"texts": ["No"] * 60_000}
    assert extract(data, ["texts"], supplied=()).unread == ()
    assert extract(data, ["texts", "texts.*"], supplied=()).unread == ("texts.*",)


def test_one_long_list_of_sources_is_read_once() -> None:
    ids = [f"unknown-{number}" for number in range(20_000)]
    data = {"texts": ["Nobody has looked this up."] * 20_000, "evidence_refs": {"texts": ids}}
    found = extract(data, ["texts"], supplied={"known"})
    assert (found.total, found.uncited) == (20_000, 20_000)
