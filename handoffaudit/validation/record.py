"""The one record that every format is read into."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from handoffaudit.validation.issues import Issue


@dataclass(frozen=True, slots=True)
class Envelope:
    """What a submission says beside its document. Each field is None where it was not given."""

    context: dict[str, Any] | None = None
    evidence: list[Any] | None = None
    trace_id: str | None = None
    parent_handoff_id: str | None = None
    retry_of: str | None = None
    step: int | None = None
    handoff_id: str | None = None


@dataclass(frozen=True, slots=True)
class Record:
    """A handoff as the layers see it. Text fields are empty and lists are empty where the sender gave nothing usable.

    `document` is the parsed document as it arrived; `handoff_id` and `tenant_id` are None where the document has none.
    """

    format: str
    document: dict[str, Any]
    handoff_id: str | None
    tenant_id: str | None
    handoff_type: str
    source_agent_id: str
    target_agent_id: str
    call_chain: tuple[str, ...]
    trace_id: str
    data: dict[str, Any]
    parent_handoff_id: str = ""
    retry_of: str = ""
    step: int | None = None
    context: dict[str, Any] = field(default_factory=dict)
    context_refs: tuple[str, ...] = ()
    evidence: tuple[Any, ...] = ()
    confidence: float | None = None
    timestamp: datetime | None = None
    expires_at: datetime | None = None
    handoff_reason: str = ""
    user_approved: bool = False


@dataclass(frozen=True, slots=True)
class Reading:
    """What reading a document gave: a record, or the issues that say why there is none (never both)."""

    record: Record | None
    issues: tuple[Issue, ...] = ()
    format: str = ""
