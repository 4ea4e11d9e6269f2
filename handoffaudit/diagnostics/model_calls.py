"""The calls to the model in a period, counted in one pass: by time, use, model and what came of them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db.models import Count, F, Max, Q, Sum

from handoffaudit.accounts.models import Tenant
from handoffaudit.diagnostics.cures import cure
from handoffaudit.handoffs.db import TimeStep
from handoffaudit.handoffs.llm.client import OK
from handoffaudit.handoffs.models import ModelCall

# Failures of this many kinds are told, the most frequent first; there are not many more.
MOST_KINDS = 20


@dataclass(frozen=True, slots=True)
class Tally:
    """What became of questions. `failed` ones were sent and not answered; `skipped` ones were not sent at all."""

    answered: int = 0
    failed: int = 0
    skipped: int = 0
    cached: int = 0
    cost_usd: float = 0.0
    tokens_in: int = 0
    tokens_out: int = 0
    tokens_cached: int = 0

    @property
    def calls(self) -> int:
        """Those that were sent."""
        return self.answered + self.failed

    @property
    def tokens_sent(self) -> int:
        """Those of the prompts, whether the service had them in its cache or not."""
        return self.tokens_in + self.tokens_cached

    @property
    def questions(self) -> int:
        return self.calls + self.skipped + self.cached

    @property
    def hit_share(self) -> float | None:
        """The share of the answers that had been given before; None where there was no answer."""
        answers = self.answered + self.cached
        return self.cached / answers if answers else None

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(*(getattr(self, name) + getattr(other, name) for name in Tally.__slots__))


@dataclass(frozen=True, slots=True)
class Failure:
    """Why questions were not answered: `reason` with the service's HTTP status where it gave one, what was said the
    last time, and what to do."""

    reason: str
    status: int | None
    number: int
    last_at: datetime
    detail: str
    cure: str


@dataclass(frozen=True, slots=True)
class Stretch:
    """A part of the period from `start` on."""

    start: datetime
    tally: Tally


@dataclass(frozen=True, slots=True)
class Counted:
    overall: Tally
    by_use: dict[str, Tally]
    by_model: dict[str, Tally]
    over_time: list[Stretch]
    failures: list[Failure]


@dataclass(slots=True)
class _Kind:
    number: int = 0
    last_at: datetime = field(default_factory=lambda: datetime.min.replace(tzinfo=UTC))


def counted(tenant: Tenant, since: datetime, until: datetime, step: timedelta) -> Counted:
    """All calls of the period; the stretches begin at whole steps, so that the first may begin before `since`."""
    seconds = int(step.total_seconds())
    overall = Tally()
    by_use: dict[str, Tally] = {}
    by_model: dict[str, Tally] = {}
    by_step: dict[int, Tally] = {}
    kinds: dict[tuple[str, int | None], _Kind] = {}
    for row in _groups(tenant, since, until, seconds):
        tally = _tally(row)
        overall += tally
        by_use[row["use"]] = by_use.get(row["use"], Tally()) + tally
        by_model[row["model"]] = by_model.get(row["model"], Tally()) + tally
        by_step[row["step"]] = by_step.get(row["step"], Tally()) + tally
        if row["outcome"] != OK:
            kind = kinds.setdefault((row["outcome"], row["http_status"]), _Kind())
            kind.number += row["number"]
            kind.last_at = max(kind.last_at, row["last_at"])
    return Counted(
        overall,
        dict(sorted(by_use.items())),
        dict(sorted(by_model.items())),
        _stretches(by_step, since, until, seconds),
        _failures(tenant, kinds),
    )


def _groups(tenant: Tenant, since: datetime, until: datetime, seconds: int) -> Iterable[Mapping[str, Any]]:
    rows = ModelCall.objects.filter(tenant=tenant, at__gte=since, at__lt=until)
    rows = rows.annotate(step=TimeStep(F("at"), seconds=seconds))
    grouped = rows.values("step", "use", "model", "outcome", "http_status", "cached")
    return grouped.annotate(
        number=Count("id"),
        sent=Count("id", filter=Q(tries__gt=0)),
        cost=Sum("cost_usd"),
        sum_in=Sum("tokens_in"),
        sum_out=Sum("tokens_out"),
        sum_cached=Sum("tokens_cached"),
        last_at=Max("at"),
    )


def _tally(row: Mapping[str, Any]) -> Tally:
    tally = Tally(
        cost_usd=row["cost"], tokens_in=row["sum_in"], tokens_out=row["sum_out"], tokens_cached=row["sum_cached"]
    )
    if row["cached"]:
        return replace(tally, cached=row["number"])
    if row["outcome"] == OK:
        return replace(tally, answered=row["number"])
    return replace(tally, failed=row["sent"], skipped=row["number"] - row["sent"])


def _stretches(by_step: dict[int, Tally], since: datetime, until: datetime, seconds: int) -> list[Stretch]:
    first, last = int(since.timestamp()) // seconds, int(until.timestamp()) // seconds
    return [
        Stretch(datetime.fromtimestamp(step * seconds, UTC), by_step.get(step, Tally()))
        for step in range(first, last + 1)
    ]


def _failures(tenant: Tenant, kinds: dict[tuple[str, int | None], _Kind]) -> list[Failure]:
    most = sorted(kinds.items(), key=lambda item: -item[1].number)[:MOST_KINDS]
    return [
        Failure(reason, status, kind.number, kind.last_at, _said(tenant, reason, kind.last_at), cure(reason, status))
        for (reason, status), kind in most
    ]


def _said(tenant: Tenant, reason: str, at: datetime) -> str:
    """What the last one of that kind told."""
    rows = ModelCall.objects.filter(tenant=tenant, at=at, outcome=reason)
    return rows.values_list("detail", flat=True).first() or ""
