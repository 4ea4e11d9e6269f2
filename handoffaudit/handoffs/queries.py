"""Queries of handoffs for pages and the API. Lists never read bodies.

Every query of handoffs names the tenant. `body` reads by the id of a handoff that the caller found in its tenant.
"""

import re
import uuid
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any, Final
from uuid import UUID

import msgspec
import orjson
from django.db.models import BooleanField, Exists, F, Model, OuterRef, QuerySet, Subquery
from django.db.models.expressions import RawSQL

from handoffaudit.accounts.models import Tenant
from handoffaudit.filter_fields import Order
from handoffaudit.handoffs import filters as handoffs_filters
from handoffaudit.handoffs import partitions, stats
from handoffaudit.handoffs.attempts import load_record
from handoffaudit.handoffs.db import is_postgresql, reader_of
from handoffaudit.handoffs.filters import LOWEST, NEWEST, OLDEST, Filters, first_id_at, is_of_trace, parse_cursor
from handoffaudit.handoffs.models import (
    WAITING_STATES,
    Event,
    Finding,
    Handoff,
    HandoffBody,
    RemovedDocument,
    State,
    Verdict,
    new_id,
)
from handoffaudit.handoffs.transitions import DECIDED, REVIEWABLE
from handoffaudit.handoffs.verdicts import is_asked_again
from handoffaudit.validation.issues import Severity
from handoffaudit.validation.remediation import Action


def decided_handoffs(tenant_id: int) -> "QuerySet[Handoff]":
    """Return the approved and declined handoffs of a tenant."""
    return Handoff.objects.filter(_is_decided(Handoff, "state"), tenant=tenant_id)


def accepted_handoffs(tenant_id: int) -> "QuerySet[Handoff]":
    """Return the accepted handoffs of a tenant."""
    # With a parameter in place of the state, SQLite would not use the partial index.
    is_accepted = RawSQL('"handoffs_handoff"."state" = \'accepted\'', (), output_field=BooleanField())
    return Handoff.objects.filter(is_accepted, tenant=tenant_id)


def decision_events(tenant: Tenant | int) -> "QuerySet[Event]":
    """Return the events that approved or declined a handoff, not remarks about decided handoffs."""
    return Event.objects.filter(_is_decided(Event, "to_state"), tenant=tenant).exclude(from_state=F("to_state"))


def exclude_undone(rows: "QuerySet[Event]") -> "QuerySet[Event]":
    """Return the events from `decision_events` that nobody undid."""
    later = Event.objects.filter(handoff=OuterRef("handoff"), id__gt=OuterRef("pk"), from_state=OuterRef("to_state"))
    # The conditions on both states let PostgreSQL use the index `event_undone`.
    return rows.filter(~Exists(later.filter(from_state__in=DECIDED, to_state__in=REVIEWABLE)))


def filter_decided_by(rows: "QuerySet[Handoff]", tenant: Tenant, name: str, *, rare: int) -> "QuerySet[Handoff]":
    """Return the handoffs of `rows` whose current decision was made by this person or API key.

    Up to `rare` handoffs are looked up by id. If there are more, a scan in the order of `rows` soon finds enough of
    them for a page.
    """
    found = list(
        exclude_undone(decision_events(tenant).filter(actor=name)).values_list("handoff", flat=True)[: rare + 1]
    )
    if len(found) <= rare:
        return rows.filter(pk__in=found)
    made = Event.objects.filter(handoff=OuterRef("pk"), actor=name, to_state__in=DECIDED)
    made = made.exclude(from_state=F("to_state"))
    return rows.filter(Exists(exclude_undone(made)))


def _is_decided(model: type[Model], column: str) -> RawSQL:
    table = model._meta.db_table  # noqa: SLF001 -- Django's documented API
    sql = f"\"{table}\".\"{column}\" IN ('approved', 'declined')"
    return RawSQL(sql, (), output_field=BooleanField())  # noqa: S611 -- the statement contains no input


EVERYTHING = Filters()

# A rule code or a group with at most this many handoffs counts as rare.
RARE = 2000


@dataclass(frozen=True, slots=True)
class Page:
    """A page of handoffs, and the cursor of the next page, or None for the last page."""

    items: list[Handoff]
    next: str | None


def of_tenant(tenant: Tenant) -> "QuerySet[Handoff]":
    """Return the handoffs of a tenant. Raise `ValueError` if the tenant is not stored."""
    return Handoff.objects.filter(tenant=tenant)


def filter_matching(tenant: Tenant, filters: Filters) -> "QuerySet[Handoff]":
    """Return the handoffs that match the filters. Conditions that need other tables are written here."""
    rows = of_tenant(tenant).filter(*filters.conditions())
    if filters.received_before:
        rows = rows.filter(handoffs_filters.is_received_before(filters.received_before))
    for found in (*_filter_marks(tenant, filters), *_filter_flag(tenant, filters)):
        rows = narrow_to(rows, found)
    if filters.decided_by:
        rows = filter_decided_by(rows, tenant, filters.decided_by, rare=RARE)
    return rows


def _filter_marks(tenant: Tenant, filters: Filters) -> "list[QuerySet[Any]]":
    """Return one query for the rule code and one for the finding group, as far as the filters name them.

    The rows of each query name the matching handoffs in the column `handoff`.
    """
    found: list[QuerySet[Any]] = []
    if filters.code:
        found.append(Finding.objects.filter(tenant=tenant, code=filters.code))
    if filters.group:
        found.append(handoffs_filters.members_of_group(tenant, int(filters.group)))
    return found


def _filter_flag(tenant: Tenant, filters: Filters) -> "list[QuerySet[Handoff]]":
    """Return a query for the flag, in the form of `_filter_marks`, if the database is SQLite and other filters are set.

    Without this query, SQLite would find the handoffs by a state or an agent, and not by the partial index of the flag.
    """
    alone = replace(EVERYTHING, flag=filters.flag)
    others = replace(filters, since=None, until=None, period="", sort=NEWEST)
    if not filters.flag or others == alone or is_postgresql():
        return []
    return [of_tenant(tenant).filter(*alone.conditions()).annotate(handoff=F("pk"))]


def narrow_to(rows: "QuerySet[Handoff]", found: "QuerySet[Any]") -> "QuerySet[Handoff]":
    """Return the handoffs of `rows` that `found` names.

    A few handoffs are looked up by the ids in `found`. If there are many, a scan in the order of `rows` soon finds
    enough of them for a page. The scan looks up each handoff in the index of `found`.
    """
    if found.order_by()[: RARE + 1].count() <= RARE:
        return rows.filter(pk__in=found.values("handoff"))
    return rows.filter(Exists(found.filter(handoff=OuterRef("pk"))))


def list_handoffs(tenant: Tenant, filters: Filters, *, cursor: str = "", limit: int = 50) -> Page:
    """Return a page of the matching handoffs in the order of the filters. Raise `FilterError` for an invalid cursor."""
    if filters.sort == LOWEST:
        return Page(*handoffs_filters.list_by_score(of_tenant(tenant), filter_matching(tenant, filters), cursor, limit))
    after = parse_cursor(cursor) if cursor else None
    marks = _find_only_marks(tenant, filters)
    if marks is not None:
        return _make_page(_list_by_marks(tenant, marks, filters.order, after, limit + 1), limit)
    rows = sort_by_id(filter_matching(tenant, filters), filters.order, after)
    return _make_page(list(rows[: limit + 1]), limit)


def sort_by_id(rows: "QuerySet[Any]", order: Order, after: UUID | None, column: str = "id") -> "QuerySet[Any]":
    """Return the rows in an order by time; with `after`, only the rows after this id. `column` has the ids."""
    if after:
        rows = rows.filter(**{f"{column}__{'lt' if order.is_descending else 'gt'}": after})
    return rows.order_by(f"{'-' if order.is_descending else ''}{column}")


def count(tenant: Tenant, filters: Filters, most: int) -> int:
    """Count the matching handoffs, up to `most`."""
    marks = _find_only_marks(tenant, filters)
    if marks is not None:
        return marks.order_by().values("handoff").distinct()[:most].count()
    return filter_matching(tenant, filters).order_by()[:most].count()


def _find_only_marks(tenant: Tenant, filters: Filters) -> "QuerySet[Any] | None":
    """Return the query for the rule code or for the group if no other filter but the period is set, otherwise None."""
    marks = _filter_marks(tenant, filters)
    others = replace(filters, code="", group="", since=None, until=None, period="", sort=NEWEST)
    if len(marks) != 1 or others != EVERYTHING or filters.sort == LOWEST:
        return None
    (found,) = marks
    if filters.since:
        found = found.filter(handoff__gte=first_id_at(filters.since))
    if filters.until:
        found = found.filter(handoff__lt=first_id_at(filters.until))
    return found


def _list_by_marks(
    tenant: Tenant, found: "QuerySet[Any]", order: Order, after: UUID | None, number: int
) -> list[Handoff]:
    """Return the first handoffs that `found` names, in two queries, because a join would read all rows of `found`."""
    first = sort_by_id(found, order, after, "handoff").values_list("handoff", flat=True).distinct()[:number]
    return list(sort_by_id(of_tenant(tenant).filter(pk__in=list(first)), order, None))


def _make_page(found: list[Handoff], limit: int) -> Page:
    return Page(items=found[:limit], next=str(found[limit - 1].pk) if len(found) > limit else None)


def count_new(tenant: Tenant, filters: Filters, after: uuid.UUID, cap: int = 100) -> int:
    """Count the matching handoffs with a later id than `after`, up to `cap`."""
    return filter_matching(tenant, filters).filter(id__gt=after).order_by()[:cap].count()


def get(tenant: Tenant, reference: str) -> Handoff:
    """Return the handoff with this UUID, or else with this `handoff_id`. Raise `Handoff.DoesNotExist`."""
    try:
        found = reader_of(Handoff, "id", "tenant_id").first(uuid.UUID(reference), tenant.pk)
    except ValueError:
        found = None
    if found is None and "\x00" not in reference:
        found = reader_of(Handoff, "handoff_id", "tenant_id").first(reference, tenant.pk)
    if found is None:
        raise Handoff.DoesNotExist(f"There is no handoff {reference[:80]!r}.")
    return found


def find_by_prefix(tenant: Tenant, prefix: str, most: int) -> list[Handoff]:
    """Return handoffs whose UUID or `handoff_id` begins with the prefix, newest first, at most `most` by each id."""
    rows = of_tenant(tenant)
    found: dict[uuid.UUID, Handoff] = {}
    digits = prefix.replace("-", "").lower()
    if _HEX.fullmatch(digits):
        first, last = (uuid.UUID(digits.ljust(32, digit)) for digit in "0f")
        found = {row.pk: row for row in rows.filter(pk__range=(first, last)).order_by("-id")[:most]}
    if names := stats.list_by_prefix(Handoff, "handoff_id", tenant.pk, prefix, most):
        found |= {row.pk: row for row in rows.filter(handoff_id__in=names)}
    return sorted(found.values(), key=lambda row: row.pk, reverse=True)


# Fewer digits are more likely a word or a number than the beginning of an id.
_HEX: Final = re.compile(r"[0-9a-f]{4,32}")


def body(handoff: Handoff) -> HandoffBody | None:
    """Return the documents of the handoff, or None if retention removed them."""
    return reader_of(HandoffBody, "handoff_id").first(handoff.pk)


def removal_of(handoff: Handoff) -> RemovedDocument | None:
    """Return the record of the removal of the handoff's documents, or None if they were not removed."""
    return RemovedDocument.objects.filter(pk=handoff.pk, tenant=handoff.tenant_id).first()


def current_verdict(handoff: Handoff) -> dict[str, Any] | None:
    """Return the current verdict in the form of the API, or None if there is no verdict yet."""
    if handoff.verdict is None:
        return None
    found = reader_of(Verdict, "id", "tenant_id").first(handoff.verdict, handoff.tenant_id)
    verdict: dict[str, Any] | None = orjson.loads(found.content) if found else None
    if verdict and handoff.flags["escalated"] and verdict["recommended_action"] != Action.ESCALATE:
        # A repair failed after the verdict, so the handoff is escalated until a person decides.
        record = load_record(handoff)
        verdict["recommended_action"] = Action.ESCALATE.value
        verdict["remediation"] = record.to_dict() if record else None
    if verdict and _is_asked_again(handoff):
        verdict["recommended_action"] = Action.RETRY.value
    return verdict


# The most findings of a verdict in a summary.
MOST_SUMMARY_ISSUES = 20

# Verdicts are read in batches of this size, because a large verdict has some hundred kilobytes.
_SUMMARIES_AT_ONCE = 100


class _SummaryIssue(msgspec.Struct):
    severity: Severity


class _SummaryVerdict(msgspec.Struct):
    """The fields of a stored verdict that a summary has; the issues stay as they are stored."""

    outcome: str
    valid: bool
    would_decide: str
    quality_score: float
    recommended_action: str | None
    unverified: bool
    issues: list[msgspec.Raw]


@dataclass(frozen=True, slots=True)
class JudgedSummary:
    """The state of a judged handoff, and its verdict without the parts that can be large."""

    state: str
    verdict: dict[str, Any]


def summaries(tenant: Tenant, pks: Collection[UUID]) -> dict[UUID, JudgedSummary]:
    """Return the summaries of the judged handoffs among these, in one query for each 100 handoffs.

    Declined handoffs take one more query, and each unreadable handoff among them another.
    """
    found: dict[UUID, JudgedSummary] = {}
    rows = of_tenant(tenant).exclude(state__in=WAITING_STATES).exclude(verdict=None)
    ordered = sorted(pks)
    for start in range(0, len(ordered), _SUMMARIES_AT_ONCE):
        some = rows.filter(pk__in=ordered[start : start + _SUMMARIES_AT_ONCE])
        made = Verdict.objects.filter(partitions.filter_made_between(ordered[start], new_id()), pk=OuterRef("verdict"))
        values = some.values_list("pk", "state", "escalated", Subquery(made.values("content")))
        for pk, state, escalated, stored in values:
            if stored:
                verdict = _summarize(stored)
                if escalated and state == State.REJECTED:
                    verdict["recommended_action"] = Action.ESCALATE.value
                found[pk] = JudgedSummary(state, verdict)
    for handoff in rows.filter(pk__in=[pk for pk, one in found.items() if one.state == State.DECLINED]):
        if _is_asked_again(handoff):
            found[handoff.pk].verdict["recommended_action"] = Action.RETRY.value
    return found


def _summarize(content: str) -> dict[str, Any]:
    stored = _SUMMARY.decode(content)
    severities = [_SUMMARY_ISSUE.decode(issue).severity for issue in stored.issues]
    order = sorted(range(len(severities)), key=lambda number: -_GRAVITY.index(severities[number]))
    issues = [orjson.Fragment(bytes(stored.issues[number])) for number in order[:MOST_SUMMARY_ISSUES]]
    plain = {name: getattr(stored, name) for name in stored.__struct_fields__}
    return plain | {"issues": issues, "issues_total": len(stored.issues)}


_SUMMARY = msgspec.json.Decoder(_SummaryVerdict)

_SUMMARY_ISSUE = msgspec.json.Decoder(_SummaryIssue)

_GRAVITY = list(Severity)


def _is_asked_again(handoff: Handoff) -> bool:
    """Return whether a reviewer asked the sender to send the unreadable handoff again."""
    if handoff.state != State.DECLINED or not handoff.is_unreadable:
        return False
    return is_asked_again(handoff.tenant_id, handoff.pk)


def verdicts(handoff: Handoff) -> list[Verdict]:
    rows = Verdict.objects.filter(partitions.filter_made_between(handoff.pk, handoff.verdict), tenant=handoff.tenant_id)
    return list(rows.filter(handoff=handoff.pk).order_by("-id")[:100])


def events(handoff: Handoff) -> list[Event]:
    return list(Event.objects.filter(handoff=handoff.pk, tenant=handoff.tenant_id).order_by("id")[:500])


def trace(tenant: Tenant, trace_id: str, limit: int = 200) -> list[Handoff]:
    """Return the first `limit` handoffs of a trace, in the order of their ids."""
    return list(of_tenant(tenant).filter(is_of_trace(trace_id)).order_by("id")[:limit]) if trace_id else []


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The handoffs before and after a handoff in a list; `fits` says whether the handoff itself is in the list."""

    older: Handoff | None
    newer: Handoff | None
    fits: bool = True


def find_neighbours(tenant: Tenant, filters: Filters, pk: UUID) -> Neighbours:
    """Return the neighbours of a handoff among the handoffs that match the filters.

    `older` is the next handoff in the order of the filters, `newer` the previous handoff.
    """
    rows = filter_matching(tenant, filters)
    if filters.sort == LOWEST:
        whole, handoff = of_tenant(tenant), of_tenant(tenant).filter(pk=pk).first()
        after, before = (
            handoff and handoffs_filters.find_next_by_score(whole, rows, handoff, is_back=is_back)
            for is_back in (False, True)
        )
        return Neighbours(after, before, rows.filter(id=pk).exists())
    older = rows.filter(id__lt=pk).order_by("-id").first()
    newer = rows.filter(id__gt=pk).order_by("id").first()
    after, before = (newer, older) if filters.sort == OLDEST else (older, newer)
    return Neighbours(after, before, rows.filter(id=pk).exists())


def find_neighbours_among(tenant: Tenant, ids: "QuerySet[Any, UUID]", column: str, pk: UUID) -> Neighbours:
    """Return the neighbours of a handoff among the handoffs that another table lists.

    `ids` are the values of `column` in that table's rows.
    """
    older = ids.filter(**{f"{column}__lt": pk}).order_by(f"-{column}").first()
    newer = ids.filter(**{f"{column}__gt": pk}).order_by(column).first()
    found = of_tenant(tenant).in_bulk([one for one in (older, newer) if one])
    fits = ids.filter(**{column: pk}).exists()
    return Neighbours(found.get(older) if older else None, found.get(newer) if newer else None, fits)
