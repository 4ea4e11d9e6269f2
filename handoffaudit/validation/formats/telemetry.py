"""Handoffs that the server found in OpenTelemetry traces: the document that the server stores, and its reader."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from handoffaudit.validation.formats.base import DELEGATION, HANDOFF, Document, Framework, NativeHandoff, obj, time_of
from handoffaudit.validation.telemetry.handoff_rules import INFERENCE_TEXTS, RULE_TEXTS, Found
from handoffaudit.validation.text import clean_or_empty

_TYPE: Final = "opentelemetry.handoff"
_ENDS: Final = ("source", "target", "data")


def make_document(found: Found) -> Document:
    """Return the document of a handoff that a rule found in a trace."""
    span = found.span
    return {
        "type": _TYPE,
        "trace_id": span.trace_id,
        "span_id": span.span_id,
        "span_name": span.name,
        "started_at": moment_of(span.started).isoformat(),
        "rule": found.rule,
        "inferred": found.inferred,
        "handoff_type": found.handoff_type,
        "source": found.source,
        "target": found.target,
        "data": found.data,
    }


def moment_of(nanoseconds: int) -> datetime:
    """Return the time of a span, in whole microseconds."""
    seconds, rest = divmod(nanoseconds, 10**9)
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest // 1000)


def find(document: Document) -> NativeHandoff | None:
    if not resembles(document):
        return None
    return NativeHandoff(
        source=document.get("source"),
        target=document.get("target"),
        source_at=("source",),
        target_at=("target",),
        data=obj(document.get("data")),
        handoff_type=DELEGATION if document.get("handoff_type") == DELEGATION else HANDOFF,
        trace_id=document.get("trace_id"),
        at=time_of(document.get("started_at")),
    )


def resembles(document: Document) -> bool:
    return document.get("type") == _TYPE


@dataclass(frozen=True, slots=True)
class Origin:
    """The span and the rule that show a handoff in a trace.

    `inferred` maps each inferred field (`source`, `target` or `data`) to a key of `INFERENCE_TEXTS`.
    """

    trace_id: str
    span_id: str
    span_name: str
    rule: str
    inferred: Mapping[str, str]

    @property
    def text(self) -> str:
        """Return a sentence such as "Read from a trace; target inferred from the next agent span"."""
        parts = [f"{end} inferred from {INFERENCE_TEXTS[how]}" for end, how in self.inferred.items()]
        return f"{'; '.join(['Read from a trace', *parts])}."

    @property
    def rule_text(self) -> str:
        return RULE_TEXTS[self.rule]


def origin_of(document: Any) -> Origin | None:
    """Return the origin of a handoff that was found in a trace, or None for any other document."""
    if not isinstance(document, dict) or not resembles(document):
        return None
    rule, stated = clean_or_empty(document.get("rule")), obj(document.get("inferred"))
    if rule not in RULE_TEXTS:
        return None
    inferred = {end: how for end in _ENDS if (how := clean_or_empty(stated.get(end))) in INFERENCE_TEXTS}
    trace_id, span_id, span_name = (clean_or_empty(document.get(name)) for name in ("trace_id", "span_id", "span_name"))
    return Origin(trace_id, span_id, span_name, rule, inferred)


FRAMEWORK: Final = Framework(
    name="a handoff that was read from an OpenTelemetry trace",
    wanted="spans to /v1/traces, from which the server makes such documents",
    find=find,
    resembles=resembles,
)
