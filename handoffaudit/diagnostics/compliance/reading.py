"""The compliance report out of the kept counts."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from django.db.models import F

from handoffaudit.accounts.models import Tenant
from handoffaudit.diagnostics import file_counts
from handoffaudit.diagnostics.compliance.report import (
    Compliance,
    Files,
    Line,
    Lines,
    Stretch,
    Validation,
    all_pairs,
    most,
)
from handoffaudit.diagnostics.judged_sums import JUDGED_STATES, judged_of, sums_of
from handoffaudit.diagnostics.tallies import FileTally, Judged
from handoffaudit.diagnostics.windows import Window
from handoffaudit.handoffs.filters import BadFilter
from handoffaudit.handoffs.models import HourlyTotal
from handoffaudit.handoffs.outcome_sums import sums_by
from handoffaudit.handoffs.time_steps import TimeStep

# Combinations of source and target that are read; what is left of the whole is summed.
MOST_COMBINATIONS = 20_000
MOST_LINES = 200
MOST_EXPECTED = 200
_JUDGED = sums_of(JUDGED_STATES)


def compliance(tenant: Tenant, window: Window, now: datetime, expected: Iterable[tuple[str, str]] = ()) -> Compliance:
    """`expected`: pairs of (phase, agent) that are listed though they may never have run."""
    return Compliance(
        tenant=tenant.slug,
        window=window,
        made_at=now.astimezone(UTC),
        files=_files(tenant, window, expected),
        validation=_validation(tenant, window),
    )


def expected_pairs(values: Iterable[str]) -> list[tuple[str, str]]:
    """From `phase/agent` each. Raises BadFilter."""
    pairs = []
    for value in values:
        phase, slash, agent = value.partition("/")
        if not slash or not phase.strip() or not agent.strip() or len(value) > 400 or "\x00" in value:
            raise BadFilter("expect", value[:40], "give a phase and an agent with a slash between (plan/planner).")
        pairs.append((phase.strip(), agent.strip()))
    if len(pairs) > MOST_EXPECTED:
        raise BadFilter("expect", f"{len(pairs)} pairs", f"give at most {MOST_EXPECTED}.")
    return pairs


def judged_in(tenant: Tenant, since: datetime, until: datetime) -> Judged:
    """All handoffs received in that time."""
    rows = HourlyTotal.objects.filter(tenant=tenant, hour__gte=since, hour__lt=until, code="")
    return Judged(**rows.aggregate(**_JUDGED))


def _files(tenant: Tenant, window: Window, expected: Iterable[tuple[str, str]]) -> Files:
    overall = file_counts.overall(tenant, window.since, window.until)
    ran = file_counts.pairs(tenant, window.since, window.until)
    return Files(
        overall=overall,
        runtimes=file_counts.runtimes(tenant, window.since, window.until),
        pairs=all_pairs(ran, [*file_counts.known_pairs(tenant), *expected]),
        others=overall.rest(sum((pair.tally for pair in ran), FileTally())),
    )


def _validation(tenant: Tenant, window: Window) -> Validation:
    overall = judged_in(tenant, window.since, window.until)
    return Validation(
        overall=overall,
        before=judged_in(tenant, window.before_since, window.before_until),
        by={**_by_names(tenant, window, overall), "code": _by_code(tenant, window)},
        over_time=_over_time(tenant, window),
    )


def _by_names(tenant: Tenant, window: Window, overall: Judged) -> dict[str, Lines]:
    """By type, source, target and pair: the last three in one pass."""
    since, until = window.since, window.until
    found: dict[str, dict[tuple[str, ...], Judged]] = {
        name: defaultdict(Judged) for name in ("type", "source", "target", "source_target")
    }
    for names, sums in sums_by(tenant, since, until, "handoff_type", most=MOST_COMBINATIONS).items():
        found["type"][names] += judged_of(sums)
    pairs = sums_by(tenant, since, until, "source_agent_id", "target_agent_id", most=MOST_COMBINATIONS)
    for (source, target), sums in pairs.items():
        judged = judged_of(sums)
        found["source"][source,] += judged
        found["target"][target,] += judged
        found["source_target"][source, target] += judged
    return {
        name: most((Line(names, judged) for names, judged in lines.items() if judged.total), overall, MOST_LINES)
        for name, lines in found.items()
    }


def _by_code(tenant: Tenant, window: Window) -> Lines:
    """A handoff with several codes stands under each: there is no rest to be summed."""
    rows = HourlyTotal.objects.filter(tenant=tenant, hour__gte=window.since, hour__lt=window.until).exclude(code="")
    grouped = rows.order_by().values("code").annotate(**_JUDGED)
    lines = [Line((row["code"],), _judged(row)) for row in grouped]
    ordered = sorted((line for line in lines if line.judged.total), key=lambda line: (-line.judged.total, line.names))
    return Lines(ordered[:MOST_LINES])


def _over_time(tenant: Tenant, window: Window) -> list[Stretch]:
    seconds = int(window.step.total_seconds())
    rows = HourlyTotal.objects.filter(tenant=tenant, hour__gte=window.since, hour__lt=window.until, code="")
    grouped = rows.order_by().annotate(step=TimeStep(F("hour"), seconds=seconds)).values("step").annotate(**_JUDGED)
    found = {row["step"]: _judged(row) for row in grouped}
    return [
        Stretch(since, until, found.get(int(since.timestamp()) // seconds, Judged()))
        for since, until in window.stretches()
    ]


def _judged(row: Mapping[str, Any]) -> Judged:
    return Judged(row["accepted"], row["decided"], row["stopped"])
