"""The `framework` format: records that agent frameworks write themselves. `FRAMEWORKS` lists the supported frameworks.

The modules of the frameworks find the handoff in a native record. This module declares the format and converts the
handoff to a `Record`.
"""

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Final

from handoffaudit.validation.formats import framework_records, framework_traces
from handoffaudit.validation.formats.base import (
    Document,
    Format,
    Framework,
    NativeHandoff,
    Places,
    RepairRules,
    Section,
    Variant,
    envelope_fields,
    fields,
    id_issues,
    obj,
)
from handoffaudit.validation.formats.messages import MISSING_FIELD
from handoffaudit.validation.formats.schema_check import Shape
from handoffaudit.validation.issues import Issue, make
from handoffaudit.validation.paths import at, last_name
from handoffaudit.validation.record import Envelope, Record
from handoffaudit.validation.text import clean_or_empty

NAME: Final = "framework"

FRAMEWORKS: Final[tuple[Framework, ...]] = (
    framework_traces.OPENAI_AGENTS,
    framework_records.LANGGRAPH,
    framework_records.AUTOGEN,
    framework_records.GOOGLE_ADK,
    framework_records.A2A,
    framework_records.CREWAI,
    framework_records.LLAMA_INDEX,
    framework_traces.OPENTELEMETRY,
)

_SHAPE = Shape("framework", {})

# Hook events of agent hosts have some fields of the events of frameworks, but belong to other formats.
_OF_A_HOST: Final = "hook_event_name"


def find(document: Document) -> NativeHandoff | None:
    """Return the handoff of a native record, or None."""
    if _OF_A_HOST in document:
        return None
    return next((found for framework in FRAMEWORKS if (found := framework.find(document))), None)


def find_resembling(document: Document) -> Framework | None:
    """Return the framework whose record a document resembles, or None.

    Return None also for a document that can be read as a handoff, and for an event of an agent host.
    """
    if _OF_A_HOST in document or find(document):
        return None
    return next((framework for framework in FRAMEWORKS if framework.resembles(document)), None)


def recognise(document: Document) -> bool:
    return find(document) is not None


def read(document: Document, envelope: Envelope) -> Record:
    """Return the record. If the document names no source, the agent of the submission is the source."""
    found = find(document) or NativeHandoff("", "", (), ())
    # An id that would be cut or cleaned is not used, because the result can be equal to another id.
    own_id = found.handoff_id if clean_or_empty(found.handoff_id) == found.handoff_id else None
    return Record(
        format=NAME,
        document=document,
        handoff_id=clean_or_empty(envelope.handoff_id) or own_id or None,
        tenant_id=None,
        handoff_type=found.handoff_type,
        source_agent_id=clean_or_empty(found.source) or clean_or_empty(envelope.agent),
        target_agent_id=clean_or_empty(found.target),
        call_chain=(),
        trace_id=clean_or_empty(envelope.trace_id) or clean_or_empty(found.trace_id),
        data=found.data,
        context=obj(envelope.context),
        timestamp=found.at,
        **envelope_fields(envelope),
    )


def check(record: Record) -> Iterable[Issue]:
    document = record.document
    found = find(document)
    if found is None:
        return [*_SHAPE.check(document), _no_handoff(document)]
    return chain(
        _SHAPE.check(document),
        id_issues(document, (found.source_at, found.target_at)),
        _missing_agents(record, found),
    )


def _no_handoff(document: Document) -> Issue:
    near = find_resembling(document)
    what = f"The document resembles {near.name}, but" if near else "The document"
    wanted = near.wanted if near else f"one of these: {'; '.join(framework.wanted for framework in FRAMEWORKS)}"
    return make(MISSING_FIELD, message=f"{what} is not a handoff of a known framework.", hint=f"Send {wanted}.")


def _missing_agents(record: Record, found: NativeHandoff) -> Iterable[Issue]:
    beside = ', or name the agent beside the document, as "agent"'
    for name, place, hint in (
        (record.source_agent_id, found.source_at, beside),
        (record.target_agent_id, found.target_at, ""),
    ):
        if name:
            continue
        given = at(record.document, place)
        state = "is missing" if given is None else "is not a name"
        yield make(
            MISSING_FIELD,
            location=place,
            message=f"{last_name(place)} {state}: the record does not say which agent "
            f"{'hands over' if hint else 'takes over'}.",
            hint=f'Give the name of the agent as "{place[-1]}"{hint}.',
        )


def sections(document: Document) -> Mapping[str, Section]:
    return {"record": Section(document)}


_EXAMPLE: Final[Document] = {
    "id": "b5fb86bc-03cb-4d36-b738-d82f7fb9efc1",
    "source": "triage",
    "target": "researcher",
    "content": "Find who can deliver 40 chairs within a week.",
    "context": [],
    "created_at": "2026-02-01T08:00:00Z",
    "models_usage": None,
    "metadata": {},
    "type": "HandoffMessage",
}

FORMAT: Final = Format(
    name=NAME,
    # Payloads and hook events are tried before this format. Delegations are tried after this format, because some
    # native records have a `tool_name`, like delegations.
    order=45,
    variants=(Variant(_SHAPE, _EXAMPLE),),
    # The place of the agents depends on the framework.
    places=Places(target=()),
    recognise=recognise,
    read=read,
    check=check,
    sections=sections,
    # A framework wrote the record, not the agent, so a repair changes nothing in the record.
    repair=RepairRules(
        protected=fields(
            *("object", "data", "span_data", "type", "source", "target", "content", "context", "author", "actions"),
            *("jsonrpc", "method", "params", "message", "event", "metadata", "inputs", "output", "agent_role"),
            *("trace_id", "span_id", "span_name", "started_at", "rule", "inferred", "handoff_type"),
            *("tool_name", "tool_args", "tool_kwargs", "tool_calls", "current_agent_name", "value"),
        ),
    ),
)
