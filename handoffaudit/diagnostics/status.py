"""The current status of the workers and of the LLM: heartbeats, handoffs that wait, and the rest of the budget."""

import math
import time
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

import structlog
from django.conf import settings
from django.db import DatabaseError
from django.db.models import QuerySet
from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.diagnostics import alert_rules
from handoffaudit.diagnostics.models import Watermark
from handoffaudit.handoffs import alerts, notify, queries, stats
from handoffaudit.handoffs.alerts import format_span
from handoffaudit.handoffs.filters import first_id_at, is_in_states
from handoffaudit.handoffs.llm import client, limits
from handoffaudit.handoffs.llm.client import OK
from handoffaudit.handoffs.models import CheckKind, Handoff, ModelCall, ModelCheck, State
from handoffaudit.handoffs.webhooks import delivery
from handoffaudit.handoffs.webhooks.subscriptions import has_active
from handoffaudit.validation.prompts.question import Reason

log = structlog.get_logger(__name__)

BEAT_SECONDS: Final = 15
# A worker counts as missing only after this time without a heartbeat.
PATIENCE: Final = timedelta(seconds=45)
# A message says that no worker runs only after a handoff has waited this long.
NOBODY_AFTER: Final = timedelta(minutes=1)
# The names of the processes of `handoffaudit up` and docker-compose.yml, by the queue that each process consumes.
NAMES: Final = {settings.CELERY_TASK_DEFAULT_QUEUE: "worker", notify.CHECKS_QUEUE: "asker"}
WORKER, ASKER = NAMES.values()

_last_beat = -math.inf


def record_heartbeat() -> None:
    """Record a heartbeat of this process, at most every `BEAT_SECONDS` seconds. The sweep calls this function."""
    global _last_beat  # noqa: PLW0603 -- one for the process
    now = time.monotonic()
    if now - _last_beat < BEAT_SECONDS:
        return
    for name in (NAMES[queue] for queue in notify.consumed_queues() if queue in NAMES):
        Watermark.objects.update_or_create(name=name, defaults={"at": timezone.now()})
    _last_beat = now


def silent_workers() -> dict[str, float]:
    """Return the expected processes without a recent heartbeat, with the seconds since their last heartbeat.

    The seconds are infinite for a process that was never seen. The result is empty if all processes run.
    """
    names, now = expected_workers(), timezone.now()
    seen = dict(Watermark.objects.filter(name__in=names).values_list("name", "at"))
    # Each sweep records a heartbeat, so heartbeats are rare if the sweeps are rare.
    patience = max(PATIENCE.total_seconds(), 3.0 * settings.SWEEP_SECONDS)
    silent = {name: (now - seen[name]).total_seconds() if name in seen else math.inf for name in names}
    return {name: seconds for name, seconds in silent.items() if seconds > patience}


def expected_workers() -> tuple[str, ...]:
    """Return the names of the expected processes. The process for LLM checks is expected only with an LLM key."""
    return (WORKER, ASKER) if client.is_configured() else (WORKER,)


def describe_silence(seconds: float) -> str:
    """Return a description of how long a process has been silent."""
    return f"none seen for {format_span(seconds)}" if math.isfinite(seconds) else "none seen yet"


def missing_worker_message(tenant: Tenant, oldest_unjudged_at: datetime | None) -> str:
    """Return a message if handoffs of the tenant wait and no worker was seen lately, else an empty text.

    `oldest_unjudged_at` is the time of receipt of the tenant's oldest handoff that waits for a worker or for the LLM.
    If this handoff has waited for `NOBODY_AFTER`, the function also calls `evaluate_without_workers`.
    """
    before = timezone.now() - NOBODY_AFTER
    if oldest_unjudged_at is None or oldest_unjudged_at > before:
        return ""
    evaluate_without_workers()
    waits_since = stats.find_oldest_for_worker(tenant.pk) if (silent := silent_workers()) else None
    if WORKER not in silent or waits_since is None or waits_since > before:
        return ""
    if math.isinf(silent[WORKER]):
        return describe_silence(silent[WORKER])
    # The message names a point in time, because a duration would become wrong while the page stays open.
    return f"none seen since {timezone.now() - timedelta(seconds=silent[WORKER]):%Y-%m-%d %H:%M} UTC"


def evaluate_without_workers() -> None:
    """If no worker runs, evaluate the alert rules, and deliver webhooks for the alerts that they open.

    Processes that answer requests call this function. If at least one of the expected processes runs, the function
    makes a single query, and stops the delivery of webhooks in this process. An unreachable database is logged and
    raises no error.
    """
    try:
        if len(silent_workers()) < len(expected_workers()):
            delivery.stop_senders()
        elif alert_rules.anything_due() and alert_rules.evaluate_all() and has_active():
            delivery.wake_senders()
    except DatabaseError as error:
        log.warning("alert rules wait: the database can't be reached", error=str(error))


COUNTED_AT_MOST = 10_000

NO_WORKER = (
    'LLM checks wait, but no worker takes them: start a worker for the queue "semantic", as handoffaudit up does if an'
    " LLM key is set."
)


class BreakerState(StrEnum):
    """The states of a circuit breaker. While `probing`, one call tests whether the LLM answers again."""

    CLOSED = "closed"
    OPEN = "open"
    PROBING = "probing"


@dataclass(frozen=True, slots=True)
class BreakerStatus:
    """The circuit breaker of an LLM, which all tenants share. `message` says why and until when no call is made."""

    model: str
    state: BreakerState
    failures: int
    reason: str
    open_until: datetime | None
    message: str


@dataclass(frozen=True, slots=True)
class Waiting:
    """The handoffs that wait for the LLM; numbers stop at `COUNTED_AT_MOST`.

    `unverified` counts handoffs that were accepted or approved without the LLM check and are not checked yet. `flagged`
    counts accepted or approved handoffs that the LLM would have rejected. Both count handoffs since a start time.
    """

    first_checks: int
    rechecks: int
    oldest_since: datetime | None
    unverified: int
    flagged: int


@dataclass(frozen=True, slots=True)
class Budget:
    """Today's budget (UTC) in USD. `spent_usd` includes the reservations of running calls."""

    spent_usd: float
    daily_usd: float

    @property
    def share(self) -> float:
        return self.spent_usd / self.daily_usd if self.daily_usd else 1.0


class Standing(StrEnum):
    NO_KEY = "no_key"
    DOWN = "down"
    NO_BUDGET = "no_budget"
    NO_WORKER = "no_worker"
    FAILING = "failing"
    WELL = "well"


@dataclass(frozen=True, slots=True)
class Status:
    """The status of the LLM in one word (`standing`) and in one sentence (`message`)."""

    standing: Standing
    message: str


def load_status(tenant: Tenant) -> Status:
    if not client.is_configured():
        return Status(
            Standing.NO_KEY,
            "No LLM key is configured: strict handoffs are accepted unverified, or held if their type fails closed.",
        )
    down = [breaker for breaker in list_breakers() if breaker.state is not BreakerState.CLOSED]
    if down:
        return Status(Standing.DOWN, down[0].message)
    if out_of_budget := _describe_spent_budget(tenant):
        return Status(Standing.NO_BUDGET, out_of_budget)
    if _is_unserved():
        return Status(Standing.NO_WORKER, NO_WORKER)
    if failed := _find_last_failure(tenant):
        return Status(
            Standing.FAILING, f"The last call failed ({failed.replace('_', ' ')}), but the LLM is still asked."
        )
    return Status(Standing.WELL, "The LLM is asked.")


def _find_last_failure(tenant: Tenant) -> str:
    """Return the reason why the last recent call failed, or an empty text.

    The breaker opens only after several failures, so it does not show a single failure.
    """
    newest = alerts.find_newest_call(tenant.pk)
    recent = newest is not None and newest.at > timezone.now() - alerts.RECENT
    return newest.outcome if newest and recent and newest.outcome != OK else ""


def _describe_spent_budget(tenant: Tenant) -> str:
    """Return a message if the budget has no room for another call, or an empty text.

    The highest possible cost of a call is reserved before the call, so a small rest of a spent budget nearly always
    remains. The outcome of today's last question therefore shows whether the budget is spent.
    """
    limit = settings.MODEL_DAILY_USD
    if limit <= 0:
        return "HANDOFFAUDIT_MODEL_DAILY_USD is 0: nothing may be spent on the LLM."
    if load_budget(tenant).spent_usd >= limit:
        return f"Today's budget of {limit:g} USD is spent. The budget begins anew at 00:00 UTC."
    midnight = timezone.now().replace(hour=0, minute=0, second=0, microsecond=0)
    calls = ModelCall.objects.filter(tenant=tenant, at__gte=midnight, cached=False)
    last = calls.order_by("-at").values_list("outcome", flat=True).first()
    if last != Reason.BUDGET.value:
        return ""
    return (
        f"The rest of today's budget of {limit:g} USD was too small for the last question. The budget begins anew at "
        "00:00 UTC."
    )


def _is_unserved() -> bool:
    """Return whether checks have waited for so long that no worker can be running, and no check is being made."""
    now = timezone.now()
    left = ModelCheck.objects.filter(claim=None, claim_expires_at=None, since__lt=now - NOBODY_AFTER)
    return left.exists() and not ModelCheck.objects.filter(claim_expires_at__gt=now).exists()


def list_breakers() -> list[BreakerStatus]:
    """Return the circuit breakers of the configured LLMs, each once."""
    return [_load_breaker(model) for model in dict.fromkeys((settings.MODEL_FAST, settings.MODEL_CAREFUL))]


def _load_breaker(model: str) -> BreakerStatus:
    breaker, now = limits.load_breaker(model), timezone.now()
    state, description = BreakerState.CLOSED, ""
    if breaker.open_until:
        state = BreakerState.OPEN if breaker.open_until > now else BreakerState.PROBING
        description = limits.describe_breaker(breaker, now)
    return BreakerStatus(model, state, breaker.failures, breaker.reason, breaker.open_until, description)


def load_budget(tenant: Tenant) -> Budget:
    return Budget(limits.sum_spent_today(tenant.pk), settings.MODEL_DAILY_USD)


def count_waiting(tenant: Tenant, since: datetime) -> Waiting:
    checks = ModelCheck.objects.filter(tenant=tenant)
    return Waiting(
        first_checks=count_first_checks(tenant),
        rechecks=checks.filter(kind=CheckKind.RECHECK)[:COUNTED_AT_MOST].count(),
        oldest_since=checks.order_by("handoff_id").values_list("since", flat=True).first(),
        unverified=count_unverified(tenant, since),
        flagged=_filter_passed(tenant, since).filter(flagged=True)[:COUNTED_AT_MOST].count(),
    )


def count_first_checks(tenant: Tenant) -> int:
    """Return the number for `Waiting.first_checks`."""
    return ModelCheck.objects.filter(tenant=tenant, kind=CheckKind.FIRST)[:COUNTED_AT_MOST].count()


def count_unverified(tenant: Tenant, since: datetime) -> int:
    """Return the number for `Waiting.unverified`."""
    return _filter_passed(tenant, since).filter(unverified=True)[:COUNTED_AT_MOST].count()


def _filter_passed(tenant: Tenant, since: datetime) -> "QuerySet[Handoff]":
    is_passed = is_in_states([State.ACCEPTED, State.APPROVED])
    return queries.of_tenant(tenant).filter(is_passed, id__gte=first_id_at(since))
