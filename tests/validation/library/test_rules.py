"""Tests of business rules as a validator."""

from typing import Any

import pytest

from handoffaudit.validation import (
    BusinessRule,
    BusinessRuleSet,
    BusinessRuleType,
    BusinessRuleValidator,
    IValidator,
    Operator,
    build_cmt_rules,
    build_signal_rules,
)

from .support import answer, codes, envelope, signal

CMT: dict[str, Any] = {
    "_output_type": "CMTAssessmentResponse",
    "thesis": "Prices rise.",
    "system_health": "amber",
    "layers": {"trend": {}},
}


def broken(output: dict[str, Any], *sets: BusinessRuleSet) -> list[str]:
    validator = BusinessRuleValidator()
    for one in sets:
        validator.register(one)
    return codes(validator.validate(output, envelope(), answer()))


def price_set(limit: float, **changes: Any) -> BusinessRuleSet:
    rule = BusinessRule(
        rule_id="limit",
        name="The price has a limit",
        rule_type=BusinessRuleType.RANGE,
        field="offers.*.price",
        operator=Operator.LT,
        threshold=limit,
        **changes,
    )
    return BusinessRuleSet(set_id="prices", name="Prices", rules=[rule])


def test_the_sets_as_shipped() -> None:
    signals, assessments = build_signal_rules(), build_cmt_rules()
    assert (signals.set_id, [rule.rule_id for rule in signals.rules]) == (
        "signal_validation_v1",
        ["confidence_range", "direction_valid", "rationale_required"],
    )
    assert (assessments.set_id, [rule.rule_id for rule in assessments.rules]) == (
        "cmt_validation_v1",
        ["thesis_required", "system_health_valid", "layers_non_empty"],
    )
    assert (signals.version, signals.active_rules) == (1, signals.rules)


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        (signal(), []),
        (signal(confidence=1.01), ["business_rule.range.confidence_range"]),
        (signal(confidence="high"), ["business_rule.range.confidence_range"]),
        (signal(direction="long"), ["business_rule.range.direction_valid"]),
        (signal(rationale=" "), ["business_rule.required.rationale_required"]),
        (CMT, []),
        ({**CMT, "thesis": ""}, ["business_rule.required.thesis_required"]),
        ({**CMT, "system_health": "blue"}, ["business_rule.range.system_health_valid"]),
        ({**CMT, "layers": {}}, ["business_rule.required.layers_non_empty"]),
        (signal(_output_type="Other", direction="UP"), []),
    ],
)
def test_what_the_shipped_sets_find(output: dict[str, Any], expected: list[str]) -> None:
    assert broken(output, build_signal_rules(), build_cmt_rules()) == expected


def test_issues_speak_of_the_output() -> None:
    validator = BusinessRuleValidator()
    assert isinstance(validator, IValidator)
    validator.register(price_set(10, severity="critical"))
    (issue,) = validator.validate({"offers": [{"price": 5}, {"price": 12}]}, envelope(), answer())
    assert (issue.layer, issue.severity, issue.field_path) == ("business_rule", "critical", "offers[1].price")
    assert (issue.expected, issue.actual, issue.metadata["rule_id"]) == (10, 12, "limit")


def test_the_same_id_takes_the_place() -> None:
    output = {"offers": [{"price": 12}]}
    assert broken(output, price_set(10)) == ["business_rule.range.limit"]
    assert broken(output, price_set(10), price_set(20)) == []


def test_rules_that_are_off() -> None:
    off = price_set(10, enabled=False)
    assert off.active_rules == []
    assert broken({"offers": [{"price": 12}]}, off) == []


def test_without_rules_nothing_is_broken() -> None:
    assert broken(signal(direction="UP")) == []
