"""The judge of texts about structured data, which marks the phrases that the data does not support."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from math import log1p

from handoffaudit.validation.claims import Mark
from handoffaudit.validation.layers.grounding.parties import clock_findings, parties_of, party_findings
from handoffaudit.validation.layers.grounding.records import Records
from handoffaudit.validation.layers.grounding.sentences import (
    Finding,
    columns_of,
    dated_findings,
    list_switched_off,
    sentences_of,
    switch_findings,
)
from handoffaudit.validation.layers.grounding.values import TextValue

_FUNCTION = """
    a an the and or but nor so of in on at to from by for with without as is are was were be been being am do does
    did has have had having it its this that these those they them their there here he she his her him we our us you
    your i my me who whom whose which what when where while whereas than then also both each all any some no not
    only just such over under between into onto within during after before until since up down out off through
    across about around against more most less least very much many few other another same own if because although
    though however per via can could will would may might shall should must one two three four five six seven eight
    nine ten first second third
"""

_TELLING = """
    data chart graph line shows show showing shown displays display illustrates illustrate depicts represents
    presented number value values total level rate range ranging ranges reached reaching reaches highest lowest
    maximum minimum average mean overall approximately nearly roughly features feature featuring offers offer comes
    includes include including included equipped available known located based expected experience following
    respectively final day days week weeks month months year years time period hour hours date today tomorrow next
    last morning afternoon evening night country city region people person named called born member part type kind
    model device product company film movie game match team teams home away score scored scoring goal goals won win
    winning victory lost season took place played between
"""

_JUDGING = """
    good great excellent impressive outstanding exceptional remarkable notable notably significant significantly
    popular famous renowned acclaimed prominent well-known talented skilled beautiful stunning sleek stylish elegant
    modern compact lightweight slim large small big huge powerful fast smooth seamless efficient reliable durable
    versatile ideal perfect suitable pleasant comfortable enjoyable exciting thrilling dominant dominating decisive
    intense close closely hard-fought strong strongly weak solid steady steadily gradual gradually sharp sharply
    dramatic rapid rapidly slight slightly stable consistent consistently relatively generally mostly mainly
    high-quality premium top-notch advanced convenient convenience essential important importance rich diverse
    unique various wide extensive successful success crucial vital ensure ensures ensuring provides providing
    enhance enhanced making reflecting indicating suggesting demonstrating highlighting contributing likely possibly
    potentially
"""

FUNCTION_WORDS = frozenset(_FUNCTION.split())

TELLING_WORDS = frozenset(_TELLING.split())

JUDGING_WORDS = frozenset(_JUDGING.split())

MAX_WORDS = 5_000

_FEW_FACTS = 15

_LONG_SERIES = 8

# In a text with fewer checked statements than this, one statement against the data must not count as a large share.
_FEW_FINDINGS = 3

_TOKEN = re.compile(r"\S+")

_PART = re.compile(r"\w+")

_ENDINGS = ("ing", "ed", "es", "s", "ly", "er", "al", "ian", "an")

_SHORTEST_STEM = 4

_STRIPPED = ".,;:!?()\"'"


@dataclass(frozen=True, slots=True)
class DataWord:
    """A word of a text.

    `content` is True for a content word. `new` is True for a content word of which the data has no form. Words that
    texts about any data use (`TELLING_WORDS`) are never new.
    """

    start: int
    end: int
    text: str
    content: bool
    new: bool


class DataJudge:
    """The data of one handoff, prepared for judging texts about it."""

    def __init__(self, records: Records, words: frozenset[str]) -> None:
        self.records = records
        self.columns = columns_of(records)
        self.parties = parties_of(records)
        self.off = list_switched_off(records)
        self.words = words.union(*(fact.key for fact in records.facts))
        self.stems = frozenset(map(stem, self.words))
        self.few = len(records.facts) < _FEW_FACTS
        self.series = max(map(len, records.columns.values()), default=0) > _LONG_SERIES

    def findings(self, text: str, values: Sequence[TextValue]) -> list[Finding]:
        """Return the results of checking the statements of the text."""
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
    """Return `word` without one common ending, if at least four letters remain."""
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST_STEM:
            return word[: -len(ending)]
    return word


# A match begins only at the first character of white space, so that long white space takes linear time.
_CLAUSE = re.compile(r"(?<=[.!?;,])\s+|(?<!\s)\s+(?=(?:and|but|while|with|which|where|whereas|although|however)\b)")


def text_features(
    judge: DataJudge, findings: Sequence[Finding], words: Sequence[DataWord], marks: Sequence[Mark]
) -> dict[str, float]:
    """Return the features of the text as a whole."""
    against = [finding.check for finding in findings if not finding.agrees]
    new = sum(word.new for word in words)
    unfound = [mark.kind for mark in marks if mark.status == "ungrounded"]
    return {
        "clock": float("clock" in against),
        "numbered": float("numbered" in against),
        "no_such_day": float("no_such_day" in against),
        "against": float(min(len(against), 5)),
        "against_share": len(against) / max(_FEW_FINDINGS, len(findings)),
        "score": float("score" in against),
        "span": float(any(finding.check == "span" and finding.agrees for finding in findings)),
        "new": new / max(1, sum(word.content for word in words)),
        "few_facts": float(judge.few),
        "new_of_few": judge.few * log1p(new),
        "numbers": float(min(unfound.count("number") + unfound.count("date"), 3)),
    }


def word_features(
    text: str,
    judge: DataJudge,
    findings: Sequence[Finding],
    words: Sequence[DataWord],
    marks: Sequence[Mark],
    doubt: float,
) -> Iterator[tuple[dict[str, float], list[dict[str, float]]]]:
    """Yield, for each clause, the features that its words share and the features of each word."""
    for clause in _clauses(text, words):
        shared = _clause_features(text, judge, findings, clause, doubt)
        start, end = clause[0].start, clause[-1].end
        near = [finding for finding in findings if finding.start < end and finding.end > start]
        inside = [mark for mark in marks if mark.start < end and mark.end > start]
        yield shared, [_own_features(word, near, inside) for word in clause]


def _own_features(word: DataWord, findings: Sequence[Finding], marks: Sequence[Mark]) -> dict[str, float]:
    own = {"new_word": float(word.new)}
    mark = next((one for one in marks if one.start < word.end and one.end > word.start), None)
    if mark is not None:
        own[f"{mark.kind} {mark.status}"] = 1.0
    against = [one.check for one in findings if not one.agrees and one.start < word.end and one.end > word.start]
    own["word_against"] = float(bool(against))
    own["word_switch"] = float("switch" in against)
    return own


def _clause_features(
    text: str, judge: DataJudge, findings: Sequence[Finding], clause: Sequence[DataWord], doubt: float
) -> dict[str, float]:
    start, end = clause[0].start, clause[-1].end
    near = [finding.agrees for finding in findings if finding.start < end and finding.end > start]
    content = [word for word in clause if word.content]
    new = sum(word.new for word in content)
    share = new / max(1, len(content))
    plain = {word.text for word in clause}
    return {
        "doubt": doubt,
        "place": start / max(1, len(text)),
        "clause_new": new / 5,
        "clause_share": share,
        "clause_words": min(len(content), 12) / 10,
        "few_share": judge.few * share,
        "series": float(judge.series),
        "series_share": judge.series * share,
        "few": float(judge.few),
        "clause_borne_out": float(bool(near) and all(near)),
        "judging": len(plain & JUDGING_WORDS) / 2,
        "opening": float(start == 0),
    }


def _clauses(text: str, words: Sequence[DataWord]) -> Iterator[list[DataWord]]:
    ends = iter([match.start() for match in _CLAUSE.finditer(text)])
    limit = next(ends, len(text))
    clause: list[DataWord] = []
    for word in words:
        while word.start >= limit and clause:
            yield clause
            clause = []
            limit = next((end for end in ends if end > word.start), len(text))
        clause.append(word)
    if clause:
        yield clause


# Weights of the features of a text. In the fit, texts with and without faults counted equally.
TEXT = {
    "clock": 1.05,
    "numbered": 0.46,
    "no_such_day": 0.23,
    "against": 0.17,
    "against_share": 1.07,
    "score": 0.32,
    "span": -0.73,
    "new": 1.73,
    "few_facts": -1.59,
    "new_of_few": 0.88,
    "numbers": 0.71,
}

TEXT_START = -0.68

# Weights of the features of a word. With the `WORD_START` below, a word is marked if the chance that the word is faulty
# is above about one in four.
WORD = {
    "clause_borne_out": -0.45,
    "clause_new": 1.26,
    "clause_share": 0.40,
    "clause_words": -1.33,
    "date ungrounded": 0.27,
    "doubt": 0.36,
    "few": 0.18,
    "few_share": 1.60,
    "identifier grounded": -1.13,
    "identifier ungrounded": 0.12,
    "judging": 0.15,
    "name grounded": -0.57,
    "name ungrounded": 1.70,
    "new_word": 0.14,
    "number derived": 0.90,
    "number grounded": 0.44,
    "number ungrounded": 2.28,
    "opening": -0.30,
    "place": 1.21,
    "quote grounded": -0.30,
    "quote ungrounded": -0.29,
    "series": 1.20,
    "series_share": -1.27,
    "word_against": 0.71,
    "word_switch": 1.5,
}

WORD_START = -1.57

_MARGIN = 0.2


def data_marks(text: str, judge: DataJudge, values: Sequence[TextValue], marks: Sequence[Mark]) -> list[Mark]:
    """Return marks for the phrases of `text` that the data does not support.

    `values` and `marks` are the values and the marks already found in the text.
    """
    findings = judge.findings(text, values)
    words = judge.words_of(text)
    doubt = text_doubt(judge, findings, words, marks)
    if doubt <= 0:
        return []
    sums: list[float] = []
    for shared, own in word_features(text, judge, findings, words, marks, doubt):
        start = _weigh(shared, WORD) + WORD_START
        sums += [start + _weigh(one, WORD) for one in own]
    return list(_phrases(text, words, most_doubtful(sums)))


def most_doubtful(sums: Sequence[float]) -> list[bool]:
    """Return for each word whether its doubt is above the limit.

    The limit is lowered if no word is clearly doubtful, because a doubted text must have at least one mark.
    """
    limit = min(0.0, max(sums, default=0.0) - _MARGIN)
    return [one > limit for one in sums]


def text_doubt(
    judge: DataJudge, findings: Sequence[Finding], words: Sequence[DataWord], marks: Sequence[Mark]
) -> float:
    """Return the doubt about the text as a whole. A text with a doubt above zero is marked."""
    return _weigh(text_features(judge, findings, words, marks), TEXT) + TEXT_START


def _weigh(features: Mapping[str, float], weights: Mapping[str, float]) -> float:
    return sum(weights.get(name, 0.0) * value for name, value in features.items())


def _phrases(text: str, words: Sequence[DataWord], doubted: Sequence[bool]) -> Iterator[Mark]:
    """Yield each run of doubted words as one mark."""
    start: int | None = None
    end = 0
    for word, is_doubted in zip(words, doubted, strict=True):
        if is_doubted:
            start = word.start if start is None else start
            end = word.end
        elif start is not None:
            yield Mark("wording", start, end, text[start:end], "ungrounded")
            start = None
    if start is not None:
        yield Mark("wording", start, end, text[start:end], "ungrounded")
