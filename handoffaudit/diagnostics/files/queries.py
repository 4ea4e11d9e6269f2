"""Reports of handoff files as pages and the API list them."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, Final
from urllib.parse import urlencode

import orjson
from django.db.models import QuerySet
from django.http import QueryDict

from handoffaudit.accounts.models import Tenant
from handoffaudit.diagnostics.models import FileReport
from handoffaudit.handoffs.filters import FilterError, Filters, first_id_at, parse_cursor
from handoffaudit.validation.formats.file_report import Fallback, Reason, Source
from handoffaudit.validation.times import utc_text

REASONS: Final = (*map(str, Reason), *map(str, Fallback))
_CHOICES: Final = {
    "reason": REASONS,
    "source": tuple(map(str, Source)),
    "fallback": tuple(map(str, Fallback)),
    "failed": ("yes", "no"),
}
_TEXTS: Final = ("agent", "phase", "runtime", "run")
_LONGEST: Final = 200


@dataclass(frozen=True, slots=True)
class FileFilters:
    """What a list of reports is narrowed by; empty text and None narrow nothing. `period` is `since` as it was asked
    for where that was relative. `reason` may name how the fallback went, too."""

    agent: str = ""
    phase: str = ""
    runtime: str = ""
    run: str = ""
    reason: str = ""
    source: str = ""
    fallback: str = ""
    failed: str = ""
    since: datetime | None = None
    until: datetime | None = None
    period: str = ""

    @classmethod
    def from_query(cls, params: QueryDict | Mapping[str, str]) -> "FileFilters":
        """Raises `BadFilter`."""
        given = {name: params.get(name, "").strip() for name in (*_TEXTS, *_CHOICES)}
        for name in _TEXTS:
            if "\x00" in given[name] or len(given[name]) > _LONGEST:
                raise FilterError(name, given[name][:40], f"use a text of at most {_LONGEST} characters without NUL.")
        for name, choices in _CHOICES.items():
            if given[name] and given[name] not in choices:
                raise FilterError(name, given[name][:40], f"use one of {', '.join(choices)}.")
        times = Filters.from_query({name: params.get(name, "") for name in ("since", "until")})
        return cls(**given, since=times.since, until=times.until, period=times.period)

    def to_query(self) -> str:
        pairs = [(name, getattr(self, name)) for name in (*_TEXTS, *_CHOICES) if getattr(self, name)]
        times = Filters(since=self.since, until=self.until, period=self.period).to_query()
        return "&".join(part for part in (urlencode(pairs), times) if part)

    def __bool__(self) -> bool:
        return any(getattr(self, field.name) not in ("", None) for field in fields(self))


@dataclass(frozen=True, slots=True)
class ReportPage:
    """Some reports, and the cursor that the next ones begin at (None: these were the last)."""

    items: list[FileReport]
    next: str | None


def of_tenant(tenant: Tenant) -> "QuerySet[FileReport]":
    """Raises for a tenant that is not stored: a query without a tenant must not exist."""
    if tenant.pk is None:
        raise ValueError("a query of reports needs a stored tenant")
    return FileReport.objects.filter(tenant=tenant)


def list_reports(tenant: Tenant, filters: FileFilters, *, cursor: str = "", limit: int = 50) -> ReportPage:
    """Newest first, by the time that they are about."""
    rows = _matching(of_tenant(tenant), filters).defer("content").order_by("-id")
    if cursor:
        rows = rows.filter(id__lt=parse_cursor(cursor))
    found = list(rows[: limit + 1])
    return ReportPage(found[:limit], str(found[limit - 1].pk) if len(found) > limit else None)


def _matching(rows: "QuerySet[FileReport]", filters: FileFilters) -> "QuerySet[FileReport]":
    exact = {
        "agent": filters.agent,
        "phase": filters.phase,
        "runtime": filters.runtime,
        "run_id": filters.run,
        "source": filters.source,
        "fallback": filters.fallback,
    }
    rows = rows.filter(**{column: value for column, value in exact.items() if value})
    if filters.reason:
        of_fallback = filters.reason in tuple(map(str, Fallback))
        rows = rows.filter(**{"fallback" if of_fallback else "reason": filters.reason})
    if filters.failed:
        rows = rows.filter(failed=filters.failed == "yes")
    if filters.since:
        rows = rows.filter(id__gte=first_id_at(filters.since))
    if filters.until:
        rows = rows.filter(id__lt=first_id_at(filters.until))
    return rows


def get(tenant: Tenant, pk: uuid.UUID) -> FileReport:
    """Raises `FileReport.DoesNotExist`."""
    return of_tenant(tenant).get(pk=pk)


def of_handoff(tenant: Tenant, handoff: uuid.UUID) -> FileReport | None:
    """The report that the handoff arrived as."""
    return of_tenant(tenant).defer("content").filter(handoff=handoff).first()


def listed(report: FileReport) -> dict[str, Any]:
    """A report as JSON values, as lists show it."""
    return {
        "id": str(report.pk),
        "handoff": str(report.handoff),
        "timestamp": utc_text(report.at),
        "agent": report.agent,
        "phase": report.phase,
        "runtime": report.runtime or None,
        "run_id": report.run_id,
        "iteration": report.iteration or None,
        "expected_path": report.expected_path,
        "wrong_path": report.wrong_path or None,
        "source": report.source,
        "reason": report.reason or None,
        "fallback": report.fallback or None,
        "reasons": [one for one in (report.reason, report.fallback) if one],
        "failed": report.failed,
    }


def answer_of(report: FileReport) -> dict[str, Any]:
    """What the sender was answered."""
    answer: dict[str, Any] = orjson.loads(report.content)
    return answer
