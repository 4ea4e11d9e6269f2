"""Mentions of a source in a claim, and the handoffs and claims that are not checked against the sources."""

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Final, NamedTuple

import orjson

from handoffaudit.validation.claims import Claim
from handoffaudit.validation.layers.grounding.values import TextValue, values_in
from handoffaudit.validation.layers.grounding.vocabulary import MONTHS, MULTIPLIERS
from handoffaudit.validation.record import Record
from handoffaudit.validation.text import PlainText, lower_in_place

_MAX_NAMES = 20_000

_MAX_NAME_LENGTH = 500

_MAX_NAMES_PER_WORD = 20

_MAX_CUES = 100

_BREAKS = frozenset("\"'\u2018\u2019\u201c\u201d`()[]{}<>,;|")

_TRAILING = ".:!?*_…"

_AROUND = "".join(_BREAKS) + _TRAILING + " \t\n"

# An address must have a letter after the scheme. Otherwise, `a://4711` would pass any number off as an address.
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://(?=[!-~]*[a-z])[!-~]+", re.IGNORECASE)

# Scripts without blanks between words are excluded, because a whole sentence would look like an identifier.
_LATIN = "a-zA-ZÀ-ÖØ-öø-ɏ"

_IDENTIFIER = re.compile(rf"(?=.*[0-9_/@.#])(?:[{_LATIN}]|(?=.*[{_LATIN}]{{4}}))[{_LATIN}0-9_/@.#-]{{1,100}}")

# A figure with its unit (500-person, 4711/annum) or after an abbreviation (approx.4711), or a quarter (Q3-2099).
_QUANTITY = re.compile(
    rf"\d[\d.]*(?:bn|[kmb])?[-_/][{_LATIN}]+|[{_LATIN}]{{1,6}}\.\d[\d.]*"
    r"|[qh][1-4][-_/.]?(?:19|20)\d\d|(?:19|20)\d\d[-_/.]?[qh][1-4]",
    re.IGNORECASE,
)

_PATH = re.compile(r"/|\.[a-z]{2,5}$")

_LETTERS = re.compile(r"[^\W\d_]+")

_UNITS: Final = frozenset(
    {"aud", "brl", "cad", "chf", "cny", "czk", "dkk", "eur", "gbp", "hkd", "huf", "inr", "jpy", "krw", "mxn", "nok"}
    | {"nzd", "pln", "rmb", "ron", "rub", "sek", "sgd", "try", "twd", "usd", "zar", "dollar", "dollars", "euro"}
    | {"euros", "pound", "pounds", "mio", "mrd", "pct", "per", "percent", "day", "days", "month", "months", "year"}
    | {"years", "fy", *MONTHS, *(unit for unit in MULTIPLIERS if len(unit) > 1)}
)

# Without a unit, a one-letter multiplier can be part of a source's name (m-7). With a unit, the letter multiplies an
# amount (EUR5m).
_MULTIPLIER_LETTERS: Final = frozenset(unit for unit in MULTIPLIERS if len(unit) == 1)

# A title that ends with a year, such as "Annual Report 2025", and not a statement such as "Founded in 2025".
_TITLE_WITH_YEAR = re.compile(r"(?:\D*[\W_])?([^\W\d_]{4,}) (?:19|20)\d\d")

# Before a year, these words and participles state a time: "profitable since 2099", "founded 2099".
_TIME_WORDS: Final = frozenset(
    {"about", "after", "around", "before", "beyond", "circa", "during", "from", "since", "through", "till", "until"}
    | {"year", "years", "seit", "nach", "jahr", "depuis", "avant", "apr\u00e8s", "desde", "hasta", *MONTHS}
)

_WORD = re.compile(r"\w+")

_LONG_WORD = re.compile(r"[^\W\d_]{4}")

_CUE = re.compile(
    r"\[|\b(?:according to|as per|per|see|cf\.|citing|cited (?:in|by)|(?:reported|stated|shown|noted) (?:in|by)"
    r"|sources?:)\s(?:the\s)?[\"“]?",
    re.IGNORECASE,
)

_VALUE_KINDS: Final = frozenset({"number", "date", "time"})


class Mention(NamedTuple):
    """The span of a source's name in a claim.

    `where` is the location and the name of the source (`evidence[0].source: annual report 2025`). `has_year` is true if
    the name is a title that ends with a year.
    """

    start: int
    end: int
    where: str
    has_year: bool


class SourceNames:
    """The names of the supplied sources, indexed to find their mentions.

    A name without blanks that looks like an identifier (`survey_7`, `https://example.com/2024`) is a mention wherever
    the name is a whole token. Any other name (`Annual Report 2025`) could also be ordinary wording. Such a name is a
    mention only after words that cite it, as in "according to Annual Report 2025" or "[Annual Report 2025]". A number,
    an amount or a date is never a mention.

    The sender chooses the names and could choose a whole statement as a name. Therefore, an identifier must be written
    in Latin letters and must not be the whole claim, unless it is a path or an address. Of the figures in any other
    name, a mention covers only the year at the end, and only if the name is a title.
    """

    __slots__ = ("_identifiers", "_phrases", "names")

    def __init__(self, places: Iterable[tuple[str, str]] = ()) -> None:
        """Index the first 20,000 pairs of a name and the location of its source."""
        self._identifiers: dict[str, str] = {}
        self._phrases: dict[str, list[tuple[str, str]]] = {}
        pairs = [(name.strip()[: _MAX_NAME_LENGTH + 1], place) for name, place in islice(places, _MAX_NAMES)]
        self.names = [name for name, _ in pairs]
        for name, place in pairs:
            self._add(name, place)

    def _add(self, name: str, place: str) -> None:
        if len(name) > _MAX_NAME_LENGTH:
            return
        where = f"{place}: {name}"
        # The texts in which the name is looked up are plain, too.
        name = PlainText.of(name).text
        lowered = lower_in_place(name)
        if not any(map(str.isalpha, name)) or _is_value(name):
            return
        if _is_identifier(name):
            self._identifiers.setdefault(lowered, where)
        elif _LONG_WORD.search(name) and (word := _WORD.match(lowered)):
            same = self._phrases.setdefault(word[0], [])
            if len(same) < _MAX_NAMES_PER_WORD:
                same.append((lowered, where))

    def mentions(self, text: str, values: Iterable[TextValue]) -> Mapping[TextValue, str]:
        """Return the values of `text` that are part of a mention, each with the location and name of its source."""
        if not (self._identifiers or self._phrases):
            return {}
        lowered = lower_in_place(text)
        phrases = list(self._find_cited(lowered)) if self._phrases else []
        found: dict[TextValue, str] = {}
        for value in values:
            where = self._identifier_around(lowered, value) or next(
                (one.where for one in phrases if _covers(one, value)), ""
            )
            if where:
                found[value] = where
        return found

    def _identifier_around(self, lowered: str, value: TextValue) -> str:
        token = _token_around(lowered, value)
        where = self._identifiers.get(token, "")
        alone = where and value.kind in _VALUE_KINDS and not _PATH.search(token) and _is_whole(lowered, token)
        return "" if alone else where

    def _find_cited(self, lowered: str) -> Iterator[Mention]:
        for number, cue in enumerate(_CUE.finditer(lowered)):
            if number == _MAX_CUES:
                return
            start = cue.end()
            word = _WORD.match(lowered, start)
            for name, where in self._phrases.get(word[0], ()) if word else ():
                end = start + len(name)
                if lowered.startswith(name, start) and not lowered[end : end + 1].isalnum():
                    yield Mention(start, end, where, _is_title_with_year(name))


def _covers(mention: Mention, value: TextValue) -> bool:
    """Return whether the value is part of the mention. Of the figures in a title, only the year counts."""
    if not (mention.start <= value.start and value.end <= mention.end):
        return False
    is_figure = value.kind in _VALUE_KINDS or any(map(str.isdigit, value.text))
    return not is_figure or (mention.has_year and value.end == mention.end)


def _is_identifier(name: str) -> bool:
    if _ADDRESS.fullmatch(name):
        return not any(map(_is_break, name))
    if not _IDENTIFIER.fullmatch(name) or _QUANTITY.fullmatch(name):
        return False
    words = set(_LETTERS.findall(name.lower())) - _MULTIPLIER_LETTERS
    return not words or not words <= _UNITS


def _is_title_with_year(name: str) -> bool:
    """Return whether a name in lower case is a title that ends with a year."""
    title = _TITLE_WITH_YEAR.fullmatch(name)
    return title is not None and title[1] not in _TIME_WORDS and not title[1].endswith("ed")


def _is_whole(text: str, token: str) -> bool:
    """Return whether the text consists of the token, apart from brackets and punctuation."""
    return text.strip(_AROUND) == token


def _is_break(sign: str) -> bool:
    return sign.isspace() or sign in _BREAKS


def _is_value(name: str) -> bool:
    return any(
        value.kind in _VALUE_KINDS and value.end - value.start == len(name) for value in values_in(name, quotes=False)
    )


def _token_around(text: str, value: TextValue) -> str:
    """Return the token that holds the value, without trailing punctuation."""
    start, end = value.start, value.end
    lowest, highest = start - _MAX_NAME_LENGTH, end + _MAX_NAME_LENGTH
    while start > max(lowest, 0) and not _is_break(text[start - 1]):
        start -= 1
    while end < min(highest, len(text)) and not _is_break(text[end]):
        end += 1
    return text[start:end].rstrip(_TRAILING)


# Problem types of `universal` handoffs that ask for something new.
ORDERS: Final = frozenset({"creative", "implementation"})

_ANYTHING: Final = frozenset({("content",), ("message",), ("output",), ("text",)})

# The fields that an agent or its framework records about its own run. Sources rarely have their values.
_OF_THE_RUN: Final = frozenset(
    {
        *("confidence", "run_id", "trace_id", "span_id", "thread_id", "tool_call_id", "checkpoint_id"),
        *("elapsed_ms", "elapsed_seconds", "latency_ms", "duration_ms"),
        *("tokens_used", "input_tokens", "output_tokens", "prompt_tokens", "completion_tokens", "total_tokens"),
    }
)


def is_order(record: Record) -> bool:
    """Return whether the handoff is an order without an original prompt and without evidence."""
    asked = record.evidence or record.context.get("original_prompt")
    return record.format == "universal" and record.handoff_type in ORDERS and not asked


def states_nothing(claim: Claim) -> bool:
    """Return whether the text of a claim states nothing that a source can confirm.

    This is true for JSON, which is the output of a program, and for one word or number about the run of the agent, such
    as `confidence` or `elapsed_ms`. It is also true for a single word in a general field such as `content` or `text`.
    """
    text = claim.text.strip()
    if describes_run(claim):
        return len(text.split(maxsplit=1)) < 2
    if is_json(text):
        return True
    return claim.location[-1:] in _ANYTHING and len(text.split(maxsplit=1)) < 2


def describes_run(claim: Claim) -> bool:
    return bool(claim.location) and claim.location[-1] in _OF_THE_RUN


def puts_out(record: Record) -> bool:
    """Return whether all texts at the top of the data are JSON, and there is at least one.

    JSON is the output of a program and no claim of an agent.
    """
    texts = [text for value in record.data.values() if isinstance(value, str) and (text := value.strip())]
    return bool(texts) and all(map(is_json, texts))


def is_json(text: str) -> bool:
    """Return whether the whole text is a JSON object or array."""
    if text.lstrip()[:1] not in ("{", "["):
        return False
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return False
    return True
