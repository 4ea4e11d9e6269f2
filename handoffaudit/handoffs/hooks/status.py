"""Status of hook events: its derivation from verdict and phase results, the answers of hooks, and stored records."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import orjson
from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs import queries
from handoffaudit.handoffs.hooks.hook_events import Event, Name, digest, raw_digest
from handoffaudit.handoffs.models import WAITING_STATES, Handoff, HookEvent, State, ValidationState
from handoffaudit.validation.errors import InvalidConfigError
from handoffaudit.validation.layers import entry_of, semantic
from handoffaudit.validation.phase_rules import (
    Overall,
    PhaseRule,
    RuleResult,
    RuleStatus,
    overall,
    parse_results,
    parse_rules,
)
from handoffaudit.validation.text import clean
from handoffaudit.validation.times import utc_text

NOT_MET: Final = semantic.OBJECTIVE_NOT_MET.code

UNAVAILABLE: Final = semantic.UNAVAILABLE.code

HYBRID: Final = "hybrid"

MODES: Final = ("fallback", HYBRID)

NO_VERDICT: Final = "The verdict was not ready in time."

_LAYER: Final = "semantic"

_MOST_FINDINGS = 5


class Status(StrEnum):
    PASSED = "PASSED"
    FAILED = "FAILED"
    NOT_APPLICABLE = "NOT_APPLICABLE"
    UNKNOWN = "UNKNOWN"


@dataclass(frozen=True, slots=True)
class ObjectiveCheck:
    """The result of the LLM check of the objective, and the LLM that made the check."""

    status: Status
    message: str
    model: str = ""


@dataclass(frozen=True, slots=True)
class Phase:
    """The phase rules of a workflow with the client's results. `flaw` says why rules or results cannot be read."""

    rules: tuple[PhaseRule, ...] = ()
    results: tuple[RuleResult, ...] = ()
    hybrid: bool = False
    flaw: str = ""

    @property
    def status(self) -> Status:
        if not self.rules:
            return Status.NOT_APPLICABLE
        return {Overall.PASSED: Status.PASSED, Overall.FAILED: Status.FAILED}.get(
            overall(self.rules, self.results), Status.UNKNOWN
        )

    @property
    def failed(self) -> list[RuleResult]:
        return [one for one in self.results if one.status is RuleStatus.FAILED]


NO_PHASE: Final = Phase()

_NOT_PASSED: Final[Mapping[str, tuple[Status, str, str]]] = {
    State.REJECTED: (Status.FAILED, State.REJECTED.value, "The handoff is rejected."),
    State.DECLINED: (Status.FAILED, State.DECLINED.value, "A person declined the handoff."),
    State.HELD: (Status.UNKNOWN, State.HELD.value, "The handoff is held for a person to decide."),
}


def read_phase(plain: object) -> Phase:
    """Parse phase results. Never raise an error: unreadable results set `flaw` and have no effect on the status."""
    if plain is None:
        return NO_PHASE
    if not isinstance(plain, dict):
        return Phase(flaw="phase_results is not an object with rules and results.")
    mode = plain.get("mode", MODES[0])
    if mode not in MODES:
        return Phase(flaw="phase_results.mode is neither fallback nor hybrid.")
    try:
        rules = parse_rules(plain.get("rules", []))
        results = parse_results(plain.get("results", []))
    except InvalidConfigError as error:
        return Phase(flaw=f"phase_results can't be read: {error}")
    return Phase(rules, results, hybrid=mode == HYBRID)


def check_objective(verdict: Mapping[str, Any] | None, *, final: bool) -> ObjectiveCheck:
    """Return the result for the objective, from a verdict in API format.

    The status is UNKNOWN without a verdict, if the verdict is not `final`, and while the LLM check is pending.
    """
    if verdict is None or not final or _LAYER in verdict["pending"]:
        return ObjectiveCheck(Status.UNKNOWN, NO_VERDICT)
    model = verdict["validator_model"] or ""
    issues = {issue["code"]: issue for issue in verdict["issues"]}
    if NOT_MET in issues:
        issue = issues[NOT_MET]
        # The LLM may have answered PASSED with less confidence than the type requires. The check has still failed.
        text = f"{Status.FAILED} with confidence {issue['metadata'].get('confidence'):.2f}"
        return ObjectiveCheck(Status.FAILED, f"{text}: {issue['message']}", model)
    if UNAVAILABLE in issues:
        return ObjectiveCheck(Status.NOT_APPLICABLE, issues[UNAVAILABLE]["message"])
    layer = next((one for one in verdict["layers"] if one["name"] == _LAYER), None)
    if layer and layer["status"] == "passed" and model:
        return ObjectiveCheck(Status.PASSED, layer["why"], model)
    why = (layer["why"] if layer else "") or "The objective was not checked."
    return ObjectiveCheck(Status.NOT_APPLICABLE, f"{why[0].upper()}{why[1:]}")


def combine(check: ObjectiveCheck, phase: Phase) -> Status:
    """Return the status of the objective check; in hybrid mode, combine it with the status of the phase rules.

    If the objective check does not apply, return the status of the phase rules.
    """
    if check.status is Status.NOT_APPLICABLE:
        return phase.status
    if not phase.hybrid:
        return check.status
    both = (check.status, phase.status)
    if Status.FAILED in both:
        return Status.FAILED
    return Status.UNKNOWN if Status.UNKNOWN in both else Status.PASSED


@dataclass(frozen=True, slots=True)
class Contradiction:
    """A handoff in a state that does not allow the status PASSED, with the status to use instead and the reason."""

    status: Status
    state: str
    message: str


def find_contradiction(status: Status, state: str) -> Contradiction | None:
    """Return the contradiction if the status is PASSED but the handoff is rejected, declined or held, or else None.

    The answer of the hook must agree with the stored handoff. If the objective is met but the handoff is rejected for
    another reason, the hook answers FAILED. If the handoff waits for a person, the hook answers UNKNOWN.
    """
    if status is not Status.PASSED or state not in _NOT_PASSED:
        return None
    return Contradiction(*_NOT_PASSED[state])


def counting_phase(check: ObjectiveCheck, phase: Phase) -> Phase:
    """Return the phase results if they count for the status, else `NO_PHASE`."""
    return phase if phase.hybrid or check.status is Status.NOT_APPLICABLE else NO_PHASE


def list_findings(verdict: Mapping[str, Any] | None, besides: Sequence[str] = ()) -> list[str]:
    """Return a text for each rule code that rejects or holds the handoff, at most five, without the codes `besides`."""
    wanted = [issue for issue in (verdict or {}).get("issues", ()) if issue["code"] not in besides]
    grave = [one for one in wanted if one["severity"] in ("error", "critical") or entry_of(one["code"]).holds]
    times = Counter(issue["code"] for issue in grave)
    first = {issue["code"]: issue for issue in reversed(grave)}
    return [_describe_finding(first[code], times[code]) for code in list(times)[:_MOST_FINDINGS]]


def _describe_finding(issue: Mapping[str, Any], times: int) -> str:
    others = f" (and {times - 1} more like it)" if times > 1 else ""
    hint = f" {issue['hint']}" if issue["hint"] else ""
    return f"{issue['code']}: {issue['message']}{others}{hint}"


# The longest text that an agent host reads, in characters.
LONGEST: Final = 10_000

DENY: Final = "deny"

ASK: Final = "ask"

BLOCK: Final = "block"


@dataclass(frozen=True, slots=True)
class Ruling:
    """The decision of the hook.

    `permission` is the answer for a task that is not handed out yet; empty text leaves the decision to the agent host.
    `state` is the stored validation state, or None if none was stored.
    """

    status: Status
    reason: str = ""
    blocked: bool = False
    permission: str = ""
    handoff_id: str | None = None
    state: dict[str, Any] | None = None


def make_answer(name: Name | None, ruling: Ruling) -> dict[str, Any]:
    """Return the answer to the request. `name` is None if the request contained no event."""
    reason = clean(ruling.reason, LONGEST)
    return {
        "status": ruling.status.value,
        "blocked": ruling.blocked,
        "exit_code": int(ruling.blocked),
        "reason": reason,
        "handoff_id": ruling.handoff_id,
        "validation_state": ruling.state,
        **_make_host_answer(name, ruling, reason),
    }


def _make_host_answer(name: Name | None, ruling: Ruling, reason: str) -> dict[str, Any]:
    """Return the answer in the format of the agent host, empty if the hook has no objection.

    With an empty answer, the permissions that the user gave the agent host apply. The permission `defer` is never used,
    because the call would then wait until somebody resumes it.
    """
    if name is Name.HANDING_OUT and ruling.permission:
        output = {"permissionDecision": ruling.permission, "permissionDecisionReason": reason}
        return {"hookSpecificOutput": {"hookEventName": name.value, **output}}
    if name in (Name.HANDED_BACK, Name.STOPPED) and ruling.blocked:
        return {"decision": BLOCK}
    return {}


RULE: Final = "semantic_objective_match"

OUTCOME: Final = "handoff_accepted"


def begin_event(tenant: Tenant, event: Event, given_key: str, phase: object) -> HookEvent:
    """Return the row of this event. Create the row unless the event arrived before."""
    return HookEvent.objects.get_or_create(
        tenant_id=tenant.pk,
        key=_make_key(event, given_key, phase),
        defaults={
            "name": event.name.value,
            "at": timezone.now(),
            "session_id": event.session,
            "workflow_id": event.workflow,
            "phase_id": event.phase_id,
            "phase": orjson.dumps(phase).decode() if phase is not None else "",
        },
    )[0]


def _make_key(event: Event, given: str, phase: object) -> str:
    """Return the key that identifies an event when it arrives again.

    The key is made from the sender's key or, without one, from the call or the whole event. Without a sender's key,
    phase results are part of the key, so that the same event with other results is decided again.
    """
    if given:
        return digest("given", given)
    if phase is not None:
        return digest("phase", raw_digest(event.raw), raw_digest(orjson.dumps(phase)))
    if event.session_id and event.tool_use_id and event.name in (Name.HANDING_OUT, Name.HANDED_BACK):
        return digest("call", event.name, event.session_id, event.tool_use_id)
    return digest("whole", raw_digest(event.raw))


def first_answer(row: HookEvent) -> dict[str, Any] | None:
    """Return the stored answer to the event, or None if there is no answer or its status is UNKNOWN."""
    if not row.answer or row.status == Status.UNKNOWN:
        return None
    answer: dict[str, Any] = orjson.loads(row.answer)
    return answer


def phase_of(row: HookEvent) -> Phase:
    return read_phase(orjson.loads(row.phase) if row.phase else None)


def keep_answer(row: HookEvent, answer: Mapping[str, Any]) -> None:
    HookEvent.objects.filter(pk=row.pk).update(answer=orjson.dumps(answer).decode(), status=answer["status"])


def keep_handoff(row: HookEvent, handoff: Handoff) -> None:
    if row.handoff != handoff.pk:
        HookEvent.objects.filter(pk=row.pk).update(handoff=handoff.pk)
        row.handoff = handoff.pk


def keep_state(
    row: HookEvent, check: ObjectiveCheck, phase: Phase, status: Status, contrary: Contradiction | None = None
) -> dict[str, Any] | None:
    """Store the validation state of this event, once for each status, and return the state.

    Return None if the event has no workflow, because the state then has no URL.
    """
    if not row.workflow_id:
        return None
    kept, _ = ValidationState.objects.get_or_create(
        tenant_id=row.tenant_id,
        event=row.pk,
        status=status.value,
        defaults={
            "workflow_id": row.workflow_id,
            "phase_id": row.phase_id,
            "content": orjson.dumps(_build_content(row, check, phase, status, contrary)).decode(),
        },
    )
    content: dict[str, Any] = orjson.loads(kept.content)
    return content


def _build_content(
    row: HookEvent, check: ObjectiveCheck, phase: Phase, status: Status, contrary: Contradiction | None
) -> dict[str, Any]:
    now = utc_text(timezone.now())
    kinds = {rule.rule_id: rule.rule_type.value for rule in phase.rules}
    results = [one.as_plain() | {"rule_type": kinds[one.rule_id]} for one in phase.results if one.rule_id in kinds]
    if check.status in (Status.PASSED, Status.FAILED):
        semantic = {
            "result_id": f"{row.pk}-semantic",
            "rule_id": RULE,
            "rule_type": "semantic",
            "validated_at": now,
            "status": check.status.value.lower(),
            "message": check.message,
            "details": {"validation_type": "semantic", "model": check.model},
        }
        results.insert(0, semantic)
    if contrary:
        outcome = {
            "result_id": f"{row.pk}-outcome",
            "rule_id": OUTCOME,
            "rule_type": "validation",
            "validated_at": now,
            "status": "failed" if contrary.status is Status.FAILED else "skipped",
            "message": contrary.message,
            "details": {"state": contrary.state, "handoff_id": str(row.handoff) if row.handoff else None},
        }
        results.append(outcome)
    executed = {one["rule_id"] for one in results if one["status"] != "skipped"}
    return {
        "workflow_id": row.workflow_id,
        "phase_id": row.phase_id,
        "session_id": row.session_id,
        "validation_status": status.value,
        "persisted_at": now,
        "summary": {"total_rules_executed": len(executed), "results_count": len(results)},
        "rule_results": results,
    }


def find_state(tenant: Tenant, workflow_id: str, phase_id: str) -> dict[str, Any] | None:
    """Return the validation state of the newest event of a phase, or None if the phase has no event.

    If the verdict was made after the answer to the event, this function stores the state that the verdict leads to.
    """
    if "\x00" in workflow_id + phase_id:
        return None
    rows = ValidationState.objects.filter(tenant=tenant, workflow_id=workflow_id, phase_id=phase_id)
    newest = rows.order_by("-event", "-id").first()
    if newest is None:
        return None
    content: dict[str, Any] = orjson.loads(newest.content)
    return (_add_late_verdict(newest) or content) if newest.status == Status.UNKNOWN else content


def _add_late_verdict(row: ValidationState) -> dict[str, Any] | None:
    event = HookEvent.objects.filter(pk=row.event, tenant=row.tenant_id).first()
    if event is None or event.handoff is None:
        return None
    handoff = Handoff.objects.filter(pk=event.handoff, tenant=row.tenant_id).first()
    if handoff is None or handoff.state in WAITING_STATES:
        return None
    phase = phase_of(event)
    check = check_objective(queries.current_verdict(handoff), final=True)
    status = combine(check, phase)
    contrary = find_contradiction(status, handoff.state)
    status = contrary.status if contrary else status
    if status is Status.UNKNOWN:
        return None
    return keep_state(event, check, counting_phase(check, phase), status, contrary)
