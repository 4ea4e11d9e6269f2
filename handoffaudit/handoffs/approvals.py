"""Approvals. An approval lets the sender go on once, with the same document and policy, until the approval expires."""

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import groupby
from operator import attrgetter
from uuid import UUID

from django.db.models import Exists, OuterRef, Q
from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs import counts, db, transitions
from handoffaudit.handoffs.models import Approval, Handoff, HandoffBody, State
from handoffaudit.handoffs.results import JudgedHandoff
from handoffaudit.handoffs.transitions import REVIEWABLE, SYSTEM
from handoffaudit.policy.kinds import load_config
from handoffaudit.validation import json_text

# Each attempt has an id of its own, so the hash of a document leaves the id out.
_ID = "handoff_id"

_BODIES_AT_ONCE = 20

_read_route = attrgetter("format", "handoff_type", "source_agent_id", "target_agent_id")


class ApprovalStatus(StrEnum):
    """Whether the sender may go on. `outdated`: a policy was saved after the approval."""

    VALID = "valid"
    USED = "used"
    EXPIRED = "expired"
    OUTDATED = "outdated"


MEANING = {
    ApprovalStatus.USED: "it was used already, and an approval works once",
    ApprovalStatus.EXPIRED: "it has expired",
    ApprovalStatus.OUTDATED: "the policy changed after it was given",
}

_CORRECT = "Correct the document, and send it with retry_of."

_NEXT_STEPS: dict[str, str] = {
    State.RECEIVED: "Wait for the verdict.",
    State.VALIDATING: "Wait for the verdict.",
    State.HELD: "Wait for the decision of a person.",
    State.ACCEPTED: "An accepted handoff needs no approval.",
    State.APPROVED: "Send the document again with retry_of, so that it is judged anew.",
    State.REJECTED: _CORRECT,
    State.DECLINED: _CORRECT,
    State.SUPERSEDED: "A later attempt replaced the handoff: ask for that attempt.",
}


@dataclass(frozen=True, slots=True)
class ApprovalState:
    """An approval as the sender sees it. `used_by` is the key or the attempt that used the approval."""

    status: ApprovalStatus
    expires_at: datetime
    used_at: datetime | None = None
    used_by: str = ""


class NotUsable(Exception):
    """The error for an approval that does not let the sender go on; `found` is None if there is no approval."""

    def __init__(self, handoff: Handoff, found: ApprovalState | None) -> None:
        why = f"The handoff is {handoff.state}, and no approval of it waits to be used."
        if found:
            why = f"The approval can't be used: {MEANING.get(found.status, 'it was withdrawn')}."
        super().__init__(f"{why} {_NEXT_STEPS[handoff.state]}")
        self.handoff = handoff
        self.found = found


_Stored = bytes | memoryview


def hash_document(original: _Stored, context: _Stored | None, evidence: _Stored | None) -> str:
    """Return the hash of a document with its context and evidence, without the sender's id of the document.

    Whitespace and the order of keys in JSON do not change the hash.
    """
    digest = hashlib.sha256()
    for number, part in enumerate((original, context, evidence)):
        document, issues = json_text.parse_json(bytes(part)) if part is not None else (None, ())
        document = document if issues else json_text.keep_digits(bytes(part or b""), document)
        if number == 0 and isinstance(document, dict):
            document = {name: value for name, value in document.items() if name != _ID}
        digest.update(bytes(part or b"") if issues else json_text.canonical(document))
        digest.update(b"\n")
    return digest.hexdigest()


def _hash_documents(pks: Sequence[UUID]) -> dict[UUID, str]:
    bodies = HandoffBody.objects.filter(pk__in=pks).iterator(chunk_size=_BODIES_AT_ONCE)
    return {body.pk: hash_document(body.original, body.context, body.evidence) for body in bodies}


def grant(handoffs: Sequence[Handoff]) -> None:
    """Store the approvals of handoffs of one tenant; call inside the transaction that approves them.

    An approval is bound to the document, to the policy in force, and to the attempt. An approval replaces an earlier
    approval of the same handoff.
    """
    if not handoffs:
        return
    config, now = load_config(handoffs[0].tenant_id), timezone.now()
    hashes = _hash_documents([handoff.pk for handoff in handoffs])
    withdraw(handoffs)
    Approval.objects.bulk_create(
        [
            Approval(
                handoff_id=handoff.pk,
                tenant_id=handoff.tenant_id,
                document_hash=hashes.get(handoff.pk, ""),
                policy_versions=dict(config.versions),
                expires_at=now + timedelta(hours=config.policy_for(handoff.handoff_type).approval_expires_hours),
            )
            for handoff in handoffs
        ]
    )


def withdraw(handoffs: Sequence[Handoff]) -> None:
    """Delete the approvals of handoffs that are decided again; call inside the transaction of the new decision."""
    Approval.objects.filter(handoff__in=[handoff.pk for handoff in handoffs]).delete()


def lock(handoff: Handoff) -> Approval | None:
    """Lock and return the approval of a handoff; call inside a transaction.

    Lock the handoff first, as `carry_over` does.
    """
    return Approval.objects.select_for_update().filter(pk=handoff.pk, tenant=handoff.tenant_id).first()


def state_of(handoff: Handoff) -> ApprovalState | None:
    """Return the state of a handoff's approval, or None if the handoff is not approved or has no approval."""
    row = Approval.objects.filter(pk=handoff.pk, tenant=handoff.tenant_id).first()
    return _state(row) if row and handoff.state == State.APPROVED else None


def _state(row: Approval) -> ApprovalState:
    if row.used_at:
        status = ApprovalStatus.USED
    elif row.expires_at <= timezone.now():
        status = ApprovalStatus.EXPIRED
    elif row.policy_versions != dict(load_config(row.tenant_id).versions):
        status = ApprovalStatus.OUTDATED
    else:
        status = ApprovalStatus.VALID
    return ApprovalState(status, row.expires_at, row.used_at, row.used_by)


def use(tenant: Tenant, handoff: Handoff, by: str, given_key: str = "") -> ApprovalState:
    """Record that the sender goes on with an approved handoff, and return the used approval.

    Raise `NotUsable` if the handoff has no valid approval. `by` names the key that uses the approval.
    `given_key` is the idempotency key of the call: a call with the key of the successful call gets the same answer. Of
    two concurrent calls with different keys, one succeeds.
    """
    use_key = hashlib.sha256(given_key.encode("utf-8", "surrogatepass")).hexdigest() if given_key else ""
    own = Approval.objects.filter(pk=handoff.pk, tenant=tenant.pk)
    row = own.first()
    found = _state(row) if row and handoff.state == State.APPROVED else None
    if row and found and found.status is ApprovalStatus.USED and use_key and row.use_key == use_key:
        db.await_standby()
        return found
    if found is None or found.status is not ApprovalStatus.VALID:
        raise NotUsable(handoff, found)
    # With a join, `used_at` would be tested in a subquery, which PostgreSQL reads before it locks the row. Then two
    # calls could both succeed.
    is_approved = Exists(Handoff.objects.filter(pk=OuterRef("pk"), state=State.APPROVED))
    unused = Approval.objects.filter(is_approved, pk=handoff.pk, used_at=None)
    is_first = unused.update(used_at=timezone.now(), used_by=by[:200], use_key=use_key)
    # A concurrent call with the same key may have used the approval first.
    if not is_first and not (use_key and own.filter(use_key=use_key).exists()):
        raise NotUsable(handoff, state_of(handoff))
    return state_of(handoff) or found


def carry_over(judged: Sequence[JudgedHandoff]) -> counts.Deltas:
    """Approve blocked retries whose document a person has approved before; return the changes of the counts.

    The document with its format and type, the route and the policy must be the same, and the retry must have no new
    rule code that blocks it. The approval must be unused and not expired. The retry uses the approval up, and gets an
    approval of its own that expires at the same time. Call inside the transaction that stored the verdicts.
    """
    deltas: counts.Deltas = Counter()
    retries = [one for one in judged if one.handoff.lineage and one.state in REVIEWABLE]
    for tenant_id, group in groupby(sorted(retries, key=_tenant_of), _tenant_of):
        some = list(group)
        lineages = {one.handoff.lineage for one in some}
        same_lineage = Q(handoff__handoff_id__in=lineages) | Q(handoff__lineage__in=lineages) & ~Q(handoff__lineage="")
        rows = Approval.objects.filter(same_lineage, tenant=tenant_id, used_at=None, expires_at__gt=timezone.now())
        known = list(rows.filter(handoff__state=State.APPROVED).select_related("handoff").order_by("pk"))
        hashes = _hash_documents([one.handoff.pk for one in some]) if known else {}
        for one in some:
            row = next((row for row in known if _covers(row, one, hashes.get(one.handoff.pk, ""))), None)
            if row:
                known.remove(row)
                deltas.update(_carry(row, one.handoff))
    return deltas


def _tenant_of(one: JudgedHandoff) -> int:
    return one.handoff.tenant_id


def _covers(row: Approval, one: JudgedHandoff, document_hash: str) -> bool:
    is_same_lineage = (row.handoff.lineage or row.handoff.handoff_id) == one.handoff.lineage
    # A document without a format or source has those of its submission, so equal documents can have different routes.
    is_same_route = _read_route(row.handoff) == _read_route(one.handoff)
    is_same_policy = row.policy_versions == dict(one.verdict.policy_versions)
    is_same_document = bool(document_hash) and row.document_hash == document_hash
    # The verdict also depends on the trace. A person has not decided about a finding that only the retry has.
    has_no_new_finding = {issue.code for issue in one.verdict.issues if issue.blocks} <= set(row.handoff.codes)
    return is_same_lineage and is_same_route and is_same_policy and is_same_document and has_no_new_finding


def _carry(row: Approval, handoff: Handoff) -> counts.Deltas:
    """Move an approval to a retry of the same document, approve the retry, and return the changes of the counts.

    Do nothing if the sender uses the approval at this moment, or if the retry may not be approved.
    """
    fresh = Handoff.objects.select_for_update().get(pk=handoff.pk)
    unused = Approval.objects.filter(pk=row.pk, used_at=None)
    if not fresh.may_be_approved or not unused.update(used_at=timezone.now(), used_by=fresh.handoff_id):
        return Counter()
    Approval.objects.create(
        handoff=fresh,
        tenant_id=fresh.tenant_id,
        document_hash=row.document_hash,
        policy_versions=row.policy_versions,
        expires_at=row.expires_at,
    )
    reason = f"the document is that of {row.handoff.handoff_id}, which a person approved"
    return transitions.change_state_uncounted(fresh, State.APPROVED, SYSTEM, reason, user_approved=True)
