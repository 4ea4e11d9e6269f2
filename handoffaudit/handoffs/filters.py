"""The filters of handoff lists, and cursors."""

import uuid
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django import forms
from django.conf import settings
from django.db.models import Q, QuerySet
from django.utils import timezone
from django.utils.module_loading import import_string

from handoffaudit.accounts.models import Tenant
from handoffaudit.filter_fields import (
    UNTIL,
    ChoiceFilter,
    ChoicesFilter,
    DayFilter,
    FilterError,
    MomentFilter,
    NumberFilter,
    Order,
    ScoreFilter,
    SinceFilter,
    SortFilter,
    TextFilter,
)
from handoffaudit.filter_set import FilterSet, declare
from handoffaudit.handoffs.models import State
from handoffaudit.validation.text import trace_name

SOURCE = "The exact name of the source agent."

TARGET = "The exact name of the target agent."

CURSOR_REMEDY = "use the unchanged value of `next` from the previous page."

FLAGS = {
    "parked": "parked, not judged",
    "shadowed": "accepted only in shadow mode",
    "warnings": "with warnings",
    "overdue": "held too long",
    "unverified": "not checked by the LLM",
    "flagged": "would have been rejected by the LLM",
    "open": "open: end not reported",
}


NEWEST, OLDEST, LOWEST = "newest", "oldest", "score"

# The index of scores has the handoffs below 1.0 only.
ORDERS = {
    NEWEST: Order("Newest first", ("-id",)),
    OLDEST: Order("Oldest first", ("id",)),
    LOWEST: Order("Lowest score first", ("score", "id"), where=Q(score__lt=1)),
}


def first_id_at(moment: datetime) -> uuid.UUID:
    """Return the least UUIDv7 of that millisecond. With two such ids, a period becomes a range of primary keys."""
    return uuid.UUID(int=max(0, int(moment.timestamp() * 1000)) << 80)


def is_since(moment: datetime) -> Q:
    """Return the condition for rows with a UUIDv7 of that moment or later."""
    return Q(id__gte=first_id_at(moment))


def is_before(moment: datetime) -> Q:
    """Return the condition for rows with a UUIDv7 before that moment."""
    return Q(id__lt=first_id_at(moment))


def is_of_trace(trace_id: str) -> Q:
    """Return the condition for the handoffs of a trace, which ignores the letter case of a UUID.

    New handoffs are stored with `trace_name`. Old handoffs may have the UUID in the case that their senders used.
    """
    name = trace_name(trace_id)
    return Q(trace_id=name) if name == trace_id else Q(trace_id__in=(trace_id, name))


def _is_flagged(flag: str) -> Q:
    match flag:
        case "shadowed":
            return ~Q(would_decide="")
        case "overdue":
            return Q(state=State.HELD, review_due_at__lt=timezone.now())
        case _:
            return Q((flag, True))


@dataclass(frozen=True, slots=True)
class Filters(FilterSet):
    """The filters of a list of handoffs, in the order of the query parameters; empty text and None filter nothing.

    `since` is inclusive, `until` exclusive. `period` is the text of a relative `since` (`24h`, `7d`), so that a link
    stays relative. The form fields `from` and `to` are whole days in UTC, including the last day; `to_query` writes
    only `since` and `until`.
    """

    state: tuple[str, ...] = declare(
        ChoicesFilter(
            "State",
            "One state, or several separated by commas.",
            where="state",
            example="held,rejected",
            choices={state: state for state in State.values},
        )
    )
    handoff_type: str = declare(
        TextFilter("Type", "The handoff type.", name="type", where="handoff_type", example="research_result")
    )
    source: str = declare(TextFilter("Source", SOURCE, where="source_agent_id", example="planner"))
    target: str = declare(TextFilter("Target", TARGET, where="target_agent_id", example="writer"))
    code: str = declare(
        TextFilter(
            "Reason",
            "Only handoffs with a finding of this rule code.",
            example="chain.circular",
            widget=forms.Select(),
        )
    )
    trace: str = declare(TextFilter("Trace", "Only handoffs of this trace.", where=is_of_trace))
    flag: str = declare(
        ChoiceFilter("Only", f"One of {', '.join(FLAGS)}.", choices=FLAGS, empty_label="All", where=_is_flagged)
    )
    handoff_id: str = declare(
        TextFilter(help_text="The sender's id; use this for an id with a `/`.", where="handoff_id", example="run/7")
    )
    group: str = declare(
        NumberFilter(
            "Finding",
            "Only handoffs of the finding group with this `id`.",
            example="12",
            widget=forms.HiddenInput(),
        )
    )
    decided_by: str = declare(
        TextFilter("Decided by", "Only handoffs with a decision by this person or key in effect.", example="ada")
    )
    since: datetime | None = declare(SinceFilter(where=is_since, day=DayFilter("From the day (UTC)", name="from")))
    until: datetime | None = declare(
        MomentFilter(
            "Until",
            UNTIL,
            where=is_before,
            day=DayFilter("To the day, included", name="to", later=1),
            widget=forms.HiddenInput(),
        )
    )
    quality_min: float | None = declare(
        ScoreFilter(
            "Score from",
            "Minimum quality score, 0.0 to 1.0.",
            where="score__gte",
            example="0.8",
            widget=forms.TextInput(attrs={"inputmode": "decimal", "placeholder": "0.0"}),
        )
    )
    quality_max: float | None = declare(
        ScoreFilter(
            "Score to",
            "Maximum quality score.",
            where="score__lte",
            widget=forms.TextInput(attrs={"inputmode": "decimal", "placeholder": "1.0"}),
        )
    )
    sort: str = declare(
        SortFilter(
            "Order", f"{', '.join(ORDERS)}; `{LOWEST}` lists only handoffs below 1.0.", orders=ORDERS, usual=NEWEST
        )
    )
    period: str = ""


def parse_cursor(text: str) -> uuid.UUID:
    try:
        return uuid.UUID(text)
    except ValueError:
        raise FilterError("cursor", text[:40], CURSOR_REMEDY) from None


def members_of_group(tenant: Tenant, group: int) -> "QuerySet[Any]":
    """Return the members of a tenant's finding group, as rows with the handoff in the column `handoff`."""
    # Finding groups belong to a package that imports this one, so the settings name the function.
    members: QuerySet[Any] = import_string(settings.GROUP_MEMBERS)(tenant, group)
    return members
