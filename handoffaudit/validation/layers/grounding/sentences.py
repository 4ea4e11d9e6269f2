"""The sentences of a claim, and the checks of statements about dated series and yes-or-no fields."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Literal

from handoffaudit.validation.layers.grounding.records import Fact, Records
from handoffaudit.validation.layers.grounding.values import TextValue, number_of
from handoffaudit.validation.layers.grounding.vocabulary import Day, days_of, same_day

Check = Literal[
    "clock",
    "numbered",
    "score",
    "winner",
    "bound",
    "extreme",
    "extreme_day",
    "no_such_day",
    "span",
    "switch",
    "weekday",
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

# Statements about all days, whatever day was named before.
_WHOLE = re.compile(
    r"\b(?:overall|throughout|in total|on average|period|these|all"
    r"|(?:over|during|for|in) the (?:next|last|past|coming|whole|entire))\b",
    re.IGNORECASE,
)

_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")

_WEEKDAY = re.compile(rf"\b({'|'.join(_WEEKDAYS)})\b")

_BESIDE = 6

_NOT_MEASURED = frozenset({"id", "date", "year", "dt"})


@dataclass(frozen=True, slots=True)
class Column:
    """The numbers under one key with the day of each number, and the highest and the lowest number."""

    days: Sequence[Day]
    numbers: Sequence[float]
    highest: float
    lowest: float


def columns_of(records: Records) -> list[Column]:
    """Return the columns of at least four numbers, built from the records that have a day."""
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
    by_weekday = _days_by_weekday(known)
    day: Stated | None = None
    for number, sentence in enumerate(sentences):
        if number == 0:
            yield from _span(text, sentence, known)
        yield from _weekdays(text, sentence, by_weekday)
        dated = _with_weekdays(sentence, by_weekday)
        yield from _extremes(text, dated, columns)
        yield from _bound(text, dated, columns, day)
        day = _day_after(text, dated, day)
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


def _bound(text: str, sentence: Sentence, columns: Sequence[Column], day: Stated | None) -> Iterator[Finding]:
    """Yield a finding for each amount with a day. The finding agrees if the amount is one of that day's numbers.

    `day` is the day that an earlier sentence speaks of. Whole numbers below 32 are skipped: they often count something.
    """
    for one in sentence.amounts if sentence.days or day else ():
        when = None if one.step == 1 and one.amount < _COUNTED else _day_of_amount(text, sentence, one, day)
        if when is None or when.day is None:
            continue
        given = [
            number
            for column in columns
            for known, number in zip(column.days, column.numbers, strict=True)
            if same_day(when.day, known)
        ]
        if given:
            is_near = when.start >= sentence.start and abs(when.start - one.start) <= _REACH
            start, end = (min(one.start, when.start), max(one.end, when.end)) if is_near else (one.start, one.end)
            yield Finding("bound", start, end, comes_to(text, one, given))


def _day_of_amount(text: str, sentence: Sentence, amount: Stated, day: Stated | None) -> Stated | None:
    """Return the day beside an amount, else the last day that the text named before the amount, else None."""
    # An amount without a day beside it has no day in a sentence about all days, or after a range of days.
    beside = _day_beside(text, sentence, amount)
    if beside is not None or _WHOLE.search(sentence.text):
        return beside
    before = [one for one in sentence.days if one.end <= amount.start]
    if len(before) > 1 and _TO.match(text[before[-2].end : before[-1].start]):
        return None
    return before[-1] if before else None if sentence.days else day


def _day_after(text: str, sentence: Sentence, day: Stated | None) -> Stated | None:
    """Return the day that the text speaks of after a sentence; None after a range of days or a summary of all days."""
    if _WHOLE.search(sentence.text):
        return None
    if len(sentence.days) > 1 and _TO.match(text[sentence.days[-2].end : sentence.days[-1].start]):
        return None
    return sentence.days[-1] if sentence.days else day


def _days_by_weekday(known: Sequence[Day]) -> dict[int, list[Day]]:
    """Return the full days of the data by their weekday; 0 is Monday."""
    found: dict[int, list[Day]] = {}
    for year, month, day in known:
        if year and month and day:
            try:
                found.setdefault(date(year, month, day).weekday(), []).append((year, month, day))
            except ValueError:
                continue
    return found


def _with_weekdays(sentence: Sentence, by_weekday: dict[int, list[Day]]) -> Sentence:
    """Return the sentence with its weekdays added to its days, if each weekday falls on only one day of the data."""
    if not by_weekday or any(len(days) > 1 for days in by_weekday.values()):
        return sentence
    found = [
        Stated(sentence.start + match.start(), sentence.start + match.end(), by_weekday[weekday][0])
        for match in _WEEKDAY.finditer(sentence.text)
        if (weekday := _WEEKDAYS.index(match[1])) in by_weekday and not _find_dates(sentence, match)
    ]
    return replace(sentence, days=sorted([*sentence.days, *found], key=_start)) if found else sentence


def _weekdays(text: str, sentence: Sentence, by_weekday: dict[int, list[Day]]) -> Iterator[Finding]:
    """Yield a finding for each weekday beside a date. The finding agrees if the date falls on the weekday."""
    for match in _WEEKDAY.finditer(sentence.text) if by_weekday else ():
        for one in _find_dates(sentence, match):
            agrees = any(same_day(one.day, day) for day in by_weekday.get(_WEEKDAYS.index(match[1]), ()) if one.day)
            yield Finding("weekday", sentence.start + match.start(), one.end, agrees)


def _find_dates(sentence: Sentence, match: re.Match[str]) -> list[Stated]:
    """Return the dates right after a weekday."""
    end = sentence.start + match.end()
    return [one for one in sentence.days if 0 <= one.start - end <= _BESIDE]


def _start(stated: Stated) -> int:
    return stated.start


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
        "value",
        "has",
        "is",
    }
)

_OTHER_NAMES = {"wlan": ("wlan", "wi-fi", "wifi"), "mm": ("3.5mm", "3.5 mm")}

_NEGATED = re.compile(r"\b(?:no|not|without|lacks?|lacking|neither|nor|absent|excluding|never|none)\b|n['\u2019]t\b")

_TURNED = re.compile(r"\b(?:but|however|while|although|though)\b")

_AFTER = 35


def list_switched_off(records: Records) -> list[str]:
    """Return the names, in lower case, of all features that the data denies with a value such as `no` or `false`."""
    names: list[str] = []
    for fact in records.facts:
        if fact.value.strip().lower() in _NO:
            words = [word for word in fact.key if word not in _ANY_KEY and not word.isdigit()]
            name = " ".join(words)
            names += _OTHER_NAMES.get(name, (name,) if len(name) > 2 else ())
    return names


def switch_findings(sentences: Sequence[Sentence], names: Sequence[str]) -> Iterator[Finding]:
    """Yield a finding for each mention of a denied feature. The finding agrees if the claim denies the feature, too."""
    for sentence in sentences if names else ():
        text = sentence.text.lower()
        for name in names:
            at = _find_whole(text, name)
            if at >= 0:
                start, end = sentence.start + at, at + len(name)
                yield Finding("switch", start, start + len(name), _is_denied(text, at, end))


def _find_whole(text: str, name: str) -> int:
    """Return the offset of the name as a whole word, or -1. A regular expression for each name would be slower."""
    at = text.find(name)
    while at >= 0 and (text[at - 1 : at].isalnum() or text[at + len(name) : at + len(name) + 1].isalnum()):
        at = text.find(name, at + 1)
    return at


def _is_denied(text: str, start: int, end: int) -> bool:
    for match in _NEGATED.finditer(text):
        if match.start() < start:
            if not _TURNED.search(text, match.end(), start):
                return True
        elif match.start() - end < _AFTER and match.group() in ("not", "absent"):
            return True
    return False
