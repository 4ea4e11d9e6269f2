"""Judge for items of labelled data: the product's own pipeline with chosen layers."""

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

# Every handoff type is strict, and there are no rules.
AS_SHIPPED = ValidationConfig(version=0, other=TypePolicy("*", strictness=Strictness.STRICT))


@dataclass(frozen=True, slots=True)
class Judged:
    """The result for one item.

    `found` holds the findings that a person would see, warnings and worse. `spans` are the marked characters of the
    labelled text. `ms` is the time of the layers, without the time to read the item.
    """

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
    """A judge of items in their order. `names` are the layers to run; raises `ValueError` for an unknown layer."""

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
        """Judge an item. Raises `UnreadableError` for an item in an unknown format."""
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
    """Return the record of an item. Raises `UnreadableError` for an item in an unknown format."""
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
    """Return the record as the input of the pipeline."""
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
    """Return these layers in the order of the pipeline. Raises `ValueError` for an unknown name."""
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
