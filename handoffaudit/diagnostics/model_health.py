"""How the language model does for one tenant: what is called, what fails and why, what it costs, what waits for it."""

from dataclasses import dataclass
from datetime import datetime

from django.conf import settings
from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.diagnostics import model_now
from handoffaudit.diagnostics.latencies import Latencies, latencies
from handoffaudit.diagnostics.model_calls import Counted, counted
from handoffaudit.diagnostics.model_now import BreakerNow, Budget, Status, Waiting
from handoffaudit.diagnostics.periods import Period


@dataclass(frozen=True, slots=True)
class ModelHealth:
    """The figures of a period, and how it stands now."""

    period: Period
    since: datetime
    until: datetime
    provider: str
    counted: Counted
    latencies: Latencies
    status: Status
    breakers: list[BreakerNow]
    waiting: Waiting
    budget: Budget


def model_health(tenant: Tenant, period: Period) -> ModelHealth:
    until = timezone.now()
    since = until - period.length
    return ModelHealth(
        period=period,
        since=since,
        until=until,
        provider=settings.MODEL_PROVIDER,
        counted=counted(tenant, since, until, period.step),
        latencies=latencies(tenant, since, until),
        status=model_now.status(tenant),
        breakers=model_now.breakers(),
        waiting=model_now.waiting(tenant, since),
        budget=model_now.budget(tenant),
    )
