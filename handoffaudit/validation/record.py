"""The record, which represents documents of every format, and the envelope that is sent with a document."""

from datetime import datetime
from typing import Any

import msgspec

from handoffaudit.validation.issues import Issue
from handoffaudit.validation.paths import Location
from handoffaudit.validation.text import trace_name


class Envelope(msgspec.Struct, frozen=True):
    """The fields that a submission sends beside its document. A field that was not sent is None.

    `agent` is the source of a document that names no source. `sent_at` is the time of the handoff in UTC, from senders
    that send late. `reason` is the reason of a handoff whose document gives none. `adapt` requests that a document of
    an older version is converted to the supported version.
    """

    context: dict[str, Any] | None = None
    evidence: list[Any] | None = None
    trace_id: str | None = None
    parent_handoff_id: str | None = None
    retry_of: str | None = None
    step: int | None = None
    handoff_id: str | None = None
    agent: str | None = None
    sent_at: datetime | None = None
    reason: str | None = None
    adapt: bool = False


class Record(msgspec.Struct, frozen=True):
    """A handoff as the layers see it. Texts and lists are empty if the sender gave no usable value.

    `document` is the judged document: the parsed document as it arrived, or a document derived from it. In the second
    case, `original_document` is the document that arrived. `data_place` is the place of the data in the document if the
    document has no object there: a text, which is judged as `{"text": …}`, or nothing. `handoff_id` and `tenant_id` are
    None if the document has none. `expected_schema` is the JSON Schema that the sender wants the data checked against.
    `trace_id` is the name of a trace. A UUID is always in lower case.
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
    context: dict[str, Any] = msgspec.field(default_factory=dict)
    context_refs: tuple[str, ...] = ()
    evidence: tuple[Any, ...] = ()
    confidence: float | None = None
    timestamp: datetime | None = None
    expires_at: datetime | None = None
    handoff_reason: str = ""
    user_approved: bool = False
    expected_schema: dict[str, Any] | bool | None = None
    original_document: dict[str, Any] | None = None
    data_place: Location | None = None

    def __post_init__(self) -> None:
        name = trace_name(self.trace_id)
        if name != self.trace_id:
            msgspec.structs.force_setattr(self, "trace_id", name)

    @property
    def arrived(self) -> dict[str, Any]:
        """Return the parsed document as it arrived."""
        return self.document if self.original_document is None else self.original_document


class Reading(msgspec.Struct, frozen=True):
    """The result of reading a document: either a record, or the issues that explain why it cannot be read."""

    record: Record | None
    issues: tuple[Issue, ...] = ()
    format: str = ""
