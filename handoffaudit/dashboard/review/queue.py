"""The review queue: its filters, its search, its rows and who has them open."""

import hashlib
import uuid
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from django import forms
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.dashboard.access import TenantMembership, current_zone
from handoffaudit.dashboard.filters import find_code
from handoffaudit.dashboard.templatetags.ui import code_title
from handoffaudit.diagnostics import group_members
from handoffaudit.filter_fields import ChoiceFilter, FilterError, NumberFilter, TextFilter
from handoffaudit.filter_set import FilterSet, declare
from handoffaudit.handoffs import queries
from handoffaudit.handoffs.filters import Filters
from handoffaudit.handoffs.models import Finding, Handoff, PassedOn, Proposal, ReviewHold
from handoffaudit.handoffs.queries import Page
from handoffaudit.handoffs.review import activity, bulk, decisions, queue
from handoffaudit.handoffs.review.queue import VIEWS
from handoffaudit.handoffs.transitions import REVIEWABLE, Actor

AGES = {"1h": timedelta(hours=1), "4h": timedelta(hours=4), "1d": timedelta(days=1), "7d": timedelta(days=7)}

AGE_NAMES = {"1h": "over an hour", "4h": "over 4 hours", "1d": "over a day", "7d": "over a week"}


class _ViewFilter(ChoiceFilter):
    """A view of the queue. An address without a view shows the view `all`."""

    def clean(self, value: str) -> str:
        view: str = super().clean(value)
        return "" if view == "all" else view


@dataclass(frozen=True, slots=True)
class QueueFilters(FilterSet):
    """The filters of the review queue.

    The field names are the parameters of the address; empty fields are not written.
    """

    view: str = declare(_ViewFilter(choices={view: view for view in VIEWS}, widget=forms.HiddenInput()))
    q: str = declare(TextFilter("Search"))
    state: str = declare(
        ChoiceFilter("State", choices={state: state for state in sorted(map(str, REVIEWABLE))}, empty_label="Any")
    )
    type: str = declare(TextFilter("Type", widget=forms.Select()))
    source: str = declare(TextFilter("From", widget=forms.Select()))
    target: str = declare(TextFilter("To", widget=forms.Select()))
    code: str = declare(TextFilter("Rule code", widget=forms.Select()))
    age: str = declare(ChoiceFilter("Waiting", choices=AGE_NAMES, empty_label="Any time"))
    group: str = declare(NumberFilter("Findings", widget=forms.HiddenInput()))
    cursor: str = declare(TextFilter())

    @classmethod
    def of(cls, request: HttpRequest) -> "QueueFilters":
        """Read the filters from a request; raise `FilterError` for a value that the filter does not accept."""
        return cls.from_query(request.POST if request.method == "POST" else request.GET)

    @property
    def query(self) -> str:
        written = self.to_query()
        return f"?{written}" if written else ""

    @property
    def list_query(self) -> str:
        """Return the query for links to the queue. It is never empty: without a query, the default view opens."""
        return self.query or "?view=all"

    @property
    def is_narrowed(self) -> bool:
        return any(name not in ("view", "cursor") for name, _ in self.pairs())

    @property
    def active_filters(self) -> list[tuple[str, str, str]]:
        """Return the active filters: the label, the value, and the query of the queue without that filter."""
        return [
            (
                one.label,
                code_title(one.value) if one.name == "code" else one.value,
                f"?{one.without or 'view=all'}",
            )
            for one in self.first_page().active()
        ]

    @classmethod
    def or_all(cls, request: HttpRequest) -> "QueueFilters":
        """Read the filters as `of` does; return the whole queue if they cannot be read."""
        try:
            return cls.of(request)
        except FilterError:
            return cls()

    def first_page(self) -> "QueueFilters":
        """Return the same filters without a cursor."""
        return replace(self, cursor="")

    def filters(self, now: datetime | None = None) -> Filters:
        """Return the filters for the database; `now` is the moment from which ages count back.

        The callers look up `q` and `group` separately.
        """
        return Filters(
            state=(self.state,) if self.state else (),
            handoff_type=self.type,
            source=self.source,
            target=self.target,
            code=self.code,
            received_before=(now or timezone.now()) - AGES[self.age] if self.age else None,
        )


# Three counts end at this number. The menu counts the handoffs that are held or escalated. The Review page counts the
# handoffs that are assigned to the person, and the handoffs for which the person has proposed a decision.
MOST_WAITING = 99

LISTED = 50


@dataclass(frozen=True, slots=True)
class Row:
    """One handoff of the queue.

    `hold` is set if another person has the handoff open. `proposal` is the proposal that waits for a second person, and
    `is_own` is true if this person made the proposal. `passed` says who reassigned the handoff.
    """

    handoff: Handoff
    hold: ReviewHold | None = None
    proposal: Proposal | None = None
    is_own: bool = False
    passed: PassedOn | None = None

    @property
    def waits(self) -> bool:
        return self.handoff.state in REVIEWABLE

    @property
    def is_free(self) -> bool:
        """Return whether this person can decide: nobody else has the handoff open, and no own proposal is pending."""
        return self.hold is None and not self.is_own


@dataclass(frozen=True, slots=True)
class Queue:
    """One page of the queue.

    `found_by` is the field that the search matched and `next` the filters of the following page. `left_out`
    selects the muted handoffs that the view `all` leaves out. `gone` holds the keys of the handoffs that the reader's
    page still shows although they left the queue.
    """

    queue_filters: QueueFilters
    rows: list[Row]
    found_by: str = ""
    next: QueueFilters | None = None
    left_out: queue.Marks | None = None
    gone: Collection[uuid.UUID] = field(default_factory=set)

    @property
    def query(self) -> str:
        """Return the query that links carry, to stay in this queue."""
        return self.queue_filters.query

    @property
    def whole(self) -> QueueFilters:
        """Return the same view without filters, from the first page."""
        return QueueFilters(view=self.queue_filters.view)

    @property
    def first(self) -> QueueFilters:
        """Return the first page with the same filters."""
        return self.queue_filters.first_page()

    @property
    def found(self) -> str:
        """Return the number of listed handoffs, followed by "+" where there are more pages."""
        return f"{len(self.rows)}{'+' if self.next else ''}"

    @property
    def held(self) -> str:
        """Return a fingerprint of the rows, their versions, their holders, and the rows that are gone."""
        seen = [f"{row.handoff.pk}.{row.handoff.version}.{row.hold.person_id if row.hold else ''}" for row in self.rows]
        return hashlib.sha256("~".join([*seen, *sorted(map(str, self.gone))]).encode()).hexdigest()[:16]

    def after(self, handoff: Handoff) -> Handoff | None:
        """Return the next handoff down the list that this person can decide; after the last, the first."""
        listed = [row.handoff.pk for row in self.rows]
        start = listed.index(handoff.pk) + 1 if handoff.pk in listed else 0
        return first_free([*self.rows[start:], *self.rows[:start]], handoff.pk)


def first_free(rows: Iterable[Row], besides: uuid.UUID | None = None) -> Handoff | None:
    return next((row.handoff for row in rows if row.is_free and row.handoff.pk != besides), None)


def read_queue(
    request: HttpRequest, who: TenantMembership, limit: int = LISTED, shown: Iterable[uuid.UUID] = ()
) -> Queue:
    """Read one page of the queue; raise `FilterError` for parameters that cannot be read.

    `shown` holds the ids of the handoffs that the page already shows, to find shown handoffs that have left the queue.
    """
    queue_filters = QueueFilters.of(request)
    filters, found_by = search_filters(who, queue_filters)
    narrowed = _build_conditions(who, queue_filters, filters)
    page = _page(who, queue_filters.cursor, limit=limit, **narrowed)
    following = replace(queue_filters, cursor=page.next) if page.next else None
    unlisted = set(shown).difference(one.pk for one in page.items)
    gone = queue.find_gone(who.tenant, who.person, unlisted, **narrowed)
    return Queue(queue_filters, _rows(who, page.items), found_by, following, narrowed["left_out"], gone)


def page_of(who: TenantMembership, queue_filters: QueueFilters, limit: int = LISTED) -> Callable[[str], Page]:
    """Return a function that reads the page of the filtered queue after a cursor.

    Raise `FilterError` for filters that cannot be read.
    """
    return partial(
        _page, who, limit=limit, **_build_conditions(who, queue_filters, search_filters(who, queue_filters)[0])
    )


def _page(who: TenantMembership, cursor: str, **more: Any) -> Page:
    return queue.list_queue(who.tenant, who.person, cursor=cursor, **more)


def _build_conditions(who: TenantMembership, queue_filters: QueueFilters, filters: Filters) -> dict[str, Any]:
    return {
        "view": queue_filters.view or "all",
        "filters": filters,
        "left_out": group_members.muted_handoffs(who.tenant),
        "within": of_group(who, queue_filters),
    }


def selection_of(who: TenantMembership, queue_filters: QueueFilters, seen_at: datetime) -> bulk.Selection:
    """Return the handoffs that matched the filters at `seen_at`; raise `FilterError` for bad filters."""
    return bulk.Selection(
        view=queue_filters.view or "all",
        seen_at=seen_at,
        person=who.person,
        filters=search_filters(who, queue_filters, seen_at)[0],
        left_out=group_members.muted_handoffs(who.tenant),
        within=of_group(who, queue_filters),
    )


def progress_of(who: TenantMembership, left_out: queue.Marks | None = None) -> queue.Progress:
    """Return how many handoffs wait and how many this person decided today; `left_out` is as in `Queue`."""
    marks = group_members.muted_handoffs(who.tenant) if left_out is None else left_out
    return queue.load_progress(who.tenant, who.person, left_out=marks, zone=current_zone())


def count_waiting(tenant: Tenant, most: int) -> queue.Waiting:
    """Return how many handoffs of the tenant wait for review, counted up to `most`."""
    return queue.count_waiting(tenant, left_out=group_members.muted_handoffs(tenant), most=most)


def of_group(who: TenantMembership, queue_filters: QueueFilters) -> "QuerySet[Any] | None":
    """Return the handoffs of the finding group that the filters name, or None."""
    return group_members.handoffs_of(who.tenant, int(queue_filters.group)) if queue_filters.group else None


def search_filters(
    who: TenantMembership, queue_filters: QueueFilters, now: datetime | None = None
) -> tuple[Filters, str]:
    """Return the filters with the search applied, and the field that the search matched.

    `now` is as in `QueueFilters.filters`.
    """
    filters, text = queue_filters.filters(now), queue_filters.q.strip()
    if not text:
        return filters, ""
    name, value = _find_field(who.tenant, text, find_code(who.tenant, queue_filters.q))
    return replace(filters, **{name: value}), name  # type: ignore[arg-type]


_COLUMNS = {"handoff_type": "handoff_type", "source": "source_agent_id", "target": "target_agent_id"}


def _find_field(tenant: Tenant, text: str, named: str) -> tuple[str, str]:
    """Return the first filter for which the tenant has this value, and the value.

    The filters are tried in the order: rule code, type, source, target, handoff id. A text that matches none of them is
    taken for a trace id. The value of the handoff id is the sender's, even if the person typed the handoff's own UUID.
    `named` is the rule code that `find_code` found for `text`, or empty. Raise `FilterError` for a text that cannot be
    a trace id.
    """
    trace = Filters.from_query({"trace": text}).trace
    for code in dict.fromkeys((text, named or text)):
        if Finding.objects.filter(tenant=tenant, code=code).exists():
            return "code", code
    for name, column in _COLUMNS.items():
        if Handoff.objects.filter(tenant=tenant, **{column: text}).exists():
            return name, text
    try:
        return "handoff_id", queries.get(tenant, text).handoff_id
    except Handoff.DoesNotExist:
        return "trace", trace


def _rows(who: TenantMembership, handoffs: list[Handoff]) -> list[Row]:
    holds = activity.list_holders(handoffs)
    others = {pk: hold for pk, hold in holds.items() if hold.person_id != who.person.pk}
    proposals = decisions.list_proposals(handoffs)
    passed = activity.list_reassignments(handoffs)
    actor = Actor.person(who.person)
    return [
        Row(
            each,
            others.get(each.pk),
            proposal := proposals.get(each.pk),
            is_own=proposal is not None and decisions.is_by(proposal, actor),
            passed=passed.get(each.pk),
        )
        for each in handoffs
    ]
