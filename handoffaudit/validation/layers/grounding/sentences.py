"""The sentences of a claim, and the checks of statements about dated series and yes-or-no fields."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from handoffaudit.validation.layers.grounding.records import Fact, Records
from handoffaudit.validation.layers.grounding.values import TextValue, number_of
from handoffaudit.validation.layers.grounding.vocabulary import Day, days_of, same_day

Check = Literal[
    "clock", "numbered", "score", "winner", "bound", "extreme", "extreme_day", "no_such_day", "span", "switch"
]

_SENTENCE = re.compile(r"[^.!?;\n]+(?:\.\d[^.!?;\n]*)*")

_YEAR = re.compile(r"(?:18|19|20)\d\d$")

# Endings that make a number an ordinal, a duration or part of a name, and not an amount.
_NOT_AN_AMOUNT = re.compile(r"(?:st|nd|rd|th)\b|-(?:day|hour|week|year|month)|[ ](?:days?|hours?|weeks?)\b")

_HEDGED = re.compile(
    r"\b(?:around|about|approximately|nearly|almost|over|more than|roughly|close to|just|under|less than|above|below"
    r"|exceed\w*|surpass\w*)\s+$"
)

_HEDGE_SHARE = 0.05

_BEFORE = 14


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of checking one statement. `agrees` is True if the data confirms the text from `start` to `end`."""

    check: Check
    start: int
    end: int
    agrees: bool


@dataclass(frozen=True, slots=True)
class Stated:
    """A day or an amount that a claim states; `step` is the place value of the last written digit of an amount."""

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


def sentences_of(text: str, values: Sequence[TextValue]) -> list[Sentence]:
    """Return the sentences of a claim, each with its days and amounts. `values` are in order."""
    stated = [one for value in values if (one := _read_stated(text, value)) is not None]
    sentences = []
    for match in _SENTENCE.finditer(text):
        start, end = match.span()
        inside = [one for one in stated if start <= one.start < end]
        days = [one for one in inside if one.day]
        sentences.append(Sentence(start, end, match.group(), days, [one for one in inside if not one.day]))
    return sentences


def _read_stated(text: str, value: TextValue) -> Stated | None:
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
    """Return whether one of the given numbers is the stated amount at the precision of the amount.

    A given fraction may be stated as a percentage. A hedged amount ("about 40") may differ by 5 %.
    """
    tolerance = stated.step * 0.5000001
    if _HEDGED.search(text[max(0, stated.start - _BEFORE) : stated.start]):
        tolerance = max(tolerance, stated.amount * _HEDGE_SHARE)
    return any(min(abs(abs(one) - stated.amount), abs(abs(one) * 100 - stated.amount)) <= tolerance for one in given)


_FEWEST = 4

_NEAR = 40

_REACH = 90

_COUNTED = 32

_ISO = re.compile(r"\d{4}-\d\d-\d\d")

_EXTREME = re.compile(r"\b(?:(peak\w*|highest|maximum|high of)|low of|lowest|minimum)\b", re.IGNORECASE)

_FROM = re.compile(r"\bfrom ", re.IGNORECASE)

_TO = re.compile(r",? ?(?:to|until|through|-) ?$")

_NOT_MEASURED = frozenset({"id", "date", "year", "dt"})


@dataclass(frozen=True, slots=True)
class Column:
    """The numbers under one key with the day of each number, and the highest and the lowest number."""

    days: Sequence[Day]
    numbers: Sequence[float]
    highest: float
    lowest: float


def columns_of(records: Records) -> list[Column]:
    """Return the columns of the records that carry a day, if a column has at least four values."""
    series: dict[tuple[str, ...], list[tuple[Day, float]]] = {}
    for record, facts in records.by_record.items():
        day = next((found for fact in facts if (found := _day_of(fact))), None) if record else None
        for fact in facts if day else ():
            number = fact.number
            if number is not None and day and not (fact.key and fact.key[-1] in _NOT_MEASURED):
                series.setdefault(fact.key, []).append((day, number))
    return [_column(pairs) for pairs in series.values() if len(pairs) >= _FEWEST]


def _day_of(fact: Fact) -> Day | None:
    if _ISO.match(fact.value):
        return next(iter(days_of(fact.value[:10])), None)
    if _YEAR.match(fact.value) and _NOT_MEASURED.intersection(fact.key):
        return (int(fact.value), None, None)
    return None


def _column(pairs: list[tuple[Day, float]]) -> Column:
    numbers = [number for _, number in pairs]
    return Column([day for day, _ in pairs], numbers, max(numbers), min(numbers))


def dated_findings(text: str, sentences: Sequence[Sentence], columns: Sequence[Column]) -> Iterator[Finding]:
    """Yield the findings on statements about days and amounts."""
    if not columns:
        return
    known = list(dict.fromkeys(day for column in columns for day in column.days))
    for number, sentence in enumerate(sentences):
        if number == 0:
            yield from _span(text, sentence, known)
        yield from _extremes(text, sentence, columns)
        yield from _bound(text, sentence, columns)
        for one in sentence.days:
            if one.day and not any(same_day(one.day, day) for day in known):
                yield Finding("no_such_day", one.start, one.end, agrees=False)


def _span(text: str, sentence: Sentence, known: Sequence[Day]) -> Iterator[Finding]:
    """Yield a finding where the claim states the period of the data, as in `from March 2020 to June 2021`."""
    for first, last in zip(sentence.days, sentence.days[1:], strict=False):
        if not _FROM.search(text, max(0, first.start - 6), first.start) or not _TO.match(text[first.end : last.start]):
            continue
        if first.day and last.day:
            year = first.day[0] if first.day[0] is not None else last.day[0]
            agrees = same_day((year, *first.day[1:]), known[0]) and same_day(last.day, known[-1])
            yield Finding("span", first.start, last.end, agrees)


def _extremes(text: str, sentence: Sentence, columns: Sequence[Column]) -> Iterator[Finding]:
    for match in _EXTREME.finditer(sentence.text):
        start = sentence.start + match.start()
        after = [one for one in sentence.amounts if start <= one.start < start + _REACH]
        for one in after[:1]:
            given = [column.highest if match[1] else column.lowest for column in columns]
            yield Finding("extreme", start, one.end, comes_to(text, one, given))
        for when in [one for one in sentence.days if start <= one.start < start + _REACH][:1]:
            agrees = any(_then(when, column, column.highest if match[1] else column.lowest) for column in columns)
            yield Finding("extreme_day", start, when.end, agrees)


def _then(when: Stated, column: Column, number: float) -> bool:
    return any(
        one == number and when.day is not None and same_day(when.day, day)
        for day, one in zip(column.days, column.numbers, strict=True)
    )


def _bound(text: str, sentence: Sentence, columns: Sequence[Column]) -> Iterator[Finding]:
    """Yield a finding for each amount beside a day; the amount must be one of that day's numbers."""
    for one in sentence.amounts if sentence.days else ():
        when = None if one.step == 1 and one.amount < _COUNTED else _day_beside(text, sentence, one)
        if when is None or when.day is None:
            continue
        given = [
            number
            for column in columns
            for day, number in zip(column.days, column.numbers, strict=True)
            if same_day(when.day, day)
        ]
        if given:
            yield Finding("bound", min(one.start, when.start), max(one.end, when.end), comes_to(text, one, given))


def _day_beside(text: str, sentence: Sentence, amount: Stated) -> Stated | None:
    """Return the day after an amount, or else the day before the amount.

    The day must be near the amount, without another amount between them, and must not start a period.
    """
    after = next((day for day in sentence.days if day.start >= amount.end), None)
    if after is not None and after.start - amount.end <= _NEAR:
        between = any(amount.end <= other.start < after.start for other in sentence.amounts)
        if not between and not _FROM.search(text, max(0, after.start - 6), after.start):
            return after
    before = next((day for day in reversed(sentence.days) if day.end <= amount.start), None)
    if before is None or amount.start - before.end > _NEAR:
        return None
    between = any(before.end <= other.start < amount.start for other in sentence.amounts)
    return None if between or _TO.match(text[before.end : amount.start]) else before


_NO = frozenset({"no", "false", "none", "absent"})

# Words that occur in many keys and do not tell which key is meant.
_ANY_KEY = frozenset(
    {
        "slot",
        "port",
        "card",
        "jack",
        "status",
        "type",
        "available",
        "enabled",
        "supported",
        "technology",
        "name",
        "has",
        "is",
    }
)

_OTHER_NAMES = {"wlan": ("wlan", "wi-fi", "wifi"), "mm": ("3.5mm", "3.5 mm")}

_NEGATED = re.compile(r"\b(?:no|not|without|lacks?|lacking|neither|nor|absent|excluding|never|none)\b|n['\u2019]t\b")

_TURNED = re.compile(r"\b(?:but|however|while|although|though)\b")

_AFTER = 35


def switched_off(records: Records) -> list[str]:
    """Return the names, in lower case, of everything that the data says no to."""
    names: list[str] = []
    for fact in records.facts:
        if fact.value.strip().lower() in _NO:
            words = [word for word in fact.key if word not in _ANY_KEY and not word.isdigit()]
            if words:
                names += _OTHER_NAMES.get(words[-1], (words[-1],) if len(words[-1]) > 2 else ())
    return names


def switch_findings(sentences: Sequence[Sentence], names: Sequence[str]) -> Iterator[Finding]:
    """Yield a finding for each name that the data says no to; the claim must deny the name, too."""
    for sentence in sentences if names else ():
        text = sentence.text.lower()
        for name in names:
            at = text.find(name)
            if at >= 0:
                start = sentence.start + at
                yield Finding("switch", start, start + len(name), _is_denied(text, at, at + len(name)))


def _is_denied(text: str, start: int, end: int) -> bool:
    for match in _NEGATED.finditer(text):
        if match.start() < start:
            if not _TURNED.search(text, match.end(), start):
                return True
        elif match.start() - end < _AFTER and match.group() in ("not", "absent"):
            return True
    return False
