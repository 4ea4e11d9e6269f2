"""Limits for one handoff: how many issues are listed, and how many steps its rules and claims may take."""

from collections.abc import Iterable
from dataclasses import replace
from itertools import islice

from handoffaudit.validation.issues import Issue

MOST_STEPS = 300_000

"""The most steps that the rules, or the claim fields, of one handoff may take: a second at most.

An honest handoff takes some hundreds.
"""


class StepBudgetSpentError(Exception):
    """Raised where a step budget is used up."""


class StepBudget:
    """A budget of steps, shared by all work on one handoff."""

    __slots__ = ("left",)

    def __init__(self, most: int) -> None:
        self.left = most

    def spend(self, steps: int = 1) -> None:
        """Spend steps; raise StepBudgetSpentError once the budget is exceeded, and at every later call."""
        self.left -= steps
        if self.left < 0:
            raise StepBudgetSpentError


MAX_ISSUES = 100


def limit_issues(issues: Iterable[Issue], limit: int = MAX_ISSUES) -> list[Issue]:
    """Return the first `limit` issues; the last one says so where there are more."""
    kept = list(islice(issues, limit + 1))
    if len(kept) <= limit:
        return kept
    last = kept[limit - 1]
    message = f"{last.message} There is more of this: only the first {limit} issues are listed."
    return [*kept[: limit - 1], replace(last, message=message, metadata={**last.metadata, "more": True})]
