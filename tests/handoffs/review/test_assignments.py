"""Tests of reassigning: a handoff leaves the queue without a decision, and returns to it."""

import pytest

from handoffaudit.accounts import people
from handoffaudit.accounts.models import Membership, Person, Role, Tenant
from handoffaudit.handoffs import judge, queries
from handoffaudit.handoffs.models import Event, Handoff, HourlyCount, State
from handoffaudit.handoffs.review import activity, queue, undo
from handoffaudit.handoffs.review.base import (
    NoReviewer,
    NoteRequired,
    NoteTooLong,
    NotPassedOn,
    NotReviewable,
    Stale,
    list_reviewers,
)
from handoffaudit.handoffs.review.undo import find_decision
from handoffaudit.handoffs.transitions import Actor
from tests.handoffs.review.support import colleague, decide, now, pass_on, take_back, told
from tests.handoffs.support import assert_counts_are_right, circular, held, judged, payload, submit

pytestmark = pytest.mark.django_db


def seen(tenant: Tenant, person: Person | None, view: str = "all") -> list[str]:
    return [one.handoff_id for one in queue.list_queue(tenant, person, view=view).items]


@pytest.mark.parametrize("document", [circular, held])
def test_it_leaves_the_queue_and_is_with_who_it_went_to(
    tenant: Tenant, reviewer: Person, admin: Person, document
) -> None:
    handoff = judged(tenant, document(handoff_id="h"))
    counted = list(HourlyCount.objects.order_by("pk").values())
    passed = pass_on(handoff, reviewer, to=admin, note=" you know them ", seen=handoff.version)
    assert (passed.state, passed.version) == (handoff.state, handoff.version + 1)
    assert now(handoff).review_due_at == handoff.review_due_at
    assert told(handoff) == [("reviewer", handoff.state, handoff.state, "assigned to admin: you know them")]
    assert seen(tenant, reviewer) == seen(tenant, reviewer, "mine") == []
    assert seen(tenant, admin, "mine") == seen(tenant, reviewer, "passed_on") == ["h"]
    assert list(HourlyCount.objects.order_by("pk").values()) == counted


def test_it_can_go_to_nobody_in_particular(tenant: Tenant, reviewer: Person, admin: Person) -> None:
    handoff = judged(tenant, held(handoff_id="h"))
    pass_on(handoff, reviewer, note="not urgent")
    assert told(handoff)[-1][-1] == "set aside: not urgent"
    assert seen(tenant, admin) == seen(tenant, admin, "mine") == []
    assert seen(tenant, admin, "passed_on") == ["h"]


def test_it_can_be_passed_further(tenant: Tenant, reviewer: Person, admin: Person) -> None:
    handoff = judged(tenant, held(handoff_id="h"))
    pass_on(handoff, reviewer, to=admin)
    pass_on(handoff, admin, to=reviewer)
    assert (seen(tenant, admin, "mine"), seen(tenant, reviewer, "mine")) == ([], ["h"])


def test_it_is_taken_back_into_the_queue(tenant: Tenant, reviewer: Person, admin: Person) -> None:
    handoff = judged(tenant, held(handoff_id="h"))
    pass_on(handoff, reviewer, to=admin)
    take_back(handoff, admin)
    assert seen(tenant, reviewer) == ["h"]
    assert seen(tenant, admin, "mine") == seen(tenant, admin, "passed_on") == []
    assert told(handoff)[-1] == ("admin", "held", "held", "put back into the queue")
    with pytest.raises(NotPassedOn):
        take_back(handoff, admin)


@pytest.mark.parametrize("note", ["", "  \n", "\0"])
def test_a_note_is_needed(tenant: Tenant, reviewer: Person, note: str) -> None:
    handoff = judged(tenant, held())
    with pytest.raises(NoteRequired, match="next person"):
        pass_on(handoff, reviewer, note=note)
    assert told(handoff) == []


def test_only_who_may_decide_here_can_get_it(
    tenant: Tenant, reviewer: Person, viewer: Person, stranger: Person
) -> None:
    handoff = judged(tenant, held())
    for person in (viewer, stranger):
        with pytest.raises(NoReviewer, match=person.username):
            pass_on(handoff, reviewer, to=person)
    assert told(handoff) == []
    assert [person.username for person in list_reviewers(tenant)] == ["reviewer"]


def assign(handoff: Handoff, person: Person, to: Person | None, note: str = "", seen: int | None = None) -> Handoff:
    return activity.assign(
        tenant=handoff.tenant,
        reference=str(handoff.pk),
        note=note,
        actor=Actor.person(person),
        to=to,
        seen_version=seen,
    )


@pytest.mark.parametrize("state", ["accepted", "approved", "held", "rejected"])
def test_any_handoff_is_assigned_and_taken_back_without_a_note(
    tenant: Tenant, reviewer: Person, admin: Person, state: str
) -> None:
    documents = {"accepted": payload, "approved": held, "held": held, "rejected": circular}
    handoff = judged(tenant, documents[state](handoff_id="h"))
    if state == "approved":
        decide(handoff, reviewer)
    assign(now(handoff), reviewer, admin)
    assert now(handoff).state == state
    assert seen(tenant, admin, "mine") == ["h"]
    assert seen(tenant, admin, "passed_on") == (["h"] if state in ("held", "rejected") else [])
    assert queue.count_concerning(tenant, admin, 9)["mine"] == 1
    assert told(handoff)[-1][-1] == "assigned to admin"
    version = now(handoff).version
    assert assign(now(handoff), admin, admin).version == version
    assign(now(handoff), admin, None)
    assert seen(tenant, admin, "mine") == []
    version = now(handoff).version
    assert assign(now(handoff), admin, None).version == version
    assert_counts_are_right()


@pytest.mark.parametrize(
    ("document", "text"), [(held, "put back into the queue"), (payload, "assigned to nobody")], ids=["held", "accepted"]
)
def test_the_end_of_an_assignment_keeps_its_note(tenant: Tenant, reviewer: Person, document, text: str) -> None:
    handoff = judged(tenant, document(handoff_id="h"))
    assign(handoff, reviewer, reviewer)
    assign(now(handoff), reviewer, None, note=" not mine ")
    assert told(handoff)[-1][-1] == f"{text}: not mine"
    assert activity.reassignment_of(now(handoff)) is None
    with pytest.raises(NotPassedOn):
        assign(now(handoff), reviewer, None, note="not mine")
    assert assign(now(handoff), reviewer, None, note=" \0").version == now(handoff).version


@pytest.mark.parametrize("note", ["", "urgent now"])
def test_a_handoff_that_is_set_aside_returns_to_the_queue_by_an_assignment_to_nobody(
    tenant: Tenant, reviewer: Person, note: str
) -> None:
    handoff = judged(tenant, held(handoff_id="h"))
    pass_on(handoff, reviewer, note="not urgent")
    assign(now(handoff), reviewer, None, note=note)
    assert seen(tenant, reviewer) == ["h"]


def test_the_note_at_the_end_of_an_assignment_is_limited(tenant: Tenant, reviewer: Person) -> None:
    handoff = judged(tenant, held())
    assign(handoff, reviewer, reviewer)
    with pytest.raises(NoteTooLong):
        assign(now(handoff), reviewer, None, note="x" * 5001)
    assert activity.reassignment_of(now(handoff)) is not None


def test_assigned_handoffs_are_listed_page_by_page(tenant: Tenant, reviewer: Person) -> None:
    for number in range(3):
        assign(judged(tenant, payload(handoff_id=f"a{number}")), reviewer, reviewer)
    assign(judged(tenant, held(handoff_id="h")), reviewer, reviewer)
    names, cursor = [], ""
    for _ in range(4):
        page = queue.list_queue(tenant, reviewer, view="mine", cursor=cursor, limit=1)
        names += [one.handoff_id for one in page.items]
        cursor = page.next or ""
    assert (names, cursor) == (["h", "a2", "a1", "a0"], "")


def test_an_assignment_of_a_decided_handoff_is_no_decision(tenant: Tenant, reviewer: Person, admin: Person) -> None:
    handoff = decide(judged(tenant, held()), reviewer)
    assign(now(handoff), admin, admin, note="Tell the customer.")
    assert find_decision(now(handoff)).actor == "reviewer"
    assert queries.decision_events(tenant).count() == 1
    assert queue.load_progress(tenant, admin).decided_today == 0
    for name, number in (("reviewer", 1), ("admin", 0)):
        for rare in (0, 100):
            found = queries.filter_decided_by(queries.of_tenant(tenant), tenant, name, rare=rare)
            assert found.count() == number
    reopened = undo.reopen(
        tenant=tenant, reference=str(handoff.pk), note="again", actor=Actor.person(admin), seen_version=None
    )
    assert reopened.state == State.HELD
    assert activity.reassignment_of(now(handoff)) is None


def test_only_what_waits_can_be_set_aside(tenant: Tenant, reviewer: Person) -> None:
    for handoff in (judged(tenant, payload()), decide(judged(tenant, held()), reviewer)):
        with pytest.raises(NotReviewable):
            pass_on(handoff, reviewer)


def test_an_old_view_is_told(tenant: Tenant, reviewer: Person, admin: Person) -> None:
    handoff = judged(tenant, held())
    pass_on(handoff, reviewer, note="yours")
    with pytest.raises(Stale, match="reviewer: “set aside: yours”"):
        pass_on(handoff, admin, seen=handoff.version)


def test_a_decision_ends_it(tenant: Tenant, reviewer: Person, admin: Person) -> None:
    handoff = judged(tenant, held())
    pass_on(handoff, reviewer, to=admin)
    decide(handoff, admin)
    assert activity.reassignment_of(now(handoff)) is None
    assert seen(tenant, admin, "mine") == seen(tenant, admin, "passed_on") == []
    assert_counts_are_right()


def test_a_retry_and_a_new_verdict_end_it(tenant: Tenant, reviewer: Person, admin: Person) -> None:
    first, second = judged(tenant, held(handoff_id="first")), judged(tenant, held(handoff_id="second"))
    for handoff in (first, second):
        pass_on(handoff, reviewer, to=admin)
    submit(tenant, held(handoff_id="third"), retry_of="first")
    judge.drain()
    # Every new verdict changes the version.
    Handoff.objects.filter(pk=second.pk).update(version=now(second).version + 1)
    assert now(first).state == State.SUPERSEDED
    assert seen(tenant, admin, "mine") == seen(tenant, admin, "passed_on") == []
    assert seen(tenant, admin) == ["second", "third"]


def test_who_left_leaves_it_to_the_others(tenant: Tenant, reviewer: Person) -> None:
    ben = colleague(tenant, "ben")
    handoff = judged(tenant, held(handoff_id="h"))
    pass_on(handoff, reviewer, to=ben)
    Membership.objects.filter(person=ben).delete()
    ben.delete()
    assert seen(tenant, reviewer, "passed_on") == ["h"]
    found = activity.reassignment_of(now(handoff))
    assert found is not None
    assert found.to is None


@pytest.mark.parametrize("left", ["removed", "viewer"])
def test_handoffs_of_a_person_who_may_no_longer_decide_are_in_the_queue_again(
    tenant: Tenant, reviewer: Person, left: str
) -> None:
    ben, handoff = colleague(tenant, "ben"), judged(tenant, held(handoff_id="h"))
    pass_on(handoff, reviewer, to=ben)
    assert queue.count_pressing(tenant, 9).number == queue.count_waiting(tenant).number == 0
    if left == "removed":
        people.remove(tenant=tenant, person=ben, actor="admin")
    else:
        people.set_role(tenant=tenant, person=ben, role=Role.VIEWER, actor="admin")
    assert seen(tenant, reviewer) == ["h"]
    assert seen(tenant, ben, "mine") == seen(tenant, reviewer, "passed_on") == []
    assert queue.count_pressing(tenant, 9).number == queue.count_waiting(tenant).number == 1
    assert queue.count_concerning(tenant, ben, 9)["mine"] == 0
    assert activity.reassignment_of(now(handoff)) is None
    pass_on(now(handoff), reviewer, to=reviewer)
    assert seen(tenant, reviewer, "mine") == ["h"]


def test_tenants_see_their_own(tenant: Tenant, other_tenant: Tenant, reviewer: Person, stranger: Person) -> None:
    theirs = judged(other_tenant, held(tenant_id="globex"))
    pass_on(theirs, stranger, to=stranger)
    for view in queue.VIEWS:
        assert seen(tenant, reviewer, view) == []
    theirs.tenant = tenant
    with pytest.raises(Handoff.DoesNotExist):
        take_back(theirs, reviewer)


def test_a_role_that_may_decide_is_enough(tenant: Tenant, reviewer: Person) -> None:
    ben = colleague(tenant, "ben", Role.ADMIN)
    handoff = judged(tenant, held())
    pass_on(handoff, reviewer, to=ben)
    assert Event.objects.filter(handoff=handoff, reason__contains="to ben").exists()


def test_a_disabled_person_keeps_no_handoff_out_of_the_queue(tenant: Tenant, reviewer: Person, admin: Person) -> None:
    handoff = judged(tenant, held(handoff_id="h"))
    pass_on(handoff, reviewer, to=admin)
    Person.objects.filter(pk=admin.pk).update(is_active=False)
    assert activity.reassignment_of(now(handoff)) is None
    assert (seen(tenant, reviewer), seen(tenant, reviewer, "passed_on")) == (["h"], [])
    assert queue.count_pressing(tenant, 9).number == 1
    with pytest.raises(NoReviewer):
        pass_on(handoff, reviewer, to=admin)
