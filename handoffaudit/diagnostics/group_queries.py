"""The list of finding groups for pages and the API, and the export of the list."""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from django import forms
from django.db.models import Q, QuerySet
from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.diagnostics.group_members import (
    BEGINNING,
    WEEK,
    Routes,
    Waiting,
    count_waiting,
    count_waiting_in,
    days_of,
    growth,
    has_route,
    is_growing,
    routes_of,
)
from handoffaudit.diagnostics.models import FindingGroup
from handoffaudit.filter_fields import (
    PERIODS,
    ChoiceFilter,
    FilterError,
    MomentTextFilter,
    Order,
    SortFilter,
    TextFilter,
    parse_moment,
)
from handoffaudit.filter_set import FilterSet, declare
from handoffaudit.handoffs import export
from handoffaudit.handoffs.export import Form
from handoffaudit.handoffs.filters import CURSOR_REMEDY, SOURCE, TARGET

STATUSES: Final = {"open": "Open", "regressed": "Regressed", "muted": "Muted", "all": "Any status"}

# `URGENT` is the default order. It lists groups without waiting handoffs in the order `SEEN_LAST`.
URGENT: Final = "urgent"
SEEN_LAST: Final = "newest"

SORTS: Final = {
    URGENT: Order("Most waiting first"),
    SEEN_LAST: Order("Seen last", ("-last_seen", "-id")),
    "most": Order("Most handoffs", ("-number", "-id")),
    "growing": Order("Growing most"),
    "waiting": Order("Waiting for review only"),
}

NEW_FOR: Final = timedelta(hours=24)

# At most this many groups are checked for growth, the most recently seen groups first.
MOST_GROWING: Final = 1_000

_PARTS: Final = {"regressed": Q(regressed_at__gt=BEGINNING), "others": Q(regressed_at__isnull=True)}

# The parts of the default order whose groups have no waiting handoffs.
_QUIET: Final = {f"quiet-{part}": condition for part, condition in _PARTS.items()}

# A cursor contains a time in microseconds. Times up to the year 2286 have at most this many digits.
_MOST_DIGITS: Final = 16


def _is_of_agent(agent: str) -> Q:
    return Q(has_route(source=agent)) | Q(has_route(target=agent))


@dataclass(frozen=True, slots=True)
class GroupFilters(FilterSet):
    """Filters and order of the list of finding groups.

    `agent` is the source or the target. `since` and `until` limit the time in which the group was seen; they have the
    same form as in the list of handoffs. In every order, regressed groups come first. By default, groups with more
    waiting handoffs come before others. The order `growing` leaves out groups that do not grow, and the order `waiting`
    leaves out groups without waiting handoffs.
    """

    status: str = declare(
        ChoiceFilter(
            "Status",
            f"{', '.join(STATUSES)}.",
            example="regressed",
            choices=STATUSES,
            usual="open",
            widget=forms.HiddenInput(),
        )
    )
    sort: str = declare(
        SortFilter(
            "Order",
            f"{', '.join(SORTS)}; growing lists only groups that grow, waiting only groups with waiting handoffs.",
            orders=SORTS,
            usual=URGENT,
            widget=forms.Select(),
        )
    )
    code: str = declare(TextFilter("Rule code", "Only this rule code.", where="code", example="chain.circular"))
    agent: str = declare(
        TextFilter("Agent, either side", "Only groups with a handoff from or to this agent.", where=_is_of_agent)
    )
    source: str = declare(TextFilter("Source", SOURCE))
    target: str = declare(TextFilter("Target", TARGET))
    since: str = declare(
        MomentTextFilter(
            "Seen",
            "Seen since: a date, a date and time, or 24h, 7d, 30d ago.",
            where=lambda text: Q(last_seen__gte=parse_moment(text)),
            example="7d",
            choices={period: PERIODS[period] for period in ("24h", "7d", "30d")},
            empty_label="At any time",
            widget=forms.Select(),
        )
    )
    until: str = declare(
        MomentTextFilter(
            "Until",
            "First seen before this time.",
            where=lambda text: Q(first_seen__lt=parse_moment(text)),
            widget=forms.HiddenInput(),
        )
    )

    @property
    def is_narrowed(self) -> bool:
        return any(name not in ("status", "sort") for name, _ in self.pairs())


@dataclass(frozen=True, slots=True)
class ListedGroup:
    """A finding group with the numbers that lists show.

    `days` are the numbers of handoffs on the last 14 days. `waiting` counts the handoffs that wait for review; if
    `more_wait` is set, more may wait. `signs` are some of regressed, muted, new and growing.
    """

    group: FindingGroup
    days: tuple[int, ...]
    routes: Routes
    waiting: int
    more_wait: bool
    signs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GroupPage:
    """A page of groups and the cursor of the next page, which is None on the last page."""

    items: list[ListedGroup]
    next: str | None


def list_groups(tenant: Tenant, filters: GroupFilters, *, cursor: str = "", limit: int = 25) -> GroupPage:
    """Return a page of the list of finding groups. Raise `FilterError` for an invalid cursor."""
    after = _parse_cursor(cursor, filters.sort) if cursor else None
    found, waits = _sort(tenant, filters, _filter_groups(tenant, filters), after, limit + 1)
    shown = found[:limit]
    is_quiet = filters.sort == URGENT and waits is not None and bool(shown) and shown[-1][0].pk not in waits.numbers
    following = _format_cursor(filters.sort, *shown[-1], is_quiet=is_quiet) if len(found) > limit else None
    return GroupPage(_add_waiting(tenant, filters, [group for group, _ in shown], waits), following)


def _sort(
    tenant: Tenant, filters: GroupFilters, rows: "QuerySet[FindingGroup]", after: "_After | None", number: int
) -> tuple[list[tuple[FindingGroup, int]], Waiting | None]:
    """Return the first `number` groups after the place `after`, each with its rank.

    Also return the numbers of waiting handoffs, if the order needs them, or else None.
    """
    waits = count_waiting(tenant) if filters.sort in (URGENT, "waiting") else None
    if filters.order.columns:
        return _list_by_column(rows, filters.order, _PARTS, after, number), waits
    if filters.sort == URGENT:
        return _list_urgent(rows, waits.numbers if waits else {}, after, number), waits
    ranks = waits.numbers if waits else growth(rows.order_by("-last_seen")[:MOST_GROWING])
    return _list_by_rank(rows, ranks, after, number), waits


def _add_waiting(
    tenant: Tenant, filters: GroupFilters, groups: list[FindingGroup], waits: Waiting | None
) -> list[ListedGroup]:
    is_exact = waits is not None and (filters.sort == "waiting" or not waits.more)
    return _add_numbers(groups, waits if waits and is_exact else count_waiting_in(tenant, groups, waits))


def list_one(tenant: Tenant, group: FindingGroup) -> ListedGroup:
    """Return one group with the numbers that the list shows."""
    (listed,) = _add_numbers([group], count_waiting_in(tenant, [group]))
    return listed


def _add_numbers(groups: list[FindingGroup], waits: Waiting) -> list[ListedGroup]:
    days, routes = days_of(groups), routes_of(groups)
    return [
        ListedGroup(
            one,
            days[one.pk],
            routes[one.pk],
            waits.numbers.get(one.pk, 0),
            waits.more,
            tuple(_list_signs(one, days[one.pk])),
        )
        for one in groups
    ]


def count_regressed(tenant: Tenant, most: int = 100) -> int:
    """Return the number of regressed groups that nobody has acknowledged, counted up to `most`."""
    return _filter_groups(tenant, GroupFilters("regressed")).order_by()[:most].count()


def _filter_groups(tenant: Tenant, filters: GroupFilters) -> "QuerySet[FindingGroup]":
    rows = FindingGroup.objects.filter(tenant=tenant, number__gt=0)
    if filters.status == "muted":
        rows = rows.filter(muted_at__gt=BEGINNING)
    elif filters.status != "all":
        rows = rows.filter(muted_at__isnull=True)
    if filters.status == "regressed":
        rows = rows.filter(regressed_at__gt=BEGINNING)
    if filters.source or filters.target:
        # One condition for both, because one route must have both agents.
        rows = rows.filter(has_route(source=filters.source, target=filters.target))
    return rows.filter(*filters.conditions())


# A place in the list: the part, the rank in the part, and the id among equal ranks.
_After = tuple[str, int, int]


def _list_urgent(
    rows: "QuerySet[FindingGroup]", numbers: Mapping[int, int], after: _After | None, number: int
) -> list[tuple[FindingGroup, int]]:
    """Return the groups in the default order, at most `number` of them.

    In each of `_PARTS`, groups with waiting handoffs come first, the most waiting handoffs first. The groups without
    waiting handoffs follow, the last seen first.
    """
    found: list[tuple[FindingGroup, int]] = []
    steps = [step for part in _PARTS for step in (part, f"quiet-{part}")]
    for step in steps[steps.index(after[0]) if after else 0 :]:
        place, room = after if after and after[0] == step else None, number - len(found)
        if step in _QUIET:
            quiet = rows.exclude(pk__in=list(numbers))
            found += _list_by_column(quiet, SORTS[SEEN_LAST], {step: _QUIET[step]}, place, room)
        else:
            found += _list_by_rank(rows.filter(_PARTS[step]), numbers, place, room)
    return found


def _list_by_column(
    rows: "QuerySet[FindingGroup]", order: Order, conditions: Mapping[str, Q], after: _After | None, number: int
) -> list[tuple[FindingGroup, int]]:
    column = order.columns[0].removeprefix("-")
    found: list[tuple[FindingGroup, int]] = []
    parts = list(conditions)
    for part in parts[parts.index(after[0]) if after else 0 :]:
        some = rows.filter(conditions[part]).order_by(*order.columns)
        if after and part == after[0]:
            value = BEGINNING + timedelta(microseconds=after[1]) if column == "last_seen" else after[1]
            some = some.filter(Q(**{f"{column}__lt": value}) | Q(**{column: value, "id__lt": after[2]}))
        if len(found) < number:
            found += [(group, _rank(group, column)) for group in some[: number - len(found)]]
    return found


def _list_by_rank(
    rows: "QuerySet[FindingGroup]", ranks: Mapping[int, int], after: _After | None, number: int
) -> list[tuple[FindingGroup, int]]:
    """Return groups in the order of their ranks.

    There may be thousands of groups. They are sorted by a few columns, and only the groups of the page are read fully.
    """
    light = rows.filter(pk__in=list(ranks)).order_by().values_list("pk", "regressed_at")
    ordered = sorted((came_back is None, -ranks[pk], -pk) for pk, came_back in light)
    if after:
        begin = (after[0] == "others", -after[1], -after[2])
        ordered = [one for one in ordered if one > begin]
    wanted = [-pk for _, _, pk in ordered[:number]]
    whole = rows.in_bulk(wanted)
    return [(whole[pk], ranks[pk]) for pk in wanted if pk in whole]


def _rank(group: FindingGroup, column: str) -> int:
    return group.number if column == "number" else (group.last_seen - BEGINNING) // timedelta(microseconds=1)


def _part(group: FindingGroup) -> str:
    return "others" if group.regressed_at is None else "regressed"


def _format_cursor(sort: str, group: FindingGroup, rank: int, *, is_quiet: bool) -> str:
    return f"{sort}:{'quiet-' if is_quiet else ''}{_part(group)}:{rank}:{group.pk}"


def _parse_cursor(cursor: str, sort: str) -> _After:
    order, _, place = cursor.partition(":")
    part, _, rest = place.partition(":")
    rank, _, pk = rest.partition(":")
    parts = (*_PARTS, *_QUIET) if sort == URGENT else _PARTS
    numbers = all(text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS for text in (rank, pk))
    if order != sort or part not in parts or not numbers:
        raise FilterError("cursor", cursor[:40], CURSOR_REMEDY)
    return part, int(rank), int(pk)


def _list_signs(group: FindingGroup, days: tuple[int, ...]) -> Iterable[str]:
    if group.muted_at is not None:
        yield "muted"
    elif group.regressed_at is not None:
        yield "regressed"
    if group.first_seen >= timezone.now() - NEW_FOR and group.regressed_at is None:
        yield "new"
    elif is_growing(days):
        yield "growing"


EXPORTED_AT_ONCE: Final = 500

EXPORT_COLUMNS: Final = (
    *("id", "code", "path", "routes", "handoffs", "last_7_days", "waiting"),
    *("first_seen", "last_seen", "signs", "muted_at", "muted_by", "muted_until", "muted_note", "regressed_at"),
)


def export_groups(tenant: Tenant, filters: GroupFilters, form: Form) -> Iterator[bytes]:
    """Return the export file in parts. The file has the groups of the list in the same order."""
    return export.render_rows(EXPORT_COLUMNS, _make_rows(tenant, filters), form)


def export_some(tenant: Tenant, numbers: Sequence[int], form: Form) -> Iterator[bytes]:
    """Return the export file of these groups in parts. The groups with the most handoffs come first."""
    groups = list(FindingGroup.objects.filter(tenant=tenant, pk__in=numbers).order_by("-number", "-pk"))
    rows = [_make_row(one) for one in _add_numbers(groups, count_waiting_in(tenant, groups))]
    return export.render_rows(EXPORT_COLUMNS, [rows], form)


def _make_rows(tenant: Tenant, filters: GroupFilters) -> Iterator[list[dict[str, Any]]]:
    # All groups are sorted once. Their ranks change while the file is sent, so pages would repeat or skip groups.
    light = _filter_groups(tenant, filters).only("number", "last_seen", "regressed_at")
    found, waits = _sort(tenant, filters, light, None, sys.maxsize)
    ids = [group.pk for group, _ in found]
    for start in range(0, len(ids), EXPORTED_AT_ONCE):
        some = ids[start : start + EXPORTED_AT_ONCE]
        by_pk = FindingGroup.objects.filter(tenant=tenant).in_bulk(some)
        listed = _add_waiting(tenant, filters, [by_pk[pk] for pk in some if pk in by_pk], waits)
        yield [_make_row(one) for one in listed]


def _make_row(listed: ListedGroup) -> dict[str, Any]:
    group = listed.group
    return {
        "id": group.pk,
        "code": group.code,
        "path": group.path_shape,
        "routes": [f"{one.source_agent_id} → {one.target_agent_id} ({one.handoffs})" for one in listed.routes.items],
        "handoffs": group.number,
        "last_7_days": sum(listed.days[-WEEK:]),
        "waiting": listed.waiting,
        "first_seen": group.first_seen,
        "last_seen": group.last_seen,
        "signs": list(listed.signs),
        "muted_at": group.muted_at,
        "muted_by": group.muted_by if group.muted_at else "",
        "muted_until": group.muted_until,
        "muted_note": group.muted_note if group.muted_at else "",
        "regressed_at": group.regressed_at,
    }
