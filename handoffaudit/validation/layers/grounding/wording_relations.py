"""The lexicon by stem: what a word's opposites, rivals and synonyms are."""

from functools import cache
from typing import NamedTuple

from handoffaudit.validation.layers.grounding.wording_lexicon import FAMILIES, OPPOSITES, SYNONYMS
from handoffaudit.validation.layers.grounding.wording_text import stem

_NOTHING: frozenset[str] = frozenset()


class Relations(NamedTuple):
    """The stems that turn a word round (`opposites`), that exclude it (`rivals`) and that say the same (`synonyms`)."""

    opposites: frozenset[str] = _NOTHING
    rivals: frozenset[str] = _NOTHING
    synonyms: frozenset[str] = _NOTHING


_NONE = Relations()


def relations_of(word: str) -> Relations:
    """What the lexicon knows of a stem."""
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
        word: _related(word, opposites, rivals, synonyms) for word in opposites.keys() | rivals.keys() | synonyms.keys()
    }


def _stems(words: str) -> set[str]:
    return {stem(word) for word in words.split()}


def _related(
    word: str, opposites: dict[str, set[str]], rivals: dict[str, set[str]], synonyms: dict[str, set[str]]
) -> Relations:
    # a word on both sides of two lines (late: early, but also recent) is read in its harmless sense
    same = synonyms.get(word, set())
    return Relations(
        frozenset(opposites.get(word, set()) - same),
        frozenset(rivals.get(word, set()) - same - {word}),
        frozenset(same - {word}),
    )
