"""Tests of precedents: earlier decisions on similar handoffs."""

import uuid

import pytest

from handoffaudit.accounts.models import Person, Tenant
from handoffaudit.handoffs.models import Handoff
from handoffaudit.handoffs.review import queue
from tests.handoffs.review.support import decide, reopen, told
from tests.handoffs.support import circular, held, judged, set_policy

pytestmark = pytest.mark.django_db


def names(handoff: Handoff, limit: int = 5) -> list[str]:
    return [one.handoff.handoff_id for one in queue.list_precedents(handoff, limit)]


def test_it_says_who_decided_what_when_and_why(tenant: Tenant, reviewer: Person) -> None:
    past = decide(judged(tenant, circular(handoff_id="past")), reviewer, "approve", "the desk knows")
    (found,) = queue.list_precedents(judged(tenant, circular()))
    assert (found.handoff.pk, found.decision, found.note, found.actor) == (
        past.pk,
        "approved",
        "the desk knows",
        "reviewer",
    )
    assert found.at > past.received_at


def test_the_decision_made_last_comes_first(tenant: Tenant, reviewer: Person) -> None:
    made = [judged(tenant, held(handoff_id=name)) for name in "abcd"]
    for handoff in (made[2], made[0], made[1]):
        decide(handoff, reviewer)
    assert names(made[3]) == ["b", "a", "c"]
    assert names(made[3], limit=2) == ["b", "a"]


def test_alike_is_the_same_type_or_the_same_agents_with_the_same_codes(tenant: Tenant, reviewer: Person) -> None:
    for name, document in {
        "same": circular(),
        "type": circular(source_agent_id="other", call_chain=["planner", "other"]),
        "agents": circular(handoff_type="x"),
        "neither": circular(handoff_type="x", source_agent_id="other", call_chain=["planner", "other"]),
        "codes": held(),
        "more": circular(timestamp="2026-02-15 00:15"),
    }.items():
        decide(judged(tenant, document | {"handoff_id": name}), reviewer, "decline")
    assert sorted(names(judged(tenant, circular()))) == ["agents", "same", "type"]


def test_what_waits_again_is_no_precedent(tenant: Tenant, reviewer: Person) -> None:
    past = judged(tenant, held(handoff_id="past"))
    reopen(decide(past, reviewer, "approve"), reviewer)
    assert names(judged(tenant, held())) == []
    decide(past, reviewer, "decline", "second thoughts")
    (found,) = queue.list_precedents(judged(tenant, held()))
    assert (found.decision, found.note) == ("declined", "second thoughts")


def test_a_precedent_that_is_deleted_meanwhile_is_left_out(
    tenant: Tenant, reviewer: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone, _ = (decide(judged(tenant, held(handoff_id=name)), reviewer) for name in ("gone", "kept"))
    load = Handoff.objects.in_bulk

    def delete_and_load(pks: list[uuid.UUID]) -> dict[uuid.UUID, Handoff]:
        Handoff.objects.filter(pk=gone.pk).delete()
        return load(pks)

    waiting = judged(tenant, held())
    monkeypatch.setattr(Handoff.objects, "in_bulk", delete_and_load)
    assert names(waiting) == ["kept"]


def test_a_handoff_is_no_precedent_of_its_own(tenant: Tenant, reviewer: Person) -> None:
    assert names(decide(judged(tenant, held()), reviewer)) == []


def test_whether_the_model_could_be_asked_makes_no_difference(tenant: Tenant, reviewer: Person) -> None:
    decide(judged(tenant, held(handoff_id="unasked")), reviewer)
    set_policy(tenant, "research_result", layers_off=frozenset({"semantic"}))
    later = judged(tenant, held())
    assert later.codes == ["chain.needs_approval"]
    assert names(later) == ["unasked"]


def test_of_two_decisions_the_second_is_told(tenant: Tenant, reviewer: Person, admin: Person) -> None:
    set_policy(tenant, "research_result", four_eyes=True)
    past = judged(tenant, held())
    decide(past, reviewer, "approve", "one")
    assert queue.list_precedents(judged(tenant, held())) == []
    decide(past, admin, "approve", "two")
    (found,) = queue.list_precedents(judged(tenant, held()))
    assert (found.actor, found.note) == ("admin", told(past)[-1][-1])


def test_tenants_have_their_own(tenant: Tenant, other_tenant: Tenant, stranger: Person) -> None:
    decide(judged(other_tenant, held(tenant_id="globex")), stranger)
    assert names(judged(tenant, held())) == []
