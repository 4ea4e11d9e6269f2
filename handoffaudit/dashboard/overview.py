"""The overview: states of handoffs, open work, frequent findings, top agents; and first steps in an empty tenant."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone

from handoffaudit.accounts.models import Membership, Role, Tenant
from handoffaudit.dashboard import connect, live
from handoffaudit.dashboard.access import TenantMembership, render_page, require_role
from handoffaudit.dashboard.connect_ways import WAYS
from handoffaudit.dashboard.diagnostics import llm_health
from handoffaudit.dashboard.navigation import build_agent_url
from handoffaudit.dashboard.review.queue import count_waiting
from handoffaudit.dashboard.safe_text import cut
from handoffaudit.dashboard.templatetags.formats import percent
from handoffaudit.dashboard.templatetags.ui import code_title
from handoffaudit.diagnostics import status
from handoffaudit.diagnostics.agents import busiest_agents
from handoffaudit.diagnostics.codes import MOST_DECISIONS, high_overturn_rates
from handoffaudit.diagnostics.news import DAYS_OF_ROUTES, News, load_news
from handoffaudit.drawing.charts import BESIDE, NARROW, Bar, draw_stacked_bars
from handoffaudit.drawing.svg import Drawing, Mark
from handoffaudit.handoffs import queries, stats
from handoffaudit.handoffs.compiled_queries import ClosedDays
from handoffaudit.handoffs.filters import Filters
from handoffaudit.handoffs.models import WAITING_STATES, State
from handoffaudit.handoffs.periods import PERIODS, Period, TimeBucket, choose_period, format_utc, window_of
from handoffaudit.handoffs.rates import OutcomeCounts, Share, ShareChange
from handoffaudit.handoffs.review.queue import MOST_COUNTED
from handoffaudit.policy.models import Kind, PolicyVersion
from handoffaudit.validation.text import pluralize
from handoffaudit.validation.times import hour_of

MOST_AGENTS: Final = 8

_LONGEST: Final = 60


@dataclass(frozen=True, slots=True)
class TopAgent:
    """An agent that sent many handoffs; `part` is relative to the busiest agent, and `share` is the acceptance rate."""

    name: str
    href: str
    number: int
    part: float
    share: Share


def top_agents(tenant: Tenant, shown: "Shown") -> list[TopAgent]:
    """Return the agents that sent the most handoffs; the links to their pages carry the period."""
    found = busiest_agents(tenant, hour_of(shown.since), shown.until, MOST_AGENTS, shown.closed)
    most = max((one.number for one in found), default=1)
    return [
        TopAgent(
            cut(one.name, _LONGEST),
            build_agent_url(tenant.slug, one.name, {"period": shown.period.name}),
            one.number,
            one.number / most,
            one.judged.share,
        )
        for one in found
    ]


ORDER = (State.ACCEPTED, State.APPROVED, State.HELD, State.REJECTED, State.DECLINED)

BUCKETS = 30

MOST_NOISY = 5

MOST_NEWS = 8

MOST_MARKS = 20

# The policies of `news.JUDGED_BY`, with the title and the URL name of their pages.
_POLICIES: Final[Mapping[str, tuple[str, str]]] = {
    Kind.STRICTNESS: ("Strictness", "strictness"),
    Kind.RULES: ("Rules", "rules"),
    Kind.SCHEMAS: ("Schemas", "schemas"),
    Kind.PROMPTS: ("Prompts", "prompts"),
    Kind.ROLES: ("Roles of agents", "roles"),
}

OFFERED = ("24h", "7d", "30d")


@dataclass(frozen=True, slots=True)
class Stat:
    """The number of handoffs in a state; `difference` compares with the previous period (None: no comparison)."""

    state: str
    number: int
    difference: int | None

    @property
    def is_current(self) -> bool:
        """Return whether the number counts all handoffs in the state now, whenever they arrived."""
        return self.state in WAITING_STATES


@dataclass(frozen=True, slots=True)
class Reason:
    """A rule code with its number of handoffs; `share` is relative to the most frequent rule code, for its bar."""

    code: str
    number: int
    share: float


@dataclass(frozen=True, slots=True)
class Shown:
    """The period of the page, its start and its end, and its counts by state over time."""

    period: Period
    since: datetime
    until: datetime
    buckets: Sequence[TimeBucket[Mapping[str, int]]]
    closed: ClosedDays


@require_role(Role.VIEWER)
def overview(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    period, bad = choose_period(request.GET.get("period", "") or "24h", OFFERED)
    until = timezone.now()
    # Reports also get their period and the previous period from `window_of`, so the numbers agree.
    window = window_of({"period": period.name}, until)
    since = window.since
    unjudged = stats.count_unjudged(who.tenant)
    buckets = stats.count_over_time(who.tenant, window.before_since, until, 2 * BUCKETS)
    closed = ClosedDays(who.tenant.pk, until)
    shown = Shown(period, since, until, [bucket for bucket in buckets if bucket.since >= since], closed)
    before = stats.sum_states(bucket.value for bucket in buckets if bucket.since < since)
    totals = stats.sum_states([*(bucket.value for bucket in shown.buckets), unjudged.by_state])
    figures = _stats(period, totals, before) | {"since": format_utc(since)}
    waits = stats.count_waiting(who.tenant, unjudged)
    if live.is_asked(request):
        return _newer(request, who, figures, waits, shown)
    context: dict[str, Any] = figures | {
        "bad": bad,
        "periods": [PERIODS[name] for name in OFFERED],
        "no_worker": status.missing_worker_message(who.tenant, waits.oldest_unjudged_at),
        **_attention(who, waits, since),
        "alerts": llm_health.open_alerts(who.tenant),
        "news": _list_news(who, load_news(who.tenant, until, closed)),
    }
    if context["total"]:
        for part in _PARTS:
            context |= part.load(who, shown)
    elif not queries.list_handoffs(who.tenant, Filters(), limit=1).items:
        return first_steps(request, who)
    return render_page(request, "dashboard/overview/page.html", context, status=400 if bad else 200)


def _stats(period: Period, totals: Mapping[str, int], before: Mapping[str, int]) -> dict[str, Any]:
    """Return the numbers by state, and their differences to the previous period.

    `figures` holds the states of `ORDER`, and other states if they have handoffs. `seen` joins all numbers into one
    text, by which a poll detects that a page shows older numbers.
    """
    shown = [state for state in State if state in ORDER or totals.get(state)]
    is_comparable = any(before.values())
    now, then = OutcomeCounts.of_states(totals), OutcomeCounts.of_states(before)
    return {
        "period": period,
        "figures": [
            Stat(state.value, number, number - before.get(state, 0) if is_comparable else None)
            for state in shown
            for number in (totals.get(state, 0),)
        ],
        "change": ShareChange(now.share, then.share),
        "is_comparable": is_comparable,
        "total": sum(totals.values()),
        "judged": now,
        "seen": ".".join(str(totals.get(state, 0)) for state in State),
    }


def _attention(who: TenantMembership, waits: stats.Waiting, since: datetime) -> dict[str, Any]:
    """Return the items that need attention now. `waits` in the context joins the numbers that decisions change."""
    for_review, model = count_waiting(who.tenant, MOST_COUNTED), status.load_status(who.tenant)
    # Without a key, the LLM checks nothing, so the page shows no number of first checks and of unverified handoffs.
    is_checked = model.standing is not status.Standing.NO_KEY
    return {
        "waiting": waits,
        "waits": _join_waits(waits),
        "for_review": for_review,
        # Reassigned and muted handoffs wait, but the default view of Review leaves them out.
        "set_aside": 0 if for_review.more else max(0, waits.held + waits.rejected_undecided - for_review.number),
        "model": model,
        "first_checks": status.count_first_checks(who.tenant) if is_checked else 0,
        "unverified": status.count_unverified(who.tenant, since) if is_checked else 0,
    }


def _join_waits(waits: stats.Waiting) -> str:
    return f"{waits.held}.{waits.overdue}.{waits.rejected_undecided}.{waits.parked}"


@live.refuse_bad_filters
def _newer(
    request: HttpRequest,
    who: TenantMembership,
    figures: dict[str, Any],
    waits: stats.Waiting,
    shown: Shown,
) -> HttpResponse:
    """Answer the poll of an open overview with the parts of the page that changed."""
    parts: list[str] = []
    if request.GET.get("seen", "") != figures["seen"]:
        parts.append(render_to_string("dashboard/overview/page.html#figures", figures, request))
    # A page that was loaded before an upgrade does not send `waits`.
    if request.GET.get("waits", "") not in ("", _join_waits(waits)):
        context = figures | _attention(who, waits, shown.since)
        parts.append(render_to_string("dashboard/overview/page.html#attention", context, request))
    missed = status.missing_worker_message(who.tenant, waits.oldest_unjudged_at)
    if bool(missed) != (request.GET.get("gone", "") == "1"):
        parts.append(render_to_string("dashboard/overview/page.html#no_worker", {"no_worker": missed}, request))
    parts += _newer_parts(request, who, figures, shown)
    return live.answer(request, who, parts)


def _newer_parts(request: HttpRequest, who: TenantMembership, figures: dict[str, Any], shown: Shown) -> Iterator[str]:
    """Render again and yield the parts whose numbers are outdated on the open page.

    A list gets no more rows than the open page shows, so that nothing below the list moves.
    """
    if figures["total"] and request.GET.get("none") == "1":
        yield render_to_string("dashboard/overview/page.html#none", figures, request)
    for part in _PARTS:
        if request.GET.get(part.name, figures["seen"]) == figures["seen"]:
            continue
        context = figures | part.load(who, shown)
        rows = live.number_seen(request, f"{part.name}_rows")
        if rows >= 0:
            context |= {"rows": rows, part.key: context[part.key][:rows]}
        for template in part.templates:
            yield render_to_string(template, context, request)


def _load_chart(who: TenantMembership, shown: Shown) -> dict[str, Any]:
    buckets = shown.buckets
    bars = _bars(who, buckets, hourly=shown.period.name == "24h")
    marks = list_policy_marks(who.tenant, buckets[0].since, buckets[-1].until) if buckets else []
    return {
        "policy_marks": marks,
        "chart": _chart(bars, marks, width=BESIDE, prefix="wide"),
        "narrow_chart": _chart(bars, marks, width=NARROW, prefix="narrow"),
        "follows": "chart",
        "label": "Handoffs over time",
    }


def _bars(who: TenantMembership, buckets: Sequence[TimeBucket[Mapping[str, int]]], *, hourly: bool) -> list[Bar]:
    address = reverse("dashboard:handoffs", args=[who.tenant.slug])
    return [
        Bar(
            label=f"{bucket.since:%H:%M}" if hourly else f"{bucket.since.day} {bucket.since:%b}",
            title=bucket.span,
            parts={state: bucket.value.get(state, 0) for state in ORDER},
            href=f"{address}?{Filters(since=bucket.since, until=bucket.until).to_query()}",
        )
        for bucket in buckets
    ]


def list_policy_marks(tenant: Tenant, since: datetime, until: datetime) -> list[Mark]:
    """Return the policy versions that were saved in a period as marks of a chart, the newest `MOST_MARKS` of them."""
    history = reverse("dashboard:policy_history", args=[tenant.slug])
    saved = PolicyVersion.objects.filter(tenant=tenant, kind__in=list(_POLICIES), changed_at__range=(since, until))
    return [
        Mark(
            at=(one.changed_at - since) / (until - since),
            title=f"{_POLICIES[one.kind][0]}, version {one.number}, saved by {cut(one.changed_by, _LONGEST)}, "
            f"{one.changed_at:%Y-%m-%d %H:%M} UTC",
            href=f"{history}?kind={one.kind}",
        )
        for one in reversed(saved.defer("content").order_by("-changed_at")[:MOST_MARKS])
    ]


def _chart(bars: Sequence[Bar], marks: Sequence[Mark], *, width: int, prefix: str) -> Drawing:
    title = "Handoffs over time, by state"
    return draw_stacked_bars(bars, order=ORDER, width=width, height=210, title=title, prefix=prefix, marks=marks)


def _load_reasons(who: TenantMembership, shown: Shown) -> dict[str, Any]:
    found = stats.count_top_codes(who.tenant, shown.since, shown.until, 8, shown.closed)
    most = max((number for _, number in found), default=1)
    return {"reasons": [Reason(code, number, number / most) for code, number in found]}


def _load_noisy(who: TenantMembership, shown: Shown) -> dict[str, Any]:
    overturned, is_sampled = high_overturn_rates(who.tenant, shown.since, shown.until)
    return {"noisy": overturned[:MOST_NOISY], "newest_decisions": MOST_DECISIONS if is_sampled else 0}


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of the page that is rendered again if the counts of handoffs changed.

    `name` is also the request parameter that says which counts the page shows (`seen` of `_stats`). For a part that is
    a list, `key` is the name of the list in the context.
    """

    name: str
    load: Callable[[TenantMembership, Shown], dict[str, Any]]
    templates: tuple[str, ...]
    key: str = ""


_PARTS: Final = (
    _Part("chart", _load_chart, ("components/chart.html#drawings", "components/chart.html#numbers")),
    _Part("codes", _load_reasons, ("dashboard/overview/page.html#codes",), "reasons"),
    _Part(
        "agents",
        lambda who, shown: {"busiest": top_agents(who.tenant, shown)},
        ("dashboard/overview/page.html#agents",),
        "busiest",
    ),
    _Part("noisy", _load_noisy, ("dashboard/overview/page.html#noisy",), "noisy"),
)


@dataclass(frozen=True, slots=True)
class NewsLine:
    """One line of the news: an icon with its meaning, a name with the text after it, and the link to what changed."""

    icon: str
    kind: str
    name: str
    text: str
    href: str


def _list_news(who: TenantMembership, news: News) -> dict[str, Any]:
    """Return the context of the news: its lines, the most important first, and whether earlier handoffs exist."""
    slug = who.tenant.slug
    handoffs = reverse("dashboard:handoffs", args=[slug])

    def link(**filters: Any) -> str:
        return f"{handoffs}?{Filters(since=news.since, **filters).to_query()}"

    lines = [
        NewsLine(
            "rejected" if one.has_fallen else "accepted",
            "Rate",
            f"{cut(one.source, _LONGEST)} → {cut(one.target, _LONGEST)}",
            f"acceptance rate {'fell' if one.has_fallen else 'rose'} from {percent(one.before)} to {percent(one.now)}",
            link(source=one.source, target=one.target),
        )
        for one in news.rates
    ]
    lines += [
        NewsLine("findings", "Finding", code_title(code), f"new, {pluralize(number, 'handoff')}", link(code=code))
        for code, number in news.codes
    ]
    lines += [
        NewsLine(
            "strictness",
            "Policy",
            f"{_POLICIES[one.kind][0]}, version {one.number},",
            f"saved by {cut(one.changed_by, _LONGEST)}",
            f"{reverse('dashboard:policy_history', args=[slug])}?kind={one.kind}",
        )
        for one in news.policies
    ]
    lines += [
        NewsLine(
            "agents",
            "Route",
            f"{cut(source, _LONGEST)} → {cut(target, _LONGEST)}",
            f"used for the first time in {DAYS_OF_ROUTES} days, {pluralize(number, 'handoff')}",
            link(source=source, target=target),
        )
        for (source, target), number in news.routes
    ]
    return {"lines": lines[:MOST_NEWS], "is_comparable": news.is_comparable}


def first_steps(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    """Render the first steps, which an empty tenant shows in place of the overview."""
    context: dict[str, Any] = {
        "ways": WAYS,
        "watch": connect.watch(request, who),
        "invited": Membership.objects.filter(tenant=who.tenant).order_by()[:2].count() > 1,
        "administrators": connect.administrators(who.tenant),
        # An active alert may say that no handoffs arrive.
        "alerts": llm_health.open_alerts(who.tenant),
    }
    return render_page(request, "dashboard/first_run/page.html", context)
