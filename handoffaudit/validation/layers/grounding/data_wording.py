"""Judges a text about structured data: marks the phrases that the data does not bear out.

Two weighed sums decide. The first is taken of the whole text: what its statements come to against the data (times,
days, extremes, scores, what is switched off), and how much it says that no key or value does. Only where it speaks
against the text is the second taken of each word, with what is known of the word, its clause and its statements.
"""

from collections.abc import Iterator, Mapping, Sequence

from handoffaudit.validation.layers.grounding.data_features import text_features, word_features
from handoffaudit.validation.layers.grounding.data_judge import DataJudge, DataWord
from handoffaudit.validation.layers.grounding.data_weights import TEXT, TEXT_START, WORD, WORD_START
from handoffaudit.validation.layers.grounding.marks import Mark
from handoffaudit.validation.layers.grounding.statements import Finding
from handoffaudit.validation.layers.grounding.values import Value

_MARGIN = 0.2


def data_marks(text: str, judge: DataJudge, values: Sequence[Value], marks: Sequence[Mark]) -> list[Mark]:
    """The phrases of `text` that the data does not bear out; `values` and `marks` are those found in the text."""
    findings = judge.findings(text, values)
    words = judge.words_of(text)
    doubt = text_doubt(judge, findings, words, marks)
    if doubt <= 0:
        return []
    sums: list[float] = []
    for shared, own in word_features(text, judge, findings, words, marks, doubt):
        start = _weighed(shared, WORD) + WORD_START
        sums += [start + _weighed(one, WORD) for one in own]
    return list(_phrases(text, words, most_doubtful(sums)))


def most_doubtful(sums: Sequence[float]) -> list[bool]:
    """The words above the limit; where there are none, those next to the most doubtful: a doubted text has a place."""
    limit = min(0.0, max(sums, default=0.0) - _MARGIN)
    return [one > limit for one in sums]


def text_doubt(
    judge: DataJudge, findings: Sequence[Finding], words: Sequence[DataWord], marks: Sequence[Mark]
) -> float:
    """How much speaks against the text as a whole; above zero it is doubted."""
    return _weighed(text_features(judge, findings, words, marks), TEXT) + TEXT_START


def _weighed(features: Mapping[str, float], weights: Mapping[str, float]) -> float:
    return sum(weights.get(name, 0.0) * value for name, value in features.items())


def _phrases(text: str, words: Sequence[DataWord], doubted: Sequence[bool]) -> Iterator[Mark]:
    """Runs of doubted words as marks."""
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
