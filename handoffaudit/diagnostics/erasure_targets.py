"""The rows and columns in which an erasure looks for a value: documents first, then what quotes them."""

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from django.db.models import Model, QuerySet
from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.diagnostics import text_index
from handoffaudit.diagnostics.models import (
    Attribution,
    BlockedText,
    CodeMute,
    Erasure,
    FileReport,
    FindingGroup,
)
from handoffaudit.handoffs.models import (
    Comment,
    Delivery,
    Event,
    Finding,
    Handoff,
    HandoffBody,
    HookEvent,
    ModelAnswer,
    ModelCall,
    PassedOn,
    PolicyCase,
    Proposal,
    Remediation,
    TelemetrySpan,
    ToolResult,
    TraceFact,
    ValidationState,
    Verdict,
)
from handoffaudit.handoffs.transitions import SYSTEM
from handoffaudit.trust import seals

After = Callable[[Tenant, Sequence[Any], Erasure], None]


def _nothing(tenant: Tenant, pks: Sequence[Any], erasure: Erasure) -> None:
    """Do nothing after the change of these rows."""


def _note_documents(tenant: Tenant, pks: Sequence[uuid.UUID], erasure: Erasure) -> None:
    """Index the words of changed documents anew, and add a remark to the events of their handoffs."""
    indexed = set(BlockedText.objects.filter(tenant=tenant, handoff__in=pks).values_list("handoff", flat=True))
    text_index.forget(tenant, pks)
    bodies = HandoffBody.objects.filter(handoff__tenant=tenant, pk__in=indexed).values_list("pk", "original")
    text_index.add(
        [
            BlockedText(handoff=pk, tenant=tenant, words=text_index.words_or_none(pk, tenant.pk, body))
            for pk, body in bodies
        ]
    )
    states = Handoff.objects.filter(tenant=tenant, pk__in=pks).values_list("pk", "state")
    Event.objects.bulk_create(
        Event(
            tenant=tenant,
            handoff_id=pk,
            at=timezone.now(),
            actor_kind=SYSTEM.kind,
            actor=SYSTEM.name,
            from_state=state,
            to_state=state,
            reason=f"A value was erased from the document (erasure {erasure.pk}).",
        )
        for pk, state in states
    )


def _seal_verdicts(tenant: Tenant, pks: Sequence[uuid.UUID], erasure: Erasure) -> None:
    seals.seal_erased(tenant, seals.read_verdicts(Verdict.objects.filter(tenant=tenant, pk__in=pks).order_by("pk")))


def _seal_events(tenant: Tenant, pks: Sequence[int], erasure: Erasure) -> None:
    found = seals.sealed_events().filter(tenant=tenant, pk__in=pks).order_by("pk")
    seals.seal_erased(tenant, seals.read_events(found))


@dataclass(frozen=True, slots=True)
class ErasureTarget:
    """A kind of row, and its columns that may hold a value.

    `handoff` and `trace` are the columns by which legal holds find the rows. A target that does not `changes` is only
    counted. `batch` is the number of rows of one transaction.
    """

    name: str
    title: str
    model: type[Model]
    columns: tuple[str, ...]
    handoff: str = ""
    trace: str = ""
    tenant: str = "tenant"
    changes: bool = True
    batch: int = 200
    after: After = _nothing

    def rows(self, tenant: Tenant) -> "QuerySet[Any]":
        return self.model._default_manager.filter(**{self.tenant: tenant})  # noqa: SLF001 -- Django's documented API

    def save(self, tenant: Tenant, pk: Any, columns: Mapping[str, Any]) -> None:
        """Store the changed columns of a row, cut at the length of their column."""
        fields = {name: self.model._meta.get_field(name) for name in columns}  # noqa: SLF001 -- Django's documented API
        longest = {name: getattr(field, "max_length", None) for name, field in fields.items()}
        cut = {name: value[: longest[name]] if longest[name] else value for name, value in columns.items()}
        self.rows(tenant).filter(pk=pk).update(**cut)


TARGETS: Final = (
    ErasureTarget(
        "documents",
        "Documents",
        HandoffBody,
        ("original", "context", "evidence", "lifted", "reason"),
        handoff="handoff_id",
        tenant="handoff__tenant",
        batch=20,
        after=_note_documents,
    ),
    ErasureTarget("tool_results", "Tool results", ToolResult, ("content", "evidence", "values"), trace="trace_id"),
    ErasureTarget("trace_facts", "Facts of traces", TraceFact, ("label", "content"), handoff="handoff_id"),
    ErasureTarget("spans", "Spans", TelemetrySpan, ("name", "facts")),
    ErasureTarget("verdicts", "Verdicts", Verdict, ("content",), handoff="handoff_id", batch=100, after=_seal_verdicts),
    ErasureTarget("findings", "Findings", Finding, ("field_path",), handoff="handoff_id"),
    ErasureTarget("attributions", "Findings of agents", Attribution, ("field_path", "value"), handoff="handoff"),
    ErasureTarget("remediations", "Remediation records", Remediation, ("content",)),
    ErasureTarget("events", "Events", Event, ("reason",), handoff="handoff_id", after=_seal_events),
    ErasureTarget("comments", "Comments", Comment, ("text",), handoff="handoff_id"),
    ErasureTarget("assignments", "Assignments", PassedOn, ("note",), handoff="handoff_id"),
    ErasureTarget("proposals", "Proposals", Proposal, ("note", "replaced"), handoff="handoff_id"),
    ErasureTarget("group_mutes", "Notes of muted groups", FindingGroup, ("muted_note",)),
    ErasureTarget("code_mutes", "Notes of muted codes", CodeMute, ("note",)),
    ErasureTarget("hook_events", "Hook events", HookEvent, ("phase", "answer"), handoff="handoff"),
    ErasureTarget("states", "Validation states", ValidationState, ("content",)),
    ErasureTarget(
        "file_reports",
        "Reports of handoff files",
        FileReport,
        ("expected_path", "wrong_path", "content"),
        handoff="handoff",
    ),
    ErasureTarget("llm_answers", "Answers of the LLM", ModelAnswer, ("text",)),
    ErasureTarget("model_calls", "LLM calls", ModelCall, ("detail",), handoff="handoff"),
    ErasureTarget("deliveries", "Deliveries", Delivery, ("payload",)),
    # Counts, traces and later submissions name these columns, so their text stays.
    ErasureTarget(
        "names",
        "Ids and names of agents (only counted)",
        Handoff,
        ("handoff_id", "source_agent_id", "target_agent_id", "handoff_type", "trace_id"),
        changes=False,
    ),
    # New targets come last, because an erasure that is at work counts its steps.
    ErasureTarget(
        "cases",
        "Cases of policies",
        PolicyCase,
        ("handoff_id", "document", "beside", "basis", "note", "result"),
        handoff="handoff",
        batch=20,
    ),
)
TITLES: Final = {target.name: target.title for target in TARGETS}
