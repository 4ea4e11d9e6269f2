"""Tests of the questions to an LLM about labelled items, and of the results of its answers."""

import json
from typing import Any

import pytest

from handoffaudit.evaluation.items import KINDS, Item, UnreadableError
from handoffaudit.evaluation.judge import Key, LLMJudge, percentile
from handoffaudit.validation.prompts.question import Answer, MalformedAnswer
from tests.evaluation.support import NOW, grounded, reviewed

JUDGE = LLMJudge(now=lambda: NOW)
TEXT = "The order costs 999 EUR."


def item_of(line: Any) -> Item:
    [item] = KINDS.read(json.dumps(line).encode(), lambda name: None)[1]
    return item


def answer(*doubts: dict[str, str], valid: bool | None = None) -> Answer:
    text = json.dumps({"valid": not doubts if valid is None else valid, "issues": doubts})
    return Answer(None, text, "claude-haiku-5-5", 0.001, 812.5)


def doubt(quote: str, field: str = "response") -> dict[str, str]:
    return {"field": field, "kind": "fabricated", "quote": quote, "reason": "It is 240."}


def test_the_question_holds_the_text_and_its_source_and_no_label() -> None:
    question = JUDGE.question(item_of(grounded(TEXT, hallucinated=True, spans=[(16, 19)])))
    assert question is not None
    assert question.use == "grounding"
    assert "costs 999 EUR" in question.content
    assert "costs 240 EUR" in question.content
    assert "hallucinated" not in question.content + question.instructions


@pytest.mark.parametrize(
    ("given", "flagged", "spans"),
    [
        (answer(), False, ()),
        (answer(doubt("999")), True, ((16, 19),)),
        (answer(doubt("999", field="somewhere.else")), True, ((16, 19),)),
        (answer(doubt("nine hundred")), True, ()),
        (answer(valid=False), True, ()),
    ],
)
def test_an_answer_marks_what_it_quotes(given: Answer, flagged: bool, spans: Any) -> None:
    judged = JUDGE.judge(item_of(grounded(TEXT, hallucinated=True, spans=[(16, 19)])), given)
    assert (judged.flagged, judged.spans, judged.ms) == (flagged, spans, 812.5)


def test_an_answer_that_cannot_be_read_is_no_verdict() -> None:
    with pytest.raises(MalformedAnswer):
        JUDGE.judge(item_of(grounded(TEXT, hallucinated=True)), Answer(None, "well", "m", 0.0, 1.0))


def test_what_the_product_would_not_ask_is_not_asked() -> None:
    hook = {"tool": {"name": "Read", "parameters": {}}, "sessionId": "s"}
    line = {"document": hook, "format": "delegation", "review": {"decision": "approved"}}
    assert JUDGE.question(item_of(line)) is None
    with pytest.raises(UnreadableError):
        JUDGE.question(Item("x", {"no": "format"}, item_of(reviewed("approved")).label, format=""))


def test_equal_questions_have_one_key() -> None:
    one, same, other = (
        JUDGE.question(item_of(grounded(text, hallucinated=flag)))
        for text, flag in ((TEXT, True), (TEXT, False), (TEXT + "!", True))
    )
    assert one is not None
    assert same is not None
    assert other is not None
    assert Key.of("m", one) == Key.of("m", same)
    assert len({Key.of("m", one), Key.of("n", one), Key.of("m", other)}) == 3


def test_percentiles_are_values_that_were_measured() -> None:
    values = [float(number) for number in range(100, 0, -1)]
    assert [percentile(values, share) for share in (0.5, 0.9, 0.95, 0.99)] == [50.0, 90.0, 95.0, 99.0]
    assert percentile([float(number) for number in range(1, 1001)], 0.57) == 570.0
    assert (percentile([7.0], 0.99), percentile([], 0.5)) == (7.0, None)
