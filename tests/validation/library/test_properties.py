"""Property tests of any LLM output: nothing raises, results can be written, and key order has no effect."""

import asyncio
import json
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handoffaudit.validation import (
    BusinessRuleValidator,
    CritiqueTriggerConfig,
    CritiqueValidator,
    EvidenceValidator,
    HandoffPayload,
    HandoffProtocol,
    HandoffRejectedError,
    RemediationEngine,
    SchemaValidator,
    StrictnessConfig,
    ValidationPipeline,
    ValidationResult,
    build_cmt_rules,
    build_signal_rules,
)
from tests.elapsed import grows_linearly
from tests.scale import examples

from ..support import PAYLOAD
from .support import SIGNAL, answer, codes, envelope, signal

# surrogates too: Python objects may hold what JSON readers refuse
TEXTS = st.text(st.characters(exclude_categories=()), max_size=20)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | TEXTS
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)
NAMES = st.sampled_from([*SIGNAL, "assumptions", "thesis", "layers", "trade_plan"]) | TEXTS
OUTPUTS = st.dictionaries(NAMES, VALUES, max_size=8) | VALUES
TYPES = st.sampled_from(["Signal", "CMTAssessmentResponse", "Other"])
SCHEMA = {"type": "object", "properties": {"confidence": {"type": "number", "maximum": 1}}, "required": ["rationale"]}


def pipeline() -> ValidationPipeline:
    rules = BusinessRuleValidator()
    rules.register(build_signal_rules())
    rules.register(build_cmt_rules())
    critique = CritiqueValidator(
        CritiqueTriggerConfig(always_critique_types=["Signal"]), lambda **asked: {"overall_score": 0.5}
    )
    return ValidationPipeline([SchemaValidator(), EvidenceValidator(), rules], critique, RemediationEngine())


def run(output: Any, schema: dict[str, Any] | None = None) -> ValidationResult:
    return pipeline().run(output, envelope(expected_output_schema=schema or {}), answer())


@settings(max_examples=examples(150))
@given(OUTPUTS, TYPES, st.booleans())
def test_nothing_raises_and_every_layer_ran(output: Any, output_type: str, with_schema: bool) -> None:
    if isinstance(output, dict):
        output = {"_output_type": output_type, **output}
    result = run(output, SCHEMA if with_schema else None)
    assert not [code for code in codes(result.issues) if code.endswith("could_not_run")]
    assert 0.0 <= result.quality_score <= 1.0
    assert result.overall_passed is (result.error_count == 0)
    assert json.loads(result.model_dump_json())["validation_id"] == result.validation_id


@settings(max_examples=examples(50))
@given(st.dictionaries(NAMES, VALUES, max_size=8), st.randoms())
def test_key_order_changes_nothing(output: dict[str, Any], random: Any) -> None:
    pairs = list({**signal(), **output}.items())
    first = run(dict(pairs))
    random.shuffle(pairs)
    second = run(dict(pairs))
    assert (first.quality_score, first.output_hash) == (second.quality_score, second.output_hash)
    assert sorted(codes(first.issues)) == sorted(codes(second.issues))


@pytest.mark.parametrize(
    "output",
    [
        lambda n: signal(rationale="x" * n),
        lambda n: {f"key{number}": f"Nobody has looked up number {number}." for number in range(n // 50)},
        lambda n: signal(confidence=10 ** (n // 175)),
        lambda n: signal(rationale="\0\ud800" * (n // 2)),
    ],
    ids=["long text", "many keys", "huge number", "no characters"],
)
def test_large_and_odd_outputs_are_bounded(output: Callable[[int], dict[str, Any]]) -> None:
    assert grows_linearly(lambda size: partial(run, output(size), SCHEMA), 2**16)
    result = run(output(2**20), SCHEMA)
    assert len(result.issues) < 320
    assert len(result.model_dump_json()) < 1_000_000


PAYLOADS = st.dictionaries(st.sampled_from(list(HandoffPayload.model_fields)) | TEXTS, VALUES, max_size=8)


@settings(max_examples=examples(150))
@given(PAYLOADS, VALUES)
def test_a_payload_made_of_anything_is_judged(fields: dict[str, Any], context: Any) -> None:
    payload = HandoffPayload.model_construct(**{**PAYLOAD, **fields})
    given_context = context if isinstance(context, dict) else None
    result = asyncio.run(HandoffProtocol(StrictnessConfig()).validate(payload, given_context))
    assert result.valid is (not result.structural_issues and not result.semantic_issues)
    error = HandoffRejectedError(result, payload)
    assert str(error).startswith(f"Handoff rejected [{result.strictness.value}]: handoff_id=")
