"""The views of every policy editor: save, delete, start a dry run, and test the kept cases."""

import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Generic, TypeVar

import orjson
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import URLPattern, path, reverse
from django.utils import timezone
from django.views.decorators.http import require_POST
from django_htmx.http import HttpResponseClientRedirect

from handoffaudit.accounts.models import Role
from handoffaudit.dashboard.access import TenantMembership, is_htmx, require_role
from handoffaudit.dashboard.policies import base
from handoffaudit.dashboard.policies.base import (
    PolicyPage,
    check_version,
    conflict_message,
    finish,
    save_or_refuse,
)
from handoffaudit.dashboard.policies.cases import CaseCounts, judge_draft, judge_saved
from handoffaudit.dashboard.policies.forms import ALL_TYPES, LONGEST_KEPT, MODEL_SCOPES, SCOPES, USUAL, Draft
from handoffaudit.handoffs import dry_runs
from handoffaudit.handoffs.models import Trial
from handoffaudit.policy.models import Kind
from handoffaudit.policy.values import InvalidPolicy, PolicyError
from handoffaudit.policy.versions import Stale, Table

FORM = "form"

NOT_KEPT = ("csrfmiddlewaretoken", "agreed")


def start_dry_run(who: TenantMembership, page: PolicyPage[Any], draft: Draft[Any], given: QueryDict) -> Trial | None:
    """Start a dry run of the draft, or return None if the dry run must wait (`Draft.holds_back`).

    Raise `Stale` if the policy has a newer version than the draft was made from. Raise `InvalidPolicy` if the draft
    could not be saved or changes nothing, or if the dry run cannot run.
    """
    now = check_version(page.versions, who, draft.base_version)
    rows = page.versions.checked(draft.rows(now))
    changes = page.versions.difference(now.rows, rows)
    if not changes:
        remedy = "Change the draft, then start a dry run."
        raise InvalidPolicy([PolicyError("", "", None, "The draft equals the policy in force.", remedy)])
    scope = (SCOPES | MODEL_SCOPES).get(draft.tried, SCOPES[USUAL])
    trial = dry_runs.plan(
        tenant=who.tenant,
        kind=page.versions.kind,
        content=page.versions.to_plain(rows) | {"note": draft.note, FORM: _form_data(given)},
        base_version=now.version,
        actor=who.person.username,
        handoff_types=[] if draft.types == ALL_TYPES else draft.list_affected_types(now, rows),
        most=scope.most,
        since=timezone.now() - scope.within if scope.within else None,
    )
    return None if draft.holds_back(trial) else dry_runs.begin(trial)


def open_dry_run(request: HttpRequest, who: TenantMembership, trial: Trial) -> HttpResponse:
    """Redirect to the page of the dry run."""
    address = reverse("dashboard:trial", args=[who.tenant.slug, trial.pk])
    return HttpResponseClientRedirect(address) if is_htmx(request) else redirect(address)


def find_form(request: HttpRequest, who: TenantMembership, page: PolicyPage[Any]) -> QueryDict | None:
    """Return the form of the dry run that `?trial=<id>` names, or None without the parameter.

    Raise Http404 for an unknown dry run, and for a dry run of another policy.
    """
    asked = request.GET.get("trial", "")
    if not asked:
        return None
    try:
        trial = dry_runs.get(who.tenant, uuid.UUID(asked))
    except (ValueError, Trial.DoesNotExist) as missing:
        raise Http404("There is no such dry run.") from missing
    if trial.kind != page.versions.kind:
        raise Http404("There is no such dry run.")
    return form_of(trial)


def form_of(trial: Trial) -> QueryDict:
    """Return the form that the dry run was started from."""
    kept = orjson.loads(trial.draft).get(FORM)
    form = QueryDict(mutable=True)
    for name, values in kept.items() if isinstance(kept, dict) else ():
        form.setlist(name, values)
    return form


def _form_data(given: QueryDict) -> dict[str, list[str]]:
    """Return the form fields to store for the editor. Fields beyond a total length of `LONGEST_KEPT` are left out."""
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
    """A pending deletion: `row` names the row, `what` is its name in messages, and `then` describes the consequence."""

    row: str
    what: str
    then: str = ""


class Editing(Generic[R, D]):
    """The editing of one policy kind: `editor_from` reads a form, and `show` renders the page.

    `after` may return another response after a change is saved. `deleting` is a function that returns the row that a
    form deletes, or is None if rows of the kind cannot be deleted. `can_be_tried` is true if verdicts depend on this
    kind, so that a dry run makes sense.
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
            *([path(f"{name}/cases/", self._test(), name=f"{name}_cases")] if self.tests_cases else []),
            *([path(f"{name}/delete/", self._delete(self.deleting), name=f"{name}_delete")] if self.deleting else []),
            *base.urls(self.page),
        ]

    @property
    def tests_cases(self) -> bool:
        """Return whether the results of cases depend on this kind. Prompts do not count, as no case asks the LLM."""
        return self.can_be_tried and self.page.versions.kind is not Kind.PROMPTS

    def now(self, who: TenantMembership) -> Table[R]:
        return self.page.versions.current(who.tenant)

    def reopen(self, request: HttpRequest, who: TenantMembership) -> D | None:
        """Return the editor that `?trial=<id>` reopens, or None."""
        form = find_form(request, who, self.page)
        return self.editor_from(form) if form is not None else None

    def finish_change(
        self, request: HttpRequest, who: TenantMembership, message: str, cases: CaseCounts | None = None
    ) -> HttpResponse:
        """Answer a change with a message and the page without an editor."""
        address = self.page.address(who)
        return finish(request, message, address, lambda: self.show(request, self.now(who), None, 200), cases=cases)

    def _save(self) -> Callable[..., HttpResponse]:
        @require_role(Role.ADMIN)
        @require_POST
        def save(request: HttpRequest, who: TenantMembership) -> HttpResponse:
            editor, before = self.editor_from(request.POST), self.now(who)
            saved, status = save_or_refuse(editor, lambda: self.page.save(who, editor))
            if saved is None:
                return self.show(request, self.now(who), editor, status)
            if saved.version == editor.base_version:
                return self.finish_change(request, who, "Nothing was changed.")
            answer = self.after(request, who, editor, saved) if self.after else None
            if answer:
                return answer
            kind, types = self.page.versions.kind, editor.list_affected_types(before, saved.rows)
            return self.finish_change(
                request, who, f"Saved as version {saved.version}.", judge_saved(who.tenant, kind, types)
            )

        return save

    def _delete(self, deleting: Callable[[D], Deleting]) -> Callable[..., HttpResponse]:
        @require_role(Role.ADMIN)
        @require_POST
        def delete(request: HttpRequest, who: TenantMembership) -> HttpResponse:
            editor = self.editor_from(request.POST)
            deletion = deleting(editor)
            try:
                saved = self.page.versions.delete_row(
                    tenant=who.tenant,
                    base_version=editor.base_version,
                    name=deletion.row,
                    actor=who.person.username,
                    note=editor.note,
                )
            except (InvalidPolicy, Stale) as refusal:
                why = (
                    str(refusal.errors[0]) if isinstance(refusal, InvalidPolicy) else conflict_message(refusal.current)
                )
                messages.error(request, f"Not deleted: {deletion.what}. {why}")
                return self.show(request, self.now(who), None, HTTPStatus.CONFLICT)
            said = f"Deleted {deletion.what}{deletion.then}. Version {saved.version}."
            return self.finish_change(request, who, said, judge_saved(who.tenant, self.page.versions.kind))

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

    def _test(self) -> Callable[..., HttpResponse]:
        @require_role(Role.ADMIN)
        @require_POST
        def test(request: HttpRequest, who: TenantMembership) -> HttpResponse:
            """Say how many kept cases would fail with the draft in the editor."""
            editor = self.editor_from(request.POST)
            cases = None
            with suppress(InvalidPolicy, Stale):
                now = check_version(self.page.versions, who, editor.base_version)
                rows = self.page.versions.checked(editor.rows(now))
                cases = judge_draft(who.tenant, self.page.versions.kind, rows, editor.list_affected_types(now, rows))
            context = {"kind": self.page, "cases": cases, "is_tested": True}
            return render(request, "dashboard/policy/actions.html#cases", context)

        return test
