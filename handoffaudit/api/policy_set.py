"""API of all policies as one set, for policies that are kept in a repository, and of the cases that test them."""

import uuid
from collections.abc import Iterable
from typing import Annotated, Any

from django.http import Http404, HttpRequest, HttpResponse
from ninja import Path, Query, Router, Schema
from pydantic import ConfigDict, Field, StringConstraints

from handoffaudit.accounts import Refused
from handoffaudit.accounts.models import Scope, Tenant
from handoffaudit.api import errors, examples
from handoffaudit.api.auth import KeyWith, caller
from handoffaudit.api.errors import Problem, describe_value, error_members, problem_response
from handoffaudit.api.policies import refuse_repeated_keys
from handoffaudit.api.requests import check_names
from handoffaudit.api.serializers import Answer, Moment, ProblemOut, answer
from handoffaudit.handoffs import policy_cases
from handoffaudit.handoffs.models import PolicyCase
from handoffaudit.handoffs.policy_cases import CaseFields, CasePolicy
from handoffaudit.policy import policy_set
from handoffaudit.policy.policy_set import LONGEST_COMMIT, InvalidSet, StaleSet

router = Router(tags=["Policies"])

SOME = {
    "handoff_files": [{"strict_handoff_files": True}],
    "roles": [{"agent": "web_surfer", "role": "observer"}],
}


class PolicySetOut(Answer):
    versions: dict[str, int] = Field(
        description="The current version of each kind; 0 for the shipped policy.", examples=[{"roles": 3}]
    )
    policies: dict[str, list[dict[str, Any]]] = Field(
        description="The rows of each kind, without the fields that the server sets.", examples=[SOME]
    )


class PolicySetIn(Schema):
    policies: dict[str, Any] = Field(
        description="The whole list of rows of each kind to compare or save. Kinds that are not named stay unchanged.",
        examples=[SOME],
    )
    base_versions: dict[str, Annotated[int, Field(ge=0, le=2**31 - 1)]] = Field(
        {},
        description="For each kind, the version that you compared the rows with. If somebody saved one of the changed "
        "kinds since then, the answer is 409 with the newer changes. Each kind that changes needs its version, except "
        "in a dry run.",
        examples=[{"handoff_files": 0, "roles": 3}],
    )
    dry_run: bool = Field(default=False, description="Only compare, and save nothing.")
    note: str = Field("", description="The reason for the change, for the history.")
    commit: Annotated[str, StringConstraints(pattern=r"^[\x20-\x7e]*$", max_length=LONGEST_COMMIT)] = Field(
        "", description="The commit that the policies come from; the note of each version begins with it."
    )


class KindOut(Answer):
    kind: str = Field(description="The kind of policy.", examples=["strictness"])
    base_version: int = Field(description="The version in force that the rows were compared with.")
    version: int = Field(description="The version in force after the call.")
    changes: list[dict[str, Any]] = Field(
        description="The differences: `row`, `field`, `old` and `new`. At most 100; long values are cut."
    )
    more: int = Field(0, description="The number of differences that were left out.")


class PolicySetSavedOut(Answer):
    dry_run: bool = Field(description="Whether the policies were only compared, and nothing was saved.")
    items: list[KindOut] = Field(description="The kinds that were sent, with their differences.")


@router.get(
    "/policies",
    auth=KeyWith(Scope.ADMIN),
    operation_id="get_policies",
    summary="Get all policies as one set",
    response={200: PolicySetOut},
)
def get_policies(request: HttpRequest) -> HttpResponse:
    return answer(PolicySetOut, policy_set.export(caller(request).tenant))


@router.put(
    "/policies",
    auth=KeyWith(Scope.ADMIN),
    operation_id="put_policies",
    summary="Compare or save policies as one set",
    response={200: PolicySetSavedOut, 409: ProblemOut, 422: ProblemOut},
    openapi_extra=examples.body_example(
        "Compare only",
        {"policies": SOME, "dry_run": True},
    ),
)
def put_policies(request: HttpRequest, given: PolicySetIn) -> HttpResponse:
    """Save all kinds that differ as new versions, in one transaction, or save nothing."""
    refuse_repeated_keys(request)
    who = caller(request)
    try:
        if given.dry_run:
            planned = policy_set.plan(who.tenant, given.policies, who.named)
        else:
            note = policy_set.compose_note(given.commit, given.note)
            planned = policy_set.apply(who.tenant, given.policies, given.base_versions, who.named, note)
    except InvalidSet as invalid:
        return _refuse(invalid)
    except StaleSet as stale:
        conflicts = [one.to_plain() for one in stale.conflicts]
        return problem_response(409, "Version conflict", str(stale), conflicts=conflicts)
    return answer(
        PolicySetSavedOut, {"dry_run": given.dry_run, "items": [{"more": 0} | one.to_plain() for one in planned]}
    )


def _refuse(invalid: InvalidSet) -> HttpResponse:
    described = [
        describe_value(one.error.field, one.error.value, one.error.message, one.error.remedy, kind=one.kind)
        | {"row": one.error.row}
        for one in invalid.errors
    ]
    return problem_response(422, "The policy is not valid", str(invalid), **error_members(described))


RESULT: dict[str, Any] = {
    "id": "019c5d3e-7a10-7c3e-8d1f-0a2b3c4d5e6f",
    "handoff_id": "h-2026-0001",
    "status": "failed",
    "expected": "rejected",
    "outcome": "accepted",
    "codes": [],
    "differs": ["The handoff is accepted, and should be rejected."],
    "fixes": ["A check for deal_data must report an error: add a rule, or a schema."],
    "notes": [],
}
CASE: dict[str, Any] = {
    "handoff_id": "h-2026-0001",
    "expected": "rejected",
    "must_have": ["chain.circular"],
    "must_not_have": [],
    "note": "A loop must not pass.",
    "received_at": "2026-02-14T12:00:00Z",
    "document": "{}",
    "beside": "{}",
    "basis": "{}",
}
# The maximum total `PolicyCase.size` of the cases of a page, in bytes. A page with a single case may be larger.
PAGE_BYTES = 2 * 1024 * 1024

CaseId = Annotated[uuid.UUID, Path(description="The `id` of the case.")]


class CaseResultOut(Answer):
    id: str = Field(description="The id of the case; empty for a case that was sent in the request.")
    handoff_id: str = Field(description="The id of the handoff that the case is a copy of.")
    status: str = Field(description="passed, failed, or needs_llm if only the LLM could make the case pass.")
    expected: str = Field(description="The expected verdict.")
    outcome: str = Field(description="The verdict without the LLM, and without shadow mode.")
    codes: list[str] = Field(description="The rule codes that were found, at most 50.")
    differs: list[str] = Field(description="Each difference from the expected result.")
    fixes: list[str] = Field(description="Changes that would make the case pass.")
    notes: list[str] = Field(description="Limits of the result, such as that the LLM was not asked.")

    model_config = ConfigDict(json_schema_extra={"examples": [RESULT]})


class CaseOut(Answer):
    id: uuid.UUID = Field(description="The id of the case.")
    handoff: uuid.UUID = Field(description="The server's id of the handoff. The handoff itself may be deleted.")
    handoff_type: str = Field(description="The type of the handoff.")
    created_by: str = Field(description="Who kept the case.")
    created_at: Moment = Field(description="When the case was kept.")
    result: dict[str, Any] = Field(description="The last result with the policies in force.", examples=[RESULT])
    tested_at: Moment | None = Field(description="When the last result was made; null before the first test.")
    case: dict[str, Any] = Field(description="The case in the form that a file of cases has.", examples=[CASE])


class CasesOut(Answer):
    items: list[CaseOut] = Field(description="The cases, oldest first.")
    next: str | None = Field(description="The value of `after` for the next page; null on the last page.")


class CasesQuery(Schema):
    after: uuid.UUID | None = Field(None, description="Only cases after the case with this id.")
    limit: int = Field(50, ge=1, le=100, description="Number of cases. A page of large cases ends earlier.")


class KeepIn(Schema):
    model_config = ConfigDict(extra="forbid")

    handoff: str = Field(description="The id of the handoff.", examples=["h-2026-0001"])
    expected: str = Field(description="The verdict that the handoff should have: accepted, rejected or held.")
    must_have: list[str] = Field([], description="Rule codes that must be found.", examples=[["chain.circular"]])
    must_not_have: list[str] = Field([], description="Rule codes that must not be found.")
    note: str = Field("", description="Why the case is kept.")


class PolicyTestIn(Schema):
    model_config = ConfigDict(extra="forbid")

    policies: dict[str, Any] = Field(
        {},
        description="The draft: the whole list of rows of each kind to test. For kinds that are not named, the "
        "policies in force apply.",
        examples=[SOME],
    )
    cases: list[CaseFields] | None = Field(
        None, max_length=policy_cases.MOST_CASES, description="The cases to test, instead of the stored cases."
    )
    after: uuid.UUID | None = Field(None, description="Only stored cases after this id: `next` of the last answer.")


class PolicyTestOut(Answer):
    items: list[CaseResultOut] = Field(
        description="The results in the order of the cases. A call ends after about a second, so there may be fewer "
        "results than cases: send the remaining cases in another call."
    )
    next: str | None = Field(description="The value of `after` for more stored cases; null if all were tested.")


@router.get(
    "/policies/cases",
    auth=KeyWith(Scope.READ),
    operation_id="list_policy_cases",
    summary="List the cases that test policies",
    response={200: CasesOut, 400: ProblemOut},
)
def list_cases(request: HttpRequest, query: Query[CasesQuery]) -> HttpResponse:
    check_names(request, CasesQuery)
    rows = policy_cases.list_cases(caller(request).tenant, after=query.after)[: query.limit + 1]
    page: list[PolicyCase] = []
    size, more = 0, False
    for one in rows.iterator(chunk_size=10):
        size += one.size
        more = len(page) == query.limit or (bool(page) and size > PAGE_BYTES)
        if more:
            break
        page.append(one)
    return answer(CasesOut, {"items": [_show(one) for one in page], "next": str(page[-1].pk) if more else None})


@router.post(
    "/policies/cases",
    auth=KeyWith(Scope.REVIEW),
    operation_id="keep_policy_case",
    summary="Keep a handoff as a case",
    response={201: CaseOut, 404: ProblemOut, 422: ProblemOut},
    openapi_extra=examples.body_example(
        "A loop must not pass.",
        {"handoff": "h-2026-0001", "expected": "rejected", "must_have": ["chain.circular"]},
    ),
)
def keep_case(request: HttpRequest, asked: KeepIn) -> HttpResponse:
    """Keep a copy of a handoff, with the verdict that the handoff should have. Retention does not remove the copy."""
    who = caller(request)
    wanted = asked.dict(exclude={"handoff"})
    try:
        made = policy_cases.keep(tenant=who.tenant, reference=asked.handoff, actor=who.named, **wanted)
    except Refused as refused:
        members = errors.change_members(request, refused)
        raise Problem(422, "The case can't be kept", refused.message, **members) from None
    return answer(CaseOut, _show(made), 201)


@router.delete(
    "/policies/cases/{case}",
    auth=KeyWith(Scope.REVIEW),
    operation_id="remove_policy_case",
    summary="Remove a case",
    response={204: None, 404: ProblemOut, 409: ProblemOut},
)
def remove_case(request: HttpRequest, case: CaseId) -> HttpResponse:
    """Remove a case. A case of a handoff under a legal hold stays."""
    who = caller(request)
    try:
        policy_cases.remove(tenant=who.tenant, case=case, actor=who.named)
    except PolicyCase.DoesNotExist:
        raise Http404(f"There is no case {case}.") from None
    except Refused as refused:
        raise Problem(409, "The case can't be removed", refused.message) from None
    return HttpResponse(status=204)


@router.post(
    "/policies/test",
    auth=KeyWith(Scope.READ),
    operation_id="test_policies",
    summary="Test a draft of policies with cases",
    response={200: PolicyTestOut, 422: ProblemOut},
    openapi_extra=examples.body_example("Stored cases", {"policies": SOME}),
)
def test_policies(request: HttpRequest, given: PolicyTestIn) -> HttpResponse:
    """Judge cases by a draft of policies, without the LLM. Nothing is saved."""
    tenant = caller(request).tenant
    try:
        policy = CasePolicy.of_tenant(tenant, policy_set.parse(given.policies))
    except InvalidSet as invalid:
        return _refuse(invalid)
    cases = _list_tested(tenant, given)
    tested = list(policy_cases.judge_within(cases, policy))
    last = tested[-1][0].pk if tested else None
    more = given.cases is None and last and policy_cases.list_cases(tenant, after=last).exists()
    items = [result.to_plain() for _, result in tested]
    return answer(PolicyTestOut, {"items": items, "next": str(last) if more else None})


def _list_tested(tenant: Tenant, given: PolicyTestIn) -> Iterable[PolicyCase]:
    if given.cases is not None:
        return (one.to_case() for one in given.cases)
    return policy_cases.list_cases(tenant, after=given.after).iterator(chunk_size=10)


def _show(one: PolicyCase) -> dict[str, Any]:
    names = ("id", "handoff", "handoff_type", "created_by", "created_at", "result", "tested_at")
    return {name: getattr(one, name) for name in names} | {"case": policy_cases.to_plain(one)}
