"""The review queue: its filters, its rows and who has them open."""

import hashlib
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from urllib.parse import urlencode

from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.dashboard.access import TenantMembership
from handoffaudit.dashboard.filters import find_code
from handoffaudit.dashboard.templatetags.ui import code_title
from handoffaudit.diagnostics.groups import membership
from handoffaudit.handoffs.filters import FilterError, Filters
from handoffaudit.handoffs.models import Handoff, PassedOn, Proposal, ReviewHold
from handoffaudit.handoffs.queries import Page
from handoffaudit.handoffs.review import assignments, bulk, queue
from handoffaudit.handoffs.review import proposals as review_proposals
from handoffaudit.handoffs.review.queue import VIEWS
from handoffaudit.handoffs.transitions import REVIEWABLE, Actor

AGES = {"1h": timedelta(hours=1), "4h": timedelta(hours=4), "1d": timedelta(days=1), "7d": timedelta(days=7)}

AGE_NAMES = {"1h": "over an hour", "4h": "over 4 hours", "1d": "over a day", "7d": "over a week"}

_LABELS = {
    "q": "Search",
    "state": "State",
    "type": "Type",
    "source": "From",
    "target": "To",
    "code": "Reason",
    "age": "Waiting",
    "group": "Findings",
}

_LONGEST = 200

_LONGEST_NUMBER = 12


@dataclass(frozen=True, slots=True)
class QueueFilters:
    """The fields are the names of the address's parameters; empty ones are not written."""

    view: str = ""
    q: str = ""
    state: str = ""
    type: str = ""
    source: str = ""
    target: str = ""
    code: str = ""
    age: str = ""
    group: str = ""
    cursor: str = ""

    @classmethod
    def of(cls, request: HttpRequest) -> "QueueFilters":
        """Raises BadFilter where a value can't be what is asked for."""
        asked = request.POST if request.method == "POST" else request.GET
        return cls.read({name: asked.get(name, "").strip() for name in cls.__slots__})

    @classmethod
    def read(cls, values: Mapping[str, str]) -> "QueueFilters":
        for name, value in values.items():
            if "\x00" in value or len(value) > _LONGEST:
                raise FilterError(name, value[:40], f"use a text of at most {_LONGEST} characters without NUL.")
        place = cls(**values)
        if place.view not in ("", *VIEWS):
            raise FilterError("view", place.view[:40], f"use one of {', '.join(VIEWS)}.")
        if place.state not in ("", *REVIEWABLE):
            raise FilterError("state", place.state[:40], f"use one of {', '.join(sorted(REVIEWABLE))}.")
        if place.age not in ("", *AGES):
            raise FilterError("age", place.age[:40], f"use one of {', '.join(AGES)}.")
        if place.group and not (place.group.isdecimal() and len(place.group) <= _LONGEST_NUMBER):
            raise FilterError("group", place.group[:40], "use the number in the address of a finding's page.")
        return replace(place, view="") if place.view == "all" else place

    @property
    def given(self) -> list[tuple[str, str]]:
        """What is asked for, as a form's hidden fields or an address carry it."""
        return [(name, value) for name in self.__slots__ if (value := getattr(self, name))]

    @property
    def query(self) -> str:
        return f"?{urlencode(self.given)}" if self.given else ""

    @property
    def is_narrowed(self) -> bool:
        return any(name not in ("view", "cursor") for name, _ in self.given)

    @property
    def chips(self) -> list[tuple[str, str, str]]:
        """What it is narrowed by: the label, the value, and the query without it."""
        values = {"age": AGE_NAMES.get(self.age, ""), "code": code_title(self.code) if self.code else ""}
        return [
            (_LABELS[name], values.get(name) or value, replace(self, **{name: "", "cursor": ""}).query)
            for name, value in self.given
            if name in _LABELS
        ]

    @classmethod
    def or_all(cls, request: HttpRequest) -> "QueueFilters":
        """As `of`; the whole queue where it can't be read."""
        try:
            return cls.of(request)
        except FilterError:
            return cls()

    def but(self, **changes: str) -> "QueueFilters":
        return replace(self, **changes)

    def filters(self, now: datetime | None = None) -> Filters:
        """What the fields narrow by; `q` and `group` are looked up elsewhere. `now`: the moment that ages end at."""
        return Filters(
            state=(self.state,) if self.state else (),
            handoff_type=self.type,
            source=self.source,
            target=self.target,
            code=self.code,
            until=(now or timezone.now()) - AGES[self.age] if self.age else None,
        )


# The menu says how many wait, up to so many.
MOST_WAITING = 99

# Rows of a page of the queue.
LISTED = 50


@dataclass(frozen=True, slots=True)
class Row:
    """One handoff of the queue; `hold` is somebody else's. `proposal` is in force, and `is_own` where the person made
    it; `passed` is who passed it on."""

    handoff: Handoff
    hold: ReviewHold | None = None
    proposal: Proposal | None = None
    is_own: bool = False
    passed: PassedOn | None = None

    @property
    def is_free(self) -> bool:
        """Nobody else has it open, and it does not wait for somebody else."""
        return self.hold is None and not self.is_own


@dataclass(frozen=True, slots=True)
class Queue:
    """A page of the queue. `found_by`: what the search was taken for; `next`: the place of the following page;
    `left_out`: what the view `all` leaves out, where it was asked for; `gone`: what an older page has and does not wait
    here any more."""

    place: QueueFilters
    rows: list[Row]
    found_by: str = ""
    next: QueueFilters | None = None
    left_out: queue.Marks | None = None
    gone: Collection[uuid.UUID] = field(default_factory=set)

    @property
    def query(self) -> str:
        """What links carry along, to stay in it."""
        return self.place.query

    @property
    def whole(self) -> QueueFilters:
        """The same view, not narrowed, from its beginning."""
        return QueueFilters(view=self.place.view)

    @property
    def first(self) -> QueueFilters:
        """The beginning of what is shown, narrowed as it is."""
        return self.place.but(cursor="")

    @property
    def found(self) -> str:
        """How many there are, as far as they are listed."""
        return f"{len(self.rows)}{'+' if self.next else ''}"

    @property
    def held(self) -> str:
        """Stands for who has what of it open, at which version it is, and what is gone."""
        seen = [f"{row.handoff.pk}.{row.handoff.version}.{row.hold.person_id if row.hold else ''}" for row in self.rows]
        return hashlib.sha256("~".join([*seen, *sorted(map(str, self.gone))]).encode()).hexdigest()[:16]

    def after(self, handoff: Handoff) -> Handoff | None:
        """The next one down that nobody else has open; past the end, the first one."""
        listed = [row.handoff.pk for row in self.rows]
        start = listed.index(handoff.pk) + 1 if handoff.pk in listed else 0
        return first_free([*self.rows[start:], *self.rows[:start]], handoff.pk)


def first_free(rows: Iterable[Row], besides: uuid.UUID | None = None) -> Handoff | None:
    return next((row.handoff for row in rows if row.is_free and row.handoff.pk != besides), None)


def read_queue(
    request: HttpRequest, who: TenantMembership, limit: int = LISTED, shown: Iterable[uuid.UUID] = ()
) -> Queue:
    """As the address has it. `shown`: what a page has of it already. Raises BadFilter."""
    place = QueueFilters.of(request)
    filters, found_by = search_filters(who, place)
    narrowed = _narrowed(who, place, filters)
    page = _page(who, place.cursor, limit=limit, **narrowed)
    following = place.but(cursor=page.next) if page.next else None
    unlisted = set(shown).difference(one.pk for one in page.items)
    gone = queue.find_gone(who.tenant, who.person, unlisted, **narrowed)
    return Queue(place, _rows(who, page.items), found_by, following, narrowed["left_out"], gone)


def page_of(who: TenantMembership, place: QueueFilters, limit: int = LISTED) -> Callable[[str], Page]:
    """Reads the page of the queue that begins at a cursor, narrowed as the place is. Raises BadFilter."""
    return partial(_page, who, limit=limit, **_narrowed(who, place, search_filters(who, place)[0]))


def _page(who: TenantMembership, cursor: str, **more: Any) -> Page:
    return queue.list_queue(who.tenant, who.person, cursor=cursor, **more)


def _narrowed(who: TenantMembership, place: QueueFilters, filters: Filters) -> dict[str, Any]:
    return {
        "view": place.view or "all",
        "filters": filters,
        "left_out": membership.muted_handoffs(who.tenant),
        "within": of_group(who, place),
    }


def selection_of(who: TenantMembership, place: QueueFilters, seen_at: datetime) -> bulk.Selection:
    """All that match, as they stood then. Raises BadFilter."""
    return bulk.Selection(
        view=place.view or "all",
        seen_at=seen_at,
        person=who.person,
        filters=search_filters(who, place, seen_at)[0],
        left_out=membership.muted_handoffs(who.tenant),
        within=of_group(who, place),
    )


def progress_of(who: TenantMembership, left_out: queue.Marks | None = None) -> queue.Progress:
    """How much waits, and how much the person decided today. `left_out`: as `Queue.left_out`."""
    marks = membership.muted_handoffs(who.tenant) if left_out is None else left_out
    return queue.load_progress(who.tenant, who.person, left_out=marks)


def waiting(tenant: Tenant, most: int) -> queue.Waiting:
    """How much waits for review, for everybody who says so, counted up to `most`."""
    return queue.count_waiting(tenant, left_out=membership.muted_handoffs(tenant), most=most)


def of_group(who: TenantMembership, place: QueueFilters) -> "QuerySet[Any] | None":
    """The handoffs of the finding group that the queue is narrowed to."""
    return membership.handoffs_of(who.tenant, int(place.group)) if place.group else None


def search_filters(who: TenantMembership, place: QueueFilters, now: datetime | None = None) -> tuple[Filters, str]:
    """The filters with what is searched for, and which field of them that was found as. `now`: as `Place.filters`."""
    found = queue.search(who.tenant, place.q, find_code(who.tenant, place.q))
    if not found.found_by:
        return place.filters(now), ""
    return replace(place.filters(now), **{found.found_by: found.value}), found.found_by  # type: ignore[arg-type]


def _rows(who: TenantMembership, handoffs: list[Handoff]) -> list[Row]:
    holds = assignments.list_holders(handoffs)
    others = {pk: hold for pk, hold in holds.items() if hold.person_id != who.person.pk}
    proposals = review_proposals.list_proposals(handoffs)
    passed = assignments.list_reassignments(handoffs)
    actor = Actor.person(who.person)
    return [
        Row(
            each,
            others.get(each.pk),
            proposal := proposals.get(each.pk),
            is_own=proposal is not None and review_proposals.is_by(proposal, actor),
            passed=passed.get(each.pk),
        )
        for each in handoffs
    ]
