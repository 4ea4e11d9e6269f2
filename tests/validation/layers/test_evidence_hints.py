"""Tests of the fix for an uncited claim: where to cite, which source, and in which form."""

import json

import pytest

from handoffaudit.validation.config import GroundingPolicy, Requirements
from tests.validation.support import judge, payload, universal

SAID = {"summary": "Three suppliers deliver within a week."}
OFFERS = {"source": "offers", "content": "Three suppliers deliver within a week."}
OUTPUT = {
    "parsed_output": {"_output_type": "Note", **SAID},
    "envelope": {"agent_id": "analyst", "tenant_id": "default", "envelope_id": "e1", "trace_id": "t1"},
}


def hints(document, *evidence, form=None) -> dict[str, str]:
    policy = {"grounding": GroundingPolicy.OFF}
    verdict = judge(document, form, policy=policy, envelope={"evidence": list(evidence)})
    return {issue.code.partition(".")[2]: issue.hint for issue in verdict.issues if issue.layer == "evidence"}


@pytest.mark.parametrize(
    ("document", "place", "path"),
    [
        (payload(data=SAID, context_refs=[]), "data", "summary"),
        (universal(payload={"working": SAID}), "handoff.payload.working", "summary"),
        (OUTPUT, "parsed_output", "summary"),
    ],
)
def test_where_to_cite_and_what_was_supplied(document, place: str, path: str) -> None:
    found = hints(document, OFFERS, {"source": "prices", "content": "5 EUR"})
    example = f'{place}.evidence_refs: {{"{path}": "…"}} (supplied: "offers", "prices")'
    assert found["uncited_claim"] == (f'Name its source, as in {example}, or list "{path}" in {place}.assumptions.')
    assert example in found["uncited_threshold_exceeded"]


def test_the_only_source_that_was_supplied_stands_in_the_example() -> None:
    found = hints(payload(data=SAID, context_refs=[]), OFFERS)
    assert 'data.evidence_refs: {"summary": "offers"}, or list' in found["uncited_claim"]


@pytest.mark.parametrize("key", ["unit price", "a.b", 'the "best"', "x[0]", "back\\slash", "lone \ud800"])
@pytest.mark.parametrize("source", ["offers", 'the "offers"', f"https://example.org/{'x' * 150}"])
def test_citing_as_the_example_says_cites_the_claim(key: str, source: str) -> None:
    data, evidence = {key: SAID["summary"]}, {**OFFERS, "source": source}
    hint = hints(payload(data=data, context_refs=[]), evidence)["uncited_claim"]
    refs, _ = json.JSONDecoder().raw_decode(hint.partition("evidence_refs: ")[2])
    assert refs == {key: source}
    assert hints(payload(data={**data, "evidence_refs": refs}, context_refs=[]), evidence) == {}


def test_a_list_at_the_top_is_cited_by_its_bare_key() -> None:
    said = {"key findings": [SAID["summary"]], "evidence_refs": {"key findings": "offers"}}
    fields = Requirements(claim_fields=('["key findings"]',))
    verdict = judge(payload(data=said, context_refs=["offers"]), demands=fields)
    assert [claim.claim_type for claim in verdict.claims] == ["cited"]


def test_what_is_too_long_to_be_copied_is_left_out() -> None:
    source = "https://example.org/" + "x" * 300
    found = hints(payload(data={"k" * 300: SAID["summary"]}, context_refs=[]), OFFERS, {**OFFERS, "source": source})
    assert 'evidence_refs: {"…": "…"} (supplied: "offers"), or list "…" in' in found["uncited_claim"]


def test_a_source_that_is_asked_for_can_be_cited_as_it_stands() -> None:
    overview, overlook = (f"https://example.org/{'x' * 40}/{page}" for page in ("overview", "overvisw"))
    cited = payload(data={**SAID, "evidence_refs": {"summary": overlook}}, context_refs=[])
    found = hints(cited, {**OFFERS, "source": overview})
    assert found["unknown_source"] == f'Did you mean "{overview}"? If not, supply "{overlook}" as evidence.'


def test_with_nothing_supplied_the_form_of_evidence_is_shown() -> None:
    found = hints(payload(data={**SAID, "assumptions": []}, context_refs=[]))
    assert found["uncited_threshold_exceeded"].endswith('as evidence: [{"source": "…", "content": "…"}].')


@pytest.mark.parametrize("beside", [payload(data=SAID, evidence_refs={"summary": "offers"})])
def test_refs_that_stand_where_they_are_not_read_are_to_be_moved(beside) -> None:
    found = hints(beside, OFFERS)
    assert found["uncited_claim"].startswith("Move evidence_refs to data.evidence_refs: it is not read elsewhere. ")


def test_refs_beside_the_working_part_are_to_be_moved() -> None:
    document = universal(payload={"working": SAID, "evidence_refs": {"summary": "offers"}})
    assert hints(document, OFFERS)["uncited_claim"].startswith("Move evidence_refs to handoff.payload.working.")


@pytest.mark.parametrize("item", ["a text", {"content": "5 EUR"}, {"source": "", "content": "5 EUR"}, 5, None])
def test_a_piece_of_evidence_without_a_name_is_told(item) -> None:
    cited = {**SAID, "evidence_refs": {"summary": "offers"}}
    assert list(hints(payload(data=cited), OFFERS, item)) == ["unnamed_evidence"]
