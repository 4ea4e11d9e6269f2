"""The targets of `handoffaudit policy`: the policies in the local database, on a server, or only in a file."""

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from handoffaudit.cli import Stop
from handoffaudit.cli.bootstrap import actor_name
from handoffaudit.cli.import_receivers import Server, describe_refusal

if TYPE_CHECKING:
    from handoffaudit.accounts.models import Tenant
    from handoffaudit.policy.policy_set import InvalidSet

MOST_OF_A_REQUEST: Final = 256 * 1024

_EXPORT: Final = "`handoffaudit policy export --cases`"

Cases = list[dict[str, Any]]


class Refused(Exception):
    """The error for refused policies, with the values that cannot be saved or the kinds that somebody else saved."""

    def __init__(
        self, detail: str, errors: Sequence[Mapping[str, Any]], conflicts: Sequence[Mapping[str, Any]]
    ) -> None:
        super().__init__(detail)
        self.errors = errors
        self.conflicts = conflicts


class BadCase(Exception):
    """The error for a case that cannot be read; `number` is the index of the case in the list."""

    def __init__(self, number: int, message: str) -> None:
        super().__init__(message)
        self.number = number
        self.message = message


class Target(Protocol):
    """The place of the policies: the local database, or a server."""

    def export(self) -> dict[str, Any]: ...

    def put(self, **change: Any) -> list[dict[str, Any]]: ...

    def export_cases(self) -> list[dict[str, Any]]: ...

    def test(self, policies: dict[str, Any], cases: Cases | None) -> list[dict[str, Any]]: ...


class LocalTarget:
    """The policies of a tenant in the local database."""

    def __init__(self, tenant: "Tenant") -> None:
        self._tenant = tenant

    def export(self) -> dict[str, Any]:
        from handoffaudit.policy import policy_set

        return policy_set.export(self._tenant)

    def put(self, **change: Any) -> list[dict[str, Any]]:
        from handoffaudit.policy import policy_set

        policies, actor = change["policies"], actor_name()
        try:
            if change.get("dry_run"):
                planned = policy_set.plan(self._tenant, policies, actor)
            else:
                note = policy_set.compose_note(change["commit"], change["note"])
                planned = policy_set.apply(self._tenant, policies, change["base_versions"], actor, note)
        except policy_set.InvalidSet as invalid:
            raise _refuse(invalid) from invalid
        except policy_set.StaleSet as stale:
            raise Refused(str(stale), [], [one.to_plain() for one in stale.conflicts]) from stale
        return [one.to_plain() for one in planned]

    def export_cases(self) -> list[dict[str, Any]]:
        from handoffaudit.handoffs import policy_cases

        return [policy_cases.to_plain(one) for one in policy_cases.list_cases(self._tenant)]

    def test(self, policies: dict[str, Any], cases: Cases | None) -> list[dict[str, Any]]:
        from handoffaudit.handoffs import policy_cases

        policy = policy_cases.CasePolicy.of_tenant(self._tenant, _parse(policies))
        return [policy_cases.judge_case(one, policy).to_plain() for one in policy_cases.list_cases(self._tenant)]


class FileTarget:
    """The policies of a file, by which cases of another file are judged without a database.

    Kinds of policies that the file lacks are as shipped.
    """

    def test(self, policies: dict[str, Any], cases: Cases | None) -> list[dict[str, Any]]:
        from pydantic import ValidationError

        from handoffaudit.handoffs import policy_cases

        policy = policy_cases.CasePolicy.of_file(_parse(policies))
        results = []
        for number, one in enumerate(cases or ()):
            try:
                case = policy_cases.CaseFields.model_validate(one).to_case()
            except ValidationError as error:
                first = error.errors(include_url=False, include_context=False, include_input=False)[0]
                field = ".".join(str(part) for part in first["loc"])
                is_object = field or isinstance(one, dict)
                said = first["msg"] if is_object else f"A case is an object with the fields that {_EXPORT} writes"
                raise BadCase(number, f"{field}: {said}." if field else f"{said}.") from error
            results.append(policy_cases.judge_case(case, policy).to_plain())
        return results


def _parse(policies: dict[str, Any]) -> Any:
    from handoffaudit.policy import policy_set

    try:
        return policy_set.parse(policies)
    except policy_set.InvalidSet as invalid:
        raise _refuse(invalid) from invalid


def _refuse(invalid: "InvalidSet") -> Refused:
    errors = [
        {"kind": one.kind, "row": one.error.row, "field": one.error.field, "value": one.error.value}
        | {"message": one.error.message, "remedy": one.error.remedy}
        for one in invalid.errors
    ]
    return Refused(str(invalid), errors, [])


class ServerTarget(Server):
    """The policies of the key's tenant on a server."""

    again = "try again"
    # The exit code 1 means that a policy differs, or that a case failed.
    code = 2

    def __init__(self, url: str, key: str, scope: str) -> None:
        super().__init__(url, key)
        self.scope = scope

    def export(self) -> dict[str, Any]:
        status, found = self.request("GET", "/policies")
        if status != 200:
            raise Stop(f"The policies can't be read ({describe_refusal(status, found)}).", 2)
        return found

    def put(self, **change: Any) -> list[dict[str, Any]]:
        status, found = self.request("PUT", "/policies", json.dumps(change).encode())
        if status == 200:
            items: list[dict[str, Any]] = found["items"]
            return items
        # Other refusals, for example of a body that is too large, concern no single value.
        if status not in (409, 422) or not (found.get("conflicts") or found.get("errors")):
            raise Stop(f"The policies are refused ({describe_refusal(status, found)}).", 2)
        raise Refused(found["detail"], found.get("errors", []), found.get("conflicts", []))

    def export_cases(self) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = []
        after = ""
        while True:
            status, found = self.request("GET", f"/policies/cases?limit=100{after}")
            if status != 200:
                raise Stop(f"The cases can't be read ({describe_refusal(status, found)}).", 2)
            items += [one["case"] for one in found["items"]]
            if found["next"] is None:
                return items
            after = f"&after={found['next']}"

    def test(self, policies: dict[str, Any], cases: Cases | None) -> list[dict[str, Any]]:
        """Test stored cases page by page, or given cases in parts that fit into a request."""
        results: list[dict[str, Any]] = []
        after = None
        while cases is None or len(results) < len(cases):
            part = None if cases is None else _cut_part(cases[len(results) :])
            found = self._test_part({"policies": policies, "cases": part, "after": after}, len(results))
            results += found["items"]
            after = found["next"]
            if cases is None and after is None:
                break
        return results

    def _test_part(self, asked: dict[str, Any], first: int) -> dict[str, Any]:
        status, found = self.request("POST", "/policies/test", json.dumps(asked).encode())
        if status == 200:
            return found
        errors = found.get("errors", [])
        field = str(errors[0]["field"]) if errors else ""
        if status == 422 and field.startswith("cases."):
            number = field.split(".")[1]
            raise BadCase(first + int(number), f"{field}: {errors[0]['message']} {errors[0]['remedy']}")
        if status != 422 or not errors:
            raise Stop(f"The cases can't be tested ({describe_refusal(status, found)}).", 2)
        raise Refused(found["detail"], errors, [])


def _cut_part(cases: Cases) -> Cases:
    """Return the first cases, as many as fit into a request, and at least one."""
    size, number = 0, 0
    for one in cases:
        size += len(json.dumps(one))
        if number and size > MOST_OF_A_REQUEST:
            break
        number += 1
    return cases[:number]
