"""The Connect page: code and API key for each way to connect, the first handoff that arrives, and the sample tenant."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

from django.conf import settings
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.loader import render_to_string
from django.urls import path, reverse
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from handoffaudit.accounts import Refused, keys
from handoffaudit.accounts.models import Key, Membership, Role, Tenant
from handoffaudit.dashboard import help_guides, live
from handoffaudit.dashboard.access import TenantMembership, render_page, require_role
from handoffaudit.dashboard.connect_ways import CLIENT, EXAMPLE_KEY, WAYS, Way, fill_example, find_way
from handoffaudit.dashboard.settings import accounts
from handoffaudit.diagnostics import sample_tenants
from handoffaudit.handoffs import queries
from handoffaudit.handoffs.filters import first_id_at
from handoffaudit.handoffs.models import WAITING_STATES, ActorKind, Event, Handoff, State

MOST_ADMINS: Final = 5

# If the address has no key, the page waits for the first handoff of the newest key that is younger than this.
LATELY: Final = timedelta(hours=24)

_LONGEST_NUMBER: Final = 14

# The meaning of the verdict for the agents, by the state of the handoff.
MEANING: Final = {
    State.ACCEPTED: "Accepted: the next agent may start.",
    State.APPROVED: "A person approved it: the next agent may start.",
    State.HELD: "Held: a person decides before the next agent may start.",
    State.REJECTED: "Rejected: the next agent must not start. The findings say what to correct.",
    State.DECLINED: "A person declined it: the next agent must not start.",
    State.SUPERSEDED: "A later attempt took its place.",
}


@dataclass(frozen=True, slots=True)
class Watch:
    """The handoff that a page waits for: the first since `since`. With `key`, only handoffs from this key count."""

    way: Way
    key: Key | None
    since: datetime
    handoff: Handoff | None

    @property
    def is_judged(self) -> bool:
        return self.handoff is not None and self.handoff.state not in WAITING_STATES

    @property
    def meaning(self) -> str:
        return MEANING.get(State(self.handoff.state), "") if self.handoff else ""

    @property
    def query(self) -> str:
        """Return the query that waits for the same handoff."""
        return self._query(self.since)

    @property
    def next_query(self) -> str:
        """Return the query that waits for the handoff after this one."""
        return self._query(timezone.now())

    def _query(self, since: datetime) -> str:
        given = {"with": self.way.name, "key": self.key.pk if self.key else "", "since": int(since.timestamp() * 1000)}
        return urlencode({name: value for name, value in given.items() if value != ""})

    @property
    def seen(self) -> str:
        """Return a fingerprint of the handoff, which the page sends back to receive only changes."""
        return f"{self.handoff.pk.hex}.{self.handoff.version}" if self.handoff else "nothing"


def watch(request: HttpRequest, who: TenantMembership) -> Watch:
    """Return the `Watch` of the page, from the way, the key and the time in the address.

    Without a key in the address, use the newest key if it is younger than `LATELY`. Without a time, wait for the first
    handoff of the key. If there is no key either, wait for the next handoff of any sender.
    """
    key = _key_of(request, who.tenant)
    since = _time_of(request) or (key.created_at if key else timezone.now())
    return Watch(find_way(request.GET.get("with", "")), key, since, _first_since(who.tenant, key, since))


def _key_of(request: HttpRequest, tenant: Tenant) -> Key | None:
    valid = Key.objects.filter(tenant=tenant, revoked_at=None)
    if number := _number(request, "key"):
        return valid.filter(pk=number).first()
    return valid.filter(created_at__gt=timezone.now() - LATELY).order_by("-pk").first()


def _time_of(request: HttpRequest) -> datetime | None:
    number = _number(request, "since")
    return datetime.fromtimestamp(number / 1000, UTC) if number else None


def _number(request: HttpRequest, name: str) -> int:
    text = request.GET.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _LONGEST_NUMBER else 0


def _first_since(tenant: Tenant, key: Key | None, since: datetime) -> Handoff | None:
    first = first_id_at(since)
    if key is None:
        return queries.of_tenant(tenant).filter(pk__gte=first).order_by("pk").first()
    if key.last_used_at is None:
        # A key that was never used needs no search.
        return None
    arrivals = Event.objects.filter(
        tenant=tenant, handoff__gte=first, from_state="", actor_kind=ActorKind.KEY, actor=key.name
    )
    found = arrivals.order_by("handoff").values_list("handoff", flat=True).first()
    return queries.of_tenant(tenant).filter(pk=found).first() if found else None


@require_role(Role.VIEWER)
@require_safe
def page(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    """Show the code of one way, with the secret if the previous page created or showed the key."""
    about, secret = accounts.take_secret(request, who, "connect")
    found = watch(request, who)
    server = settings.PUBLIC_URL or request.build_absolute_uri("/").rstrip("/")
    context: dict[str, Any] = {
        "ways": WAYS,
        "watch": found,
        "way": found.way,
        "key": Key.objects.filter(tenant=who.tenant, pk=int(about)).first() if secret else None,
        "secret": secret,
        "placeholder": EXAMPLE_KEY,
        "snippets": found.way.fill(server, secret or EXAMPLE_KEY),
        "guide": help_guides.guide(found.way.guide),
        "held": fill_example("connect/held.sh", server, secret or EXAMPLE_KEY),
        "client": CLIENT,
        "scopes": [(scope.value, accounts.MEANING[scope]) for scope in found.way.scopes],
        "administrators": administrators(who.tenant),
    }
    return render_page(request, "dashboard/connect/page.html", context)


@require_role(Role.VIEWER)
@require_safe
@live.refuse_bad_filters
def show_arrival(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    """Answer with the section of the first handoff if the handoff arrived or was judged since the last answer."""
    found = watch(request, who)
    if request.GET.get("seen", "") == found.seen:
        return live.answer(request, who)
    context = {"watch": found, "who": who, "may_review": who.may(Role.REVIEWER), "is_news": True}
    return live.answer(request, who, [render_to_string("dashboard/connect/parts.html#arrived", context, request)])


@require_role(Role.ADMIN)
@require_POST
def make_key(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    """Create an API key with the scopes of a way; the next page shows the code with the secret."""
    way = find_way(request.POST.get("with", ""))
    try:
        key, secret = keys.create(
            tenant=who.tenant,
            name=_free_name(who.tenant, way.label),
            scopes=way.scopes,
            expires_at=None,
            actor=who.person.username,
        )
    except Refused as refused:
        messages.error(request, refused.message)
        return redirect("dashboard:connect", tenant=who.tenant.slug)
    return _redirect_with_key(request, who, way, key, secret)


@require_role(Role.ADMIN)
@require_POST
def use_key(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    """Redirect to the code of a way with the secret of a new key, which the previous page showed."""
    way, secret = find_way(request.POST.get("with", "")), request.POST.get("secret", "")
    key = Key.objects.filter(tenant=who.tenant, revoked_at=None, secret_hash=keys.digest(secret)).first()
    if key is None:
        messages.error(request, "This key is unknown or revoked: create another one.")
        return redirect("dashboard:connect", tenant=who.tenant.slug)
    return _redirect_with_key(request, who, way, key, secret)


def _redirect_with_key(request: HttpRequest, who: TenantMembership, way: Way, key: Key, secret: str) -> HttpResponse:
    query = urlencode({"with": way.name, "key": key.pk})
    address = f"{reverse('dashboard:connect', args=[who.tenant.slug])}?{query}"
    return accounts.redirect_with_secret(address, request, who, "connect", secret, str(key.pk))


def _free_name(tenant: Tenant, label: str) -> str:
    """Return the label, with a number if a key already has this name, because arrivals are found by the key's name."""
    taken = set(Key.objects.filter(tenant=tenant, name__startswith=label).values_list("name", flat=True))
    numbered = (f"{label} {number}" for number in range(2, len(taken) + 3))
    return next(name for name in (label, *numbered) if name not in taken)


def administrators(tenant: Tenant) -> list[str]:
    """Return the names of at most `MOST_ADMINS` administrators whom a member can ask, in alphabetical order."""
    admins = Membership.objects.filter(tenant=tenant, role=Role.ADMIN, person__is_active=True)
    return list(admins.order_by("person__username").values_list("person__username", flat=True)[:MOST_ADMINS])


@require_role(Role.VIEWER)
@require_safe
def start(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    """Redirect from the former address of this page."""
    return redirect("dashboard:connect", tenant=who.tenant.slug)


@require_role(Role.ADMIN)
@require_POST
def make_sample(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    """Create a sample tenant for this person and redirect to its overview."""
    try:
        tenant = sample_tenants.create_sample(person=who.person, origin=who.tenant)
    except Refused as refused:
        messages.error(request, refused.message)
        return redirect("dashboard:overview", tenant=who.tenant.slug)
    return redirect("dashboard:overview", tenant=tenant.slug)


@require_role(Role.ADMIN)
@require_POST
def remove_sample(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    """Remove the whole sample tenant and redirect to the tenant that the person came from."""
    try:
        origin = sample_tenants.remove_sample(tenant=who.tenant, person=who.person)
    except Refused as refused:
        messages.error(request, refused.message)
        return redirect("dashboard:overview", tenant=who.tenant.slug)
    messages.success(request, "The sample data is removed.")
    return redirect("dashboard:overview", tenant=origin.slug) if origin else redirect("home")


@require_role(Role.VIEWER)
@require_safe
def sample_progress(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    """Answer the sample banner, which polls until the sample is complete."""
    if not who.tenant.is_sample:
        raise Http404("This tenant is not a sample tenant.")
    answer = render_page(request, "components/sample_banner.html", {})
    overview = reverse("dashboard:overview", args=[who.tenant.slug])
    if (
        sample_tenants.load_progress(who.tenant).done
        and urlsplit(request.headers.get("HX-Current-URL", "")).path == overview
    ):
        # Let the browser load the overview again, because the open overview still says that the sample is loading, or
        # shows only a part of the numbers.
        answer["HX-Refresh"] = "true"
    return answer


urlpatterns = [
    path("connect/", page, name="connect"),
    path("connect/arrived/", show_arrival, name="connect_arrived"),
    path("connect/key/", make_key, name="connect_key"),
    path("connect/key/use/", use_key, name="connect_key_use"),
    path("start/", start, name="start"),
    path("sample/", make_sample, name="sample"),
    path("sample/remove/", remove_sample, name="sample_remove"),
    path("sample/progress/", sample_progress, name="sample_progress"),
]
