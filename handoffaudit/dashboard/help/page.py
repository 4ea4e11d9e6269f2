"""The Help pages and their search."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.urls import path, reverse
from django.views.decorators.http import require_safe

from handoffaudit.accounts.models import Role, Tenant
from handoffaudit.dashboard.access import TenantMembership, require_role
from handoffaudit.dashboard.help import guides, reference
from handoffaudit.dashboard.help.codes import by_layer
from handoffaudit.dashboard.help.guides import GUIDES, LOOKED_UP, beginning, sections
from handoffaudit.dashboard.partials import render_page
from handoffaudit.dashboard.review.page import keys_for
from handoffaudit.problem_types import PROBLEM_TYPES
from handoffaudit.validation.codes import CATALOGUE, FAMILIES, explanation_of

MOST_FOUND = 40

LONGEST_QUERY = 100

_EXCERPT = 180


@dataclass(frozen=True, slots=True)
class Hit:
    """A search result: `kind` names its type, and `text` is searched together with the title and shown cut."""

    kind: str
    title: str
    text: str
    href: str

    @property
    def excerpt(self) -> str:
        return self.text if len(self.text) <= _EXCERPT else self.text[:_EXCERPT].rpartition(" ")[0] + " …"


def search(tenant: Tenant, query: str) -> list[Hit]:
    """Return the entries that contain every word of the query, matches in the title first.

    At most `MOST_FOUND` entries are returned.
    """
    words = query.casefold()[:LONGEST_QUERY].split()
    if not words:
        return []
    ranked = [(_rank(one, words), one) for one in _everything(tenant)]
    ranked.sort(key=lambda pair: pair[0])
    return [one for rank, one in ranked if rank < len(words) * 10][:MOST_FOUND]


def _rank(found: Hit, words: Sequence[str]) -> int:
    """Return the rank of an entry: 0 where the title contains every word; a missing word excludes the entry."""
    title, text = found.title.casefold(), found.text.casefold()
    return sum(0 if word in title else 1 if word in text else len(words) * 10 for word in words)


def _everything(tenant: Tenant) -> Iterator[Hit]:
    for entry in (*CATALOGUE.values(), *FAMILIES.values()):
        explained = explanation_of(entry.code)
        text = f"{entry.what} {explained.why if explained else ''} {entry.hint}"
        href = reverse("dashboard:code", args=[tenant.slug, entry.code])
        yield Hit("code", f"{entry.title} {entry.code}", text, href)
    for guide in (*GUIDES, *LOOKED_UP):
        href = reverse("dashboard:help_guide", args=[tenant.slug, guide.name])
        yield Hit("guide", guide.title, f"{guide.about} {beginning(guide.name)}", href)
        for section in sections(guide.name):
            yield Hit("guide", f"{section.heading} ({guide.title})", section.text, f"{href}#{section.anchor}")
    for call in reference.operations():
        href = reverse("dashboard:help_call", args=[tenant.slug, call.name])
        yield Hit("API", f"{call.method} {call.path}", f"{call.summary}. {call.about}", href)


@require_role(Role.VIEWER)
@require_safe
def home(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    """Show the overview of Help, or the results of a search."""
    query = request.GET.get("q", "").strip()[:LONGEST_QUERY]
    context = {
        "query": query,
        "found": search(who.tenant, query),
        "guides": guides.GUIDES,
        "looked_up": guides.LOOKED_UP,
        "review_keys": keys_for(may_review=who.may(Role.REVIEWER)),
        "codes": len(CATALOGUE),
        "calls": len(reference.operations()),
    }
    return render_page(request, "dashboard/help/home.html", context)


@require_role(Role.VIEWER)
@require_safe
def codes(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    return render_page(request, "dashboard/help/codes.html", {"layers": by_layer()})


@require_role(Role.VIEWER)
@require_safe
def guide(request: HttpRequest, who: TenantMembership, name: str) -> HttpResponse:
    shown = guides.guide(name)
    context = {
        "guide": shown,
        "guides": guides.GUIDES,
        "looked_up": guides.LOOKED_UP,
        "sections": guides.sections(name),
        "text": guides.render_guide(name, who, _server(request)),
    }
    return render_page(request, "dashboard/help/guide.html", context)


@require_role(Role.VIEWER)
@require_safe
def calls(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    return render_page(request, "dashboard/help/calls.html", {"tags": reference.by_tag(), "server": _server(request)})


@require_role(Role.VIEWER)
@require_safe
def call(request: HttpRequest, who: TenantMembership, name: str) -> HttpResponse:
    shown = reference.operation(name)
    context = {"call": shown, "curl": shown.curl(_server(request), who.tenant.slug)}
    return render_page(request, "dashboard/help/call.html", context)


@require_role(Role.VIEWER)
@require_safe
def problems(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    return render_page(request, "dashboard/help/problems.html", {"problems": PROBLEM_TYPES.values()})


def _server(request: HttpRequest) -> str:
    return settings.PUBLIC_URL or request.build_absolute_uri("/").rstrip("/")


urlpatterns = [
    path("help/", home, name="help"),
    path("help/codes/", codes, name="help_codes"),
    path("help/guide/<slug:name>/", guide, name="help_guide"),
    path("help/problems/", problems, name="help_problems"),
    path("help/api/", calls, name="help_api"),
    path("help/api/<slug:name>/", call, name="help_call"),
]
