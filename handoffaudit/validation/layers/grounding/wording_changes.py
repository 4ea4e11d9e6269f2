"""Small edits that turn a true sentence of a source into a false one, found by opposites, rivals and synonyms."""

from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from typing import Literal, NamedTuple, TypeAlias

from handoffaudit.validation.layers.grounding.wording_lexicon import (
    FAMILIES,
    FUNCTION_WORDS,
    NUMBER_WORDS,
    OPPOSITES,
    QUALIFIERS,
    SYNONYMS,
)
from handoffaudit.validation.layers.grounding.wording_text import (
    Prose,
    Word,
    figures_in,
    has_negation,
    is_negation,
    stem,
)

_NOTHING: frozenset[str] = frozenset()


class Relations(NamedTuple):
    """The stems related to a word.

    `opposites` reverse the meaning of the word, `rivals` exclude the word, and `synonyms` have the same meaning.
    """

    opposites: frozenset[str] = _NOTHING
    rivals: frozenset[str] = _NOTHING
    synonyms: frozenset[str] = _NOTHING


_NONE = Relations()


def relations_of(word: str) -> Relations:
    """Return the relations of a stem in the lexicon."""
    return _table().get(word, _NONE)


@cache
def _table() -> dict[str, Relations]:
    opposites: dict[str, set[str]] = {}
    rivals: dict[str, set[str]] = {}
    synonyms: dict[str, set[str]] = {}
    for axis in OPPOSITES:
        poles = [_stems(pole) for pole in axis.split("|")]
        for pole, other in (poles, poles[::-1]):
            for word in pole:
                opposites.setdefault(word, set()).update(other)
                synonyms.setdefault(word, set()).update(pole)
    for group in SYNONYMS:
        for word in _stems(group):
            synonyms.setdefault(word, set()).update(_stems(group))
    for family in FAMILIES:
        for word in _stems(family):
            rivals.setdefault(word, set()).update(_stems(family))
    return {
        word: _relate(word, opposites, rivals, synonyms) for word in opposites.keys() | rivals.keys() | synonyms.keys()
    }


def _stems(words: str) -> set[str]:
    return {stem(word) for word in words.split()}


def _relate(
    word: str, opposites: dict[str, set[str]], rivals: dict[str, set[str]], synonyms: dict[str, set[str]]
) -> Relations:
    # The lexicon may list two words as synonyms and also as opposites or rivals. They are read as synonyms, so that a
    # word with several meanings causes no finding.
    same = synonyms.get(word, set())
    return Relations(
        frozenset(opposites.get(word, set()) - same),
        frozenset(rivals.get(word, set()) - same - {word}),
        frozenset(same - {word}),
    )


# The kinds of change. "The source sentences" are the sentences of the source that share most with the sentence of the
# claim.
# - number, name: The source does not have the number or name.
# - negation: The source sentences have no negation.
# - negation_moved: The source negates something else.
# - prefix: The source has the word with, or without, a prefix such as `un-`.
# - opposite, rival: The source sentences have the opposite of the word, or another word of its family, and no synonym.
# - opposite_in_place, rival_in_place: The source has the opposite or rival beside the same neighbour.
# - turned: The sentence of the source about the same words has only the opposite of the word.
# - qualifier: The source sentences do not limit or grade the statement with this word.
# - synonym: The word is new, and the source sentences have a synonym.
Change: TypeAlias = Literal[
    "number",
    "name",
    "negation",
    "negation_moved",
    "prefix",
    "opposite",
    "opposite_in_place",
    "rival",
    "rival_in_place",
    "turned",
    "qualifier",
    "synonym",
]

_NEAREST_SENTENCES = 3

_PREFIXES = ("un", "in", "im", "ir", "il", "dis", "mis", "non", "anti", "de")

_PREFIXED = 5

# The number of words on each side of a word that show what the sentence is about, and the least number of content
# words among these.
_AROUND = 6

_FEWEST_AROUND = 3

# Connectives relate clauses, so one sentence may contain two opposite connectives.
_CONNECTIVES = frozenset(map(stem, ("although", "because", "despite", "due", "owing", "regardless", "though")))

_ORDINALS = frozenset({"first", "second", "third", "fourth"})

_JOINS = frozenset({"", "and", "or", "but", "while"})


@dataclass(slots=True)
class Changes:
    """The changes found in a claim.

    `counts` holds the number of times that each change was found, and `words` the changed words. `closest` maps the
    start of a changed word to the stem of the source that the word replaces.
    """

    counts: Counter[Change] = field(default_factory=Counter)
    words: dict[Change, list[Word]] = field(default_factory=dict)
    closest: dict[int, str] = field(default_factory=dict)

    def add(self, change: Change, word: Word, instead: frozenset[str] = _NOTHING) -> None:
        self.counts[change] += 1
        self.words.setdefault(change, []).append(word)
        if instead:
            self.closest[word.start] = min(instead)


def changes_of(sentences: list[list[Word]], source: Prose) -> Changes:
    """Return the changes of a claim against its source; the claim is given sentence by sentence."""
    found = Changes()
    for sentence in sentences:
        stems = frozenset(word.stem for word in sentence) - FUNCTION_WORDS
        nearest = source.nearest(stems, _NEAREST_SENTENCES)
        _negations(sentence, nearest, source, found)
        padded = ("", *(word.stem for word in sentence), "")
        for at, word in enumerate(sentence):
            if is_negation(word.lower):
                continue
            relations = relations_of(word.stem)
            if _is_reference(word.lower, padded[at], padded[at + 2]):
                continue
            if relations.opposites or relations.rivals:
                _in_place(word, relations, (padded[at], padded[at + 2]), nearest, source, found)
            if relations.opposites and word.stem not in _CONNECTIVES:
                _add_opposite(word, relations, sentence[max(0, at - _AROUND) : at + _AROUND + 1], source, found)
            if word.lower in QUALIFIERS and word.stem not in nearest:
                found.add("qualifier", word)
            if word.stem not in FUNCTION_WORDS and word.lower not in FUNCTION_WORDS:
                _new_word(word, relations, nearest, source, found, opens=at == 0)
    return found


def _is_reference(word: str, before: str, after: str) -> bool:
    """Return whether an ordinal stands for something named before: `faster than the first`."""
    return word in _ORDINALS and before == "the" and after in _JOINS


def _add_opposite(word: Word, relations: Relations, around: list[Word], source: Prose, found: Changes) -> None:
    if relations.opposites.isdisjoint(source.known):
        return
    same = relations.synonyms | {word.stem}
    wanted = frozenset(one.stem for one in around) - FUNCTION_WORDS - same - relations.opposites
    there = source.sentence_about(wanted) if len(wanted) >= _FEWEST_AROUND else _NOTHING
    if there and same.isdisjoint(there) and not relations.opposites.isdisjoint(there) and not has_negation(there):
        found.add("turned", word, relations.opposites & there)


def _negations(sentence: list[Word], nearest: frozenset[str], source: Prose, found: Changes) -> None:
    for at, word in enumerate(sentence):
        if not is_negation(word.lower):
            continue
        after = [other.stem for other in sentence[at + 1 : at + 7] if other.stem not in FUNCTION_WORDS][:2]
        if not has_negation(nearest):
            found.add("negation", word)
        elif source.negated.isdisjoint(after):
            found.add("negation_moved", word)


def _in_place(
    word: Word,
    relations: Relations,
    neighbours: tuple[str, str],
    nearest: frozenset[str],
    source: Prose,
    found: Changes,
) -> None:
    # The pairs of a source are expensive to build, so they are used last.
    if not relations.synonyms.isdisjoint(nearest):
        return
    if relations.opposites.isdisjoint(source.known) and relations.rivals.isdisjoint(source.known):
        return
    before, after = neighbours
    pairs = source.pairs
    if (before, word.stem) in pairs or (word.stem, after) in pairs:
        return
    readings: tuple[tuple[Change, frozenset[str]], ...] = (
        ("opposite_in_place", relations.opposites),
        ("rival_in_place", relations.rivals),
    )
    for change, others in readings:
        there = frozenset(
            other
            for other in others & source.known
            if (before not in FUNCTION_WORDS and (before, other) in pairs)
            or (after not in FUNCTION_WORDS and (other, after) in pairs)
        )
        if there:
            found.add(change, word, there)
            return


def _new_word(
    word: Word, relations: Relations, nearest: frozenset[str], source: Prose, found: Changes, *, opens: bool
) -> None:
    if word.stem in source.known:
        return
    figures = figures_in(word.lower)
    if figures or word.lower in NUMBER_WORDS:
        if not source.figures.issuperset(figures or [NUMBER_WORDS[word.lower]]):
            found.add("number", word)
    elif kind := _kind_of(word, relations, nearest, source, opens=opens):
        found.add(kind[0], word, kind[1])


def _kind_of(
    word: Word, relations: Relations, nearest: frozenset[str], source: Prose, *, opens: bool
) -> tuple[Change, frozenset[str]] | None:
    """Return the change that a new word makes, and the stems of the source that the word may replace.

    Return None for a name that the source spells out, and for a word that neither a prefix nor the lexicon relates to
    the source.
    """
    known = source.known
    if word.text[0].isupper() and not opens:
        return None if source.spells_out(word.text) else ("name", _NOTHING)
    if _has_other_prefix(word.stem, known):
        return "prefix", _NOTHING
    if not relations.synonyms.isdisjoint(nearest):
        return "synonym", relations.synonyms & nearest
    if not relations.opposites.isdisjoint(nearest):
        return "opposite", relations.opposites & nearest
    if not relations.rivals.isdisjoint(nearest):
        return "rival", relations.rivals & nearest
    return None


def _has_other_prefix(stem: str, known: frozenset[str]) -> bool:
    if len(stem) < _PREFIXED:
        return False
    return any((stem[len(prefix) :] if stem.startswith(prefix) else prefix + stem) in known for prefix in _PREFIXES)
