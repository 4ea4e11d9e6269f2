"""Labels of dry runs: changed verdicts, rule codes, handoff types and compared findings."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from handoffaudit.dashboard.policies.strictness_editor import type_name
from handoffaudit.dashboard.safe_text import cut
from handoffaudit.dashboard.templatetags.ui import code_title
from handoffaudit.handoffs.models import Trial
from handoffaudit.validation.issues import Issue, Severity
from handoffaudit.validation.text import pluralize
from handoffaudit.validation.verdict import Outcome, Verdict

MOST_TYPES = 8

MOST_CODES = 8

CODES_OF_ONE = 2

LONGEST_TYPE = 60

LONGEST_ID = 80

MOST_ISSUES = 100

# The list shows verdicts that get worse first.
_ORDER = [Outcome.REJECTED.value, Outcome.HELD.value, Outcome.ACCEPTED.value]


@dataclass(frozen=True, slots=True)
class Flip:
    """The handoffs whose verdict changes from `before` to `after`, as `number` and as `share` of all judged."""

    before: str
    after: str
    number: int
    share: float

    @property
    def name(self) -> str:
        """Return the name of this change of verdict in addresses."""
        return f"{self.before}-{self.after}"


@dataclass(frozen=True, slots=True)
class ChangedHandoff:
    """A handoff whose verdict changes.

    `codes` holds the first rule codes that decide, each with its severity in this verdict (empty: the rule
    code's own severity). `deciding` is the number of all deciding rule codes.
    """

    pk: str
    handoff_id: str
    before: str
    after: str
    codes: list[tuple[str, str]]
    deciding: int

    @property
    def shown(self) -> list[tuple[str, str]]:
        return self.codes[:CODES_OF_ONE]

    @property
    def more(self) -> int:
        return self.deciding - len(self.shown)

    @property
    def more_named(self) -> str:
        unnamed = self.deciding - len(self.codes)
        named = ", ".join(code_title(code) for code, _ in self.codes[CODES_OF_ONE:])
        return named + (f" and {unnamed} more" if unnamed else "")


def flips(trial: Trial) -> list[Flip]:
    found = []
    for key, number in trial.flips.items():
        before, _, after = key.partition(">")
        found.append(Flip(before, after, number, number / max(1, trial.judged)))
    return sorted(found, key=lambda flip: (_ORDER.index(flip.after), _ORDER.index(flip.before)))


def changed_handoffs(trial: Trial, flip: str = "", code: str = "") -> list[ChangedHandoff]:
    """Return the changed handoffs, filtered by a change of verdict (`accepted-rejected`) and a rule code."""
    return [
        ChangedHandoff(
            row["handoff"],
            cut(row["handoff_id"], LONGEST_ID),
            row["before"],
            row["after"],
            _codes_with_severity(row),
            row.get("deciding", len(row["codes"])),
        )
        for row in trial.changed
        if flip in ("", f"{row['before']}-{row['after']}") and (not code or code in row["codes"])
    ]


def _codes_with_severity(row: Mapping[str, Any]) -> list[tuple[str, str]]:
    # Dry runs of older versions did not store the severities.
    return list(zip(row["codes"], row.get("levels") or [""] * len(row["codes"]), strict=True))


def codes(rows: Sequence[ChangedHandoff]) -> list[tuple[str, str, int]]:
    """Return the most frequent deciding rule codes, each with its highest severity and its number of handoffs."""
    levels: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        for code, level in dict.fromkeys(row.codes):
            levels[code].append(level)
    most = sorted(levels, key=lambda code: -len(levels[code]))[:MOST_CODES]
    return [(code, max(levels[code], key=["", *Severity].index), len(levels[code])) for code in most]


@dataclass(frozen=True, slots=True)
class DryRunLine:
    """A dry run in a list, with its result in a few words."""

    trial: Trial
    said: str


def describe_runs(rows: Iterable[Trial]) -> list[DryRunLine]:
    return [DryRunLine(trial, _describe(trial)) for trial in rows]


def _describe(trial: Trial) -> str:
    number = sum(trial.flips.values())
    found = f"{pluralize(number, 'verdict')} of {trial.judged:,} would be otherwise"
    if not trial.finished_at:
        return f"judging, {trial.judged:,} of {trial.total:,}; so far {found}"
    return f"stopped; {found}" if trial.error else found


def types(names: Sequence[str]) -> str:
    """Describe the handoff types that a dry run covers; all types where `names` is empty."""
    if not names:
        return "of all types"
    return f"of {join_types(names)}"


def join_types(names: Sequence[str]) -> str:
    """Join the first names, and say how many more there are."""
    shown = [cut(type_name(name), LONGEST_TYPE) for name in names[:MOST_TYPES]]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more} more types" if more else "")


def scope(trial: Trial) -> str:
    """Describe the handoffs that the dry run covers."""
    kind = types(trial.handoff_types)
    if trial.since:
        return f"the handoffs {kind} received since {trial.since:%Y-%m-%d %H:%M} UTC, at most {trial.most:,}"
    return f"the last {trial.most:,} handoffs {kind}"


class Change(StrEnum):
    """How a finding differs between two verdicts."""

    NEW = "new"
    GONE = "gone"
    SEVERITY = "severity"
    SAME = "same"


@dataclass(frozen=True, slots=True)
class ComparedFinding:
    """A finding of the current verdict, of the draft's verdict, or of both.

    `before` is the finding's current severity where only the severity changes.
    """

    issue: Issue
    change: Change
    before: str = ""


def compare_verdicts(now: Verdict, then: Verdict) -> list[ComparedFinding]:
    """Return the findings of both verdicts: new findings first, then removed findings, then changed severities.

    At most `MOST_ISSUES` findings are returned.
    """
    before, after = ({(issue.code, issue.field_path): issue for issue in verdict.issues} for verdict in (now, then))
    new = [ComparedFinding(issue, Change.NEW) for key, issue in after.items() if key not in before]
    gone = [ComparedFinding(issue, Change.GONE) for key, issue in before.items() if key not in after]
    both = [_of_both(before[key], issue) for key, issue in after.items() if key in before]
    return sorted([*new, *gone, *both], key=lambda one: list(Change).index(one.change))[:MOST_ISSUES]


def _of_both(now: Issue, then: Issue) -> ComparedFinding:
    if now.severity is then.severity:
        return ComparedFinding(then, Change.SAME)
    return ComparedFinding(then, Change.SEVERITY, now.severity.value)
