"""The prompts: those that are shipped, and the ones that replace them; read by all, edited by administrators."""

from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.urls import path
from django.views.decorators.http import require_safe

from handoffaudit.accounts.models import Role
from handoffaudit.dashboard.access import Who, page_for
from handoffaudit.dashboard.policies.pages import PolicyPage
from handoffaudit.dashboard.policies.prompts.editor import Editor, Rows, editor_for, editor_for_new, editor_from
from handoffaudit.dashboard.policies.prompts.words import (
    ASKS,
    TITLES,
    Added,
    added,
    lines,
    row_name,
    scope,
    shipped_text,
)
from handoffaudit.dashboard.policies.views import Deleting, Editing
from handoffaudit.dashboard.readable import cut, readable
from handoffaudit.policy import kinds
from handoffaudit.policy.prompts import PromptRow
from handoffaudit.validation.prompts.question import Use

TEMPLATE = "dashboard/prompts/page.html"
LONGEST_BEGINNING = 700
PAGE = PolicyPage(kinds.prompts, "Prompts", "A new tenant asks by the shipped prompts.", lines)


@dataclass(frozen=True, slots=True)
class Row:
    """A prompt of the page, and how it begins; `editor` in its place where it is edited."""

    name: str
    scope: str
    begins: str
    text: str
    editor: Editor | None


@dataclass(frozen=True, slots=True)
class Card:
    """A use with its prompts, and the editor of a new one (or of one that somebody deleted meanwhile)."""

    use: str
    title: str
    asks: str
    shipped: str
    added: Added
    rows: list[Row]
    new: Editor | None


@page_for(Role.VIEWER)
@require_safe
def page(request: HttpRequest, who: Who) -> HttpResponse:
    """`?add=<use>`, `?edit=<name>` (`&shipped` with the shipped text in it) and `?trial=<id>` open an editor."""
    now = kinds.prompts.current(who.tenant)
    return _page(request, now, _asked_for(request, who, now))


def _asked_for(request: HttpRequest, who: Who, now: Rows) -> Editor | None:
    if not who.may(Role.ADMIN):
        return None
    if again := EDITING.asked_for(request, who):
        return again
    new = request.GET.get("add", "")
    if new in set(Use):
        return editor_for_new(now, Use(new))
    row = now.row(request.GET.get("edit", ""))
    return editor_for(now, row, as_shipped="shipped" in request.GET) if row else None


def _page(request: HttpRequest, now: Rows, editor: Editor | None, status: int = 200) -> HttpResponse:
    context: dict[str, Any] = {"cards": [_card(use, now, editor) for use in Use], "editor": editor}
    return PAGE.answer(request, TEMPLATE, context, now, status)


def _card(use: Use, now: Rows, editor: Editor | None) -> Card:
    rows = [_row(row, editor) for row in now.rows if row.use is use]
    mine = editor if editor and editor.use is use else None
    new = None if any(row.editor for row in rows) else mine
    return Card(use.value, TITLES[use], ASKS[use], shipped_text(use), added(use), rows, new)


def _row(row: PromptRow, editor: Editor | None) -> Row:
    mine = editor if editor and editor.row == row.name else None
    return Row(
        row.name, scope(row.handoff_type, row.workflow), cut(row.text, LONGEST_BEGINNING), readable(row.text), mine
    )


def _deleting(editor: Editor) -> Deleting:
    return Deleting(editor.row, f"the prompt of {row_name(editor.row)}")


EDITING = Editing(PAGE, editor_from, _page, deleting=_deleting)
urlpatterns = [
    path("prompts/", page, name="prompts"),
    *EDITING.urls(),
]
