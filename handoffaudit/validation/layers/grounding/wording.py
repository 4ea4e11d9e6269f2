"""Judges the wording of a claim that restates prose: how far it departs from its source, and what was changed in it."""

import re
from dataclasses import astuple
from operator import mul
from typing import Literal, TypeAlias

from handoffaudit.validation.layers.grounding.marks import Mark
from handoffaudit.validation.layers.grounding.sources import SourceIndex
from handoffaudit.validation.layers.grounding.wording_changes import Change, Changes, changes_of
from handoffaudit.validation.layers.grounding.wording_departure import Departure, departure_of
from handoffaudit.validation.layers.grounding.wording_text import Prose, Word, claim_sentences, speaks

Situation: TypeAlias = Literal["restatement", "summary"]

# Both scorers are logistic regressions fitted on labelled data with each file and label weighted equally, their
# parameters checked by cross-validation over sources; docs/grounding.md has the figures. A score above 0 is a finding.
_DEPARTURE_WEIGHTS = Departure(
    apart=1.07,
    new_triples=2.50,
    new_pairs=0.30,
    covered=-2.16,
    new_words=0.18,
    new_names=0.81,
    new_numbers=1.40,
    negations=0.61,
    source_size=0.19,
)
_DEPARTURE_START = -2.28
_CHANGE_WEIGHTS: dict[Change, float] = {
    "negation": 3.18,
    "number": 1.79,
    "opposite_in_place": 1.48,
    "name": 1.43,
    "rival": 1.13,
    "prefix": 0.99,
    "rival_in_place": 0.64,
    "opposite_elsewhere": 0.63,
    "negation_moved": 0.61,
    "rival_elsewhere": 0.53,
    "opposite": 0.42,
    "new": -0.06,
    "synonym": -0.59,
}
_CHANGES_START = -0.22
_MOST = 3

_MOST_CHARACTERS = 4_000
_MOST_SOURCE_CHARACTERS = 200_000
_MOST_WORDS = 180
# an answer of a few words on a snippet of a few sentences
_SNIPPET = 100
_ANSWER = 40
# a summary is a text of its own, and shorter than what it sums up
_SHORTEST_SUMMARY = 8
_SUMMARY_RATIO = 0.6
_KNOWN_SHARE = 0.45
_CASED = re.compile(r"[A-Z][a-z]")
# code, JSON, tables, Markdown, lists and identifiers are not prose
_NOT_PROSE = re.compile(r"[{}=<>|\n]|```|\w_\w|\A\S*[/@:#\\]\S*\Z")
_ENDS = (".", "!", '"', "\u201d", "'", ")")
# a source that asks, or whose words are often those of a speaker, is a conversation and no knowledge to restate
_SPEAKING_SHARE = 0.02


def wording_marks(text: str, index: SourceIndex) -> list[Mark]:
    """Marks of kind `wording` at the words in which a claim's text departs from its sources.

    None where it keeps to them, and none where it does not restate them."""
    if not _may_restate(text, index.text):
        return []
    sentences = claim_sentences(text)
    source = Prose(index.text)
    situation = _situation(text, sentences, source)
    if situation is None:
        return []
    if situation == "restatement":
        departure, words = departure_of(sentences, source)
        return _marks(text, words or sentences[0], {}) if _departs(departure) else []
    changes = changes_of(sentences, source)
    return _marks(text, _changed_words(changes), changes.closest) if _is_changed(changes) else []


def _may_restate(text: str, source: str) -> bool:
    if len(text) > _MOST_CHARACTERS or not 0 < len(source) <= _MOST_SOURCE_CHARACTERS:
        return False
    return not _NOT_PROSE.search(text.strip())


def _situation(text: str, sentences: list[list[Word]], source: Prose) -> Situation | None:
    """How the claim is to be judged: as a restatement whose words should come from the source, as a summary that may
    reword it, or not at all."""
    words = [word for sentence in sentences for word in sentence]
    if not 0 < len(words) <= _MOST_WORDS or not source.size:
        return None
    if source.size < _SNIPPET and len(words) < _ANSWER:
        return "restatement" if _is_knowledge(source) else None
    return _judged_as_summary(text, words, source)


def _judged_as_summary(text: str, words: list[Word], source: Prose) -> Situation | None:
    if "?" in text or len(words) > _SUMMARY_RATIO * source.size or speaks(word.lower for word in words):
        return None
    if len(words) < _SHORTEST_SUMMARY or not text.rstrip().endswith(_ENDS):
        return None
    if not _CASED.search(text):
        # without capitals, names can't be told from other words: every new word may be one
        return "restatement"
    known = sum(word.stem in source.known for word in words)
    return "summary" if known >= _KNOWN_SHARE * len(words) else None


def _is_knowledge(source: Prose) -> bool:
    return "?" not in source.text and speaks(source.words) <= max(1.0, _SPEAKING_SHARE * source.size)


def _departs(departure: Departure) -> bool:
    score: float = _DEPARTURE_START + sum(map(mul, astuple(departure), astuple(_DEPARTURE_WEIGHTS)))
    return score > 0


def _is_changed(changes: Changes) -> bool:
    weighted = sum(min(_MOST, changes.counts[change]) * weight for change, weight in _CHANGE_WEIGHTS.items())
    return _CHANGES_START + weighted > 0 and bool(_changed_words(changes))


def _changed_words(changes: Changes) -> list[Word]:
    found = (word for change, weight in _CHANGE_WEIGHTS.items() if weight > 0 for word in changes.words.get(change, ()))
    return sorted({word.start: word for word in found}.values(), key=lambda word: word.start)


def _marks(text: str, words: list[Word], closest: dict[int, str]) -> list[Mark]:
    """One mark for each run of words with nothing but a space between them."""
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
