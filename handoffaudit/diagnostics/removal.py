"""The rows that are removed with a handoff, and the rows in which an erasure looks for a value."""

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.db import connection, transaction
from django.db.models import AutoField, Model, Q, QuerySet, Value
from django.db.models.functions import Coalesce, NullIf
from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.diagnostics import attribution, text_index
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
from handoffaudit.handoffs import db, judge_leases, partitions
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

# The number of handoffs that one transaction removes. A larger number would hardly be faster, and would lock rows for
# longer.
HANDOFFS_AT_ONCE: Final = 5_000
# The number of handoffs in one transaction that removes a range of ids.
RANGE_AT_ONCE: Final = 10_000
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
# Rows of these models name a handoff and stay: they have a retention of their own, or are a copy.
KEPT_MODELS: Final = ("FileReport", "HookEvent", "ModelCall", "HandedOut", "PolicyCase")


def removed_models() -> list[type[Model]]:
    """Return the models of the rows that are removed with a handoff."""
    return [model for model, _ in _ROWS]


def remove_handoffs(tenant: Tenant, handoffs: Sequence[uuid.UUID], before: datetime) -> int:
    """Remove these handoffs, which are older than `before`, and return their number. Call inside a transaction.

    The stored counts stay. A recount no longer compares the counts from before `next_midnight(before)`.
    """
    if not handoffs:
        return 0
    rows = Handoff.objects.filter(tenant=tenant, pk__in=handoffs)
    lineages, verdicts = _list_lineages(tenant, rows), _bound_verdicts(rows, min(handoffs))
    keys = list(handoffs) if db.is_postgresql() else [one.hex for one in handoffs]
    condition, params = db.among(keys)
    # Most handoffs have no rows in most tables, so one query for the range is cheaper than one deletion by ids.
    bounds = [min(keys), max(keys)]
    for model, column in _ROWS:
        if _is_any_between(tenant, model, column, bounds, verdicts):
            _delete(tenant, model, f'"{column}" {condition}', params, verdicts)
    _end_removal(tenant, lineages, before)
    return len(handoffs)


def is_dense(tenant: Tenant, first: uuid.UUID, last: uuid.UUID, most: int = 2 * RANGE_AT_ONCE) -> bool:
    """Return whether the tenant's handoffs from the id `first` to `last` can be removed by this range.

    Return False if the range has rows without a tenant column, which may belong to another tenant. Also return
    False if all tenants together have `most` or more handoffs in the range, because too many rows of other tenants
    would be read in vain.
    """
    bounds = [first, last]
    if any(_is_any_between(tenant, model, column, bounds) for model, column in _ROWS[:-1] if not _names_tenant(model)):
        return False
    return Handoff.objects.filter(pk__range=bounds)[:most].count() < most


def remove_range(due: "QuerySet[Handoff]", tenant: Tenant, first: uuid.UUID, last: uuid.UUID, before: datetime) -> int:
    """Remove the tenant's handoffs from the id `first` to `last`, and return their number. Call inside a transaction.

    If one of them is not `due`, remove none and return 0. On PostgreSQL, a range costs a fraction of a list of ids.
    """
    rows = Handoff.objects.filter(tenant=tenant, pk__range=(first, last))
    lineages, verdicts = _list_lineages(tenant, rows), _bound_verdicts(rows, first)
    with transaction.atomic():
        # The handoffs are deleted first. This locks them, so that nobody changes one of them meanwhile.
        number = due.filter(pk__range=(first, last)).delete()[0]
        for model, column in _ROWS[:-1]:
            if _names_tenant(model):
                _delete(tenant, model, f'"{column}" BETWEEN %s AND %s', [first, last], verdicts)
        # If a handoff has `sent_at`, its id begins with this time. So a handoff with an old `sent_at` may have arrived
        # meanwhile with an id in this range, and its rows may be among the deleted rows.
        if rows.exists():
            transaction.set_rollback(True)
            return 0
    _end_removal(tenant, lineages, before)
    return number


def _is_any_between(
    tenant: Tenant, model: type[Model], column: str, bounds: list[Any], verdicts: tuple[Any, ...] = ()
) -> bool:
    table, (more, params) = model._meta.db_table, _bound_rows(tenant, model, verdicts)  # noqa: SLF001 -- Django's documented API
    with connection.cursor() as cursor:
        cursor.execute(
            f'SELECT 1 FROM "{table}" WHERE "{column}" BETWEEN %s AND %s{more} LIMIT 1',  # noqa: S608
            [*bounds, *params],
        )
        return cursor.fetchone() is not None


def _delete(
    tenant: Tenant, model: type[Model], condition: str, params: Sequence[Any], verdicts: tuple[Any, ...]
) -> None:
    table, (more, of) = model._meta.db_table, _bound_rows(tenant, model, verdicts)  # noqa: SLF001 -- Django's documented API
    with connection.cursor() as cursor:
        cursor.execute(f'DELETE FROM "{table}" WHERE {condition}{more}', [*params, *of])  # noqa: S608


def _bound_rows(tenant: Tenant, model: type[Model], verdicts: tuple[Any, ...]) -> tuple[str, list[Any]]:
    """Return the SQL that limits a condition to the rows of a tenant, and its parameters.

    Both are empty for a model without a tenant column.
    """
    if not _names_tenant(model):
        return "", []
    if model is Verdict and verdicts:
        return " AND tenant_id = %s AND id BETWEEN %s AND %s", [tenant.pk, *verdicts]
    return " AND tenant_id = %s", [tenant.pk]


def _bound_verdicts(handoffs: "QuerySet[Handoff]", first: uuid.UUID) -> tuple[Any, ...]:
    """Return the bounds of the ids of the handoffs' verdicts; an empty tuple on SQLite.

    Without the bounds, PostgreSQL searches all partitions.
    """
    if not db.is_postgresql():
        return ()
    last = handoffs.exclude(verdict=None).order_by("-verdict").values_list("verdict", flat=True).first()
    return partitions.bound_verdicts(first, last)


def _list_lineages(tenant: Tenant, handoffs: "QuerySet[Handoff]") -> set[str]:
    """Return the lineages of these handoffs that have a remediation record."""
    kept = Remediation.objects.filter(tenant=tenant)
    if not kept.exists():
        return set()
    named = handoffs.values_list(Coalesce(NullIf("lineage", Value("")), "handoff_id"))
    return set(kept.filter(lineage__in=named).values_list("lineage", flat=True))


def _end_removal(tenant: Tenant, lineages: set[str], before: datetime) -> None:
    """Remove the remediation records of lineages of which no handoff is left, and note the removal."""
    handoffs = Handoff.objects.filter(tenant=tenant)
    # Without the condition of the partial index, SQLite would read all handoffs.
    left = set(handoffs.filter(lineage__in=lineages).exclude(lineage="").values_list("lineage", flat=True))
    left |= set(handoffs.filter(handoff_id__in=lineages).values_list("handoff_id", flat=True))
    Remediation.objects.filter(tenant=tenant, lineage__in=lineages - left).delete()
    _note_removal(tenant, next_midnight(before))


def _names_tenant(model: type[Model]) -> bool:
    return any(field.name == "tenant" for field in model._meta.concrete_fields)  # noqa: SLF001 -- Django's documented API


def _note_removal(tenant: Tenant, before: datetime) -> None:
    made, is_new = RemovedHandoffs.objects.get_or_create(tenant=tenant, defaults={"before": before})
    if not is_new and made.before < before:
        RemovedHandoffs.objects.filter(pk=made.pk, before__lt=before).update(before=before)


Before = Callable[[Tenant], None]
After = Callable[[Tenant, Sequence[Any], Erasure], None]


def _do_nothing(tenant: Tenant, pks: Sequence[Any], erasure: Erasure) -> None:
    """Do nothing after the change of these rows."""


def _note_documents(tenant: Tenant, pks: Sequence[uuid.UUID], erasure: Erasure) -> None:
    """Index the words of changed documents again, restart judging that is under way, and add an event per handoff."""
    judge_leases.revoke_leases(tenant, pks)
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


def _revoke_attribution(tenant: Tenant) -> None:
    attribution.LEASE.revoke()


def _seal_verdicts(tenant: Tenant, pks: Sequence[uuid.UUID], erasure: Erasure) -> None:
    seals.seal_erased(tenant, seals.read_verdicts(Verdict.objects.filter(tenant=tenant, pk__in=pks).order_by("pk")))


def _seal_events(tenant: Tenant, pks: Sequence[int], erasure: Erasure) -> None:
    found = seals.sealed_events().filter(tenant=tenant, pk__in=pks).order_by("pk")
    seals.seal_erased(tenant, seals.read_events(found))


@dataclass(frozen=True, slots=True)
class ErasureTarget:
    """A kind of row, and its columns that may hold a value.

    `handoff` and `trace` are the columns by which legal holds find the rows. If `changes` is false, the rows are only
    counted. `batch` is the number of rows in one transaction. `before` runs before the first batch is erased, and
    `after` after each batch.
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
    after: After = _do_nothing

    def rows(self, tenant: Tenant) -> "QuerySet[Any]":
        return self.model._default_manager.filter(**{self.tenant: tenant})  # noqa: SLF001 -- Django's documented API

    def list_next(self, tenant: Tenant, reached: str) -> "QuerySet[Any]":
        """Return the rows after the key `reached`, or all rows if the key is empty, in the order of their keys.

        Of documents, return only the next batch, and lock its handoffs before the caller locks the documents, as a
        retention run does. Call inside a transaction.
        """
        # Without a first key, SQLite would read all rows of the tenant.
        lowest = 0 if isinstance(self.model._meta.pk, AutoField) else uuid.UUID(int=0)  # noqa: SLF001 -- Django's documented API
        later = Q(pk__gt=reached or lowest)
        if self.model is HandoffBody:
            # The table has no tenant column, and for a join SQLite would sort all handoffs of the tenant.
            handoffs = Handoff.objects.select_for_update(of=("self",)).order_by("pk")
            handoffs = handoffs.filter(later, tenant=tenant, body__isnull=False)
            later = Q(pk__in=list(handoffs.values_list("pk", flat=True)[: self.batch]))
        return self.rows(tenant).filter(later).order_by("pk")

    def save(self, tenant: Tenant, pk: Any, columns: Mapping[str, Any]) -> None:
        """Store the changed values of a row, each cut to the length of its column."""
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
        before=judge_leases.revoke_leases,
        after=_seal_verdicts,
    ),
    ErasureTarget("findings", "Findings", Finding, ("field_path",), handoff="handoff_id"),
    ErasureTarget(
        "attributions",
        "Findings of agents",
        Attribution,
        ("field_path", "value"),
        handoff="handoff",
        # A worker may have read the verdicts before they changed.
        before=_revoke_attribution,
    ),
    ErasureTarget("remediations", "Remediation records", Remediation, ("content",)),
    ErasureTarget("events", "Events", Event, ("reason",), handoff="handoff_id", after=_seal_events),
    ErasureTarget("comments", "Comments", Comment, ("text",), handoff="handoff_id"),
    ErasureTarget("assignments", "Assignments", PassedOn, ("note", "replaced"), handoff="handoff_id"),
    ErasureTarget("proposals", "Proposals", Proposal, ("note", "replaced"), handoff="handoff_id"),
    ErasureTarget("group_mutes", "Places and notes of finding groups", FindingGroup, ("path_shape", "muted_note")),
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
    # Counts, traces and later submissions refer to these values, so the values stay.
    ErasureTarget(
        "names",
        "Ids and names of agents (only counted)",
        Handoff,
        ("handoff_id", "source_agent_id", "target_agent_id", "handoff_type", "trace_id"),
        changes=False,
    ),
    # New targets come last, because an unfinished erasure stores its progress as an index into this tuple.
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
