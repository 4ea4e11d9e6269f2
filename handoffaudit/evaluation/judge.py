"""An item through the pipeline, by the same call as a handoff of the product."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from handoffaudit.evaluation.items import Item, Span, UnreadableError
from handoffaudit.evaluation.repeats import Before, Repeats
from handoffaudit.validation import formats, pipeline
from handoffaudit.validation.config import Strictness, TypePolicy, ValidationConfig
from handoffaudit.validation.formats import workflow_of
from handoffaudit.validation.issues import Issue, Severity
from handoffaudit.validation.layers import LAYERS, History, Layer, Subject
from handoffaudit.validation.record import Record
from handoffaudit.validation.tokenizers import TokenCounter
from handoffaudit.validation.verdict import Verdict

AS_SHIPPED = ValidationConfig(version=0, other=TypePolicy("*", strictness=Strictness.STRICT))

"""Every type strict, no rules."""


@dataclass(frozen=True, slots=True)
class Judged:
    """`found` holds what a person would be shown of the chosen layers: warnings and worse. `spans` are the marked
    characters of the labelled text. `ms`: reading not counted."""

    item: Item
    found: tuple[Issue, ...]
    spans: tuple[Span, ...]
    before: Before
    ms: float

    @property
    def flagged(self) -> bool:
        return bool(self.found)


@dataclass(frozen=True, slots=True)
class _Files:
    known: frozenset[str]

    def exists(self, path: str) -> bool:
        return path in self.known


class Judge:
    """Judges items in their order. `names` are the layers to run; raises `ValueError` for a name that is none."""

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

    def judge(self, item: Item) -> Judged:
        """Raises `UnreadableError` where the item is in no format."""
        record = record_of(item)
        before = self._repeats.see(record)
        subject = subject_of(
            record, self._config, self._counter, now=self._now, files=item.files, repeats=before.same_data
        )
        began = self._monotonic()
        verdict = pipeline.run(subject, validation_id="", now=self._now, monotonic=self._monotonic, layers=self.layers)
        ms = (self._monotonic() - began) * 1000
        found = tuple(issue for issue in verdict.issues if issue.severity is not Severity.INFO)
        return Judged(item, found, _spans(item, verdict), before, ms)


def record_of(item: Item) -> Record:
    """Raises `UnreadableError` where the item is in no format."""
    record = formats.read(item.document, item.format or None, item.envelope).record
    if record is None:
        raise UnreadableError("holds a document in no format that is read")
    return record


def subject_of(
    record: Record,
    config: ValidationConfig,
    counter: TokenCounter,
    *,
    now: Callable[[], datetime],
    files: frozenset[str] | None = None,
    repeats: int = 0,
) -> Subject:
    """The record as the pipeline takes it."""
    return Subject(
        record=record,
        policy=config.policy_for(record.handoff_type),
        demands=config.demands_for(record.handoff_type, workflow_of(record)),
        history=History(repeats=repeats),
        received_at=record.timestamp or now(),
        counter=counter,
        files=None if files is None else _Files(files),
    )


def choose_layers(names: Sequence[str]) -> tuple[Layer, ...]:
    """These layers, in the pipeline's order."""
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
