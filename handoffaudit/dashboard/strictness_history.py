"""The versions of the strictness table: what each changed, what lies between two, and back to an old one."""

from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import path, reverse
from django.views.decorators.http import require_POST, require_safe

from handoffaudit.accounts.models import Role
from handoffaudit.dashboard.access import Who, page_for
from handoffaudit.dashboard.strictness_words import Line, lines
from handoffaudit.policy import strictness
from handoffaudit.policy.errors import NoSuchVersion
from handoffaudit.policy.strictness import Stale, Table

PAGE_SIZE = 20
MOST_DIGITS = 9


@dataclass(frozen=True, slots=True)
class Entry:
    table: Table
    lines: list[Line]


@page_for(Role.VIEWER)
@require_safe
def history(request: HttpRequest, who: Who) -> HttpResponse:
    return _history(request, who)


@page_for(Role.VIEWER)
@require_safe
def compare(request: HttpRequest, who: Who) -> HttpResponse:
    old = _version(who, request.GET.get("from", ""))
    new = _version(who, request.GET.get("to", ""))
    context = {
        "old": old,
        "new": new,
        "lines": lines(strictness.difference(old.rows, new.rows)),
        "current": strictness.current(who.tenant),
    }
    return render(request, "dashboard/strictness/compare.html", context)


@page_for(Role.ADMIN)
@require_POST
def revert(request: HttpRequest, who: Who) -> HttpResponse:
    target = _version(who, request.POST.get("to_version", ""))
    base = _number(request.POST.get("base_version", ""))
    try:
        saved = strictness.revert(
            tenant=who.tenant,
            to_version=target.version,
            base_version=-1 if base is None else base,
            actor=who.person.username,
        )
    except Stale as stale:
        now = stale.current
        messages.error(
            request, f"Not reverted: {now.changed_by} saved version {now.version} meanwhile. Look at it first."
        )
        return _history(request, who, status=409)
    if saved.version == base:
        messages.info(request, f"Version {target.version} is the same as the one in force: nothing was changed.")
    else:
        messages.success(request, f"Back to version {target.version}, saved as version {saved.version}.")
    return redirect("dashboard:strictness_history", tenant=who.tenant.slug)


def _history(request: HttpRequest, who: Who, status: int = 200) -> HttpResponse:
    before = _number(request.GET.get("before", ""))
    versions = strictness.history(who.tenant, before=before, limit=PAGE_SIZE)
    entries = [Entry(version.table, lines(version.changes)) for version in versions]
    address = reverse("dashboard:strictness_history", args=[who.tenant.slug])
    last = entries[-1].table.version if entries else 0
    context: dict[str, Any] = {
        "entries": entries,
        "current": strictness.current(who.tenant),
        "newest": address if before is not None else "",
        "next": f"{address}?before={last}" if last > 0 else "",
    }
    return render(request, "dashboard/strictness/history.html", context, status=status)


def _version(who: Who, text: str) -> Table:
    number = _number(text)
    if number is None:
        raise Http404("There is no such version.")
    try:
        return strictness.at_version(who.tenant, number)
    except NoSuchVersion as missing:
        raise Http404(str(missing)) from missing


def _number(text: str) -> int | None:
    digits = text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS
    return int(text) if digits else None


urlpatterns = [
    path("strictness/history/", history, name="strictness_history"),
    path("strictness/compare/", compare, name="strictness_compare"),
    path("strictness/revert/", revert, name="strictness_revert"),
]
