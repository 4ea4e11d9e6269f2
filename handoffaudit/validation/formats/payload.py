"""The `payload` format: a flat object that one agent sends to the next."""

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Final

from handoffaudit.validation.formats.base import (
    Compression,
    Document,
    Format,
    Places,
    RepairRules,
    Section,
    Variant,
    blank_issues,
    confidence,
    envelope_fields,
    fields,
    id_issues,
    names,
    obj,
    reason,
)
from handoffaudit.validation.formats.schema_check import Basics, Shape
from handoffaudit.validation.issues import Code, Issue, Severity, make
from handoffaudit.validation.record import Envelope, Record
from handoffaudit.validation.text import clean_or_empty, closest, is_blank, show
from handoffaudit.validation.times import moment

SOURCE_NOT_IN_CHAIN: Final = Code(
    "structure.source_not_in_chain",
    Severity.ERROR,
    "Source not in chain",
    what="The source agent is not in the chain of agents that the work has passed through.",
    why="The chain is used to find loops and to trace wrong values. Neither works for an agent "
    "that is missing from it.",
    hint="Add the source agent as the last entry of the chain.",
)


NAME: Final = "payload"

_DATA: Final = ("data",)
_BASICS: Basics = {
    ("source_agent_id",): "string",
    ("target_agent_id",): "string",
    ("handoff_type",): "string",
    _DATA: "object or text",
}
_SHAPE = Shape("payload", _BASICS)
_TELLTALE = frozenset(("source_agent_id", "target_agent_id", "call_chain"))
_IDS = (
    ("handoff_id",),
    ("source_agent_id",),
    ("target_agent_id",),
    ("tenant_id",),
    ("handoff_type",),
    ("call_chain",),
    ("context_refs",),
)


def recognise(document: Document) -> bool:
    return not _TELLTALE.isdisjoint(document)


def read(document: Document, envelope: Envelope) -> Record:
    """Return the record. A text as `data` is judged as `{"text": …}`, and findings about the text point at `data`."""
    given = document.get("data")
    text = given if isinstance(given, str) and not is_blank(given) else ""
    has_place = isinstance(given, str) or (given is None and "data" in document)
    timestamp = moment(document.get("timestamp"))
    return Record(
        format=NAME,
        document=document,
        handoff_id=clean_or_empty(document.get("handoff_id") or envelope.handoff_id) or None,
        tenant_id=clean_or_empty(document.get("tenant_id")) or None,
        handoff_type=clean_or_empty(document.get("handoff_type")),
        source_agent_id=clean_or_empty(document.get("source_agent_id")),
        target_agent_id=clean_or_empty(document.get("target_agent_id")),
        call_chain=names(document.get("call_chain")),
        trace_id=clean_or_empty(envelope.trace_id) if envelope.trace_id else "",
        data={"text": text} if text else obj(given),
        data_place=_DATA if has_place else None,
        context=obj(envelope.context),
        context_refs=names(document.get("context_refs")),
        confidence=confidence(document.get("confidence", 1.0)),
        timestamp=timestamp.at if timestamp else None,
        handoff_reason=reason(document.get("handoff_reason"), envelope),
        user_approved=document.get("user_approved") is True,
        **envelope_fields(envelope),
    )


def check(record: Record) -> Iterable[Issue]:
    document = record.document
    return chain(
        _SHAPE.check(document),
        id_issues(document, _IDS),
        blank_issues(document, ("handoff_type",)),
        _source_in_chain(document),
    )


def _source_in_chain(document: Document) -> Iterable[Issue]:
    source, declared = document.get("source_agent_id"), document.get("call_chain")
    if not isinstance(source, str) or not isinstance(declared, list):
        return
    if not source or not declared or source in declared:
        return
    near = closest(source, [name for name in declared[-10:] if isinstance(name, str)])
    hint = f'Write "{near}" the same way in both places, or add' if near else "Add"
    yield make(
        SOURCE_NOT_IN_CHAIN,
        location=("call_chain",),
        message=f"source_agent_id {show(source)} must appear in call_chain, which ends with {show(declared[-1])}.",
        hint=f"{hint} {show(source)} as the last entry of call_chain.",
        expected=source,
        actual=declared,
    )


def sections(document: Document) -> Mapping[str, Section]:
    apart = {"data": "data", "context_refs": "context_refs", "call_chain": "chain"}
    found = {name: Section(document[key]) for key, name in apart.items() if key in document}
    rest = {key: value for key, value in document.items() if key not in apart}
    return {**found, "rest": Section(rest)}


_EXAMPLE: Final[Document] = {
    "source_agent_id": "researcher",
    "target_agent_id": "writer",
    "tenant_id": "default",
    "call_chain": ["planner", "researcher"],
    "handoff_type": "research_result",
    "data": {"text": "Three of five suppliers answered; the median price is 12.40 EUR."},
}

FORMAT: Final = Format(
    name=NAME,
    order=30,
    variants=(Variant(_SHAPE, _EXAMPLE),),
    clue='a payload has "source_agent_id" and "target_agent_id"',
    places=Places(
        target=("target_agent_id",),
        source=("source_agent_id",),
        chain=("call_chain",),
        confidence=("confidence",),
        timestamp=("timestamp",),
        data=_DATA,
    ),
    # Most payloads are written with isoformat() of Python, which writes +00:00.
    demands_z=False,
    recognise=recognise,
    read=read,
    check=check,
    sections=sections,
    repair=RepairRules(
        protected=(
            *fields("handoff_id", "source_agent_id", "target_agent_id", "tenant_id", "handoff_type", "call_chain"),
            *fields("handoff_reason", "user_approved"),
        ),
        protected_unless_faulty=fields("confidence", "timestamp", "context_refs"),
        compression=Compression(texts=fields("data")),
    ),
)
