"""Documents that no record can be read from: the verdict on them, and what is asked of their sender."""

from collections.abc import Iterable
from typing import Final
from uuid import UUID

from django.utils import timezone

from handoffaudit.handoffs.models import Event, Handoff, State, new_id
from handoffaudit.policy import load
from handoffaudit.validation.config import ValidationConfig
from handoffaudit.validation.issues import Issue
from handoffaudit.validation.unread import reject_unread
from handoffaudit.validation.verdict import Verdict

# Begins the reason of a decision that asks the sender to send the handoff again.
RESEND: Final = "Please send it again: what arrived could not be read."


def is_asked_again(tenant: int, handoff: UUID) -> bool:
    """Return whether the last decline of it asked its sender to send it again."""
    declined = Event.objects.filter(handoff=handoff, tenant=tenant, to_state=State.DECLINED)
    return RESEND in (declined.order_by("-id").values_list("reason", flat=True).first() or "")


def verdict_of_unread(handoff: Handoff, issues: tuple[Issue, ...]) -> Verdict:
    return _verdict(load.load(handoff.tenant_id), handoff, issues)


def verdicts_of_unread(unread: Iterable[tuple[Handoff, tuple[Issue, ...]]]) -> list[tuple[Handoff, Verdict]]:
    """Return each handoff with its verdict. Load the policy of each tenant once."""
    configs: dict[int, ValidationConfig] = {}
    verdicts = []
    for handoff, issues in unread:
        tenant = handoff.tenant_id
        if tenant not in configs:
            configs[tenant] = load.load(tenant)
        verdicts.append((handoff, _verdict(configs[tenant], handoff, issues)))
    return verdicts


def _verdict(config: ValidationConfig, handoff: Handoff, issues: tuple[Issue, ...]) -> Verdict:
    return reject_unread(
        issues,
        handoff_id=handoff.handoff_id,
        validation_id=str(new_id()),
        policy=config.other,
        policy_version=config.version,
        policy_versions=config.versions,
        output_hash=handoff.content_hash,
        validated_at=timezone.now(),
    )
