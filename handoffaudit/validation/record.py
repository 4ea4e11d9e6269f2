"""The one record that every format is read into."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from handoffaudit.validation.issues import Issue
from handoffaudit.validation.text import trace_name


@dataclass(frozen=True, slots=True)
class Envelope:
    """What a submission says beside its document. Each field is None where it was not given.

    `agent` is the source of a document that names none; `adapt` asks for an older version to be lifted to the one read.
    """

    context: dict[str, Any] | None = None
    evidence: list[Any] | None = None
    trace_id: str | None = None
    parent_handoff_id: str | None = None
    retry_of: str | None = None
    step: int | None = None
    handoff_id: str | None = None
    agent: str | None = None
    adapt: bool = False


@dataclass(frozen=True, slots=True)
class Record:
    """A handoff as the layers see it. Text fields are empty and lists are empty where the sender gave nothing usable.

    `document` is what is judged: the parsed document as it arrived, or what was made of it, and then
    `original_document` is what arrived. `handoff_id` and `tenant_id` are None where the document has none.
    `expected_schema` is the JSON Schema that the sender wants the data held against. `trace_id` is a trace's name: a
    UUID is in lower case, however the sender wrote it.
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
    expected_schema: dict[str, Any] | None = None
    original_document: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        name = trace_name(self.trace_id)
        if name != self.trace_id:
            object.__setattr__(self, "trace_id", name)

    @property
    def arrived(self) -> dict[str, Any]:
        """The parsed document as it arrived."""
        return self.document if self.original_document is None else self.original_document


@dataclass(frozen=True, slots=True)
class Reading:
    """What reading a document gave: a record, or the issues that say why there is none (never both)."""

    record: Record | None
    issues: tuple[Issue, ...] = ()
    format: str = ""
