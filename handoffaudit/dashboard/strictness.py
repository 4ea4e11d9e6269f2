"""The strictness table: read by all, edited in place by administrators."""

from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.urls import path
from django.views.decorators.http import require_POST, require_safe

from handoffaudit.accounts.models import Role
from handoffaudit.dashboard.access import Who, page_for
from handoffaudit.dashboard.policy_pages import PolicyPage, moved_on
from handoffaudit.dashboard.policy_views import Editing
from handoffaudit.dashboard.strictness_editor import Editor, editor_for, editor_for_new, editor_from
from handoffaudit.dashboard.strictness_words import NAMES, lines, type_name
from handoffaudit.policy import kinds
from handoffaudit.policy.errors import InvalidPolicy
from handoffaudit.policy.kinds import strictness
from handoffaudit.policy.versions import Stale, Table
from handoffaudit.validation.config import ANY_OTHER_TYPE, OPTIONAL_LAYERS, Strictness, TypePolicy

TEMPLATE = "dashboard/strictness/table.html"
PAGE = PolicyPage(kinds.strictness, "Strictness", "The table that a new tenant begins with.", lines)


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the page: the policy, and the editor in its place where it is being edited."""

    policy: TypePolicy
    name: str
    is_other: bool
    is_lenient: bool
    layers_off: list[str]
    editor: Editor | None


@page_for(Role.VIEWER)
@require_safe
def table(request: HttpRequest, who: Who) -> HttpResponse:
    """`?edit=<type>`, `?add` and `?trial=<id>` open an editor: the same page with JavaScript and without."""
    now = strictness.current(who.tenant)
    return _page(request, now, _asked_for(request, who, now))


@page_for(Role.ADMIN)
@require_POST
def delete(request: HttpRequest, who: Who) -> HttpResponse:
    editor = editor_from(request.POST)
    try:
        saved = strictness.delete_row(
            tenant=who.tenant,
            base_version=editor.base_version,
            name=editor.row,
            actor=who.person.username,
            note=editor.note,
        )
    except (InvalidPolicy, Stale) as refusal:
        now = strictness.current(who.tenant)
        text = str(refusal) if isinstance(refusal, InvalidPolicy) else moved_on(now)
        messages.error(request, f"{editor.row} was not deleted. {text}")
        return _page(request, now, None, status=409)
    return EDITING.done(
        request, who, f"Deleted {editor.row}: it follows the row for any other type. Version {saved.version}."
    )


def _asked_for(request: HttpRequest, who: Who, now: Table[TypePolicy]) -> Editor | None:
    if not who.may(Role.ADMIN):
        return None
    if again := EDITING.asked_for(request, who):
        return again
    if "add" in request.GET:
        return editor_for_new(now)
    row = now.row(request.GET.get("edit", ""))
    return editor_for(now, row) if row else None


def _page(request: HttpRequest, now: Table[TypePolicy], editor: Editor | None, status: int = 200) -> HttpResponse:
    rows = [_row(row, editor) for row in now.rows]
    known = any(row.editor for row in rows)
    context: dict[str, Any] = {
        "rows": rows,
        "editor": editor,
        # A new row, and one that somebody else deleted meanwhile, stand before the others.
        "new": None if known else editor,
        "names": NAMES,
    }
    return PAGE.answer(request, TEMPLATE, context, now, status)


def _row(policy: TypePolicy, editor: Editor | None) -> Row:
    mine = editor if editor and editor.row == policy.handoff_type else None
    off = [layer for layer in OPTIONAL_LAYERS if layer in policy.layers_off]
    is_other, is_lenient = policy.handoff_type == ANY_OTHER_TYPE, policy.strictness is Strictness.LENIENT
    return Row(policy, type_name(policy.handoff_type), is_other, is_lenient, off, mine)


EDITING = Editing(PAGE, editor_from, _page)
urlpatterns = [
    path("strictness/", table, name="strictness"),
    path("strictness/delete/", delete, name="strictness_delete"),
    *EDITING.urls(),
]
