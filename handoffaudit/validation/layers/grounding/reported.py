"""Reported values: they came only from texts that are not judged, such as those of guessed observers or persons."""

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cached_property, lru_cache
from typing import Final

import msgspec

from handoffaudit.validation.claims import Claim, Kind, Mark, Source
from handoffaudit.validation.layers.grounding.lookup import Lookup
from handoffaudit.validation.layers.grounding.sources import SourceIndex, plain_words
from handoffaudit.validation.layers.grounding.values import (
    MAX_VALUES,
    TextValue,
    blank_escapes,
    fold_case,
    name_words,
    number_of,
    plain_figure,
    readings_of,
    values_in,
)
from handoffaudit.validation.layers.grounding.vocabulary import days_of, minutes_of
from handoffaudit.validation.text import PlainText, lower_in_place

# One handoff reports at most `MOST_KEYS` keys. A handoff is compared with about `MOST_KEYS_OF_TRACE` keys at most.
MOST_KEYS: Final = 500
MOST_KEYS_OF_TRACE: Final = 20_000

_LONGEST_KEY: Final = 120
_LONGEST_VALUE: Final = 500
# A whole number up to this limit that is in no source is often a plain count.
_PLAIN_COUNT: Final = 12


@lru_cache(maxsize=8_192)
def keys_of(kind: str, text: str) -> tuple[str, ...]:
    """Return the keys of a value, which are equal for the same value in another notation.

    A name has a key for each word, because later texts use parts of the name. Any other value has a key for each way to
    read the value.
    """
    text = text[:_LONGEST_VALUE]
    if kind == "name":
        found = [fold_case(word) for _, word in name_words(text)]
    elif kind == "number":
        found = _number_keys(text)
    elif kind == "date":
        days = [f"{year or ''}-{month}-{day or ''}" for year, month, day in days_of(text)]
        minutes = None if days else minutes_of(text)
        found = days or ([] if minutes is None else [f"{minutes}min"])
    elif kind == "identifier":
        lowered = lower_in_place(text)
        found = [lowered.partition("://")[2].rstrip("/") or lowered.lstrip("#")]
    else:
        found = [" ".join(plain_words(text))]
    return tuple(dict.fromkeys(f"{kind[0]}:{key}"[:_LONGEST_KEY] for key in found if key))


def _number_keys(text: str) -> list[str]:
    values = values_in(text, quotes=False, most=1)
    number = number_of(values[0]) if values and values[0].kind == "number" else None
    if number is not None:
        return [repr(number.value)]
    return [repr(reading) for reading in readings_of(text)] or [lower_in_place(text)]


def reported_keys(claims: Iterable[Claim], known: Collection[str] = ()) -> list[str]:
    """Return the keys of the reported values in claims, without the keys in `known`, at most `MOST_KEYS`."""
    found: dict[str, None] = {}
    for claim in claims:
        for mark in claim.marks:
            if mark.status == "reported":
                found.update(dict.fromkeys(keys_of(mark.kind, mark.text)))
    return [key for key in found if key not in known][:MOST_KEYS]


def report(text: str, index: SourceIndex, most: int = MAX_VALUES) -> list[Mark]:
    """Return the marks of a text that is not judged: its values are grounded or reported.

    A whole number up to 12 that is in no source gets no mark. A value is looked up as written, and a number also
    without and with separators. The full lookup is not used, because it would index the sources for texts that cannot
    have a finding.
    """
    marks = []
    plain = PlainText.of(text)
    is_data = plain.text.lstrip()[:1] in ("{", "[")
    for value in values_in(blank_escapes(plain.text, is_data=is_data), quotes=not is_data, most=most):
        at, size = _find(value, index)
        if at < 0 and value.kind == "number" and _is_plain_count(value):
            continue
        kind: Kind = "date" if value.kind == "time" else value.kind
        where = (index.where(at, size),) if at >= 0 else ()
        marks.append(
            Mark(kind, *plain.span(value.start, value.end), value.text, "grounded" if where else "reported", where)
        )
    return marks


def _is_plain_count(value: TextValue) -> bool:
    number = number_of(value)
    return number is not None and number.value <= _PLAIN_COUNT and number.step == 1 and not number.percent


def _find(value: TextValue, index: SourceIndex) -> tuple[int, int]:
    """Return the offset and the length of a value in the sources; the offset is -1 if the sources lack the value."""
    if value.kind == "name":
        return _find_name(value.text, index)
    form = lower_in_place(value.text)
    at = index.find(form)
    plain = plain_figure(value.figure) if at < 0 and value.figure else None
    if plain is None:
        return at, len(form)
    for form in (value.figure, plain, f"{int(plain):,}" if plain.isdecimal() else plain):
        at = index.find(form)
        if at >= 0:
            return at, len(form)
    return -1, 0


def _find_name(name: str, index: SourceIndex) -> tuple[int, int]:
    """Return the lowest offset of a word of the name, and its length; -1 and 0 if the sources lack one of the words."""
    first = (-1, 0)
    for _, word in name_words(name):
        at = index.find(lower_in_place(word))
        if at < 0:
            return -1, 0
        first = min(first, (at, len(word))) if first[0] >= 0 else (at, len(word))
    return first


class Reported:
    """The reported values of a trace, and the evidence that can confirm them.

    The context of a handoff does not confirm a reported value, because agents repeat reported values in the context.
    """

    def __init__(self, keys: Collection[str], evidence: Callable[[], Sequence[Source]]) -> None:
        self._keys, self._evidence = keys, evidence

    def mark(self, marks: list[Mark]) -> list[Mark]:
        """Return the marks, with the status `reported` for values that were reported and are in no evidence."""
        return [self._mark_reported(mark) for mark in marks] if self._keys else marks

    def _mark_reported(self, mark: Mark) -> Mark:
        if mark.kind == "wording" or mark.status == "reported":
            return mark
        keys = keys_of(mark.kind, mark.text)
        if not keys:
            return mark
        known = [key in self._keys for key in keys]
        # One reported word makes the origin of a grounded name doubtful. An ungrounded name counts as reported only if
        # all its words were reported.
        was_reported = all(known) if mark.status == "ungrounded" else any(known)
        if not was_reported or self._is_evident(mark):
            return mark
        return msgspec.structs.replace(mark, status="reported", where=(), closest="")

    def _is_evident(self, mark: Mark) -> bool:
        if mark.status == "ungrounded" or not self._index.sources:
            return False
        lookup = Lookup(mark.text, self._index)
        lookup.tries = lookup.likenesses = 0
        found = [lookup.find(value) for value in values_in(mark.text, most=1)]
        if found:
            return all(one is not None and one.status == "grounded" for one in found)
        return self._index.find(lower_in_place(mark.text)) >= 0

    @cached_property
    def _index(self) -> SourceIndex:
        return SourceIndex.of(self._evidence())
