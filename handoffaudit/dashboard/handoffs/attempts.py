"""The attempts at a handoff, its comparison with an accepted handoff, and its repair."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import path
from django.utils.dateparse import parse_datetime
from django.views.decorators.http import require_http_methods

from handoffaudit.accounts.models import Role
from handoffaudit.dashboard.access import TenantMembership, require_role
from handoffaudit.dashboard.handoffs.sections import handoff_or_404
from handoffaudit.handoffs import attempts, queries, repair_cases, repairs
from handoffaudit.handoffs import lineage as handoffs_lineage
from handoffaudit.handoffs.lineage import Attempt
from handoffaudit.handoffs.models import Handoff, State
from handoffaudit.handoffs.transitions import Actor
from handoffaudit.validation.diff import Change
from handoffaudit.validation.remediation import RemediationLog
from handoffaudit.validation.repair import RepairStatus
from handoffaudit.validation.text import pluralize

ACTIONS = {
    "retry": "Fix it and send it again",
    "re_retrieve": "Fetch the sources again, then send it again",
    "escalate": "A person must look",
    "insufficient_evidence": "Not enough evidence: the sender is asked for nothing more",
    "accept": "Accepted without a finding: nothing to do",
    "accept_with_warnings": "Accepted with warnings: nothing to fix",
}

REASONS = {
    "critical_severity": "a critical issue",
    "remediation_exhausted": "no tries are left",
    "repair_failed": "all three tries to repair it failed",
}

STATUS_WORDS = {
    RepairStatus.NOT_NEEDED: "There is nothing to repair.",
    RepairStatus.NOT_POSSIBLE: "It can't be repaired by rule.",
    RepairStatus.REPAIRED: "It can be repaired.",
    RepairStatus.ESCALATED: "No repair led to a document without errors.",
}

# These texts describe what was stored where no candidate passed.
STORED_WORDS = {RepairStatus.ESCALATED: "The tries are stored, and the handoff is escalated to a person."}


@dataclass(frozen=True, slots=True)
class RepairStep:
    words: str
    at: datetime | None
    note: str


@dataclass(frozen=True, slots=True)
class RepairRequest:
    """The repair requests that the sender of a lineage has received so far."""

    state: str
    actions: tuple[RepairStep, ...]


def repair_request(log: RemediationLog | None) -> RepairRequest | None:
    """Return the repair requests in the order they were made; None if the sender received none."""
    if log is None or not log.actions_taken:
        return None
    return RepairRequest(log.state, tuple(_repair_step(taken) for taken in log.actions_taken))


def _repair_step(taken: Mapping[str, Any]) -> RepairStep:
    note = f"try {taken['attempt']}" if "attempt" in taken else REASONS.get(str(taken.get("reason")), "")
    action = str(taken["action"])
    return RepairStep(ACTIONS.get(action, action), parse_datetime(str(taken["timestamp"])), note)


def advice_of(handoff: Handoff, content: Mapping[str, Any] | None) -> str:
    """Return the recommended next action for a rejected handoff; an empty string for any other handoff."""
    action = (content or {}).get("recommended_action")
    if handoff.state != State.REJECTED or action is None:
        return ""
    log = (content or {}).get("remediation") or {}
    left = log.get("max_retries", 0) - log.get("retry_count", 0)
    more = f" After that, {pluralize(left, 'more try', 'more tries')} before a person is called." if left > 0 else ""
    return f"Due next: {ACTIONS.get(action, action).lower()}.{more if action == 'retry' else ''}"


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two attempts to compare; `is_chosen` is true if the reader chose the two attempts."""

    before: Handoff
    after: Handoff
    result: Attempt
    is_chosen: bool


def lineage_context(
    request: HttpRequest, who: TenantMembership, shown: Handoff, verdict: dict[str, Any] | None
) -> dict[str, Any]:
    """Return the context for the attempts: the lineage, the repair requests, and whether this person can repair."""
    lineage = handoffs_lineage.compare_attempts(shown)
    asked = repair_request(attempts.load_record(shown))
    advice = advice_of(shown, verdict)
    can_repair = shown.state == State.REJECTED and not shown.is_unreadable and who.may(Role.REVIEWER)
    return {
        "lineage": lineage,
        "compared": _compare(request, lineage),
        "attempts": [one.handoff for one in reversed(lineage) if one.handoff.attempt < shown.attempt],
        "later": queries.later_attempt(shown),
        "asked": asked,
        "advice": advice,
        "can_repair": can_repair,
        "has_lineage": bool(len(lineage) > 1 or asked or advice or can_repair),
    }


def _compare(request: HttpRequest, lineage: Sequence[Attempt]) -> Comparison | None:
    """Compare the two attempts that the address names; otherwise preselect the first and the last attempt."""
    known = {str(one.handoff.pk): one.handoff for one in lineage}
    before, after = known.get(request.GET.get("from", "")), known.get(request.GET.get("to", ""))
    if before and after:
        return Comparison(before, after, handoffs_lineage.compare_pair(before, after), is_chosen=True)
    if len(lineage) < 2:
        return None
    first, last = lineage[0].handoff, lineage[-1].handoff
    return Comparison(first, last, Attempt(last), is_chosen=False)


@require_role(Role.REVIEWER)
@require_http_methods(["GET", "HEAD", "POST"])
def repair(request: HttpRequest, who: TenantMembership, pk: UUID) -> HttpResponse:
    """Preview the repair of a rejected handoff; a POST stores the result as new attempts."""
    shown = handoff_or_404(who, pk)
    if shown.state != State.REJECTED:
        messages.info(request, f"It is {shown.state}: only rejected handoffs can be repaired.")
        return redirect("dashboard:handoff", tenant=who.tenant.slug, pk=shown.pk)
    if request.method == "POST":
        return _store(request, who, shown)
    result = repairs.make_candidates(repair_cases.case_of_stored(shown))
    context = {"handoff": shown, "result": result, "words": STATUS_WORDS[result.status]}
    return render(request, "dashboard/handoff/repair.html", context)


def _store(request: HttpRequest, who: TenantMembership, shown: Handoff) -> HttpResponse:
    try:
        result = repairs.repair_stored(handoff=shown, actor=Actor.person(who.person))
    except repairs.NotRepairable as error:
        messages.error(request, str(error))
        return redirect("dashboard:handoff", tenant=who.tenant.slug, pk=shown.pk)
    later = queries.later_attempt(queries.get(who.tenant, str(shown.pk)))
    if result.repaired and later:
        message = f"Stored as attempt {later.attempt}, which is {later.state}. See under Attempts what repair changed."
        messages.success(request, message)
    else:
        came_to = STORED_WORDS.get(result.status, result.why)
        messages.warning(request, f"{STATUS_WORDS[result.status]} {came_to}".strip())
    return redirect("dashboard:handoff", tenant=who.tenant.slug, pk=(later or shown).pk)


# The reader sees this many differences; the API has no more than `diff.MOST_CHANGES`.
MOST_DIFFERENCES = 50


@dataclass(frozen=True, slots=True)
class Pair:
    """A handoff beside another one, mostly an accepted one: the differences from `passed` to `shown`."""

    passed: Handoff
    shown: Handoff
    result: Attempt

    @classmethod
    def of(cls, passed: Handoff, shown: Handoff) -> "Pair":
        names = (f"the {passed.state} handoff", "this handoff")
        return cls(passed, shown, handoffs_lineage.compare_pair(passed, shown, names))

    @property
    def is_same_trace(self) -> bool:
        return bool(self.shown.trace_id) and self.shown.trace_id == self.passed.trace_id

    @property
    def changes(self) -> Sequence[Change]:
        return self.result.changed.changes[:MOST_DIFFERENCES] if self.result.changed else ()

    @property
    def has_more(self) -> bool:
        changed = self.result.changed
        return changed is not None and (len(changed.changes) > MOST_DIFFERENCES or not changed.complete)


urlpatterns = [path("handoffs/<uuid:pk>/repair/", repair, name="handoff_repair")]
