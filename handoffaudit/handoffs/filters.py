"""The filters of handoff lists, cursors, and lists by score, which step along the index of scores.

No index combines the score with the other filters. A list by score therefore takes handoffs in the order of scores, and
looks up which of them match. The cost depends on the number of steps, which has a limit, and not on the query plan.
"""

import math
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from django import forms
from django.conf import settings
from django.db.models import F, Func, Q, QuerySet
from django.db.models.lookups import In, LessThan
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
from handoffaudit.handoffs.models import Handoff, State
from handoffaudit.validation.text import is_uuid

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

# The index of scores has only the handoffs with a score below 1.0.
ORDERS = {
    NEWEST: Order("Newest first", ("-id",)),
    OLDEST: Order("Oldest first", ("id",)),
    LOWEST: Order("Lowest score first", ("score", "id"), where=Q(score__lt=1)),
}


def first_id_at(moment: datetime) -> uuid.UUID:
    """Return the least UUIDv7 of that millisecond. With two such ids, a period becomes a range of primary keys."""
    return uuid.UUID(int=max(0, int(moment.timestamp() * 1000)) << 80)


def moment_of(pk: uuid.UUID) -> datetime:
    """Return the time in a UUIDv7, the inverse of `first_id_at`."""
    return datetime.fromtimestamp((pk.int >> 80) / 1000, UTC)


def is_since(moment: datetime) -> Q:
    """Return the condition for rows with a UUIDv7 of that moment or later."""
    return Q(id__gte=first_id_at(moment))


def is_before(moment: datetime) -> Q:
    """Return the condition for rows with a UUIDv7 before that moment."""
    return Q(id__lt=first_id_at(moment))


def is_received_before(moment: datetime) -> Q:
    """Return the condition for rows received before that moment.

    The id of a row with `sent_at` contains `sent_at`, and the id of any other row contains the time of receipt. For
    rows with `sent_at`, the condition therefore compares `received_at`, too.
    """
    return is_before(moment) & (Q(sent_at=None) | Q(received_at__lt=moment))


def is_of_trace(trace_id: str) -> Q:
    """Return the condition for the handoffs of a trace, which ignores the letter case of a UUID.

    New handoffs have the UUID in lower case, old handoffs perhaps in the case that their senders used.
    """
    return Q(trace_id__in=spell_traces([trace_id])) if is_uuid(trace_id) else Q(trace_id=trace_id)


def spell_traces(traces: Iterable[str]) -> frozenset[str]:
    """Return the ids of traces as handoffs have them: a UUID as given, and in lower and in upper case.

    A lookup of these ids uses the index, unlike a comparison that ignores the case.
    """
    return frozenset(
        spelling
        for trace in traces
        for spelling in ((trace, trace.lower(), trace.upper()) if is_uuid(trace) else (trace,))
    )


class Unindexed(Func):
    """The value of a column by which SQLite must not look for rows. PostgreSQL may: it estimates how many rows match.

    Of two indexes, SQLite prefers the index with more columns that have to equal a value. It does so even if the other
    index is partial and has few rows. It also prefers to sort the rows of a range, even if another index has the right
    order.
    """

    template = "%(expressions)s"

    def as_sqlite(self, compiler: Any, connection: Any, **context: Any) -> Any:
        return self.as_sql(compiler, connection, template="+%(expressions)s", **context)


def is_overdue(now: Any) -> Q:
    """Return the condition for held handoffs whose limit is over; `now` is a time or an expression."""
    # Without `Unindexed`, SQLite would read all overdue handoffs by the index `handoff_due`, and sort them.
    return Q(LessThan(Unindexed(F("review_due_at")), now), state=State.HELD)


def is_in_states(states: Iterable[State]) -> "In[Any]":
    """Return the condition for handoffs in one of the states, for queries that also have a rarer condition.

    Without `Unindexed`, SQLite would find the handoffs by their states, and not by the small index of the rarer
    condition.
    """
    return In(Unindexed(F("state")), list(states))


def _is_flagged(flag: str) -> Q:
    match flag:
        case "shadowed":
            return ~Q(would_decide="")
        case "overdue":
            return is_overdue(timezone.now())
        case _:
            return Q((flag, True))


@dataclass(frozen=True, slots=True)
class Filters(FilterSet):
    """The filters of a list of handoffs, in the order of the query parameters; empty text and None filter nothing.

    `since` is inclusive, `until` exclusive. `period` is the text of a relative `since` (`24h`, `7d`), so that a link
    stays relative. The form fields `from` and `to` are whole days in UTC, including the last day; `to_query` writes
    only `since` and `until`. `received_before` is not a query parameter: pages set it to select handoffs by their age.
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
            "Rule code",
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
        TextFilter(
            help_text="The id from the sender. Use this filter for an id that contains a `/`.",
            where="handoff_id",
            example="run/7",
        )
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
        TextFilter(
            "Decided by", "Only handoffs whose decision in effect was made by this person or key.", example="ada"
        )
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
            "Order",
            f"{', '.join(ORDERS)}; `{LOWEST}` lists only handoffs with a score below 1.0.",
            orders=ORDERS,
            usual=NEWEST,
            widget=forms.Select(),
        )
    )
    period: str = ""
    received_before: datetime | None = None


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


# A page looks at about this number of handoffs at most. If few of them match, the next page continues from there.
MOST_STEPS: Final = 5_000

_AT_ONCE: Final = 500


class _Place(NamedTuple):
    score: float
    id: uuid.UUID


def list_by_score(
    rows: "QuerySet[Handoff]", matching: "QuerySet[Handoff]", cursor: str, limit: int
) -> tuple[list[Handoff], str | None]:
    """Return the next handoffs of `matching` and the cursor of the next page; `rows` are all handoffs of the tenant.

    A page may have fewer than `limit` handoffs and still have a next page. Raise `FilterError` for an invalid cursor.
    """
    after = _parse_cursor(cursor) if cursor else None
    found: list[Handoff] = []
    number, steps = limit + 1, 0
    while True:
        places = _read(rows, after, number)
        found += _pick(matching, places)
        if len(found) > limit:
            return found[:limit], _format_cursor(_place_of(found[limit - 1]))
        if len(places) < number:
            return found, None
        after, steps, number = places[-1], steps + len(places), _AT_ONCE
        if steps >= MOST_STEPS:
            return found, _format_cursor(after)


def find_next_by_score(
    rows: "QuerySet[Handoff]", matching: "QuerySet[Handoff]", handoff: Handoff, *, is_back: bool
) -> Handoff | None:
    """Return the next handoff of `matching` after `handoff`, or before it with `is_back`.

    The order is that of the scores. Return None if no handoff within about `MOST_STEPS` steps matches.
    """
    after: _Place | None = _place_of(handoff)
    number, steps = 1, 0
    while steps < MOST_STEPS:
        places = _read(rows, after, number, is_back=is_back)
        if found := _pick(matching, places):
            return found[0]
        if len(places) < number:
            return None
        after, steps, number = places[-1], steps + len(places), _AT_ONCE
    return None


def _read(rows: "QuerySet[Handoff]", after: _Place | None, number: int, *, is_back: bool = False) -> list[_Place]:
    """Return the next places of the index, at most `number`.

    Many handoffs share a score. One query reads the handoffs with the score of `after`, and a second query reads the
    handoffs with later scores.
    """
    sign, later = ("-", "lt") if is_back else ("", "gt")
    rows = rows.filter(score__lt=1)
    parts = [rows.order_by(f"{sign}score", f"{sign}id")]
    if after:
        # With `score = …`, SQLite would not see that the partial index of scores has these rows.
        same = parts[0].filter(score__gte=after.score, score__lte=after.score, **{f"id__{later}": after.id})
        parts = [same, parts[0].filter(**{f"score__{later}": after.score})]
    found: list[_Place] = []
    for part in parts:
        if len(found) < number:
            places = part.values_list("score", "id")[: number - len(found)]
            found += [_Place(score or 0.0, pk) for score, pk in places]
    return found


def _pick(matching: "QuerySet[Handoff]", places: list[_Place]) -> list[Handoff]:
    found = {row.pk: row for row in matching.order_by().filter(pk__in=[place.id for place in places])}
    return [found[place.id] for place in places if place.id in found]


def _place_of(handoff: Handoff) -> _Place:
    return _Place(1.0 if handoff.score is None else handoff.score, handoff.pk)


def _format_cursor(place: _Place) -> str:
    return f"{place.score!r}:{place.id}"


def _parse_cursor(text: str) -> _Place:
    score, _, pk = text.partition(":")
    try:
        place = _Place(float(score), uuid.UUID(pk))
    except ValueError:
        place = None
    if place is None or not math.isfinite(place.score):
        raise FilterError("cursor", text[:40], CURSOR_REMEDY)
    return place
