"""The verdict on a document that no record can be read from."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from types import MappingProxyType

from handoffaudit.validation.config import TypePolicy
from handoffaudit.validation.issues import Issue
from handoffaudit.validation.layers import LAYERS
from handoffaudit.validation.verdict import LayerResult, LayerStatus, Outcome, Verdict


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
    """Rejected by the structure layer with these issues; no other layer ran. Shadow mode does not let it pass."""
    first, *others = LAYERS
    return Verdict(
        validation_id=validation_id,
        handoff_id=handoff_id,
        outcome=Outcome.REJECTED,
        would_decide=Outcome.REJECTED,
        mode=policy.mode,
        strictness=policy.strictness,
        issues=tuple(issue.numbered(number) for number, issue in enumerate(issues, 1)),
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
