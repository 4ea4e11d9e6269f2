"""Tests of business rules: results, messages of broken rules, and reading of rule sets."""

from typing import Any

import pytest

from handoffaudit.policy.rules import parse_sets
from handoffaudit.validation.business_rules import BusinessRule, BusinessRuleSet, build_cmt_rules, build_signal_rules
from handoffaudit.validation.errors import InvalidConfigError
from handoffaudit.validation.paths import dotted_path
from handoffaudit.validation.rule_evaluation import Broken, broken_rules, rules_for


def broken(data: dict[str, Any], **rule: Any) -> list[Broken]:
    given = {"rule_id": "r", "name": "The rule", "rule_type": "range", "field": "x", **rule}
    return list(broken_rules([("set", BusinessRule(**given))], data))


@pytest.mark.parametrize(
    ("operator", "threshold", "holds", "fails"),
    [
        ("lt", 3, 2, 3),
        ("le", 3, 3, 4),
        ("gt", 3, 3.5, 3),
        ("ge", 3, 3, 2),
        ("lt", "2026-02-01", "2026-01-31", "2026-02-01"),
        ("le", "200.50", "100", "1000.00"),
        ("between", ["-5", "30"], "4", "101.5"),
        ("eq", 1, 1.0, True),
        ("eq", {"a": [1]}, {"a": [1.0]}, {"a": [True]}),
        ("ne", 0, False, 0.0),
        ("in", [1, "a"], "a", True),
        ("not_in", [1, "a"], True, "a"),
        ("between", [0, 1], 1, 1.01),
        ("between", [0, 1], 0, -1),
    ],
)
def test_operators(operator: str, threshold: Any, holds: Any, fails: Any) -> None:
    assert broken({"x": holds}, operator=operator, threshold=threshold) == []
    (one,) = broken({"x": fails}, operator=operator, threshold=threshold)
    assert one.message.startswith("The rule: x is ")
    assert one.hint.startswith("Change x: it must be ")


@pytest.mark.parametrize(
    ("operator", "threshold", "value"),
    [
        ("lt", 3, "2"),
        ("lt", 3, True),
        ("ge", "a", None),
        ("gt", [1], [2]),
        ("between", [0, 1], "0.5"),
        ("between", 3, 3),
        ("between", [0, 1, 2], 1),
        ("in", "abc", "a"),
        ("not_in", "abc", "z"),
        (None, 3, 3),
    ],
)
def test_what_cannot_be_compared_fails_and_says_so(operator: str | None, threshold: Any, value: Any) -> None:
    (one,) = broken({"x": value}, operator=operator, threshold=threshold)
    assert "cannot be" in one.message


@pytest.mark.parametrize(
    ("value", "other", "hint"),
    [
        ("5", {"threshold": 10}, "Write x as a number: it must be at most 10."),
        ("5", {"operator": "between", "threshold": [0, 10]}, "Write x as a number: it must be from 0 to 10."),
        (120, {"compare_field": "total"}, "Write total as a number."),
        (5, {"threshold": "10"}, "Write x as a text, or ask the author of the rule for a threshold that is a number."),
        (None, {"threshold": "b"}, 'Change x: it must be at most "b".'),
    ],
)
def test_the_hint_says_which_value_to_write_as_a_number(value: Any, other: dict[str, Any], hint: str) -> None:
    (one,) = broken({"x": value, "total": "100.50"}, **({"operator": "le"} | other))
    assert one.hint == hint


@pytest.mark.parametrize("data", [{}, {"x": {}}, {"x": None}, {"x": ""}, {"x": " \n"}, {"x": []}])
def test_only_required_fails_for_a_missing_field(data: dict[str, Any]) -> None:
    assert len(broken(data, rule_type="required")) == 1
    if "x" not in data:
        assert broken(data, operator="gt", threshold=3) == []
        assert broken(data, rule_type="invariant", operator="gt", compare_field="y") == []


@pytest.mark.parametrize("value", [0, False, "a", [None], {"a": None}])
def test_what_is_there_satisfies_required(value: Any) -> None:
    assert broken({"x": value}, rule_type="required", operator="ne", threshold="") == []


def test_fields_are_compared_in_the_same_item() -> None:
    data = {"plans": [{"stop": 5, "entry": 9}, {"stop": 9, "entry": 8}, {"stop": 7}]}
    (one,) = broken(data, rule_type="invariant", field="plans.*.stop", operator="lt", compare_field="plans.*.entry")
    assert [dotted_path(place) for place in one.places] == ["plans[1].stop"]
    assert one.message == "The rule: plans[1].stop is 9; it must be less than plans[1].entry, 8."


def test_every_match_must_hold_and_the_rule_is_told_once() -> None:
    (one,) = broken({"xs": {"b": 5, "a": 7, "c": 1}}, field="xs.*", operator="lt", threshold=3)
    assert dotted_path(one.location) == "xs.a"
    assert "1 other place" in one.message
    assert len(broken({"xs": [{"id": 1}, {}]}, rule_type="required", field="xs.*.id")) == 1
    assert broken({"xs": []}, rule_type="required", field="xs.*.id") == []


def test_rules_are_for_their_types_and_can_be_switched_off() -> None:
    rules = [
        BusinessRule(rule_id="a", name="a", rule_type="required", field="a"),
        BusinessRule(rule_id="b", name="b", rule_type="required", field="b", output_types=["offer"]),
        BusinessRule(rule_id="c", name="c", rule_type="required", field="c", enabled=False),
    ]
    sets = [BusinessRuleSet(set_id="s", name="s", rules=rules)]
    assert [rule.rule_id for _, rule in rules_for(sets, ["note"])] == ["a"]
    assert [rule.rule_id for _, rule in rules_for(sets, ["offer", "note"])] == ["a", "b"]


def test_the_shipped_examples() -> None:
    def ids(rules: BusinessRuleSet, kind: str, data: dict[str, Any]) -> list[str]:
        return [one.rule.rule_id for one in broken_rules(rules_for([rules], [kind]), data)]

    assert ids(build_signal_rules(), "Signal", {"confidence": 1.2, "direction": "UP"}) == [
        "confidence_range",
        "direction_valid",
        "rationale_required",
    ]
    good = {"confidence": 1, "direction": "FLAT", "rationale": "No trend."}
    assert ids(build_signal_rules(), "Signal", good) == []
    assert ids(build_signal_rules(), "Note", {}) == []
    assert ids(build_cmt_rules(), "CMTAssessmentResponse", {"system_health": "blue", "layers": {}}) == [
        "thesis_required",
        "system_health_valid",
        "layers_non_empty",
    ]


def test_sets_are_read_from_json_and_back() -> None:
    sets = (build_signal_rules(), build_cmt_rules())
    assert parse_sets([one.model_dump(mode="json") for one in sets]) == sets
    assert parse_sets([]) == ()


RULE = {"rule_id": "r", "name": "n", "rule_type": "range", "field": "x", "operator": "lt", "threshold": 3}


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"rule_id": "no id"}, "rule_id"),
        ({"rule_type": "rnage"}, "rule_type"),
        ({"field": "a..b"}, "field"),
        ({"operator": None}, "operator"),
        ({"operator": "between"}, "threshold"),
        ({"operator": "between", "threshold": [3, 1]}, "threshold"),
        ({"operator": "between", "threshold": [1, "a"]}, "threshold"),
        ({"operator": "in", "threshold": []}, "threshold"),
        ({"threshold": True}, "threshold"),
        ({"threshold": ["x" * 30_000], "operator": "in"}, "threshold"),
        ({"rule_type": "invariant"}, "compare_field"),
        ({"severity": "fatal"}, "severity"),
        ({"treshold": 4}, "treshold"),
        ({"name": 3}, "name"),
        ({"name": "n" * 501}, "name"),
    ],
)
def test_a_flawed_rule_is_told_at_its_place(change: dict[str, Any], place: str) -> None:
    with pytest.raises(InvalidConfigError) as told:
        parse_sets([{"set_id": "s", "name": "S", "rules": [RULE | {"rule_id": "other"}, RULE | change]}])
    assert [flaw.place for flaw in told.value.flaws] == [f"[0].rules[1].{place}"]
    assert all(flaw.message and flaw.remedy for flaw in told.value.flaws)


def test_ids_are_unique_and_every_flaw_is_told() -> None:
    with pytest.raises(InvalidConfigError) as told:
        parse_sets([{"set_id": "s", "name": "S", "rules": [RULE, RULE]}, {"name": "S"}, 3])
    assert [flaw.place for flaw in told.value.flaws] == ["[0].rules[1].rule_id", "[1].set_id", "[2]"]
    with pytest.raises(InvalidConfigError):
        parse_sets({"set_id": "s"})


def test_a_repeated_id_is_told_at_its_place_beside_a_flawed_set() -> None:
    with pytest.raises(InvalidConfigError) as told:
        parse_sets([{"set_id": "s", "name": "S", "colour": "red"}, *[{"set_id": "s", "name": "S"}] * 2])
    assert [flaw.place for flaw in told.value.flaws] == ["[0].colour", "[2].set_id"]
    assert told.value.flaws[0].message == '"colour" is not a field of a rule set.'
