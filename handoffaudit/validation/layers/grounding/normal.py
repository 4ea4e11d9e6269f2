"""Normal forms: what two spellings of one value have in common."""

import re
import unicodedata
from typing import NamedTuple, TypeAlias

from handoffaudit.validation.layers.grounding.values import Value
from handoffaudit.validation.layers.grounding.vocabulary import MONTHS, MULTIPLIERS, NOT_NAMES, NUMBER_WORDS

_FIGURES = re.compile(r"\d+")
_THOUSANDS = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?$")
_EUROPEAN = re.compile(r"\d{1,3}(?:\.\d{3})+(?:,\d+|(?:\.\d{3}))$")
_DECIMAL_COMMA = re.compile(r"\d+,\d{1,2}$")
_PLAIN = re.compile(r"\d+(?:\.\d+)?$")
_LETTERS = re.compile(r"[^\W\d_]+")
_POSSESSIVE = re.compile(r"['\u2019]s?$")
_NAME_WORD = re.compile(r"[^\W_]+(?:['\u2019][^\W_]+)?")
_ACCENTS = re.compile("[\u0300-\u036f]")
_MIDDAY = 12 * 60
_LAST_DAY = 31


class Number(NamedTuple):
    """`step` is the last place that was written: 1.2k is 1200 with a step of 100."""

    value: float
    step: float
    percent: bool = False


def number_of(value: Value) -> Number | None:
    """The number a value is written for, or None where it is none (a version such as 1.2.3)."""
    unit = value.unit.lower()
    if value.figure.isalpha():
        word = NUMBER_WORDS.get(value.figure)
        return None if word is None else Number(float(word), 1.0)
    plain = plain_figure(value.figure)
    if plain is None:
        return None
    scale = MULTIPLIERS.get(unit, 1.0)
    decimals = len(plain.partition(".")[2])
    return Number(float(plain) * scale, scale * 10.0**-decimals, unit in ("%", "percent"))


def plain_figure(figure: str) -> str | None:
    """`1,200.50` and `1.200,50` as `1200.50`; None for what is not one number."""
    if figure.isdecimal() or _PLAIN.match(figure):
        return figure
    if _THOUSANDS.match(figure):
        return figure.replace(",", "")
    if _EUROPEAN.match(figure):
        return figure.replace(".", "").replace(",", ".")
    return figure.replace(",", ".") if _DECIMAL_COMMA.match(figure) else None


def readings_of(figure: str) -> list[float]:
    """Every number that a run of figures, commas and dots in a source may stand for: `2020,54` is a row of two."""
    if figure.isdecimal():
        return [float(figure)]
    plain = plain_figure(figure)
    parts = [float(plain)] if plain is not None else []
    if plain is None or "," in figure:
        parts += [float(part) for part in figure.split(",") if _PLAIN.match(part)]
    if not parts:
        parts = [float(part) for part in figure.replace(",", ".").split(".")]
    return parts


Day: TypeAlias = tuple[int | None, int | None, int | None]


def days_of(text: str) -> list[Day]:
    """What a date may mean, as (year, month, day), None for what it does not say; 3/4/2024 may mean two days."""
    figures = [int(figure) for figure in _FIGURES.findall(text[:40])]
    month = next((MONTHS[word] for word in _LETTERS.findall(text[:40].lower()) if word in MONTHS), None)
    if month is not None:
        year = next((figure for figure in figures if figure > _LAST_DAY), None)
        day = next((figure for figure in figures if figure <= _LAST_DAY), None)
        return [(year, month, day)]
    if len(figures) < 3:
        return []
    first, second, third = figures[:3]
    if first > _LAST_DAY:
        return [(first, second, third)]
    year = third if third > 99 else 2000 + third
    both = [(year, first, second), (year, second, first)]
    return [day for day in both if 1 <= day[1] <= 12 and 1 <= day[2] <= _LAST_DAY]


def same_day(claimed: Day, given: Day) -> bool:
    """Whether nothing that both dates say differs, and the claim says no more than a month that is given."""
    return all(one is None or other is None or one == other for one, other in zip(claimed, given, strict=True))


def minutes_of(text: str) -> int | None:
    """A time of day in minutes: `2 PM` is 14:00."""
    figures = [int(figure) for figure in _FIGURES.findall(text[:12])]
    if not figures or figures[0] > 24:
        return None
    minutes = figures[0] % 24 * 60 + (figures[1] if len(figures) > 1 else 0)
    half = text.lower().rstrip(". ")[-3:].replace(".", "")
    if half.endswith("pm") and minutes < _MIDDAY:
        return minutes + _MIDDAY
    return minutes - _MIDDAY if half.endswith("am") and minutes >= _MIDDAY else minutes


def folded(text: str) -> str:
    """`text` without case and accents, of the same sense and not always the same length."""
    lowered = text.lower()
    if lowered.isascii():
        return lowered
    return _ACCENTS.sub("", unicodedata.normalize("NFKD", lowered))


def name_words(name: str) -> list[tuple[int, str]]:
    """The words of a name that tell it from others, with their offsets: no particles, possessives or single letters."""
    if name.isalpha():
        return [(0, name)] if _tells_apart(name) else []
    words = ((match.start(), _POSSESSIVE.sub("", match.group())) for match in _NAME_WORD.finditer(name))
    return [(start, word) for start, word in words if _tells_apart(word)]


def _tells_apart(word: str) -> bool:
    return len(word) > 1 and not word.islower() and word.lower() not in NOT_NAMES
