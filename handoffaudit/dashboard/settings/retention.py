"""The retention of each kind of data, a preview of the next deletion, and the version history."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import path
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from handoffaudit.accounts.models import Role, Tenant
from handoffaudit.dashboard.access import TenantMembership, require_role
from handoffaudit.dashboard.policies import base
from handoffaudit.dashboard.policies.base import PolicyPage
from handoffaudit.dashboard.policies.forms import Line, number
from handoffaudit.diagnostics import retention_run
from handoffaudit.diagnostics.retention_run import Count, Standing
from handoffaudit.policy.kinds import retention
from handoffaudit.policy.retention import (
    KIND_TEXTS,
    LEAST,
    MOST,
    Data,
    KindText,
    Retention,
    RetentionModel,
    parse_row,
    warning_of,
)
from handoffaudit.policy.values import InvalidPolicy
from handoffaudit.policy.versions import WHOLE_ROW, Change, Stale, Table
from handoffaudit.validation.text import pluralize

LONGEST_DAYS: Final = 40
FOR_GOOD: Final = "kept forever"


def lines(changes: Iterable[Change]) -> list[Line]:
    """Describe changes of retention."""
    found = []
    for change in changes:
        old, new = (_days(value) for value in (change.old, change.new))
        if change.field != WHOLE_ROW:
            found.append(Line(KIND_TEXTS[Data(change.row)].title, "Kept", old, new))
    return found


def _days(value: Any) -> str:
    return FOR_GOOD if value is None else pluralize(int(value), "day")


PAGE: PolicyPage[Retention] = PolicyPage(
    retention, "Retention", "Everything is kept forever, deliveries for 14 days.", lines
)


@dataclass(frozen=True, slots=True)
class Preview:
    """The effect of saving a number of days."""

    days: int | None
    goes: str
    before: datetime | None
    is_any: bool


@dataclass(slots=True)
class Card:
    """One kind of data: the stored amount, its rule and its form; `preview` is the effect of the entered days."""

    standing: Standing
    given: str
    changed: tuple[str, datetime] | None
    error: str = ""
    preview: Preview | None = None

    @property
    def name(self) -> str:
        return self.standing.rule.name.value

    @property
    def words(self) -> KindText:
        return KIND_TEXTS[self.standing.rule.name]

    @property
    def kept(self) -> str:
        days = self.standing.rule.days
        return FOR_GOOD if days is None else f"kept for {_days(days)}"

    @property
    def warning(self) -> str:
        """Return the warning for the entered days, or else for the days in force."""
        rule = self.standing.rule
        return warning_of(rule if self.preview is None else Retention(rule.name, self.preview.days))

    @property
    def there(self) -> str:
        return _said(self.standing.rule.name, self.standing.there)

    @property
    def goes(self) -> str:
        return _said(self.standing.rule.name, self.standing.goes) if self.standing.goes else "nothing"

    @property
    def label(self) -> str | None:
        return RetentionModel.model_fields["days"].title

    @property
    def help(self) -> str:
        return f"{LEAST[self.standing.rule.name]} to {MOST:,}; empty: forever"


@require_role(Role.ADMIN)
@require_safe
def retention_page(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    if "kind" not in request.GET:
        return _page(request, who)
    return _previewed(request, who, _data(request.GET.get("kind", "")), request.GET.get("days", ""))


@require_role(Role.ADMIN)
@require_POST
def save(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    data, text = _data(request.POST.get("kind", "")), request.POST.get("days", "")
    base = number(request.POST.get("base_version", ""))
    try:
        row = _row(data, text)
        saved = retention.upsert_row(
            tenant=who.tenant, base_version=-1 if base is None else base, row=row, actor=who.person.username
        )
    except InvalidPolicy:
        return _previewed(request, who, data, text)
    except Stale as stale:
        now = stale.current
        messages.error(request, f"Not saved: {now.changed_by} saved version {now.version} meanwhile. Look at it first.")
        return _previewed(request, who, data, text, status=409)
    title = KIND_TEXTS[data].title
    if saved.version == base:
        messages.info(request, "Nothing was changed.")
    elif row.days is None:
        messages.success(request, f"{title} are kept forever from now on.")
    else:
        messages.success(request, f"{title} are kept for {_days(row.days)}. Saved as version {saved.version}.")
    return redirect("dashboard:retention", tenant=who.tenant.slug)


def _data(text: str) -> Data:
    try:
        return Data(text)
    except ValueError as error:
        raise Http404("There is no such kind of data.") from error


def _row(data: Data, text: str) -> Retention:
    """Return the row that the form describes; raise `InvalidPolicy` for a bad number of days."""
    text = text.strip()[:LONGEST_DAYS]
    days: Any = None if not text else number(text)
    return parse_row({"name": data.value, "days": text if text and days is None else days})


def _previewed(
    request: HttpRequest, who: TenantMembership, data: Data, text: str, *, status: int = 200
) -> HttpResponse:
    """Render the page with the effect of the entered days."""
    try:
        row = _row(data, text)
    except InvalidPolicy as invalid:
        error = " ".join(f"{one.message} {one.remedy}" for one in invalid.errors)
        return _page(request, who, {data: (text[:LONGEST_DAYS], error, None)}, status=400)
    return _page(request, who, {data: (text.strip(), "", _preview(who.tenant, row))}, status=status)


def _preview(tenant: Tenant, row: Retention) -> Preview:
    at = timezone.now() + retention_run.first_after()
    goes = retention_run.count_going(tenant, row.name, row.days, at)
    before = None if row.days is None else at - timedelta(days=row.days)
    return Preview(row.days, _said(row.name, goes), before, bool(goes))


def _page(
    request: HttpRequest,
    who: TenantMembership,
    entered: dict[Data, tuple[str, str, Preview | None]] | None = None,
    *,
    status: int = 200,
) -> HttpResponse:
    table = retention.current(who.tenant)
    changed = _changed(who.tenant)
    cards = []
    for one in retention_run.list_standings(who.tenant, table):
        name, days = one.rule.name, one.rule.days
        given, error, preview = (entered or {}).get(name, ("" if days is None else str(days), "", None))
        cards.append(Card(one, given, changed.get(name), error, preview))
    context = {"tab": "retention", "cards": cards, "table": table, "for_good": FOR_GOOD}
    return render(request, "dashboard/settings/retention.html", context, status=status)


def _changed(tenant: Tenant) -> dict[str, tuple[str, datetime]]:
    """Return who last changed the rule of each kind, and when, as far back as one page of the history reaches."""
    found: dict[str, tuple[str, datetime]] = {}
    for version in retention.history(tenant):
        table: Table[Retention] = version.table
        for change in version.changes:
            if table.changed_at is not None:
                found.setdefault(change.row, (table.changed_by, table.changed_at))
    return found


def _said(data: Data, count: Count) -> str:
    words = KIND_TEXTS[data]
    if not count:
        return f"no {words.one}"
    return f"{'more than ' if count.more else ''}{pluralize(count.number, words.one, words.many)}"


urlpatterns = [
    path("settings/retention/", retention_page, name="retention"),
    path("settings/retention/save/", save, name="retention_save"),
    *base.urls(PAGE),
]
