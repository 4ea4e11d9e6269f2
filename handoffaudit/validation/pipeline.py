"""The pipeline, which runs a handoff through the layers, and the verdict on an unreadable document."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType

import msgspec

from handoffaudit.validation import remediation
from handoffaudit.validation.config import Mode, TypePolicy
from handoffaudit.validation.issues import Issue, Severity
from handoffaudit.validation.json_text import data_hash
from handoffaudit.validation.layers import (
    LAYERS,
    MODEL_LAYERS,
    AskedLater,
    CouldNotRunError,
    Layer,
    NotCheckedError,
    Subject,
)
from handoffaudit.validation.layers.plugins import installed_layers
from handoffaudit.validation.remediation import RemediationLog, facts_of
from handoffaudit.validation.verdict import PENDING, Critique, LayerResult, LayerStatus, Outcome, Verdict, score

_GRAVE = (Severity.ERROR, Severity.CRITICAL)

_STRUCTURE = "structure"


def layers_with_model() -> tuple[Layer, ...]:
    """Return all layers: first the shipped layers, then the installed layers, then the layers that ask an LLM."""
    return (*LAYERS, *installed_layers(), *MODEL_LAYERS)


def run(
    subject: Subject,
    *,
    validation_id: str,
    now: Callable[[], datetime],
    monotonic: Callable[[], float],
    layers: Iterable[Layer] | None = None,
    new_id: Callable[[], str] | None = None,
) -> Verdict:
    """Run the layers in order and return the verdict. If the structure layer fails, all others are skipped.

    `layers` defaults to the shipped layers followed by the installed layers. `new_id` returns the id of the remediation
    record that a first attempt opens. Without `new_id`, the record has the id of the verdict. A `CouldNotRunError`
    reports an external failure and sets the status of the layer to `error`. A layer that raises `NotCheckedError` or
    `AskedLater` counts as skipped. Any other exception is a bug of the product and propagates.
    """
    started = monotonic()
    issues = subject.findings.issues = []
    results: list[LayerResult] = []
    stopped = False
    for layer in (*LAYERS, *installed_layers()) if layers is None else layers:
        why = "structure failed" if stopped else _find_skip_reason(layer, subject)
        result, found = _run_layer(layer, subject, why, monotonic)
        stopped = stopped or (layer.name == _STRUCTURE and result.status is LayerStatus.FAILED)
        results.append(result)
        issues.extend(found)
    outcome = decide(issues)
    final = _enforce(outcome, subject.policy.mode, stopped=stopped)
    at = now()
    pending = tuple(result.name for result in results if result.why == PENDING)
    action, log = None, subject.remediation
    if not pending and final is not Outcome.HELD:
        action, log = _remediate(subject, validation_id, issues, final, at, new_id or (lambda: validation_id))
    return Verdict(
        validation_id=validation_id,
        handoff_id=subject.record.handoff_id or "",
        outcome=final,
        would_decide=outcome,
        mode=subject.policy.mode,
        strictness=subject.policy.strictness,
        issues=tuple(issue.assign_number(number) for number, issue in enumerate(issues, 1)),
        layers=tuple(results),
        quality_score=score(issues),
        token_counts=subject.findings.token_counts,
        chain=subject.findings.chain,
        claims=subject.findings.claims,
        output_hash=data_hash(subject.record),
        policy_version=subject.policy_version,
        policy_versions=subject.policy_versions,
        validated_at=at,
        duration_ms=(monotonic() - started) * 1000,
        remediation=log,
        recommended_action=action,
        format=subject.record.format,
        pending=pending,
        unverified=subject.findings.unverified,
        validator_model=subject.findings.models.get("semantic"),
        prompts=dict(subject.findings.prompts),
        critique=_stamp_critique(subject.findings.critique, validation_id, at),
    )


def _stamp_critique(critique: Critique | None, validation_id: str, at: datetime) -> Critique | None:
    return (
        msgspec.structs.replace(critique, critique_id=f"{validation_id}-critique", timestamp=at) if critique else None
    )


def _remediate(
    subject: Subject,
    validation_id: str,
    issues: Iterable[Issue],
    outcome: Outcome,
    at: datetime,
    new_id: Callable[[], str],
) -> tuple[str, RemediationLog]:
    """Return the action that is due after this attempt, and the remediation log with that action."""
    accepted, enforced = outcome is Outcome.ACCEPTED, subject.policy.mode is not Mode.SHADOW
    facts = facts_of(validation_id, issues, accepted=accepted, enforced=enforced)
    action, log = remediation.decide(facts, subject.remediation, policy=subject.policy, now=at, new_id=new_id)
    return action.value, log


def _find_skip_reason(layer: Layer, subject: Subject) -> str | None:
    if layer.name in subject.policy.layers_off:
        return "switched off for this type"
    return layer.skip(subject)


def _run_layer(
    layer: Layer, subject: Subject, why_not: str | None, monotonic: Callable[[], float]
) -> tuple[LayerResult, list[Issue]]:
    if why_not is not None:
        return LayerResult(layer.name, LayerStatus.SKIPPED, why_not, 0.0), []
    started = monotonic()
    found: list[Issue] = []
    status, why = LayerStatus.PASSED, ""
    try:
        # `extend` keeps the issues that the layer yields before an exception.
        found.extend(layer.check(subject))
    except AskedLater:
        return LayerResult(layer.name, LayerStatus.SKIPPED, PENDING, (monotonic() - started) * 1000), []
    except NotCheckedError as not_checked:
        status, why = LayerStatus.SKIPPED, str(not_checked)
    except CouldNotRunError as error:
        status, why = LayerStatus.ERROR, str(error)
    else:
        why = subject.findings.notes.get(layer.name, "")
        if any(issue.blocks for issue in found):
            status = LayerStatus.FAILED
    return LayerResult(layer.name, status, why, (monotonic() - started) * 1000), found


def decide(issues: Iterable[Issue]) -> Outcome:
    """Return the outcome: rejected for any error, otherwise held for any holding code, otherwise accepted."""
    blocking = [issue for issue in issues if issue.blocks]
    if any(issue.severity in _GRAVE for issue in blocking):
        return Outcome.REJECTED
    return Outcome.HELD if blocking else Outcome.ACCEPTED


def _enforce(outcome: Outcome, mode: Mode, *, stopped: bool) -> Outcome:
    """Return the effective outcome. Shadow mode accepts everything that the structure layer does not reject."""
    return Outcome.ACCEPTED if mode is Mode.SHADOW and not stopped else outcome


def reject_unread(
    issues: Sequence[Issue],
    *,
    handoff_id: str,
    validation_id: str,
    policy: TypePolicy,
    policy_version: int,
    output_hash: str,
    validated_at: datetime,
    policy_versions: Mapping[str, int] = MappingProxyType({}),
) -> Verdict:
    """Return the verdict on a document that the structure layer rejects with these issues.

    All other layers are skipped. The document is rejected even in shadow mode.
    """
    first, *others = LAYERS
    return Verdict(
        validation_id=validation_id,
        handoff_id=handoff_id,
        outcome=Outcome.REJECTED,
        would_decide=Outcome.REJECTED,
        mode=policy.mode,
        strictness=policy.strictness,
        issues=tuple(issue.assign_number(number) for number, issue in enumerate(issues, 1)),
        layers=(
            LayerResult(first.name, LayerStatus.FAILED, "", 0.0),
            *(LayerResult(layer.name, LayerStatus.SKIPPED, "structure failed", 0.0) for layer in others),
        ),
        quality_score=0.0,
        token_counts=None,
        chain=None,
        output_hash=output_hash,
        policy_version=policy_version,
        policy_versions=policy_versions,
        validated_at=validated_at,
        duration_ms=0.0,
    )
