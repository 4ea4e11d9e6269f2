"""Reasons why handoff files were not used: by agent and phase, over time, compared with the previous period."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from handoffaudit.accounts.models import Tenant
from handoffaudit.diagnostics import file_stats
from handoffaudit.diagnostics.file_stats import FileTally, Pair
from handoffaudit.diagnostics.models import FileReport
from handoffaudit.handoffs.filters import first_id_at
from handoffaudit.handoffs.periods import TimeBucket, Window
from handoffaudit.handoffs.rates import ShareChange
from handoffaudit.validation.formats.file_report import Reason

MOST_AGENTS = 50

MOST_PHASES = 20

NOTHING = FileTally()


@dataclass(frozen=True, slots=True)
class Row:
    """An agent's tally in each phase (None if the agent has no file in the phase), its overall tally and its change."""

    agent: str
    cells: Sequence[FileTally | None]
    tally: FileTally
    change: ShareChange


@dataclass(frozen=True, slots=True)
class Matrix:
    """Tallies by agent and phase, the worst first. `others` sums the files of agents and phases that are not listed."""

    phases: Sequence[str]
    rows: Sequence[Row]
    others: FileTally


@dataclass(frozen=True, slots=True)
class ReasonChange:
    """The share of one reason in both periods, and the agents with the most files that were unused for this reason.

    A smaller share is better.
    """

    reason: str
    change: ShareChange
    agents: Sequence[tuple[str, int]]


@dataclass(frozen=True, slots=True)
class Reasons:
    window: Window
    overall: FileTally
    change: ShareChange
    matrix: Matrix
    reasons: Sequence[ReasonChange]
    over_time: Sequence[TimeBucket[FileTally]]

    @property
    def worst(self) -> Row | None:
        """Return the row of the agent with the worst share of unused files, or None if all files were used."""
        first = self.matrix.rows[0] if self.matrix.rows else None
        return first if first and first.tally.unused else None


def load_reasons(tenant: Tenant, window: Window) -> Reasons:
    pairs, overall = file_stats.pairs_and_overall(tenant, window.since, window.until)
    pairs_before, before = file_stats.pairs_and_overall(tenant, window.before_since, window.before_until)
    return Reasons(
        window=window,
        overall=overall,
        change=ShareChange(overall.share, before.share),
        matrix=matrix(pairs, overall, pairs_before),
        reasons=_group_by_reason(overall, before, pairs),
        over_time=file_stats.over_time(tenant, window),
    )


def matrix(pairs: Iterable[Pair], overall: FileTally, before: Iterable[Pair] = ()) -> Matrix:
    """Return the tallies by agent and phase.

    `pairs` may leave out some pairs of agent and phase, and `overall` covers the files of all pairs. `before` holds the
    pairs of the previous period.
    """
    cells = {(pair.agent, pair.phase): pair.tally for pair in pairs}
    by_agent = _sum_by((agent, tally) for (agent, _), tally in cells.items())
    by_phase = _sum_by((phase, tally) for (_, phase), tally in cells.items())
    earlier = _sum_by((pair.agent, pair.tally) for pair in before)
    phases = _sort_worst_first(by_phase)[:MOST_PHASES]
    rows = [
        Row(
            agent,
            [cells.get((agent, phase)) for phase in phases],
            by_agent[agent],
            ShareChange(by_agent[agent].share, earlier.get(agent, NOTHING).share),
        )
        for agent in _sort_worst_first(by_agent)[:MOST_AGENTS]
    ]
    shown = FileTally.of(tally for row in rows for tally in row.cells if tally)
    return Matrix(phases, rows, overall.rest(shown))


def _sum_by(tallies: Iterable[tuple[str, FileTally]]) -> dict[str, FileTally]:
    found: defaultdict[str, list[FileTally]] = defaultdict(list)
    for name, tally in tallies:
        found[name].append(tally)
    return {name: FileTally.of(several) for name, several in found.items()}


def _sort_worst_first(tallies: dict[str, FileTally]) -> list[str]:
    return sorted(tallies, key=lambda name: (-tallies[name].unused_share.at_least, -tallies[name].total, name))


def _group_by_reason(overall: FileTally, before: FileTally, pairs: Iterable[Pair]) -> list[ReasonChange]:
    """Return the reasons of both periods, each with the three agents that have the most files with this reason.

    The reason that is most frequent in the current period comes first.
    """
    agents: dict[str, dict[str, int]] = {reason: {} for reason in overall.reasons}
    for pair in pairs:
        for reason, number in pair.tally.reasons.items():
            if number:
                agents[reason][pair.agent] = agents[reason].get(pair.agent, 0) + number
    found = [
        ReasonChange(
            reason,
            ShareChange(overall.reason_shares[reason], before.reason_shares[reason]),
            sorted(agents[reason].items(), key=lambda item: (-item[1], item[0]))[:3],
        )
        for reason in overall.reasons
        if overall.reasons[reason] or before.reasons[reason]
    ]
    return sorted(found, key=lambda one: -one.change.now.part)


SHOWN = 3

# At most this many of the newest reports are searched for examples of different agents and phases.
_READ = 40


@dataclass(frozen=True, slots=True)
class UnusedFile:
    """An unused file and its problem.

    `message` describes the problem. `place` is a line and column, the path of a field, or empty. `place` is always
    empty for a missing file, and if the message already names the place.
    """

    report: FileReport
    message: str
    place: str


def newest_unused(tenant: Tenant, window: Window, reason: str) -> list[UnusedFile]:
    """Return the newest files that were not used for this reason, at most `SHOWN`, newest first.

    Each agent and phase has at most two of these files: the newest with a wrong path, and the newest without one.
    """
    rows = FileReport.objects.filter(tenant=tenant, reason=reason, id__gte=first_id_at(window.since))
    found: dict[tuple[str, str, bool], FileReport] = {}
    for report in rows.filter(id__lt=first_id_at(window.until)).order_by("-id")[:_READ]:
        found.setdefault((report.agent, report.phase, bool(report.wrong_path)), report)
    return [_make_unused_file(report) for report in list(found.values())[:SHOWN]]


def _make_unused_file(report: FileReport) -> UnusedFile:
    answer = orjson.loads(report.content)
    issues = answer.get("issues") or [{}]
    first: dict[str, Any] = issues[0]
    message = first.get("message") or ""
    place = _describe_place(first) if report.reason != Reason.FILE_MISSING else ""
    return UnusedFile(report, message, "" if place in message else place)


def _describe_place(issue: dict[str, Any]) -> str:
    if "line" in issue:
        return f"line {issue['line']}, column {issue['column']}" if "column" in issue else f"line {issue['line']}"
    return str(issue.get("path") or "")
