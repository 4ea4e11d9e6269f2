"""Why handoff files were not used: by agent and phase, over time, against the time before."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from handoffaudit.accounts.models import Tenant
from handoffaudit.diagnostics import file_counts
from handoffaudit.diagnostics.file_counts import Pair, Stretch
from handoffaudit.diagnostics.tallies import Change, FileTally
from handoffaudit.diagnostics.windows import Window

MOST_AGENTS = 50
MOST_PHASES = 20
NOTHING = FileTally()


@dataclass(frozen=True, slots=True)
class Row:
    """An agent: a tally for each phase of the matrix (None: it did not run there), and all of them together."""

    agent: str
    cells: Sequence[FileTally | None]
    tally: FileTally
    change: Change


@dataclass(frozen=True, slots=True)
class Matrix:
    """Agents by phases, the worst first. `others` sums what is beyond its bounds."""

    phases: Sequence[str]
    rows: Sequence[Row]
    others: FileTally


@dataclass(frozen=True, slots=True)
class ReasonChange:
    """One reason: its share now and before, in which less is better."""

    reason: str
    change: Change
    agents: Sequence[tuple[str, int]]


@dataclass(frozen=True, slots=True)
class Reasons:
    window: Window
    overall: FileTally
    change: Change
    matrix: Matrix
    reasons: Sequence[ReasonChange]
    over_time: Sequence[Stretch]

    @property
    def worst(self) -> Row | None:
        """The agent whose files are most surely not used."""
        first = self.matrix.rows[0] if self.matrix.rows else None
        return first if first and first.tally.unused else None


def reasons(tenant: Tenant, window: Window) -> Reasons:
    overall = file_counts.overall(tenant, window.since, window.until)
    before = file_counts.overall(tenant, window.before_since, window.before_until)
    pairs = file_counts.pairs(tenant, window.since, window.until)
    pairs_before = file_counts.pairs(tenant, window.before_since, window.before_until)
    return Reasons(
        window=window,
        overall=overall,
        change=Change(overall.share, before.share),
        matrix=matrix(pairs, overall, pairs_before),
        reasons=_by_reason(overall, before, pairs),
        over_time=file_counts.over_time(tenant, window),
    )


def matrix(pairs: Iterable[Pair], overall: FileTally, before: Iterable[Pair] = ()) -> Matrix:
    """`overall` is of all files, also of those whose pairs are too many to be told apart."""
    cells = {(pair.agent, pair.phase): pair.tally for pair in pairs}
    by_agent: dict[str, FileTally] = {}
    by_phase: dict[str, FileTally] = {}
    for (agent, phase), tally in cells.items():
        by_agent[agent] = by_agent.get(agent, NOTHING) + tally
        by_phase[phase] = by_phase.get(phase, NOTHING) + tally
    earlier: dict[str, FileTally] = {}
    for pair in before:
        earlier[pair.agent] = earlier.get(pair.agent, NOTHING) + pair.tally
    phases = _worst_first(by_phase)[:MOST_PHASES]
    rows = [
        Row(
            agent,
            [cells.get((agent, phase)) for phase in phases],
            by_agent[agent],
            Change(by_agent[agent].share, earlier.get(agent, NOTHING).share),
        )
        for agent in _worst_first(by_agent)[:MOST_AGENTS]
    ]
    shown = sum((tally for row in rows for tally in row.cells if tally), NOTHING)
    return Matrix(phases, rows, overall.rest(shown))


def _worst_first(tallies: dict[str, FileTally]) -> list[str]:
    return sorted(tallies, key=lambda name: (-tallies[name].unused_share.at_least, -tallies[name].total, name))


def _by_reason(overall: FileTally, before: FileTally, pairs: Iterable[Pair]) -> list[ReasonChange]:
    """Those that any file has now or had before, the most frequent first, each with the agents that have most."""
    agents: dict[str, dict[str, int]] = {reason: {} for reason in overall.reasons}
    for pair in pairs:
        for reason, number in pair.tally.reasons.items():
            if number:
                agents[reason][pair.agent] = agents[reason].get(pair.agent, 0) + number
    found = [
        ReasonChange(
            reason,
            Change(overall.reason_share(reason), before.reason_share(reason)),
            sorted(agents[reason].items(), key=lambda item: (-item[1], item[0]))[:3],
        )
        for reason in overall.reasons
        if overall.reasons[reason] or before.reasons[reason]
    ]
    return sorted(found, key=lambda one: -one.change.now.part)
