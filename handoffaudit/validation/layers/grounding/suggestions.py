"""Suggestions: source values that the writer of an ungrounded value may have meant."""

import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property, lru_cache
from itertools import accumulate, chain, islice

from handoffaudit.validation.layers.grounding.values import (
    Number,
    TextValue,
    amounts_in,
    fold_case,
    identifiers_in,
    number_of,
    plain_figure,
)
from handoffaudit.validation.layers.grounding.vocabulary import (
    ZONES,
    Day,
    KnownDays,
    is_foreign,
    minutes_of,
    offset_of,
)
from handoffaudit.validation.prompts.masking import NAMING, VALUED, of_all_below, of_number, of_text
from handoffaudit.validation.prompts.secrets import MASKED, mask_text

_MOST_AMOUNTS = 100

_MOST_IDENTIFIERS = 1_000

_MOST_WORDS = 20_000

_MOST_COMPARED = 100

_LONGEST = 200

_SAME_SIZE = 0.02

_FEWEST_FIGURES = 3

_HOUR = 60

_WORD = re.compile(r"[^\W_]+(?:['\u2019][^\W_]+)?")

_EPOCH = re.compile(r"(?<![\w.])(?=[1-3])(\d{10})(?:\d{3})?(?![\w.])")

_ZONED_TIME = re.compile(
    rf"(\d\d?:[0-5]\d)(?::[0-5]\d(?:[.,]\d{{1,9}})?)?( ?[AaPp][Mm])? ?"
    rf"([+-]\d\d:?[0-5]\d|(?:{'|'.join(ZONES)}))(?![\w:])"
)

_RUNS = re.compile(r"\d+|[^\W\d_]+")

_MOST_PLACES = 6

_MOST_JOINS = 1_000

_MOST_EPOCHS = 1_000

_MINUTES_OF_DAY = 24 * 60

_YEAR = re.compile(r"(?:1\d|20)\d\d")

_NAME_PARTS = re.compile(r"[.\[\]]+")

_FIGURE = re.compile(r"-?\d+(?:\.\d+)?")

_NONE: Mapping[str, str] = {}

# Maps an initial ("" for any) and a length to texts without case and accents, with their original spelling.
_Written = dict[tuple[str, int], dict[str, str]]


class _Amounts:
    """Amounts of a text in order. A search compares the sizes first, because most searches end there."""

    def __init__(self) -> None:
        self._sizes: list[float] = []
        self._values: list[TextValue] = []

    def add(self, size: float, value: TextValue) -> None:
        self._sizes.append(size)
        self._values.append(value)

    @cached_property
    def _digits(self) -> list[str]:
        return [_digits(value) for value in self._values]

    @cached_property
    def _by_size(self) -> list[float]:
        return sorted(self._sizes)

    def _nearest_in_size(self, size: float) -> int:
        """Return the position of the first amount that differs from `size` by the smallest share."""
        above = bisect_left(self._by_size, size)
        near = self._by_size[max(0, above - 1) : above + 1]
        share = min(_share_apart(size, other) for other in near)
        return min(self._sizes.index(other) for other in near if _share_apart(size, other) == share)

    def nearest(self, size: float, digits: str, *, is_year: bool) -> str:
        """Return the text of the amount that is nearest to an amount of this size and with these digits.

        An amount of nearly the same size comes first, then an amount with a shifted decimal point, then an amount with
        one wrong digit. Years are not compared by size. The result is empty if there is no such amount.
        """
        if not is_year:
            at = self._nearest_in_size(size)
            if _share_apart(size, self._sizes[at]) <= _SAME_SIZE:
                return self._values[at].text
        places: list[int] = []
        if len(significant := digits.rstrip("0")) > 1:
            places = [at for at, other in enumerate(self._digits) if other.rstrip("0") == significant]
        if not places and len(digits) >= _FEWEST_FIGURES:
            # If only one digit differs, nearly half of the digits are equal at the start or at the end.
            half = (len(digits) - 1) // 2
            start, end = digits[:half], digits[-half:]
            places = [
                at
                for at, other in enumerate(self._digits)
                if (other.startswith(start) or other.endswith(end)) and _has_one_wrong(digits, other)
            ]
        return self._values[min(places, key=lambda at: _share_apart(size, self._sizes[at]))].text if places else ""


def mask_texts(names: Sequence[str], texts: Sequence[str]) -> list[str]:
    """Return the texts of sources with these names, with the secrets in them masked."""
    # The name and the value in `{"name": "DB_PASSWORD", "value": "…"}` are two sources. The name marks a secret value.
    parts = [name.rpartition(".") for name in names]
    named = {above for (above, _, last), text in zip(parts, texts, strict=True) if last in NAMING and of_text(text)}
    return [
        MASKED if _is_secret(name, text) or (last in VALUED and above in named) else mask_text(text)
        for name, (above, _, last), text in zip(names, parts, texts, strict=True)
    ]


def _is_secret(name: str, text: str) -> bool:
    *above, last = _NAME_PARTS.split(name.rstrip("]"))
    return (of_number(last) if _FIGURE.fullmatch(text) else of_text(last)) or any(map(of_all_below, above))


class Nearby:
    """A search of one text for values that are near a given value.

    Each answer is spelled as in the text, or empty if nothing is near.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._names: dict[str, _Written] = {}
        # Each search for joined runs may read the whole text.
        self._joins = _MOST_JOINS

    @cached_property
    def is_foreign(self) -> bool:
        return is_foreign(self._text)

    @cached_property
    def epochs(self) -> list[datetime]:
        """Return the moments of the text in seconds or milliseconds since 1970."""
        found = islice(_EPOCH.finditer(self._text), _MOST_EPOCHS)
        return [datetime.fromtimestamp(int(match[1]), UTC) for match in found]

    @cached_property
    def days_of_epochs(self) -> KnownDays:
        return KnownDays((one.year, one.month, one.day) for one in self.epochs)

    @cached_property
    def utc_minutes(self) -> frozenset[int]:
        """Return the times of day in UTC, as minutes, of all times with a zone and of all `epochs`."""
        found = {one.hour * 60 + one.minute for one in self.epochs}
        for match in islice(_ZONED_TIME.finditer(self._text), _MOST_AMOUNTS):
            minutes = minutes_of(match[1] + (match[2] or ""))
            if minutes is not None:
                found.add((minutes - offset_of(match[3])) % _MINUTES_OF_DAY)
        return frozenset(found)

    @cached_property
    def _joined(self) -> tuple[str, frozenset[int]]:
        """Return the letters and digits of the text without anything between them, and the borders of their runs."""
        runs = _RUNS.findall(fold_case(self._text))
        return "".join(runs), frozenset(accumulate(map(len, runs), initial=0))

    def has_joined(self, wanted: str, prefix: int = 0) -> bool:
        """Return whether neighbouring runs of letters and of digits join to `wanted`: `de89` and `3704` to `de893704`.

        Up to `prefix` characters of the first run may stand before `wanted`.
        """
        if self._joins <= 0:
            return False
        self._joins -= 1
        text, borders = self._joined
        at = text.find(wanted)
        for _ in range(_MOST_PLACES):
            if at < 0:
                return False
            if at + len(wanted) in borders and not borders.isdisjoint(range(at - prefix, at + 1)):
                return True
            at = text.find(wanted, at + 1)
        return False

    def number(self, value: TextValue, number: Number) -> str:
        """Return an amount of nearly the same size, with a shifted decimal point, or with one wrong digit.

        Percentages are only compared with percentages, and years with years.
        """
        is_year = _YEAR.fullmatch(value.text) is not None
        others = self._amounts.get((is_year, number.percent))
        return others.nearest(number.value, _digits(value), is_year=is_year) if others else ""

    @cached_property
    def _amounts(self) -> dict[tuple[bool, bool], "_Amounts"]:
        """Return the first amounts of the text, by whether they look like years and whether they are percentages."""
        found: dict[tuple[bool, bool], _Amounts] = {}
        read = ((value, number) for value in amounts_in(self._text) if (number := number_of(value)))
        for value, number in islice(read, _MOST_AMOUNTS):
            is_year = _YEAR.fullmatch(value.text) is not None
            found.setdefault((is_year, number.percent), _Amounts()).add(number.value, value)
        return found

    def name(self, word: str) -> str:
        """Return a word with nearly the same spelling and the same initial; words in lower case do not count."""
        plain = fold_case(word)
        return _likest(plain, plain[:1], self._names_with(plain[:1])) if plain else ""

    def _names_with(self, initial: str) -> _Written:
        """Return the words with the initial. Other words are skipped, because most of them are never needed."""
        names = self._names.get(initial)
        if names is None:
            names = self._names[initial] = {}
            capital = initial.upper()
            pattern = _WORD if not (initial + capital).isascii() else _words_with(initial, capital)
            for match in islice(pattern.finditer(self._text), _MOST_WORDS):
                word = match.group()
                plain = "" if word.islower() else fold_case(word)
                if plain[:1] == initial:
                    names.setdefault((initial, len(plain)), {}).setdefault(plain, word)
        return names

    def identifier(self, text: str) -> str:
        """Return an address or identifier with nearly the same spelling."""
        return _likest(fold_case(text), "", self._identifiers)

    @cached_property
    def _identifiers(self) -> _Written:
        identifiers: _Written = {}
        for value in islice(identifiers_in(self._text), _MOST_IDENTIFIERS):
            plain = fold_case(value.text)
            identifiers.setdefault(("", len(plain)), {})[plain] = value.text
        return identifiers


@lru_cache(maxsize=64)
def _words_with(initial: str, capital: str) -> "re.Pattern[str]":
    return re.compile(rf"[{re.escape(initial)}{re.escape(capital)}](?<![^\W_].)[^\W_]*(?:['\u2019][^\W_]+)?")


def _digits(value: TextValue) -> str:
    return (plain_figure(value.figure) or "").replace(".", "").lstrip("0")


def _share_apart(one: float, other: float) -> float:
    size = one if one > other else other
    return abs(one - other) / size if size else 0.0


def _has_one_wrong(digits: str, other: str) -> bool:
    # Texts whose lengths differ by more than one differ in more than one place.
    is_as_long = len(other) >= _FEWEST_FIGURES and -1 <= len(other) - len(digits) <= 1
    return is_as_long and differing_length(digits, other) <= 1


def _likest(plain: str, initial: str, written: _Written) -> str:
    """Return the text with that initial that differs least from `plain`, in its original spelling.

    The result is empty if every text differs in too many letters.
    """
    most = _most_differing(plain)
    if not most or len(plain) > _LONGEST:
        return ""
    sizes = sorted(range(len(plain) - most, len(plain) + most + 1), key=lambda size: abs(size - len(plain)))
    alike = chain.from_iterable(written.get((initial, size), _NONE) for size in sizes)
    # If at most two letters differ, at least half of the other letters are equal at the start or at the end.
    half = max(1, (len(plain) - most) // 2)
    start, end = plain[:half], plain[-half:]
    candidates = [other for other in islice(alike, _MOST_COMPARED) if other.startswith(start) or other.endswith(end)]
    near = min(candidates, key=lambda other: differing_length(plain, other), default="")
    return written[initial, len(near)][near] if near and differing_length(plain, near) <= most else ""


def _most_differing(plain: str) -> int:
    """Return in how many letters a name may differ from `plain`.

    Many short words that are one letter apart are different names, such as Bern and Berg.
    """
    if len(plain) < (4 if any(map(str.isdigit, plain)) else 5):
        return 0
    return 1 if len(plain) < 9 else 2


def differing_length(word: str, other: str) -> int:
    """Return the length of the differing part of two texts, without their common start and end.

    Two letters that swapped places count as 1.
    """
    size, start = min(len(word), len(other)), 0
    while start < size and word[start] == other[start]:
        start += 1
    end = 0
    while end < size - start and word[-1 - end] == other[-1 - end]:
        end += 1
    first, second = word[start : len(word) - end], other[start : len(other) - end]
    return 1 if len(first) == 2 and first == second[::-1] else max(len(first), len(second))


def near_day(claimed: Day, known: KnownDays) -> int | None:
    """Return the position of the first known day that differs from `claimed` in one part, or None.

    `claimed` must state at least two parts.
    """
    if sum(part is not None for part in claimed) < 2:
        return None
    year, month, day = claimed
    parts = ((None, month, day), (year, None, day), (year, month, None))
    places = [place for one in parts if one != claimed and (place := known.first(one)) is not None]
    return min(places, default=None)


def near_time(minutes: int, known: Iterable[int]) -> int | None:
    """Return the first known time in the same hour, or with the same minute 1 or 12 hours apart, or None.

    The hours are those of a clock: 23:30 and 00:30 are 1 hour apart.
    """
    hour, minute = divmod(minutes, _HOUR)
    for other in known:
        other_hour, other_minute = divmod(other, _HOUR)
        if other_hour == hour or (other_minute == minute and abs(other_hour - hour) in (1, 12, 23)):
            return other
    return None
