"""The retention of each kind of data, a preview of the next deletion, and the version history."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any, Final

import orjson
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import path
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from handoffaudit.accounts import audit
from handoffaudit.accounts.models import AuditEntry, Role, Tenant
from handoffaudit.dashboard.access import TenantMembership, require_role
from handoffaudit.dashboard.policies import base
from handoffaudit.dashboard.policies.base import PolicyPage
from handoffaudit.dashboard.policies.forms import Line, number
from handoffaudit.diagnostics import retention_run
from handoffaudit.diagnostics.retention_run import Count, Standing
from handoffaudit.diagnostics.retention_targets import Terms
from handoffaudit.handoffs.legal_holds import NO_HOLDS
from handoffaudit.policy.kinds import retention
from handoffaudit.policy.models import Kind, PolicyVersion
from handoffaudit.policy.retention import (
    AS_SHIPPED,
    BY_TYPE,
    FOREVER,
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
from handoffaudit.policy.values import InvalidPolicy, PolicyError, brief
from handoffaudit.policy.versions import WHOLE_ROW, Change, Stale
from handoffaudit.validation.text import pluralize

LONGEST_DAYS: Final = 40
# At most this many of the newest versions are searched for the last change of each rule.
MOST_VERSIONS: Final = 1000
# The page names at most this many lines of types that cannot be read.
MOST_LINE_ERRORS: Final = 3
# The page shows at most this many of the newest runs.
MOST_RUNS: Final = 10
# The page finds the runs among this many of the newest audit entries about retention.
MOST_ENTRIES: Final = 50
FOR_GOOD: Final = "kept forever"
LIKE_OTHERS: Final = "like other types"


def lines(changes: Iterable[Change]) -> list[Line]:
    """Describe changes of retention."""
    found = []
    for change in changes:
        if change.field != WHOLE_ROW:
            field, missing = "Kept", FOR_GOOD
            if change.field != "days":
                field = f"Kept if the type is {change.field.removeprefix('types').removeprefix('.')}"
                missing = LIKE_OTHERS
            old, new = (missing if value is None else _days(value) for value in (change.old, change.new))
            found.append(Line(KIND_TEXTS[Data(change.row)].title, field, old, new))
    return found


def _days(value: Any) -> str:
    return FOR_GOOD if value == FOREVER else pluralize(int(value), "day")


_SHIPPED: Final = ", ".join(
    f"{KIND_TEXTS[row.name].title.lower()} for {_days(row.days)}" for row in AS_SHIPPED if row.days is not None
)

PAGE: PolicyPage[Retention] = PolicyPage(retention, "Retention", f"Kept: {_SHIPPED}, everything else forever.", lines)


@dataclass(frozen=True, slots=True)
class Given:
    """The input for a kind of data: the days, and the days by type as lines `type = days`."""

    data: Data
    days: str
    types: str

    @classmethod
    def of(cls, query: Mapping[str, str]) -> "Given":
        """Return the input of a form. Raise `Http404` if there is no such kind of data."""
        try:
            data = Data(query.get("kind", ""))
        except ValueError as error:
            raise Http404("There is no such kind of data.") from error
        return cls(data, query.get("days", "").strip()[:LONGEST_DAYS], query.get("types", "").strip())

    def row(self) -> Retention:
        """Return the row that the form describes; raise `InvalidPolicy` for bad days or types."""
        days: Any = number(self.days) if self.days else None
        plain = {"name": self.data.value, "days": self.days if self.days and days is None else days}
        return parse_row(plain | {"types": _parse_types(self.data, self.types)} if self.types else plain)


@dataclass(frozen=True, slots=True)
class Run:
    """A run that removed something, as the audit log records it."""

    at: datetime
    what: str
    held: str

    @classmethod
    def of(cls, entry: AuditEntry) -> "Run":
        words, detail = KIND_TEXTS[Data(entry.target)], entry.detail
        held = detail.get("held", 0)
        return cls(
            entry.at,
            f"{pluralize(detail['removed'], words.one, words.many)} in {detail.get('seconds', 0):,.0f} s",
            pluralize(held, words.one, words.many) if held else "",
        )


@dataclass(frozen=True, slots=True)
class Preview:
    """The effect that the entered days would have if they were saved."""

    days: int | None
    by_type: bool
    goes: str
    before: datetime | None
    is_any: bool
    warning: str


@dataclass(slots=True)
class Card:
    """One kind of data: the stored amount, its rule and its form; `preview` is the effect of the entered days."""

    standing: Standing
    given: str
    given_types: str
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
        rule = self.standing.rule
        kept = FOR_GOOD if rule.days is None else f"kept for {_days(rule.days)}"
        return f"{kept}, {pluralize(len(rule.types), 'type')} with other terms" if rule.types else kept

    @property
    def warning(self) -> str:
        """Return the warning for the entered days, or else for the days in force."""
        return warning_of(self.standing.rule) if self.preview is None else self.preview.warning

    @property
    def there(self) -> str:
        return _format_count(self.standing.rule.name, self.standing.there)

    @property
    def goes(self) -> str:
        return _format_count(self.standing.rule.name, self.standing.goes) if self.standing.goes else "nothing"

    @property
    def label(self) -> str | None:
        return RetentionModel.model_fields["days"].title

    @property
    def help(self) -> str:
        return f"{LEAST[self.standing.rule.name]} to {MOST:,}; empty: forever"

    @property
    def types_label(self) -> str | None:
        """Return the label of the terms by type; None for data that belongs to no handoff type."""
        return RetentionModel.model_fields["types"].title if self.standing.rule.name in BY_TYPE else None


@require_role(Role.ADMIN)
@require_safe
def retention_page(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    if "kind" not in request.GET:
        return _page(request, who)
    return _render_preview(request, who, Given.of(request.GET))


@require_role(Role.ADMIN)
@require_POST
def save(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    given = Given.of(request.POST)
    base = number(request.POST.get("base_version", ""))
    try:
        row = given.row()
        saved = retention.upsert_row(
            tenant=who.tenant, base_version=-1 if base is None else base, row=row, actor=who.person.username
        )
    except InvalidPolicy:
        return _render_preview(request, who, given)
    except Stale as stale:
        now = stale.current
        messages.error(request, f"Not saved: {now.changed_by} saved version {now.version} meanwhile. Look at it first.")
        return _render_preview(request, who, given, status=409)
    title = KIND_TEXTS[given.data].title
    if saved.version == base:
        messages.info(request, "Nothing was changed.")
    elif row.types:
        messages.success(request, f"{title}: the terms are saved as version {saved.version}.")
    elif row.days is None:
        messages.success(request, f"{title} are kept forever from now on.")
    else:
        messages.success(request, f"{title} are kept for {_days(row.days)}. Saved as version {saved.version}.")
    return redirect("dashboard:retention", tenant=who.tenant.slug)


def _parse_types(data: Data, text: str) -> dict[str, Any]:
    """Return the days by type from lines `type = days`. A line without days keeps data of its type forever.

    Raise `InvalidPolicy` for lines without "=" and types with two lines: a wrong guess at the meaning of such a line
    would delete data, or keep data forever.
    """
    found: dict[str, Any] = {}
    errors: list[PolicyError] = []
    for line in text.splitlines():
        # The name of a type can have "=", but days cannot.
        name, equals, days = (part.strip() for part in line.rpartition("="))
        if not line.strip():
            continue
        if len(errors) == MOST_LINE_ERRORS:
            break
        if not equals:
            problem = f'The line {brief(line.strip())} has no "=".'
            remedy = 'Write "type = days", with nothing after "=" to keep the type forever.'
            errors.append(PolicyError(data.value, "types", line, problem, remedy))
        elif name in found:
            problem, remedy = f"The type {brief(name)} has two lines.", "Write one line for each type."
            errors.append(PolicyError(data.value, "types", line, problem, remedy))
        else:
            given = number(days)
            found[name] = days[:LONGEST_DAYS] if days and given is None else given
    if errors:
        raise InvalidPolicy(errors)
    return found


def _write_types(types: Mapping[str, int | None]) -> str:
    return "\n".join(f"{name} = {'' if days is None else days}".rstrip() for name, days in types.items())


def _render_preview(request: HttpRequest, who: TenantMembership, given: Given, *, status: int = 200) -> HttpResponse:
    """Render the page with the effect of the entered days."""
    try:
        row = given.row()
    except InvalidPolicy as invalid:
        error = " ".join(f"{one.message} {one.remedy}" for one in invalid.errors)
        return _page(request, who, given, error, status=400)
    return _page(request, who, given, preview=_preview(who.tenant, row), status=status)


def _preview(tenant: Tenant, row: Retention) -> Preview:
    at = timezone.now() + retention_run.first_after()
    goes = retention_run.count_going(tenant, row, at)
    before = Terms(row, at, NO_HOLDS).before if row.terms else None
    return Preview(row.days, bool(row.types), _format_count(row.name, goes), before, bool(goes), warning_of(row))


def _page(
    request: HttpRequest,
    who: TenantMembership,
    given: Given | None = None,
    error: str = "",
    preview: Preview | None = None,
    *,
    status: int = 200,
) -> HttpResponse:
    table = retention.current(who.tenant)
    changed = _find_last_changes(who.tenant)
    cards = []
    for one in retention_run.list_standings(who.tenant, table):
        name, days = one.rule.name, one.rule.days
        card = Card(one, "" if days is None else str(days), _write_types(one.rule.types), changed.get(name))
        if given is not None and given.data is name:
            card.given, card.given_types, card.error, card.preview = given.days, given.types, error, preview
        cards.append(card)
    runs = audit.list_entries(who.tenant, kind="retention", limit=MOST_ENTRIES)
    context = {
        "tab": "retention",
        "cards": cards,
        "table": table,
        "for_good": FOR_GOOD,
        "runs": [Run.of(entry) for entry in runs.items if entry.action == retention_run.REMOVED][:MOST_RUNS],
    }
    return render(request, "dashboard/settings/retention.html", context, status=status)


def _find_last_changes(tenant: Tenant) -> dict[str, tuple[str, datetime]]:
    """Return who last changed the rule of each kind, and when, if that is among the newest `MOST_VERSIONS` versions."""
    versions = PolicyVersion.objects.filter(tenant=tenant, kind=Kind.RETENTION).order_by("-number")
    read = list(versions.values_list("content", "changed_by", "changed_at")[: MOST_VERSIONS + 1])
    # The rules are compared as stored, because parsing all rules of a long history takes much longer than reading them.
    tables: list[Mapping[str, Any]] = [_read_rules(content) for content, _, _ in read]
    if len(tables) <= MOST_VERSIONS:
        tables.append(_SHIPPED_RULES)
    found: dict[str, tuple[str, datetime]] = {}
    for (_, by, at), (later, earlier) in zip(read, pairwise(tables), strict=False):
        for name, rule in later.items():
            if rule != earlier[name]:
                found.setdefault(name, (by, at))
    return found


_SHIPPED_RULES: Final[Mapping[str, Any]] = {rule["name"]: rule for rule in retention.to_plain(AS_SHIPPED)["rows"]}


def _read_rules(content: str) -> dict[str, Any]:
    """Return the rules of a stored version by name. A value that an earlier release did not store is the default."""
    stored = {rule["name"]: rule for rule in orjson.loads(content)["rows"]}
    return {name: shipped | stored.get(name, {}) for name, shipped in _SHIPPED_RULES.items()}


def _format_count(data: Data, count: Count) -> str:
    words = KIND_TEXTS[data]
    if not count:
        return f"no {words.one}"
    return f"{'more than ' if count.more else ''}{pluralize(count.number, words.one, words.many)}"


urlpatterns = [
    path("settings/retention/", retention_page, name="retention"),
    path("settings/retention/save/", save, name="retention_save"),
    *base.urls(PAGE),
]
