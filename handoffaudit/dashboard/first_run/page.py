"""First steps: a key, the first handoff seen to arrive, a decision, and people. The Overview of an empty tenant, and a
page of its own."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.loader import render_to_string
from django.urls import path, reverse
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from handoffaudit.accounts import keys
from handoffaudit.accounts.errors import Refused
from handoffaudit.accounts.models import Key, Membership, Role, Scope, Tenant
from handoffaudit.dashboard import alerts, live, once
from handoffaudit.dashboard.access import Who, page_for
from handoffaudit.dashboard.first_run import commands
from handoffaudit.dashboard.partials import render_page
from handoffaudit.handoffs import queries
from handoffaudit.handoffs.filters import Filters, first_id_at
from handoffaudit.handoffs.models import WAITING_STATES, ActorKind, Event, Handoff, State

TEMPLATE = "dashboard/first_run/page.html"
LIVE_PARTS = tuple(f"dashboard/first_run/{part}.html" for part in ("arrived", "lead", "sent"))
KEY_NAME = "first steps"
SCOPES = (Scope.INGEST, Scope.READ)
MOST_ADMINS = 5
# For so long a new key's first handoff is waited for.
LATELY = timedelta(hours=24)


@dataclass(frozen=True, slots=True)
class Steps:
    """What is done. `newest` is the handoff that came last; where a key was made lately (`new_key`: its name), the
    first that came with it, however many came before."""

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
        """What a page that shows this has, so that it hears of more only."""
        return f"{self.newest.pk.hex}.{self.newest.version}" if self.newest else "nothing"

    @property
    def done(self) -> int:
        return sum((self.key_made, self.arrived, self.decided, self.invited))


@page_for(Role.VIEWER)
@require_safe
def start(request: HttpRequest, who: Who) -> HttpResponse:
    return page(request, who, secret=once.take(request, who, "start")[1])


@page_for(Role.ADMIN)
@require_POST
def make_key(request: HttpRequest, who: Who) -> HttpResponse:
    """A real key, shown once: as part of the commands to copy, and by itself."""
    try:
        _, secret = keys.create(
            tenant=who.tenant, name=KEY_NAME, scopes=SCOPES, expires_at=None, actor=who.person.username
        )
    except Refused as refused:
        messages.error(request, refused.message)
        return redirect("dashboard:start", tenant=who.tenant.slug)
    return once.shown_at(reverse("dashboard:start", args=[who.tenant.slug]), request, who, "start", secret)


@page_for(Role.VIEWER)
@require_safe
def arrived(request: HttpRequest, who: Who) -> HttpResponse:
    """The part that waits, where something came or was judged since."""
    steps = steps_of(who.tenant)
    if request.GET.get("seen", "") == steps.seen:
        return live.answer(request, who)
    context = {"steps": steps, "who": who, "may_admin": who.may(Role.ADMIN), "may_review": who.may(Role.REVIEWER)}
    return live.answer(request, who, [render_to_string(part, context, request) for part in LIVE_PARTS])


def page(request: HttpRequest, who: Who, *, secret: str = "") -> HttpResponse:
    """The whole page; `secret` where a key was just made."""
    server = settings.PUBLIC_URL or request.build_absolute_uri("/").rstrip("/")
    shown = secret or commands.NO_SECRET
    context: dict[str, Any] = {
        "steps": steps_of(who.tenant),
        "secret": secret,
        "commands": commands.first(server, shown, who.tenant.slug),
        "held": commands.one_to_decide(server, shown, who.tenant.slug),
        "administrators": administrators(who.tenant),
        # One of them may be that nothing comes.
        "alerts": alerts.told(who.tenant),
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
    """The first handoff that came with a key. One that was never used is not looked for."""
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
    """Whom to ask."""
    admins = Membership.objects.filter(tenant=tenant, role=Role.ADMIN, person__is_active=True)
    return list(admins.order_by("person__username").values_list("person__username", flat=True)[:MOST_ADMINS])


urlpatterns = [
    path("start/", start, name="start"),
    path("start/key/", make_key, name="start_key"),
    path("start/arrived/", arrived, name="start_arrived"),
]
