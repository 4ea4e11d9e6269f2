"""The search for values in texts: numbers by value, dates by day, times by minute, other values word by word."""

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final, TypeAlias

from handoffaudit.validation.layers.grounding.sources import plain_words
from handoffaudit.validation.layers.grounding.values import TextValue, moments_in, number_of, readings_of, values_in
from handoffaudit.validation.layers.grounding.vocabulary import MULTIPLIERS, WORDS_OF_NUMBERS, Day, days_of, minutes_of

# One normal form of a value: its kind and its content.
Form: TypeAlias = tuple[str, object]

LONGEST_PHRASE: Final = 16

# The kind of the form by which a date with a year is found in a text that names only its month and day.
YEARLESS: Final = "yearless"

_LONGEST_VALUE: Final = 500

_MOST_MOMENTS: Final = 5_000

_LONGEST_FIGURE: Final = 60

_FIGURES = re.compile(r"(?<![^\W_])(\d+(?:[.,]\d+)*)(?:[ ]?(thousand|million|billion|trillion|bn|[kKmMB])(?![^\W_]))?")

# The figures of dates and versions are not numbers, except the year of a date.
_DATES_AND_VERSIONS = re.compile(r"(?<!\d)(\d{4})-\d\d-\d\d(?!\d)|(?<![^\W_])()[vV]\d+(?:\.\d+)*")

_END: Final = ""


def forms_of(value: str) -> frozenset[Form]:
    """Return the forms of a value. A text contains the value if it contains any of the forms.

    A phrase is cut to its first `LONGEST_PHRASE` words. The result is empty if there is nothing to search for.
    """
    text = value[:_LONGEST_VALUE].strip()
    found = values_in(text, quotes=False, most=1)
    if found and found[0].end - found[0].start == len(text):
        forms = frozenset(_forms_of_value(found[0]))
        if forms:
            return forms
    words = tuple(plain_words(text)[:LONGEST_PHRASE])
    return frozenset({("words", words)}) if words else frozenset()


def _forms_of_value(value: TextValue) -> Iterator[Form]:
    if value.kind == "number":
        number = number_of(value)
        if number is not None:
            yield ("number", number.value)
            if number.value in WORDS_OF_NUMBERS:
                yield ("words", (WORDS_OF_NUMBERS[int(number.value)],))
    elif value.kind == "date":
        for year, month, day in days_of(value.text):
            if year is None:
                yield ("day", (month, day))
            elif day is None:
                yield ("month", (year, month))
            else:
                yield ("date", (year, month, day))
                yield (YEARLESS, (month, day))
    elif value.kind == "time":
        yield ("time", minutes_of(value.text))


class ValueSearch:
    """A search for several values at once, which reads a text once, however many values there are."""

    def __init__(self, forms: Iterable[Form]) -> None:
        self._forms = frozenset(forms)
        kinds = {kind for kind, _ in self._forms}
        self._has_numbers = "number" in kinds
        self._has_moments = bool(kinds - {"number", "words"})
        # A tree of the words of the phrases, by first word. `_END` marks the end of a phrase and holds its form.
        self._tree: dict[str, dict[str, object]] = {}
        for form in self._forms:
            if form[0] == "words" and isinstance(form[1], tuple):
                self._add_phrase(form, form[1])

    def _add_phrase(self, form: Form, words: tuple[str, ...]) -> None:
        node: dict[str, object] = self._tree  # type: ignore[assignment]
        for word in words:
            node = node.setdefault(word, {})  # type: ignore[assignment]
        node[_END] = form

    def find_in(self, text: str) -> frozenset[Form]:
        """Return the forms that the text contains. A part of a number or of a word does not count."""
        found: set[Form] = set()
        if self._tree:
            found |= self._phrases(plain_words(text))
        if self._has_numbers:
            found |= self._forms.intersection(_numbers(text))
        if self._has_moments:
            found |= self._forms.intersection(_moments(text))
        return frozenset(found)

    def _phrases(self, words: list[str]) -> set[Form]:
        starts = self._tree.keys() & words
        found: set[Form] = {self._tree[word][_END] for word in starts if _END in self._tree[word]}  # type: ignore[misc]
        going_on = {word for word in starts if len(self._tree[word]) > (_END in self._tree[word])}
        if not going_on:
            return found
        length = len(words)
        for at in [at for at, word in enumerate(words) if word in going_on]:
            node: dict[str, object] | None = self._tree[words[at]]
            following = at + 1
            while node is not None:
                if _END in node:
                    found.add(node[_END])  # type: ignore[arg-type]
                node = node.get(words[following]) if following < length else None  # type: ignore[assignment]
                following += 1
        return found


def _numbers(text: str) -> Iterator[Form]:
    # The set removes repetitions, because most figures occur several times.
    for figure, unit in set(_FIGURES.findall(_DATES_AND_VERSIONS.sub(r"\1\2 ", text))):
        if len(figure) > _LONGEST_FIGURE:
            continue
        for number in readings_of(figure):
            yield ("number", number)
            if unit:
                yield ("number", number * MULTIPLIERS.get(unit.lower(), 1.0))


def _moments(text: str) -> Iterator[Form]:
    for value in islice(moments_in(text), _MOST_MOMENTS):
        if value.kind == "time":
            yield ("time", minutes_of(value.text))
            continue
        for day in days_of(value.text):
            yield from _forms_of_day(day)


def _forms_of_day(moment: Day) -> Iterator[Form]:
    year, month, day = moment
    yield ("date", moment)
    yield ("month", (year, month))
    if day is not None:
        yield ("day", (month, day))
        if year is None:
            yield (YEARLESS, (month, day))
