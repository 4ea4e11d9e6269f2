"""How far a claim as a whole departs from the words of its source."""

from dataclasses import dataclass
from itertools import pairwise
from math import log, sqrt

from handoffaudit.validation.layers.grounding.wording_lexicon import FUNCTION_WORDS, NUMBER_WORDS
from handoffaudit.validation.layers.grounding.wording_text import (
    Prose,
    Word,
    are_near,
    figures_in,
    is_negation,
)


@dataclass(frozen=True, slots=True)
class Departure:
    """Measures of a claim against its source, all growing with the departure but `covered` and `source_size`.

    `apart`: share of neighbouring content words that never stand near one another in the source. `new_triples`: share
    of three words in a row that the source does not have so; `new_pairs`: the root of the number of such pairs.
    `covered`: the share of the worst sentence's content words that one sentence of the source holds. `new_words`,
    `new_names`, `new_numbers`, `negations`: counts, at most 3 each. `source_size`: the logarithm of its words.
    """

    apart: float
    new_triples: float
    new_pairs: float
    covered: float
    new_words: float
    new_names: float
    new_numbers: float
    negations: float
    source_size: float


def departure_of(sentences: list[list[Word]], source: Prose) -> tuple[Departure, list[Word]]:
    """The measures of a claim, given sentence by sentence, and its words that the source does not have."""
    words = [word for sentence in sentences for word in sentence]
    stems = [word.stem for word in words]
    content = [word for word in words if word.stem not in FUNCTION_WORDS and not is_negation(word.lower)]
    unseen = [word for word in content if word.stem not in source.known]
    openers = {sentence[0].start for sentence in sentences}
    numbers = [word for word in content if _is_number(word)]
    names = [word for word in unseen if word.text[0].isupper() and word.start not in openers]
    new_numbers = [word for word in numbers if not _stands_in(word, source)]
    new_words = len(unseen) - len(names) - sum(word in unseen for word in numbers)
    triples = list(zip(stems, stems[1:], stems[2:], strict=False))
    contents = [frozenset(word.stem for word in sentence) - FUNCTION_WORDS for sentence in sentences]
    measures = Departure(
        apart=_apart([word.stem for word in content], source),
        new_triples=sum(triple not in source.triples for triple in triples) / max(1, len(triples)),
        new_pairs=sqrt(sum(pair not in source.pairs for pair in pairwise(stems))),
        covered=min((source.coverage(content) for content in contents if content), default=0.0),
        new_words=min(3, new_words),
        new_names=min(3, len(names)),
        new_numbers=min(3, len(new_numbers)),
        negations=min(3, sum(is_negation(word.lower) for word in words)),
        source_size=log(1 + source.size),
    )
    return measures, [word for word in unseen if not _is_number(word)] + new_numbers


def _apart(content: list[str], source: Prose) -> float:
    places = source.places(frozenset(content))
    neighbours = list(pairwise(content))
    if not neighbours:
        return 0.0
    return sum(not are_near(places.get(one, []), places.get(other, [])) for one, other in neighbours) / len(neighbours)


def _is_number(word: Word) -> bool:
    return word.text[0].isdigit() or word.lower in NUMBER_WORDS


def _stands_in(word: Word, source: Prose) -> bool:
    if word.stem in source.known:
        return True
    figures = figures_in(word.lower) or [str(NUMBER_WORDS[word.lower])]
    return source.figures.issuperset(figures)
