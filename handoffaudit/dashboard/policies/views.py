"""The views that every kind of policy has: save, try, and its history."""

from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Generic, TypeVar

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, QueryDict
from django.urls import URLPattern, path
from django.views.decorators.http import require_POST

from handoffaudit.accounts.models import Role
from handoffaudit.dashboard.access import Who, page_for
from handoffaudit.dashboard.policies import history
from handoffaudit.dashboard.policies.drafts import Draft
from handoffaudit.dashboard.policies.pages import PolicyPage, done, moved_on, refused
from handoffaudit.dashboard.policies.trials import starting
from handoffaudit.policy.errors import InvalidPolicy
from handoffaudit.policy.versions import Stale, Table

R = TypeVar("R")
D = TypeVar("D", bound=Draft[Any])
Show = Callable[[HttpRequest, Table[R], D | None, int], HttpResponse]
After = Callable[[HttpRequest, Who, D, Table[R]], HttpResponse | None]


@dataclass(frozen=True, slots=True)
class Deleting:
    """`row` goes; `what` people call it, and what follows `then`."""

    row: str
    what: str
    then: str = ""


class Editing(Generic[R, D]):
    """How a kind is edited: `editor_from` reads a form, `show` answers with the page, an editor open in it or not.

    `after` may answer in its own way once a change is saved. `deleting`, where single rows can be deleted, tells of a
    form what goes, and what follows from it. `can_be_tried`: handoffs are judged by it.
    """

    def __init__(
        self,
        page: PolicyPage[R],
        editor_from: Callable[[QueryDict], D],
        show: Show[R, D],
        after: After[D, R] | None = None,
        deleting: Callable[[D], Deleting] | None = None,
        *,
        can_be_tried: bool = True,
    ) -> None:
        self.page, self.editor_from, self.show, self.after, self.deleting = page, editor_from, show, after, deleting
        self.can_be_tried = can_be_tried

    def urls(self) -> list[URLPattern]:
        name = self.page.name
        return [
            path(f"{name}/save/", self._save(), name=f"{name}_save"),
            *([path(f"{name}/try/", self._try(), name=f"{name}_try")] if self.can_be_tried else []),
            *([path(f"{name}/delete/", self._delete(self.deleting), name=f"{name}_delete")] if self.deleting else []),
            *history.urls(self.page),
        ]

    def now(self, who: Who) -> Table[R]:
        return self.page.versions.current(who.tenant)

    def asked_for(self, request: HttpRequest, who: Who) -> D | None:
        """The editor that `?trial=<id>` opens again."""
        form = starting.form_asked_for(request, who, self.page)
        return self.editor_from(form) if form is not None else None

    def done(self, request: HttpRequest, who: Who, message: str) -> HttpResponse:
        """After a change: the page without an editor."""
        return done(request, message, self.page.address(who), lambda: self.show(request, self.now(who), None, 200))

    def _save(self) -> Callable[..., HttpResponse]:
        @page_for(Role.ADMIN)
        @require_POST
        def save(request: HttpRequest, who: Who) -> HttpResponse:
            editor = self.editor_from(request.POST)
            saved, status = refused(editor, lambda: self.page.save(who, editor))
            if saved is None:
                return self.show(request, self.now(who), editor, status)
            if saved.version == editor.base_version:
                return self.done(request, who, "Nothing was changed.")
            answer = self.after(request, who, editor, saved) if self.after else None
            return answer or self.done(request, who, f"Saved as version {saved.version}.")

        return save

    def _delete(self, deleting: Callable[[D], Deleting]) -> Callable[..., HttpResponse]:
        @page_for(Role.ADMIN)
        @require_POST
        def delete(request: HttpRequest, who: Who) -> HttpResponse:
            editor = self.editor_from(request.POST)
            told = deleting(editor)
            try:
                saved = self.page.versions.delete_row(
                    tenant=who.tenant,
                    base_version=editor.base_version,
                    name=told.row,
                    actor=who.person.username,
                    note=editor.note,
                )
            except (InvalidPolicy, Stale) as refusal:
                why = str(refusal.errors[0]) if isinstance(refusal, InvalidPolicy) else moved_on(refusal.current)
                messages.error(request, f"Not deleted: {told.what}. {why}")
                return self.show(request, self.now(who), None, HTTPStatus.CONFLICT)
            return self.done(request, who, f"Deleted {told.what}{told.then}. Version {saved.version}.")

        return delete

    def _try(self) -> Callable[..., HttpResponse]:
        @page_for(Role.ADMIN)
        @require_POST
        def try_it(request: HttpRequest, who: Who) -> HttpResponse:
            editor = self.editor_from(request.POST)
            trial, status = refused(editor, lambda: starting.begin(who, self.page, editor, request.POST))
            if trial is None:
                return self.show(request, self.now(who), editor, status)
            return starting.opened(request, who, trial)

        return try_it
