"""Tests of payloads whose data is a text, or empty."""

from typing import Any

import pytest

from handoffaudit.policy.rules import parse_sets
from handoffaudit.validation.claims import claim_to_dict
from handoffaudit.validation.config import Requirements
from handoffaudit.validation.data_schema import DataSchema
from handoffaudit.validation.json_text import data_hash, repetition_key
from handoffaudit.validation.layers import LAYERS, MODEL_LAYERS
from handoffaudit.validation.paths import at
from handoffaudit.validation.prompts.question import Answer, Question, Use
from handoffaudit.validation.record import placer

from ..support import codes, judge, payload, record_of, universal

TEXT = "Three of five suppliers answered; the median price is 12.40 EUR."


def test_a_text_is_judged_as_an_object_with_the_text() -> None:
    as_text, as_object = record_of(payload(data=TEXT)), record_of(payload(data={"text": TEXT}))
    assert as_text.data == as_object.data
    assert as_text.document["data"] == TEXT
    assert data_hash(as_text) == data_hash(as_object)
    context = {"envelope": {"context": {"question": "Which price?"}}}
    found, expected = judge(payload(data=TEXT), **context), judge(payload(data={"text": TEXT}), **context)
    assert found.outcome == expected.outcome
    assert codes(found) == codes(expected)


def test_every_place_exists_in_the_document_that_arrived() -> None:
    rules = parse_sets(
        [
            {
                "set_id": "own",
                "name": "Own",
                "rules": [{"rule_id": "price", "name": "Price", "rule_type": "required", "field": "price"}],
            }
        ]
    )
    schema = DataSchema.of({"type": "object", "required": ["price"], "properties": {"text": {"maxLength": 9}}})
    document = payload(data=TEXT)
    verdict = judge(
        document,
        demands=Requirements(rules=rules, schema=schema),
        envelope={"context": {"question": "Which price?"}, "evidence": [{"source": "offers", "content": "12.50"}]},
    )
    assert {"schema.required", "schema.maxLength"} <= set(codes(verdict))
    verdict = judge(
        document,
        demands=Requirements(rules=rules),
        envelope={"context": {"question": "Which price?"}, "evidence": [{"source": "offers", "content": "12.50"}]},
    )
    assert {"business_rule.required.price", "grounding.number", "evidence.uncited_claim"} <= set(codes(verdict))
    assert {issue.field_path for issue in verdict.issues} == {"data", ""}
    (claim,) = map(claim_to_dict, verdict.claims)
    assert (claim["field_path"], claim["json_pointer"], claim["claim_text"]) == ("data", "/data", TEXT)
    for value in claim["values"]:
        assert document["data"][value["start"] : value["end"]] == value["text"]


def test_a_text_cites_as_the_hint_says() -> None:
    evidence = {"envelope": {"evidence": [{"source": "offers", "content": TEXT}]}}
    document = payload(data=TEXT, context_refs=[])
    hint = next(issue.hint for issue in judge(document, **evidence).issues if issue.code == "evidence.uncited_claim")
    assert 'data: {"text": "…", "evidence_refs": {"text": "offers"}}' in hint
    assert "data.assumptions" in hint
    citing = payload(data={"text": TEXT, "evidence_refs": {"text": "offers"}})
    assert "evidence.uncited_claim" not in codes(judge(citing, **evidence))


def test_a_quotation_of_the_model_is_found_in_the_text() -> None:
    class Model:
        def ask(self, question: Question) -> Answer:
            if question.use is not Use.GROUNDING:
                raise AssertionError(question.use)
            told = (
                '{"valid": false, "issues": [{"field": "text", "kind": "fabricated", "quote": "12.40 EUR",'
                ' "reason": "No offer has it."}]}'
            )
            return Answer(question.read(told), told, "model", 0.001, 1.0)

    verdict = judge(
        payload(data=TEXT),
        layers=(*LAYERS, *MODEL_LAYERS),
        model=Model(),
        envelope={"context": {"offers": "nine"}},
        policy={"critique": "off"},
    )
    (issue,) = (issue for issue in verdict.issues if issue.code == "semantic.fabricated")
    assert issue.field_path == "data"
    start, end = issue.metadata["span"]
    assert TEXT[start:end] == "12.40 EUR"


@pytest.mark.parametrize("data", [{}, "", None, " \n", {"text": ""}, {"items": [], "note": None}])
def test_empty_data_is_a_warning(data: Any) -> None:
    verdict = judge(payload(data=data))
    assert (verdict.outcome, codes(verdict)) == ("accepted", ["structure.empty_data"])
    (issue,) = verdict.issues
    assert (issue.field_path, issue.severity) == ("data", "warning")
    assert repetition_key(record_of(payload(data=data))) == ""


@pytest.mark.parametrize("text", ["null", "None", "[]", "{}", '""'])
def test_an_empty_result_as_text_is_no_repetition(text: str) -> None:
    assert repetition_key(record_of(payload(data=text))) == ""
    assert repetition_key(record_of(payload(data={"text": text, "status": "done"}))) != ""


@pytest.mark.parametrize("data", [{"n": 0}, {"ok": False}, "0", {"text": "x"}])
def test_data_with_a_value_is_not_empty(data: Any) -> None:
    assert codes(judge(payload(data=data))) == []


@pytest.mark.parametrize("data", ["", None])
def test_empty_data_does_not_avoid_the_schema_of_its_type(data: Any) -> None:
    demands = Requirements(schema=DataSchema.of({"type": "object", "required": ["price"]}))
    verdict = judge(payload(data=data), demands=demands)
    assert verdict.outcome == "rejected"
    assert {issue.code: issue.field_path for issue in verdict.issues} == {
        "schema.required": "data",
        "structure.empty_data": "data",
    }


def test_data_of_another_type_is_only_of_a_wrong_type() -> None:
    (issue,) = judge(payload(data=[])).issues
    assert (issue.code, issue.message) == ("structure.wrong_type", "data is a list, not a string or an object.")
    (issue,) = judge({key: value for key, value in payload().items() if key != "data"}).issues
    assert (issue.code, issue.field_path) == ("structure.missing_field", "data")


def test_a_universal_handoff_with_data_in_another_part_is_not_empty() -> None:
    document = universal()
    document["handoff"]["payload"] = {"working": {}, "references": {"files": [{"path": "plan.md"}]}}
    assert "structure.empty_data" not in codes(judge(document))
    document["handoff"]["payload"] = {"working": {}}
    assert codes(judge(document)) == ["structure.empty_data"]


def test_the_place_of_a_text_does_not_depend_on_its_other_occurrences() -> None:
    document = payload(source_agent_id="a", call_chain=["a"], data="a")
    record = record_of(document)
    assert placer(record)(("text",)) == ("data",)
    assert at(document, placer(record)(("missing", 3))) == "a"
