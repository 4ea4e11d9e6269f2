"""Submissions judged without being stored: what would become of them."""

from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs import attempts, lineage, remedies
from handoffaudit.handoffs.arrivals import Arrival, Refusal, prepare, read
from handoffaudit.handoffs.submission import Submission
from handoffaudit.handoffs.unread import verdict_of_unread
from handoffaudit.handoffs.verdicts import Before, verdict_of
from handoffaudit.policy import load
from handoffaudit.validation.verdict import Verdict


def judge(tenant: Tenant, submission: Submission) -> Verdict | Refusal:
    """The verdict that it would get now, beside the handoffs and under the policy of the tenant."""
    arrival = prepare(tenant.pk, tenant.slug, submission, timezone.now())
    return arrival if isinstance(arrival, Refusal) else verdict_on(arrival)


def verdict_on(arrival: Arrival) -> Verdict:
    attempts.number([arrival])
    handoff = arrival.handoff.as_model()
    reading = read(arrival.submission)
    if reading.record is None:
        return verdict_of_unread(handoff, reading.issues)
    record = remedies.of_lineages([handoff]).get(attempts.lineage_of(handoff))
    before = Before(lineage.histories([handoff])[handoff.pk], record)
    return verdict_of(reading.record, handoff, before, load.load(handoff.tenant_id))
