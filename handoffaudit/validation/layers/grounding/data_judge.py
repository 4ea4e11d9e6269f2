"""The data of one handoff made ready to judge texts about it, and a text's words and statements held against it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from handoffaudit.validation.layers.grounding.data_vocabulary import FUNCTION_WORDS, TELLING_WORDS
from handoffaudit.validation.layers.grounding.dated import columns_of, dated_findings
from handoffaudit.validation.layers.grounding.parties import clock_findings, parties_of, party_findings
from handoffaudit.validation.layers.grounding.records import Records
from handoffaudit.validation.layers.grounding.statements import Finding, sentences_of
from handoffaudit.validation.layers.grounding.switches import switch_findings, switched_off
from handoffaudit.validation.layers.grounding.values import Value

MAX_WORDS = 5_000
_FEW_FACTS = 15
_LONG_SERIES = 8
_TOKEN = re.compile(r"\S+")
_PART = re.compile(r"\w+")
_ENDINGS = ("ing", "ed", "es", "s", "ly", "er", "al", "ian", "an")
_SHORTEST_STEM = 4
_STRIPPED = ".,;:!?()\"'"


@dataclass(frozen=True, slots=True)
class DataWord:
    """A word of a text; `content`: it says something of its own; `new`: it says what no word of the data does."""

    start: int
    end: int
    text: str
    content: bool
    new: bool


class DataJudge:
    """The data of one handoff, made ready to judge texts about it."""

    def __init__(self, records: Records, words: frozenset[str]) -> None:
        self.records = records
        self.columns = columns_of(records)
        self.parties = parties_of(records)
        self.off = switched_off(records)
        self.words = words.union(*(fact.key for fact in records.facts))
        self.stems = frozenset(map(stem, self.words))
        self.few = len(records.facts) < _FEW_FACTS
        self.series = max(map(len, records.columns.values()), default=0) > _LONG_SERIES

    def findings(self, text: str, values: Sequence[Value]) -> list[Finding]:
        """What each statement of the text comes to."""
        sentences = sentences_of(text, values)
        found = list(dated_findings(text, sentences, self.columns))
        if self.parties:
            found += party_findings(text, sentences, self.parties)
        found += clock_findings(values, self.records)
        found += switch_findings(sentences, self.off)
        return found

    def words_of(self, text: str) -> list[DataWord]:
        tokens = islice(_TOKEN.finditer(text), MAX_WORDS)
        return [self._word(match.start(), match.end(), match.group()) for match in tokens]

    def _word(self, start: int, end: int, token: str) -> DataWord:
        word = token.lower().strip(_STRIPPED)
        content = word not in FUNCTION_WORDS and any(map(str.isalpha, word))
        new = content and word not in TELLING_WORDS and not all(map(self._holds, _PART.findall(word)))
        return DataWord(start, end, word, content, new)

    def _holds(self, word: str) -> bool:
        return word in self.words or stem(word) in self.stems


def stem(word: str) -> str:
    """`word` without one ending, enough to see `Argentine` in `Argentina`'s neighbourhood and `cities` in `city`'s."""
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST_STEM:
            return word[: -len(ending)]
    return word
