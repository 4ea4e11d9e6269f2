"""Schemas and claim fields by handoff type: read by all, edited in place by administrators."""

from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.urls import path
from django.views.decorators.http import require_safe

from handoffaudit.accounts.models import Role
from handoffaudit.dashboard.access import Who, page_for
from handoffaudit.dashboard.policies.pages import PolicyPage
from handoffaudit.dashboard.policies.schemas.editor import Editor, Rows, editor_for, editor_for_new, editor_from
from handoffaudit.dashboard.policies.schemas.words import LONGEST_NAME, NAMES, asks, claims, lines
from handoffaudit.dashboard.policies.views import Deleting, Editing
from handoffaudit.dashboard.readable import cut
from handoffaudit.policy import kinds
from handoffaudit.policy.schemas import TypeSchema

TEMPLATE = "dashboard/schemas/page.html"
PAGE = PolicyPage(kinds.schemas, "Schemas", "A new tenant has no schema.", lines)


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the page in words; `editor` in its place where it is edited."""

    handoff_type: str
    name: str
    asks: list[str]
    claims: str
    editor: Editor | None


@page_for(Role.VIEWER)
@require_safe
def page(request: HttpRequest, who: Who) -> HttpResponse:
    """`?edit=<type>`, `?add` and `?trial=<id>` open an editor."""
    now = kinds.schemas.current(who.tenant)
    return _page(request, now, _asked_for(request, who, now))


def _asked_for(request: HttpRequest, who: Who, now: Rows) -> Editor | None:
    if not who.may(Role.ADMIN):
        return None
    if again := EDITING.asked_for(request, who):
        return again
    if "add" in request.GET:
        return editor_for_new(now)
    row = now.row(request.GET.get("edit", ""))
    return editor_for(now, row) if row else None


def _page(request: HttpRequest, now: Rows, editor: Editor | None, status: int = 200) -> HttpResponse:
    rows = [_row(row, editor) for row in now.rows]
    context: dict[str, Any] = {
        "rows": rows,
        "editor": editor,
        # A new row, and one that somebody else deleted meanwhile, stand before the others.
        "new": None if any(row.editor for row in rows) else editor,
        "names": NAMES,
    }
    return PAGE.answer(request, TEMPLATE, context, now, status)


def _row(row: TypeSchema, editor: Editor | None) -> Row:
    mine = editor if editor and editor.row == row.handoff_type else None
    told = asks(row.schema.source) if row.schema else []
    if row.schema and row.schema.assert_formats:
        told.append("formats checked")
    return Row(row.handoff_type, cut(row.handoff_type, LONGEST_NAME), told, claims(row.claim_fields), mine)


def _deleting(editor: Editor) -> Deleting:
    return Deleting(editor.row, cut(editor.row, LONGEST_NAME), ": its data may look as it likes")


EDITING = Editing(PAGE, editor_from, _page, deleting=_deleting)
urlpatterns = [
    path("schemas/", page, name="schemas"),
    *EDITING.urls(),
]
