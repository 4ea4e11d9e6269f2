"""The versions of a policy: what each changed, what lies between two, and back to an old one."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import URLPattern, path, reverse
from django.views.decorators.http import require_POST, require_safe

from handoffaudit.accounts.models import Role
from handoffaudit.dashboard.access import Who, page_for
from handoffaudit.dashboard.policies.drafts import line_of, number
from handoffaudit.dashboard.policies.pages import PolicyPage
from handoffaudit.dashboard.policies.words import MOST_COMPARED, MOST_OF_A_VERSION, Lines
from handoffaudit.policy.errors import NoSuchVersion
from handoffaudit.policy.versions import Stale, Table

PAGE_SIZE = 20


@dataclass(frozen=True, slots=True)
class Entry:
    table: Table[Any]
    lines: Lines


def urls(page: PolicyPage[Any]) -> list[URLPattern]:
    """The addresses of a kind's history."""
    below = page.below or page.name
    return [
        path(f"{below}/history/", _history_of(page), name=f"{page.name}_history"),
        path(f"{below}/compare/", _compare_of(page), name=f"{page.name}_compare"),
        path(f"{below}/revert/", _revert_of(page), name=f"{page.name}_revert"),
    ]


def _history_of(page: PolicyPage[Any]) -> Callable[..., HttpResponse]:
    @page_for(Role.VIEWER)
    @require_safe
    def history(request: HttpRequest, who: Who) -> HttpResponse:
        return _history(request, who, page)

    return history


def _compare_of(page: PolicyPage[Any]) -> Callable[..., HttpResponse]:
    @page_for(Role.VIEWER)
    @require_safe
    def compare(request: HttpRequest, who: Who) -> HttpResponse:
        old = _version(who, page, request.GET.get("from", ""))
        new = _version(who, page, request.GET.get("to", ""))
        return _difference(request, who, page, old, new)

    return compare


def _revert_of(page: PolicyPage[Any]) -> Callable[..., HttpResponse]:
    @page_for(Role.ADMIN)
    @require_POST
    def revert(request: HttpRequest, who: Who) -> HttpResponse:
        target = _version(who, page, request.POST.get("to_version", ""))
        base = number(request.POST.get("base_version", ""))
        try:
            saved = page.versions.revert(
                tenant=who.tenant,
                to_version=target.version,
                base_version=-1 if base is None else base,
                actor=who.person.username,
                note=line_of(request.POST, "note"),
            )
        except Stale as stale:
            now = stale.current
            text = f"Not reverted: {now.changed_by} saved version {now.version} meanwhile. Look at it first."
            messages.error(request, text)
            return _difference(request, who, page, now, target, status=409)
        if saved.version == base:
            messages.info(request, f"Version {target.version} is the same as the one in force: nothing was changed.")
        else:
            messages.success(request, f"Back to version {target.version}, saved as version {saved.version}.")
        return redirect(f"{page.url}_history", tenant=who.tenant.slug)

    return revert


def _difference(
    request: HttpRequest, who: Who, page: PolicyPage[Any], old: Table[Any], new: Table[Any], status: int = 200
) -> HttpResponse:
    """What lies between two versions; from the one in force it is what going back would change."""
    current = page.versions.current(who.tenant)
    context = {
        "kind": page,
        "old": old,
        "new": new,
        "lines": Lines.of(page.lines(page.versions.difference(old.rows, new.rows)), MOST_COMPARED),
        "current": current,
        "may_open": who.may(page.least),
        "goes_back": old.version == current.version != new.version,
        "note": line_of(request.POST, "note"),
    }
    return render(request, "dashboard/policy/compare.html", context, status=status)


def _history(request: HttpRequest, who: Who, page: PolicyPage[Any], status: int = 200) -> HttpResponse:
    before = number(request.GET.get("before", ""))
    versions = page.versions.history(who.tenant, before=before, limit=PAGE_SIZE)
    entries = [Entry(version.table, Lines.of(page.lines(version.changes), MOST_OF_A_VERSION)) for version in versions]
    address = reverse(f"{page.url}_history", args=[who.tenant.slug])
    last = entries[-1].table.version if entries else 0
    context: dict[str, Any] = {
        "kind": page,
        "may_open": who.may(page.least),
        "entries": entries,
        "current": page.versions.current(who.tenant),
        "newest": address if before is not None else "",
        "next": f"{address}?before={last}" if last > 0 else "",
    }
    return render(request, "dashboard/policy/history.html", context, status=status)


def _version(who: Who, page: PolicyPage[Any], text: str) -> Table[Any]:
    wanted = number(text)
    if wanted is None:
        raise Http404("There is no such version.")
    try:
        return page.versions.at_version(who.tenant, wanted)
    except NoSuchVersion as missing:
        raise Http404(str(missing)) from missing
