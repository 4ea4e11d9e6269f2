"""Submissions judged without being stored: what would become of them."""

from dataclasses import dataclass

from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs import attempts, lineage, remedies
from handoffaudit.handoffs.arrivals import Refusal, prepare
from handoffaudit.handoffs.models import Handoff
from handoffaudit.handoffs.submission import Submission
from handoffaudit.handoffs.verdicts import Before, verdict_of_arrival
from handoffaudit.policy import load
from handoffaudit.validation.config import ValidationConfig
from handoffaudit.validation.verdict import Verdict


@dataclass(frozen=True, slots=True)
class Preview:
    """The handoff that would be stored, the verdict that it would get now, and what that was made from."""

    handoff: Handoff
    verdict: Verdict
    before: Before
    config: ValidationConfig


def preview(tenant: Tenant, submission: Submission) -> Preview | Refusal:
    """Judged beside the handoffs and under the policy of the tenant."""
    arrival = prepare(tenant.pk, tenant.slug, submission, timezone.now())
    if isinstance(arrival, Refusal):
        return arrival
    attempts.number([arrival])
    handoff = arrival.handoff.as_model()
    log = remedies.of_lineages([handoff]).get(attempts.lineage_of(handoff))
    before = Before(lineage.histories([handoff])[handoff.pk], log)
    config = load.load(tenant.pk)
    return Preview(handoff, verdict_of_arrival(arrival, before, config), before, config)
