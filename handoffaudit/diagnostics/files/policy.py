"""Whether only the file counts, and what that would have meant."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Sum
from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.diagnostics.models import HealthCount
from handoffaudit.policy.handoff_files import HandoffFilesPolicy
from handoffaudit.policy.kinds import file_policy
from handoffaudit.policy.versions import Table
from handoffaudit.validation.formats.file_report import Fallback, Source

LOOKED_BACK = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class InForce:
    """`strict`: what was not read from its file counts as failed."""

    strict: bool
    version: int


def in_force(tenant: Tenant) -> InForce:
    return _of(file_policy.current(tenant))


def in_force_at(tenant: Tenant, at: datetime) -> InForce:
    """Return the policy that a report which arrived at that time is judged by, and its handoff with it."""
    return _of(file_policy.at_time(tenant.pk, at))


def _of(table: Table[HandoffFilesPolicy]) -> InForce:
    return InForce(table.rows[0].strict_handoff_files, table.version)


@dataclass(frozen=True, slots=True)
class Effect:
    """Of the last week's handoff files: how many fail without the strict policy, and with it."""

    total: int
    failed: int
    failed_if_strict: int


def effect(tenant: Tenant) -> Effect:
    since = (timezone.now() - LOOKED_BACK).replace(minute=0, second=0, microsecond=0)
    rows = HealthCount.objects.filter(tenant=tenant, hour__gte=since).values_list("source", "reason", "fallback")
    counted = [(source, reason, fallback, n or 0) for source, reason, fallback, n in rows.annotate(n=Sum("number"))]
    return Effect(
        total=sum(n for *_, n in counted),
        failed=sum(n for _, reason, fallback, n in counted if reason and fallback != Fallback.OK),
        failed_if_strict=sum(n for source, *_, n in counted if source != Source.HANDOFF_JSON),
    )
