"""Preparation of submissions for storage: parsing, and the columns of a new handoff."""

import hashlib
import uuid
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec
from django.conf import settings

from handoffaudit.accounts.keys import ANY_AGENT, AgentLimit
from handoffaudit.handoffs.models import Handoff, State, ToolResult, id_at, new_id
from handoffaudit.handoffs.tool_results import ToolResultIn, WrongToolResults, make_rows, read_beside
from handoffaudit.validation import formats, json_text, submission
from handoffaudit.validation.formats import framework, framework_traces
from handoffaudit.validation.issues import Issue
from handoffaudit.validation.json_text import parse_json
from handoffaudit.validation.layers.consistency import MAX_SKEW
from handoffaudit.validation.record import Envelope, Reading, Record
from handoffaudit.validation.submission import UNREADABLE, Submission, fields_of, usable_text
from handoffaudit.validation.text import trace_name
from handoffaudit.validation.times import utc_text


def read_submission(sent: bytes, declared_format: str | None = None, handoff_id: str | None = None) -> Submission:
    """Read one submission, or a document that was sent alone; see `handoffaudit.validation.submission`."""
    return submission.read_submission(sent, declared_format, handoff_id, max_nesting=settings.MAX_NESTING)


def expand(sent: Submission) -> list[Submission]:
    """Return one submission for each handoff of a trace export of the OpenAI Agents SDK.

    Return any other submission, and an export without handoffs, alone and unchanged. Each handoff gets its part of the
    export as its document, without prompts, and the id of its span. The only handoff of an export keeps the sender's
    `handoff_id`, if the sender gave this id.
    """
    # Few documents have these bytes. Documents without them need not be parsed here.
    if b"trace.span" not in sent.document or sent.issues or sent.format not in (None, framework.NAME):
        return [sent]
    document, issues = parse_json(sent.document, max_depth=settings.MAX_NESTING)
    if issues or not isinstance(document, dict) or not framework_traces.is_export(document):
        return [sent]
    return split_trace_export(sent, document) or [sent]


def split_trace_export(sent: Submission, document: dict[str, Any]) -> list[Submission]:
    """Return a submission for each handoff of a trace export. An export may have no handoffs."""
    parts = framework_traces.split_export(json_text.keep_digits(sent.document, document))
    envelope = sent.envelope
    if len(parts) > 1:
        # Several handoffs cannot share an id. As retries of the same handoff, they would supersede each other.
        envelope = msgspec.structs.replace(envelope, handoff_id=None, retry_of=None)
    return [msgspec.structs.replace(sent, document=json_text.compact(part), envelope=envelope) for part in parts]


def parse_leniently(sent: bytes) -> tuple[Envelope, Record | None]:
    """Return the usable fields of a faulty submission, and the record of its document if the document can be read."""
    try:
        fields = fields_of(sent)
    except UNREADABLE:
        return Envelope(), None
    # The envelope leaves `retry_of` out, because a faulty submission must not supersede another handoff.
    envelope = Envelope(
        trace_id=usable_text(fields.get("trace_id")),
        parent_handoff_id=usable_text(fields.get("parent_handoff_id")),
        handoff_id=usable_text(fields.get("handoff_id")),
        agent=usable_text(fields.get("agent")),
    )
    document, issues = parse_json(bytes(fields.get("document", b"")), max_depth=settings.MAX_NESTING)
    declared = usable_text(fields.get("format"))
    known = declared if declared in formats.BY_NAME else None
    return envelope, None if issues else formats.read(document, known, envelope).record


@dataclass(frozen=True, slots=True)
class Receipt:
    """The outcome of a submission, with the HTTP `status` of the response.

    202: stored. 200: already stored with the same content. 422: stored as rejected, or refused for its tool results.
    409: another handoff has this `handoff_id`; `id` is the id of that handoff. 403 or 413: refused. A refusal has no
    `id`. `refused_agent` is the agent that the sender's key may not speak for, if this is the reason.
    """

    status: int
    id: str = ""
    handoff_id: str = ""
    state: str = ""
    issues: tuple[Issue, ...] = ()
    title: str = ""
    detail: str = ""
    refused_agent: str = ""


@dataclass(slots=True)
class PreparedHandoff:
    """A handoff about to be stored: its columns, and its submission.

    The class is not the Django model, because creating a model instance takes a third of the time of the whole ingest.
    If `issues` is not empty, no record could be read, and the handoff is stored as rejected. `named` is False if the
    sender gave no usable id; such a submission never repeats a stored handoff. `lifted` is the judged document, if it
    is not the document that arrived: a document converted from an older format version, or a report's handoff file.
    `tool_results` were sent beside the document. `note` is the remark of the first event.
    """

    id: uuid.UUID
    tenant_id: int
    format: str
    trace_id: str
    parent_handoff_id: str
    retry_of: str
    step: int | None
    state: str
    received_at: datetime
    size_bytes: int
    content_hash: str
    submission: Submission
    issues: tuple[Issue, ...]
    handoff_id: str = ""
    handoff_type: str = ""
    source_agent_id: str = ""
    target_agent_id: str = ""
    sender_timestamp: datetime | None = None
    sent_at: datetime | None = None
    data_hash: str = ""
    chain_length: int = 0
    derives_chain: bool = False
    attempt: int = 1
    lineage: str = ""
    adapt: bool = False
    repair: bool = False
    repaired: bool = False
    named: bool = False
    lifted: bytes | None = None
    tool_results: tuple[ToolResult, ...] = ()
    note: str = ""

    @property
    def names(self) -> tuple[str, str, str, int]:
        """Return the fields that a try to store the handoff may change."""
        return self.handoff_id, self.retry_of, self.lineage, self.attempt

    @names.setter
    def names(self, names: tuple[str, str, str, int]) -> None:
        self.handoff_id, self.retry_of, self.lineage, self.attempt = names

    def as_model(self) -> Handoff:
        return Handoff(**{name: getattr(self, name) for name in COLUMNS})


# The fields that are not columns of the handoff's row.
_BESIDE = ("submission", "issues", "named", "lifted", "tool_results", "note")
COLUMNS = tuple(field.name for field in fields(PreparedHandoff) if field.name not in _BESIDE)


def prepare(
    tenant_id: int, tenant_slug: str, submission: Submission, now: datetime, agents: AgentLimit = ANY_AGENT
) -> PreparedHandoff | Receipt:
    """Return the handoff of a submission, or the receipt of its refusal.

    `agents` are the agents that the sender may speak for.
    """
    size = len(submission.document) + len(submission.context or b"") + len(submission.evidence or b"")
    size += len(submission.tool_results or b"")
    if size > settings.MAX_BODY_BYTES:
        return Receipt(
            413,
            title="Document too large",
            detail=f"The document, its context, evidence and tool results have {size:,} bytes;"
            f" at most {settings.MAX_BODY_BYTES:,} are allowed.",
        )
    try:
        results = read_beside(submission.tool_results)
    except WrongToolResults as error:
        return Receipt(422, title=WRONG_RESULTS, detail=f"{error} Nothing is stored.")
    reading = read_record(submission)
    record = reading.record
    envelope, partial = parse_leniently(submission.document) if submission.issues else (submission.envelope, record)
    if partial and partial.tenant_id and partial.tenant_id != tenant_slug:
        return Receipt(
            403,
            title="Another tenant",
            detail=f"tenant_id is {partial.tenant_id!r}, but the key belongs to {tenant_slug!r}. "
            "Send the document with a key of that tenant, or correct tenant_id.",
        )
    if partial and partial.source_agent_id and not agents.allows(partial.source_agent_id):
        return refuse_agent(agents, partial.source_agent_id, "The document")
    if foreign := next((one.agent for one in results if one.agent and not agents.allows(one.agent)), ""):
        return refuse_agent(agents, foreign, "A tool result")
    handoff = _prepare(tenant_id, submission, reading, (envelope, partial), now)
    return _add_results(handoff, results) if results else handoff


def prepare_copy(submission: Submission, received_at: datetime) -> PreparedHandoff:
    """Return the handoff of a submission that is judged without a tenant; `received_at` is the time of its arrival."""
    reading = read_record(submission)
    return _prepare(0, submission, reading, (submission.envelope, reading.record), received_at)


def _prepare(
    tenant_id: int, submission: Submission, reading: Reading, usable: tuple[Envelope, Record | None], now: datetime
) -> PreparedHandoff:
    """Return the handoff; `usable` has the fields beside the document, and the record, as far as they can be read."""
    record = reading.record
    envelope, partial = usable
    exact = _keep_digits(submission, record) if record else None
    handoff = _prepare_unread(tenant_id, submission, reading, now, _hash_content(submission, exact))
    if record and exact:
        _fill_columns(handoff, record, json_text.repetition_key(exact))
    elif submission.issues:
        _fill_readable_columns(handoff, envelope, partial)
    _set_names(handoff, submission, partial)
    if exact and exact.original_document is not None:
        handoff.lifted = json_text.compact(exact.document)
    return handoff


ANOTHER_AGENT: Final = "Another agent"


def refuse_agent(agents: AgentLimit, agent: str, what: str) -> Receipt:
    """Return the receipt of a submission that names an agent which its key may not speak for."""
    return Receipt(403, title=ANOTHER_AGENT, detail=agents.describe_refusal(agent, what), refused_agent=agent)


WRONG_RESULTS: Final = "The tool results can't be read"

# The tool results of a batch have at most this many bytes, because masking them takes longer than storing handoffs.
MOST_RESULT_BYTES: Final = 2 * 1024 * 1024

NO_ROOM: Final = Receipt(
    413,
    title="Too many tool results",
    detail=f"The tool results of a batch have more than {MOST_RESULT_BYTES:,} bytes: send the rest with another batch.",
)


def _add_results(handoff: PreparedHandoff, results: list[ToolResultIn]) -> PreparedHandoff | Receipt:
    if not handoff.trace_id:
        detail = "Tool results belong to a trace, and the handoff names none: add trace_id. Nothing is stored."
        return Receipt(422, title=WRONG_RESULTS, detail=detail)
    handoff.tool_results = tuple(make_rows(handoff.tenant_id, handoff.trace_id, results, handoff.received_at))
    return handoff


def read_record(submission: Submission) -> Reading:
    """Return the submission's document as a record, or the issues if the document cannot be read."""
    if submission.issues:
        return Reading(record=None, issues=submission.issues)
    depth: int = settings.MAX_NESTING
    document, issues = parse_json(submission.document, max_depth=depth)
    if issues:
        return Reading(record=None, issues=issues)
    return formats.read(document, submission.format, submission.envelope, checked_depth=depth)


def _keep_digits(submission: Submission, record: Record) -> Record:
    """Return the record with all digits of its integers, so that the hashes of different documents differ."""
    exact = json_text.keep_digits(submission.document, record.arrived)
    if exact is record.arrived:
        return record
    # A trace id that is derived from a document depends on the digits, so the trace id of `record` is kept.
    envelope = msgspec.structs.replace(submission.envelope, trace_id=record.trace_id or None)
    return formats.read(exact, record.format, envelope).record or record


def _hash_content(submission: Submission, record: Record | None) -> str:
    """Return the hash of the submission's content.

    Whitespace and the order of keys do not change the hash of a readable document. If a document is unreadable in the
    declared format, and arrives again in a format in which it is readable, the two hashes differ.
    """
    digest = hashlib.sha256(json_text.canonical(record.arrived) if record else b"\0" + submission.document)
    envelope, keep = submission.envelope, json_text.keep_digits
    context = keep(submission.context or b"", envelope.context), keep(submission.evidence or b"", envelope.evidence)
    place = envelope.trace_id, envelope.parent_handoff_id, envelope.retry_of, envelope.step
    # Submissions without a reason keep the hashes that they had before there were reasons.
    reason = [envelope.reason] if envelope.reason else []
    digest.update(json_text.canonical([*context, *place, envelope.adapt, envelope.agent, *reason]))
    return digest.hexdigest()


# Each access to the `value` of an enumeration member calls a Python function, so these values are read once.
_RECEIVED: Final = State.RECEIVED.value
_REJECTED: Final = State.REJECTED.value


def _prepare_unread(
    tenant_id: int, submission: Submission, reading: Reading, now: datetime, content_hash: str
) -> PreparedHandoff:
    """Return the handoff with the columns that do not depend on the record."""
    envelope = submission.envelope
    sent_at, note = _check_sent_at(envelope.sent_at, now)
    return PreparedHandoff(
        id=id_at(sent_at) if sent_at else new_id(),
        tenant_id=tenant_id,
        format=(reading.format or submission.format or "")[:20].replace("\x00", ""),
        trace_id=trace_name(envelope.trace_id or ""),
        parent_handoff_id=envelope.parent_handoff_id or "",
        retry_of=envelope.retry_of or "",
        step=envelope.step,
        state=_REJECTED if reading.issues else _RECEIVED,
        received_at=now,
        size_bytes=len(submission.document),
        content_hash=content_hash,
        submission=submission,
        issues=reading.issues,
        lineage=envelope.retry_of or "",
        adapt=envelope.adapt,
        repair=submission.repair,
        sent_at=sent_at,
        note=note,
    )


# A sender may be this late, for example after an outage.
LATEST: Final = timedelta(days=7)


def _check_sent_at(sent_at: datetime | None, now: datetime) -> tuple[datetime | None, str]:
    """Return a usable time or None, and a remark on an unusable time.

    A time that is only slightly in the future gets no remark, because clocks differ.
    """
    if sent_at is None or now - LATEST <= sent_at < now:
        return sent_at, ""
    if now <= sent_at <= now + MAX_SKEW:
        return None, ""
    why = "after the receipt" if sent_at > now else f"more than {LATEST.days} days before the receipt"
    return None, f"sent_at is {utc_text(sent_at)}, {why}, so the time of the receipt counts"


def _fill_columns(handoff: PreparedHandoff, record: Record, data_hash: str) -> None:
    handoff.format = record.format
    handoff.handoff_type = record.handoff_type
    handoff.source_agent_id = record.source_agent_id
    handoff.target_agent_id = record.target_agent_id
    handoff.trace_id = record.trace_id
    handoff.parent_handoff_id = record.parent_handoff_id
    handoff.retry_of = record.retry_of
    handoff.sender_timestamp = record.timestamp
    handoff.chain_length = len(record.call_chain)
    handoff.derives_chain = formats.derives_chain(record)
    handoff.data_hash = data_hash


def _fill_readable_columns(handoff: PreparedHandoff, envelope: Envelope, partial: Record | None) -> None:
    """Set the trace, parent, type, agents and timestamp of a faulty submission, as far as they can be read.

    The format stays empty, because the stored bytes are the whole submission, which has no format. The data hash stays
    empty, because a handoff that cannot be judged must not count as a repeat of another handoff.
    """
    handoff.trace_id = trace_name((partial.trace_id if partial else "") or envelope.trace_id or "")
    handoff.parent_handoff_id = (partial.parent_handoff_id if partial else "") or envelope.parent_handoff_id or ""
    if partial:
        handoff.handoff_type = partial.handoff_type
        handoff.source_agent_id = partial.source_agent_id
        handoff.target_agent_id = partial.target_agent_id
        handoff.sender_timestamp = partial.timestamp


def _set_names(handoff: PreparedHandoff, submission: Submission, record: Record | None) -> None:
    given = record.handoff_id if record else None
    if record and given and record.arrived.get("handoff_id", given) != given:
        # The id was cut or cleaned, so it could equal the id of another handoff. The structure layer reports the fault.
        given = None
    given = given or submission.envelope.handoff_id
    handoff.handoff_id = given or str(handoff.id)
    handoff.named = given is not None
