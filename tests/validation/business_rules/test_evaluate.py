"""Tests of rules that apply only under a condition."""

from typing import Any

import pytest
from pydantic import ValidationError

from handoffaudit.policy.rules import parse_sets
from handoffaudit.validation import BusinessRule
from handoffaudit.validation.errors import InvalidConfigError
from handoffaudit.validation.library.models import result_schema
from handoffaudit.validation.rule_evaluation import Broken, broken_rules

LONG = {"field": "direction", "operator": "eq", "threshold": "LONG"}
BELOW_ENTRY: dict[str, Any] = {
    "rule_id": "stop_below_entry",
    "name": "The stop is below the entry",
    "rule_type": "invariant",
    "field": "stop_loss",
    "operator": "lt",
    "compare_field": "entry_price",
    "when": LONG,
}


def broken(data: dict[str, Any], **rule: Any) -> list[Broken]:
    return list(broken_rules([("set", BusinessRule(**(BELOW_ENTRY | rule)))], data))


def applies(when: dict[str, Any] | None, data: dict[str, Any]) -> bool:
    """Return whether a rule that all data break is applied."""
    return bool(broken({"stop_loss": 2, "entry_price": 1, **data}, when=when))


def test_a_rule_applies_only_where_its_condition_is_met() -> None:
    trade = {"stop_loss": 101, "entry_price": 100}
    assert broken(trade | {"direction": "SHORT"}) == []
    (one,) = broken(trade | {"direction": "LONG"})
    assert one.message == (
        "The stop is below the entry: stop_loss is 101; it must be less than entry_price, 100, when direction is LONG."
    )
    assert broken(trade | {"stop_loss": 99, "direction": "LONG"}) == []
    assert len(broken(trade, when=None)) == 1


@pytest.mark.parametrize(
    ("when", "data"),
    [
        (LONG, {}),
        (LONG, {"direction": None}),
        ({"field": "size", "operator": "gt", "threshold": 5}, {"size": "9"}),
        ({"field": "size", "operator": "gt", "compare_field": "limit"}, {"size": 9}),
        ({"field": "size", "operator": "ne", "threshold": 5}, {}),
        ({"field": "tags", "operator": "in", "compare_field": "known"}, {"tags": "a", "known": "a"}),
    ],
    ids=["missing", "null", "types differ", "no field to compare with", "missing is not other", "no list"],
)
def test_what_cannot_be_compared_does_not_meet_a_condition(when: dict[str, Any], data: dict[str, Any]) -> None:
    assert not applies(when, data)


def test_conditions_are_combined() -> None:
    large = {"field": "size", "operator": "gt", "compare_field": "limit"}
    both, either = {"all": [LONG, large]}, {"any": [LONG, large]}
    data = {"direction": "LONG", "size": 9, "limit": 5}
    assert applies(both, data)
    assert not applies(both, data | {"size": 3})
    assert applies(either, data | {"size": 3})
    assert not applies(either, data | {"size": 3, "direction": "FLAT"})
    (one,) = broken({"stop_loss": 2, "entry_price": 1, **data}, when=either)
    assert "when direction is LONG or size is greater than limit." in one.message


def test_a_condition_is_about_the_same_item_as_its_rule() -> None:
    trades = [
        {"stop": 3, "entry": 2, "direction": "LONG"},
        {"stop": 3, "entry": 2, "direction": "SHORT"},
        {"stop": 3, "entry": 2},
    ]
    when = {"field": "trades.*.direction", "operator": "eq", "threshold": "LONG"}
    (one,) = broken({"trades": trades}, field="trades.*.stop", compare_field="trades.*.entry", when=when)
    assert one.places == (("trades", 0, "stop"),)


def test_of_a_condition_over_a_list_one_value_is_enough() -> None:
    when = {"field": "flags.*", "operator": "eq", "threshold": "hot"}
    assert applies(when, {"flags": ["cold", "hot"]})
    assert not applies(when, {"flags": ["cold"]})
    assert not applies(when, {"flags": []})


def test_a_required_field_can_have_a_condition() -> None:
    required = {"rule_type": "required", "field": "reason", "operator": None, "compare_field": None}
    (one,) = broken({"direction": "LONG"}, **required)
    assert (
        one.message
        == "The stop is below the entry: reason is missing; it must be present and not empty when direction is LONG."
    )
    assert broken({"direction": "SHORT"}, **required) == []


def test_sets_with_conditions_are_read_and_written_again_and_old_ones_still_open() -> None:
    for when in (LONG | {"compare_field": None}, {"all": [LONG | {"compare_field": None}] * 2}, None):
        (one,) = parse_sets([{"set_id": "s", "name": "S", "rules": [BELOW_ENTRY | {"when": when}]}])
        plain = one.model_dump(mode="json")
        assert plain["rules"][0]["when"] == when
        assert parse_sets([plain]) == (one,)
    old = {key: value for key, value in BELOW_ENTRY.items() if key != "when"}
    (read,) = parse_sets([{"set_id": "s", "name": "S", "rules": [old]}])
    assert read.rules[0].when is None


@pytest.mark.parametrize(
    ("when", "place"),
    [
        (LONG | {"field": "a..b"}, "when.field"),
        (LONG | {"operator": "like"}, "when.operator"),
        ({"field": "x", "operator": "eq"}, "when.threshold"),
        ({"field": "x", "operator": "between", "threshold": [3, 1]}, "when.threshold"),
        ({"operator": "eq", "threshold": 1}, "when.field"),
        (LONG | {"treshold": 1}, "when.treshold"),
        ({"all": []}, "when.all"),
        ({"any": [LONG] * 11}, "when.any"),
        ({"all": [LONG, LONG | {"compare_field": ".x"}]}, "when.all[1].compare_field"),
        ({"all": [LONG, {"all": [LONG]}]}, "when.all[1]"),
        ({"all": [LONG], "any": [LONG]}, "when.any"),
        ({"any": LONG}, "when.any"),
        ("direction is LONG", "when"),
    ],
)
def test_a_flawed_condition_is_told_at_its_place(when: Any, place: str) -> None:
    with pytest.raises(InvalidConfigError) as told:
        parse_sets([{"set_id": "s", "name": "S", "rules": [BELOW_ENTRY | {"when": when}]}])
    assert told.value.flaws[0].place.startswith(f"[0].rules[0].{place}")
    assert all(flaw.message and flaw.remedy for flaw in told.value.flaws)


HOW = (
    'Write it as in {"field": "direction", "operator": "eq", "threshold": "LONG"}, or give a list of such conditions'
    ' under "all" or "any".'
)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"when": "x"}, f'when: when is "x", not an object. {HOW}'),
        ({"when": [LONG]}, f"when: when is a list of 1 entry, not an object. {HOW}"),
        ({"when": {"all": []}}, "when.all: all has no entries. Give at least one condition, or leave out when."),
        (
            {"when": {"any": [LONG] * 11}},
            "when.any: any has 11 entries, over the limit of 10. Split the rule into several.",
        ),
        ({"when": {"any": LONG}}, "when.any: any is an object of 3 fields, not a list. Give a list."),
        (
            {"when": {"all": ["x"]}},
            'when.all[0]: The condition is "x", not an object. Give an object with its fields.',
        ),
        ({"when": LONG | {"field": 3}}, "when.field: field is 3, not a text. Give a text."),
        ({"enabled": "perhaps"}, 'enabled: enabled is "perhaps", not true or false. Give true or false.'),
        ({"metadata": []}, "metadata: metadata is a list of 0 entries, not an object. Give an object."),
        ({"output_types": "x"}, 'output_types: output_types is "x", not a list. Give a list.'),
    ],
)
def test_a_value_of_the_wrong_type_is_said_in_our_words(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidConfigError) as told:
        parse_sets([{"set_id": "s", "name": "S", "rules": [BELOW_ENTRY | changed]}])
    assert [str(flaw) for flaw in told.value.flaws] == [f"[0].rules[0].{said}"]


@pytest.mark.parametrize(
    ("sets", "said"),
    [
        (["x"], '[0]: The rule set is "x", not an object. Give an object with its fields.'),
        (
            [{"set_id": "s", "name": "S", "rules": ["x"]}],
            '[0].rules[0]: The rule is "x", not an object. Give an object with its fields.',
        ),
        (
            [{"set_id": "s", "name": "S", "version": "x"}],
            '[0].version: version is "x", not a whole number. Give a whole number.',
        ),
    ],
)
def test_what_is_no_set_or_rule_is_named(sets: list[Any], said: str) -> None:
    with pytest.raises(InvalidConfigError) as told:
        parse_sets(sets)
    assert [str(flaw) for flaw in told.value.flaws] == [said]


def test_the_model_and_its_published_schema_know_conditions() -> None:
    rule = BusinessRule.model_validate(BELOW_ENTRY)
    assert rule.when is not None
    assert BusinessRule.model_validate({**BELOW_ENTRY, "when": rule.when}) == rule
    with pytest.raises(ValidationError):
        BusinessRule.model_validate(BELOW_ENTRY | {"when": {"field": "x"}})
    schema = result_schema("business-rule")
    assert {"Condition", "AllConditions", "AnyCondition"} <= schema["$defs"].keys()
    assert schema["properties"]["when"]["default"] is None


def test_a_condition_over_too_much_data_fails_its_rule() -> None:
    when = {"field": "w.*", "operator": "eq", "threshold": 1}
    (one,) = broken({"v": [1] * 2_000, "w": [2] * 2_000}, field="v.*", compare_field=None, threshold=0, when=when)
    assert "too much to compare" in one.message


@pytest.mark.parametrize("layers", [5, "none", None, True])
def test_a_condition_on_the_same_item_is_not_met_if_the_data_has_no_items(layers: Any) -> None:
    rule = {"rule_type": "required", "field": "layers.*.lines.*.note"}
    when = {"field": "layers.*.lines.*.kind", "operator": "eq", "threshold": "open"}
    assert broken({"layers": layers}, **rule, when=when) == []
    (one,) = broken({"layers": layers}, **rule, when=None)
    assert one.places == (("layers", "*"),)
    (note,) = broken({"layers": [{"lines": [{"kind": "open"}, {"kind": "done"}]}]}, **rule, when=when)
    assert note.places == (("layers", 0, "lines", 0, "note"),)


def test_the_places_of_a_broken_rule_are_in_the_order_of_the_list() -> None:
    (one,) = broken({"items": [{"n": 1}] * 2 + [{}] * 10}, rule_type="required", field="items.*.n", when=None)
    assert one.places == tuple(("items", at, "n") for at in range(2, 12))
    assert "items[2].n is missing" in one.message
