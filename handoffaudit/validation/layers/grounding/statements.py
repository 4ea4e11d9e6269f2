"""A claim read as sentences with the days and amounts each states; what a statement comes to against the data."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from handoffaudit.validation.layers.grounding.normal import Day, days_of, number_of
from handoffaudit.validation.layers.grounding.values import Value

Check = Literal[
    "clock", "numbered", "score", "winner", "bound", "extreme", "extreme_day", "no_such_day", "span", "switch"
]

_SENTENCE = re.compile(r"[^.!?;\n]+(?:\.\d[^.!?;\n]*)*")
_YEAR = re.compile(r"(?:18|19|20)\d\d$")
# what makes a figure an ordinal, a duration or part of a name, and no amount
_NOT_AN_AMOUNT = re.compile(r"(?:st|nd|rd|th)\b|-(?:day|hour|week|year|month)|[ ](?:days?|hours?|weeks?)\b")
_HEDGED = re.compile(
    r"\b(?:around|about|approximately|nearly|almost|over|more than|roughly|close to|just|under|less than|above|below"
    r"|exceed\w*|surpass\w*)\s+$"
)
_HEDGE_SHARE = 0.05
_BEFORE = 14


@dataclass(frozen=True, slots=True)
class Finding:
    """What one statement comes to: `agrees` is whether the data says the same of what stands from `start` to `end`."""

    check: Check
    start: int
    end: int
    agrees: bool


@dataclass(frozen=True, slots=True)
class Stated:
    """A day or an amount of a claim; `step` is the last place an amount was written with."""

    start: int
    end: int
    day: Day | None = None
    amount: float = 0.0
    step: float = 0.0


@dataclass(frozen=True, slots=True)
class Sentence:
    start: int
    end: int
    text: str
    days: Sequence[Stated]
    amounts: Sequence[Stated]


def sentences_of(text: str, values: Sequence[Value]) -> list[Sentence]:
    """The sentences of a claim with what each states; `values` are those of the claim, in order."""
    stated = [one for value in values if (one := _stated(text, value)) is not None]
    sentences = []
    for match in _SENTENCE.finditer(text):
        start, end = match.span()
        inside = [one for one in stated if start <= one.start < end]
        days = [one for one in inside if one.day]
        sentences.append(Sentence(start, end, match.group(), days, [one for one in inside if not one.day]))
    return sentences


def _stated(text: str, value: Value) -> Stated | None:
    if value.kind == "date":
        days = days_of(value.text)
        return Stated(value.start, value.end, days[0]) if days else None
    if value.kind != "number":
        return None
    if _YEAR.match(value.text):
        return Stated(value.start, value.end, (int(value.text), None, None))
    number = number_of(value)
    if number is None or _NOT_AN_AMOUNT.match(text, value.start + len(value.figure)):
        return None
    if text[max(0, value.start - 4) : value.start] == "per ":
        return None
    return Stated(value.start, value.end, None, number.value, number.step)


def comes_to(text: str, stated: Stated, given: Sequence[float]) -> bool:
    """Whether a given number is the stated one at its precision, as a percentage, or nearly where it is hedged."""
    tolerance = stated.step * 0.5000001
    if _HEDGED.search(text[max(0, stated.start - _BEFORE) : stated.start]):
        tolerance = max(tolerance, stated.amount * _HEDGE_SHARE)
    return any(min(abs(abs(one) - stated.amount), abs(abs(one) * 100 - stated.amount)) <= tolerance for one in given)
