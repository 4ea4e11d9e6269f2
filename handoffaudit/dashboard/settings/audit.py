"""The audit log: who did what, newest first, and whether it is whole."""

from typing import Any
from urllib.parse import urlencode

from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render
from django.urls import path, reverse
from django.views.decorators.http import require_safe

from handoffaudit.accounts import audit
from handoffaudit.accounts.models import Membership, Role
from handoffaudit.dashboard.access import Who, page_for
from handoffaudit.dashboard.settings.audit_words import KINDS, as_recorded, told
from handoffaudit.handoffs.filters import FilterError, Filters

MOST_DIGITS = 18
LONGEST_NAME = 200
MOST_NAMES = 500
ASKED = ("person", "kind", "from", "to")


@page_for(Role.ADMIN)
@require_safe
def audit_page(request: HttpRequest, who: Who) -> HttpResponse:
    before = request.GET.get("before", "")
    usable = before.isascii() and before.isdigit() and len(before) <= MOST_DIGITS
    address = reverse("dashboard:settings_audit", args=[who.tenant.slug])
    asked = {name: text for name in ASKED if (text := request.GET.get(name, "").strip())}
    checked = "check" in request.GET
    context: dict[str, Any] = {
        "tab": "audit",
        "asked": asked,
        "kinds": KINDS,
        "names": Membership.objects.filter(tenant=who.tenant)
        .order_by("person__username")
        .values_list("person__username", flat=True)[:MOST_NAMES],
        "newest": _with(address, asked) if usable else "",
        "checked": checked,
        "broken": audit.verify(who.tenant) if checked else None,
    }
    try:
        found = audit.newest_first(who.tenant, wanted=_wanted(request.GET), before=int(before) if usable else None)
    except FilterError as bad:
        return render(request, "dashboard/settings/audit.html", context | {"bad": bad}, status=400)
    context["told"] = [told(who.tenant, entry) for entry in found.items]
    context["next"] = _with(address, asked | {"before": str(found.before)}) if found.before else ""
    return render(request, "dashboard/settings/audit.html", context)


@page_for(Role.ADMIN)
@require_safe
def entry_page(request: HttpRequest, who: Who, number: int) -> HttpResponse:
    """One entry, with all that was recorded."""
    entry = audit.get_entry(who.tenant, number) if len(str(number)) <= MOST_DIGITS else None
    if entry is None:
        raise Http404("There is no such entry.")
    context = {"tab": "audit", "item": told(who.tenant, entry), "recorded": as_recorded(entry)}
    return render(request, "dashboard/settings/audit_entry.html", context)


def _wanted(given: QueryDict) -> audit.Wanted:
    """Raises `BadFilter`."""
    person, kind = given.get("person", "").strip(), given.get("kind", "").strip()
    if "\0" in person or len(person) > LONGEST_NAME:
        raise FilterError("person", person[:40], f"use a text of at most {LONGEST_NAME} characters.")
    if kind and kind not in KINDS:
        raise FilterError("kind", kind[:40], f"use one of {', '.join(KINDS)}.")
    days = Filters.from_query({name: given.get(name, "") for name in ("from", "to")})
    return audit.Wanted(person, kind, days.since, days.until)


def _with(address: str, query: dict[str, str]) -> str:
    return f"{address}?{urlencode(query)}" if query else address


urlpatterns = [
    path("settings/audit/", audit_page, name="settings_audit"),
    path("settings/audit/<int:number>/", entry_page, name="settings_audit_entry"),
]
