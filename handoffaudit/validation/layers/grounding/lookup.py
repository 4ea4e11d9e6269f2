"""How one value of each kind is looked up in the sources."""

import re
from collections.abc import Callable
from typing import NamedTuple

from handoffaudit.validation.layers.grounding.derived import Derivation, as_share, rounded_from
from handoffaudit.validation.layers.grounding.marks import Status
from handoffaudit.validation.layers.grounding.nearby import near_day, near_time
from handoffaudit.validation.layers.grounding.normal import (
    Number,
    days_of,
    folded,
    minutes_of,
    name_words,
    number_of,
)
from handoffaudit.validation.layers.grounding.sources import SourceIndex
from handoffaudit.validation.layers.grounding.values import Value, ValueKind, opens_sentence
from handoffaudit.validation.layers.grounding.vocabulary import WORDS_OF_NUMBERS

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
    """What looking up one value gave; `start` and `end` narrow the value's span to the part that is not found."""

    status: Status
    where: str = ""
    closest: str = ""
    part: tuple[int, int] | None = None


class Lookup:
    """The sources, and the numbers of the claim that are known to rest on them: these may be added up."""

    def __init__(self, text: str, index: SourceIndex) -> None:
        self.text = text
        self.index = index
        self._derivation: Derivation | None = None
        self._grounded: list[Value] = []
        self.tries = _MAX_TRIES
        self.likenesses = _MAX_LIKENESSES

    def find(self, value: Value) -> Found | None:
        """What the value rests on; None where nothing can be said of it."""
        kind = value.kind
        if kind == "number":
            return self.number(value)
        at = self.index.find(value.text.lower())
        return self._at(at, len(value.text)) if at >= 0 else _WAYS[kind](self, value)

    def _at(self, at: int, size: int) -> Found:
        return Found("grounded", self.index.where(at, size))

    def _written(self, text: str) -> Found:
        at = self.index.find(text.lower())
        return self._at(at, len(text)) if at >= 0 else Found("grounded")

    def number(self, value: Value) -> Found | None:
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
        """How a number follows from others; the claim's numbers so far are read only where one is asked for."""
        if self._derivation is None:
            self._derivation = Derivation(self.index.operands)
        for value in self._grounded:
            stated = number_of(value)
            if stated:
                self._derivation.state(stated.value)
        self._grounded.clear()
        return self._derivation.way(number)

    def _number(self, value: Value, number: Number) -> Found | None:
        given = self.index.numbers
        if number.value in given:
            return self._written(given[number.value])
        by_size = self.index.in_order_of_size
        near = rounded_from(number, by_size)
        if near is not None:
            return Found("derived", f"rounded from {given[near]}")
        share = as_share(number, by_size)
        if share is not None:
            return self._written(given[share])
        if number.value <= _SMALL and number.step == 1 and not number.percent:
            return None
        way = ""
        if self.tries and number.value < _LONG_NUMBER:
            self.tries -= 1
            way = self._way(number)
        if way:
            return Found("derived", way)
        return Found("ungrounded", closest=self.index.nearby.number(value, number) if self._may_compare() else "")

    def date(self, value: Value) -> Found | None:
        claimed = days_of(value.text)
        if not claimed:
            return None
        places = [place for one in claimed if (place := self.index.known_days.first(one)) is not None]
        written = list(self.index.days.values())
        if places:
            return self._written(written[min(places)])
        near = [place for one in claimed if (place := near_day(one, self.index.known_days)) is not None]
        return Found("ungrounded", closest=written[min(near)] if near else "")

    def time(self, value: Value) -> Found | None:
        minutes = minutes_of(value.text)
        if minutes is None:
            return None
        if minutes in self.index.minutes:
            return self._written(self.index.minutes[minutes])
        near = near_time(minutes, self.index.minutes)
        return Found("ungrounded", closest="" if near is None else self.index.minutes[near])

    def name(self, value: Value) -> Found | None:
        words = name_words(value.text)
        if not words:
            return None
        unknown = [(at, word) for at, word in words if not self._known(word)]
        if len(words) > 1 and unknown[:1] == words[:1] and words[0][0] == 0 and opens_sentence(self.text, value.start):
            unknown = unknown[1:]
        if not unknown:
            return Found("grounded", self._first_word(words[0][1]))
        acronym = "".join(word[0] for _, word in words).lower()
        if len(words) > 1 and (acronym in self.index.words or f"{acronym}a" in self.index.words):
            return self._written(acronym)
        code = self._code_beside(value)
        if code:
            return self._written(code)
        (first, word), (last, last_word) = unknown[0], unknown[-1]
        part = (value.start + first, value.start + last + len(last_word))
        return Found("ungrounded", closest=self.index.nearby.name(word) if self._may_compare() else "", part=part)

    def _code_beside(self, value: Value) -> str:
        """The grounded code that a name spells out: `Boston (BOS)`, `ORD (Chicago)`."""
        text, start = self.text, max(0, value.start - _NEAR)
        if text.find("(", start, value.end + _NEAR) < 0:
            return ""
        after = _CODE_AFTER.match(text, value.end)
        before = _CODE_BEFORE.search(text, start, value.start)
        codes = (match[1].lower() for match in (after, before) if match)
        return next((code for code in codes if code in self.index.words), "")

    def _known(self, word: str) -> bool:
        plain = folded(word)
        if plain in self.index.words or (word.isupper() and len(word) <= 6 and plain in self.index.initials):
            return True
        stem = plain[: max(_STEM, len(plain) - 2)]
        return (len(plain) > _STEM and self.index.begins_word(stem)) or self.index.has_country(plain)

    def _first_word(self, word: str) -> str:
        at = self.index.find(word.lower())
        return self.index.where(at, len(word)) if at >= 0 else ""

    def _may_compare(self) -> bool:
        """After some values of a claim, none is compared with what is near it any more."""
        self.likenesses -= 1
        return self.likenesses >= 0

    def quote(self, value: Value) -> Found | None:
        wanted = " ".join(value.text.lower().replace("\u2019", "'").split()).strip(" .,;:!?…")
        if wanted and wanted in self.index.flat:
            return Found("grounded", self._first_word(value.text.split()[0]))
        return Found("ungrounded") if wanted.count(" ") + 1 >= _QUOTED_WORDS else None

    def identifier(self, value: Value) -> Found | None:
        wanted = value.text.lower().partition("://")[2].rstrip("/") or value.text.lower().lstrip("#")
        at = self.index.folded.find(wanted)
        if at >= 0:
            return self._at(at, len(wanted))
        return Found("ungrounded", closest=self.index.nearby.identifier(value.text) if self._may_compare() else "")


_WAYS: dict[ValueKind, Callable[[Lookup, Value], Found | None]] = {
    "date": Lookup.date,
    "time": Lookup.time,
    "name": Lookup.name,
    "quote": Lookup.quote,
    "identifier": Lookup.identifier,
}
