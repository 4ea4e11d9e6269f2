"""What a trial found, in words."""

from collections.abc import Sequence
from dataclasses import dataclass

from handoffaudit.dashboard.readable import cut
from handoffaudit.dashboard.strictness_words import type_name
from handoffaudit.handoffs.models import Trial
from handoffaudit.validation.verdict import Outcome

MOST_TYPES = 8
LONGEST_TYPE = 60
LONGEST_ID = 80
# A verdict that gets worse is looked at first.
_ORDER = [Outcome.REJECTED.value, Outcome.HELD.value, Outcome.ACCEPTED.value]


@dataclass(frozen=True, slots=True)
class Flip:
    """So many handoffs that are judged `before` now, and would be judged `after`; `share` of all judged."""

    before: str
    after: str
    number: int
    share: float


@dataclass(frozen=True, slots=True)
class Changed:
    """One handoff that would be judged otherwise, and the codes that decide it."""

    pk: str
    handoff_id: str
    before: str
    after: str
    codes: list[str]


def flips(trial: Trial) -> list[Flip]:
    found = []
    for key, number in trial.flips.items():
        before, _, after = key.partition(">")
        found.append(Flip(before, after, number, number / max(1, trial.judged)))
    return sorted(found, key=lambda flip: (_ORDER.index(flip.after), _ORDER.index(flip.before)))


def changed(trial: Trial) -> list[Changed]:
    return [
        Changed(row["handoff"], cut(row["handoff_id"], LONGEST_ID), row["before"], row["after"], row["codes"])
        for row in trial.changed
    ]


def types(names: Sequence[str]) -> str:
    """The handoff types that a trial is about; all where none is named."""
    if not names:
        return "of all types"
    return f"of {listed(names)}"


def listed(names: Sequence[str]) -> str:
    """The first few of them."""
    told = [cut(type_name(name), LONGEST_TYPE) for name in names[:MOST_TYPES]]
    more = len(names) - len(told)
    return ", ".join(told) + (f" and {more} more types" if more else "")


def scope(trial: Trial) -> str:
    """On which handoffs it is tried."""
    kind = types(trial.handoff_types)
    if trial.since:
        return f"the handoffs {kind} received since {trial.since:%Y-%m-%d %H:%M} UTC, at most {trial.most:,}"
    return f"the last {trial.most:,} handoffs {kind}"
