"""Statements of an agent that its own data is assumed, simulated or made up, found by the form of their sentences."""

import re
from collections.abc import Iterator
from itertools import islice
from typing import Any, Final, NamedTuple

from handoffaudit.validation.layers.grounding.records import leaves
from handoffaudit.validation.paths import Location
from handoffaudit.validation.record import Record
from handoffaudit.validation.text import lower_in_place

# The limits, in characters, for each text and for all texts of the data or the context together.
LONGEST_TEXT: Final = 50_000
LONGEST_IN_ALL: Final = 300_000

MOST_SENTENCES: Final = 50

_MOST_TEXTS = 2_000

# The search reads at most this many characters of a sentence before the word for an assumption, and after the word.
_LONGEST_PART = 150

# Data under this key is declared as assumed.
_DECLARED: Final = "assumptions"

# The search for these stems is many times faster than the search for the pattern. Both read a text in lower case.
_STEMS: Final = (
    *("assum", "simulat", "hypothetical", "placeholder", "mock", "dummy", "made up", "made-up", "fabricat"),
    *("fictional", "invented", "pretend", "suppos", "s say"),
)

_WORD = re.compile(
    r"assum|simulat|hypothetical|placeholder|mock|dummy|made[- ]up|fabricat|fictional|invented|pretend|suppos"
    r"|let(?:'|\u2019)s (?:just |now )?say"
)

_END = re.compile(r"[.!?](?=[\s\"')\]]|$)|\n")

_MADE_UP = (
    r"(?:mock(?:ed|-up)?|dummy|placeholder|hypothetical|simulated|fictional|made[- ]up|invented|fabricated|assumed"
    r"|estimated)"
)

_DATA = (
    r"(?:data(?:set|base)?|values?|numbers?|figures?|prices?|results?|responses?|lists?|entries|records?|urls?"
    r"|address(?:es)?|files?|contents?|scores?|rates?|amounts?|counts?)"
)

# To assume a task or a risk is not an assumption about data.
_NO_DATA = (
    r"(?! (?:\w+ )?(?:command|control|duty|duties|leadership|liability|office|ownership|responsibility|risks?|role)\b)"
)

# The pattern matches "We'll assume a CSV file", "let's say he sold 30", "Assuming the column is named so" and
# "# Assume the following counts".
_OWN_ACT = re.compile(
    r"\b(?:i|we)(?:(?:'|\u2019)(?:ll|ve|m|re|d))?\b(?: (?!not\b|never\b|cannot\b)\w+){0,2}"
    rf" (?:assum(?:e|ed|ing){_NO_DATA}|fabricated|invented|made up|pretend(?:ed|ing)?|mocked"
    rf"|simulat(?:e|ed|ing)(?: \w+){{0,3}} (?:{_DATA}|calls?|execution|process|requests?|search(?:es)?))\b"
    r"|\blet(?:'|\u2019)s (?:just |now )?(?:assume|suppose|pretend|say (?!that again\b|it again\b|so\b))"
    r"|^[\W\d_]*assuming\b|(?:#|//|\()\s{0,9}assum(?:e|es|ed|ing)\b",
    re.IGNORECASE,
)

# The pattern matches "The analysis is based on a mock dataset", "the following hypothetical data" and
# "# Dummy list of addresses".
_OWN_DATA = re.compile(
    r"(?:\b(?:i|we|was|were|is|are|been|based on|using|used|with|following|here|these|this)\b.{0,80}?"
    rf"|(?:#|//)\s{{0,9}})\b{_MADE_UP} (?:\w+ )?{_DATA}\b",
    re.IGNORECASE | re.DOTALL,
)


class Assumption(NamedTuple):
    """A sentence in which an agent says that its data is assumed, with the place of its text in the data."""

    place: Location
    sentence: str


def assumption_in(text: str) -> str:
    """Return the first sentence in which the writer says that its own data is assumed or made up, or an empty text.

    Orders, questions and names in code do not count. Only the first 50,000 characters and the first 50 sentences with
    a word for assumptions are read.
    """
    text = text[:LONGEST_TEXT]
    folded = lower_in_place(text)
    if not _has_stem(folded):
        return ""
    read = 0
    for _ in range(MOST_SENTENCES):
        word = _WORD.search(folded, read)
        if word is None:
            return ""
        start, read = _sentence_around(text, word)
        sentence = text[start:read].strip()
        if not sentence.endswith("?") and (_OWN_ACT.search(sentence) or _OWN_DATA.search(sentence)):
            return sentence
    return ""


def _has_stem(folded: str) -> bool:
    return any(map(folded.__contains__, _STEMS))


def _sentence_around(text: str, word: re.Match[str]) -> tuple[int, int]:
    start = max(0, word.start() - _LONGEST_PART)
    for stop in _END.finditer(text, start, word.start()):
        start = stop.end()
    longest = word.end() + _LONGEST_PART
    end = _END.search(text, word.end(), longest)
    return start, end.end() if end else min(len(text), longest)


def first_assumption(record: Record) -> Assumption | None:
    """Return the first sentence in which the source agent says that its data is assumed, or None.

    Returns None, too, if the context mentions assumed data: then the task asks for the assumption, or an earlier
    handoff of the trace stated the assumption. Texts of the data under the key `assumptions` do not count.
    """
    texts = list(_bounded_texts(record.data))
    # One search of all texts is faster than a search of each, and most handoffs have none of the words.
    if not _has_stem("\n".join(text for _, text in texts).lower()):
        return None
    found = next((Assumption(place, said) for place, text in texts if (said := assumption_in(text))), None)
    return None if found is None or _speaks_of_assumptions(record.context) else found


def _bounded_texts(data: dict[str, Any]) -> Iterator[tuple[Location, str]]:
    """Yield the first texts of the data, each cut to the length that is read."""
    room = LONGEST_IN_ALL
    for place, text in islice(_texts(data, ()), _MOST_TEXTS):
        if room <= 0:
            return
        room -= len(text)
        yield place, text[:LONGEST_TEXT]


def _texts(value: Any, place: Location) -> Iterator[tuple[Location, str]]:
    """Yield all texts of a value. The keys are sorted, so that the result does not depend on their order."""
    if isinstance(value, str):
        yield place, value
    elif isinstance(value, dict):
        for key in sorted(value, key=str):
            if key != _DECLARED:
                yield from _texts(value[key], (*place, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _texts(item, (*place, index))


def _speaks_of_assumptions(context: dict[str, Any]) -> bool:
    room = LONGEST_IN_ALL
    for source in leaves(context, "context"):
        folded = source.text[:room].lower()
        if _has_stem(folded) and _WORD.search(folded):
            return True
        room -= len(source.text)
        if room <= 0:
            return False
    return False
