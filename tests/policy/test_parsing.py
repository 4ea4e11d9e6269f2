import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handoffaudit.policy.strictness import FIELDS, MOST_ROWS, parse_row, parse_rows, to_plain
from handoffaudit.policy.values import MOST_ERRORS, InvalidPolicy
from handoffaudit.validation.config import (
    OPTIONAL_LAYERS,
    CircularPolicy,
    CritiquePolicy,
    EvidencePolicy,
    FailMode,
    GroundingPolicy,
    Mode,
    Strictness,
    TypePolicy,
)
from handoffaudit.validation.issues import Severity
from handoffaudit.validation.prompts.question import Role

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
POLICIES = st.builds(
    TypePolicy,
    handoff_type=st.from_regex(r"\A[a-z_./*-]{1,30}\Z"),
    strictness=st.sampled_from(Strictness),
    mode=st.sampled_from(Mode),
    layers_off=st.frozensets(st.sampled_from(OPTIONAL_LAYERS)),
    token_budget=st.integers(1, 1_000_000),
    approval_length=st.integers(1, 1000),
    recommended_length=st.integers(1, 1000),
    circular_policy=st.sampled_from(CircularPolicy),
    evidence=st.sampled_from(EvidencePolicy),
    max_uncited_ratio=st.floats(0, 1),
    grounding=st.sampled_from(GroundingPolicy),
    confidence_floor=st.floats(0, 1),
    max_retries=st.integers(0, 100),
    max_re_retrievals=st.integers(0, 100),
    auto_escalate_on_critical=st.booleans(),
    min_severity_to_remediate=st.sampled_from(Severity),
    hold_limit_hours=st.integers(1, 8760),
    approval_expires_hours=st.integers(1, 8760),
    return_repaired=st.booleans(),
    four_eyes=st.booleans(),
    fail_mode=st.sampled_from(FailMode),
    objective_confidence=st.floats(0, 1),
    critique=st.sampled_from(CritiquePolicy),
    critique_notional_usd=st.floats(0, 1e12),
    critique_score_floor=st.floats(0, 1),
    critique_model=st.sampled_from(Role),
    critique_max_usd=st.floats(0, 100),
    critique_threshold=st.floats(0, 1),
)


def test_the_fields_are_those_of_the_core() -> None:
    core = {field.name for field in dataclasses.fields(TypePolicy)}
    assert set(FIELDS) - {"layers"} == core - {"layers_off"}
    assert tuple(to_plain(TypePolicy("x"))) == FIELDS


@given(POLICIES)
def test_what_is_written_is_read_back(policy: TypePolicy) -> None:
    assert parse_row(to_plain(policy)) == policy


def test_a_field_that_is_not_given_has_its_default() -> None:
    assert parse_row({"handoff_type": "deal_data"}) == TypePolicy("deal_data")
    assert parse_row({"handoff_type": "x", "layers": {"chain": False}}).layers_off == frozenset({"chain"})


WRONG: list[tuple[str, Any]] = [
    *[("handoff_type", value) for value in (None, "", "  ", 5, "x" * 201, " x", "a\x00b", "a\nb", [])],
    *[("strictness", value) for value in ("Strict", "", None, 1, [], {})],
    *[("mode", value) for value in ("off", None)],
    *[("circular_policy", value) for value in ("ask", None)],
    *[("layers", value) for value in (None, [], "tokens", {"structure": False}, {"tokens": "off"}, {"tokens": 1})],
    *[("token_budget", value) for value in (0, -1, 1_000_001, 2.0, "2000", True, None)],
    *[("approval_length", value) for value in (0, 1001, "five")],
    *[("recommended_length", value) for value in (0, 1001, "")],
    *[("evidence", value) for value in ("always", True, None)],
    *[("grounding", value) for value in ("on", "error", None)],
    *[("max_uncited_ratio", value) for value in (-0.1, 1.1, "0.3", False, None)],
    *[("max_retries", value) for value in (-1, 101, 1.0, True, None)],
    *[("max_re_retrievals", value) for value in (-1, 101, "1")],
    *[("auto_escalate_on_critical", value) for value in ("on", 1, None, "")],
    *[("min_severity_to_remediate", value) for value in ("fatal", 3, None)],
    *[("hold_limit_hours", value) for value in (0, 8761, 0.5)],
    *[("approval_expires_hours", value) for value in (0, 8761, 0.5)],
    *[("fail_mode", value) for value in ("shut", True, None)],
    *[("critique", value) for value in ("sometimes", False, None)],
    *[("critique_model", value) for value in ("claude", None)],
    *[("critique_notional_usd", value) for value in (-1, 1e13, "50,000", float("nan"), 10**400, True, None)],
    *[("critique_max_usd", value) for value in (-0.01, 100.5, float("inf"), "0.1", None)],
    *[(field, 1.5) for field in ("objective_confidence", "critique_score_floor", "critique_threshold")],
    *[("confidence_floor", value) for value in (-0.01, 1.01, float("nan"), float("inf"), "0.5", True, None)],
]


@pytest.mark.parametrize(("field", "value"), WRONG)
def test_a_wrong_value_is_told_with_its_row_field_value_and_remedy(field: str, value: Any) -> None:
    with pytest.raises(InvalidPolicy) as invalid:
        parse_row({"handoff_type": "deal_data", field: value})
    (error,) = invalid.value.errors
    assert error.field == field
    assert error.value is value
    assert error.remedy.endswith(".")
    if field != "handoff_type":
        assert error.row == "deal_data"
        assert "deal_data" in str(invalid.value)


def test_every_wrong_value_of_a_table_is_told_at_once() -> None:
    with pytest.raises(InvalidPolicy) as invalid:
        parse_rows([{"handoff_type": "a", "mode": "x", "token_budget": 0}, {"handoff_type": "*", "strictness": "x"}])
    assert [(error.row, error.field) for error in invalid.value.errors] == [
        ("a", "mode"),
        ("a", "token_budget"),
        ("*", "strictness"),
    ]


def test_an_unknown_field_is_told_with_the_closest_known_one() -> None:
    with pytest.raises(InvalidPolicy, match="token_budget"):
        parse_row({"handoff_type": "a", "token_buget": 5})
    with pytest.raises(InvalidPolicy, match="no such field"):
        parse_row({"handoff_type": "a", "colour": "blue"})


def test_of_a_great_many_errors_some_are_told_and_briefly() -> None:
    row = {"handoff_type": "t" * 50_000} | {f"{number}-{'f' * 300}": 1 for number in range(500)}
    for rows in ([row], [{}] * 5000):
        with pytest.raises(InvalidPolicy) as refused:
            parse_rows(rows)
        assert len(refused.value.errors) == MOST_ERRORS
        assert len(str(refused.value)) < 100_000


def test_a_long_value_is_not_repeated_whole() -> None:
    with pytest.raises(InvalidPolicy) as invalid:
        parse_row({"handoff_type": "a", "mode": "x" * 100_000})
    assert len(str(invalid.value)) < 500


@given(st.dictionaries(st.sampled_from(FIELDS) | st.text(), JSON))
def test_whatever_is_sent_is_read_or_refused(row: dict[str, Any]) -> None:
    try:
        policy = parse_row(row)
    except InvalidPolicy:
        return
    assert parse_row(to_plain(policy)) == policy


def test_minus_zero_becomes_zero() -> None:
    assert str(parse_row({"handoff_type": "a", "confidence_floor": -0.0}).confidence_floor) == "0.0"


@pytest.mark.parametrize(
    ("types", "message"),
    [
        (["a"], 'The row "any other type" is missing.'),
        ([], 'The row "any other type" is missing.'),
        (["a", "a", "*"], "two rows"),
        (["*", "*"], "two rows"),
        ([*[f"t{number}" for number in range(MOST_ROWS)], "*"], f"at most {MOST_ROWS}"),
    ],
)
def test_a_table_that_makes_no_sense_is_refused(types: list[str], message: str) -> None:
    with pytest.raises(InvalidPolicy, match=message):
        parse_rows([{"handoff_type": name} for name in types])


def test_rows_stand_by_type_and_any_other_type_last() -> None:
    rows = parse_rows([{"handoff_type": name} for name in ("*", "zebra", "!first", "ant")])
    assert [row.handoff_type for row in rows] == ["!first", "ant", "zebra", "*"]
