"""Tests of rules and schemas from JSON or a form: written back the same, or rejected, whatever was sent."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from handoffaudit.policy.kinds import rules, schemas
from handoffaudit.policy.rules import example_sets
from handoffaudit.policy.values import MOST_BYTES, MOST_ERRORS, InvalidPolicy
from handoffaudit.validation.business_rules import BusinessRule, BusinessRuleSet
from tests import scale
from tests.policy.test_parsing import JSON

RULE = st.dictionaries(st.sampled_from(sorted(BusinessRule.model_fields)), JSON)
SET = st.fixed_dictionaries(
    {"set_id": st.sampled_from(["a", "b-1"]), "name": st.text(max_size=5)},
    optional={"rules": st.lists(RULE | JSON, max_size=3), "version": st.integers() | JSON},
)
ANY_SET = SET | st.dictionaries(st.sampled_from(sorted(BusinessRuleSet.model_fields)) | st.text(), JSON)
KEYWORDS = st.sampled_from(["type", "properties", "required", "$ref", "items", "pattern", "const", "anyOf"])
SCHEMA = st.recursive(
    JSON | st.booleans(),
    lambda inner: st.dictionaries(KEYWORDS, inner | st.lists(inner, max_size=2), max_size=3),
    max_leaves=6,
)
ROW = st.dictionaries(st.sampled_from(["handoff_type", "schema", "claim_fields", "x"]), JSON | SCHEMA)
QUICK = settings(max_examples=scale.examples(60), suppress_health_check=[HealthCheck.too_slow])


@QUICK
@given(st.lists(ANY_SET, max_size=3))
def test_sets_are_read_or_refused(sets: list[Any]) -> None:
    try:
        rows = rules.from_plain({"sets": sets})
    except InvalidPolicy:
        return
    assert rules.from_plain(rules.to_plain(rows)) == rows


@QUICK
@given(st.lists(ROW, max_size=2))
def test_rows_of_schemas_are_read_or_refused(given_rows: list[Any]) -> None:
    try:
        rows = schemas.from_plain({"rows": given_rows})
    except InvalidPolicy:
        return
    assert schemas.to_plain(schemas.from_plain(schemas.to_plain(rows))) == schemas.to_plain(rows)


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    "value",
    [float("nan"), float("inf"), 2**70, "\ud800", nested(5000), {1: 2}],
    ids=["nan", "inf", "large", "surrogate", "deep", "key"],
)
def test_what_is_no_json_is_refused(value: Any) -> None:
    rule = {"rule_id": "r", "name": "r", "rule_type": "required", "field": "a", "metadata": {"x": value}}
    with pytest.raises(InvalidPolicy):
        rules.from_plain({"sets": [{"set_id": "a", "name": "a", "rules": [rule]}]})
    with pytest.raises(InvalidPolicy):
        schemas.from_plain({"rows": [{"handoff_type": "x", "schema": {"const": value}}]})


def test_of_a_great_many_errors_some_are_told_and_briefly() -> None:
    bad_set = {"set_id": "s" * 5000, "name": "n", "rules": [{"rule_id": "x" * 5000}] * 250}
    with pytest.raises(InvalidPolicy) as refused:
        rules.from_plain({"sets": [bad_set] * 40})
    assert len(refused.value.errors) == MOST_ERRORS
    assert len(str(refused.value)) < 100_000
    bad_row = {"handoff_type": "t" * 50_000, "claim_fields": ["f" * 50_000]}
    with pytest.raises(InvalidPolicy) as refused:
        schemas.from_plain({"rows": [bad_row] * 500})
    assert len(refused.value.errors) == MOST_ERRORS
    assert len(str(refused.value)) < 100_000


def test_all_together_have_a_limit_that_no_row_reaches_alone() -> None:
    signals = example_sets()[0]
    padded = signals.rules[0].model_copy(update={"metadata": {"text": "m" * (MOST_BYTES // 4)}})
    sets = [signals.model_copy(update={"set_id": f"s{number}", "rules": [padded]}) for number in range(4)]
    assert len(rules.checked(sets[:3])) == 3
    with pytest.raises(InvalidPolicy, match="All rows together have"):
        rules.checked(sets)


def test_claim_fields_are_kept_in_order_and_once() -> None:
    (row,) = schemas.from_plain({"rows": [{"handoff_type": "x", "claim_fields": ["b", "a.*.c", "b"]}]})
    assert row.claim_fields == ("b", "a.*.c")
