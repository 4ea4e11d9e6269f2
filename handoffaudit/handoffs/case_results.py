"""Results of policy cases: differences between a verdict and the expected verdict, and changes that would fix them."""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, Final

import msgspec

from handoffaudit.handoffs.models import PolicyCase
from handoffaudit.validation.config import ANY_OTHER_TYPE
from handoffaudit.validation.layers import LAYERS, MODEL_LAYERS
from handoffaudit.validation.verdict import LayerStatus, Outcome, Verdict

MOST_CODES_SHOWN: Final = 50
_MOST_NAMED: Final = 20
_LAYER_BY_CODE: Final = {code.code: layer.name for layer in (*LAYERS, *MODEL_LAYERS) for code in layer.CODES}
# The layers of the rule codes that no layer has in its `CODES`, by the part of the code before the first dot.
_LAYER_BY_FAMILY: Final = {"business_rule": "rules", "schema": "structure", "files": "structure"}
_LLM_CODES: Final = frozenset(code.code for layer in MODEL_LAYERS for code in layer.CODES)
_SWITCHED_OFF: Final = "switched off"


class Status(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    NEEDS_LLM = "needs_llm"


class CaseResult(msgspec.Struct, frozen=True):
    """The result of one case.

    `id` is empty for a case that is not stored. `outcome` is the outcome without shadow mode.
    `differs` lists the differences from the expected verdict, `fixes` changes that would make the case pass, and
    `notes` the limits of the result.
    """

    id: str
    handoff_id: str
    status: Status
    expected: str
    outcome: str
    codes: list[str]
    differs: list[str]
    fixes: list[str]
    notes: list[str]

    def to_plain(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__struct_fields__} | {"status": self.status.value}


def compare(case: PolicyCase, verdict: Verdict, row: str) -> CaseResult:
    """Compare a verdict with the verdict that the case expects.

    `row` names the row of the strictness table that was used.

    A case needs the LLM if the LLM would be asked and the findings of the LLM could remove every difference.
    """
    found = {issue.code for issue in verdict.issues}
    missing = [code for code in case.must_have if code not in found]
    forbidden = [code for code in case.must_not_have if code in found]
    outcome = verdict.would_decide
    differs, fixes = [], []
    if outcome != case.expected:
        differs.append(f"The handoff is {outcome}, and should be {case.expected}.")
        fixes.append(_FIXES[Outcome(case.expected)](verdict, row))
    for code in missing:
        differs.append(f"{code} is not found, and must be.")
        fixes.append(_fix_missing(code, verdict, row))
    for code in forbidden:
        places = sorted({issue.layer for issue in verdict.issues if issue.code == code})
        differs.append(f"{code} is found, and must not be.")
        layers = ", ".join(places)
        fixes.append(f"Change the policy of the layer {layers} for {_name(row)}, so that {code} is not found.")
    # The LLM only adds findings. They can be the missing findings, and can make the outcome worse but not better.
    could_be_worse = outcome is Outcome.ACCEPTED or case.expected in (outcome, Outcome.REJECTED)
    could_be_llm = bool(verdict.pending) and could_be_worse and not forbidden and _LLM_CODES.issuperset(missing)
    status = Status.PASSED
    if differs:
        status = Status.NEEDS_LLM if could_be_llm else Status.FAILED
    return CaseResult(
        id=str(case.pk) if case.tenant_id else "",
        handoff_id=case.handoff_id,
        status=status,
        expected=case.expected,
        outcome=outcome.value,
        codes=sorted(found)[:MOST_CODES_SHOWN],
        differs=differs,
        fixes=fixes,
        notes=_list_notes(verdict),
    )


def _list_notes(verdict: Verdict) -> list[str]:
    notes = []
    if verdict.pending:
        notes.append(
            f"The LLM was not asked ({', '.join(verdict.pending)}), and its findings could change the verdict."
        )
    if verdict.would_decide != verdict.outcome:
        notes.append("The type is in shadow mode, so the handoff would be accepted all the same.")
    return notes


def _name(row: str) -> str:
    return "any other type" if row == ANY_OTHER_TYPE else row


def _fix_to_accepted(verdict: Verdict, row: str) -> str:
    deciding = sorted({f"{issue.code} (layer {issue.layer})" for issue in verdict.issues if issue.blocks})
    shown = ", ".join(deciding[:_MOST_NAMED])
    return f"The policy for {_name(row)} must let the handoff pass. These findings block it: {shown}."


def _fix_to_rejected(verdict: Verdict, row: str) -> str:
    raised = sorted({issue.code for issue in verdict.issues if not issue.blocks})[:_MOST_NAMED]
    said = f"A check for {_name(row)} must report an error"
    said += f". These findings are below an error now: {', '.join(raised)}." if raised else ": add a rule, or a schema."
    off = [layer.name for layer in verdict.layers if layer.status is LayerStatus.SKIPPED and _SWITCHED_OFF in layer.why]
    return said + (f" Layers that are switched off: {', '.join(off)}." if off else "")


def _fix_to_held(verdict: Verdict, row: str) -> str:
    errors = sorted({issue.code for issue in verdict.issues if issue.blocks and not issue.holds})[:_MOST_NAMED]
    if errors:
        named = ", ".join(errors)
        return f"The policy for {_name(row)} must hold the handoff, and these errors must not be found: {named}."
    return f"The policy for {_name(row)} must hold the handoff, for example by a lower approval length."


_FIXES: Final[Mapping[Outcome, Callable[[Verdict, str], str]]] = {
    Outcome.ACCEPTED: _fix_to_accepted,
    Outcome.REJECTED: _fix_to_rejected,
    Outcome.HELD: _fix_to_held,
}


def _fix_missing(code: str, verdict: Verdict, row: str) -> str:
    family = code.partition(".")[0]
    name = _LAYER_BY_CODE.get(code) or _LAYER_BY_FAMILY.get(family, family)
    layer = next((one for one in verdict.layers if one.name == name), None)
    if layer is not None and layer.status is LayerStatus.SKIPPED:
        return f"The layer {name} did not check {_name(row)}: {layer.why}."
    remedy = "add or change the schema of the type" if family == "schema" else "change its rules or limits"
    return f"The layer {name} must report {code} for {_name(row)}: {remedy}."
