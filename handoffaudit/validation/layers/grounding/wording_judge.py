"""The judge of a claim's wording: how far the claim departs from its source, and which words changed."""

import re
from dataclasses import astuple, dataclass
from functools import lru_cache
from itertools import dropwhile, pairwise
from math import log, sqrt
from operator import mul
from typing import Literal, TypeAlias

from handoffaudit.validation.claims import Mark
from handoffaudit.validation.layers.grounding.sources import SourceIndex
from handoffaudit.validation.layers.grounding.wording_changes import Change, Changes, changes_of, relations_of
from handoffaudit.validation.layers.grounding.wording_lexicon import FUNCTION_WORDS, INTERJECTIONS, NUMBER_WORDS
from handoffaudit.validation.layers.grounding.wording_text import (
    Prose,
    Word,
    are_near,
    claim_sentences,
    figures_in,
    is_negation,
    speaks,
    words_of,
)

_MOST = 3

# A sentence with fewer content words does not count as a sentence: `So am I.` has none.
_SHORTEST_SENTENCE = 2


@dataclass(frozen=True, slots=True)
class Departure:
    """Measures of a claim against its source.

    - `apart`: the share of the pairs of neighbouring content words that never stand near one another in the source.
    - `new_triples`: the share of the claim's triples (three words in a row) that the source does not have.
    - `new_pairs`: the square root of the number of pairs of neighbouring words that the source does not have.
    - `covered`: each sentence of the claim has a share, the largest share of its content words that a single sentence
      of the source holds. `covered` is the lowest of these shares.
    - `new_words`, `new_names`, `new_numbers`: the numbers of words, names and numbers that the source does not have, at
      most 3 each.
    - `synonyms`: the number of new words and names for which the source has a synonym, at most 3.
    - `talks`: 1 if the claim has words of a speaker, such as `I` or `you`; else 0.
    - `source_size`: the logarithm of the number of words in the source.
    """

    apart: float
    new_triples: float
    new_pairs: float
    covered: float
    new_words: float
    new_names: float
    new_numbers: float
    synonyms: float
    talks: float
    source_size: float


def departure_of(sentences: list[list[Word]], source: Prose) -> tuple[Departure, list[Word]]:
    """Return the measures of a claim, given sentence by sentence, and the words that the source does not have.

    Interjections that open a sentence do not count.
    """
    sentences = [rest for one in sentences if (rest := list(dropwhile(_is_interjection, one)))]
    words = [word for sentence in sentences for word in sentence]
    stems = [word.stem for word in words]
    content = [word for word in words if word.stem not in FUNCTION_WORDS and not is_negation(word.lower)]
    openers = {sentence[0].start for sentence in sentences}
    numbers = [word for word in content if _is_number(word) and not _stands_in(word, source)]
    unseen = [word for word in content if word.stem not in source.known and not _is_number(word)]
    names = [word for word in unseen if word.text[0].isupper() and word.start not in openers]
    triples = list(zip(stems, stems[1:], stems[2:], strict=False))
    measures = Departure(
        apart=_apart([word.stem for word in content], source),
        new_triples=sum([triple not in source.triples for triple in triples]) / max(1, len(triples)),
        new_pairs=sqrt(sum([pair not in source.pairs for pair in pairwise(stems)])),
        covered=_measure_coverage(sentences, source),
        new_words=min(_MOST, len(unseen) - len(names)),
        new_names=min(_MOST, len(names)),
        new_numbers=min(_MOST, len(numbers)),
        synonyms=min(_MOST, sum(not relations_of(word.stem).synonyms.isdisjoint(source.known) for word in unseen)),
        talks=min(1, speaks(word.lower for word in words)),
        source_size=log(1 + source.size),
    )
    return measures, unseen + numbers


def _measure_coverage(sentences: list[list[Word]], source: Prose) -> float:
    contents = [frozenset([word.stem for word in sentence]) - FUNCTION_WORDS for sentence in sentences]
    sentences_proper = [stems for stems in contents if len(stems) >= _SHORTEST_SENTENCE]
    return min(map(source.coverage, sentences_proper or [frozenset().union(*contents)]))


def _apart(content: list[str], source: Prose) -> float:
    places = source.places(frozenset(content))
    neighbours = list(pairwise(content))
    if not neighbours:
        return 0.0
    return sum([not are_near(places.get(one, []), places.get(other, [])) for one, other in neighbours]) / len(
        neighbours
    )


def _is_interjection(word: Word) -> bool:
    return word.lower in INTERJECTIONS


def _is_number(word: Word) -> bool:
    return word.text[0].isdecimal() or word.lower in NUMBER_WORDS


def _stands_in(word: Word, source: Prose) -> bool:
    figures = figures_in(word.lower) or [NUMBER_WORDS[word.lower]]
    return word.stem in source.known or source.figures.issuperset(figures)


# The kinds of claims that are judged.
# - answer: A few words about a snippet of a few sentences.
# - digest: A longer text, shortened and in lower case. Names look like other words, so every new word may be a name.
# - summary: A longer text restated in other words.
Situation: TypeAlias = Literal["answer", "digest", "summary"]

# All scorers are logistic regressions fitted on labelled data with equal weight for each file and label. Their
# parameters are checked by cross-validation over sources; docs/grounding.md has the figures. A score above 0 is a
# finding.
_ANSWER_WEIGHTS = Departure(
    apart=1.39,
    new_triples=1.84,
    new_pairs=0.77,
    covered=-2.78,
    new_words=0.0,
    new_names=2.22,
    new_numbers=2.48,
    synonyms=-0.75,
    talks=1.19,
    source_size=0.65,
)

_ANSWER_START = -3.81

_DIGEST_WEIGHTS = Departure(
    apart=0.0,
    new_triples=2.53,
    new_pairs=0.0,
    covered=-2.57,
    new_words=0.29,
    new_names=0.29,
    new_numbers=0.71,
    synonyms=0.0,
    talks=0.0,
    source_size=0.0,
)

_DIGEST_START = 0.46

_CHANGE_WEIGHTS: dict[Change, float] = {
    "number": 2.09,
    "name": 1.88,
    "negation": 1.87,
    "turned": 1.10,
    "qualifier": 1.00,
    "opposite_in_place": 0.99,
    "rival": 0.80,
    "negation_moved": 0.63,
    "rival_in_place": 0.60,
    "prefix": 0.38,
    "opposite": 0.28,
    "synonym": -0.57,
}

_CHANGES_START = -0.03

_MOST_CHARACTERS = 2_000

_MOST_SOURCE_CHARACTERS = 200_000

_MOST_WORDS = 180

_MOST_SENTENCES = 20

_SNIPPET = 120

_SNIPPET_CHARACTERS = 2_000

_ANSWER = 40

# A summary is long enough to be a text, and shorter than its source.
_SHORTEST_SUMMARY = 12

_SHORTEST_DIGEST = 6

_SUMMARY_RATIO = 0.6

_KNOWN_SHARE = 0.45

# A bare number is not wording.
_LETTERS = re.compile(r"[^\W\d_]{2}")

_CASED = re.compile(r"[A-Z][a-z]")

# Code, JSON, tables, lists and identifiers are not prose.
_NOT_PROSE = re.compile(r"[{}=<>|\n]|```|\w_\w|\A\S*[/@:#\\]\S*\Z")

_NOT_STATED = re.compile(r"[{}=<>|]|\w_\w")

# Quoted text contains the words of somebody else.
_QUOTED = re.compile(r"\"[^\"]*\"|\u201c[^\u201c\u201d]*\u201d|``[^`]*?''")

_ENDS = (".", "!", '"', "\u201d", "'", ")")

# A source with questions, or with many words of a speaker, is a conversation, not knowledge to restate.
_SPEAKING_SHARE = 0.02

# A summary may say `you` occasionally.
_WORDS_PER_SPEAKER = 25


def judge_wording(text: str, index: SourceIndex, *, whole: bool = True) -> tuple[bool, list[Mark]]:
    """Return whether the text of a claim was judged as a restatement of its sources, and the marks `wording` on it.

    A mark covers words that depart from the sources. A text that is not judged gets no marks. Without `whole`, the text
    may use words of its own: only summaries are judged, not answers and digests.
    """
    size = len(index.text)
    if not 0 < size <= _MOST_SOURCE_CHARACTERS:
        return False, []
    if (size > _SNIPPET_CHARACTERS and not _may_sum_up(text)) or not _is_prose(text):
        return False, []
    situation = _situation(text, index)
    if situation is None or not (whole or situation == "summary"):
        return False, []
    sentences, source = claim_sentences(text), _prose(index.text)
    if len(sentences) > _MOST_SENTENCES or (situation == "summary" and not _restates(sentences, source)):
        return False, []
    if situation != "summary":
        departure, words = departure_of(sentences, source)
        return True, _marks(text, words or sentences[0], {}) if _departs(departure, situation) else []
    return True, _summary_marks(text, sentences, source, index)


def _summary_marks(text: str, sentences: list[list[Word]], source: Prose, index: SourceIndex) -> list[Mark]:
    changes = changes_of(sentences, source)
    if not _is_changed(changes):
        return []
    closest = {start: index.find_spelling(source.find_word(stem)) for start, stem in changes.closest.items()}
    return _marks(text, _changed_words(changes), closest)


@lru_cache(maxsize=1)
def _prose(text: str) -> Prose:
    """Return the prose of the sources, cached because all claims of a handoff are judged against the same text."""
    return Prose(text)


def _may_sum_up(text: str) -> bool:
    """Return whether a claim on long sources may be a summary, by cheap tests that do not look at its words."""
    if text.count(" ") < _SHORTEST_DIGEST - 1 or "?" in text:
        return False
    return text.rstrip().endswith(_ENDS) or not _CASED.search(text)


def _is_prose(text: str) -> bool:
    if len(text) > _MOST_CHARACTERS or text.count(" ") >= _MOST_WORDS:
        return False
    return _LETTERS.search(text) is not None and not _NOT_PROSE.search(text.strip())


def _situation(text: str, index: SourceIndex) -> Situation | None:
    """Return how to judge the claim, or None if the claim is not judged.

    A claim is judged as an answer from a snippet, as a digest of a longer text, or as a summary in words of its own.
    """
    size = len(words_of(text))
    source_size = index.blanks + 1
    if not size:
        return None
    asks = "?" in text
    talks = _speakers(text)
    if source_size < _SNIPPET and size < _ANSWER:
        return "answer" if _is_knowledge(index.text, talks=asks or talks > 0) else None
    if asks or size > _SUMMARY_RATIO * source_size or talks > size // _WORDS_PER_SPEAKER:
        return None
    if not _CASED.search(text):
        return "digest" if size >= _SHORTEST_DIGEST else None
    return "summary" if size >= _SHORTEST_SUMMARY and text.rstrip().endswith(_ENDS) else None


def _is_knowledge(source: str, *, talks: bool) -> bool:
    """Return whether a source states something, and is not a conversation that the claim continues."""
    unquoted = _QUOTED.sub(" ", source)
    if "?" in unquoted or _NOT_STATED.search(source):
        return False
    words = words_of(unquoted)
    spoken = speaks(words)
    return not spoken or (not talks and spoken <= max(1, _SPEAKING_SHARE * len(words)))


def _speakers(text: str) -> int:
    """Return how many words of a claim, outside quotes, are typical of a speaker."""
    return speaks(words_of(_QUOTED.sub(" ", text)))


def _restates(sentences: list[list[Word]], source: Prose) -> bool:
    known = [word.stem in source.known for sentence in sentences for word in sentence]
    return sum(known) >= _KNOWN_SHARE * len(known)


def _departs(departure: Departure, situation: Situation) -> bool:
    is_answer = situation == "answer"
    weights = astuple(_ANSWER_WEIGHTS if is_answer else _DIGEST_WEIGHTS)
    score: float = sum(map(mul, astuple(departure), weights)) + (_ANSWER_START if is_answer else _DIGEST_START)
    return score > 0


def _is_changed(changes: Changes) -> bool:
    weighted = sum(min(_MOST, changes.counts[change]) * weight for change, weight in _CHANGE_WEIGHTS.items())
    return _CHANGES_START + weighted > 0 and bool(_changed_words(changes))


def _changed_words(changes: Changes) -> list[Word]:
    found = (word for change, weight in _CHANGE_WEIGHTS.items() if weight > 0 for word in changes.words.get(change, ()))
    return sorted({word.start: word for word in found}.values(), key=lambda word: word.start)


def _marks(text: str, words: list[Word], closest: dict[int, str]) -> list[Mark]:
    """Return one mark for each run of words with only whitespace between them."""
    runs: list[list[int]] = []
    for word in sorted(words, key=lambda word: word.start):
        if runs and not text[runs[-1][1] : word.start].strip():
            runs[-1][1] = word.end
        else:
            runs.append([word.start, word.end])
    return [
        Mark("wording", start, end, text[start:end], "ungrounded", closest=closest.get(start, ""))
        for start, end in runs
    ]
