"""The `universal` format: the Universal Handoff Schema, version 3.0, and version 2.0 lifted to 3.0."""

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any, Final
from uuid import UUID

from handoffaudit.validation.formats.base import (
    Compression,
    Document,
    Format,
    Places,
    Reference,
    RepairRules,
    Seal,
    Section,
    Variant,
    confidence,
    entries,
    envelope_fields,
    fields,
    id_issues,
    integer,
    names,
    obj,
    reason,
)
from handoffaudit.validation.formats.schema_check import Basics, Shape
from handoffaudit.validation.issues import Code, Issue, Severity, make
from handoffaudit.validation.json_text import canonical, compact, sha256_hex
from handoffaudit.validation.record import Envelope, Record
from handoffaudit.validation.text import clean_or_empty, is_uuid, show
from handoffaudit.validation.times import moment
from handoffaudit.validation.tokenizers import estimate

VERSION_MISMATCH: Final = Code(
    "structure.version_mismatch",
    Severity.ERROR,
    "Unsupported version",
    what="The document has a version of the format that is not supported.",
    why="Fields have other meanings in other versions, so the handoff would be misread.",
    hint="Send the document in a supported version.",
)
GENERATED_TRACE_ID: Final = Code(
    "structure.generated_trace_id",
    Severity.WARNING,
    "Trace id generated",
    what="A legacy handoff has no trace id, so the server took the trace id of the submission, or made a new trace id.",
    why="A new trace id belongs to this handoff alone, so loops, repeats and origins along the trace cannot be found.",
    hint="Send a trace_id, and use the same one for all handoffs of a piece of work.",
)

FROM: Final = "2.0"
VERSION: Final = "3.0"
_MAX_SUMMARY = 500
_MOST_TOKENS = 2000
_CARRIED = ("source", "target", "context", "payload", "meta")
_AS_THEY_ARE = ("timestamp", "expires_at", "tracing")
_KNOWN = frozenset((*_CARRIED, *_AS_THEY_ARE, "version", "schema_type", "trace_id"))

# Values that the sender computed from the document before the lift.
_OF_THE_OLD = ("token_count", "payload_hash", "payload_size_bytes")


def lift(document: Document, trace_id: str) -> Document:
    """Return the document lifted to version 3.0; accept any JSON object.

    `trace_id` is used if the document has none. Fields that 3.0 requires and 2.0 does not have are filled in. The phase
    becomes `unknown` and the confidence `medium`. The summary is made from the prompt, and the token count from the
    number of characters. Fields that 3.0 does not know go to `payload.working`.
    """
    handoff = obj(document.get("handoff"))
    strangers = {
        **{name: value for name, value in handoff.items() if name not in _KNOWN},
        **{name: value for name, value in document.items() if name != "handoff"},
    }
    payload = _payload(handoff, strangers)
    lifted: dict[str, Any] = {
        "version": VERSION,
        "schema_type": "universal",
        **{name: handoff[name] for name in _AS_THEY_ARE if handoff.get(name) is not None},
        "trace_id": handoff.get("trace_id") or trace_id,
        "source": {"phase": "unknown", **obj(handoff.get("source"))},
        "target": obj(handoff.get("target")),
        "context": _context(obj(handoff.get("context"))),
        "payload": payload,
        "meta": _meta(obj(handoff.get("meta")), kept=payload is handoff.get("payload")),
    }
    whole = {"handoff": lifted}
    lifted["meta"]["token_count"] = min(round(estimate(compact(whole).decode("utf-8", "replace"))), _MOST_TOKENS)
    return whole


def _context(context: Mapping[str, Any]) -> dict[str, Any]:
    if "summary" in context:
        return dict(context)
    prompt = context.get("original_prompt")
    text = prompt.strip() if isinstance(prompt, str) else ""
    summary = text if len(text) <= _MAX_SUMMARY else f"{text[: _MAX_SUMMARY - 3]}..."
    return {"summary": summary, **context}


def _payload(handoff: Document, strangers: dict[str, Any]) -> Any:
    """Return the payload in version 3.0; a payload that fits is returned unchanged."""
    given = handoff.get("payload")
    if isinstance(given, dict) and isinstance(given.get("working"), dict):
        return {**given, "working": _merge_working(given["working"], strangers)} if strangers else given
    if isinstance(given, dict):
        return {"working": _merge_working(given, strangers)}
    return {"working": _merge_working({} if given is None else {"payload": given}, strangers)}


def _merge_working(working: dict[str, Any], strangers: dict[str, Any]) -> dict[str, Any]:
    """Return both objects merged. If both have the same name, the name from `strangers` gets the prefix `handoff.`."""
    return {**working, **{name if name not in working else f"handoff.{name}": item for name, item in strangers.items()}}


def _meta(meta: Mapping[str, Any], *, kept: bool) -> dict[str, Any]:
    """Return the metadata in version 3.0; keep the hash and the size only if the payload is unchanged."""
    dropped = ("token_count",) if kept else _OF_THE_OLD
    return {"confidence": "medium", **{name: value for name, value in meta.items() if name not in dropped}}


NAME: Final = "universal"
_HANDOFF: Final = ("handoff",)
_TRACE_ID: Final = ("handoff", "trace_id")
_SOURCE_TEXTS = ("source.skill", "source.workflow_id", "source.session_path", "source.phase")
_BASICS: Basics = {
    _HANDOFF: "object",
    **dict.fromkeys(fields("version", "schema_type", "timestamp", "trace_id", within=_HANDOFF), "string"),
    ("handoff", "source"): "object",
    **dict.fromkeys(fields(*_SOURCE_TEXTS, within=_HANDOFF), "string"),
    ("handoff", "target"): "object",
    ("handoff", "target", "skill"): "string",
    ("handoff", "context"): "object",
    **dict.fromkeys(fields("context.summary", "context.problem_type", within=_HANDOFF), "string"),
    **dict.fromkeys(fields("payload", "payload.working", "meta", within=_HANDOFF), "object"),
    ("handoff", "meta", "token_count"): "number",
    ("handoff", "meta", "confidence"): "string",
}
_NOT_IN_2 = {"schema_type", "trace_id", "phase", "summary", "payload", "meta"}
_SHAPE = Shape("universal-3.0", _BASICS)
_BASICS_2: Basics = {
    **{place: wanted for place, wanted in _BASICS.items() if not _NOT_IN_2.intersection(place)},
    ("handoff", "context", "original_prompt"): "string",
}
_SHAPE_2 = Shape("universal-2.0", _BASICS_2)
_IDS = fields("source.skill", "target.skill", "meta.handoff_chain", within=_HANDOFF)
_METADATA = ("version", "schema_type", "timestamp", "trace_id", "expires_at")


def recognise(document: Document) -> bool:
    return "handoff" in document


def read(document: Document, envelope: Envelope) -> Record:
    """Return the record of the document; with `envelope.adapt`, lift a document of version 2.0 first."""
    if envelope.adapt and obj(document.get("handoff")).get("version") == FROM:
        given = envelope.trace_id
        lifted = lift(document, given if given and is_uuid(given) else derive_trace_id(document))
        return _record(lifted, envelope, arrived=document)
    return _record(document, envelope)


def _record(document: Document, envelope: Envelope, arrived: Document | None = None) -> Record:
    handoff = obj(document.get("handoff"))
    source, meta, context = obj(handoff.get("source")), obj(handoff.get("meta")), obj(handoff.get("context"))
    skill = clean_or_empty(source.get("skill"))
    timestamp, expires_at = moment(handoff.get("timestamp")), moment(handoff.get("expires_at"))
    word = meta.get("confidence")
    return Record(
        format=NAME,
        document=document,
        original_document=arrived,
        handoff_id=clean_or_empty(envelope.handoff_id) or None,
        tenant_id=None,
        handoff_type=clean_or_empty(context.get("problem_type")),
        source_agent_id=skill,
        target_agent_id=clean_or_empty(obj(handoff.get("target")).get("skill")),
        call_chain=names(meta["handoff_chain"]) if "handoff_chain" in meta else (skill,) if skill else (),
        trace_id=_trace_id(document if arrived is None else arrived, envelope),
        data=obj(handoff.get("payload")),
        # A field of the document takes precedence over the same field of the envelope.
        context={**(envelope.context or {}), **context},
        confidence=confidence(word) if isinstance(word, str) else None,
        timestamp=timestamp.at if timestamp else None,
        expires_at=expires_at.at if expires_at else None,
        handoff_reason=reason(meta.get("handoff_reason"), envelope),
        user_approved=meta.get("user_approved") is True,
        **envelope_fields(envelope),
    )


def _trace_id(arrived: Document, envelope: Envelope) -> str:
    own = clean_or_empty(obj(arrived.get("handoff")).get("trace_id"))
    return own or clean_or_empty(envelope.trace_id) or derive_trace_id(arrived)


def derive_trace_id(document: Document) -> str:
    """Return a trace id for a document without one; the same document always gets the same id."""
    return str(UUID(hex=sha256_hex(canonical(document))[:32], version=4))


def check(record: Record) -> Iterable[Issue]:
    """Return the issues of the document.

    For a document of another version, only the version mismatch is returned, because the rules of this version do not
    apply. A lifted document must satisfy the schema of its own version first.
    """
    arrived = record.arrived.get("handoff")
    old: list[Issue] = []
    if record.original_document is not None:
        old = _SHAPE_2.check(record.original_document)
        if any(issue.blocks for issue in old):
            return old
    elif isinstance(arrived, dict) and isinstance(arrived.get("version"), str) and arrived["version"] != VERSION:
        return (_version_mismatch(arrived["version"]),)
    shape = _SHAPE.check(record.document)
    if isinstance(arrived, dict) and _lacks_trace_id(arrived, lifted=record.original_document is not None):
        shape = [issue for issue in shape if issue.location != _TRACE_ID]
        shape.append(_report_generated_trace_id(record))
    return chain(old, shape, id_issues(record.document, _IDS))


def _lacks_trace_id(handoff: Document, *, lifted: bool) -> bool:
    """Return whether the handoff is a legacy handoff, whose sender does not know trace ids.

    A sender of version 3.0 that gives null or "" does know trace ids.
    """
    return not handoff.get("trace_id") if lifted else "trace_id" not in handoff


def _version_mismatch(version: str) -> Issue:
    if version == FROM:
        hint = f'Send it with adapt=true to convert it to version {VERSION}, or send it in version "{VERSION}".'
    else:
        hint = (
            f'Send the handoff in version "{VERSION}", or in "{FROM}" with adapt=true; '
            "changing only the version number does not convert the handoff."
        )
    return make(
        VERSION_MISMATCH,
        location=("handoff", "version"),
        message=f"version is {show(version)}. The universal format is supported in version {VERSION}, and in version "
        f"{FROM} with the adapter (adapt=true).",
        hint=hint,
        expected=VERSION,
        actual=version,
        read=[VERSION],
        adapted=[FROM],
    )


def _report_generated_trace_id(record: Record) -> Issue:
    made = record.trace_id == derive_trace_id(record.arrived)
    origin = "made from the document's hash" if made else "taken from the submission"
    source = f"The source {show(record.source_agent_id)}" if record.source_agent_id else "Its source"
    return make(
        GENERATED_TRACE_ID,
        location=_TRACE_ID,
        message=f"Generated trace_id for legacy handoff. {source} gave none; {record.trace_id} was {origin}.",
        hint='Add "trace_id": a UUID of version 4, the same one for every handoff of a piece of work.',
        trace_id=record.trace_id,
        source=record.source_agent_id,
        origin="document" if made else "submission",
    )


def sections(document: Document) -> Mapping[str, Section]:
    handoff = obj(document.get("handoff"))
    payload = obj(handoff.get("payload"))
    parts: dict[str, tuple[Any, int | None]] = {
        "metadata": (_pick_keys(handoff, _METADATA), 100),
        "source and target": (_pick_keys(handoff, ("source", "target")), 50),
        "context": (handoff.get("context"), 200),
        "payload.working": (payload.get("working"), 500),
        "payload.session": (payload.get("session"), 800),
        "payload.references": (payload.get("references"), 200),
        "meta and tracing": (_pick_keys(handoff, ("meta", "tracing")), 150),
        "payload, other": (
            {key: value for key, value in payload.items() if key not in ("working", "session", "references")},
            None,
        ),
    }
    return {name: Section(value, target) for name, (value, target) in parts.items() if value not in (None, {})}


def _pick_keys(whole: Document, keys: Iterable[str]) -> Document:
    return {key: whole[key] for key in keys if key in whole}


def references(document: Document) -> Iterable[Reference]:
    payload = obj(obj(document.get("handoff")).get("payload"))
    for section, key in (("session", "artifacts"), ("references", "files")):
        for index, entry in enumerate(entries(obj(payload.get(section)).get(key))):
            path = obj(entry).get("path")
            if isinstance(path, str):
                yield Reference(("handoff", "payload", section, key, index, "path"), path)


def seal(document: Document) -> Seal | None:
    handoff = obj(document.get("handoff"))
    meta = obj(handoff.get("meta"))
    declared = meta.get("payload_hash")
    size = integer(meta.get("payload_size_bytes"))
    if declared is None and size is None:
        return None
    return Seal(
        value=handoff.get("payload"),
        declared_hash=declared if isinstance(declared, str) else None,
        hash_location=("handoff", "meta", "payload_hash"),
        declared_size=size,
        size_location=("handoff", "meta", "payload_size_bytes"),
    )


def workflow(document: Document) -> object:
    return obj(obj(document.get("handoff")).get("source")).get("workflow_id")


_SOURCE: Final = {"skill": "researcher", "workflow_id": "suppliers", "session_path": "sessions/17"}
_EXAMPLE: Final[Document] = {
    "handoff": {
        "version": "3.0",
        "schema_type": "universal",
        "timestamp": "2026-02-01T08:00:00Z",
        "trace_id": "d53a8f7e-049d-4f0d-910f-824ba3bf6e11",
        "source": {**_SOURCE, "phase": "research"},
        "target": {"skill": "writer"},
        "context": {"summary": "The suppliers' prices are compared.", "problem_type": "research"},
        "payload": {"working": {"answered": 3, "asked": 5}},
        "meta": {"token_count": 115, "confidence": "high"},
    }
}
_EXAMPLE_2: Final[Document] = {
    "handoff": {
        "version": "2.0",
        "timestamp": "2026-02-01T08:00:00Z",
        "source": _SOURCE,
        "target": {"skill": "writer"},
        "context": {"original_prompt": "Compare the suppliers' prices.", "problem_type": "research"},
        "findings": {"answered": 3, "asked": 5},
    }
}
FORMAT: Final = Format(
    name=NAME,
    order=10,
    variants=(Variant(_SHAPE, _EXAMPLE), Variant(_SHAPE_2, _EXAMPLE_2)),
    clue='a universal document has one field, "handoff"',
    places=Places(
        target=(*_HANDOFF, "target", "skill"),
        source=(*_HANDOFF, "source", "skill"),
        chain=(*_HANDOFF, "meta", "handoff_chain"),
        confidence=(*_HANDOFF, "meta", "confidence"),
        timestamp=(*_HANDOFF, "timestamp"),
        expires_at=(*_HANDOFF, "expires_at"),
        trace_id=_TRACE_ID,
        token_count=(*_HANDOFF, "meta", "token_count"),
        data=(*_HANDOFF, "payload", "working"),
    ),
    demands_z=True,
    source_leads_chain=True,
    recognise=recognise,
    read=read,
    check=check,
    sections=sections,
    references=references,
    seal=seal,
    workflow=workflow,
    repair=RepairRules(
        protected=fields(
            *("trace_id", "source.skill", "target.skill", "context.problem_type", "tracing.parent_span_id"),
            *("meta.handoff_chain", "meta.handoff_reason", "meta.user_approved"),
            *("meta.payload_hash", "meta.payload_size_bytes"),
            within=_HANDOFF,
        ),
        protected_unless_faulty=fields(
            *("timestamp", "expires_at", "source", "target", "context", "payload.references"),
            *("payload.session.artifacts", "meta", "tracing"),
            within=_HANDOFF,
        ),
        compression=Compression(
            dropped=fields(
                *("expires_at", "target.invocation", "target.expected_phase", "context.original_prompt"),
                *("context.success_criteria", "payload.session", "tracing.tags"),
                within=_HANDOFF,
            ),
            session=(*_HANDOFF, "payload", "session"),
            session_path=(*_HANDOFF, "source", "session_path"),
            files=(*_HANDOFF, "payload", "references", "files"),
            summary=(*_HANDOFF, "context", "summary"),
            prompts=fields("context.original_prompt", within=_HANDOFF),
            texts=fields("payload.working", within=_HANDOFF),
        ),
    ),
)
