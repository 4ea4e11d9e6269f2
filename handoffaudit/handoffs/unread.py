"""The verdict on a document that no record can be read from."""

from django.utils import timezone

from handoffaudit.handoffs.models import Handoff, new_id
from handoffaudit.policy import load
from handoffaudit.validation.issues import Issue
from handoffaudit.validation.unread import reject_unread
from handoffaudit.validation.verdict import Verdict


def verdict_of_unread(handoff: Handoff, issues: tuple[Issue, ...]) -> Verdict:
    config = load.load(handoff.tenant_id)
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
