"""Tests of the layers evidence, grounding and rules: when they run, and their part of the verdict."""

import pytest

from handoffaudit.validation.business_rules import build_signal_rules
from handoffaudit.validation.config import EvidencePolicy, GroundingPolicy, Requirements, Strictness
from tests.validation.support import codes, judge, payload, universal

EVIDENCE = [{"source": "survey-7", "content": {"answers": 3, "median_price_eur": 12.4}}]
CITED = {"text": "Three suppliers answered the survey.", "evidence_refs": {"text": "survey-7"}}


def layer(verdict, name: str):
    return next(one for one in verdict.layers if one.name == name)


def test_who_cites_nothing_is_not_asked_for_sources() -> None:
    verdict = judge(payload())
    assert layer(verdict, "evidence").status == "skipped"
    assert "no citations" in layer(verdict, "evidence").why
    assert verdict.claims == ()


@pytest.mark.parametrize(
    "given",
    [
        {"document": payload(), "envelope": {"evidence": EVIDENCE}},
        {"document": payload(data=CITED)},
        {"document": payload(data={"text": "Longer than ten.", "assumptions": []})},
        {"document": payload(), "demands": Requirements(claim_fields=("text",))},
        {"document": payload(), "policy": {"evidence": EvidencePolicy.REQUIRED}},
        {"document": universal(payload={"working": {"assumptions": []}})},
    ],
)
def test_who_cites_is_held_to_it(given) -> None:
    assert layer(judge(given.pop("document"), **given), "evidence").status != "skipped"


def test_lenient_types_are_asked_neither() -> None:
    policy = {"strictness": Strictness.LENIENT, "evidence": EvidencePolicy.REQUIRED}
    verdict = judge(payload(), policy=policy, envelope={"evidence": EVIDENCE})
    assert {layer(verdict, name).status for name in ("evidence", "grounding")} == {"skipped"}


def test_claims_stand_in_the_verdict_with_their_marks() -> None:
    verdict = judge(payload(data={**CITED, "median": 14.6}), envelope={"evidence": EVIDENCE})
    text, median = verdict.claims
    assert (text.claim_type, text.evidence_ids, text.place) == ("cited", ("survey-7",), ("data", "text"))
    assert {mark.status for mark in text.marks} <= {"grounded", "derived"}
    assert [mark.status for mark in median.marks] == ["ungrounded"]
    assert median.validator_confidence == 0.0
    assert "grounding.number" in codes(verdict)


INVENTED = {
    "first": "Three suppliers answered the survey.",
    "second": "Two suppliers did not answer it.",
    "third": "Prices are going to fall in spring.",
    "median": 12.4,
}


def test_inventing_sources_does_not_beat_the_limit_on_uncited_claims() -> None:
    refs = dict.fromkeys(("first", "second", "third"), "made-up-source")
    verdict = judge(payload(data={**INVENTED, "evidence_refs": refs}), envelope={"evidence": EVIDENCE})
    assert [claim.claim_type for claim in verdict.claims] == [*["cites_unknown"] * 3, "derived"]
    assert verdict.claims[0].evidence_ids == ("made-up-source",)
    assert verdict.outcome == "rejected"
    (issue,) = [issue for issue in verdict.issues if issue.code == "evidence.uncited_threshold_exceeded"]
    assert issue.message == "3 of 4 claims (75 %) name no supplied source, over the limit of 30 %."
    assert issue.hint.startswith("Supply the sources that they cite or cite supplied ones, as in data.evidence_refs")
    assert codes(verdict).count("evidence.unknown_source") == 3
    assert "evidence.uncited_claim" not in codes(verdict)


def test_the_finding_asks_for_no_more_sources_than_needed() -> None:
    data = {f"text{number}": f"Supplier {number} answered the survey." for number in range(30)}
    data |= {f"number{number}": number + 0.5 for number in range(70)}
    verdict = judge(
        payload(data=data),
        policy={"max_uncited_ratio": 0.29, "grounding": GroundingPolicy.OFF},
        envelope={"evidence": EVIDENCE},
    )
    (issue,) = [issue for issue in verdict.issues if issue.code == "evidence.uncited_threshold_exceeded"]
    assert "of at least 1 of them" in issue.hint


def test_a_share_just_over_the_limit_is_shown_above_the_limit() -> None:
    data = {f"text{number}": f"Supplier {number} answered the survey." for number in range(19)}
    data |= {f"number{number}": number + 0.5 for number in range(44)}
    verdict = judge(payload(data=data), envelope={"evidence": EVIDENCE})
    (issue,) = [issue for issue in verdict.issues if issue.code == "evidence.uncited_threshold_exceeded"]
    assert issue.message == "19 of 63 claims (30.16 %) name no source, over the limit of 30 %."


def test_one_supplied_source_makes_a_claim_cited() -> None:
    both = ["made-up-source", "survey-7"]
    refs = {"first": both, "second": both, "third": "brief-2026-02"}
    verdict = judge(payload(data={**INVENTED, "evidence_refs": refs}), envelope={"evidence": EVIDENCE})
    assert [claim.claim_type for claim in verdict.claims] == [*["cited"] * 3, "derived"]
    assert verdict.outcome == "accepted"


def test_claim_fields_that_are_not_read_count_as_uncited() -> None:
    document = payload(data={"parts": [0] * 40_000, "summary": "Three suppliers answered the survey."})
    demands = Requirements(claim_fields=("summary", "parts.*", "parts[*]", "parts"))
    given = {"demands": demands, "envelope": {"evidence": EVIDENCE}}
    for policy in ({}, {"layers_off": frozenset({"evidence"})}):
        verdict = judge(document, policy={"token_budget": 10**9, **policy}, **given)
        told = [issue for issue in verdict.issues if issue.code == "evidence.uncited_threshold_exceeded"]
        assert (verdict.outcome, len(told)) == (("accepted", 0) if policy else ("rejected", 1))
        assert all("parts was not read, because there is too much data" in issue.message for issue in told)
        assert "not read: there is too much data" in layer(verdict, "grounding" if policy else "evidence").why


def test_grounding_extracts_claims_where_evidence_was_skipped() -> None:
    verdict = judge(payload(), envelope={"context": {"brief": "Five suppliers were asked."}})
    assert layer(verdict, "evidence").status == "skipped"
    assert layer(verdict, "grounding").status == "passed"
    assert [claim.claim_id for claim in verdict.claims] == ["claim-1"]


def test_the_same_ungrounded_value_is_told_once() -> None:
    text = "The price is 14.60 EUR in May, and 14.60 EUR in June."
    verdict = judge(payload(data={"text": text}), envelope={"context": {"page": "The price is 12.40 EUR."}})
    (issue,) = [issue for issue in verdict.issues if issue.code == "grounding.number"]
    assert (issue.metadata["count"], [one["text"] for one in issue.metadata["values"]]) == (2, ["14.60", "14.60"])
    assert [text[one["start"] : one["end"]] for one in issue.metadata["values"]] == ["14.60", "14.60"]
    assert [text[one["start"] : one["end"]] for one in issue.metadata["values"]] == ["14.60", "14.60"]
    assert "12.40" not in issue.hint


def test_what_may_have_been_meant_is_asked_and_not_expected() -> None:
    page = {"context": {"page": "Acme: 4,200 EUR; Berg: 5,100 EUR."}}
    verdict = judge(payload(data={"text": "The offer of Acme is 42,000 EUR."}), envelope=page)
    (issue,) = [issue for issue in verdict.issues if issue.code == "grounding.number"]
    assert issue.hint.startswith('Did you mean "4,200", which is in the sources? If not, supply the source of "42,000"')
    assert (issue.expected, issue.metadata["values"][0]["closest"]) == (None, "4,200")


def test_a_value_that_may_have_been_meant_is_asked_for_whole() -> None:
    page = f"https://example.org/{'x' * 60}/overview"
    verdict = judge(payload(data={"text": f"It stands at {page}z there."}), envelope={"context": {"page": page}})
    (issue,) = [issue for issue in verdict.issues if issue.code == "grounding.identifier"]
    assert issue.hint.startswith(
        f'Did you mean "{page}", which is in the sources? If not, supply the source of "{page}z"'
    )


@pytest.mark.parametrize(
    ("policy", "status", "outcome"),
    [
        (GroundingPolicy.OFF, "skipped", "accepted"),
        (GroundingPolicy.WARN, "passed", "accepted"),
        (GroundingPolicy.REJECT, "failed", "rejected"),
    ],
)
def test_the_policy_says_how_grave_it_is(policy, status: str, outcome: str) -> None:
    document = payload(data={"text": "The price is 14.60 EUR."})
    verdict = judge(document, policy={"grounding": policy}, envelope={"context": {"page": "The price is 12.40 EUR."}})
    assert (layer(verdict, "grounding").status, verdict.outcome) == (status, outcome)


def test_no_policy_rejects_for_wording() -> None:
    page = "The bow and arrow was invented in the later Paleolithic period and was used for hunting."
    document = payload(data={"text": "The bow was invented by farmers and was mostly used for sport and ceremonies."})
    verdict = judge(document, policy={"grounding": GroundingPolicy.REJECT}, envelope={"context": {"page": page}})
    (issue,) = [issue for issue in verdict.issues if issue.code == "grounding.wording"]
    assert (issue.severity.name, verdict.outcome) == ("WARNING", "accepted")


def test_a_handoffs_own_summary_is_no_source() -> None:
    document = universal(payload={"working": {"price": "It is 14.60 EUR."}})
    assert layer(judge(document), "grounding").status == "skipped"
    document["handoff"]["context"]["original_prompt"] = "The price is 12.40 EUR; say it."
    assert layer(judge(document), "grounding").status == "passed"


def test_a_great_many_claims_leave_a_note() -> None:
    data = {f"k{number}": "Longer than ten." for number in range(800)}
    verdict = judge(payload(data=data), policy={"evidence": EvidencePolicy.REQUIRED})
    assert layer(verdict, "evidence").why == "of 800 claims only 500 claims are listed; all are counted"
    assert codes(verdict).count("evidence.uncited_claim") == 100


@pytest.mark.parametrize("strictness", list(Strictness))
def test_rules_run_for_strict_and_lenient(strictness: Strictness) -> None:
    document = payload(handoff_type="Signal", data={"confidence": 2, "direction": "UP", "rationale": ""})
    verdict = judge(document, policy={"strictness": strictness}, demands=Requirements(rules=(build_signal_rules(),)))
    found = [issue for issue in verdict.issues if issue.layer == "rules"]
    assert [(issue.code, issue.field_path) for issue in found] == [
        ("business_rule.range.confidence_range", "data.confidence"),
        ("business_rule.range.direction_valid", "data.direction"),
        ("business_rule.required.rationale_required", "data.rationale"),
    ]


def test_rules_of_another_type_do_not_run() -> None:
    verdict = judge(payload(), demands=Requirements(rules=(build_signal_rules(),)))
    assert layer(verdict, "rules").why == "no rules are set for this type"
