"""What is weighed of a text about data as a whole, and of each of its words."""

import re
from collections.abc import Iterator, Sequence
from math import log1p

from handoffaudit.validation.layers.grounding.data_judge import DataJudge, DataWord
from handoffaudit.validation.layers.grounding.data_vocabulary import JUDGING_WORDS
from handoffaudit.validation.layers.grounding.marks import Mark
from handoffaudit.validation.layers.grounding.statements import Finding

_CLAUSE = re.compile(r"(?<=[.!?;])\s+|(?<=,)\s+|\s+(?=(?:and|but|while|with|which|where|whereas|although|however)\b)")


def text_features(
    judge: DataJudge, findings: Sequence[Finding], words: Sequence[DataWord], marks: Sequence[Mark]
) -> dict[str, float]:
    """What is weighed of the text as a whole."""
    against = [finding.check for finding in findings if not finding.agrees]
    new = sum(word.new for word in words)
    unfound = [mark.kind for mark in marks if mark.status == "ungrounded"]
    return {
        "clock": float("clock" in against),
        "numbered": float("numbered" in against),
        "no_such_day": float("no_such_day" in against),
        "against": float(min(len(against), 5)),
        "bound": float(min(against.count("bound"), 3)),
        "score": float("score" in against),
        "borne_out": float(min(len(findings) - len(against), 6)),
        "new": new / max(1, sum(word.content for word in words)),
        "few_facts": float(judge.few),
        "new_of_few": judge.few * log1p(new),
        "names": float(min(unfound.count("name"), 3)),
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
    """What is weighed of the words of each clause: what they share, and what each has of its own."""
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
    hit = [finding.agrees for finding in findings if finding.start < word.end and finding.end > word.start]
    own["word_against"] = float(not all(hit))
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
