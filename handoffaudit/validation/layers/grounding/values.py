"""Concrete values of a text with their spans, and the normal forms that two spellings of one value share."""

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import chain, islice
from operator import attrgetter
from typing import Literal

import msgspec

from handoffaudit.validation.layers.grounding.vocabulary import LOCAL_MONTH, MONTH, MULTIPLIERS, NOT_NAMES, NUMBER_WORDS
from handoffaudit.validation.text import normalize

ValueKind = Literal["number", "date", "time", "name", "quote", "identifier"]

MAX_VALUES = 400

_MAX_TOKEN = 120
_ORDINAL = "(?:st|nd|rd|th)"
_AMPM = r"[ \u202f]?[AaPp]\.?[Mm]\b"

# The pattern begins with a character class: between matches, the engine only compares characters with the class.
_FIGURES = re.compile(
    rf"""[0-9](?:
    (?P<date>\d{{3}}[-/]\d\d?[-/]\d\d?(?!\d)|\d?/\d\d?/(?:\d{{4}}|\d\d)(?!\d)|\d?\.\d\d?\.\d{{4}}(?!\d)
        |\d{{3}},?[ ]{MONTH}(?:[ ]\d\d?(?!\d))?
        |\d?(?:{_ORDINAL}|\.|er|º)?[ ](?:(?<!\.[ ])(?:of[ ])?{MONTH}(?:,?[ ]\d{{4}}(?!\d))?
            |(?:de[ ])?{LOCAL_MONTH}(?:[ ](?:de[ ])?\d{{4}}(?!\d))?)
        |\d{{3}}年\d\d?月\d\d?日)
    |(?P<time>\d?:[0-5]\d(?::[0-5]\d)?(?!\d)(?:{_AMPM})?|\d?{_AMPM})
    |(?P<number>\d{{0,60}}(?:[.,]\d{{1,60}}){{0,20}})
        (?P<unit>[ ]?(?:%|percent\b|thousand\b|million\b|billion\b|trillion\b)|(?:{_ORDINAL}|k|K|m|M|bn|B)(?![^\W_]|/))?
    )""",
    re.VERBOSE,
)

_MONTH_DATE = re.compile(rf"{MONTH},? (?:\d\d?{_ORDINAL}?(?!\d)(?:(?:,? | of )\d{{4}}(?!\d))?|(?:of )?\d{{4}}(?!\d))")
_DAY_BEFORE = re.compile(rf"\d(?:{_ORDINAL}|\.)?(?: of)? $")
_DAY_AND_YEAR = re.compile(r"\b\d\d?\b.*\d{4}")
_CAPITALISED = r"[A-ZÀ-ÖØ-Þ](?:\.(?= ?[A-Z])|[\w'\u2019&-]{0,60}(?:\.\w{1,20}){0,3})"
_TITLES = ("Mr", "Ms", "Mrs", "Dr", "Prof", "St", "Sr", "Jr", "vs")
_PARTICLES = "(?:(?:of|de|da|del|della|di|van|von|der|den|la|le|al|bin|the|&) ){0,2}"
_NAME = re.compile(rf"{_CAPITALISED}(?: {_PARTICLES}{_CAPITALISED}){{0,8}}")
_QUOTE = re.compile(r"[\"“]([^\"“”\n]{3,300})[\"”]")
_URL = re.compile(r"https?://[^\s<>\"'`)\]}]{1,500}")
# The time of `2026-02-15T09:30:00.250Z`, whose fraction and offset are no values of their own.
_TIME_OF_MOMENT = re.compile(r"[Tt](\d\d:[0-5]\d(?::[0-5]\d)?)(?:[.,]\d{1,9})?(?:[Zz]|[+-]\d\d:?\d\d)?(?![\w:])", re.A)
# `INV-2026-0417` or `SHP-88213`, but not `ISO-9001`.
_CODE = re.compile(r"[A-Z]{1,6}(?:(?:-\d+){2,9}|-\d{5,40})")
_IBAN = re.compile(r"[A-Z]{2}\d\d(?: [0-9A-Z]{4}){2,7}(?: [0-9A-Z]{1,3})?(?![^\W_])")
_WITH_UNIT = re.compile(r"(\d+(?:[.,]\d+)*)([^\W\d_]{1,8})$")

# From this character on, the letters are those of scripts that write no blanks between words and figures.
_UNSPACED = "\u2e80"

# In a text that is not JSON, a backslash before a lower-case word begins a command of LaTeX, such as `\nu`.
_CODE_POINT = re.compile(r"\\u[0-9a-fA-F]{4}")
_ESCAPE = re.compile(rf"{_CODE_POINT.pattern}|\\x[0-9a-fA-F]{{2}}|(?:\\[nrt])+(?![a-z])")
_REST_OF_TOKEN = re.compile(rf"(?:[^\W{_UNSPACED}-\uffff]+|-+)*")

# The groups that end the match of a number.
_AMOUNT = frozenset({"number", "unit"})
_MOMENT = frozenset({"date", "time"})
_SPELLED_NUMBERS = frozenset(NUMBER_WORDS)
_END_OF_NAME = ".'\u2019&-"
_ENDS_SENTENCE = frozenset('.!?:;\n\r\t•*#>|-\u2013\u2014("“[')

_start = attrgetter("start")


# A struct without garbage collection is created several times as fast as a named tuple. A text has hundreds of values.
class TextValue(msgspec.Struct, frozen=True, gc=False):
    """A concrete value in a text.

    `figure` holds a number as written, without its unit: `1,200.50` or `twelve`. `unit` holds `%`, a multiplier or the
    ending of an ordinal number.
    """

    kind: ValueKind
    start: int
    end: int
    text: str
    figure: str = ""
    unit: str = ""


def values_in(text: str, *, quotes: bool = True, most: int = MAX_VALUES) -> list[TextValue]:
    """Return the first `most` values of `text` in order, without overlaps except for values inside a quote.

    Set `quotes` to False for a text that is itself JSON, where quotation marks do not mark quotes.
    """
    finders = (_addresses, _figures, _month_dates, _find_spelled_numbers, _names)
    found = _apart([value for finder in finders for value in islice(finder(text), most)])
    if quotes and ('"' in text or "“" in text):
        found = sorted([*found, *islice(_quotes(text), most)], key=_start)
    return found[:most]


def blank_escapes(text: str, *, is_data: bool = False) -> str:
    """Return the text with blanks for escapes such as `\\u2019`, which would otherwise join the words beside them.

    In JSON (`is_data`), line breaks and tabs stay escaped: otherwise, list numbers (`\\n2. Paris`) would become values.
    """
    if "\\" not in text:
        return text
    return (_CODE_POINT if is_data else _ESCAPE).sub(_blank, text)


def _blank(match: re.Match[str]) -> str:
    return " " * len(match.group())


def moments_in(text: str) -> Iterator[TextValue]:
    """Yield all dates and times of `text`, without a limit on their number."""
    found = chain(_figures(text, amounts=False), _month_dates(text))
    return (value for value in found if value.kind in ("date", "time"))


def amounts_in(text: str) -> Iterator[TextValue]:
    """Yield the numbers of `text` that are written in digits and are not part of a date, a time or an identifier."""
    return (value for value in _figures(text) if value.kind == "number")


def identifiers_in(text: str) -> Iterator[TextValue]:
    """Yield all addresses and identifiers of `text`, without a limit on their number."""
    return (value for value in chain(_addresses(text), _figures(text)) if value.kind == "identifier")


def _outweighs(value: TextValue, other: TextValue) -> bool:
    """Return whether `value` replaces an overlapping `other`.

    A value of another kind replaces a name; otherwise, the longer value replaces the shorter one.
    """
    return (value.kind != "name", value.end - value.start) > (other.kind != "name", other.end - other.start)


def _apart(values: list[TextValue]) -> list[TextValue]:
    """Return the values in order of their starts. Of two overlapping values, keep the one that `_outweighs` prefers."""
    kept: list[TextValue] = []
    end = 0
    for value in sorted(values, key=_start):
        if value.start >= end:
            kept.append(value)
            end = value.end
        elif _outweighs(value, kept[-1]):
            kept[-1] = value
            end = value.end
    return kept


def _addresses(text: str) -> Iterator[TextValue]:
    if "://" in text:
        for match in _URL.finditer(text):
            found = match.group().rstrip(".,;:!?*_")
            yield TextValue("identifier", match.start(), match.start() + len(found), found)
    at = text.find("@")
    while at > 0:
        start, end = _token_around(text, at)
        found = text[start:end]
        if "." in found[at - start :] and start < at:
            yield TextValue("identifier", start, end, found)
        at = text.find("@", max(at + 1, end))


def _token_around(text: str, at: int) -> tuple[int, int]:
    """Return the span of the e-mail address or handle around the `@` at `at`."""
    start = at
    while start > 0 and at - start < _MAX_TOKEN and (text[start - 1].isalnum() or text[start - 1] in "._+-"):
        start -= 1
    end = at + 1
    while end < len(text) and end - at < _MAX_TOKEN and (text[end].isalnum() or text[end] in ".-"):
        end += 1
    while text[end - 1] in ".-" and end > at + 1:
        end -= 1
    return start, end


def _month_dates(text: str) -> Iterator[TextValue]:
    for match in _MONTH_DATE.finditer(text):
        before = text[max(0, match.start() - 8) : match.start()]
        # In `1 May, 6 pm` and `1 May 2024`, the day is the figure before the month.
        if not (before[-1:].isalnum() or (_DAY_BEFORE.search(before) and not _DAY_AND_YEAR.search(match.group()))):
            yield TextValue("date", match.start(), match.end(), match.group())


def _figures(text: str, *, amounts: bool = True) -> Iterator[TextValue]:
    """Yield all values written in digits; without `amounts`, leave out numbers, the most frequent kind."""
    done, day, size = 0, 0, len(text)
    for match in _FIGURES.finditer(text):
        start, end = match.span()
        if start < done:
            continue
        form = match.lastgroup
        before = text[start - 1] if start else " "
        after = text[end] if end < size else " "
        moment = _TIME_OF_MOMENT.match(text, start - 1) if form == "time" and before in "Tt" else None
        if moment and (start - 1 == day or not text[start - 2 : start - 1].isalnum()):
            done = moment.end()
            yield TextValue("time", start, moment.end(1), moment[1])
        elif (
            (before.isalnum() and before < _UNSPACED)
            or before in "_#"
            or (form in _AMOUNT and (after == "_" or (after.isalpha() and after < _UNSPACED)))
        ):
            start, end = _identifier_around(text, start, end)
            done = end
            value = _identifier(text[start:end], start)
            if value:
                yield value
        elif form in _MOMENT:
            yield TextValue("date" if form == "date" else "time", start, end, match.group())
            day = end
        elif before == "-" and start > 1 and text[start - 2].isalpha():
            start, end = _identifier_around(text, start, end)
            if amounts and _CODE.fullmatch(text, start, end):
                done = end
                yield TextValue("identifier", start, end, text[start:end])
        elif amounts:
            whole, unit = match.group(), match["unit"] or ""
            yield TextValue("number", start, end, whole, whole[: len(whole) - len(unit)], unit.strip())


def _identifier_around(text: str, start: int, end: int) -> tuple[int, int]:
    lowest, highest = max(0, start - _MAX_TOKEN), min(len(text), end + _MAX_TOKEN)
    while start > lowest and ((sign := text[start - 1]) in "_-#" or (sign.isalnum() and sign < _UNSPACED)):
        start -= 1
    rest = (end - start <= 4 and _IBAN.match(text, start)) or _REST_OF_TOKEN.match(text, end, highest)
    end = rest.end() if rest else end
    while end > start and text[end - 1] in "_-":
        end -= 1
    while start < end and text[start] in "_-":
        start += 1
    return start, end


def _identifier(token: str, start: int) -> TextValue | None:
    """Return the value of a run of letters and digits, or None if the run is too short.

    The value is a number with its unit (`64MP`) or an identifier.
    """
    measured = _WITH_UNIT.match(token)
    if measured:
        return TextValue("number", start, start + len(token), token, measured[1])
    if (token.startswith("#") and token[1:].isdigit()) or len(token) >= 4:
        return TextValue("identifier", start, start + len(token), token)
    return None


def _find_spelled_numbers(text: str) -> Iterator[TextValue]:
    for word in sorted(_SPELLED_NUMBERS.intersection(text.split())):
        at = text.find(word)
        while at >= 0:
            end = at + len(word)
            if not (text[at - 1 : at].isalnum() or text[end : end + 1].isalnum()):
                yield TextValue("number", at, end, word, word)
            at = text.find(word, end)


def _names(text: str) -> Iterator[TextValue]:
    for match in _NAME.finditer(text):
        start = match.start()
        if start and (text[start - 1].isalnum() or text[start - 1] in "_@/"):
            continue
        found = match.group().rstrip(_END_OF_NAME)
        if " " not in found:
            # Most matches are the first words of sentences.
            if not (_is_no_name(found) or opens_sentence(text, start)):
                yield TextValue("name", start, start + len(found), found)
            continue
        first, _, rest = found.partition(" ")
        shortened = False
        while first and _is_no_name(first):
            start += len(found) - len(rest)
            found, shortened = rest, True
            first, _, rest = found.partition(" ")
        if found and found[0].isupper() and (rest or shortened or not opens_sentence(text, start)):
            yield TextValue("name", start, start + len(found), found)


# Cached, because the same words begin many sentences.
@lru_cache(maxsize=8_192)
def _is_no_name(word: str) -> bool:
    """Return whether the word cannot be part of a name. Only the part before an apostrophe counts (`Here's`)."""
    lowered = word.lower()
    return (lowered if lowered.isalpha() else lowered.replace("\u2019", "'").partition("'")[0].rstrip(".")) in NOT_NAMES


def opens_sentence(text: str, at: int) -> bool:
    """Return whether the word at `at` starts a sentence or a line, so that its capital letter has no meaning."""
    before = text[at - 2 : at] if at > 1 else ""
    if before[1:] == " " and before[0] not in " .":
        # Most words follow a single blank. The slower test below covers the other words.
        return before[0] in _ENDS_SENTENCE
    before = text[max(0, at - 8) : at].rstrip(" ")
    if before.endswith("."):
        return not before[:-1].endswith(_TITLES)
    return not before or before[-1] in _ENDS_SENTENCE


def _quotes(text: str) -> Iterator[TextValue]:
    for match in _QUOTE.finditer(text):
        # A mark that closes a quote or means inches does not open a quote.
        if not (text[match.start() - 1 : match.start()].isalnum() or match[1][0] == " "):
            yield TextValue("quote", match.start(1), match.end(1), match[1])


_THOUSANDS = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?$")
_EUROPEAN = re.compile(r"\d{1,3}(?:\.\d{3})+(?:,\d+|(?:\.\d{3}))$")
_DECIMAL_COMMA = re.compile(r"\d+,\d{1,2}$")
_PLAIN = re.compile(r"\d+(?:\.\d+)?$")
_POSSESSIVE = re.compile(r"['\u2019]s?$")
_NAME_WORD = re.compile(r"[^\W_]+(?:['\u2019][^\W_]+)?")
_ACCENTS = re.compile("[\u0300-\u036f]")


class Number(msgspec.Struct, frozen=True, gc=False):
    """A number and its precision: `step` is the place value of the last written digit.

    1.2k has the value 1200 and a step of 100.
    """

    value: float
    step: float
    percent: bool = False


def number_of(value: TextValue) -> Number | None:
    """Return the number that a value stands for, or None if the value is not a number (a version such as 1.2.3)."""
    figure = value.figure
    if not value.unit and figure.isdecimal():
        return Number(float(figure), 1.0)
    unit = value.unit.lower()
    if figure.isalpha():
        word = NUMBER_WORDS.get(figure)
        return None if word is None else Number(float(word), 1.0)
    plain = plain_figure(figure)
    if plain is None:
        return None
    scale = MULTIPLIERS.get(unit, 1.0)
    decimals = len(plain.partition(".")[2])
    return Number(float(plain) * scale, scale * 10.0**-decimals, unit in ("%", "percent"))


def plain_figure(figure: str) -> str | None:
    """Return a written number in plain form, or None if the text is not one number.

    Both `1,200.50` and `1.200,50` become `1200.50`.
    """
    if figure.isdecimal() or _PLAIN.match(figure):
        return figure
    if _THOUSANDS.match(figure):
        return figure.replace(",", "")
    if _EUROPEAN.match(figure):
        return figure.replace(".", "").replace(",", ".")
    return figure.replace(",", ".") if _DECIMAL_COMMA.match(figure) else None


def readings_of(figure: str) -> list[float]:
    """Return every number that digits, commas and dots in a source may stand for: `2020,54` may be two numbers."""
    if figure.isdecimal():
        return [float(figure)]
    plain = plain_figure(figure)
    parts = [float(plain)] if plain is not None else []
    if plain is None or ("," in figure and not _THOUSANDS.match(figure)):
        parts += [float(part) for part in figure.split(",") if _PLAIN.match(part)]
    if not parts:
        parts = [float(part) for part in figure.replace(",", ".").split(".")]
    return parts


def fold_case(text: str) -> str:
    """Return `text` in lower case without accents; the length may differ from that of `text`."""
    lowered = text.lower()
    if lowered.isascii():
        return lowered
    return _ACCENTS.sub("", normalize("NFKD", lowered))


# Cached, because texts of one trace have the same names.
@lru_cache(maxsize=8_192)
def name_words(name: str) -> tuple[tuple[int, str], ...]:
    """Return the distinguishing words of a name with their offsets: no particles, possessives or single letters."""
    if name.isalpha():
        return ((0, name),) if _tells_apart(name) else ()
    words = ((match.start(), _POSSESSIVE.sub("", match.group())) for match in _NAME_WORD.finditer(name))
    return tuple((start, word) for start, word in words if _tells_apart(word))


def _tells_apart(word: str) -> bool:
    return len(word) > 1 and not word.islower() and word.lower() not in NOT_NAMES
