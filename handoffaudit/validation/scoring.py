"""The quality score."""

from collections.abc import Iterable

from handoffaudit.validation.issues import Issue, Severity

_COST = {Severity.CRITICAL: 0.30, Severity.ERROR: 0.15, Severity.WARNING: 0.05, Severity.INFO: 0.0}
_STRUCTURE = "structure"


def score(issues: Iterable[Issue]) -> float:
    """1.0 less the cost of each issue; a structure error leaves nothing."""
    total = 1.0
    for issue in issues:
        if issue.layer == _STRUCTURE and issue.severity in (Severity.ERROR, Severity.CRITICAL):
            return 0.0
        total -= _COST[issue.severity]
    return max(round(total, 2), 0.0)
