"""Tests of the answer to the sender of an output: whether it passed, and the errors by the library's names."""

from typing import Any

import pytest

from handoffaudit.policy.rules import parse_sets
from handoffaudit.validation import LLMEnvelope, LLMResult, ValidationPipeline
from handoffaudit.validation.business_rules import BusinessRuleSet
from handoffaudit.validation.config import Requirements, TypePolicy
from handoffaudit.validation.library.validators import BusinessRuleValidator
from handoffaudit.validation.pipeline import reject_unread
from handoffaudit.validation.verdict import verdict_to_dict

from .support import NOW, judge, payload

RULES: tuple[BusinessRuleSet, ...] = parse_sets(
    [
        {
            "set_id": "signals",
            "name": "Signals",
            "rules": [
                {
                    "rule_id": "direction",
                    "name": "Direction",
                    "rule_type": "range",
                    "field": "direction",
                    "operator": "in",
                    "threshold": ["LONG", "SHORT", "FLAT"],
                },
                {
                    "rule_id": "why",
                    "name": "Rationale",
                    "rule_type": "required",
                    "field": "rationale",
                    "severity": "warning",
                },
            ],
        }
    ]
)


def output(**parsed: Any) -> dict[str, Any]:
    return {
        "parsed_output": {"_output_type": "Signal", "direction": "LONG", "rationale": "Up.", **parsed},
        "envelope": {"envelope_id": "e-1", "agent_id": "analyst", "context": {}},
    }


def told(document: dict[str, Any]) -> dict[str, Any]:
    return verdict_to_dict(judge(document, "output", demands=Requirements(RULES)))


def test_one_without_errors_passed() -> None:
    answer = told(output(rationale=""))
    assert [issue["severity"] for issue in answer["issues"]] == ["warning"]
    assert (answer["validation_passed"], answer["validation_errors"]) == (True, [])


def test_errors_are_told_as_the_library_tells_them() -> None:
    answer = told(output(direction="UP"))
    result = LLMResult(envelope_id="e-1")
    rules = BusinessRuleValidator()
    for one in RULES:
        rules.register(one)
    envelope = LLMEnvelope(
        instructions="", envelope_id="e-1", trace_id="t", agent_id="analyst", agent_type="", tenant_id="default"
    )
    ValidationPipeline([rules]).run(output(direction="UP")["parsed_output"], envelope, result)
    assert answer["validation_passed"] is result.validation_passed is False
    assert answer["validation_errors"] == result.validation_errors
    assert answer["validation_errors"][0].startswith("[business_rule:error] ")


def test_structure_is_told_as_schema() -> None:
    document = output()
    document["envelope"]["expected_output_schema"] = {"properties": {"direction": {"type": "integer"}}}
    answer = told(document)
    assert answer["validation_passed"] is False
    assert [line.partition(" ")[0] for line in answer["validation_errors"]] == ["[schema:error]"]


def test_other_formats_carry_neither() -> None:
    assert not {"validation_passed", "validation_errors"} & verdict_to_dict(judge(payload(confidence=3))).keys()


def test_the_verdict_knows_its_format() -> None:
    verdict = judge(output(), "output")
    assert verdict.format == "output"
    unread = reject_unread(
        (), handoff_id="", validation_id="v", policy=TypePolicy("*"), policy_version=0, output_hash="", validated_at=NOW
    )
    assert unread.format == ""


@pytest.mark.parametrize("parsed", [["Up."], "Up.", None])
def test_data_that_is_no_object_is_told_once_and_not_held_against_a_schema(parsed: Any) -> None:
    document = output() | {"parsed_output": parsed}
    document["envelope"]["expected_output_schema"] = {"required": ["rationale"]}
    assert [(issue.field_path, issue.code) for issue in judge(document, "output").issues] == [
        ("parsed_output", "structure.wrong_type")
    ]


def test_an_empty_object_is_held_against_a_schema() -> None:
    document = output() | {"parsed_output": {}}
    document["envelope"]["expected_output_schema"] = {"required": ["rationale"]}
    assert ("parsed_output.rationale", "schema.required") in [
        (issue.field_path, issue.code) for issue in judge(document, "output").issues
    ]
