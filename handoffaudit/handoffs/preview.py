"""Verdicts on submissions that are not stored."""

from dataclasses import dataclass

from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs import attempts, lineage, remediation
from handoffaudit.handoffs.ingest.prepare import Refusal, prepare
from handoffaudit.handoffs.models import Handoff
from handoffaudit.handoffs.verdicts import PriorContext, verdict_on_prepared
from handoffaudit.policy import load
from handoffaudit.validation.config import ValidationConfig
from handoffaudit.validation.submission import Submission
from handoffaudit.validation.verdict import Verdict


@dataclass(frozen=True, slots=True)
class Preview:
    """The handoff that would be stored, its verdict, and the history and policy behind the verdict."""

    handoff: Handoff
    verdict: Verdict
    before: PriorContext
    config: ValidationConfig


def preview(tenant: Tenant, submission: Submission) -> Preview | Refusal:
    """Judge a submission against the tenant's handoffs and current policy, without storing the submission."""
    arrival = prepare(tenant.pk, tenant.slug, submission, timezone.now())
    if isinstance(arrival, Refusal):
        return arrival
    attempts.number([arrival])
    handoff = arrival.handoff.as_model()
    log = remediation.load_records([handoff]).get(attempts.lineage_of(handoff))
    before = PriorContext(lineage.load_histories([handoff])[handoff.pk], log)
    config = load.load(tenant.pk)
    return Preview(handoff, verdict_on_prepared(arrival, before, config), before, config)
