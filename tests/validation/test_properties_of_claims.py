"""Property tests with any data, context and evidence: no layer raises, and the order of keys has no effect."""

import random
from collections.abc import Iterator
from typing import Any

import orjson
from hypothesis import given, settings
from hypothesis import strategies as st

from handoffaudit.validation.business_rules import BusinessRule, BusinessRuleSet
from handoffaudit.validation.config import EvidencePolicy, Requirements
from handoffaudit.validation.data_schema import DataSchema
from handoffaudit.validation.verdict import verdict_to_dict
from tests.scale import examples

from .support import judge, payload
from .test_properties import shuffled

KEYS = st.sampled_from(["a", "b", "text", "evidence_refs", "assumptions", "_output_type", "a\0b", "a.b", ""])
TEXTS = st.text(max_size=30) | st.sampled_from(
    [
        "It cost 1,200.50 EUR on 12 March 2024.",
        'He said "no" to a@b.example.',
        "an assumption",
        "x" * 500,
        "\0",
        "9" * 400,
        "0." + "3" * 400,
    ]
)
SCALARS = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | TEXTS
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=10,
)
OBJECTS = st.dictionaries(KEYS, VALUES, max_size=5)
EVIDENCE = st.lists(VALUES | st.fixed_dictionaries({"source": TEXTS | SCALARS, "content": VALUES}), max_size=3)


def _rule(number: int, **given: Any) -> BusinessRule:
    return BusinessRule(rule_id=f"r{number}", name="n", **given)


DEMANDS = Requirements(
    rules=(
        BusinessRuleSet(
            set_id="s",
            name="s",
            rules=[
                _rule(1, rule_type="required", field="a.*"),
                _rule(2, rule_type="range", field="*", operator="between", threshold=[0, "z"]),
                _rule(3, rule_type="invariant", field="*.*", operator="lt", compare_field="*.a"),
                _rule(4, rule_type="cross_check", field="b", operator="not_in", threshold=[1, [True], {"a": None}]),
                _rule(5, rule_type="range", field="a[0]", operator="eq", threshold={"a": 1}),
            ],
        ),
    ),
    schema=DataSchema.of(
        {
            "properties": {
                "a": {"anyOf": [{"type": "string", "pattern": "^x+$"}, {"minItems": 2, "uniqueItems": True}]}
            },
            "patternProperties": {"^t": {"maxLength": 5, "enum": ["a", 1]}},
            "unevaluatedProperties": {"type": ["number", "object", "array"], "multipleOf": 0.1},
        }
    ),
    claim_fields=("a", "*.*", "text", "b[0]"),
)


def verdicts(data: dict[str, Any], context: dict[str, Any], evidence: list[Any], demands: Requirements) -> Any:
    return judge(
        payload(data=data),
        "payload",
        envelope={"context": context, "evidence": evidence},
        policy={"evidence": EvidencePolicy.REQUIRED},
        demands=demands,
    )


@settings(max_examples=examples(200))
@given(data=OBJECTS, context=OBJECTS, evidence=EVIDENCE, with_schema=st.booleans())
def test_any_data_comes_to_a_verdict(data: Any, context: Any, evidence: Any, with_schema: bool) -> None:
    demands = DEMANDS if with_schema else Requirements(rules=DEMANDS.rules)
    verdict = verdicts(data, context, evidence, demands)
    shown = orjson.loads(orjson.dumps(verdict_to_dict(verdict)))
    assert not any("\0" in text for text in texts(shown))
    assert {layer.status for layer in verdict.layers} <= {"passed", "failed", "skipped"}


@settings(max_examples=examples(150))
@given(data=OBJECTS, context=OBJECTS, evidence=EVIDENCE, seed=st.integers(0, 99), with_schema=st.booleans())
def test_the_order_of_keys_changes_nothing(
    data: Any, context: Any, evidence: Any, seed: int, with_schema: bool
) -> None:
    demands = DEMANDS if with_schema else Requirements(rules=DEMANDS.rules, claim_fields=DEMANDS.claim_fields)
    source = random.Random(seed)  # noqa: S311
    first = verdicts(data, context, evidence, demands)
    second = verdicts(shuffled(data, source), shuffled(context, source), shuffled(evidence, source), demands)

    assert first.outcome == second.outcome
    assert first.quality_score == second.quality_score
    assert found(first) == found(second)


def texts(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        yield from value
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            yield from texts(one)
    elif isinstance(value, str):
        yield value


def found(verdict: Any) -> list[tuple[str, str]]:
    return sorted((issue.code, issue.field_path) for issue in verdict.issues)
