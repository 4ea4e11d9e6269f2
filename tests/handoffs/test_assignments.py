"""Tests of soft holds, which show who is looking at a handoff."""

from datetime import timedelta

import pytest
from django.utils import timezone

from handoffaudit.accounts.models import Person, Tenant
from handoffaudit.handoffs.models import Handoff, ReviewHold
from handoffaudit.handoffs.review import activity
from tests.handoffs.support import held, judged

pytestmark = pytest.mark.django_db


@pytest.fixture
def handoff(tenant: Tenant) -> Handoff:
    return judged(tenant, held())


def test_the_first_to_open_holds_it_for_five_minutes(handoff: Handoff, reviewer: Person, admin: Person) -> None:
    mine = activity.hold(handoff, reviewer)
    assert (mine.mine, mine.person) == (True, reviewer)
    assert timedelta(seconds=245) < mine.until - timezone.now() <= timedelta(seconds=300)
    theirs = activity.hold(handoff, admin)
    assert (theirs.mine, theirs.person, theirs.until) == (False, reviewer, mine.until)


def test_opening_it_again_holds_it_longer(handoff: Handoff, reviewer: Person) -> None:
    first = activity.hold(handoff, reviewer)
    assert activity.hold(handoff, reviewer).until > first.until
    assert ReviewHold.objects.count() == 1


def test_a_stale_hold_frees_itself(handoff: Handoff, reviewer: Person, admin: Person) -> None:
    activity.hold(handoff, reviewer)
    ReviewHold.objects.update(until=timezone.now() - timedelta(seconds=1))
    assert activity.list_holders([handoff]) == {}
    assert activity.hold(handoff, admin).mine


def test_holders_are_told_for_those_asked_for(tenant: Tenant, handoff: Handoff, reviewer: Person) -> None:
    other = judged(tenant, held())
    activity.hold(other, reviewer)
    assert activity.list_holders([handoff]) == {}
    assert set(activity.list_holders([handoff, other])) == {other.pk}
