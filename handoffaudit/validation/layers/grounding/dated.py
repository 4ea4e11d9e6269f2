"""Statements about a series of dated values: what was when, from when to when, and the highest and the lowest."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from handoffaudit.validation.layers.grounding.normal import Day, days_of, same_day
from handoffaudit.validation.layers.grounding.records import Fact, Records
from handoffaudit.validation.layers.grounding.statements import Finding, Sentence, Stated, comes_to

_FEWEST = 4
_NEAR = 40
_REACH = 90
_COUNTED = 32
_ISO = re.compile(r"\d{4}-\d\d-\d\d")
_YEAR = re.compile(r"(?:18|19|20)\d\d$")
_EXTREME = re.compile(r"\b(?:(peak\w*|highest|maximum|high of)|low of|lowest|minimum)\b", re.IGNORECASE)
_FROM = re.compile(r"\bfrom ", re.IGNORECASE)
_TO = re.compile(r",? ?(?:to|until|through|-) ?$")
_NOT_MEASURED = frozenset({"id", "date", "year", "dt"})


@dataclass(frozen=True, slots=True)
class Column:
    """The numbers under one key with the day of each, and the extremes among them."""

    days: Sequence[Day]
    numbers: Sequence[float]
    highest: float
    lowest: float


def columns_of(records: Records) -> list[Column]:
    """The columns of records that carry a day, with four values or more."""
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
    """What the statements about days and amounts come to."""
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
    """`from March 2020 to June 2021`, where the claim says what the data covers."""
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
    """An amount beside a day is one of that day's."""
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
    """The day after an amount, else the one before it: near it, with no other amount between, and opening no span."""
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
