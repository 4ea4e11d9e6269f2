"""Judges for items of labelled data: one runs the pipeline, the other the semantic layer with given answers."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple

from handoffaudit.evaluation.items import Item, Span, UnreadableError
from handoffaudit.validation import formats, pipeline
from handoffaudit.validation.agents import guess_role
from handoffaudit.validation.config import Strictness, TypePolicy, ValidationConfig
from handoffaudit.validation.formats import workflow_of
from handoffaudit.validation.issues import Issue, is_counted
from handoffaudit.validation.json_text import repetition_key
from handoffaudit.validation.layers import LAYERS, History, Layer, Subject, semantic
from handoffaudit.validation.layers.grounding.reported import reported_keys
from handoffaudit.validation.prompts.question import Answer, Question
from handoffaudit.validation.record import Record, placer
from handoffaudit.validation.tokenizers import CharacterCounter, TokenCounter
from handoffaudit.validation.verdict import LayerStatus, Verdict


class EarlierHandoffs(NamedTuple):
    """Counts of the earlier handoffs of a trace that are like a given handoff.

    `same_way` counts the handoffs on the same route. `same_data` counts the handoffs on the same route with the same
    data. `received` is the `same_data` of the latest handoff that the source of the given handoff received.
    """

    same_way: int = 0
    same_data: int = 0
    received: int = 0


class Repeats:
    """A counter of repeated handoffs. It receives handoffs in order, and ignores handoffs without a trace."""

    def __init__(self) -> None:
        self._seen: Counter[tuple[str, ...]] = Counter()
        self._received: dict[tuple[str, str], int] = {}

    def count(self, record: Record) -> EarlierHandoffs:
        if not record.trace_id:
            return EarlierHandoffs()
        route = (record.trace_id, record.source_agent_id, record.target_agent_id)
        content = repetition_key(record)
        data = (*route, content)
        before = EarlierHandoffs(
            self._seen[route],
            self._seen[data] if content else 0,
            self._received.get((record.trace_id, record.source_agent_id), 0),
        )
        self._seen[route] += 1
        self._seen[data] += 1
        self._received[record.trace_id, record.target_agent_id] = before.same_data
        return before


class TraceRoles:
    """The roles of sources, guessed from the handoffs so far, and the reported values of each trace."""

    def __init__(self) -> None:
        self._behaviour: dict[str, str] = {}
        self._reported: dict[str, set[str]] = {}

    def prepare(self, subject: Subject) -> None:
        """Set the guessed role of the source, and the values that earlier handoffs of the trace reported."""
        record = subject.record
        agent = record.source_agent_id
        subject.source_role, self._behaviour[agent] = guess_role(record, self._behaviour.get(agent, ""))
        subject.reported = self._reported.get(record.trace_id, ())

    def learn(self, subject: Subject, verdict: Verdict) -> None:
        """Remember the values that the handoff reported, because later handoffs of its trace need them."""
        trace = subject.record.trace_id
        if trace:
            self._reported.setdefault(trace, set()).update(reported_keys(verdict.claims, subject.reported))


# The default policy of a judge: every handoff type is strict, and there are no rules. The policy of a new tenant, in
# contrast, has lenient types.
AS_SHIPPED = ValidationConfig(version=0, other=TypePolicy("*", strictness=Strictness.STRICT))

_NO_HISTORY = History()


@dataclass(frozen=True, slots=True)
class Judged:
    """The result for one item.

    `found` holds the findings that a person would see: severity `warning` and above. `noted` holds those of severity
    `info`. `spans` are the places in the labelled text that are ungrounded or that the LLM objects to. `ms` is the time
    of the layers, without the time to read the item. `judged` is False if every layer skipped the item.
    """

    item: Item
    found: tuple[Issue, ...]
    spans: tuple[Span, ...]
    before: EarlierHandoffs
    ms: float
    judged: bool = True
    noted: tuple[Issue, ...] = ()

    @property
    def flagged(self) -> bool:
        return bool(self.found)


@dataclass(frozen=True, slots=True)
class _Files:
    known: frozenset[str]

    def exists(self, path: str) -> bool:
        return path in self.known


class Judge:
    """A judge that receives items in order and runs the layers `names`. Raises `ValueError` for an unknown layer."""

    def __init__(
        self,
        names: Sequence[str],
        *,
        counter: TokenCounter,
        now: Callable[[], datetime],
        monotonic: Callable[[], float],
        config: ValidationConfig = AS_SHIPPED,
    ) -> None:
        self.layers = choose_layers(names)
        self._counter, self._now, self._monotonic, self._config = counter, now, monotonic, config
        self._repeats = Repeats()
        self._roles = TraceRoles()

    def judge(self, item: Item) -> Judged:
        """Judge an item. Raises `UnreadableError` for an item in an unknown format."""
        record = record_of(item)
        before = self._repeats.count(record)
        history = History(repeats=before.same_data, repeats_received=before.received)
        subject = subject_of(record, self._config, self._counter, now=self._now, files=item.files, history=history)
        subject.trace_evidence = item.trace_evidence
        self._roles.prepare(subject)
        began = self._monotonic()
        verdict = pipeline.run(subject, validation_id="", now=self._now, monotonic=self._monotonic, layers=self.layers)
        ms = (self._monotonic() - began) * 1000
        self._roles.learn(subject, verdict)
        found = tuple(issue for issue in verdict.issues if is_counted(issue.severity))
        judged = any(result.status is not LayerStatus.SKIPPED for result in verdict.layers)
        noted = tuple(issue for issue in verdict.issues if not is_counted(issue.severity))
        return Judged(item, found, _spans(item, verdict), before, ms, judged, noted)


def record_of(item: Item) -> Record:
    """Return the record of an item. Raises `UnreadableError` for an item in an unknown format."""
    record = formats.read(item.document, item.format or None, item.envelope).record
    if record is None:
        raise UnreadableError("holds a document in an unknown format")
    return record


def subject_of(
    record: Record,
    config: ValidationConfig,
    counter: TokenCounter,
    *,
    now: Callable[[], datetime],
    files: frozenset[str] | None = None,
    history: History = _NO_HISTORY,
) -> Subject:
    """Return the record as the input of the pipeline."""
    return Subject(
        record=record,
        policy=config.policy_for(record.handoff_type),
        demands=config.demands_for(record.handoff_type, workflow_of(record)),
        history=history,
        received_at=record.timestamp or now(),
        counter=counter,
        files=None if files is None else _Files(files),
    )


def choose_layers(names: Sequence[str]) -> tuple[Layer, ...]:
    """Return the named layers in the order of the pipeline. Raises `ValueError` for an unknown name."""
    known = [layer.name for layer in LAYERS]
    for name in names:
        if name not in known:
            raise ValueError(f"There is no layer {name!r}: choose from {', '.join(known)}.")
    return tuple(layer for layer in LAYERS if layer.name in names)


def _spans(item: Item, verdict: Verdict) -> tuple[Span, ...]:
    return tuple(
        (mark.start, mark.end)
        for claim in verdict.claims
        if claim.location == item.label.place
        for mark in claim.marks
        if mark.status == "ungrounded"
    )


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
        """Return the question to the LLM, or None if the layer would skip the item.

        Raises `UnreadableError` for an item in an unknown format.
        """
        subject = self._subject(item)
        return semantic.question_of(subject) if semantic.skip(subject) is None else None

    def judge(self, item: Item, answer: Answer) -> Judged:
        """Return the result of the layer for an answer to the item's question.

        The field `ms` of the result is the latency of the answer. Raises `MalformedAnswer`, or `UnreadableError` for an
        item in an unknown format.
        """
        subject = self._subject(item)
        value = semantic.question_of(subject).read(answer.text)
        subject.model = _Answered(replace(answer, value=value))
        verdict = pipeline.run(
            subject, validation_id="", now=self._now, monotonic=lambda: 0.0, layers=(semantic,), new_id=str
        )
        found = tuple(issue for issue in verdict.issues if is_counted(issue.severity))
        return Judged(item, found, _find_quoted_spans(item, subject, verdict), EarlierHandoffs(), answer.latency_ms)

    def _subject(self, item: Item) -> Subject:
        return subject_of(record_of(item), self._config, CharacterCounter(), now=self._now)


@dataclass(frozen=True, slots=True)
class _Answered:
    answer: Answer

    def ask(self, question: Question) -> Answer:
        return self.answer


def _find_quoted_spans(item: Item, subject: Subject, verdict: Verdict) -> tuple[Span, ...]:
    """Return the positions of the quoted claims in the labelled text.

    A claim that the LLM does not quote literally has no position.
    """
    place = placer(subject.record)(item.label.place)
    found = (issue.metadata.get("span") for issue in verdict.issues if issue.location == place)
    return tuple((span[0], span[1]) for span in found if span)


def percentile(values: list[float], share: float) -> float | None:
    """Return the smallest value that at least `share` of the values do not exceed, or None if there are no values."""
    if not values:
        return None
    ordered = sorted(values)
    return ordered[max(-(-round(share * 1000) * len(ordered) // 1000) - 1, 0)]
