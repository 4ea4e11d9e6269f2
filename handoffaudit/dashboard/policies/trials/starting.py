"""A draft in an editor becomes a trial: on which handoffs, and kept so that the editor can be opened on it again."""

import uuid
from typing import Any

import orjson
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone
from django_htmx.http import HttpResponseClientRedirect

from handoffaudit.dashboard.access import Who
from handoffaudit.dashboard.partials import is_htmx
from handoffaudit.dashboard.policies.drafts import LONGEST_KEPT, Draft
from handoffaudit.dashboard.policies.pages import PolicyPage, unchanged
from handoffaudit.dashboard.policies.trials.scopes import ALL_TYPES, MODEL_SCOPES, SCOPES, USUAL
from handoffaudit.handoffs.dry_runs import run
from handoffaudit.handoffs.models import Trial
from handoffaudit.policy.errors import InvalidPolicy, PolicyError

FORM = "form"
NOT_KEPT = ("csrfmiddlewaretoken", "agreed")


def begin(who: Who, page: PolicyPage[Any], draft: Draft[Any], given: QueryDict) -> Trial | None:
    """Starts the trial; None where the draft holds it back, and now says why.

    Raises `Stale`, and `InvalidPolicy` where the draft could not be saved or changes nothing.
    """
    now = unchanged(page.versions, who, draft.base_version)
    rows = page.versions.checked(draft.rows(now))
    changes = page.versions.difference(now.rows, rows)
    if not changes:
        remedy = "Change something, then try it."
        raise InvalidPolicy([PolicyError("", "", None, "This is what is in force already.", remedy)])
    scope = (SCOPES | MODEL_SCOPES).get(draft.tried, SCOPES[USUAL])
    trial = run.plan(
        tenant=who.tenant,
        kind=page.versions.kind,
        content=page.versions.to_plain(rows) | {"note": draft.note, FORM: _kept(given)},
        base_version=now.version,
        actor=who.person.username,
        handoff_types=[] if draft.types == ALL_TYPES else draft.touched(who.tenant, now, rows),
        most=scope.most,
        since=timezone.now() - scope.within if scope.within else None,
    )
    return None if draft.holds_back(trial) else run.begin(trial)


def opened(request: HttpRequest, who: Who, trial: Trial) -> HttpResponse:
    """To the trial's page."""
    address = reverse("dashboard:trial", args=[who.tenant.slug, trial.pk])
    return HttpResponseClientRedirect(address) if is_htmx(request) else redirect(address)


def form_asked_for(request: HttpRequest, who: Who, page: PolicyPage[Any]) -> QueryDict | None:
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


def _kept(given: QueryDict) -> dict[str, list[str]]:
    """The form, as far as an editor reads it."""
    kept: dict[str, list[str]] = {}
    left = LONGEST_KEPT
    for name, values in given.lists():
        size = len(name) + sum(len(value) for value in values)
        if name not in NOT_KEPT and size <= left:
            kept[name] = values
            left -= size
    return kept
