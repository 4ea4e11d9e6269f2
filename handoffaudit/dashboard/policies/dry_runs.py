"""Dry runs of policies: the page of one dry run, its changed verdicts and rule codes, and one handoff compared."""

import uuid
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import StrEnum
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
from handoffaudit.dashboard.policies import prompts, rules, schemas, strictness
from handoffaudit.dashboard.policies.base import PolicyPage, say_saved
from handoffaudit.dashboard.policies.cases import judge_saved
from handoffaudit.dashboard.policies.forms import Lines
from handoffaudit.dashboard.policies.strictness_editor import type_name
from handoffaudit.dashboard.safe_text import cut
from handoffaudit.dashboard.templatetags.ui import code_title
from handoffaudit.handoffs import dry_run_prompts, dry_runs, queries, stats
from handoffaudit.handoffs.models import WAITING_STATES, HandoffBody, Trial
from handoffaudit.policy.models import Kind
from handoffaudit.policy.values import InvalidPolicy
from handoffaudit.policy.versions import NoSuchVersion, Stale, Table
from handoffaudit.validation.issues import Issue, Severity, is_counted
from handoffaudit.validation.text import pluralize
from handoffaudit.validation.verdict import Outcome, Verdict

MOST_TYPES = 8

MOST_CODES = 8

CODES_OF_ONE = 2

LONGEST_TYPE = 60

LONGEST_ID = 80

MOST_ISSUES = 100

# Verdicts that become rejected are listed first, then those that become held, then those that become accepted.
_ORDER = [Outcome.REJECTED.value, Outcome.HELD.value, Outcome.ACCEPTED.value]


@dataclass(frozen=True, slots=True)
class Flip:
    """The handoffs whose verdict changes from `before` to `after`; `share` is their share of all judged handoffs."""

    before: str
    after: str
    number: int
    share: float

    @property
    def name(self) -> str:
        """Return the name of this change of verdict in addresses."""
        return f"{self.before}-{self.after}"


@dataclass(frozen=True, slots=True)
class ChangedHandoff:
    """A handoff whose verdict changes.

    `codes` holds the first rule codes that decide the verdict `after` or, if `after` is accepted, the verdict `before`.
    Each code has its severity in that verdict (empty: the default severity of the code). `deciding` is the number of
    all deciding rule codes.
    """

    pk: str
    handoff_id: str
    before: str
    after: str
    codes: list[tuple[str, str]]
    deciding: int

    @property
    def shown(self) -> list[tuple[str, str]]:
        return self.codes[:CODES_OF_ONE]

    @property
    def more(self) -> int:
        return self.deciding - len(self.shown)

    @property
    def more_named(self) -> str:
        unnamed = self.deciding - len(self.codes)
        named = ", ".join(code_title(code) for code, _ in self.codes[CODES_OF_ONE:])
        return named + (f" and {unnamed} more" if unnamed else "")


def flips(trial: Trial) -> list[Flip]:
    found = []
    for key, number in trial.flips.items():
        before, _, after = key.partition(">")
        found.append(Flip(before, after, number, number / max(1, trial.judged)))
    return sorted(found, key=lambda flip: (_ORDER.index(flip.after), _ORDER.index(flip.before)))


def changed_handoffs(trial: Trial, flip: str = "", code: str = "") -> list[ChangedHandoff]:
    """Return the changed handoffs, filtered by a change of verdict (`accepted-rejected`) and a rule code."""
    return [
        ChangedHandoff(
            row["handoff"],
            cut(row["handoff_id"], LONGEST_ID),
            row["before"],
            row["after"],
            _codes_with_severity(row),
            row.get("deciding", len(row["codes"])),
        )
        for row in trial.changed
        if flip in ("", f"{row['before']}-{row['after']}") and (not code or code in row["codes"])
    ]


def _codes_with_severity(row: Mapping[str, Any]) -> list[tuple[str, str]]:
    # Dry runs of older versions did not store the severities.
    return list(zip(row["codes"], row.get("levels") or [""] * len(row["codes"]), strict=True))


def codes(rows: Sequence[ChangedHandoff]) -> list[tuple[str, str, int]]:
    """Return the most frequent deciding rule codes, each with its highest severity and its number of handoffs."""
    levels: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        for code, level in dict.fromkeys(row.codes):
            levels[code].append(level)
    most = sorted(levels, key=lambda code: -len(levels[code]))[:MOST_CODES]
    return [(code, max(levels[code], key=["", *Severity].index), len(levels[code])) for code in most]


def types(names: Sequence[str]) -> str:
    """Describe the handoff types that a dry run covers; all types if `names` is empty."""
    if not names:
        return "of all types"
    return f"of {join_types(names)}"


def join_types(names: Sequence[str]) -> str:
    """Join the names, at most the first `MOST_TYPES`, and say how many more there are."""
    shown = [cut(type_name(name), LONGEST_TYPE) for name in names[:MOST_TYPES]]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {pluralize(more, 'more type')}" if more else "")


def scope(trial: Trial) -> str:
    """Describe the handoffs that the dry run covers."""
    kind = types(trial.handoff_types)
    if trial.since:
        return f"the handoffs {kind} since {trial.since:%Y-%m-%d %H:%M} UTC, at most {trial.most:,}"
    return f"the last {trial.most:,} handoffs {kind}"


class Change(StrEnum):
    """How a finding differs between two verdicts."""

    NEW = "new"
    GONE = "gone"
    SEVERITY = "severity"
    SAME = "same"


@dataclass(frozen=True, slots=True)
class ComparedFinding:
    """Findings with the same rule code, severity and difference, from the current or the draft's verdict, or both.

    `issue` is the first of them, and `others` are the rest. `before` is the current severity if only the severity
    changes.
    """

    issue: Issue
    change: Change
    before: str = ""
    others: tuple[Issue, ...] = ()


def compare_verdicts(now: Verdict, then: Verdict) -> list[ComparedFinding]:
    """Return the findings of both verdicts: new findings, then removed, then changed severities, then the others.

    Findings with the same rule code, severities and difference form one entry. The entries contain at most
    `MOST_ISSUES` findings, and no notes.
    """
    before, after = _by_place(now, then)
    new = [ComparedFinding(issue, Change.NEW) for key, issue in after.items() if key not in before]
    gone = [ComparedFinding(issue, Change.GONE) for key, issue in before.items() if key not in after]
    both = [_of_both(before[key], issue) for key, issue in after.items() if key in before]
    order = list(Change)
    folded: dict[tuple[str, str, str, str], ComparedFinding] = {}
    for one in sorted([*new, *gone, *both], key=lambda one: order.index(one.change))[:MOST_ISSUES]:
        kind = (one.change, one.issue.code, one.issue.severity, one.before)
        first = folded.get(kind)
        folded[kind] = replace(first, others=(*first.others, one.issue)) if first else one
    return list(folded.values())


_ByPlace = dict[tuple[str, str, str], Issue]


def _by_place(now: Verdict, then: Verdict) -> tuple[_ByPlace, _ByPlace]:
    """Return the findings of both verdicts, without notes, by rule code and place.

    If a verdict has several findings with the same code at the same place, the key includes the message. Other keys
    have an empty message, because the message of the same finding may name a limit that the draft changes.
    """
    before, after = ([one for one in verdict.issues if is_counted(one.severity)] for verdict in (now, then))
    numbers = Counter(map(_place, before)) | Counter(map(_place, after))

    def by_place(issues: Sequence[Issue]) -> _ByPlace:
        return {(*_place(one), one.message if numbers[_place(one)] > 1 else ""): one for one in issues}

    return by_place(before), by_place(after)


def _place(issue: Issue) -> tuple[str, str]:
    return issue.code, issue.field_path


def _of_both(now: Issue, then: Issue) -> ComparedFinding:
    if now.severity is then.severity:
        return ComparedFinding(then, Change.SAME)
    return ComparedFinding(then, Change.SEVERITY, now.severity.value)


TEMPLATE = "dashboard/trials/page.html"

PART = "trial"

PAGES: dict[str, PolicyPage[Any]] = {
    page.name: page for page in (strictness.PAGE, rules.PAGE, schemas.PAGE, prompts.PAGE)
}

MOST_LINES = 10

# A running worker starts a dry run within a second. If no handoff is judged after this time, the page says that no
# worker has started.
LONG = timedelta(seconds=15)


@require_role(Role.VIEWER)
@require_safe
def trial(request: HttpRequest, who: TenantMembership, pk: uuid.UUID) -> HttpResponse:
    return _page(request, who, _trial(who, pk))


@require_role(Role.ADMIN)
@require_POST
def save(request: HttpRequest, who: TenantMembership, pk: uuid.UUID) -> HttpResponse:
    """Save the draft as a new version on top of the version that the dry run compared the draft with."""
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
    cases = judge_saved(who.tenant, Kind(tried.kind), tried.handoff_types)
    say_saved(request, f"Saved as version {saved.version}.", cases)
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
        "trial": tried,
        "handoff": found,
        "with_model": tried.kind == Kind.PROMPTS,
        "most": MOST_ISSUES,
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
        findings = compare_verdicts(now, then)
        before, after = _by_place(now, then)
        is_cut = len(before | after) > MOST_ISSUES
        context |= {"now": now, "then": then, "findings": findings, "is_cut": is_cut}
    return render(request, "dashboard/trials/one.html", context)


def _trial(who: TenantMembership, pk: uuid.UUID) -> Trial:
    try:
        return dry_runs.get(who.tenant, pk)
    except Trial.DoesNotExist as missing:
        raise Http404("There is no such dry run.") from missing


def _page(request: HttpRequest, who: TenantMembership, tried: Trial, status: int = 200) -> HttpResponse:
    page = PAGES[tried.kind]
    now = page.versions.current(who.tenant)
    found = flips(tried)
    number = sum(flip.number for flip in found)
    flip, code = request.GET.get("flip", ""), request.GET.get("code", "")
    changed = changed_handoffs(tried, flip)
    context: dict[str, Any] = {
        "kind": page,
        "trial": tried,
        "scope": scope(tried),
        "types": types(tried.handoff_types),
        "known": SimpleLazyObject(lambda: join_types(stats.list_known_values(who.tenant).types)),
        "flips": found,
        "number": number,
        "same": tried.judged - number - tried.unasked - tried.removed,
        "changed": changed_handoffs(tried, flip, code) if code else changed,
        "codes": codes(changed),
        "flip": next((one for one in found if one.name == flip), None),
        "code": code,
        "listed": len(tried.changed),
        "late": not tried.judged and not tried.finished_at and timezone.now() - tried.started_at > LONG,
        # The section that the page polls every second does not show these lines, so they are computed only when needed.
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
