"""The views of every policy editor: save, delete, and start a dry run."""

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Generic, TypeVar

import orjson
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect
from django.urls import URLPattern, path, reverse
from django.utils import timezone
from django.views.decorators.http import require_POST
from django_htmx.http import HttpResponseClientRedirect

from handoffaudit.accounts.models import Role
from handoffaudit.dashboard.access import TenantMembership, require_role
from handoffaudit.dashboard.partials import is_htmx
from handoffaudit.dashboard.policies import base
from handoffaudit.dashboard.policies.base import PolicyPage, check_version, conflict_message, finish, save_or_refuse
from handoffaudit.dashboard.policies.forms import ALL_TYPES, LONGEST_KEPT, MODEL_SCOPES, SCOPES, USUAL, Draft
from handoffaudit.handoffs.dry_runs import run
from handoffaudit.handoffs.models import Trial
from handoffaudit.policy.errors import InvalidPolicy, PolicyError
from handoffaudit.policy.versions import Stale, Table

FORM = "form"

NOT_KEPT = ("csrfmiddlewaretoken", "agreed")


def start_dry_run(who: TenantMembership, page: PolicyPage[Any], draft: Draft[Any], given: QueryDict) -> Trial | None:
    """Starts the trial; None where the draft holds it back, and now says why.

    Raises `Stale`, and `InvalidPolicy` where the draft could not be saved or changes nothing.
    """
    now = check_version(page.versions, who, draft.base_version)
    rows = page.versions.checked(draft.rows(now))
    changes = page.versions.difference(now.rows, rows)
    if not changes:
        remedy = "Change something, then try it."
        raise InvalidPolicy([PolicyError("", "", None, "This is what is in force already.", remedy)])
    scope = (SCOPES | MODEL_SCOPES).get(draft.tried, SCOPES[USUAL])
    trial = run.plan(
        tenant=who.tenant,
        kind=page.versions.kind,
        content=page.versions.to_plain(rows) | {"note": draft.note, FORM: _form_data(given)},
        base_version=now.version,
        actor=who.person.username,
        handoff_types=[] if draft.types == ALL_TYPES else draft.touched(who.tenant, now, rows),
        most=scope.most,
        since=timezone.now() - scope.within if scope.within else None,
    )
    return None if draft.holds_back(trial) else run.begin(trial)


def open_dry_run(request: HttpRequest, who: TenantMembership, trial: Trial) -> HttpResponse:
    """To the trial's page."""
    address = reverse("dashboard:trial", args=[who.tenant.slug, trial.pk])
    return HttpResponseClientRedirect(address) if is_htmx(request) else redirect(address)


def form_asked_for(request: HttpRequest, who: TenantMembership, page: PolicyPage[Any]) -> QueryDict | None:
    """`?trial=<id>`: what stood in the editor that the trial was started from. There is no such trial: 404."""
    asked = request.GET.get("trial", "")
    if not asked:
        return None
    try:
        trial = run.get(who.tenant, uuid.UUID(asked))
    except (ValueError, Trial.DoesNotExist) as missing:
        raise Http404("There is no such trial.") from missing
    if trial.kind != page.versions.kind:
        raise Http404("There is no such trial.")
    return form_of(trial)


def form_of(trial: Trial) -> QueryDict:
    """What stood in the editor's fields."""
    kept = orjson.loads(trial.draft).get(FORM)
    form = QueryDict(mutable=True)
    for name, values in kept.items() if isinstance(kept, dict) else ():
        form.setlist(name, values)
    return form


def _form_data(given: QueryDict) -> dict[str, list[str]]:
    """The form, as far as an editor reads it."""
    kept: dict[str, list[str]] = {}
    left = LONGEST_KEPT
    for name, values in given.lists():
        size = len(name) + sum(len(value) for value in values)
        if name not in NOT_KEPT and size <= left:
            kept[name] = values
            left -= size
    return kept


R = TypeVar("R")

D = TypeVar("D", bound=Draft[Any])

Show = Callable[[HttpRequest, Table[R], D | None, int], HttpResponse]

After = Callable[[HttpRequest, TenantMembership, D, Table[R]], HttpResponse | None]


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
            *base.urls(self.page),
        ]

    def now(self, who: TenantMembership) -> Table[R]:
        return self.page.versions.current(who.tenant)

    def asked_for(self, request: HttpRequest, who: TenantMembership) -> D | None:
        """The editor that `?trial=<id>` opens again."""
        form = form_asked_for(request, who, self.page)
        return self.editor_from(form) if form is not None else None

    def done(self, request: HttpRequest, who: TenantMembership, message: str) -> HttpResponse:
        """After a change: the page without an editor."""
        return finish(request, message, self.page.address(who), lambda: self.show(request, self.now(who), None, 200))

    def _save(self) -> Callable[..., HttpResponse]:
        @require_role(Role.ADMIN)
        @require_POST
        def save(request: HttpRequest, who: TenantMembership) -> HttpResponse:
            editor = self.editor_from(request.POST)
            saved, status = save_or_refuse(editor, lambda: self.page.save(who, editor))
            if saved is None:
                return self.show(request, self.now(who), editor, status)
            if saved.version == editor.base_version:
                return self.done(request, who, "Nothing was changed.")
            answer = self.after(request, who, editor, saved) if self.after else None
            return answer or self.done(request, who, f"Saved as version {saved.version}.")

        return save

    def _delete(self, deleting: Callable[[D], Deleting]) -> Callable[..., HttpResponse]:
        @require_role(Role.ADMIN)
        @require_POST
        def delete(request: HttpRequest, who: TenantMembership) -> HttpResponse:
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
                why = (
                    str(refusal.errors[0]) if isinstance(refusal, InvalidPolicy) else conflict_message(refusal.current)
                )
                messages.error(request, f"Not deleted: {told.what}. {why}")
                return self.show(request, self.now(who), None, HTTPStatus.CONFLICT)
            return self.done(request, who, f"Deleted {told.what}{told.then}. Version {saved.version}.")

        return delete

    def _try(self) -> Callable[..., HttpResponse]:
        @require_role(Role.ADMIN)
        @require_POST
        def try_it(request: HttpRequest, who: TenantMembership) -> HttpResponse:
            editor = self.editor_from(request.POST)
            trial, status = save_or_refuse(editor, lambda: start_dry_run(who, self.page, editor, request.POST))
            if trial is None:
                return self.show(request, self.now(who), editor, status)
            return open_dry_run(request, who, trial)

        return try_it
