"""Tests of the transition table, which is the only way to change a state."""

import itertools

import pytest
from django.db import transaction

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs import transitions
from handoffaudit.handoffs.models import Event, Handoff, State
from handoffaudit.handoffs.transitions import ALLOWED, REVIEWABLE, may_become
from tests.handoffs.support import SENDER, assert_counts_are_right, held, judged

TRANSITIONS = {
    "": "received rejected",
    "received": "validating",
    "validating": "received validating accepted rejected held",
    "accepted": "superseded",
    # By late tool results.
    "rejected": "accepted approved declined superseded",
    # By a later verdict.
    "held": "accepted rejected held approved declined superseded",
    # Opened again.
    "declined": "rejected held superseded",
    "approved": "rejected held",
    "superseded": "",
}


@pytest.mark.parametrize(("before", "after"), [*itertools.product(["", *State.values], State.values)])
def test_only_these_changes_are_allowed(before: str, after: str) -> None:
    assert may_become(before, after) is (after in TRANSITIONS[before].split())


def test_every_state_has_its_place() -> None:
    assert set(ALLOWED) == {"", *State.values}
    assert {"held", "rejected"} == REVIEWABLE


@pytest.mark.django_db
def test_a_change_writes_row_event_and_counts(tenant: Tenant) -> None:
    handoff = judged(tenant, held())
    transitions.change_state(handoff, State.DECLINED, SENDER, "no")
    row = Handoff.objects.get()
    assert (row.state, row.version) == (handoff.state, handoff.version) == (State.DECLINED, 3)
    event = Event.objects.order_by("id").last()
    assert (event.from_state, event.to_state, event.reason, event.actor) == ("held", "declined", "no", "sender")
    assert_counts_are_right()


@pytest.mark.django_db
def test_a_change_that_is_not_allowed_raises_and_changes_nothing(tenant: Tenant) -> None:
    handoff = judged(tenant, held())
    with pytest.raises(ValueError, match="held to received"):
        transitions.change_state(handoff, State.RECEIVED, SENDER, "")
    assert Handoff.objects.get().state == State.HELD


@pytest.mark.django_db
def test_a_change_from_an_old_version_raises_and_changes_nothing(tenant: Tenant) -> None:
    seen = judged(tenant, held())
    transitions.change_state(Handoff.objects.get(), State.APPROVED, SENDER, "yes")
    with pytest.raises(transitions.VersionConflict), transaction.atomic():
        transitions.change_state(seen, State.DECLINED, SENDER, "no")
    assert Handoff.objects.get().state == State.APPROVED
    assert not Event.objects.filter(to_state=State.DECLINED).exists()
    assert_counts_are_right()


@pytest.mark.django_db
def test_the_database_knows_the_states_too(tenant: Tenant) -> None:
    handoff = judged(tenant, held())
    with pytest.raises(Exception, match="state_is_known"), transaction.atomic():
        Handoff.objects.filter(pk=handoff.pk).update(state="maybe")
