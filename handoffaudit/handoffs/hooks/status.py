"""Pure functions for hooks: the status from a verdict and phase results, and the answer to the agent host."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from handoffaudit.handoffs.hooks.events import Name
from handoffaudit.handoffs.models import State
from handoffaudit.validation.catalogue import entry_of
from handoffaudit.validation.errors import InvalidConfigError
from handoffaudit.validation.layers import semantic
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

NOT_MET: Final = semantic.OBJECTIVE_NOT_MET.code

UNAVAILABLE: Final = semantic.UNAVAILABLE.code

HYBRID: Final = "hybrid"

MODES: Final = ("fallback", HYBRID)

NO_VERDICT: Final = "There was no verdict in the time given."

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
    """The phase rules of a workflow with the client's results. `flaw` says why they can't be read."""

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
    """Parse phase results. Never raises: unreadable results set `flaw` and decide nothing."""
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
    """Return the result for the objective, from a verdict in API format."""
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
    """Return the status of the objective check, or of the phase rules without one; in hybrid mode, combine both."""
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
    """A handoff whose stored state does not allow the status PASSED: the status to use instead, the state, and why."""

    status: Status
    state: str
    message: str


def find_contradiction(status: Status, state: str) -> Contradiction | None:
    """Return the contradiction between the status PASSED and a state that did not pass, None where there is none.

    The hook and the stored handoff must not contradict each other: a handoff that is rejected for any other reason than
    its objective has failed, and a handoff that waits for a person is undecided.
    """
    if status is not Status.PASSED or state not in _NOT_PASSED:
        return None
    return Contradiction(*_NOT_PASSED[state])


def counting_phase(check: ObjectiveCheck, phase: Phase) -> Phase:
    """Return the phase results where they count for the status, `NO_PHASE` where they do not."""
    return phase if phase.hybrid or check.status is Status.NOT_APPLICABLE else NO_PHASE


def list_findings(verdict: Mapping[str, Any] | None, besides: Sequence[str] = ()) -> list[str]:
    """Return the findings that block a handoff, each with its fix, without the rule codes in `besides`."""
    wanted = [issue for issue in (verdict or {}).get("issues", ()) if issue["code"] not in besides]
    grave = [one for one in wanted if one["severity"] in ("error", "critical") or entry_of(one["code"]).holds]
    return [_describe_finding(issue) for issue in grave[:_MOST_FINDINGS]]


def _describe_finding(issue: Mapping[str, Any]) -> str:
    hint = f" {issue['hint']}" if issue["hint"] else ""
    return f"{issue['code']}: {issue['message']}{hint}"


# The longest text that an agent host reads, in characters.
LONGEST: Final = 10_000

DENY: Final = "deny"

ASK: Final = "ask"

BLOCK: Final = "block"


@dataclass(frozen=True, slots=True)
class Ruling:
    """The decision of the hook.

    `permission` is the answer for a task that is not handed out yet, empty for no opinion. `state` is the validation
    state where one was stored.
    """

    status: Status
    reason: str = ""
    blocked: bool = False
    permission: str = ""
    handoff_id: str | None = None
    state: dict[str, Any] | None = None


def make_answer(name: Name | None, ruling: Ruling) -> dict[str, Any]:
    """Return the answer to the request. `name` is None where the request held no event."""
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
    """Return the answer in the format of the agent host, empty where nothing is wrong.

    An empty answer leaves the permissions of the host's own user as they are. `defer` would park the call until
    somebody resumes it.
    """
    if name is Name.HANDING_OUT and ruling.permission:
        output = {"permissionDecision": ruling.permission, "permissionDecisionReason": reason}
        return {"hookSpecificOutput": {"hookEventName": name.value, **output}}
    if name in (Name.HANDED_BACK, Name.STOPPED) and ruling.blocked:
        return {"decision": BLOCK}
    return {}
