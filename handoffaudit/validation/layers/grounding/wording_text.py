"""Words as the wording detector sees them: stems, function words, and the prose that a claim may restate."""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from heapq import nlargest
from itertools import chain, pairwise
from math import log

from handoffaudit.validation.layers.grounding.wording_lexicon import FUNCTION_WORDS, NEGATIONS, NUMBER_WORDS, SPEAKERS

_WORD = r"[^\W_]+(?:[.,'\u2019&/-][^\W_]+)*"
_WORDS = re.compile(_WORD)
_WORDS_AND_BREAKS = re.compile(_WORD + r"|[.!?;](?=\s)|\n")
_BREAKS = frozenset(".!?;\n")
_FIGURES = re.compile(r"\d+(?:[.,]\d+)*")
# how far apart, in words, two words may stand that are said of one another
_NEAR = 8
_LONGEST_WORD = 40
_CACHED_STEMS = 50_000
BREAK = "|"

# what a word may end in, longest first where one ends another, and what is put in its place
_ENDINGS = (
    ("isation", "iz"), ("ization", "iz"), ("ational", "at"), ("iveness", "iv"), ("fulness", "ful"), ("ousness", "ous"),
    ("ability", "abl"), ("ingly", ""), ("edly", ""), ("ments", ""), ("ment", ""), ("ness", ""), ("ations", "at"),
    ("ation", "at"), ("itions", "it"), ("ities", "it"), ("ity", "it"), ("ies", "y"), ("ied", "y"), ("ally", "al"),
    ("ing", ""), ("ed", ""), ("ers", "er"), ("ions", ""), ("ion", ""), ("ances", "anc"), ("ance", "anc"),
    ("ences", "enc"), ("ence", "enc"), ("ises", "iz"), ("izes", "iz"), ("ise", "iz"), ("ize", "iz"), ("ive", "iv"),
    ("ly", ""), ("es", ""), ("s", ""), ("e", ""),
)  # fmt: skip
_ENDING = re.compile(r"(?<=\w\w\w)(?:" + "|".join(ending for ending, _ in _ENDINGS) + r")\Z")
_INSTEAD = dict(_ENDINGS)


def _stemmed(word: str) -> str:
    word = word.replace("\u2019", "'").removesuffix("'s")
    if len(word) <= 3 or len(word) > _LONGEST_WORD or not word[0].isalpha():
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
    """Stems by word, filled as they are asked for; emptied where hostile text has filled it."""

    def __missing__(self, word: str) -> str:
        if len(self) >= _CACHED_STEMS:
            self.clear()
        found = BREAK if word in _BREAKS else _stemmed(word)
        if len(word) <= _LONGEST_WORD:
            self[word] = found
        return found


_STEMS = _Stems()


def stem(word: str) -> str:
    """The stem of a word in lower case: `increases`, `increased` and `increasing` have one."""
    return _STEMS[word]


def stems(words: Iterable[str]) -> list[str]:
    return list(map(_STEMS.__getitem__, words))


def is_negation(word: str) -> bool:
    """Whether a word (or its stem) denies what follows."""
    return word in _NEGATIONS_AND_STEMS or word.endswith(("n't", "n\u2019t"))


_NEGATIONS_AND_STEMS = NEGATIONS | frozenset(stems(NEGATIONS))


def speaks(words: Iterable[str]) -> int:
    """How many of the words are those of somebody who talks, or is talked to."""
    return sum(word.replace("\u2019", "'") in SPEAKERS for word in words)


@dataclass(frozen=True, slots=True)
class Word:
    """One word of a claim, at its place in the claim's text."""

    text: str
    start: int
    lower: str
    stem: str

    @property
    def end(self) -> int:
        return self.start + len(self.text)


def claim_sentences(text: str) -> list[list[Word]]:
    """The words of a claim, sentence by sentence."""
    sentences: list[list[Word]] = [[]]
    for found in _WORDS_AND_BREAKS.finditer(text):
        token = found.group()
        if token in _BREAKS:
            sentences.append([])
            continue
        lower = token.lower()
        sentences[-1].append(Word(token, found.start(), lower, _STEMS[lower]))
    return [sentence for sentence in sentences if sentence]


class Prose:
    """The text that a claim may restate. What is dear is made when first asked for."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.words = _WORDS_AND_BREAKS.findall(text.lower())
        self.stems = stems(self.words)

    @cached_property
    def known(self) -> frozenset[str]:
        return frozenset(self.stems)

    @cached_property
    def size(self) -> int:
        return sum(word not in _BREAKS for word in self.words)

    @cached_property
    def pairs(self) -> frozenset[tuple[str, str]]:
        return frozenset(pairwise(self.stems))

    @cached_property
    def triples(self) -> frozenset[tuple[str, str, str]]:
        return frozenset(zip(self.stems, self.stems[1:], self.stems[2:], strict=False))

    @cached_property
    def sentences(self) -> list[frozenset[str]]:
        """The stems of each sentence or line."""
        found = []
        start = 0
        for end in [at for at, stem in enumerate(self.stems) if stem == BREAK] + [len(self.stems)]:
            if end > start:
                found.append(frozenset(self.stems[start:end]))
            start = end + 1
        return found

    @cached_property
    def figures(self) -> frozenset[str]:
        """Every number of the source in figures, those written as words too."""
        found = {figure for written in _FIGURES.findall(self.text) for figure in _readings(written)}
        values = [NUMBER_WORDS.get(word) for word in self.words if not word[0].isdigit()]
        found.update(str(value) for value in values if value is not None)
        for tens, ones in pairwise(values):
            if tens is not None and ones is not None and 20 <= tens < 100 and 0 < ones < 10:
                found.add(str(tens + ones))
        return frozenset(found)

    @cached_property
    def negated(self) -> frozenset[str]:
        """The stems that stand in the few words after a negation."""
        found: set[str] = set()
        for at, word in enumerate(self.words):
            if is_negation(word):
                found.update([stem for stem in self.stems[at + 1 : at + 7] if stem not in FUNCTION_WORDS][:3])
        return frozenset(found)

    @cached_property
    def weights(self) -> dict[str, float]:
        """How much each stem says of where it stands: the rarer, the more."""
        sentences = len(self.sentences)
        counts = Counter(chain.from_iterable(self.sentences))
        by_count = {count: log(1 + sentences / count) for count in set(counts.values())}
        return {stem: by_count[count] for stem, count in counts.items()}

    def nearest(self, wanted: frozenset[str], count: int) -> frozenset[str]:
        """The stems of the sentences that share most with `wanted`."""
        weight = self.weights.__getitem__
        shared = [(sum(map(weight, wanted & sentence)), -at) for at, sentence in enumerate(self.sentences)]
        return frozenset[str]().union(*(self.sentences[-at] for size, at in nlargest(count, shared) if size))

    def coverage(self, wanted: frozenset[str]) -> float:
        """The largest share of `wanted` that one sentence holds."""
        return max((len(wanted & sentence) for sentence in self.sentences), default=0) / max(1, len(wanted))

    def places(self, wanted: frozenset[str]) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for at, stem in enumerate(self.stems):
            if stem in wanted:
                found.setdefault(stem, []).append(at)
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
    """Whether two ascending lists of places hold one of each that stand near."""
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
