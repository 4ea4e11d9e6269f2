"""The `output` format: the parsed output of an LLM, with the envelope of the call that the output answers."""

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any, Final

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
    entries,
    envelope_fields,
    fields,
    id_issues,
    obj,
)
from handoffaudit.validation.formats.schema_check import Basics, Shape
from handoffaudit.validation.issues import Issue
from handoffaudit.validation.record import Envelope, Record
from handoffaudit.validation.text import clean_or_empty

NAME: Final = "output"

_BASICS: Basics = {
    ("parsed_output",): "object",
    ("envelope",): "object",
    ("envelope", "agent_id"): "string",
}
_SHAPE = Shape("output", _BASICS)
_OF_A_PAYLOAD = frozenset(("source_agent_id", "call_chain"))
_TYPE = ("parsed_output", "_output_type")
_IDS = (
    _TYPE,
    ("envelope", "agent_id"),
    ("envelope", "trace_id"),
    ("envelope", "tenant_id"),
    ("target_agent_id",),
)


def recognise(document: Document) -> bool:
    if not _OF_A_PAYLOAD.isdisjoint(document):
        return False
    return "parsed_output" in document or "agent_id" in obj(document.get("envelope"))


def read(document: Document, envelope: Envelope) -> Record:
    """Return the record. Its context and evidence come from the document and from the submission.

    If both have the same context field, the field of the document is used.
    """
    output, own = obj(document.get("parsed_output")), obj(document.get("envelope"))
    beside = envelope_fields(envelope)
    return Record(
        format=NAME,
        document=document,
        handoff_id=clean_or_empty(envelope.handoff_id) or None,
        tenant_id=clean_or_empty(own.get("tenant_id")) or None,
        handoff_type=clean_or_empty(output.get("_output_type")),
        source_agent_id=clean_or_empty(own.get("agent_id")),
        target_agent_id=clean_or_empty(document.get("target_agent_id")),
        call_chain=(),
        trace_id=clean_or_empty(own.get("trace_id")) or clean_or_empty(envelope.trace_id),
        data=output,
        context={**(envelope.context or {}), **obj(own.get("context"))},
        confidence=confidence(output.get("confidence")),
        expected_schema=_keep_demanding(own.get("expected_output_schema")),
        **{**beside, "evidence": (*entries(own.get("retrieved_evidence")), *beside["evidence"])},
    )


def _keep_demanding(schema: object) -> dict[str, Any] | bool | None:
    """Return `schema` if it is a JSON Schema with requirements.

    Return None for `{}` and `true`, which require nothing, and for values that are not JSON Schemas.
    """
    return schema if isinstance(schema, dict | bool) and schema not in ({}, True) else None


def check(record: Record) -> Iterable[Issue]:
    document = record.document
    return chain(_SHAPE.check(document), id_issues(document, _IDS), blank_issues(document, _TYPE))


def sections(document: Document) -> Mapping[str, Section]:
    own = obj(document.get("envelope"))
    apart = {
        "parsed_output": document.get("parsed_output"),
        "instructions": own.get("instructions"),
        "context": own.get("context"),
        "retrieved_evidence": own.get("retrieved_evidence"),
        "expected_output_schema": own.get("expected_output_schema"),
    }
    rest = {key: value for key, value in own.items() if key not in apart}
    others = {key: value for key, value in document.items() if key not in ("parsed_output", "envelope")}
    found = {name: Section(value) for name, value in apart.items() if value not in (None, {})}
    return {**found, "rest": Section({**others, "envelope": rest})}


_EXAMPLE: Final[Document] = {
    "parsed_output": {
        "_output_type": "Signal",
        "direction": "LONG",
        "rationale": "Revenue grew by 12 % in 2025.",
        "confidence": 0.8,
        "evidence_refs": {"rationale": "report-2025"},
        "assumptions": ["direction"],
    },
    "envelope": {
        "envelope_id": "env-17",
        "trace_id": "d53a8f7e-049d-4f0d-910f-824ba3bf6e11",
        "agent_id": "analyst",
        "agent_type": "research",
        "tenant_id": "default",
        "instructions": "Judge the account.",
        "context": {"question": "Does revenue grow?"},
        "retrieved_evidence": [{"source": "report-2025", "content": "Revenue grew by 12 % in 2025.", "relevance": 0.9}],
        "expected_output_schema": {"type": "object", "required": ["rationale"]},
    },
    "target_agent_id": "trader",
}

FORMAT: Final = Format(
    name=NAME,
    order=20,
    variants=(Variant(_SHAPE, _EXAMPLE),),
    clue='an output "parsed_output" and "envelope"',
    places=Places(target=("target_agent_id",), confidence=("parsed_output", "confidence")),
    recognise=recognise,
    read=read,
    check=check,
    sections=sections,
    repair=RepairRules(
        protected=(
            *fields("target_agent_id", "parsed_output._output_type", "envelope.envelope_id", "envelope.trace_id"),
            *fields("envelope.agent_id", "envelope.tenant_id", "envelope.context", "envelope.retrieved_evidence"),
            *fields("envelope.expected_output_schema"),
        ),
        protected_unless_faulty=fields("envelope", "parsed_output.confidence"),
        compression=Compression(prompts=fields("envelope.instructions"), texts=fields("parsed_output")),
    ),
)
