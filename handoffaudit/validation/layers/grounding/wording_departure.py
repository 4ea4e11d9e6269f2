"""How far a claim as a whole departs from the words of its source."""

from dataclasses import dataclass
from itertools import pairwise
from math import log, sqrt

from handoffaudit.validation.layers.grounding.wording_lexicon import FUNCTION_WORDS, NUMBER_WORDS
from handoffaudit.validation.layers.grounding.wording_relations import relations_of
from handoffaudit.validation.layers.grounding.wording_text import Prose, Word, are_near, figures_in, is_negation, speaks

_MOST = 3
# of content words: `Yes!` is none
_SHORTEST_SENTENCE = 2


@dataclass(frozen=True, slots=True)
class Departure:
    """Measures of a claim against its source.

    `apart`: share of neighbouring content words that never stand near one another in the source. `new_triples`: share
    of three words in a row that the source does not have so; `new_pairs`: the root of the number of such pairs.
    `covered`: the share of the worst sentence's content words that one sentence of the source holds. `new_words`,
    `new_names`, `new_numbers`: how many the source does not have, at most 3 each; `synonyms`: how many of these words
    it has another word for. `talks`: 1 where the claim speaks of itself or to somebody. `source_size`: the logarithm of
    the source's words.
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
    """The measures of a claim, given sentence by sentence, and its words that the source does not have."""
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
        covered=_covered(sentences, source),
        new_words=min(_MOST, len(unseen) - len(names)),
        new_names=min(_MOST, len(names)),
        new_numbers=min(_MOST, len(numbers)),
        synonyms=min(_MOST, sum(not relations_of(word.stem).synonyms.isdisjoint(source.known) for word in unseen)),
        talks=min(1, speaks(word.lower for word in words)),
        source_size=log(1 + source.size),
    )
    return measures, unseen + numbers


def _covered(sentences: list[list[Word]], source: Prose) -> float:
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


def _is_number(word: Word) -> bool:
    return word.text[0].isdecimal() or word.lower in NUMBER_WORDS


def _stands_in(word: Word, source: Prose) -> bool:
    figures = figures_in(word.lower) or [NUMBER_WORDS[word.lower]]
    return word.stem in source.known or source.figures.issuperset(figures)
