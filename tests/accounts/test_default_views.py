"""Tests of the default view of a page."""

import pytest

from handoffaudit.accounts import Refused, saved_views
from handoffaudit.accounts.models import AuditEntry, DefaultView, Membership, Person, Tenant

PAGE = "handoffs"


def member(person: Person) -> Membership:
    return Membership.objects.select_related("tenant", "person").get(person=person)


def of(tenant: Tenant, person: Person) -> saved_views.Defaults:
    return saved_views.load_defaults(tenant=tenant, person=person, page=PAGE)


def test_a_persons_own_choice_goes_before_everybodys(tenant: Tenant, admin: Person, viewer: Person) -> None:
    saved_views.choose_default(member=member(admin), page=PAGE, built_in="waiting", everybody=True)
    assert of(tenant, viewer).in_force.built_in == "waiting"
    saved_views.choose_default(member=member(viewer), page=PAGE, built_in="unverified")
    assert of(tenant, viewer).in_force.built_in == "unverified"
    assert of(tenant, admin).in_force.built_in == "waiting"
    # No view is a choice, too.
    saved_views.choose_default(member=member(viewer), page=PAGE)
    assert (of(tenant, viewer).in_force.view, of(tenant, viewer).in_force.built_in) == (None, "")
    saved_views.forget_default(member=member(viewer), page=PAGE)
    assert of(tenant, viewer).in_force.built_in == "waiting"
    assert saved_views.load_defaults(tenant=tenant, person=viewer, page="traces").in_force is None


def test_only_an_administrator_chooses_for_everybody_and_that_is_logged(
    tenant: Tenant, admin: Person, reviewer: Person
) -> None:
    with pytest.raises(Refused):
        saved_views.choose_default(member=member(reviewer), page=PAGE, built_in="waiting", everybody=True)
    saved_views.choose_default(member=member(reviewer), page=PAGE, built_in="waiting")
    assert not AuditEntry.objects.filter(action="view.open").exists()
    saved_views.choose_default(member=member(admin), page=PAGE, built_in="waiting", everybody=True)
    entry = AuditEntry.objects.get(action="view.open")
    assert (entry.actor, entry.target, entry.detail) == ("admin", PAGE, {"view": "waiting"})


def test_a_view_of_ones_own_opens_for_nobody_else(tenant: Tenant, admin: Person, viewer: Person) -> None:
    own = saved_views.save(member=member(admin), page=PAGE, name="Mine", query="state=held", shared=False)
    with pytest.raises(Refused, match="share"):
        saved_views.choose_default(member=member(admin), page=PAGE, view=own, everybody=True)
    with pytest.raises(Refused, match="share"):
        saved_views.choose_default(member=member(viewer), page=PAGE, view=own)
    saved_views.choose_default(member=member(admin), page=PAGE, view=own)
    saved_views.delete(member=member(admin), pk=own.pk)
    assert of(tenant, admin).in_force is None
    assert not DefaultView.objects.exists()
