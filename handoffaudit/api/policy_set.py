"""API of all policies as one set: read, compared and saved together, for policies that are kept in a repository."""

from typing import Annotated, Any

from django.http import HttpRequest, HttpResponse
from ninja import Router, Schema
from pydantic import Field, StringConstraints

from handoffaudit.accounts.models import Scope
from handoffaudit.api import examples
from handoffaudit.api.auth import KeyWith, caller
from handoffaudit.api.errors import describe_value, error_members, problem_response
from handoffaudit.api.schemas import ProblemOut
from handoffaudit.api.serializers import Answer, answer
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
        description="The `version` of each kind that you compared with; answered 409 with the changes since if "
        "somebody saved a kind that would change. Not needed for a dry run.",
        examples=[{"handoff_files": 0, "roles": 3}],
    )
    dry_run: bool = Field(default=False, description="Only compare, and save nothing.")
    note: str = Field("", description="Why you save the versions, for the history.")
    commit: Annotated[str, StringConstraints(pattern=r"^[\x20-\x7e]*$", max_length=LONGEST_COMMIT)] = Field(
        "", description="The commit that the policies come from; the note of each version begins with it."
    )


class KindOut(Answer):
    kind: str = Field(description="The kind of policy.", examples=["strictness"])
    base_version: int = Field(description="The version that was compared.")
    version: int = Field(description="The version in force after the call.")
    changes: list[dict[str, Any]] = Field(
        description="The differences: `row`, `field`, `old` and `new`. At most 100; long values are cut."
    )
    more: int = Field(0, description="The number of differences that were left out.")


class PolicySetSavedOut(Answer):
    dry_run: bool = Field(description="Whether nothing was saved because of `dry_run`.")
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
        return problem_response(409, "It changed", str(stale), conflicts=conflicts)
    return answer(
        PolicySetSavedOut, {"dry_run": given.dry_run, "items": [{"more": 0} | one.to_plain() for one in planned]}
    )


def _refuse(invalid: InvalidSet) -> HttpResponse:
    errors = [
        describe_value(one.error.field, one.error.value, one.error.message, one.error.remedy, kind=one.kind)
        | {"row": one.error.row}
        for one in invalid.errors
    ]
    return problem_response(422, "The table can't be saved", str(invalid), **error_members(errors))
