"""A limit on how much is said about one document."""

from collections.abc import Iterable
from dataclasses import replace
from itertools import islice

from handoffaudit.validation.issues import Issue

MAX_ISSUES = 100


def bounded(issues: Iterable[Issue], limit: int = MAX_ISSUES) -> list[Issue]:
    """The first `limit` issues; where there are more, the last one kept says so."""
    kept = list(islice(issues, limit + 1))
    if len(kept) <= limit:
        return kept
    last = kept[limit - 1]
    message = f"{last.message} There is more of this: only the first {limit} issues are listed."
    return [*kept[: limit - 1], replace(last, message=message, metadata={**last.metadata, "more": True})]
