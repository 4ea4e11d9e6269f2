"""What a trial found, in words."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from handoffaudit.dashboard.policies.strictness.words import type_name
from handoffaudit.dashboard.readable import cut
from handoffaudit.handoffs.models import Trial
from handoffaudit.validation.issues import Issue
from handoffaudit.validation.text import counted
from handoffaudit.validation.verdict import Outcome, Verdict

MOST_TYPES = 8
MOST_CODES = 8
LONGEST_TYPE = 60
LONGEST_ID = 80
MOST_ISSUES = 100
# A verdict that gets worse is looked at first.
_ORDER = [Outcome.REJECTED.value, Outcome.HELD.value, Outcome.ACCEPTED.value]


@dataclass(frozen=True, slots=True)
class Flip:
    """So many handoffs that are judged `before` now, and would be judged `after`; `share` of all judged."""

    before: str
    after: str
    number: int
    share: float

    @property
    def name(self) -> str:
        """As it stands in an address."""
        return f"{self.before}-{self.after}"


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


def changed(trial: Trial, flip: str = "", code: str = "") -> list[Changed]:
    """Those that are listed, narrowed to a flip (`accepted-rejected`) and to a code that decides."""
    return [
        Changed(row["handoff"], cut(row["handoff_id"], LONGEST_ID), row["before"], row["after"], row["codes"])
        for row in trial.changed
        if flip in ("", f"{row['before']}-{row['after']}") and (not code or code in row["codes"])
    ]


def codes(rows: Sequence[Changed]) -> list[tuple[str, int]]:
    """The codes that decide most of them, and how many."""
    return Counter(code for row in rows for code in set(row.codes)).most_common(MOST_CODES)


@dataclass(frozen=True, slots=True)
class Tried:
    """A trial in a list: what came of it in a few words."""

    trial: Trial
    said: str


def tried(rows: Iterable[Trial]) -> list[Tried]:
    return [Tried(trial, _said(trial)) for trial in rows]


def _said(trial: Trial) -> str:
    number = sum(trial.flips.values())
    found = f"{counted(number, 'verdict')} of {trial.judged:,} would be otherwise"
    if not trial.finished_at:
        return f"judging, {trial.judged:,} of {trial.total:,}; so far {found}"
    return f"stopped; {found}" if trial.error else found


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


class Change(StrEnum):
    """How an issue of one verdict stands to the other."""

    NEW = "new"
    GONE = "gone"
    SAME = "same"


@dataclass(frozen=True, slots=True)
class Told:
    """An issue of a verdict now, with the draft, or of both."""

    issue: Issue
    change: Change


def told(now: Verdict, then: Verdict) -> list[Told]:
    """The issues of both verdicts, what is new first, then what is gone; the first so many of them."""
    before, after = ({_key(issue): issue for issue in verdict.issues} for verdict in (now, then))
    new = [Told(issue, Change.NEW) for key, issue in after.items() if key not in before]
    gone = [Told(issue, Change.GONE) for key, issue in before.items() if key not in after]
    same = [Told(issue, Change.SAME) for key, issue in after.items() if key in before]
    return [*new, *gone, *same][:MOST_ISSUES]


def _key(issue: Issue) -> tuple[str, str, str]:
    return issue.code, issue.field_path, issue.severity.value
