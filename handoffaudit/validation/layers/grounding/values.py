"""Concrete values of a text, each with its span: numbers, dates, times, names, quotes, addresses and identifiers."""

import re
from collections.abc import Iterator
from itertools import chain, islice
from typing import Literal, NamedTuple

from handoffaudit.validation.layers.grounding.vocabulary import MONTHS, NOT_NAMES, NUMBER_WORDS

ValueKind = Literal["number", "date", "time", "name", "quote", "identifier"]

MAX_VALUES = 400
_MAX_TOKEN = 120
_MONTH = "(?:" + "|".join(sorted((name.capitalize() for name in MONTHS), key=len, reverse=True)) + r")\b\.?"
_ORDINAL = "(?:st|nd|rd|th)"
_AMPM = r"[ \u202f]?[AaPp]\.?[Mm]\b"
# Each pattern begins with one class of characters: between matches the engine only compares characters with it.
_FIGURES = re.compile(
    rf"""\d(?:
    (?P<date>\d{{3}}[-/]\d\d?[-/]\d\d?(?!\d)|\d?/\d\d?/(?:\d{{4}}|\d\d)(?!\d)|\d?\.\d\d?\.\d{{4}}(?!\d)
        |\d{{3}},?[ ]{_MONTH}(?:[ ]\d\d?(?!\d))?
        |\d?{_ORDINAL}?[ ](?:of[ ])?{_MONTH}(?:,?[ ]\d{{4}}(?!\d))?)
    |(?P<time>\d?:[0-5]\d(?::[0-5]\d)?(?!\d)(?:{_AMPM})?|\d?{_AMPM})
    |(?P<number>\d{{0,60}}(?:[.,]\d{{1,60}}){{0,20}})
        (?P<unit>[ ]?(?:%|percent\b|thousand\b|million\b|billion\b|trillion\b)|(?:{_ORDINAL}|k|K|m|M|bn|B)(?![^\W_]|/))?
    )""",
    re.VERBOSE,
)
_MONTH_DATE = re.compile(rf"{_MONTH},? (?:\d\d?{_ORDINAL}?(?!\d)(?:(?:,? | of )\d{{4}}(?!\d))?|(?:of )?\d{{4}}(?!\d))")
_CAPITALISED = r"[A-ZÀ-ÖØ-Þ](?:\.(?= ?[A-Z])|[\w'\u2019&-]{0,60}(?:\.\w{1,20}){0,3})"
_TITLES = ("Mr", "Ms", "Mrs", "Dr", "Prof", "St", "Sr", "Jr", "vs")
_PARTICLES = "(?:(?:of|de|da|del|della|di|van|von|der|den|la|le|al|bin|the|&) ){0,2}"
_NAME = re.compile(rf"{_CAPITALISED}(?: {_PARTICLES}{_CAPITALISED}){{0,8}}")
_QUOTE = re.compile(r"[\"“]([^\"“”\n]{3,300})[\"”]")
_URL = re.compile(r"https?://[^\s<>\"'`)\]}]{1,500}")
_WITH_UNIT = re.compile(r"(\d+(?:[.,]\d+)*)([^\W\d_]{1,8})$")
# the groups that a number ends with
_AMOUNT = frozenset({"number", "unit"})
_SPELLED_NUMBERS = frozenset(NUMBER_WORDS)
_ENDS_SENTENCE = frozenset('.!?:;\n\r\t•*#>|-\u2013\u2014("“[')


class Value(NamedTuple):
    """A value of a text: `figure` is what a number is written with (`1,200.50`), `unit` its `%` or its multiplier."""

    kind: ValueKind
    start: int
    end: int
    text: str
    figure: str = ""
    unit: str = ""


def values_in(text: str, *, quotes: bool = True, most: int = MAX_VALUES) -> list[Value]:
    """The first values of `text`, in order, none inside another except in a quote.

    Quotes are left out for a text that is itself JSON, where quotes mean nothing.
    """
    finders = (_addresses, _figures, _month_dates, _spelled, _names)
    found = _apart([value for finder in finders for value in islice(finder(text), most)])
    if quotes and ('"' in text or "“" in text):
        found = sorted([*found, *islice(_quotes(text), most)], key=_start)
    return found[:most]


def moments_in(text: str) -> Iterator[Value]:
    """The dates and times of `text`, however many there are."""
    found = chain(_figures(text, amounts=False), _month_dates(text))
    return (value for value in found if value.kind in ("date", "time"))


def amounts_in(text: str) -> Iterator[Value]:
    """The numbers of `text` that are written with figures, and are no part of a date, a time or an identifier."""
    return (value for value in _figures(text) if value.kind == "number")


def identifiers_in(text: str) -> Iterator[Value]:
    """The addresses and identifiers of `text`, however many there are."""
    return (value for value in chain(_addresses(text), _figures(text)) if value.kind == "identifier")


def _start(value: Value) -> int:
    return value.start


def _outweighs(value: Value, other: Value) -> bool:
    """Of two that overlap: anything before a name, then the longer one."""
    return (value.kind != "name", value.end - value.start) > (other.kind != "name", other.end - other.start)


def _apart(values: list[Value]) -> list[Value]:
    """The values in order of their starts, of those that overlap only the weightier."""
    kept: list[Value] = []
    for value in sorted(values, key=_start):
        if not kept or value.start >= kept[-1].end:
            kept.append(value)
        elif _outweighs(value, kept[-1]):
            kept[-1] = value
    return kept


def _addresses(text: str) -> Iterator[Value]:
    if "://" in text:
        for match in _URL.finditer(text):
            found = match.group().rstrip(".,;:!?*_")
            yield Value("identifier", match.start(), match.start() + len(found), found)
    at = text.find("@")
    while at > 0:
        start, end = _token_around(text, at)
        found = text[start:end]
        if "." in found[at - start :] and start < at:
            yield Value("identifier", start, end, found)
        at = text.find("@", max(at + 1, end))


def _token_around(text: str, at: int) -> tuple[int, int]:
    """The e-mail address or handle around the `@` at `at`."""
    start = at
    while start > 0 and at - start < _MAX_TOKEN and (text[start - 1].isalnum() or text[start - 1] in "._+-"):
        start -= 1
    end = at + 1
    while end < len(text) and end - at < _MAX_TOKEN and (text[end].isalnum() or text[end] in ".-"):
        end += 1
    while text[end - 1] in ".-" and end > at + 1:
        end -= 1
    return start, end


def _month_dates(text: str) -> Iterator[Value]:
    for match in _MONTH_DATE.finditer(text):
        if not text[match.start() - 1 : match.start()].isalnum():
            yield Value("date", match.start(), match.end(), match.group())


def _figures(text: str, *, amounts: bool = True) -> Iterator[Value]:
    """All that is written with figures; without `amounts` no numbers, which are most of them."""
    done = 0
    for match in _FIGURES.finditer(text):
        start, end = match.span()
        if start < done:
            continue
        form = match.lastgroup
        before = text[start - 1] if start else " "
        after = text[end] if end < len(text) else " "
        if before.isalnum() or before in "_#" or ((after.isalpha() or after == "_") and form in _AMOUNT):
            start, end = _identifier_around(text, start, end)
            done = end
            value = _identifier(text[start:end], start)
            if value:
                yield value
        elif form == "date":
            yield Value("date", start, end, match.group())
        elif form == "time":
            yield Value("time", start, end, match.group())
        elif amounts and not (before == "-" and start > 1 and text[start - 2].isalpha()):
            unit = match["unit"] if form == "unit" else ""
            whole = match.group()
            yield Value("number", start, end, whole, whole[: len(whole) - len(unit)], unit.strip())


def _identifier_around(text: str, start: int, end: int) -> tuple[int, int]:
    lowest, highest = max(0, start - _MAX_TOKEN), min(len(text), end + _MAX_TOKEN)
    while start > lowest and (text[start - 1].isalnum() or text[start - 1] in "_-#"):
        start -= 1
    while end < highest and (text[end].isalnum() or text[end] in "_-"):
        end += 1
    while end > start and text[end - 1] in "_-":
        end -= 1
    while start < end and text[start] in "_-":
        start += 1
    return start, end


def _identifier(token: str, start: int) -> Value | None:
    """The value of a run of letters and figures: a figure with its unit (`64MP`), or an identifier."""
    measured = _WITH_UNIT.match(token)
    if measured:
        return Value("number", start, start + len(token), token, measured[1])
    if (token.startswith("#") and token[1:].isdigit()) or len(token) >= 4:
        return Value("identifier", start, start + len(token), token)
    return None


def _spelled(text: str) -> Iterator[Value]:
    for word in sorted(_SPELLED_NUMBERS.intersection(text.split())):
        at = text.find(word)
        while at >= 0:
            end = at + len(word)
            if not (text[at - 1 : at].isalnum() or text[end : end + 1].isalnum()):
                yield Value("number", at, end, word, word)
            at = text.find(word, end)


def _names(text: str) -> Iterator[Value]:
    for match in _NAME.finditer(text):
        start = match.start()
        if start and (text[start - 1].isalnum() or text[start - 1] in "_@/"):
            continue
        found = match.group().rstrip(".'\u2019&-")
        first, _, rest = found.partition(" ")
        shortened = False
        while first and _bare(first) in NOT_NAMES:
            start += len(found) - len(rest)
            found, shortened = rest, True
            first, _, rest = found.partition(" ")
        if found and found[0].isupper() and (rest or shortened or not opens_sentence(text, start)):
            yield Value("name", start, start + len(found), found)


def _bare(word: str) -> str:
    """`I` of `I'm`, `here` of `Here's`."""
    lowered = word.lower()
    return lowered if lowered.isalpha() else lowered.replace("\u2019", "'").partition("'")[0].rstrip(".")


def opens_sentence(text: str, at: int) -> bool:
    """Whether the word at `at` would be written with a capital whatever it means."""
    before = text[max(0, at - 8) : at].rstrip(" ")
    if before.endswith("."):
        return not before[:-1].endswith(_TITLES)
    return not before or before[-1] in _ENDS_SENTENCE


def _quotes(text: str) -> Iterator[Value]:
    for match in _QUOTE.finditer(text):
        # a mark that closes a quote, or stands for inches, opens none
        if not (text[match.start() - 1 : match.start()].isalnum() or match[1][0] == " "):
            yield Value("quote", match.start(1), match.end(1), match[1])
