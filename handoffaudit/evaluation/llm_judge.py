"""Judge for items of labelled data by the semantic layer, with given answers of an LLM."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

from handoffaudit.evaluation.items import Item, Span
from handoffaudit.evaluation.judge import AS_SHIPPED, Judged, record_of, subject_of
from handoffaudit.evaluation.repeats import Before
from handoffaudit.validation import pipeline
from handoffaudit.validation.config import ValidationConfig
from handoffaudit.validation.issues import Severity
from handoffaudit.validation.layers import Subject, semantic
from handoffaudit.validation.locate import placer
from handoffaudit.validation.prompts.question import Answer, Question
from handoffaudit.validation.tokenizers import CharacterCounter
from handoffaudit.validation.verdict import Verdict


@dataclass(frozen=True, slots=True)
class Key:
    """The identity of an answer: the LLM, the version of the prompt, and the digest of all content that is sent."""

    model: str
    prompt: str
    input: str

    @classmethod
    def of(cls, model: str, question: Question) -> "Key":
        return cls(model, question.prompt, question.digest)


class LLMJudge:
    """A judge that runs the semantic layer alone, with answers from the caller."""

    def __init__(self, *, now: Callable[[], datetime], config: ValidationConfig = AS_SHIPPED) -> None:
        self._now, self._config = now, config

    def question(self, item: Item) -> Question | None:
        """Return the question to the LLM, None where the layer would not ask. Raises `UnreadableError`."""
        subject = self._subject(item)
        return semantic.question_of(subject) if semantic.skip(subject) is None else None

    def judged(self, item: Item, answer: Answer) -> Judged:
        """Return the result of the layer for an answer to this item's question. Raises `MalformedAnswer`.

        `ms` is the time that the answer took.
        """
        subject = self._subject(item)
        value = semantic.question_of(subject).read(answer.text)
        subject.model = _Answered(replace(answer, value=value))
        verdict = pipeline.run(
            subject, validation_id="", now=self._now, monotonic=lambda: 0.0, layers=(semantic,), new_id=str
        )
        found = tuple(issue for issue in verdict.issues if issue.severity is not Severity.INFO)
        return Judged(item, found, _spans(item, subject, verdict), Before(), answer.latency_ms)

    def _subject(self, item: Item) -> Subject:
        return subject_of(record_of(item), self._config, CharacterCounter(), now=self._now)


@dataclass(frozen=True, slots=True)
class _Answered:
    answer: Answer

    def ask(self, question: Question) -> Answer:
        return self.answer


def _spans(item: Item, subject: Subject, verdict: Verdict) -> tuple[Span, ...]:
    """Return the positions of the quoted claims in the labelled text.

    A claim that the LLM quotes in other words has no position.
    """
    place = placer(subject.record)(item.label.place)
    found = (issue.metadata.get("span") for issue in verdict.issues if issue.location == place)
    return tuple((span[0], span[1]) for span in found if span)


def percentile(values: list[float], share: float) -> float | None:
    """Return the smallest value that at least `share` of the values do not exceed, None without values."""
    if not values:
        return None
    ordered = sorted(values)
    return ordered[max(-(-int(share * 1000) * len(ordered) // 1000) - 1, 0)]
