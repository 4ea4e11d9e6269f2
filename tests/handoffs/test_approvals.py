"""Tests of approvals: bound to the document, the policy and the attempt, usable once, until they expire."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import orjson
import pytest
from django.db import connections
from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs import approvals, judge, queries
from handoffaudit.handoffs.approvals import ApprovalStatus, NotUsable, hash_document
from handoffaudit.handoffs.models import Approval, Event, Handoff, State
from handoffaudit.handoffs.review import decisions, undo
from handoffaudit.handoffs.review.decisions import Decision
from handoffaudit.policy.kinds import strictness
from handoffaudit.validation.config import TypePolicy
from tests.handoffs.support import SENDER, held, judged, payload, submit

pytestmark = pytest.mark.django_db


def approve(tenant: Tenant, handoff: Handoff, note: str = "") -> Handoff:
    return decisions.decide_handoff(
        tenant=tenant,
        reference=str(handoff.pk),
        decision=Decision.APPROVE,
        note=note,
        actor=SENDER,
        seen_version=None,
    )


def approved(tenant: Tenant, **changes: Any) -> Handoff:
    return approve(tenant, judged(tenant, held(handoff_id="first", **changes)))


def retry(tenant: Tenant, document: dict[str, Any], of: str = "first", **envelope: Any) -> Handoff:
    receipt = submit(tenant, document, retry_of=of, **envelope)
    judge.drain()
    return queries.get(tenant, receipt.id)


def status(handoff: Handoff) -> ApprovalStatus | None:
    found = approvals.state_of(handoff)
    return found.status if found else None


def test_an_approval_is_used_once(tenant: Tenant) -> None:
    handoff = approved(tenant)
    assert status(handoff) is ApprovalStatus.VALID
    used = approvals.use(tenant, handoff, "crew", "mine")
    assert (used.status, used.used_by) == (ApprovalStatus.USED, "crew")
    for given_key in ("", "another"):
        with pytest.raises(NotUsable, match="used already"):
            approvals.use(tenant, handoff, "crew", given_key)
    assert approvals.use(tenant, handoff, "crew", "mine") == used


def test_without_a_key_of_its_own_a_call_is_not_repeated(tenant: Tenant) -> None:
    handoff = approved(tenant)
    approvals.use(tenant, handoff, "crew")
    with pytest.raises(NotUsable):
        approvals.use(tenant, handoff, "crew")


def test_an_approval_expires_after_the_hours_of_its_type(tenant: Tenant) -> None:
    handoff = approved(tenant)
    left = Approval.objects.get().expires_at - timezone.now()
    assert timedelta(hours=167) < left <= timedelta(hours=168)
    Approval.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    assert status(handoff) is ApprovalStatus.EXPIRED
    with pytest.raises(NotUsable, match="expired"):
        approvals.use(tenant, handoff, "crew")


def test_a_saved_policy_ends_the_approvals_before_it(tenant: Tenant) -> None:
    handoff = approved(tenant)
    row = TypePolicy("deal_data", approval_expires_hours=1)
    strictness.upsert_row(tenant=tenant, base_version=0, row=row, actor="ada")
    assert status(handoff) is ApprovalStatus.OUTDATED
    with pytest.raises(NotUsable, match="policy changed"):
        approvals.use(tenant, handoff, "crew")
    undo.reopen(tenant=tenant, reference="first", note="again", actor=SENDER, seen_version=None)
    assert status(approve(tenant, queries.get(tenant, "first"))) is ApprovalStatus.VALID


@pytest.mark.parametrize(
    ("state", "step"), [("held", "Wait for"), ("accepted", "needs no approval"), ("received", "Wait for")]
)
def test_what_nobody_approved_cannot_be_used(tenant: Tenant, state: str, step: str) -> None:
    handoff = queries.get(tenant, submit(tenant, payload() if state != "held" else held()).id)
    if state != "received":
        judge.drain()
        handoff.refresh_from_db()
    assert handoff.state == state
    with pytest.raises(NotUsable, match=f"The handoff is {state}.*{step}"):
        approvals.use(tenant, handoff, "crew")


@pytest.mark.parametrize(
    ("state", "step"),
    [(State.REJECTED, "Correct the document"), (State.DECLINED, "Correct the document"), (State.SUPERSEDED, "A later")],
)
def test_the_next_step_fits_the_state(state: State, step: str) -> None:
    assert step in str(NotUsable(Handoff(state=state), None))


def test_a_reopened_handoff_has_no_approval(tenant: Tenant) -> None:
    handoff = approved(tenant)
    reopened = undo.reopen(tenant=tenant, reference="first", note="wrong", actor=SENDER, seen_version=None)
    assert not Approval.objects.exists()
    for known in (handoff, reopened):
        with pytest.raises(NotUsable):
            approvals.use(tenant, known, "crew")


def test_an_approval_that_the_sender_used_is_not_undone(tenant: Tenant) -> None:
    handoff = approved(tenant)
    approvals.use(tenant, handoff, "crew")
    (result,) = undo.undo_changes(tenant=tenant, references=[("first", handoff.version)], actor=SENDER)
    assert "crew used the approval already. Reopen the handoff with a note." in str(result.error)
    assert status(queries.get(tenant, "first")) is ApprovalStatus.USED


def test_the_history_of_a_reopened_handoff_says_who_used_its_approval(tenant: Tenant) -> None:
    handoff = approved(tenant)
    used = approvals.use(tenant, handoff, "crew")
    assert used.used_at is not None
    undo.reopen(tenant=tenant, reference="first", note="wrong", actor=SENDER, seen_version=handoff.version)
    *_, record, reopened = Event.objects.filter(handoff=handoff.pk).order_by("id")
    assert record.reason == f"the approval was used at {used.used_at.isoformat(timespec='seconds')} by crew"
    assert (reopened.from_state, reopened.to_state, reopened.reason) == (State.APPROVED, State.HELD, "wrong")
    # The next decision counts as a new approval.
    assert status(approve(tenant, queries.get(tenant, "first"))) is ApprovalStatus.VALID


def test_many_approvals_at_once_are_bound_as_well(tenant: Tenant) -> None:
    rows = [judged(tenant, held(handoff_id=f"h{number}")) for number in range(3)]
    references = [(str(row.pk), row.version) for row in rows]
    decisions.decide_many(tenant=tenant, references=references, decision=Decision.APPROVE, note="", actor=SENDER)
    assert {status(queries.get(tenant, str(row.pk))) for row in rows} == {ApprovalStatus.VALID}


def test_an_approval_is_not_for_another_long_integer(tenant: Tenant) -> None:
    def with_amount(name: str, amount: bytes, **envelope: Any) -> bytes:
        document = held(handoff_id=name, data={"wei": 0})
        return orjson.dumps({"document": document, **envelope}).replace(b'"wei":0', b'"wei":' + amount)

    approve(tenant, judged(tenant, with_amount("first", b"100000000000000000001")))
    other = judged(tenant, with_amount("second", b"100000000000000000002", retry_of="first"))
    same = judged(tenant, with_amount("third", b"100000000000000000001", retry_of="first"))
    assert (other.state, same.state) == (State.HELD, State.APPROVED)


def test_a_retry_of_the_same_document_uses_the_approval_up(tenant: Tenant) -> None:
    first = approved(tenant)
    again = retry(tenant, held(handoff_id="second"))
    assert (again.state, again.user_approved) == (State.APPROVED, True)
    found = approvals.state_of(first)
    assert found is not None
    assert (found.status, found.used_by) == (ApprovalStatus.USED, "second")
    assert status(again) is ApprovalStatus.VALID
    last = Event.objects.filter(handoff=again.pk).order_by("-id").first()
    assert last is not None
    assert "first, which a person approved" in last.reason
    assert Approval.objects.get(pk=again.pk).expires_at == Approval.objects.get(pk=first.pk).expires_at
    # The approval works once along the whole lineage.
    approvals.use(tenant, again, "crew")
    assert retry(tenant, held(handoff_id="third"), of="second").state == State.HELD


def test_a_retry_with_a_finding_that_nobody_saw_is_judged_anew(tenant: Tenant) -> None:
    first = approved(tenant)
    for name in ("a", "b"):
        judged(tenant, held(handoff_id=name), trace_id="other")
    again = retry(tenant, held(handoff_id="second"), trace_id="other")
    assert "chain.repeats_without_progress" in again.codes
    assert again.state == State.REJECTED
    assert status(first) is ApprovalStatus.VALID


def test_two_retries_share_no_approval(tenant: Tenant) -> None:
    approved(tenant)
    submit(tenant, held(handoff_id="second"), retry_of="first")
    submit(tenant, held(handoff_id="third"), retry_of="first")
    judge.drain()
    states = sorted(queries.get(tenant, name).state for name in ("second", "third"))
    assert states.count(State.APPROVED) == 1


@pytest.mark.parametrize(
    ("changes", "envelope"),
    [
        ({"data": {"text": "another text"}}, {}),
        ({"target_agent_id": "somebody"}, {}),
        ({}, {"context": {"fact": 1}}),
        ({}, {"evidence": [{"source": "x", "content": "y"}]}),
    ],
)
def test_a_changed_document_is_judged_anew(tenant: Tenant, changes: dict[str, Any], envelope: dict[str, Any]) -> None:
    first = approved(tenant)
    again = retry(tenant, held(handoff_id="second", **changes), **envelope)
    assert again.state != State.APPROVED
    assert status(first) is ApprovalStatus.VALID


def test_the_same_document_of_another_agent_is_judged_anew(tenant: Tenant) -> None:
    """The agent of a handoff file can be named beside the document, so that the documents are the same."""
    row = TypePolicy("phase_result", token_budget=100)
    strictness.upsert_row(tenant=tenant, base_version=0, row=row, actor="ada")
    file = {"status": "complete", "artifacts": [], "next": "editor", "summary": "All five suppliers answered. " * 100}
    approve(tenant, judged(tenant, file, agent="planner", handoff_id="first"), "Checked.")
    again = [retry(tenant, file, agent=agent, handoff_id=agent) for agent in ("intruder", "planner")]
    assert [one.state for one in again] == [State.REJECTED, State.APPROVED]


def test_the_same_document_is_judged_anew_where_the_approval_does_not_hold(tenant: Tenant) -> None:
    first = approved(tenant)
    other = judged(tenant, held(handoff_id="other"))
    assert other.state == State.HELD
    Approval.objects.update(expires_at=timezone.now())
    assert retry(tenant, held(handoff_id="late")).state == State.HELD
    Approval.objects.update(expires_at=timezone.now() + timedelta(hours=1), policy_versions={"strictness": 7})
    assert retry(tenant, held(handoff_id="changed")).state == State.HELD
    assert status(first) is ApprovalStatus.OUTDATED


def test_an_approval_of_another_tenant_is_not_used(tenant: Tenant, other_tenant: Tenant) -> None:
    handoff = approved(tenant)
    with pytest.raises(NotUsable):
        approvals.use(other_tenant, handoff, "crew")
    submit(other_tenant, held(handoff_id="second", tenant_id=other_tenant.slug), retry_of="first")
    judge.drain()
    assert queries.get(other_tenant, "second").state == State.HELD


def test_the_hash_is_that_of_the_content(tenant: Tenant) -> None:
    base = hash_document(b'{"a": 1, "b": [1], "handoff_id": "x"}', None, None)
    assert hash_document(b'{"b":[1],"a":1}', None, None) == base
    for changed in (
        hash_document(b'{"a": 1, "b": [2]}', None, None),
        hash_document(b'{"a": 1, "b": [1]}', b"{}", None),
        hash_document(b'{"a": 1, "b": [1]}', None, b"{}"),
        hash_document(b'{"a": {"handoff_id": "x"}, "b": [1]}', None, None),
        hash_document(b"not JSON", None, None),
    ):
        assert changed != base


def test_blocked_handoffs_without_an_approval_cost_one_query(tenant: Tenant, django_assert_num_queries) -> None:
    retries = [judged(tenant, held(handoff_id=f"h{number}")) for number in range(2)]
    assert {row.lineage for row in retries} == {""}
    with django_assert_num_queries(0):
        assert not approvals.carry_over([])


@pytest.mark.django_db(transaction=True)
def test_of_several_uses_at_once_one_succeeds(tenant: Tenant) -> None:
    handoff = approved(tenant)
    start = threading.Barrier(4)

    def go_on(number: int) -> bool:
        try:
            start.wait()
            approvals.use(tenant, handoff, "crew", f"key-{number // 2}")
        except NotUsable:
            return False
        finally:
            connections.close_all()
        return True

    with ThreadPoolExecutor(4) as pool:
        # Two calls have the key of the successful call, and get the same answer.
        assert sum(pool.map(go_on, range(4))) == 2
