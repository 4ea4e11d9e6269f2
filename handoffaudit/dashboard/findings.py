"""The Findings pages: the list of finding groups, one group, and muting a group."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from django import forms
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect
from django.template.loader import render_to_string
from django.urls import path, reverse
from django.utils.functional import SimpleLazyObject
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_POST, require_safe

from handoffaudit.accounts import Refused
from handoffaudit.accounts.models import Role, Tenant
from handoffaudit.dashboard import live
from handoffaudit.dashboard.access import TenantMembership, is_htmx, render_page, require_role
from handoffaudit.dashboard.diagnostics.codes import find_fix
from handoffaudit.dashboard.filters import find_code
from handoffaudit.dashboard.handoffs.sections import Pair
from handoffaudit.dashboard.navigation import open_item_url
from handoffaudit.dashboard.templatetags.ui import code_title
from handoffaudit.dashboard.view_tabs import join_query, redirect_to_default, redirect_without_blanks, tabs_of
from handoffaudit.diagnostics import group_members, group_store
from handoffaudit.diagnostics.group_members import MOST_WAITING, WEEK, Routes
from handoffaudit.diagnostics.group_queries import (
    STATUSES,
    GroupFilters,
    ListedGroup,
    count_regressed,
    list_groups,
    list_one,
)
from handoffaudit.diagnostics.group_store import FIFTH, FOR_GOOD, UNTIL
from handoffaudit.diagnostics.models import FindingGroup
from handoffaudit.drawing.charts import Bar, draw_sparkline, draw_stacked_bars
from handoffaudit.drawing.svg import Drawing
from handoffaudit.filter_fields import FilterError, Params
from handoffaudit.handoffs import stats
from handoffaudit.handoffs.compare import find_accepted
from handoffaudit.handoffs.models import Handoff
from handoffaudit.validation.layers import entry_of

# Each sign has a tone and an icon, so that signs differ in more than their colour.
SIGNS = {
    "regressed": ("regressed", "bad", "warning", "The group was muted, and has grown since"),
    "muted": ("muted", "quiet", "skipped", "The group is hidden until it grows, its mute ends, or somebody unmutes it"),
    "new": ("new", "wait", "info", "Seen first within the last 24 hours"),
    "growing": (
        "growing",
        "wait",
        "diagnostics",
        "At least 10 handoffs in 7 days, and at least 1.5 times as many as in the 7 days before",
    ),
}

_UNTIL_NAMES = {
    FIFTH: "a fifth more, at least 10",
    "10": "10 more",
    "50": "50 more",
    "double": "twice as many",
    FOR_GOOD: "never",
}


@dataclass(frozen=True, slots=True)
class Sign:
    word: str
    tone: str
    icon: str
    what: str


@dataclass(frozen=True, slots=True)
class WaitingNumber:
    """The number of handoffs of a group that wait for review; with `more_wait`, at least that many wait."""

    group: FindingGroup
    waiting: int
    more_wait: bool

    @property
    def token(self) -> str:
        """Return the text by which an open page asks whether its number changed."""
        return f"{self.group.pk}.{self.waiting}{'+' if self.more_wait else ''}"


@dataclass(frozen=True, slots=True)
class Line(WaitingNumber):
    """A finding group as the list shows it; `lately` is how many of its handoffs arrived in the last 7 days."""

    routes: Routes
    signs: list[Sign]
    spark: Drawing
    lately: int


@dataclass(frozen=True, slots=True)
class MuteOption:
    """A choice of how long to mute; `number` is the number of handoffs at which the group returns, None for never."""

    name: str
    label: str
    number: int | None


def line(listed: ListedGroup) -> Line:
    spark = draw_sparkline(listed.days, title="Handoffs per day, last 14 days", prefix=f"spark-{listed.group.pk}")
    signs = [Sign(*SIGNS[sign]) for sign in listed.signs]
    return Line(listed.group, listed.waiting, listed.more_wait, listed.routes, signs, spark, sum(listed.days[-WEEK:]))


def group_name(tenant: Tenant, number: str) -> str:
    """Describe a finding group in one line; return its number if there is no such group."""
    try:
        group = group_members.get_group(tenant, int(number))
    except FindingGroup.DoesNotExist:
        return number
    at = f" at {group.path_shape}" if group.path_shape else ""
    return f"{code_title(group.code)}{at}"


def mute_options(number: int) -> list[MuteOption]:
    return [MuteOption(name, _UNTIL_NAMES[name], grown(number)) for name, grown in UNTIL.items()]


def mute_label(group: FindingGroup) -> str:
    """Describe how long a muted group stays muted."""
    if group.muted_by_code:
        return "everywhere, with its rule code"
    if group.muted_until is None:
        return "until somebody unmutes it"
    return f"until it has {group.muted_until:,} handoffs"


GROUP_TEMPLATE: Final = "dashboard/groups/group.html"

UNFOLDED: Final = 3


def get_group(who: TenantMembership, group: int) -> FindingGroup:
    """Return a finding group of the tenant, or raise Http404."""
    try:
        return group_members.get_group(who.tenant, group)
    except FindingGroup.DoesNotExist:
        raise Http404("There is no such finding group.") from None


def answer(
    request: HttpRequest, who: TenantMembership, group: FindingGroup, *, status: int = 200, **more: Any
) -> HttpResponse:
    """Render the page of a finding group; `more` holds the context of a refused form."""
    newest = group_members.newest_handoffs(who.tenant, group.pk)
    trend = group_members.trend(group)
    context: dict[str, Any] = {
        "group": group,
        "line": line(list_one(who.tenant, group)),
        "entry": entry_of(group.code),
        "fix": find_fix(who, group.code, newest[0].handoff_type if newest else ""),
        "example": group_members.find_example(group, newest),
        "newest": newest,
        "pair": _pair_of(group, newest),
        "decided": group_members.count_decisions(who.tenant, group.pk),
        "looked_at": group_members.MOST_LOOKED_AT,
        "untils": mute_options(group.number),
        "muted": mute_label(group) if group.muted_at else "",
        "review": _review_url(who, group),
        "handoffs": f"{reverse('dashboard:handoffs', args=[who.tenant.slug])}?group={group.pk}",
        "chart": _chart(trend, width=900, prefix="wide"),
        "narrow_chart": _chart(trend, width=340, prefix="narrow"),
        **more,
    }
    return render_page(request, GROUP_TEMPLATE, context, status=status)


# `find_accepted` is called for at most this many of the newest failed handoffs.
_LOOKED_AT: Final = 3


def _pair_of(group: FindingGroup, newest: Sequence[Handoff]) -> Pair | None:
    """Compare a failed handoff with an accepted handoff of its route and type.

    Use the newest failed handoff that has such an accepted handoff; return None if there is none.
    """
    pairs = ((find_accepted(failed, without=group.code), failed) for failed in newest[:_LOOKED_AT])
    return next((Pair.of(passed, failed) for passed, failed in pairs if passed), None)


@require_role(Role.VIEWER)
@require_safe
def group(request: HttpRequest, who: TenantMembership, group: int) -> HttpResponse:
    found = get_group(who, group)
    return _newer_decisions(request, who, found) if live.is_asked(request) else answer(request, who, found)


@live.refuse_bad_filters
def _newer_decisions(request: HttpRequest, who: TenantMembership, group: FindingGroup) -> HttpResponse:
    """Answer the poll of a group's page: the number of waiting handoffs and the decisions, as far as they changed."""
    (number,), decided = _count_waiting(who, [group]), group_members.count_decisions(who.tenant, group.pk)
    context = {"group": group, "line": number, "decided": decided, "review": _review_url(who, group)}
    context["looked_at"] = group_members.MOST_LOOKED_AT
    current = {"waits": number.token, "button": number.token, "decided": decided.mark}
    newer = [name for name, token in current.items() if request.GET.get(name, token) != token]
    parts = [render_to_string(f"{GROUP_TEMPLATE}#{name}", context, request) for name in newer]
    return live.answer(request, who, parts)


def _review_url(who: TenantMembership, group: FindingGroup) -> str:
    return f"{reverse('dashboard:review', args=[who.tenant.slug])}?group={group.pk}"


@require_role(Role.VIEWER)
@require_safe
def newest(request: HttpRequest, who: TenantMembership, group: int) -> HttpResponse:
    """Render the newest handoffs of a group below its line in the list.

    Redirect a request without htmx to the group's page.
    """
    found = get_group(who, group)
    if not is_htmx(request):
        return HttpResponseRedirect(f"{reverse('dashboard:group', args=[who.tenant.slug, found.pk])}#newest")
    handoffs = group_members.newest_handoffs(who.tenant, found.pk, UNFOLDED)
    context = {"group": found, "handoffs": handoffs, "example": group_members.find_example(found, handoffs)}
    return render_page(request, "dashboard/groups/page.html#newest", context)


def _chart(trend: Any, *, width: int, prefix: str) -> Drawing:
    bars = [
        Bar(label=f"{day.day} {day:%b}", title=f"{day:%Y-%m-%d} UTC", parts={"handoffs": number})
        for day, number in trend
    ]
    title = "Handoffs with this finding per day"
    return draw_stacked_bars(bars, order=("handoffs",), width=width, height=180, title=title, prefix=prefix)


@require_role(Role.REVIEWER)
@require_POST
def mute(request: HttpRequest, who: TenantMembership, group: int) -> HttpResponse:
    """Mute a group and redirect to the page of the group, which offers to undo; a refused form is shown again."""
    until, note = request.POST.get("until", group_store.FIFTH), request.POST.get("note", "")
    try:
        found = group_store.mute_group(
            tenant=who.tenant, group=group, until=until, note=note, actor=who.person.username
        )
    except FindingGroup.DoesNotExist:
        raise Http404("There is no such finding group.") from None
    except Refused as refused:
        said = {"refused": refused, "note": note[: group_store.LONGEST_NOTE], "until": until}
        return answer(request, who, get_group(who, group), status=400, **said)
    messages.success(request, f"The group is muted {mute_label(found)}. To undo it, press Unmute.")
    return redirect("dashboard:group", tenant=who.tenant.slug, group=found.pk)


@require_role(Role.REVIEWER)
@require_POST
def unmute(request: HttpRequest, who: TenantMembership, group: int) -> HttpResponse:
    found = get_group(who, group)
    group_store.unmute_group(tenant=who.tenant, group=found.pk, actor=who.person.username)
    messages.success(request, "The group is unmuted.")
    return redirect("dashboard:group", tenant=who.tenant.slug, group=found.pk)


@require_role(Role.REVIEWER)
@require_POST
def acknowledge(request: HttpRequest, who: TenantMembership, group: int) -> HttpResponse:
    found = get_group(who, group)
    group_store.acknowledge_group(tenant=who.tenant, group=found.pk, actor=who.person.username)
    messages.success(request, "Group restored.")
    return redirect("dashboard:group", tenant=who.tenant.slug, group=found.pk)


@require_role(Role.REVIEWER)
@require_POST
def mute_code(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    """Mute a rule code in the whole tenant, and return to the page of the form."""
    try:
        made = group_store.mute_code(
            tenant=who.tenant,
            code=request.POST.get("code", ""),
            days=request.POST.get("days", ""),
            note=request.POST.get("note", ""),
            actor=who.person.username,
        )
    except Refused as refused:
        messages.error(request, f"Nothing was muted. {refused.message}")
    else:
        title, end = code_title(made.code), f"{made.until:%Y-%m-%d}"
        messages.success(request, f"{title} is muted everywhere until {end}. To undo it, press Unmute everywhere.")
    return _back(request, who)


@require_role(Role.REVIEWER)
@require_POST
def unmute_code(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    code = request.POST.get("code", "")
    if group_store.unmute_code(tenant=who.tenant, code=code, actor=who.person.username):
        messages.success(request, f"{code_title(code)} is not muted any more.")
    else:
        messages.info(request, "The rule code was not muted.")
    return _back(request, who)


def _back(request: HttpRequest, who: TenantMembership) -> HttpResponseRedirect:
    address = request.POST.get("next", "")
    is_own = address.startswith(f"/t/{who.tenant.slug}/") and url_has_allowed_host_and_scheme(address, None)
    return HttpResponseRedirect(address if is_own else reverse("dashboard:groups", args=[who.tenant.slug]))


group_urls = [
    path("groups/<int:group>/", group, name="group"),
    path("groups/<int:group>/newest/", newest, name="group_newest"),
    path("groups/codes/mute/", mute_code, name="code_mute"),
    path("groups/codes/unmute/", unmute_code, name="code_unmute"),
    path("groups/<int:group>/mute/", mute, name="group_mute"),
    path("groups/<int:group>/unmute/", unmute, name="group_unmute"),
    path("groups/<int:group>/acknowledge/", acknowledge, name="group_acknowledge"),
]

TEMPLATE = "dashboard/groups/page.html"

_LONGEST_ID: Final = 18


@require_role(Role.VIEWER)
@require_safe
def groups(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    if live.is_asked(request):
        return _newer(request, who)
    if opening := redirect_to_default(request, who, "groups"):
        return opening
    cursor = request.GET.get("cursor", "")
    context: dict[str, Any] = {
        "most_waiting": MOST_WAITING,
        "cursor": cursor,
        "form": SimpleLazyObject(lambda: _form(request.GET, who)),
    }
    try:
        filters = _resolve_title(who, GroupFilters.from_query(request.GET))
        found = list_groups(who.tenant, filters, cursor=cursor)
    except FilterError as bad:
        return render_page(request, TEMPLATE, context | {"bad": bad}, partials=("results",), status=400)
    query = filters.to_query()
    views = tabs_of(request, who, "groups", query)
    if cleaned := redirect_without_blanks(request, filters, query, views):
        return cleaned
    context |= {
        "filters": filters,
        "item_url": open_item_url(request, who.tenant.slug, "groups"),
        "form": SimpleLazyObject(lambda: _form({**request.GET.dict(), "code": filters.code}, who)),
        "query": query,
        "views": views,
        "lines": [line(one) for one in found.items],
        "statuses": [(name, label, views.href(filters.to_query(status=name))) for name, label in STATUSES.items()],
        "regressed": count_regressed(who.tenant),
        "unnarrowed": views.href(GroupFilters(filters.status, filters.sort).to_query()),
        "newest": views.href(query) if cursor else "",
        "next": views.href(join_query(query, f"cursor={found.next}")) if found.next else "",
    }
    response = render_page(request, TEMPLATE, context, partials=("results",))
    if is_htmx(request):
        response["HX-Push-Url"] = views.href(query)
    return response


@live.refuse_bad_filters
def _newer(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    """Answer the poll of an open list: the changed numbers of waiting handoffs."""
    shown = set(request.GET.get("rows", "").split("~")[: live.MOST_ROWS])
    ids = {token.partition(".")[0] for token in shown}
    numbers = {int(pk) for pk in ids if pk.isascii() and pk.isdigit() and len(pk) <= _LONGEST_ID}
    groups = list(FindingGroup.objects.filter(tenant=who.tenant, pk__in=numbers))
    newer = [one for one in _count_waiting(who, groups) if one.token not in shown]
    review = reverse("dashboard:review", args=[who.tenant.slug])
    parts = [
        render_to_string("dashboard/groups/page.html#waiting", {"line": one, "review_address": review}) for one in newer
    ]
    return live.answer(request, who, parts)


def _count_waiting(who: TenantMembership, groups: Sequence[FindingGroup]) -> list[WaitingNumber]:
    waits = group_members.count_waiting_in(who.tenant, groups)
    return [WaitingNumber(one, waits.numbers.get(one.pk, 0), waits.more) for one in groups]


def _resolve_title(who: TenantMembership, filters: GroupFilters) -> GroupFilters:
    """Replace the title of a rule code in the filters with the rule code."""
    return replace(filters, code=find_code(who.tenant, filters.code) or filters.code)


def _form(asked: Params, who: TenantMembership) -> forms.Form:
    known = stats.list_known_values(who.tenant)
    agents = sorted({*known.sources, *known.targets})
    return GroupFilters.form(asked, code=known.codes, agent=agents, source=agents, target=agents)


urlpatterns = [path("groups/", groups, name="groups"), *group_urls]
