"""The pages of cases: the form on the page of a handoff, the list of cases, and the test of cases after a change."""

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from django.contrib import messages
from django.core.paginator import Paginator
from django.db.models import Case, F, When
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import path
from django.views.decorators.http import require_POST, require_safe

from handoffaudit.accounts import Refused
from handoffaudit.accounts.models import Role, Tenant
from handoffaudit.dashboard.access import TenantMembership, require_role
from handoffaudit.dashboard.handoffs.handoff_page import TEMPLATE as HANDOFF_TEMPLATE
from handoffaudit.dashboard.handoffs.handoff_page import page_context
from handoffaudit.dashboard.handoffs.sections import handoff_or_404
from handoffaudit.handoffs import policy_cases
from handoffaudit.handoffs.case_results import CaseResult, Status
from handoffaudit.handoffs.models import PolicyCase
from handoffaudit.policy import kinds
from handoffaudit.policy.models import Kind
from handoffaudit.validation.text import pluralize

PAGE_SIZE: Final = 50
_LISTED: Final = (
    *("handoff", "handoff_id", "handoff_type", "expected", "must_have", "must_not_have", "note"),
    *("created_by", "created_at", "result", "tested_at"),
)


# Prompts change only what the LLM finds, and cases are judged without the LLM.
_CASE_KINDS: Final = {*kinds.KINDS, Kind.HANDOFF_FILES} - {Kind.PROMPTS}


@dataclass(frozen=True, slots=True)
class CaseCounts:
    """The number of kept cases that a change can affect.

    `tested` of them were tested before the time limit, and `failed` of the tested cases fail.
    """

    total: int
    tested: int = 0
    failed: int = 0
    of_types: bool = False

    @property
    def of_draft(self) -> str:
        return self._describe("would fail", "would fail")

    @property
    def in_force(self) -> str:
        return self._describe("fails now", "fail now")

    def _describe(self, fails: str, fail: str) -> str:
        if not self.total:
            return ""
        kept = "Kept cases of the changed types" if self.of_types else "Kept cases"
        tested = f"{self.tested:,}" if self.tested == self.total else f"the first {self.tested:,} of {self.total:,}"
        if not self.failed:
            return f"{kept}: none of {tested} {fails}."
        return f"{kept}: {self.failed:,} of {tested} {fails if self.failed == 1 else fail}."


def judge_saved(tenant: Tenant, kind: Kind, types: Sequence[str] = ()) -> CaseCounts:
    """Test the kept cases of these types, or of all types, with the policies in force, for at most about a second."""
    if kind not in _CASE_KINDS:
        return CaseCounts(0)
    return _count(tenant, kind, types, lambda cases: policy_cases.judge_stored(tenant, cases))


def judge_draft(tenant: Tenant, kind: Kind, rows: Sequence[Any], types: Sequence[str]) -> CaseCounts:
    """Test the kept cases of these types with a draft, for at most about a second. Nothing is stored."""
    policy = policy_cases.CasePolicy.of_tenant(tenant, {kind: rows})
    return _count(tenant, kind, types, lambda cases: [one for _, one in policy_cases.judge_within(cases, policy)])


def _count(tenant: Tenant, kind: Kind, types: Sequence[str], judge: Callable[[Any], list[CaseResult]]) -> CaseCounts:
    # A rule for a type also applies to handoffs of other types whose `_output_type` names that type. So cases of all
    # types are tested.
    types = () if kind is Kind.RULES else types
    cases = policy_cases.of_types(tenant, types)
    results = judge(cases)
    return CaseCounts(cases.count(), len(results), sum(one.status is Status.FAILED for one in results), bool(types))


@require_role(Role.REVIEWER)
@require_POST
def keep(request: HttpRequest, who: TenantMembership, pk: uuid.UUID) -> HttpResponse:
    """Keep the handoff as a case. A refused form is shown again with its values, so that no input is lost."""
    shown = handoff_or_404(who, pk)
    given = {name: request.POST.get(name, "") for name in ("expected", "must_have", "must_not_have", "note")}
    try:
        made = policy_cases.keep(
            tenant=who.tenant,
            reference=str(shown.pk),
            expected=given["expected"],
            must_have=given["must_have"].splitlines(),
            must_not_have=given["must_not_have"].splitlines(),
            note=given["note"],
            actor=who.person.username,
        )
    except Refused as refused:
        said = {"case_error": refused.message, "case": given}
        return render(request, HANDOFF_TEMPLATE, page_context(request, who, shown) | said, status=400)
    messages.success(request, f"Kept as a case. {_describe(made.result)}")
    return redirect("dashboard:handoff", tenant=who.tenant.slug, pk=shown.pk)


def _describe(result: Mapping[str, Any]) -> str:
    match result["status"]:
        case Status.PASSED:
            return "It passes with the policies in force."
        case Status.NEEDS_LLM:
            return "Only the LLM could make it pass, and tests do not ask the LLM."
        case _:
            return f"It fails with the policies in force: {result['differs'][0]}"


@require_role(Role.VIEWER)
@require_safe
def cases(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    """List the cases with their last results: failing cases first, then the newest."""
    fails = Case(When(result__status=Status.FAILED.value, then=0), default=1)
    rows = policy_cases.list_cases(who.tenant).order_by(fails, "-id").only(*_LISTED)
    page = Paginator(rows, PAGE_SIZE).get_page(request.GET.get("page"))
    context = {"page": page, "most": policy_cases.MOST_CASES}
    return render(request, "dashboard/cases/page.html", context)


@require_role(Role.REVIEWER)
@require_POST
def judge(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    """Test cases with the policies in force for about a second. Cases with the oldest results come first."""
    rows = policy_cases.list_cases(who.tenant)
    tested = len(policy_cases.judge_stored(who.tenant, rows.order_by(F("tested_at").asc(nulls_first=True), "id")))
    total = rows.count()
    said = f"Tested {pluralize(tested, 'case')} with the policies in force."
    if tested < total:
        said += f" Test again for the other {total - tested:,}."
    messages.success(request, said)
    return redirect("dashboard:cases", tenant=who.tenant.slug)


@require_role(Role.REVIEWER)
@require_POST
def remove(request: HttpRequest, who: TenantMembership, pk: uuid.UUID) -> HttpResponse:
    try:
        removed = policy_cases.remove(tenant=who.tenant, case=pk, actor=who.person.username)
    except PolicyCase.DoesNotExist:
        raise Http404("There is no such case.") from None
    except Refused as refused:
        messages.error(request, f"Not removed. {refused.message}")
        return redirect("dashboard:cases", tenant=who.tenant.slug)
    messages.success(request, f"Removed the case {removed.handoff_id}.")
    return redirect("dashboard:cases", tenant=who.tenant.slug)


urlpatterns = [
    path("handoffs/<uuid:pk>/case/", keep, name="case_keep"),
    path("cases/", cases, name="cases"),
    path("cases/test/", judge, name="cases_test"),
    path("cases/<uuid:pk>/remove/", remove, name="case_remove"),
]
