"""The page of a dry run: its progress, its results, and the draft to save or edit."""

import uuid
from datetime import timedelta
from typing import Any

import orjson
from django.conf import settings
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import path
from django.utils import timezone
from django.utils.functional import SimpleLazyObject
from django.views.decorators.http import require_POST, require_safe

from handoffaudit.accounts.models import Role
from handoffaudit.dashboard.access import TenantMembership, render_page, require_role
from handoffaudit.dashboard.policies import dry_run_labels, prompts, rules, schemas, strictness
from handoffaudit.dashboard.policies.base import PolicyPage
from handoffaudit.dashboard.policies.forms import Lines
from handoffaudit.handoffs import dry_run_prompts, dry_runs, queries, stats
from handoffaudit.handoffs.models import WAITING_STATES, HandoffBody, Trial
from handoffaudit.policy.errors import InvalidPolicy, NoSuchVersion
from handoffaudit.policy.models import Kind
from handoffaudit.policy.versions import Stale, Table

TEMPLATE = "dashboard/trials/page.html"

PART = "trial"

PAGES: dict[str, PolicyPage[Any]] = {
    page.name: page for page in (strictness.PAGE, rules.PAGE, schemas.PAGE, prompts.PAGE)
}

MOST_LINES = 10

# A running worker starts a dry run within a second.
LONG = timedelta(seconds=15)


@require_role(Role.VIEWER)
@require_safe
def trial(request: HttpRequest, who: TenantMembership, pk: uuid.UUID) -> HttpResponse:
    return _page(request, who, _trial(who, pk))


@require_role(Role.ADMIN)
@require_POST
def save(request: HttpRequest, who: TenantMembership, pk: uuid.UUID) -> HttpResponse:
    """Save the draft as a new version on top of the version that the dry run compared it with."""
    tried = _trial(who, pk)
    page, draft = PAGES[tried.kind], orjson.loads(tried.draft)
    try:
        saved = page.versions.save(
            tenant=who.tenant,
            base_version=tried.base_version,
            rows=page.versions.from_plain(draft),
            actor=who.person.username,
            note=str(draft.get("note", "")),
        )
    except Stale:
        return _page(request, who, tried, status=409)
    except InvalidPolicy as invalid:
        messages.error(request, f"Not saved: {invalid.errors[0]}")
        return _page(request, who, tried, status=400)
    messages.success(request, f"Saved as version {saved.version}.")
    return redirect(page.address(who))


@require_role(Role.ADMIN)
@require_POST
def cancel(request: HttpRequest, who: TenantMembership, pk: uuid.UUID) -> HttpResponse:
    """Cancel the dry run; the results so far stay."""
    tried = _trial(who, pk)
    if not dry_runs.cancel(tenant=who.tenant, pk=tried.pk, actor=who.person.username):
        messages.info(request, "The dry run had ended already.")
    return redirect("dashboard:trial", tenant=who.tenant.slug, pk=tried.pk)


@require_role(Role.VIEWER)
@require_safe
def one(request: HttpRequest, who: TenantMembership, pk: uuid.UUID, handoff: uuid.UUID) -> HttpResponse:
    """Show one handoff of a dry run: its current verdict beside the verdict with the draft."""
    tried = _trial(who, pk)
    found = queries.of_tenant(who.tenant).filter(pk=handoff).exclude(state__in=WAITING_STATES).first()
    if found is None:
        raise Http404("There is no such handoff in this dry run.")
    context: dict[str, Any] = {
        "kind": PAGES[tried.kind],
        "section": PAGES[tried.kind].name,
        "trial": tried,
        "handoff": found,
        "with_model": tried.kind == Kind.PROMPTS,
        "most": dry_run_labels.MOST_ISSUES,
    }
    try:
        now, then = dry_runs.judge_again(tried, found)
    except HandoffBody.DoesNotExist:
        messages.info(request, "Retention has deleted the document of this handoff: it cannot be judged again.")
        return redirect("dashboard:trial", tenant=who.tenant.slug, pk=tried.pk)
    except InvalidPolicy as invalid:
        raise Http404("The draft can no longer be saved, so no handoff is judged by it.") from invalid
    except dry_run_prompts.AnswerNotStored:
        context |= {"not_kept": True, "days": settings.MODEL_CACHE_DAYS}
    else:
        context |= {"now": now, "then": then, "findings": dry_run_labels.compare_verdicts(now, then)}
    return render(request, "dashboard/trials/one.html", context)


def _trial(who: TenantMembership, pk: uuid.UUID) -> Trial:
    try:
        return dry_runs.get(who.tenant, pk)
    except Trial.DoesNotExist as missing:
        raise Http404("There is no such dry run.") from missing


def _page(request: HttpRequest, who: TenantMembership, tried: Trial, status: int = 200) -> HttpResponse:
    page = PAGES[tried.kind]
    now = page.versions.current(who.tenant)
    found = dry_run_labels.flips(tried)
    number = sum(flip.number for flip in found)
    flip, code = request.GET.get("flip", ""), request.GET.get("code", "")
    changed = dry_run_labels.changed_handoffs(tried, flip)
    context: dict[str, Any] = {
        "kind": page,
        # Dry runs of all kinds share their address; the menu highlights the kind that the dry run evaluates.
        "section": page.name,
        "trial": tried,
        "scope": dry_run_labels.scope(tried),
        "types": dry_run_labels.types(tried.handoff_types),
        "known": SimpleLazyObject(lambda: dry_run_labels.join_types(stats.list_known_values(who.tenant).types)),
        "flips": found,
        "number": number,
        "same": tried.judged - number - tried.unasked - tried.removed,
        "changed": dry_run_labels.changed_handoffs(tried, flip, code) if code else changed,
        "codes": dry_run_labels.codes(changed),
        "flip": next((one for one in found if one.name == flip), None),
        "code": code,
        "listed": len(tried.changed),
        "late": not tried.judged and not tried.finished_at and timezone.now() - tried.started_at > LONG,
        # The section that the page polls each second does not show these lines.
        "lines": SimpleLazyObject(lambda: _lines(who, page, tried)),
        "now": now,
        "moved_on": now.version != tried.base_version,
        "in_force": SimpleLazyObject(lambda: _in_force(page, now, tried)),
        "back": page.address(who, {"trial": str(tried.pk)}),
    }
    return render_page(request, TEMPLATE, context, partials=(PART,), status=status)


def _draft(page: PolicyPage[Any], tried: Trial) -> tuple[Any, ...] | None:
    """Return the draft's rows; None if the draft could no longer be saved."""
    try:
        return page.versions.from_plain(orjson.loads(tried.draft))
    except InvalidPolicy:
        return None


def _lines(who: TenantMembership, page: PolicyPage[Any], tried: Trial) -> Lines:
    """Return the changes that the draft makes."""
    rows = _draft(page, tried)
    try:
        base = page.versions.at_version(who.tenant, tried.base_version)
    except NoSuchVersion:
        rows = None
    if rows is None:
        return Lines((), 0)
    return Lines.of(page.lines(page.versions.difference(base.rows, rows)), MOST_LINES)


def _in_force(page: PolicyPage[Any], now: Table[Any], tried: Trial) -> bool:
    """Return whether the current policy already equals the draft, because somebody saved the same rows."""
    rows = _draft(page, tried)
    return rows is not None and not page.versions.difference(now.rows, rows)


urlpatterns = [
    path("trials/<uuid:pk>/", trial, name="trial"),
    path("trials/<uuid:pk>/save/", save, name="trial_save"),
    path("trials/<uuid:pk>/cancel/", cancel, name="trial_cancel"),
    path("trials/<uuid:pk>/<uuid:handoff>/", one, name="trial_handoff"),
]
