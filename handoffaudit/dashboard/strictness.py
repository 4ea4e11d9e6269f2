"""The strictness table: read by all, edited in place by administrators."""

from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import path, reverse
from django.views.decorators.http import require_POST, require_safe

from handoffaudit.accounts.models import Role
from handoffaudit.dashboard import strictness_history
from handoffaudit.dashboard.access import Who, page_for
from handoffaudit.dashboard.partials import is_htmx, render_page
from handoffaudit.dashboard.strictness_editor import Editor, editor_for, editor_for_new, editor_from
from handoffaudit.dashboard.strictness_words import NAMES, type_name
from handoffaudit.policy import strictness
from handoffaudit.policy.errors import InvalidPolicy, PolicyError
from handoffaudit.policy.strictness import Stale, Table
from handoffaudit.validation.config import ANY_OTHER_TYPE, OPTIONAL_LAYERS, Strictness, TypePolicy

PAGE = "dashboard/strictness/table.html"
PART = "strictness"


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
    """`?edit=<type>` and `?add` open an editor: the same page with JavaScript and without."""
    now = strictness.current(who.tenant)
    return _page(request, now, _asked_for(request, who, now))


@page_for(Role.ADMIN)
@require_POST
def save(request: HttpRequest, who: Who) -> HttpResponse:
    editor = editor_from(request.POST)
    try:
        saved = _save(who, editor)
    except InvalidPolicy as invalid:
        editor.refuse(invalid)
        return _page(request, strictness.current(who.tenant), editor, status=400)
    except Stale as stale:
        editor.meet(stale.current)
        return _page(request, stale.current, editor, status=409)
    changed = saved.version != editor.base_version
    return _done(request, who, f"Saved as version {saved.version}." if changed else "Nothing was changed.")


@page_for(Role.ADMIN)
@require_POST
def delete(request: HttpRequest, who: Who) -> HttpResponse:
    editor = editor_from(request.POST)
    try:
        saved = strictness.delete_row(
            tenant=who.tenant,
            base_version=editor.base_version,
            handoff_type=editor.row,
            actor=who.person.username,
            note=editor.note,
        )
    except (InvalidPolicy, Stale) as refused:
        now = strictness.current(who.tenant)
        text = str(refused) if isinstance(refused, InvalidPolicy) else _moved_on(now)
        messages.error(request, f"{editor.row} was not deleted. {text}")
        return _page(request, now, None, status=409)
    return _done(request, who, f"Deleted {editor.row}: it follows the row for any other type. Version {saved.version}.")


def _save(who: Who, editor: Editor) -> Table:
    row = editor.read()
    if editor.is_new and strictness.current(who.tenant).row(row.handoff_type):
        remedy = "Edit that row instead."
        raise InvalidPolicy([PolicyError(row.handoff_type, "handoff_type", None, "The type has a row.", remedy)])
    return strictness.upsert_row(
        tenant=who.tenant, base_version=editor.base_version, row=row, actor=who.person.username, note=editor.note
    )


def _asked_for(request: HttpRequest, who: Who, now: Table) -> Editor | None:
    if not who.may(Role.ADMIN):
        return None
    if "add" in request.GET:
        return editor_for_new(now)
    row = now.row(request.GET.get("edit", ""))
    return editor_for(now, row) if row else None


def _moved_on(now: Table) -> str:
    return f"{now.changed_by} saved version {now.version} meanwhile: look at it and try again."


def _done(request: HttpRequest, who: Who, message: str) -> HttpResponse:
    messages.success(request, message)
    address = reverse("dashboard:strictness", args=[who.tenant.slug])
    if not is_htmx(request):
        return redirect(address)
    response = _page(request, strictness.current(who.tenant), None)
    response["HX-Push-Url"] = address
    return response


def _page(request: HttpRequest, now: Table, editor: Editor | None, status: int = 200) -> HttpResponse:
    rows = [_row(row, editor) for row in now.rows]
    lost = editor if editor and editor.gone else None
    context: dict[str, Any] = {
        "table": now,
        "rows": rows,
        "editor": editor,
        "new": editor if editor and (editor.is_new or lost) else None,
        "names": NAMES,
        "stale": _stale(now) if editor and editor.theirs is not None else "",
    }
    return render_page(request, PAGE, context, partials=(PART,), status=status)


def _stale(now: Table) -> str:
    return f"{now.changed_by} saved version {now.version} while you were editing. Nothing was overwritten."


def _row(policy: TypePolicy, editor: Editor | None) -> Row:
    mine = editor if editor and editor.row == policy.handoff_type else None
    off = [layer for layer in OPTIONAL_LAYERS if layer in policy.layers_off]
    is_other, is_lenient = policy.handoff_type == ANY_OTHER_TYPE, policy.strictness is Strictness.LENIENT
    return Row(policy, type_name(policy.handoff_type), is_other, is_lenient, off, mine)


urlpatterns = [
    path("strictness/", table, name="strictness"),
    path("strictness/save/", save, name="strictness_save"),
    path("strictness/delete/", delete, name="strictness_delete"),
    *strictness_history.urlpatterns,
]
