"""The compliance report: what it says, and how it is read out of the kept counts."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from django.db.models import F, Sum

from handoffaudit.accounts.models import Tenant
from handoffaudit.diagnostics import file_stats
from handoffaudit.diagnostics.file_stats import Pair, Runtime
from handoffaudit.diagnostics.file_tally import FileTally
from handoffaudit.diagnostics.periods import Window
from handoffaudit.handoffs.db import TimeStep
from handoffaudit.handoffs.filters import FilterError
from handoffaudit.handoffs.models import HourlyTotal
from handoffaudit.handoffs.outcome_sums import sum_outcomes
from handoffaudit.handoffs.rates import OutcomeCounts, outcome_counts_of


@dataclass(frozen=True, slots=True)
class FileCompliance:
    """Handoff files that were used. `others` sums the pairs that are too many to be listed."""

    overall: FileTally
    runtimes: Sequence[Runtime]
    pairs: Sequence[Pair]
    others: FileTally


@dataclass(frozen=True, slots=True)
class OutcomeLine:
    """What became of handoffs of one `names`: a type, an agent, a pair of agents (source first) or a code."""

    names: tuple[str, ...]
    judged: OutcomeCounts


@dataclass(frozen=True, slots=True)
class OutcomeLines:
    """Those with the most handoffs; `others` sums the rest."""

    lines: Sequence[OutcomeLine]
    others: OutcomeCounts = field(default_factory=OutcomeCounts)


@dataclass(frozen=True, slots=True)
class TimeBucket:
    since: datetime
    until: datetime
    judged: OutcomeCounts


@dataclass(frozen=True, slots=True)
class HandoffAcceptance:
    """Handoffs that were accepted without a person."""

    overall: OutcomeCounts
    before: OutcomeCounts
    by: dict[str, OutcomeLines]
    over_time: Sequence[TimeBucket]


# The order of the report's parts, and how they are told.
KINDS = {
    "type": "type",
    "source": "source agent",
    "target": "target agent",
    "source_target": "source and target",
    "code": "code",
}


@dataclass(frozen=True, slots=True)
class ComplianceReport:
    tenant: str
    window: Window
    made_at: datetime
    files: FileCompliance
    validation: HandoffAcceptance


def list_all_pairs(ran: Iterable[Pair], known: Iterable[tuple[str, str]]) -> list[Pair]:
    """By phase and agent; known pairs that did not run have nothing in their tally."""
    found = {(pair.phase, pair.agent): pair for pair in ran}
    for phase, agent in known:
        found.setdefault((phase, agent), Pair(phase, agent, FileTally()))
    return [found[key] for key in sorted(found)]


def largest_lines(
    judged: Iterable[tuple[tuple[str, ...], OutcomeCounts]], whole: OutcomeCounts, number: int
) -> OutcomeLines:
    """The `number` names with the most handoffs; what is missing to `whole` is `others`."""
    ordered = sorted(judged, key=lambda one: (-one[1].total, one[0]))[:number]
    return OutcomeLines([OutcomeLine(*one) for one in ordered], whole.rest(OutcomeCounts.of(one for _, one in ordered)))


# Combinations of source and target that are read; what is left of the whole is summed.
MOST_COMBINATIONS = 20_000

MOST_LINES = 200

MOST_EXPECTED = 200


def build_report(
    tenant: Tenant, window: Window, now: datetime, expected: Iterable[tuple[str, str]] = ()
) -> ComplianceReport:
    """`expected`: pairs of (phase, agent) that are listed though they may never have run."""
    return ComplianceReport(
        tenant=tenant.slug,
        window=window,
        made_at=now.astimezone(UTC),
        files=_files(tenant, window, expected),
        validation=_validation(tenant, window),
    )


def parse_expected_pairs(values: Iterable[str]) -> list[tuple[str, str]]:
    """From `phase/agent` each. Raises BadFilter."""
    pairs = []
    for value in values:
        phase, slash, agent = value.partition("/")
        if not slash or not phase.strip() or not agent.strip() or len(value) > 400 or "\x00" in value:
            raise FilterError("expect", value[:40], "give a phase and an agent with a slash between (plan/planner).")
        pairs.append((phase.strip(), agent.strip()))
    if len(pairs) > MOST_EXPECTED:
        raise FilterError("expect", f"{len(pairs)} pairs", f"give at most {MOST_EXPECTED}.")
    return pairs


def count_judged(tenant: Tenant, since: datetime, until: datetime) -> OutcomeCounts:
    """All handoffs received in that time."""
    rows = HourlyTotal.objects.filter(tenant=tenant, hour__gte=since, hour__lt=until, code="").order_by()
    return _sum_judged(rows.values_list("code", "state").annotate(Sum("number"))).get("", OutcomeCounts())


def _files(tenant: Tenant, window: Window, expected: Iterable[tuple[str, str]]) -> FileCompliance:
    ran = file_stats.pairs(tenant, window.since, window.until)
    listed = sum((pair.tally for pair in ran), FileTally())
    # Where all pairs are listed, they are the whole.
    is_all = len(ran) < file_stats.MOST_PAIRS
    overall = listed if is_all else file_stats.overall(tenant, window.since, window.until)
    return FileCompliance(
        overall=overall,
        runtimes=file_stats.runtimes(tenant, window.since, window.until),
        pairs=list_all_pairs(ran, [*file_stats.known_pairs(tenant), *expected]),
        others=overall.rest(listed),
    )


def _validation(tenant: Tenant, window: Window) -> HandoffAcceptance:
    over_time = _over_time(tenant, window)
    overall = OutcomeCounts.of(one.judged for one in over_time)
    return HandoffAcceptance(
        overall=overall,
        before=count_judged(tenant, window.before_since, window.before_until),
        by={**_by_names(tenant, window, overall), "code": _by_code(tenant, window)},
        over_time=over_time,
    )


def _by_names(tenant: Tenant, window: Window, overall: OutcomeCounts) -> dict[str, OutcomeLines]:
    """By type, source, target and pair: the last three in one pass."""
    since, until = window.since, window.until
    types = sum_outcomes(tenant, since, until, "handoff_type", most=MOST_COMBINATIONS)
    sums = sum_outcomes(tenant, since, until, "source_agent_id", "target_agent_id", most=MOST_COMBINATIONS)
    pairs = {names: outcome_counts_of(one) for names, one in sums.items()}
    sources: defaultdict[tuple[str, ...], list[OutcomeCounts]] = defaultdict(list)
    targets: defaultdict[tuple[str, ...], list[OutcomeCounts]] = defaultdict(list)
    for (source, target), judged in pairs.items():
        sources[source,].append(judged)
        targets[target,].append(judged)
    found: dict[str, dict[tuple[str, ...], OutcomeCounts]] = {
        "type": {names: outcome_counts_of(one) for names, one in types.items()},
        "source": {names: OutcomeCounts.of(several) for names, several in sources.items()},
        "target": {names: OutcomeCounts.of(several) for names, several in targets.items()},
        "source_target": pairs,
    }
    return {
        name: largest_lines(((names, judged) for names, judged in lines.items() if judged.total), overall, MOST_LINES)
        for name, lines in found.items()
    }


def _by_code(tenant: Tenant, window: Window) -> OutcomeLines:
    """A handoff with several codes stands under each: there is no rest to be summed."""
    rows = HourlyTotal.objects.filter(tenant=tenant, hour__gte=window.since, hour__lt=window.until).exclude(code="")
    grouped = rows.order_by().values_list("code", "state").annotate(Sum("number"))
    lines = [OutcomeLine((code,), judged) for code, judged in _sum_judged(grouped).items() if judged.total]
    return OutcomeLines(sorted(lines, key=lambda line: (-line.judged.total, line.names))[:MOST_LINES])


def _over_time(tenant: Tenant, window: Window) -> list[TimeBucket]:
    seconds = int(window.step.total_seconds())
    rows = HourlyTotal.objects.filter(tenant=tenant, hour__gte=window.since, hour__lt=window.until, code="")
    stepped = rows.order_by().annotate(step=TimeStep(F("hour"), seconds=seconds))
    found = _sum_judged(stepped.values_list("step", "state").annotate(Sum("number")))
    return [
        TimeBucket(since, until, found.get(int(since.timestamp()) // seconds, OutcomeCounts()))
        for since, until in window.stretches()
    ]


def _sum_judged(rows: Iterable[tuple[Any, ...]]) -> dict[Any, OutcomeCounts]:
    """By the key of (key, state, number): the database sums by states sooner than by what they come to."""
    found: defaultdict[Any, dict[str, int]] = defaultdict(dict)
    for key, state, number in rows:
        found[key][state] = number
    return {key: OutcomeCounts.of_states(states) for key, states in found.items()}
