"""What a compliance report says. Nothing here asks the database."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from handoffaudit.diagnostics.file_counts import Pair, Runtime
from handoffaudit.diagnostics.tallies import FileTally
from handoffaudit.diagnostics.windows import Window
from handoffaudit.handoffs.rates import OutcomeCounts


@dataclass(frozen=True, slots=True)
class Files:
    """Handoff files that were used. `others` sums the pairs that are too many to be listed."""

    overall: FileTally
    runtimes: Sequence[Runtime]
    pairs: Sequence[Pair]
    others: FileTally


@dataclass(frozen=True, slots=True)
class Line:
    """What became of handoffs of one `names`: a type, an agent, a pair of agents (source first) or a code."""

    names: tuple[str, ...]
    judged: OutcomeCounts


@dataclass(frozen=True, slots=True)
class Lines:
    """Those with the most handoffs; `others` sums the rest."""

    lines: Sequence[Line]
    others: OutcomeCounts = field(default_factory=OutcomeCounts)


@dataclass(frozen=True, slots=True)
class Stretch:
    since: datetime
    until: datetime
    judged: OutcomeCounts


@dataclass(frozen=True, slots=True)
class Validation:
    """Handoffs that were accepted without a person."""

    overall: OutcomeCounts
    before: OutcomeCounts
    by: dict[str, Lines]
    over_time: Sequence[Stretch]


# The order of the report's parts, and how they are told.
KINDS = {
    "type": "type",
    "source": "source agent",
    "target": "target agent",
    "source_target": "source and target",
    "code": "code",
}


@dataclass(frozen=True, slots=True)
class Compliance:
    tenant: str
    window: Window
    made_at: datetime
    files: Files
    validation: Validation


def all_pairs(ran: Iterable[Pair], known: Iterable[tuple[str, str]]) -> list[Pair]:
    """By phase and agent; known pairs that did not run have nothing in their tally."""
    found = {(pair.phase, pair.agent): pair for pair in ran}
    for phase, agent in known:
        found.setdefault((phase, agent), Pair(phase, agent, FileTally()))
    return [found[key] for key in sorted(found)]


def most(judged: Iterable[tuple[tuple[str, ...], OutcomeCounts]], whole: OutcomeCounts, number: int) -> Lines:
    """The `number` names with the most handoffs; what is missing to `whole` is `others`."""
    ordered = sorted(judged, key=lambda one: (-one[1].total, one[0]))[:number]
    return Lines([Line(*one) for one in ordered], whole.rest(OutcomeCounts.of(one for _, one in ordered)))
