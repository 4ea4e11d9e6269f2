"""What an uncited claim is told: where to cite, what, and in which form."""

import pytest

from handoffaudit.validation.config import GroundingPolicy
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
        (universal(payload={"working": SAID}), "handoff.payload.working", "working.summary"),
        (OUTPUT, "parsed_output", "summary"),
    ],
)
def test_where_to_cite_and_what_was_supplied(document, place: str, path: str) -> None:
    found = hints(document, OFFERS, {"source": "prices", "content": "5 EUR"})
    example = f'{place}.evidence_refs: {{"{path}": "offers"}} (supplied: "offers", "prices")'
    assert found["uncited_claim"] == (f'Say what it rests on, as {example}, or list "{path}" in {place}.assumptions.')
    assert example in found["uncited_threshold_exceeded"]


def test_with_nothing_supplied_the_form_of_evidence_is_shown() -> None:
    found = hints(payload(data={**SAID, "assumptions": []}, context_refs=[]))
    assert found["uncited_threshold_exceeded"].endswith('as evidence: [{"source": "…", "content": "…"}].')


@pytest.mark.parametrize("beside", [payload(data=SAID, evidence_refs={"summary": "offers"})])
def test_refs_that_stand_where_they_are_not_read_are_to_be_moved(beside) -> None:
    found = hints(beside, OFFERS)
    assert found["uncited_claim"].startswith("Move evidence_refs to data.evidence_refs: elsewhere it is not read. ")


def test_refs_beside_the_working_part_are_to_be_moved() -> None:
    document = universal(payload={"working": SAID, "evidence_refs": {"summary": "offers"}})
    assert hints(document, OFFERS)["uncited_claim"].startswith("Move evidence_refs to handoff.payload.working.")


@pytest.mark.parametrize("item", ["a text", {"content": "5 EUR"}, {"source": "", "content": "5 EUR"}, 5, None])
def test_a_piece_of_evidence_without_a_name_is_told(item) -> None:
    cited = {**SAID, "evidence_refs": {"summary": "offers"}}
    assert list(hints(payload(data=cited), OFFERS, item)) == ["unnamed_evidence"]
