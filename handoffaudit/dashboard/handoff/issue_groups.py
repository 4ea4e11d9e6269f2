"""The issues of a handoff as its page lists them: what decides first, then what should be better."""

from collections.abc import Sequence
from dataclasses import dataclass

from handoffaudit.dashboard.handoff.places import Found
from handoffaudit.diagnostics.groups.membership import group_among, groups_by_key
from handoffaudit.diagnostics.models import FindingGroup
from handoffaudit.handoffs.models import Handoff


@dataclass(frozen=True, slots=True)
class Listed:
    """An issue, and the group of findings like it that the handoff is in; None where it is in none yet."""

    issue: Found
    alike: FindingGroup | None


@dataclass(frozen=True, slots=True)
class IssueGroup:
    """Issues of like weight. `number` counts all of the verdict's, also those on other pages of the list."""

    name: str
    title: str
    number: int
    issues: Sequence[Listed]


TITLES = {"decides": "What decides", "warning": "Warnings", "info": "Notes"}


def grouped(handoff: Handoff, shown: Sequence[Found], every: Sequence[Found]) -> list[IssueGroup]:
    """Those that are shown, of every issue that there is."""
    alike = groups_by_key(handoff) if shown else {}
    listed = [Listed(issue, group_among(alike, handoff, issue.code, issue.place)) for issue in shown]
    return [
        IssueGroup(name, title, sum(_group(issue) == name for issue in every), issues)
        for name, title in TITLES.items()
        if (issues := [one for one in listed if _group(one.issue) == name])
    ]


def _group(issue: Found) -> str:
    return "decides" if issue.decides else "info" if issue.severity == "info" else "warning"
