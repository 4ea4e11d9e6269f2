"""The strictness table: its rows, their effect, and the switch between shadow and enforce."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from http import HTTPStatus
from typing import Any
from urllib.parse import quote, urlencode

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect
from django.urls import path, reverse
from django.utils import timezone
from django.utils.functional import SimpleLazyObject
from django.views.decorators.http import require_POST, require_safe

from handoffaudit.accounts.models import Role, Tenant
from handoffaudit.dashboard.access import TenantMembership, require_role
from handoffaudit.dashboard.policies.base import PolicyPage, check_version, conflict_message
from handoffaudit.dashboard.policies.forms import line_of, number
from handoffaudit.dashboard.policies.strictness_editor import (
    CELLS,
    NAMES,
    Editor,
    editor_for,
    editor_for_new,
    editor_from,
    lines,
    type_name,
)
from handoffaudit.dashboard.policies.views import Deleting, Editing
from handoffaudit.filter_fields import quote_blanks
from handoffaudit.handoffs import shadow
from handoffaudit.handoffs.rates import BLOCKED, FINAL
from handoffaudit.handoffs.shadow import BlockStats
from handoffaudit.policy import kinds
from handoffaudit.policy.kinds import strictness
from handoffaudit.policy.values import InvalidPolicy, PolicyError
from handoffaudit.policy.versions import Stale, Table
from handoffaudit.validation.config import ANY_OTHER_TYPE, OPTIONAL_LAYERS, Mode, Strictness, TypePolicy
from handoffaudit.validation.text import pluralize
from handoffaudit.validation.times import utc_text

# At most this many versions of the last week are searched. If a row was in shadow mode in all of them, the oldest of
# these versions counts as the switch to shadow mode.
MOST_VERSIONS = 50


@dataclass(frozen=True, slots=True)
class Named:
    """An entry of a list: the `name` of a rule code, sender or type, and the number of its handoffs.

    `address` is the address of a list of exactly these handoffs; empty if no list shows them.
    """

    name: str
    number: int
    address: str = ""


@dataclass(frozen=True, slots=True)
class Effect:
    """The effect of a row on handoffs, and the period that was counted.

    `would_address` is the address of a list of the handoffs that the row would block in enforce mode. `stopped_address`
    is that of the handoffs that the row blocked. Each is empty if there are no such handoffs. Both are empty for the
    row "any other type", because no list shows exactly the handoffs of this row.
    """

    stopping: BlockStats
    lately: str = ""
    would_address: str = ""
    stopped_address: str = ""


@dataclass(frozen=True, slots=True)
class Why:
    """The reasons why a row would block handoffs.

    `codes` counts the rule codes of only the newest of these handoffs, and `explained` is the number of these newest
    handoffs. `sources` and `types` count all handoffs that the row would block.
    """

    explained: int
    codes: Sequence[Named]
    sources: Sequence[Named]
    types: Sequence[Named]


def effects(tenant: Tenant, now: Table[TypePolicy]) -> tuple[datetime, Mapping[str, Effect]]:
    """Return the start of the counted period and the effect of each row by its name.

    For a row that was switched to shadow mode in that period, the period of the row starts at the switch.
    """
    since = shadow.find_start(tenant)
    rows = [row.handoff_type for row in now.rows]
    starts = _find_shadow_starts(tenant, now, since)
    found = {**shadow.count_by_row(tenant, rows, since), **shadow.count_in_shadow(tenant, starts, rows)}
    return since, {row: _effect(tenant, row, figures, since) for row, figures in found.items()}


def _find_shadow_starts(tenant: Tenant, now: Table[TypePolicy], since: datetime) -> Mapping[str, datetime]:
    """Return the time at which each row in shadow mode was switched to it, for switches after `since`."""
    starts: dict[str, datetime] = {}
    left = {row.handoff_type for row in now.rows if row.mode is Mode.SHADOW}
    if not left or now.changed_at is None or now.changed_at <= since:
        return starts
    for table in strictness.tables(tenant, limit=MOST_VERSIONS):
        # In older tables, a type without its own row followed the row "any other type".
        left = {name for name in left if _mode(table, name) is Mode.SHADOW}
        if not left or table.changed_at is None or table.changed_at <= since:
            for name in left:
                starts.pop(name, None)
            break
        starts |= dict.fromkeys(left, table.changed_at)
    return starts


def _mode(table: Table[TypePolicy], name: str) -> Mode | None:
    row = table.row(name) or table.row(ANY_OTHER_TYPE)
    return row.mode if row else None


def why(tenant: Tenant, row: str, rows: Sequence[str], since: datetime) -> Why:
    """Return why a row would block handoffs. For the row "any other type", also list the handoff types."""
    found = shadow.list_reasons(tenant, row, rows, since)
    own = "" if row == ANY_OTHER_TYPE else row
    return Why(
        explained=found.explained,
        codes=[Named(code, number, _build_shadow_url(tenant, since, own, code=code)) for code, number in found.codes],
        sources=[
            Named(name, number, _build_shadow_url(tenant, since, own, source=name)) for name, number in found.sources
        ],
        types=[Named(name, number, _build_shadow_url(tenant, since, name)) for name, number in found.types]
        if not own
        else [],
    )


def since_words(since: datetime) -> str:
    """Return the counted period in words, such as "in the last 7 days"; the current hour counts as a whole hour."""
    if since <= timezone.now() + timedelta(hours=1) - shadow.PERIOD:
        return f"in the last {shadow.PERIOD.days} days"
    return f"in the last {_hours(since)}"


def _hours(since: datetime) -> str:
    return pluralize(max(1, -((since - timezone.now()) // timedelta(hours=1))), "hour")


def _effect(tenant: Tenant, row: str, figures: BlockStats, since: datetime) -> Effect:
    lately = since_words(since) if figures.since == since else f"since the switch to shadow {_hours(figures.since)} ago"
    if row == ANY_OTHER_TYPE:
        return Effect(figures, lately)
    blocked = ",".join(BLOCKED)
    return Effect(
        figures,
        lately,
        _build_shadow_url(tenant, figures.since, row) if figures.would_stop else "",
        _handoffs(tenant, state=blocked, type=row, since=utc_text(figures.since)) if figures.stopped else "",
    )


def _build_shadow_url(tenant: Tenant, since: datetime, handoff_type: str, **more: str) -> str:
    # The numbers count only final attempts, and the list must show the same handoffs.
    states = ",".join(FINAL)
    return _handoffs(tenant, flag="shadowed", state=states, type=handoff_type, since=utc_text(since), **more)


def _handoffs(tenant: Tenant, **query: str) -> str:
    given = {name: quote_blanks(value) for name, value in query.items() if value}
    return f"{reverse('dashboard:handoffs', args=[tenant.slug])}?{urlencode(given)}"


@dataclass(slots=True)
class Switch:
    """A switch of the row `row` to the mode `to`, based on the table of version `base_version`."""

    row: str
    to: Mode
    base_version: int
    note: str = ""

    @property
    def enforces(self) -> bool:
        return self.to is Mode.ENFORCE

    def save(self, who: TenantMembership) -> Table[TypePolicy]:
        """Save the table with the row switched; raise `Stale`, or `InvalidPolicy` where there is no such row."""
        now = check_version(strictness, who, self.base_version)
        row = now.row(self.row)
        if row is None:
            raise InvalidPolicy([PolicyError(self.row, "", None, "There is no such row.", "Add it first.")])
        return strictness.upsert_row(
            tenant=who.tenant,
            base_version=self.base_version,
            row=replace(row, mode=self.to),
            actor=who.person.username,
            note=self.note,
        )


def switch_for(now: Table[TypePolicy], row: TypePolicy) -> Switch:
    """Return a switch of the row to its other mode."""
    to = Mode.ENFORCE if row.mode is Mode.SHADOW else Mode.SHADOW
    return Switch(row.handoff_type, to, now.version)


def switch_from(given: QueryDict) -> Switch | None:
    """Return the switch of a submitted form; None if the form names no mode."""
    base = number(given.get("base_version", ""))
    try:
        to = Mode(given.get("to", ""))
    except ValueError:
        return None
    return Switch(line_of(given, "row"), to, -1 if base is None else base, line_of(given, "note"))


TEMPLATE = "dashboard/strictness/table.html"

PAGE = PolicyPage(kinds.strictness, "Strictness", "The table that a new tenant begins with.", lines)


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the page: the policy, its effect on handoffs, and the editor or the switch that replaces it.

    `same` names the cells with the same values as the row "any other type".
    """

    policy: TypePolicy
    name: str
    is_other: bool
    is_lenient: bool
    layers_off: list[str]
    same: frozenset[str]
    effect: Effect
    editor: Editor | None
    switch: Switch | None


@require_role(Role.VIEWER)
@require_safe
def table(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    """Show the table; `?edit=<type>`, `?add` and `?trial=<id>` open an editor, and `?switch=<type>` a switch of mode.

    The page is the same with and without JavaScript.
    """
    now = strictness.current(who.tenant)
    row = now.row(request.GET.get("switch", "")) if who.may(Role.ADMIN) else None
    if row:
        return _page(request, now, None, switch=switch_for(now, row))
    return _page(request, now, _find_editor(request, who, now))


@require_role(Role.VIEWER)
@require_safe
def row_of(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    """Redirect to the row that handoffs of the type `?type=` follow."""
    asked = request.GET.get("type", "")
    row = asked if strictness.current(who.tenant).row(asked) else ANY_OTHER_TYPE
    return redirect(f"{PAGE.address(who)}#type-{quote(row, safe='')}")


@require_role(Role.ADMIN)
@require_POST
def switch_mode(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    """Switch one row to the mode `to` and save a new version."""
    switch = switch_from(request.POST)
    if switch is None:
        return HttpResponse("The form names no mode: load the page again.", status=HTTPStatus.BAD_REQUEST)
    try:
        saved = switch.save(who)
    except InvalidPolicy as invalid:
        messages.error(request, f"Not switched: {invalid.errors[0]}")
        return _page(request, strictness.current(who.tenant), None, HTTPStatus.CONFLICT)
    except Stale as stale:
        # The page asks for confirmation again, with the current table and the current numbers of the row.
        messages.error(request, f"Not switched: {conflict_message(stale.current)}")
        switch.base_version = stale.current.version
        return _page(request, stale.current, None, HTTPStatus.CONFLICT, switch=switch)
    name = type_name(switch.row)
    if saved.version == switch.base_version:
        return EDITING.finish_change(request, who, f"{name} is in {switch.to} mode already: nothing was changed.")
    in_shadow = "is in shadow: every handoff that passes the structure layer is accepted"
    said = "is enforced" if switch.enforces else in_shadow
    return EDITING.finish_change(request, who, f"{name} {said} from now on. Version {saved.version}.")


def _find_editor(request: HttpRequest, who: TenantMembership, now: Table[TypePolicy]) -> Editor | None:
    if not who.may(Role.ADMIN):
        return None
    if again := EDITING.reopen(request, who):
        return again
    if "add" in request.GET:
        return editor_for_new(now)
    row = now.row(request.GET.get("edit", ""))
    return editor_for(now, row) if row else None


def _page(
    request: HttpRequest,
    now: Table[TypePolicy],
    editor: Editor | None,
    status: int = 200,
    *,
    switch: Switch | None = None,
) -> HttpResponse:
    tenant = request.who.tenant  # type: ignore[attr-defined]
    names = [row.handoff_type for row in now.rows]
    since, of_rows = effects(tenant, now)
    (other,) = (row for row in now.rows if row.handoff_type == ANY_OTHER_TYPE)
    rows = [_row(row, other, of_rows[row.handoff_type], editor, switch) for row in now.rows]
    known = any(row.editor for row in rows)
    opened = editor.row if editor else switch.row if switch else ""
    context: dict[str, Any] = {
        "rows": rows,
        "editor": editor,
        # The editor of a new row, or of a row that somebody else deleted meanwhile, comes before the rows.
        "new": None if known else editor,
        "names": NAMES,
        "lately": since_words(since),
        "why": SimpleLazyObject(lambda: why(tenant, opened, names, of_rows[opened].stopping.since)),
    }
    return PAGE.answer(request, TEMPLATE, context, now, status)


def _same_cells(policy: TypePolicy, other: TypePolicy) -> frozenset[str]:
    # Lenient types skip the checks of claims and the checks by the LLM, so these cells always differ between strict and
    # lenient.
    differ = {"claims", "llm"} if policy.strictness is not other.strictness else set()
    return frozenset(
        cell
        for cell, fields in CELLS.items()
        if cell not in differ and all(getattr(policy, name) == getattr(other, name) for name in fields)
    )


def _row(policy: TypePolicy, other: TypePolicy, effect: Effect, editor: Editor | None, switch: Switch | None) -> Row:
    name = policy.handoff_type
    return Row(
        policy=policy,
        name=type_name(name),
        is_other=name == ANY_OTHER_TYPE,
        is_lenient=policy.strictness is Strictness.LENIENT,
        layers_off=[layer for layer in OPTIONAL_LAYERS if layer in policy.layers_off],
        same=frozenset() if name == ANY_OTHER_TYPE else _same_cells(policy, other),
        effect=effect,
        editor=editor if editor and editor.row == name else None,
        switch=switch if switch and switch.row == name else None,
    )


def _describe_deletion(editor: Editor) -> Deleting:
    return Deleting(editor.row, editor.row, ": it follows the row “any other type”")


EDITING = Editing(PAGE, editor_from, _page, deleting=_describe_deletion)

urlpatterns = [
    path("strictness/", table, name="strictness"),
    path("strictness/row/", row_of, name="strictness_row"),
    path("strictness/switch/", switch_mode, name="strictness_switch"),
    *EDITING.urls(),
]
