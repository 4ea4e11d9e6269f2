"""First steps in an empty tenant: commands for a first handoff, the page that waits for it, and sample data."""

import json
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.loader import render_to_string
from django.urls import path, reverse
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from handoffaudit.accounts import keys
from handoffaudit.accounts.errors import Refused
from handoffaudit.accounts.models import Key, Membership, Role, Scope, Tenant
from handoffaudit.dashboard import live
from handoffaudit.dashboard.access import TenantMembership, render_page, require_role
from handoffaudit.dashboard.diagnostics import llm_health
from handoffaudit.dashboard.settings import keys as settings_keys
from handoffaudit.diagnostics import sample_tenants
from handoffaudit.handoffs import queries
from handoffaudit.handoffs.filters import Filters, first_id_at
from handoffaudit.handoffs.models import WAITING_STATES, ActorKind, Event, Handoff, State

# The commands contain this placeholder where the page created no key.
NO_SECRET = "YOUR_KEY"  # noqa: S105 -- it is none

LONG_CHAIN = ("intake", "triage", "planner", "researcher", "checker", "planner-2")


@dataclass(frozen=True, slots=True)
class Command:
    """A command to copy; `name` is the id of its element, and `label` says whom the command is for."""

    name: str
    label: str
    text: str


def first(server: str, secret: str, tenant_slug: str) -> list[Command]:
    """Return commands in three languages that send a handoff which is accepted."""
    body = _body(tenant_slug, ["planner"])
    return [
        Command("first-curl", "Shell: Linux, macOS, Git Bash", _curl(server, secret, body)),
        Command("first-powershell", "Windows: PowerShell", _powershell(server, secret, body)),
        Command("first-python", "Python, nothing to install", _python(server, secret, body)),
    ]


def one_to_decide(server: str, secret: str, tenant_slug: str) -> Command:
    """Return a command that sends a handoff which is held for a person, because its chain is long."""
    return Command("held-curl", "", _curl(server, secret, _body(tenant_slug, list(LONG_CHAIN))))


def _body(tenant_slug: str, chain: list[str]) -> dict[str, Any]:
    return {
        "document": {
            "tenant_id": tenant_slug,
            "source_agent_id": chain[-1],
            "target_agent_id": "writer",
            "call_chain": chain,
            "handoff_type": "status_update",
            "data": {"summary": "Three suppliers deliver within a week."},
        }
    }


def _curl(server: str, secret: str, body: dict[str, Any]) -> str:
    return (
        f"curl '{server}/api/v1/handoffs' \\\n"
        f"  -H 'Authorization: Bearer {secret}' \\\n"
        f"  -H 'Content-Type: application/json' -H 'Prefer: wait=10' \\\n"
        f"  -d '{json.dumps(body, indent=2)}'"
    )


def _powershell(server: str, secret: str, body: dict[str, Any]) -> str:
    return (
        f"Invoke-RestMethod {server}/api/v1/handoffs -Method Post -ContentType application/json `\n"
        f"  -Headers @{{ Authorization = 'Bearer {secret}'; Prefer = 'wait=10' }} `\n"
        f"  -Body '{json.dumps(body, indent=2)}'"
    )


def _python(server: str, secret: str, body: dict[str, Any]) -> str:
    return (
        "import json, urllib.request\n\n"
        f"handoff = {json.dumps(body, indent=4)}\n"
        "request = urllib.request.Request(\n"
        f'    "{server}/api/v1/handoffs",\n'
        "    data=json.dumps(handoff).encode(),\n"
        f'    headers={{"Authorization": "Bearer {secret}", "Prefer": "wait=10",\n'
        '             "Content-Type": "application/json"},\n'
        ")\n"
        "print(urllib.request.urlopen(request).read().decode())"
    )


TEMPLATE = "dashboard/first_run/page.html"

LIVE_PARTS = tuple(f"dashboard/first_run/{part}.html" for part in ("arrived", "lead", "sent"))

KEY_NAME = "first steps"

SCOPES = (Scope.INGEST, Scope.READ)

MOST_ADMINS = 5

# The page waits this long for the first handoff that uses a new key.
LATELY = timedelta(hours=24)


@dataclass(frozen=True, slots=True)
class Steps:
    """The finished steps.

    `newest` is the newest handoff; where a key was created within `LATELY` (`new_key` is its name), `newest`
    is the first handoff that arrived with this key, however many arrived before.
    """

    key_made: bool
    newest: Handoff | None
    decided: bool
    invited: bool
    any_came: bool = False
    new_key: str = ""

    @property
    def arrived(self) -> bool:
        return self.any_came or self.newest is not None

    @property
    def judged(self) -> bool:
        return self.newest is not None and self.newest.state not in WAITING_STATES

    @property
    def seen(self) -> str:
        """Return a fingerprint of the newest handoff, which the page sends back to receive only changes."""
        return f"{self.newest.pk.hex}.{self.newest.version}" if self.newest else "nothing"

    @property
    def done(self) -> int:
        return sum((self.key_made, self.arrived, self.decided, self.invited))


@require_role(Role.VIEWER)
@require_safe
def start(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    return page(request, who, secret=settings_keys.take_secret(request, who, "start")[1])


@require_role(Role.ADMIN)
@require_POST
def make_key(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    """Create a real API key, which the next page shows once: in the commands to copy, and by itself."""
    try:
        _, secret = keys.create(
            tenant=who.tenant, name=KEY_NAME, scopes=SCOPES, expires_at=None, actor=who.person.username
        )
    except Refused as refused:
        messages.error(request, refused.message)
        return redirect("dashboard:start", tenant=who.tenant.slug)
    return settings_keys.redirect_with_secret(
        reverse("dashboard:start", args=[who.tenant.slug]), request, who, "start", secret
    )


@require_role(Role.VIEWER)
@require_safe
def arrived(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    """Answer the sections that wait, where a handoff arrived or was judged since."""
    steps = steps_of(who.tenant)
    if request.GET.get("seen", "") == steps.seen:
        return live.answer(request, who)
    context = {"steps": steps, "who": who, "may_admin": who.may(Role.ADMIN), "may_review": who.may(Role.REVIEWER)}
    return live.answer(request, who, [render_to_string(part, context, request) for part in LIVE_PARTS])


def page(request: HttpRequest, who: TenantMembership, *, secret: str = "") -> HttpResponse:
    """Render the whole page; `secret` is set if a key was just created."""
    server = settings.PUBLIC_URL or request.build_absolute_uri("/").rstrip("/")
    shown = secret or NO_SECRET
    context: dict[str, Any] = {
        "steps": steps_of(who.tenant),
        "secret": secret,
        "commands": first(server, shown, who.tenant.slug),
        "held": one_to_decide(server, shown, who.tenant.slug),
        "administrators": administrators(who.tenant),
        # An open alert may say that no handoffs arrive.
        "alerts": llm_health.open_alerts(who.tenant),
    }
    return render_page(request, TEMPLATE, context)


def steps_of(tenant: Tenant) -> Steps:
    decided = (State.APPROVED.value, State.DECLINED.value)
    newest = next(iter(queries.list_handoffs(tenant, Filters(), limit=1).items), None)
    made = Key.objects.filter(tenant=tenant, revoked_at=None, created_at__gt=timezone.now() - LATELY)
    key = made.order_by("-pk").first()
    return Steps(
        key_made=Key.objects.filter(tenant=tenant).exists(),
        newest=_first_of(tenant, key) if key else newest,
        any_came=newest is not None,
        new_key=key.name if key else "",
        decided=bool(queries.list_handoffs(tenant, Filters(state=decided), limit=1).items),
        invited=Membership.objects.filter(tenant=tenant).order_by()[:2].count() > 1,
    )


def _first_of(tenant: Tenant, key: Key) -> Handoff | None:
    """Return the first handoff that arrived with a key; a key that was never used needs no search."""
    if key.last_used_at is None:
        return None
    arrivals = Event.objects.filter(
        tenant=tenant,
        handoff__gte=first_id_at(key.created_at),
        from_state="",
        actor_kind=ActorKind.KEY,
        actor=key.name,
    )
    found = arrivals.order_by("handoff").values_list("handoff", flat=True).first()
    return queries.of_tenant(tenant).filter(pk=found).first() if found else None


def administrators(tenant: Tenant) -> list[str]:
    """Return the names of the administrators whom a member can ask."""
    admins = Membership.objects.filter(tenant=tenant, role=Role.ADMIN, person__is_active=True)
    return list(admins.order_by("person__username").values_list("person__username", flat=True)[:MOST_ADMINS])


step_urls = [
    path("start/", start, name="start"),
    path("start/key/", make_key, name="start_key"),
    path("start/arrived/", arrived, name="start_arrived"),
]


@require_role(Role.ADMIN)
@require_POST
def make(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    """Create a sample tenant for this person and redirect to its overview."""
    try:
        tenant = sample_tenants.create_sample(person=who.person, origin=who.tenant)
    except Refused as refused:
        messages.error(request, refused.message)
        return redirect("dashboard:overview", tenant=who.tenant.slug)
    return redirect("dashboard:overview", tenant=tenant.slug)


@require_role(Role.ADMIN)
@require_POST
def remove(request: HttpRequest, who: TenantMembership) -> HttpResponse:
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
def progress(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    """Answer the sample banner, which polls until the sample is complete."""
    if not who.tenant.is_sample:
        raise Http404("This tenant is not a sample tenant.")
    answer = render_page(request, "components/sample_banner.html", {})
    overview = reverse("dashboard:overview", args=[who.tenant.slug])
    if (
        sample_tenants.load_progress(who.tenant).done
        and urlsplit(request.headers.get("HX-Current-URL", "")).path == overview
    ):
        # The overview says that the sample is on its way, or shows only a part of its numbers.
        answer["HX-Refresh"] = "true"
    return answer


sample_urls = [
    path("sample/", make, name="sample"),
    path("sample/remove/", remove, name="sample_remove"),
    path("sample/progress/", progress, name="sample_progress"),
]

urlpatterns = [*step_urls, *sample_urls]
