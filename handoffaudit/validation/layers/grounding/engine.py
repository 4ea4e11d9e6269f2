"""The search for every concrete value of a claim in the sources, and the marks of a claim."""

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from handoffaudit.validation.claims import Kind, Mark, Status
from handoffaudit.validation.layers.grounding.data import data_marks
from handoffaudit.validation.layers.grounding.derived import Derivation, as_share, rounded_from
from handoffaudit.validation.layers.grounding.sources import SourceIndex
from handoffaudit.validation.layers.grounding.suggestions import near_day, near_time
from handoffaudit.validation.layers.grounding.values import (
    MAX_VALUES,
    Number,
    TextValue,
    ValueKind,
    fold_case,
    name_words,
    number_of,
    opens_sentence,
    values_in,
)
from handoffaudit.validation.layers.grounding.vocabulary import WORDS_OF_NUMBERS, days_of, minutes_of
from handoffaudit.validation.layers.grounding.wording_judge import wording_marks
from handoffaudit.validation.layers.grounding.wording_text import speaks

_MAX_TRIES = 40

_MAX_LIKENESSES = 20

_SMALL = 12

_QUOTED_WORDS = 3

_LONG_NUMBER = 1e6

_STEM = 4

_NEAR = 40

_CODE_AFTER = re.compile(r"[\w/' -]{0,30}\(([A-Z]{2,6})\)")

_CODE_BEFORE = re.compile(r"\b([A-Z]{2,6}) \([\w/' -]{0,30}$")


class Found(NamedTuple):
    """The result of looking up one value. `part` is the span of the part that was not found."""

    status: Status
    where: str = ""
    closest: str = ""
    part: tuple[int, int] | None = None


class Lookup:
    """The lookup of the values of one claim in the sources.

    The lookup keeps the grounded numbers of the claim, because other numbers may be sums of them.
    """

    def __init__(self, text: str, index: SourceIndex) -> None:
        self.text = text
        self.index = index
        self._derivation: Derivation | None = None
        self._grounded: list[TextValue] = []
        self.tries = _MAX_TRIES
        self.likenesses = _MAX_LIKENESSES

    def find(self, value: TextValue) -> Found | None:
        """Return the result for the value, or None if the value cannot be judged."""
        kind = value.kind
        if kind == "number":
            return self.number(value)
        at = self.index.find(value.text.lower())
        return self._at(at, len(value.text)) if at >= 0 else _WAYS[kind](self, value)

    def _at(self, at: int, size: int) -> Found:
        return Found("grounded", self.index.where(at, size))

    def _locate_text(self, text: str) -> Found:
        at = self.index.find(text.lower())
        return self._at(at, len(text)) if at >= 0 else Found("grounded")

    def number(self, value: TextValue) -> Found | None:
        at = self.index.find(value.text.lower())
        if at >= 0:
            self._grounded.append(value)
            return self._at(at, len(value.text))
        number = number_of(value)
        at = self.index.find(value.figure) if value.figure != value.text else -1
        if at < 0 and number and number.value in WORDS_OF_NUMBERS:
            at = self.index.find(WORDS_OF_NUMBERS[int(number.value)])
        if number:
            plain = at >= 0 and number.step <= 1
            found = self._at(at, len(value.figure)) if plain else self._number(value, number)
            if found and found.status != "ungrounded":
                self._grounded.append(value)
            return found
        return self._at(at, len(value.figure)) if at >= 0 else None

    def _way(self, number: Number) -> str:
        """Return how a number follows from other numbers.

        The grounded numbers of the claim are parsed only here, when a derivation is first needed.
        """
        if self._derivation is None:
            self._derivation = Derivation(self.index.operands)
        for value in self._grounded:
            stated = number_of(value)
            if stated:
                self._derivation.state(stated.value)
        self._grounded.clear()
        return self._derivation.way(number)

    def _number(self, value: TextValue, number: Number) -> Found | None:
        given = self.index.numbers
        if number.value in given:
            return self._locate_text(given[number.value])
        by_size = self.index.in_order_of_size
        near = rounded_from(number, by_size)
        if near is not None:
            return Found("derived", f"rounded from {given[near]}")
        share = as_share(number, by_size)
        if share is not None:
            return self._locate_text(given[share])
        if number.value <= _SMALL and number.step == 1 and not number.percent:
            return None
        way = ""
        if self.tries and number.value < _LONG_NUMBER:
            self.tries -= 1
            way = self._way(number)
        if way:
            return Found("derived", way)
        return Found("ungrounded", closest=self.index.nearby.number(value, number) if self._may_compare() else "")

    def date(self, value: TextValue) -> Found | None:
        claimed = days_of(value.text)
        if not claimed:
            return None
        places = [place for one in claimed if (place := self.index.known_days.first(one)) is not None]
        written = list(self.index.days.values())
        if places:
            return self._locate_text(written[min(places)])
        near = [place for one in claimed if (place := near_day(one, self.index.known_days)) is not None]
        return Found("ungrounded", closest=written[min(near)] if near else "")

    def time(self, value: TextValue) -> Found | None:
        minutes = minutes_of(value.text)
        if minutes is None:
            return None
        if minutes in self.index.minutes:
            return self._locate_text(self.index.minutes[minutes])
        near = near_time(minutes, self.index.minutes)
        return Found("ungrounded", closest="" if near is None else self.index.minutes[near])

    def name(self, value: TextValue) -> Found | None:
        words = name_words(value.text)
        if not words:
            return None
        unknown = [(at, word) for at, word in words if not self._is_known(word)]
        if len(words) > 1 and unknown[:1] == words[:1] and words[0][0] == 0 and opens_sentence(self.text, value.start):
            unknown = unknown[1:]
        if not unknown:
            return Found("grounded", self._first_word(words[0][1]))
        acronym = "".join(word[0] for _, word in words).lower()
        if len(words) > 1 and (acronym in self.index.words or f"{acronym}a" in self.index.words):
            return self._locate_text(acronym)
        code = self._code_beside(value)
        if code:
            return self._locate_text(code)
        (first, word), (last, last_word) = unknown[0], unknown[-1]
        part = (value.start + first, value.start + last + len(last_word))
        return Found("ungrounded", closest=self.index.nearby.name(word) if self._may_compare() else "", part=part)

    def _code_beside(self, value: TextValue) -> str:
        """Return the grounded code beside a name that spells the code out: `Boston (BOS)`, `ORD (Chicago)`."""
        text, start = self.text, max(0, value.start - _NEAR)
        if text.find("(", start, value.end + _NEAR) < 0:
            return ""
        after = _CODE_AFTER.match(text, value.end)
        before = _CODE_BEFORE.search(text, start, value.start)
        codes = (match[1].lower() for match in (after, before) if match)
        return next((code for code in codes if code in self.index.words), "")

    def _is_known(self, word: str) -> bool:
        plain = fold_case(word)
        if plain in self.index.words or (word.isupper() and len(word) <= 6 and plain in self.index.initials):
            return True
        stem = plain[: max(_STEM, len(plain) - 2)]
        return (len(plain) > _STEM and self.index.begins_word(stem)) or self.index.has_country(plain)

    def _first_word(self, word: str) -> str:
        at = self.index.find(word.lower())
        return self.index.where(at, len(word)) if at >= 0 else ""

    def _may_compare(self) -> bool:
        """Return whether one more value may be compared with similar values, and count the comparison.

        The number of compared values per claim is limited.
        """
        self.likenesses -= 1
        return self.likenesses >= 0

    def quote(self, value: TextValue) -> Found | None:
        wanted = " ".join(value.text.lower().replace("\u2019", "'").split()).strip(" .,;:!?…")
        if wanted and wanted in self.index.flat:
            return Found("grounded", self._first_word(value.text.split()[0]))
        return Found("ungrounded") if wanted.count(" ") + 1 >= _QUOTED_WORDS else None

    def identifier(self, value: TextValue) -> Found | None:
        wanted = value.text.lower().partition("://")[2].rstrip("/") or value.text.lower().lstrip("#")
        at = self.index.folded.find(wanted)
        if at >= 0:
            return self._at(at, len(wanted))
        return Found("ungrounded", closest=self.index.nearby.identifier(value.text) if self._may_compare() else "")


_WAYS: dict[ValueKind, Callable[[Lookup, TextValue], Found | None]] = {
    "date": Lookup.date,
    "time": Lookup.time,
    "name": Lookup.name,
    "quote": Lookup.quote,
    "identifier": Lookup.identifier,
}

_KINDS: dict[ValueKind, Kind] = {
    "number": "number",
    "date": "date",
    "time": "date",
    "name": "name",
    "quote": "quote",
    "identifier": "identifier",
}

_BRACKETS = frozenset("{[")

# A text with fewer words is a value, not a statement about the data.
_FEWEST_WORDS = 5

_WORDS_PER_SPEAKER = 40

_MOST_READ = 20_000

_FEWEST_VALUES = 3

# A longer text is a separate document, not a statement.
_MOST_JUDGED = 10_000

_LISTED = re.compile(r"\*\*|\n[ \t]*(?:[-*\u2022]|\d+[.)])[ \t]")


def ground(text: str, index: SourceIndex, most: int = MAX_VALUES, *, statements: bool = True) -> list[Mark]:
    """Return the marks of the text of one claim, in order.

    There is a mark for every value, with its sources, and for wording that departs from the sources. At most
    `most` values are looked up. Without `statements`, statements about structured data are not judged.
    """
    is_json = text.lstrip()[:1] in _BRACKETS
    values = values_in(text, quotes=not is_json, most=most)
    marks = _value_marks(text, index, values)
    if is_json:
        return _drop_foreign_marks(marks)
    judge = index.judge
    if judge is None:
        marks += _apart(wording_marks(text, index), marks)
    elif statements and len(text) <= _MOST_JUDGED and _is_descriptive(text):
        marks += data_marks(text, judge, values, marks)
    return sorted(marks, key=_place)


def _drop_foreign_marks(marks: list[Mark]) -> list[Mark]:
    """Return the marks of a text that is itself JSON, without ungrounded marks if most values are in no source.

    Such a text is the result of a tool or a separate record. It does not restate the sources, so it is not reported as
    ungrounded.
    """
    grounded = [mark for mark in marks if mark.status != "ungrounded"]
    return grounded if len(marks) > 2 * len(grounded) and len(marks) >= _FEWEST_VALUES else marks


def _apart(wording: list[Mark], marks: list[Mark]) -> list[Mark]:
    """Return the wording marks that are neither a value nor part of a value.

    An ungrounded value is marked only once. If the sources have 2024-03-12 or 80 %, the parts `03` and `80` have
    no meaning of their own.
    """
    return [mark for mark in wording if not any(_is_part(mark, value) for value in marks)]


def _is_part(mark: Mark, value: Mark) -> bool:
    if not value.start <= mark.start <= mark.end <= value.end:
        return False
    return value.status == "ungrounded" or (value.kind != "name" and len(mark.text) < len(value.text))


def _is_descriptive(text: str) -> bool:
    """Return whether a text may describe data. A bare value, a list, a conversation or a question does not."""
    words = text[:_MOST_READ].lower().split()
    if _LISTED.search(text, 0, _MOST_READ):
        return False
    return len(words) >= _FEWEST_WORDS and "?" not in text and speaks(words) <= len(words) // _WORDS_PER_SPEAKER


def _place(mark: Mark) -> tuple[int, int]:
    return (mark.start, mark.end)


def _value_marks(text: str, index: SourceIndex, values: Sequence[TextValue]) -> list[Mark]:
    lookup = Lookup(text, index)
    mentions = index.names.mentions(text, values)
    marks: list[Mark] = []
    for value in values:
        if value.kind == "number" and _is_list_marker(text, value):
            continue
        if value.kind == "name" and _is_label(text, value):
            continue
        found = Found("grounded", mentions[value]) if value in mentions else lookup.find(value)
        if found is None:
            continue
        start, end = found.part or (value.start, value.end)
        where = (found.where,) if found.where else ()
        marks.append(Mark(_KINDS[value.kind], start, end, text[start:end], found.status, where, found.closest))
    return marks


def _is_list_marker(text: str, value: TextValue) -> bool:
    """Return whether the number is a list marker, such as `1.` or `2)` at the start of a line."""
    if text[value.end : value.end + 1] not in (".", ")"):
        return False
    line = text[max(0, value.start - 8) : value.start].rpartition("\n")[2]
    return not line.strip(" #*-(") and (value.start < 8 or "\n" in text[max(0, value.start - 8) : value.start])


def _is_label(text: str, value: TextValue) -> bool:
    """Return whether the name is a heading, a key before a colon, or bold text.

    Such text is capitalized whatever its meaning.
    """
    after = text[value.end : value.end + 3].lstrip("*_ ")
    if after[:1] == ":":
        return True
    before = text[max(0, value.start - 100) : value.start]
    return ("#" in before and before.rpartition("\n")[2].lstrip().startswith("#")) or (
        text[max(0, value.start - 2) : value.start] == "**" and text[value.end : value.end + 2] == "**"
    )
