"""Rows that removals change: those that leave with a handoff, and those in which an erasure looks for a value."""

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.db import connection
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
    GroupedHandoff,
    TracedHandoff,
)
from handoffaudit.handoffs import db, judge, partitions
from handoffaudit.handoffs.counts import next_midnight
from handoffaudit.handoffs.models import (
    Approval,
    Comment,
    Delivery,
    Event,
    Finding,
    Handoff,
    HandoffBody,
    HookEvent,
    ModelAnswer,
    ModelCall,
    ModelCheck,
    PassedOn,
    PolicyCase,
    Proposal,
    Remediation,
    RemovedDocument,
    RemovedHandoffs,
    ReviewHold,
    TelemetrySpan,
    ToolResult,
    TraceFact,
    ValidationState,
    Verdict,
)
from handoffaudit.handoffs.transitions import SYSTEM
from handoffaudit.trust import seals

# The handoffs of one transaction. More would be little faster, and would lock rows for longer.
HANDOFFS_AT_ONCE: Final = 5_000
# The rows of a handoff, with the column that has its key, in the order of removal. The handoff itself comes last.
_ROWS: Final[tuple[tuple[type[Model], str], ...]] = (
    (HandoffBody, "handoff_id"),
    (RemovedDocument, "handoff_id"),
    (Verdict, "handoff_id"),
    (Finding, "handoff_id"),
    (Event, "handoff_id"),
    (TraceFact, "handoff_id"),
    (ModelCheck, "handoff_id"),
    (Approval, "handoff_id"),
    (PassedOn, "handoff_id"),
    (Proposal, "handoff_id"),
    (Comment, "handoff_id"),
    (ReviewHold, "handoff_id"),
    (Attribution, "handoff"),
    (GroupedHandoff, "handoff"),
    (TracedHandoff, "handoff"),
    (BlockedText, "handoff"),
    (Handoff, "id"),
)
# Rows of these models name a handoff and stay: they have a retention of their own, describe later tasks, or are a copy.
KEPT_MODELS: Final = ("FileReport", "HookEvent", "ModelCall", "HandedOut", "PolicyCase")


def removed_models() -> list[type[Model]]:
    """Return the models of the rows that are removed with a handoff."""
    return [model for model, _ in _ROWS]


def remove_handoffs(tenant: Tenant, handoffs: Sequence[uuid.UUID], before: datetime) -> int:
    """Remove these handoffs, which are older than `before`, and return their number. Call inside a transaction.

    The counts stay as they are, and a recount no longer compares those of that time.
    """
    if not handoffs:
        return 0
    lineages = _list_lineages(tenant, handoffs)
    # The tables have no foreign keys with a cascade, so one statement for each table removes all rows of the batch.
    keys = list(handoffs) if db.is_postgresql() else [one.hex for one in handoffs]
    condition, params = db.among(keys)
    bounds = [min(keys), max(keys)]
    with connection.cursor() as cursor:
        for model, column in _ROWS:
            table = model._meta.db_table  # noqa: SLF001 -- Django's documented API
            of_tenant, of = _bound_rows(model, tenant, handoffs)
            # Most handoffs have no rows in most tables. One look at the range is cheaper than one for each handoff.
            cursor.execute(
                f'SELECT 1 FROM "{table}" WHERE "{column}" BETWEEN %s AND %s{of_tenant} LIMIT 1',  # noqa: S608
                [*bounds, *of],
            )
            if cursor.fetchone():
                cursor.execute(f'DELETE FROM "{table}" WHERE "{column}" {condition}{of_tenant}', [*params, *of])  # noqa: S608
    left = set(Handoff.objects.filter(tenant=tenant, lineage__in=lineages).values_list("lineage", flat=True))
    left |= set(Handoff.objects.filter(tenant=tenant, handoff_id__in=lineages).values_list("handoff_id", flat=True))
    Remediation.objects.filter(tenant=tenant, lineage__in=lineages - left).delete()
    _note_removal(tenant, next_midnight(before))
    return len(handoffs)


def _bound_rows(model: type[Model], tenant: Tenant, handoffs: Sequence[uuid.UUID]) -> tuple[str, list[Any]]:
    """Return the end of a condition for the rows of these handoffs, and its parameters."""
    if not _names_tenant(model):
        return "", []
    if model is not Verdict or not db.is_postgresql():
        return " AND tenant_id = %s", [tenant.pk]
    # Without bounds, PostgreSQL searches the verdicts of all weeks.
    rows = Handoff.objects.filter(tenant=tenant, pk__in=handoffs).exclude(verdict=None)
    last = rows.order_by("-verdict").values_list("verdict", flat=True).first()
    bounds = partitions.bound_verdicts(min(handoffs), last)
    return " AND tenant_id = %s AND id BETWEEN %s AND %s", [tenant.pk, *bounds]


def _list_lineages(tenant: Tenant, handoffs: Sequence[uuid.UUID]) -> set[str]:
    """Return the lineages of these handoffs that have a remediation record."""
    if not Remediation.objects.filter(tenant=tenant).exists():
        return set()
    rows = Handoff.objects.filter(tenant=tenant, pk__in=handoffs).values_list("lineage", "handoff_id")
    named = {lineage or handoff_id for lineage, handoff_id in rows}
    found = Remediation.objects.filter(tenant=tenant, lineage__in=list(named))
    return set(found.values_list("lineage", flat=True))


def _names_tenant(model: type[Model]) -> bool:
    return any(field.name == "tenant" for field in model._meta.concrete_fields)  # noqa: SLF001 -- Django's documented API


def _note_removal(tenant: Tenant, before: datetime) -> None:
    made, is_new = RemovedHandoffs.objects.get_or_create(tenant=tenant, defaults={"before": before})
    if not is_new and made.before < before:
        RemovedHandoffs.objects.filter(pk=made.pk, before__lt=before).update(before=before)


Before = Callable[[Tenant], None]
After = Callable[[Tenant, Sequence[Any], Erasure], None]


def _nothing(tenant: Tenant, pks: Sequence[Any], erasure: Erasure) -> None:
    """Do nothing after the change of these rows."""


def _note_documents(tenant: Tenant, pks: Sequence[uuid.UUID], erasure: Erasure) -> None:
    """Index the words of changed documents anew, judge them again, and add a remark to the events of their handoffs."""
    judge.revoke_leases(tenant, pks)
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
    counted. `batch` is the number of rows of one transaction. `before` runs before the first batch that is erased.
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
    before: Before | None = None
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
    ErasureTarget(
        "verdicts",
        "Verdicts",
        Verdict,
        ("content",),
        handoff="handoff_id",
        batch=100,
        # A worker may have read the document, tool results or facts before they changed.
        before=judge.revoke_leases,
        after=_seal_verdicts,
    ),
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
