"""Property tests of prompts with any handoff and any answer of the LLM."""

import contextlib
import json
import re
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from handoffaudit.validation.prompts import layer_questions
from handoffaudit.validation.prompts.layer_questions import select_relevant
from handoffaudit.validation.prompts.masking import mask_secrets
from handoffaudit.validation.prompts.question import MalformedAnswer, as_text, fence
from handoffaudit.validation.record import place_of, span_of
from handoffaudit.validation.repair import by_model
from tests.scale import examples

from .injections import ATTEMPTS
from .secret_corpus import IN_TEXTS, LOOKS

NAMES = st.sampled_from(["password", "token", "name", "value", "api_key", "text", "valid", "status", "issues"])
PIECES = st.sampled_from(
    [
        *ATTEMPTS,
        *LOOKS.values(),
        *(text for text, _ in IN_TEXTS),
        "password=",
        "token: ",
        "://",
        "@",
        "[masked]",
        '"',
        "=",
    ]
)
TEXTS = st.text(max_size=20) | st.lists(PIECES | st.text(max_size=3), max_size=4).map("".join)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES | TEXTS, inner, max_size=4),
    max_leaves=10,
)
ANSWERS = st.fixed_dictionaries(
    {},
    optional={
        "valid": st.booleans() | VALUES,
        "issues": st.lists(
            VALUES
            | st.dictionaries(
                st.sampled_from(["field", "kind", "quote", "reason", "code", "message", "severity"]), VALUES
            )
        ),
        "status": st.sampled_from(["PASSED", "failed"]) | VALUES,
        "confidence": st.floats(0, 1) | VALUES,
        "overall_score": st.floats(0, 1) | VALUES,
        "reasoning": VALUES,
    },
)


@settings(max_examples=examples(200))
@given(value=VALUES, limit=st.integers(20, 400))
def test_no_value_closes_its_fence(value: Any, limit: int) -> None:
    for text in (as_text(value, limit), select_relevant(value, value, limit), as_text(value)):
        found = re.fullmatch(r"<data>\n([^<\n]*)\n</data>", fence("data", text))
        assert found
        found[1].encode()
    assert len(as_text(value, limit)) <= limit
    assert len(select_relevant(value, {}, limit)) <= limit


@settings(max_examples=examples(200))
@given(value=VALUES)
def test_what_is_between_the_tags_is_the_masked_value(value: Any) -> None:
    inner = fence("data", as_text(value, 10**6)).removeprefix("<data>\n").removesuffix("\n</data>")
    assert json.loads(inner) == json.loads(json.dumps(mask_secrets(value)).encode("utf-8", "replace"))


@settings(max_examples=examples(300))
@given(value=VALUES)
def test_what_is_masked_stays_as_it_is(value: Any) -> None:
    once = mask_secrets(value)
    assert mask_secrets(once) == once


@settings(max_examples=examples(100))
@given(
    before=st.text("xyz .,\n", max_size=8),
    secret=st.sampled_from(list(LOOKS.values())),
    after=st.text(" .,\n", max_size=8),
)
def test_a_secret_is_found_wherever_it_stands(before: str, secret: str, after: str) -> None:
    assert secret not in mask_secrets(f"{before} {secret}{after}")


@settings(max_examples=examples(300))
@given(
    text=st.text(max_size=200) | ANSWERS.map(json.dumps) | ANSWERS.map(lambda told: f"```json\n{json.dumps(told)}\n```")
)
def test_an_answer_is_read_or_malformed(text: str) -> None:
    for read in (
        layer_questions.read_grounding,
        layer_questions.read_objective,
        layer_questions.read_opinion,
        by_model.repair_question({}, []).read,
    ):
        with contextlib.suppress(MalformedAnswer):
            assert read(text) is not None


@settings(max_examples=examples(200))
@given(field=TEXTS, quote=TEXTS, data=VALUES)
def test_a_place_is_always_in_the_data(field: str, quote: str, data: Any) -> None:
    value = data
    location = place_of(field, quote, data)
    for step in location:
        value = value[step]
    span = span_of(quote, location, data)
    assert span is None or 0 <= span[0] < span[1] <= len(value)
