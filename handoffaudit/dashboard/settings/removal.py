"""The pages of legal holds and of erasures, which belong to the retention of data."""

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import path, reverse
from django.views.decorators.http import require_POST, require_safe

from handoffaudit.accounts import Refused
from handoffaudit.accounts.models import Role
from handoffaudit.dashboard.access import TenantMembership, require_role
from handoffaudit.dashboard.policies.forms import number
from handoffaudit.diagnostics import erasure
from handoffaudit.diagnostics.models import Erasure, ErasureState
from handoffaudit.diagnostics.removal import TITLES
from handoffaudit.handoffs import legal_holds
from handoffaudit.handoffs.models import HoldScope, LegalHold

# The number of holds on one page.
MOST_HOLDS: Final = 100
SCOPES: Final = (
    (HoldScope.HANDOFF.value, "One handoff"),
    (HoldScope.TRACE.value, "One trace"),
    (HoldScope.TENANT.value, "The whole tenant"),
)
STATES: Final = {
    ErasureState.COUNTING: "Counting",
    ErasureState.COUNTED: "Waits for your confirmation",
    ErasureState.ERASING: "Erasing",
    ErasureState.DONE: "Erased",
    ErasureState.CANCELLED: "Cancelled",
}
# A request for a value with an unfinished erasure returns that erasure, which may have been counted or confirmed.
REQUESTED: Final = {
    ErasureState.COUNTING: "A worker counts the rows with this value. Nothing is changed before you confirm.",
    ErasureState.COUNTED: "The rows with this value are counted already. Nothing is changed before you confirm.",
    ErasureState.ERASING: "This value is being erased already.",
}


@dataclass(frozen=True, slots=True)
class ErasureRow:
    """An erasure with its state in words and its counts of rows: with the value, changed, and kept by a legal hold."""

    item: Erasure

    @property
    def state(self) -> str:
        return STATES[ErasureState(self.item.state)]

    @property
    def may_confirm(self) -> bool:
        return self.item.state == ErasureState.COUNTED

    @property
    def may_cancel(self) -> bool:
        return self.item.state in (ErasureState.COUNTING, ErasureState.COUNTED)

    @property
    def counts(self) -> list[tuple[str, int, int, int]]:
        """Return the title of each kind of row, and the numbers found, changed and held."""
        parts = (self.item.found, self.item.erased, self.item.held)
        return [
            (title, *(part.get(name, 0) for part in parts))
            for name, title in TITLES.items()
            if any(name in part for part in parts)
        ]


@require_role(Role.ADMIN)
@require_safe
def holds_page(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    return _holds(request, who, request.GET)


def _holds(
    request: HttpRequest, who: TenantMembership, given: Mapping[str, str], error: str = "", status: int = 200
) -> HttpResponse:
    before = number(given.get("before", ""))
    found = legal_holds.list_holds(who.tenant, before=before, limit=MOST_HOLDS + 1)
    address = reverse("dashboard:holds", args=[who.tenant.slug])
    context = {
        "tab": "retention",
        "holds": found[:MOST_HOLDS],
        "newest": address if before is not None else "",
        "next": f"{address}?before={found[MOST_HOLDS - 1].pk}" if len(found) > MOST_HOLDS else "",
        "scopes": SCOPES,
        "scope": given.get("scope", ""),
        "key": given.get("key", "")[: legal_holds.LONGEST_KEY],
        "reason": given.get("reason", "")[: legal_holds.LONGEST_REASON],
        "error": error,
    }
    return render(request, "dashboard/settings/holds.html", context, status=status)


@require_role(Role.ADMIN)
@require_POST
def place_hold(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    given = {name: request.POST.get(name, "") for name in ("scope", "key", "reason")}
    try:
        made = legal_holds.place(tenant=who.tenant, **given, actor=who.person.username)
    except Refused as refused:
        return _holds(request, who, given, refused.message, status=400)
    messages.success(request, f"Hold {made.pk} is active. Nothing that it names is removed.")
    return redirect("dashboard:holds", tenant=who.tenant.slug)


@require_role(Role.ADMIN)
@require_POST
def lift_hold(request: HttpRequest, who: TenantMembership, pk: int) -> HttpResponse:
    try:
        legal_holds.lift(tenant=who.tenant, hold=pk, reason=request.POST.get("reason", ""), actor=who.person.username)
    except LegalHold.DoesNotExist:
        raise Http404("There is no such legal hold.") from None
    except Refused as refused:
        messages.error(request, f"Not lifted. {refused.message}")
    else:
        messages.success(request, f"Hold {pk} is lifted.")
    return redirect("dashboard:holds", tenant=who.tenant.slug)


@require_role(Role.ADMIN)
@require_safe
def erasures_page(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    return _erasures(request, who, {})


def _erasures(
    request: HttpRequest, who: TenantMembership, given: Mapping[str, str], error: str = "", status: int = 200
) -> HttpResponse:
    context: dict[str, Any] = {
        "tab": "retention",
        "erasures": [ErasureRow(one) for one in erasure.list_erasures(who.tenant)],
        "value": given.get("value", "")[: erasure.LONGEST],
        "reason": given.get("reason", "")[: erasure.LONGEST_REASON],
        "error": error,
        "shortest": erasure.SHORTEST,
        "longest": erasure.LONGEST,
    }
    return render(request, "dashboard/settings/erasures.html", context, status=status)


@require_role(Role.ADMIN)
@require_POST
def request_erasure(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    given = {name: request.POST.get(name, "") for name in ("value", "reason")}
    try:
        made = erasure.request(tenant=who.tenant, **given, actor=who.person.username)
    except Refused as refused:
        return _erasures(request, who, given, refused.message, status=400)
    messages.success(request, REQUESTED[ErasureState(made.state)])
    return redirect("dashboard:erasures", tenant=who.tenant.slug)


@require_role(Role.ADMIN)
@require_POST
def confirm_erasure(request: HttpRequest, who: TenantMembership, pk: uuid.UUID) -> HttpResponse:
    return _change(request, who, pk, erasure.confirm, "The value is being erased.")


@require_role(Role.ADMIN)
@require_POST
def cancel_erasure(request: HttpRequest, who: TenantMembership, pk: uuid.UUID) -> HttpResponse:
    return _change(request, who, pk, erasure.cancel, "The erasure is cancelled. Nothing was changed.")


def _change(
    request: HttpRequest, who: TenantMembership, pk: uuid.UUID, change: Callable[..., Erasure], done: str
) -> HttpResponse:
    try:
        change(tenant=who.tenant, erasure=pk, actor=who.person.username)
    except Erasure.DoesNotExist:
        raise Http404("There is no such erasure.") from None
    except Refused as refused:
        messages.error(request, refused.message)
    else:
        messages.success(request, done)
    return redirect("dashboard:erasures", tenant=who.tenant.slug)


urlpatterns = [
    path("settings/retention/holds/", holds_page, name="holds"),
    path("settings/retention/holds/place/", place_hold, name="hold_place"),
    path("settings/retention/holds/<int:pk>/lift/", lift_hold, name="hold_lift"),
    path("settings/retention/erasures/", erasures_page, name="erasures"),
    path("settings/retention/erasures/request/", request_erasure, name="erasure_request"),
    path("settings/retention/erasures/<uuid:pk>/confirm/", confirm_erasure, name="erasure_confirm"),
    path("settings/retention/erasures/<uuid:pk>/cancel/", cancel_erasure, name="erasure_cancel"),
]
