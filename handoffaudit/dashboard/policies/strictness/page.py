"""The strictness table: read by all, edited in place by administrators."""

from dataclasses import dataclass
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import path
from django.utils.functional import SimpleLazyObject
from django.views.decorators.http import require_POST, require_safe

from handoffaudit.accounts.models import Role
from handoffaudit.dashboard.access import Who, page_for
from handoffaudit.dashboard.policies.pages import PolicyPage, moved_on
from handoffaudit.dashboard.policies.strictness.editor import Editor, editor_for, editor_for_new, editor_from
from handoffaudit.dashboard.policies.strictness.stopping import Effect, effects, since_words, why
from handoffaudit.dashboard.policies.strictness.switch import Switch, switch_for, switch_from
from handoffaudit.dashboard.policies.strictness.words import NAMES, lines, type_name
from handoffaudit.dashboard.policies.views import Deleting, Editing
from handoffaudit.policy import kinds
from handoffaudit.policy.errors import InvalidPolicy
from handoffaudit.policy.kinds import strictness
from handoffaudit.policy.versions import Stale, Table
from handoffaudit.validation.config import ANY_OTHER_TYPE, OPTIONAL_LAYERS, Strictness, TypePolicy

TEMPLATE = "dashboard/strictness/table.html"
PAGE = PolicyPage(kinds.strictness, "Strictness", "The table that a new tenant begins with.", lines)


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the page: the policy, what it does to handoffs, and the editor or the switch in its place."""

    policy: TypePolicy
    name: str
    is_other: bool
    is_lenient: bool
    layers_off: list[str]
    effect: Effect
    editor: Editor | None
    switch: Switch | None


@page_for(Role.VIEWER)
@require_safe
def table(request: HttpRequest, who: Who) -> HttpResponse:
    """`?edit=<type>`, `?add` and `?trial=<id>` open an editor, `?switch=<type>` the switch of its mode: the same page
    with JavaScript and without."""
    now = strictness.current(who.tenant)
    row = now.row(request.GET.get("switch", "")) if who.may(Role.ADMIN) else None
    if row:
        return _page(request, now, None, switch=switch_for(now, row))
    return _page(request, now, _asked_for(request, who, now))


@page_for(Role.VIEWER)
@require_safe
def row_of(request: HttpRequest, who: Who) -> HttpResponse:
    """To the row that handoffs of `?type=` follow."""
    asked = request.GET.get("type", "")
    row = asked if strictness.current(who.tenant).row(asked) else ANY_OTHER_TYPE
    return redirect(f"{PAGE.address(who)}#type-{quote(row, safe='')}")


@page_for(Role.ADMIN)
@require_POST
def switch_mode(request: HttpRequest, who: Who) -> HttpResponse:
    """One row to the mode `to`, as a new version."""
    switch = switch_from(request.POST)
    if switch is None:
        return HttpResponse("The form names no mode: load the page again.", status=HTTPStatus.BAD_REQUEST)
    try:
        saved = switch.save(who)
    except InvalidPolicy as invalid:
        messages.error(request, f"Not switched: {invalid.errors[0]}")
        return _page(request, strictness.current(who.tenant), None, HTTPStatus.CONFLICT)
    except Stale as stale:
        # Asked again on what is in force now, with that row's figures.
        messages.error(request, f"Not switched: {moved_on(stale.current)}")
        switch.base_version = stale.current.version
        return _page(request, stale.current, None, HTTPStatus.CONFLICT, switch=switch)
    name = type_name(switch.row)
    if saved.version == switch.base_version:
        return EDITING.done(request, who, f"{name} is in {switch.to} mode already: nothing was changed.")
    said = "is enforced" if switch.enforces else "is in shadow: what would be stopped passes"
    return EDITING.done(request, who, f"{name} {said} from now on. Version {saved.version}.")


def _asked_for(request: HttpRequest, who: Who, now: Table[TypePolicy]) -> Editor | None:
    if not who.may(Role.ADMIN):
        return None
    if again := EDITING.asked_for(request, who):
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
    rows = [_row(row, of_rows[row.handoff_type], editor, switch) for row in now.rows]
    known = any(row.editor for row in rows)
    opened = editor.row if editor else switch.row if switch else ""
    context: dict[str, Any] = {
        "rows": rows,
        "editor": editor,
        # A new row, and one that somebody else deleted meanwhile, stand before the others.
        "new": None if known else editor,
        "names": NAMES,
        "lately": since_words(since),
        "why": SimpleLazyObject(lambda: why(tenant, opened, names, of_rows[opened].stopping.since)),
    }
    return PAGE.answer(request, TEMPLATE, context, now, status)


def _row(policy: TypePolicy, effect: Effect, editor: Editor | None, switch: Switch | None) -> Row:
    name = policy.handoff_type
    return Row(
        policy=policy,
        name=type_name(name),
        is_other=name == ANY_OTHER_TYPE,
        is_lenient=policy.strictness is Strictness.LENIENT,
        layers_off=[layer for layer in OPTIONAL_LAYERS if layer in policy.layers_off],
        effect=effect,
        editor=editor if editor and editor.row == name else None,
        switch=switch if switch and switch.row == name else None,
    )


def _deleting(editor: Editor) -> Deleting:
    return Deleting(editor.row, editor.row, ": it follows the row for any other type")


EDITING = Editing(PAGE, editor_from, _page, deleting=_deleting)
urlpatterns = [
    path("strictness/", table, name="strictness"),
    path("strictness/row/", row_of, name="strictness_row"),
    path("strictness/switch/", switch_mode, name="strictness_switch"),
    *EDITING.urls(),
]
