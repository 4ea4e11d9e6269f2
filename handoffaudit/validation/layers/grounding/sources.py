"""The index of the sources of one handoff. Its expensive parts are built on first use."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import accumulate, islice
from operator import itemgetter

from handoffaudit.validation.claims import Source
from handoffaudit.validation.layers.grounding.data import DataJudge
from handoffaudit.validation.layers.grounding.derived import SourceOperands, scaled_numbers_in
from handoffaudit.validation.layers.grounding.mentions import SourceNames
from handoffaudit.validation.layers.grounding.records import (
    MAX_FACTS,
    Fact,
    Records,
    is_literal,
    records_of,
    records_of_leaves,
)
from handoffaudit.validation.layers.grounding.suggestions import Nearby, mask_texts
from handoffaudit.validation.layers.grounding.values import (
    TextValue,
    fold_case,
    moments_in,
    readings_of,
)
from handoffaudit.validation.layers.grounding.vocabulary import (
    COUNTRY_CODES,
    UNIT,
    Day,
    KnownDays,
    days_of,
    flat_text,
    minutes_of,
)
from handoffaudit.validation.text import PlainText, lower_in_place

_MAX_NUMBERS = 2_000

_MAX_PLACES = 6

# In texts up to this size, a plain search is faster than building sets of words.
_LONG = 16_384

_EXCERPT = 60

_LONGEST_VALUE = 120

_SENTENCE_SPACES = 3

_SENTENCE_ENDS = (".", "!", "?")

_FIGURES = re.compile(r"\d+(?:[.,]\d+)*")

_WORDS = re.compile(r"\w+")

_ASCII_WORD = re.compile(r"[a-z0-9]+")

_CODE = re.compile(r"\b[A-Z]{2}\b")

_PUNCTUATION_TO_SPACE = bytes(code if chr(code).isalnum() else ord(" ") for code in range(128)) + bytes(128)

_ONLY_FIGURES = bytes(code if chr(code) in "0123456789.," else ord(" ") for code in range(128)) + b" " * 128

_COMMON_MARKS = "\u2018\u2019\u201c\u201d\u2013\u2014\u2026\u20ac\u00a3\u00a0\u2022"

_FIRST = itemgetter(0)

_SEPARATOR = "\n"

_ESCAPED_SPACE = re.compile(r"\\u20[0-9a-fA-F]{2}|\\u00[aA]0|\\xa0")


class SourceIndex:
    """The sources of one handoff, indexed for looking up claims.

    `text` joins the texts of all sources, and `folded` is the same text in lower case. `names` holds the names that the
    sender gives to the sources.
    """

    __slots__ = ("__dict__", "_digits", "_found", "_texts", "folded", "known_words", "names", "sources", "text")

    def __init__(self, sources: Sequence[Source], names: SourceNames | None = None) -> None:
        self.sources = sources
        self.names = names or SourceNames()
        texts = [source.text for source in sources]
        self._texts = [PlainText.of(text).text for text in texts]
        self.text = _SEPARATOR.join(self._texts)
        if "\\u" in self.text or "\\x" in self.text:
            self._texts = [_unescape(text) for text in self._texts]
            self.text = _SEPARATOR.join(self._texts)
        self.folded = lower_in_place(self.text)
        self._found: dict[str, int] = {}
        # For each word of a name, whether the sources have the word in some form. `Lookup` fills this cache.
        self.known_words: dict[str, bool] = {}
        # The figures, split at their separators: `1,012` gives 1 and 012. The property `figures` fills this set.
        self._digits: frozenset[str] | None = None

    @classmethod
    def of(cls, sources: Iterable[Source], names: SourceNames | None = None) -> "SourceIndex":
        return cls(tuple(sources), names)

    @cached_property
    def judge(self) -> DataJudge | None:
        """Return the judge of texts about structured data, or None if the sources have more than a little prose."""
        records = _all_records(self.sources)
        if records is None:
            return None
        # "The survey" is not new wording if a source is named survey-7 or the context has the key context.survey.
        named = plain_words(_SEPARATOR.join([*(source.name for source in self.sources), *self.names.names]))
        return DataJudge(records, self.words.union(named))

    @cached_property
    def _starts(self) -> list[int]:
        return list(accumulate([len(text) + len(_SEPARATOR) for text in self._texts], initial=0))

    @cached_property
    def words(self) -> frozenset[str]:
        """Return all words of the sources and of the keys in them, without case and accents."""
        keys = _SEPARATOR.join(source.keys for source in self.sources if source.keys)
        return self._distinct.union(plain_words(keys)) if keys else self._distinct

    @cached_property
    def _in_order(self) -> list[str]:
        return plain_words(self.text)

    @cached_property
    def blanks(self) -> int:
        return self.text.count(" ") + self.text.count("\n")

    @cached_property
    def flat(self) -> str:
        """Return the text in lower case with single spaces and plain apostrophes, for looking up quotes."""
        return flat_text(self.folded)

    @cached_property
    def _by_word(self) -> str:
        return f" {' '.join(self.words)} "

    def begins_word(self, stem: str) -> bool:
        """Return whether a word of the sources begins with the stem, given in lower case."""
        if len(self.text) <= _LONG:
            return f" {stem}" in self._by_word
        at = bisect_left(self._sorted_words, stem)
        return at < len(self._sorted_words) and self._sorted_words[at].startswith(stem)

    @cached_property
    def _sorted_words(self) -> list[str]:
        return sorted(self.words)

    def has_country(self, word: str) -> bool:
        """Return whether the sources hold, in capitals, the code of a country whose name contains the word."""
        codes = COUNTRY_CODES.get(word)
        return codes is not None and any(lower_in_place(code) in self.words and code in self._codes for code in codes)

    @cached_property
    def _codes(self) -> frozenset[str]:
        return frozenset(_CODE.findall(self.text))

    @cached_property
    def initials(self) -> str:
        """Return the first letters of all words, in order, for looking up acronyms."""
        return "".join(map(_FIRST, self._in_order))

    @cached_property
    def figures(self) -> dict[str, None]:
        """Return the distinct figures, such as `12` and `1,012`, in order of their first place."""
        found = _figures(self.text)
        self._digits = frozenset(" ".join(found).replace(".", " ").replace(",", " ").split())
        return found

    @cached_property
    def numbers(self) -> dict[float, str]:
        """Return each number of the sources with its spelling there.

        The numbers of `_scaled_numbers` come first, then the figures in the order of their first place.
        """
        found = self._scaled_numbers.copy()
        count = 0
        for figure in self.figures:
            if count >= _MAX_NUMBERS:
                break
            if figure.isdecimal():
                found[float(figure)] = figure
                count += 1
                continue
            for number in readings_of(figure)[: _MAX_NUMBERS - count]:
                found[number] = figure
                count += 1
        return found

    @cached_property
    def _scaled_numbers(self) -> dict[float, str]:
        """Return the numbers with a scale, such as `8.2 million`, `65k` and `1e-05`, and those like `twenty five`."""
        return dict(islice(scaled_numbers_in(self.folded), _MAX_NUMBERS))

    @cached_property
    def in_order_of_size(self) -> list[float]:
        return sorted(self.numbers)

    @cached_property
    def operands(self) -> SourceOperands:
        return SourceOperands(self.numbers)

    @cached_property
    def nearby(self) -> Nearby:
        return Nearby(self.text)

    @cached_property
    def masked(self) -> str:
        """Return the text with its secrets masked. A hint shows no secret."""
        return _SEPARATOR.join(mask_texts([one.name for one in self.sources], self._texts))

    @cached_property
    def days(self) -> dict[Day, str]:
        """Return each day that the sources name, with its spelling there."""
        return {day: value.text for value in self._moments if value.kind == "date" for day in days_of(value.text)}

    @cached_property
    def known_days(self) -> KnownDays:
        return KnownDays(self.days)

    @cached_property
    def minutes(self) -> dict[int, str]:
        """Return each time of day in the sources as the minute of the day, with its spelling there."""
        times = ((minutes_of(value.text), value.text) for value in self._moments if value.kind == "time")
        return {minutes: written for minutes, written in times if minutes is not None}

    @cached_property
    def _moments(self) -> list[TextValue]:
        return list(islice(moments_in(self.text), _MAX_NUMBERS))

    def find(self, wanted: str) -> int:
        """Return the offset of `wanted` (in lower case), or -1 if no occurrence is a whole word or number."""
        known = self._found.get(wanted)
        if known is None:
            known = self._found[wanted] = self._search(wanted)
        return known

    def _search(self, wanted: str) -> int:
        if self._digits is not None and wanted.isdecimal() and wanted not in self._digits:
            return -1
        text, size = self.folded, len(wanted)
        if len(text) > _LONG and self._lacks_word_of(wanted):
            return -1
        # Of many occurrences, only the first are looked at.
        at = text.find(wanted)
        for _ in range(_MAX_PLACES):
            if at < 0 or _is_whole(text, at, at + size):
                return at
            at = text.find(wanted, at + 1)
        return -1

    def _lacks_word_of(self, wanted: str) -> bool:
        """Return whether long sources certainly lack a value, because they lack its first word.

        A search of the whole text for each value would take time that grows with the square of the text's length.
        """
        if not self.text.isascii():
            return False
        run = _ASCII_WORD.search(wanted)
        # A unit may follow a digit: 5 is in 5G.
        if run is None or (run.end() == len(wanted) and wanted[-1].isdigit()):
            return False
        return run.group() not in self._distinct

    @cached_property
    def _distinct(self) -> frozenset[str]:
        return frozenset(self._in_order)

    @cached_property
    def units(self) -> frozenset[str]:
        """Return the units behind figures and the parts of keys, in lower case."""
        return frozenset(UNIT.findall(self.folded)).union(*(plain_words(source.keys) for source in self.sources))

    def find_spelling(self, word: str) -> str:
        """Return a lower-case word in its first spelling in the sources, or an empty string if they lack the word."""
        at = self.find(word)
        return self.text[at : at + len(word)] if at >= 0 else ""

    def where(self, at: int, size: int) -> str:
        """Return the name of the source at an offset of the joined text, with the words around the offset."""
        starts = self._starts
        source = bisect_right(starts, at) - 1
        first = max(starts[source], at - _EXCERPT // 2)
        last = min(starts[source + 1] - 1, at + size + _EXCERPT // 2)
        return f"{self.sources[source].name}: {' '.join(self.text[first:last].split())}"


def _all_records(sources: Sequence[Source]) -> Records | None:
    """Return the facts of all sources, or None if one source is a sentence or over a tenth of the text is prose."""
    long = [source for source in sources if len(source.text) > _LONGEST_VALUE]
    short = [source for source in sources if len(source.text) <= _LONGEST_VALUE]
    most_prose = sum(len(source.text) for source in sources) / 10
    if any(_is_sentence(source.text) for source in short):
        return None
    if len(short) > 1 and sum(len(source.text) for source in long) <= most_prose:
        return records_of_leaves((source.name, source.text) for source in short)
    read = _read_lines(sources, most_prose)
    return None if read is None else _join_records(sources, read, most_prose)


def _read_lines(sources: Sequence[Source], most_prose: float) -> dict[int, Records] | None:
    """Return the facts of the sources that are lines of data, by source position, or None if there is too much prose.

    This step skips JSON and Python literals, so that prose is detected before any literal is parsed.
    """
    read: dict[int, Records] = {}
    prose = facts = 0
    for at, source in enumerate(sources):
        if is_literal(source.text):
            continue
        records = records_of(source.text)
        if records is None:
            prose += len(source.text)
            if prose > most_prose or _is_sentence(source.text):
                return None
            continue
        read[at] = records
        facts += len(records.facts)
        if facts >= MAX_FACTS:
            break
    return read


def _join_records(sources: Sequence[Source], read: Mapping[int, Records], most_prose: float) -> Records | None:
    """Return the facts of all sources in order, or None if there is too much prose or no fact.

    The record numbers of each source continue those of the previous source.
    """
    prose, first = 0, 0
    facts: list[Fact] = []
    for at, source in enumerate(sources):
        records = read.get(at) or (records_of(source.text) if is_literal(source.text) else None)
        if records is None:
            prose += len(source.text)
            if prose > most_prose or _is_sentence(source.text):
                return None
        else:
            found = islice(records.facts, MAX_FACTS - len(facts))
            facts += [fact._replace(record=fact.record + first) for fact in found] if first else found
            first += max((fact.record for fact in records.facts), default=0)
        if len(facts) >= MAX_FACTS:
            break
    return Records(facts) if facts else None


def _is_sentence(text: str) -> bool:
    return text.count(" ", 0, _LONGEST_VALUE) >= _SENTENCE_SPACES and text.rstrip()[-1:] in _SENTENCE_ENDS


def _unescape(text: str) -> str:
    """Return `text` with a space for each escaped no-break space and each escape of U+2000 to U+20FF, such as a dash.

    Otherwise, the characters of the escape would join the digits beside it.
    """
    return _ESCAPED_SPACE.sub(" ", text)


def plain_words(text: str) -> list[str]:
    """Return the words of `text` in order, without case and accents, split at `_` and at all punctuation."""
    for mark in _COMMON_MARKS if not text.isascii() else "":
        text = text.replace(mark, " ")
    plain = fold_case(text)
    if not plain.isascii():
        return _WORDS.findall(plain.replace("_", " "))
    # For ASCII text, a table of bytes is many times faster than a regular expression or a table of characters.
    return plain.encode("ascii").translate(_PUNCTUATION_TO_SPACE).decode("ascii").split()


def _figures(text: str) -> dict[str, None]:
    """Return the distinct matches of `_FIGURES` in a plain text, in order of their first place."""
    # A table of bytes is several times as fast as the pattern, which then reads only the few runs with odd separators.
    runs = text.encode("ascii", "replace").translate(_ONLY_FIGURES).decode("ascii").split()
    found: dict[str, None] = {}
    for run in dict.fromkeys(runs):
        figure = run if run.isdecimal() else run.strip(",.")
        if figure.isdecimal():
            found[figure] = None
        elif figure:
            found.update(dict.fromkeys(_FIGURES.findall(figure)))
    return found


def _is_whole(text: str, start: int, end: int) -> bool:
    """Return whether a match is not part of a longer value: `12` is not in `312` or `12.5`. A comma ends a value."""
    if start and text[start - 1].isalnum() and text[start].isalnum():
        return False
    if end < len(text) and text[end].isalnum() and text[end - 1].isalnum():
        # A unit may follow a digit: 5G, 64MP, 144Hz.
        return text[end - 1].isdigit() and text[end].isalpha()
    if not text[start].isdigit():
        return True
    before = start > 1 and text[start - 1] == "." and text[start - 2].isdigit()
    after = end + 1 < len(text) and text[end] == "." and text[end + 1].isdigit() and "." not in text[start:end]
    return not (before or after)
