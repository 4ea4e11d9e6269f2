"""Active filters of a list, each with a link that removes it, and the search of rule codes by title."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from handoffaudit.accounts.models import Tenant
from handoffaudit.dashboard.templatetags.ui import code_title
from handoffaudit.handoffs import stats
from handoffaudit.handoffs.filters import Filters
from handoffaudit.validation.codes import CATALOGUE

FINDING = "Finding"

PERIODS = {"1h": "last hour", "24h": "last 24 hours", "7d": "last 7 days", "30d": "last 30 days"}

FLAG_NAMES = {
    "parked": "parked, not judged",
    "shadowed": "let pass in shadow mode",
    "unverified": "not checked by the model",
    "flagged": "would have been rejected by the model",
    "open": "open: end not reported",
    "warnings": "with warnings",
    "overdue": "held too long",
}

_TEXTS = {
    "handoff_type": "Type",
    "source": "Source",
    "target": "Target",
    "trace": "Trace",
    "group": FINDING,
    "decided_by": "Decided by",
}


@dataclass(frozen=True, slots=True)
class ActiveFilter:
    """An active filter; `without` is the query without the filter, and `href` the address of the list without it."""

    label: str
    value: str
    without: str
    href: str = ""


def _without(filters: Filters, name: str, nothing: Any) -> str:
    return replace(filters, **{name: nothing}).to_query()


def active_filters(filters: Filters) -> Iterable[ActiveFilter]:
    """Yield the active filters of the handoff list; a finding group appears with its number, not its name.

    The name of a finding group is only in the database.
    """
    for state in filters.state:
        others = tuple(other for other in filters.state if other != state)
        yield ActiveFilter("State", state, replace(filters, state=others).to_query())
    for name, label in _TEXTS.items():
        if value := getattr(filters, name):
            yield ActiveFilter(label, value, _without(filters, name, ""))
    if filters.code:
        yield ActiveFilter("Reason", code_title(filters.code), replace(filters, code="").to_query())
    if filters.since:
        shown = PERIODS.get(filters.period) or filters.period or f"{filters.since:%Y-%m-%d %H:%M}"
        yield ActiveFilter("Since", shown, replace(filters, since=None, period="").to_query())
    if filters.until:
        yield ActiveFilter("Until", f"{filters.until:%Y-%m-%d %H:%M}", replace(filters, until=None).to_query())
    for name, label in {"quality_min": "Score from", "quality_max": "Score to"}.items():
        if (score := getattr(filters, name)) is not None:
            yield ActiveFilter(label, f"{score:g}", _without(filters, name, None))
    if filters.flag:
        yield ActiveFilter("Only", FLAG_NAMES[filters.flag], replace(filters, flag="").to_query())


def names_of(code: str) -> tuple[str, str]:
    """Return the names of a rule code in lower case: the code itself and its title."""
    return code.casefold(), code_title(code).casefold()


def find_code(tenant: Tenant, text: str) -> str:
    """Return the rule code that the text names; an empty string where the text names no rule code."""
    wanted = " ".join(text.casefold().split())
    if not wanted:
        return ""
    # Only titles of family members contain a colon, such as `Breaks a business rule: total`.
    made = stats.list_known_values(tenant).codes if ":" in wanted else ()
    return _first(wanted, CATALOGUE) or _first(wanted, made)


def _first(wanted: str, codes: Iterable[str]) -> str:
    return next((code for code in codes if wanted in names_of(code)), "")
