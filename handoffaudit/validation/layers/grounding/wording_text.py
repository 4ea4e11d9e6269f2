"""Words for the wording detector: stems, sentences, and the prose that a claim may restate."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from functools import cached_property
from heapq import nlargest
from itertools import pairwise
from math import log
from operator import methodcaller
from typing import NamedTuple

from handoffaudit.validation.layers.grounding.wording_lexicon import (
    CARDINALS,
    FUNCTION_WORDS,
    NEGATIONS,
    NUMBER_WORDS,
    SPEAKERS,
)

_WORD = r"\w+(?:[.,'\u2019&]\w+)*"
_WORDS = re.compile(_WORD)
_WORDS_AND_BREAKS = re.compile(_WORD + r"|[.!?;](?=\s)|\n")
BREAK = "|"
_BREAKS = frozenset((".", "!", "?", ";", "\n", BREAK))
_SPACED = (
    ("\n", f" {BREAK} "),
    *((end, f" {BREAK} ") for end in (". ", "! ", "? ", "; ", '." ', ".\u201d ")),
    *((mark, " ") for mark in ("-", "\u2013", "\u2014", "/", ":")),
)
_ENDS_IN_NOT = methodcaller("endswith", "n't")
_EDGES = re.compile(r"\A\W+|\W+\Z")
_FIGURES = re.compile(r"\d+(?:[.,]\d+)*")
# The largest distance, in words, between two words that belong together.
_NEAR = 8
_NUMBER_WORDS = frozenset(NUMBER_WORDS)
_CARDINALS = frozenset(NUMBER_WORDS[word] for word in CARDINALS)
_TENS = frozenset(map(str, range(20, 100, 10)))
_ONES = frozenset(map(str, range(1, 10)))
_LONGEST_WORD = 40
_CACHED_STEMS = 50_000
_MOST_SENTENCES = 2_000
_MOST_PLACES = 500
_SHORTEST_ABBREVIATION = 3
_LONGEST_ABBREVIATION = 6

# Endings of words and their replacements. A longer ending comes before the shorter endings that it ends with.
_ENDINGS = (
    ("isation", "iz"), ("ization", "iz"), ("ational", "at"), ("iveness", "iv"), ("fulness", "ful"), ("ousness", "ous"),
    ("ability", "abl"), ("ingly", ""), ("edly", ""), ("ments", ""), ("ment", ""), ("ness", ""), ("ations", "at"),
    ("ation", "at"), ("itions", "it"), ("ities", "it"), ("ity", "it"), ("ies", "y"), ("ied", "y"), ("ally", "al"),
    ("ing", ""), ("ed", ""), ("ers", "er"), ("ions", ""), ("ion", ""), ("ances", "anc"), ("ance", "anc"),
    ("ences", "enc"), ("ence", "enc"), ("ises", "iz"), ("izes", "iz"), ("ise", "iz"), ("ize", "iz"), ("ive", "iv"),
    ("ly", ""), ("es", ""), ("s", ""), ("e", ""),
)  # fmt: skip
# Words that look like forms of other words.
_KEPT = frozenset(
    {"apartment", "assembly", "bare", "billion", "business", "businesses", "comment", "department", "family", "hate"}
    | {"manned", "million", "multiply", "nation", "news", "plane", "rape", "series", "species", "statement", "station"}
    | {"supply", "wine"}
)
_ENDING = re.compile(
    r"(?<=\w{3})(?:" + "|".join(ending for ending, _ in _ENDINGS).replace("|ly|", r"|(?<=\w{4})ly|") + r")\Z"
)
_INSTEAD = dict(_ENDINGS)


def _compute_stem(word: str) -> str:
    if word in CARDINALS:
        return NUMBER_WORDS[word]
    word = word.replace("\u2019", "'").removesuffix("'s")
    if len(word) <= 3 or len(word) > _LONGEST_WORD or not word[0].isalpha() or word in _KEPT:
        return word
    found = _ENDING.search(word)
    if found and not (found.group() == "s" and word.endswith(("ss", "us", "is"))):
        word = word[: found.start()] + _INSTEAD[found.group()]
    if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "lsz":
        word = word[:-1]
    if len(word) > 3 and word[-1] == "e":
        word = word[:-1]
    return word[:-1] + "y" if len(word) > 3 and word[-1] == "i" else word


class _Stems(dict[str, str]):
    """A cache of stems by word, filled on demand. The cache is cleared when hostile text has filled it."""

    def __missing__(self, word: str) -> str:
        if len(self) >= _CACHED_STEMS:
            self.clear()
        found = BREAK if word in _BREAKS else _compute_stem(_EDGES.sub("", word))
        if len(word) <= _LONGEST_WORD:
            self[word] = found
        return found


_STEMS = _Stems()


def stem(word: str) -> str:
    """Return the stem of a lower-case word: `increases`, `increased` and `increasing` have the same stem."""
    return _STEMS[word]


def stems(words: Iterable[str]) -> list[str]:
    return list(map(_STEMS.__getitem__, words))


def is_negation(word: str) -> bool:
    """Return whether a lower-case word negates the words after it."""
    return word in NEGATIONS or word.endswith(("n't", "n\u2019t"))


_NEGATION_STEMS = frozenset(stems(NEGATIONS))


def has_negation(known: frozenset[str]) -> bool:
    """Return whether one of the stems is a negation."""
    return not _NEGATION_STEMS.isdisjoint(known) or any(map(_ENDS_IN_NOT, known))


def words_of(text: str) -> list[str]:
    return _WORDS.findall(text.lower())


def speaks(words: Iterable[str]) -> int:
    """Return how many of the words are typical of somebody who speaks or is spoken to."""
    return sum(word.replace("\u2019", "'") in SPEAKERS for word in words)


class Word(NamedTuple):
    """One word of a claim with its offset in the text of the claim."""

    text: str
    start: int
    lower: str
    stem: str

    @property
    def end(self) -> int:
        return self.start + len(self.text)


def claim_sentences(text: str) -> list[list[Word]]:
    """Return the words of a claim, sentence by sentence."""
    sentences: list[list[Word]] = [[]]
    for found in _WORDS_AND_BREAKS.finditer(text):
        token = found.group()
        if token in _BREAKS:
            sentences.append([])
            continue
        lower = token.lower()
        sentences[-1].append(Word(token, found.start(), lower, _STEMS[lower]))
    return [sentence for sentence in sentences if sentence]


def _tokens(text: str) -> list[str]:
    """Return the lower-case tokens of a text, with sentence breaks as separate tokens.

    The replacements are many times faster than a regular expression. Punctuation at either end of a word is removed
    when the word is stemmed.
    """
    text = text.lower()
    for written, spaced in _SPACED:
        if written[0] in text:
            text = text.replace(written, spaced)
    return text.split()


class Prose:
    """The text that a claim may restate; expensive properties are computed on first use."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.stems = [stem for stem in map(_STEMS.__getitem__, _tokens(text)) if stem]
        self.counts = Counter(self.stems)
        self.known = frozenset(self.counts)
        self.size = len(self.stems) - self.counts[BREAK]

    @cached_property
    def pairs(self) -> frozenset[tuple[str, str]]:
        return frozenset(pairwise(self.stems))

    @cached_property
    def triples(self) -> frozenset[tuple[str, str, str]]:
        return frozenset(zip(self.stems, self.stems[1:], self.stems[2:], strict=False))

    @cached_property
    def sentences(self) -> list[frozenset[str]]:
        """Return the stems of each sentence or line, at most 2,000 sentences."""
        found: list[frozenset[str]] = []
        start = 0
        while start < len(self.stems) and len(found) < _MOST_SENTENCES:
            try:
                end = self.stems.index(BREAK, start)
            except ValueError:
                end = len(self.stems)
            if end > start:
                found.append(frozenset(self.stems[start:end]))
            start = end + 1
        return found

    @cached_property
    def figures(self) -> frozenset[str]:
        """Return all numbers of the text in digits, including numbers written as words."""
        found = {figure for written in set(_FIGURES.findall(" ".join(self.known))) for figure in _readings(written)}
        found.update(NUMBER_WORDS[word] for word in _NUMBER_WORDS & self.known)
        found.update(_CARDINALS & self.known)
        if "one" in self.known:
            found.add("1")
        if not _TENS.isdisjoint(self.known):
            pairs = ((tens, ones) for tens, ones in pairwise(self.stems) if tens in _TENS and ones in _ONES)
            found.update(str(int(tens) + int(ones)) for tens, ones in pairs)
        return frozenset(found)

    @cached_property
    def negated(self) -> frozenset[str]:
        """Return the stems of at most three content words after each negation."""
        negations = _NEGATION_STEMS & self.known
        if "n't" in self.text or "n\u2019t" in self.text:
            negations |= set(filter(_ENDS_IN_NOT, self.known))
        found: set[str] = set()
        for at in [at for at, stem in enumerate(self.stems) if stem in negations]:
            found.update([stem for stem in self.stems[at + 1 : at + 7] if stem not in FUNCTION_WORDS][:3])
        return frozenset(found)

    def nearest(self, wanted: frozenset[str], count: int) -> frozenset[str]:
        """Return the stems of the `count` sentences that share most with `wanted`. Rare words weigh more."""
        total = len(self.sentences)
        shared: defaultdict[int, float] = defaultdict(float)
        # Sort the stems: a sum of floats depends on the order, and sets have another order in every process.
        for stem in sorted(wanted & self._sentences_with.keys()):
            weight = log(1 + total / self.counts[stem])
            for at in self._sentences_with[stem]:
                shared[at] += weight
        best = nlargest(count, ((size, -at) for at, size in shared.items()))
        return frozenset[str]().union(*(self.sentences[-at] for _, at in best))

    @cached_property
    def _sentences_with(self) -> dict[str, list[int]]:
        """Return the positions of the sentences with each content stem."""
        found: dict[str, list[int]] = {}
        for at, sentence in enumerate(self.sentences):
            for stem in sentence - FUNCTION_WORDS:
                found.setdefault(stem, []).append(at)
        return found

    def sentence_about(self, wanted: frozenset[str]) -> frozenset[str]:
        """Return the stems of the sentence with the largest share of `wanted`, or no stems if no share reaches a half.

        Rare words weigh more. Words that the text does not have count as missing from every sentence.
        """
        sentences, total = self._sentences_with, len(self.sentences)
        held: dict[int, float] = {}
        whole = 0.0
        for stem in sorted(wanted):
            places = sentences.get(stem, ())
            weight = log(1 + total / max(1, self.counts[stem]))
            whole += weight
            for at in places:
                held[at] = held.get(at, 0.0) + weight
        most = max(held.values(), default=0.0)
        return self.sentences[min(at for at in held if held[at] == most)] if 0 < whole <= 2 * most else frozenset()

    def spells_out(self, word: str) -> bool:
        """Return whether consecutive words of the text spell an abbreviation, as `year-over-year` spells `YoY`.

        An abbreviation has three to six letters, at least two of them in upper case.
        """
        if not _SHORTEST_ABBREVIATION <= len(word) <= _LONGEST_ABBREVIATION or sum(map(str.isupper, word)) < 2:
            return False
        return word.lower() in self._initials

    @cached_property
    def _initials(self) -> str:
        return "".join([stem[0] for stem in self.stems])

    @cached_property
    def _spelling_by_stem(self) -> dict[str, str]:
        tokens = _tokens(self.text)[::-1]
        return dict(zip(stems(tokens), tokens, strict=True))

    def find_word(self, stem: str) -> str:
        """Return the first word of the text with this stem, in lower case."""
        return _EDGES.sub("", self._spelling_by_stem.get(stem, stem))

    def coverage(self, wanted: frozenset[str]) -> float:
        """Return the largest share of `wanted` that a single sentence holds."""
        return max((len(wanted & sentence) for sentence in self.sentences), default=0) / max(1, len(wanted))

    def places(self, wanted: frozenset[str]) -> dict[str, list[int]]:
        """Return the positions of each wanted stem, at most 500 per stem."""
        found: dict[str, list[int]] = {}
        for at, stem in enumerate(self.stems):
            if stem in wanted:
                places = found.setdefault(stem, [])
                if len(places) < _MOST_PLACES:
                    places.append(at)
        return found


def _readings(figure: str) -> Iterable[str]:
    plain = figure.replace(",", "")
    yield plain
    if "." in plain:
        yield plain.rstrip("0").rstrip(".")
        yield plain.partition(".")[0]


def figures_in(text: str) -> list[str]:
    return [figure.replace(",", "") for figure in _FIGURES.findall(text)]


def are_near(first: list[int], second: list[int]) -> bool:
    """Return whether a position in one list is at most 8 words from a position in the other. Both lists ascend."""
    at = other = 0
    while at < len(first) and other < len(second):
        gap = first[at] - second[other]
        if -_NEAR <= gap <= _NEAR:
            return True
        if gap < 0:
            at += 1
        else:
            other += 1
    return False
