"""Handoffs in traces: trace exports of the OpenAI Agents SDK, and handoffs that the server finds in OpenTelemetry.

In an export of the SDK, a span of the type `handoff` is a handoff. For a handoff in OpenTelemetry, the server makes the
document that it stores, and reads this document.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from handoffaudit.validation.formats.base import (
    DELEGATION,
    HANDOFF,
    Document,
    Framework,
    NativeHandoff,
    entries,
    json_object,
    obj,
    text_data,
    time_of,
)
from handoffaudit.validation.telemetry.handoff_rules import INFERENCE_TEXTS, RULE_TEXTS, Found
from handoffaudit.validation.text import clean_or_empty

_SPAN: Final = "trace.span"
# This is a tuple because a document may have a list or an object in `object`. A set cannot look these up.
_OBJECTS: Final = ("trace", _SPAN)
_NOT_IN_TOOL_NAMES: Final = re.compile(r"[^a-z0-9_]")
# The fields that are kept of a generation span, which holds the tool calls of the source agent. Prompts are left out.
_KEPT: Final = ("object", "id", "trace_id", "parent_id", "started_at", "ended_at")


def is_export(document: Document) -> bool:
    """Return whether a document is a trace export, with handoffs or without."""
    items = document.get("data")
    return isinstance(items, list) and bool(items) and all(obj(item).get("object") in _OBJECTS for item in items)


def split_export(document: Document) -> list[Document]:
    """Return one trace export for each handoff in an export, in order.

    Each export has the span of the handoff and, before it, the latest output of the LLM under the same parent span.
    Prompts are left out, because they belong to no handoff.
    """
    spans = [span for item in entries(document.get("data")) if (span := obj(item)).get("object") == _SPAN]
    asked: dict[Any, Document] = {}
    parts: list[Document] = []
    for span in spans:
        data, parent = obj(span.get("span_data")), span.get("parent_id")
        if not isinstance(parent, str):
            parent = ""
        if data.get("type") == "generation":
            kept = {name: span[name] for name in _KEPT if name in span}
            asked[parent] = kept | {"span_data": {"type": "generation", "output": data.get("output")}}
        elif data.get("type") == "handoff":
            before = [asked[parent]] if parent in asked else []
            parts.append({"data": [*before, span]})
    return parts


def _find_in_export(document: Document) -> NativeHandoff | None:
    """Return the handoff of an export with exactly one handoff, or of a handoff span; None for other documents."""
    if document.get("object") == _SPAN:
        return _read_span(document, (), [])
    if not is_export(document):
        return None
    items = document["data"]
    found = [number for number, item in enumerate(items) if obj(item.get("span_data")).get("type") == "handoff"]
    return _read_span(items[found[0]], ("data", found[0]), items) if len(found) == 1 else None


def _read_span(span: Document, place: tuple[str | int, ...], items: list[Document]) -> NativeHandoff | None:
    data = obj(span.get("span_data"))
    if data.get("type") != "handoff":
        return None
    inside = (*place, "span_data")
    return NativeHandoff(
        source=data.get("from_agent"),
        target=data.get("to_agent"),
        source_at=(*inside, "from_agent"),
        target_at=(*inside, "to_agent"),
        data=_find_payload(items, span.get("parent_id"), data.get("to_agent")),
        trace_id=span.get("trace_id"),
        handoff_id=span.get("id"),
        at=time_of(span.get("started_at")),
    )


def _find_payload(items: list[Document], parent: object, target: object) -> dict[str, Any]:
    """Return the arguments of the LLM's transfer call under the same parent span, or else the last text of the LLM."""
    spoken: dict[str, Any] = {}
    for message in _messages(items, parent):
        for call in entries(message.get("tool_calls")):
            function = obj(obj(call).get("function"))
            if _is_transfer(function.get("name"), target) and (given := json_object(function.get("arguments"))):
                return given
        spoken = text_data(message.get("content")) or spoken
    return spoken


def _messages(items: list[Document], parent: object) -> Iterator[Document]:
    for item in items:
        data = obj(item.get("span_data"))
        if item.get("parent_id") == parent and data.get("type") == "generation":
            yield from (obj(message) for message in entries(data.get("output")))


def _is_transfer(name: object, target: object) -> bool:
    """Return whether a tool hands over to the target: the SDK derives the name of the tool from the agent's name."""
    if not isinstance(name, str) or not isinstance(target, str):
        return False
    return name.lower().removeprefix("transfer_to_") == _NOT_IN_TOOL_NAMES.sub("_", target.lower())


def _resembles_export(document: Document) -> bool:
    return is_export(document) or document.get("object") == _SPAN


OPENAI_AGENTS: Final = Framework(
    name="a trace export of OpenAI Agents",
    wanted='a span whose span_data has the type "handoff"',
    find=_find_in_export,
    resembles=_resembles_export,
)


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


def _find_in_trace(document: Document) -> NativeHandoff | None:
    if not _resembles_trace(document):
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


def _resembles_trace(document: Document) -> bool:
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
    if not isinstance(document, dict) or not _resembles_trace(document):
        return None
    rule, stated = clean_or_empty(document.get("rule")), obj(document.get("inferred"))
    if rule not in RULE_TEXTS:
        return None
    inferred = {end: how for end in _ENDS if (how := clean_or_empty(stated.get(end))) in INFERENCE_TEXTS}
    trace_id, span_id, span_name = (clean_or_empty(document.get(name)) for name in ("trace_id", "span_id", "span_name"))
    return Origin(trace_id, span_id, span_name, rule, inferred)


OPENTELEMETRY: Final = Framework(
    name="a handoff that was read from an OpenTelemetry trace",
    wanted="spans to /v1/traces, from which the server makes such documents",
    find=_find_in_trace,
    resembles=_resembles_trace,
)
