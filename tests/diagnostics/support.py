"""Counts of handoff files, and decisions, for tests of reports."""

from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.diagnostics import file_stats
from handoffaudit.diagnostics.file_stats import HealthKey
from handoffaudit.handoffs.models import ActorKind, Handoff
from handoffaudit.handoffs.periods import HOUR, Window, window_of
from handoffaudit.handoffs.review import decisions
from handoffaudit.handoffs.review.decisions import Decision
from handoffaudit.handoffs.transitions import Actor

# A Saturday.
NOW = datetime(2026, 2, 14, 15, 20, tzinfo=UTC)
RUI = Actor(ActorKind.PERSON, "rui")


def window_then(params: dict[str, str]) -> Window:
    """Return a window as it was at `NOW`, long enough ago that its hours count as whole days."""
    with pytest.MonkeyPatch.context() as patch:
        for module in ("counts", "periods"):
            patch.setattr(f"handoffaudit.handoffs.{module}.HOURS_KEPT", timedelta(days=3650))
        return window_of(params, NOW)


def counted(
    tenant: Tenant,
    agent: str,
    number: int,
    reason: str = "",
    *,
    phase: str = "plan",
    runtime: str = "claude",
    source: str = "",
    fallback: str = "",
    ago: timedelta = HOUR,
    now: datetime = NOW,
) -> None:
    """Store the counts of that many files of an hour; a file counts as used where no reason is given."""
    hour = (now - ago).replace(minute=0, second=0, microsecond=0)
    source = source or ("text_fallback" if reason or fallback else "handoff_json")
    key = HealthKey(hour, agent, phase, runtime, source, reason, fallback)
    file_stats.count_health(tenant.pk, Counter({key: number}))


def decided(tenant: Tenant, handoff: Handoff, decision: Decision, note: str = "so it is") -> Handoff:
    return decisions.decide_handoff(
        tenant=tenant, reference=str(handoff.pk), decision=decision, note=note, actor=RUI, seen_version=None
    )


def today() -> Window:
    """Return the window from a day before to a day after the current hour, by the clock that dates new handoffs.

    Modules read the window once, and their tests may run in a later hour.
    """
    now = timezone.now().replace(minute=0, second=0, microsecond=0)
    since, until = now - timedelta(days=1), now + timedelta(days=1)
    return Window(since, until, since - timedelta(days=2), since)
