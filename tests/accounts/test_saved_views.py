"""Tests of who may keep, see and change a saved view, and of the audit entries for shared views."""

import pytest

from handoffaudit.accounts import Refused, saved_views
from handoffaudit.accounts.models import AuditEntry, Membership, Person, Role, SavedView, Tenant


def member(person: Person, tenant: Tenant) -> Membership:
    return Membership.objects.get(person=person, tenant=tenant)


def save(who: Membership, name: str = "Held", *, shared: bool = False, query: str = "state=held") -> SavedView:
    return saved_views.save(member=who, page="handoffs", name=name, query=query, shared=shared)


def names(who: Membership, page: str = "handoffs") -> list[str]:
    return [view.name for view in saved_views.list_views(tenant=who.tenant, person=who.person, page=page)]


def test_ones_own_are_seen_by_oneself_and_shared_ones_by_everybody(
    tenant: Tenant, viewer: Person, reviewer: Person
) -> None:
    own, others = member(viewer, tenant), member(reviewer, tenant)
    save(own, "Mine")
    save(others, "Theirs")
    save(others, "Ours", shared=True)
    assert names(own) == ["Ours", "Mine"]
    assert names(others) == ["Ours", "Theirs"]
    assert names(own, "traces") == []


def test_a_viewer_shares_nothing(tenant: Tenant, viewer: Person) -> None:
    with pytest.raises(Refused, match="role reviewer"):
        save(member(viewer, tenant), shared=True)
    assert not SavedView.objects.exists()


def test_a_name_stands_once_among_ones_own_and_once_among_the_shared(
    tenant: Tenant, reviewer: Person, admin: Person
) -> None:
    save(member(reviewer, tenant), shared=True)
    save(member(reviewer, tenant))
    save(member(admin, tenant))
    for who, shared in ((reviewer, False), (admin, True)):
        with pytest.raises(Refused, match="choose another name"):
            save(member(who, tenant), shared=shared)
    other = save(member(reviewer, tenant), "Other")
    with pytest.raises(Refused, match="choose another name"):
        saved_views.rename(member=member(reviewer, tenant), pk=other.pk, name="Held")


@pytest.mark.parametrize("name", ["", "  ", "x" * 61, "a\x00b", "a\u202eb"])
def test_a_name_is_one_that_can_be_read(tenant: Tenant, viewer: Person, name: str) -> None:
    with pytest.raises(Refused, match="1 to 60 printable characters"):
        save(member(viewer, tenant), name)


def test_there_are_only_so_many(tenant: Tenant, viewer: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saved_views, "MOST_VIEWS", 2)
    who = member(viewer, tenant)
    save(who, "One")
    save(who, "Two")
    with pytest.raises(Refused, match="delete one first"):
        save(who, "Three")


def test_a_shared_view_is_changed_by_its_maker_or_an_administrator(
    tenant: Tenant, reviewer: Person, admin: Person
) -> None:
    second = Person.objects.create_user(username="second")
    Membership.objects.create(tenant=tenant, person=second, role=Role.REVIEWER)
    view = save(member(reviewer, tenant), shared=True)
    with pytest.raises(SavedView.DoesNotExist):
        saved_views.rename(member=member(second, tenant), pk=view.pk, name="Mine now")
    saved_views.rename(member=member(reviewer, tenant), pk=view.pk, name="Waiting")
    saved_views.update(member=member(admin, tenant), pk=view.pk, query="state=held&type=message")
    assert SavedView.objects.get().name == "Waiting"
    saved_views.delete(member=member(admin, tenant), pk=view.pk)
    assert [(entry.action, entry.actor, entry.target) for entry in AuditEntry.objects.order_by("number")] == [
        ("view.share", "reviewer", "Held"),
        ("view.rename", "reviewer", "Waiting"),
        ("view.change", "admin", "Waiting"),
        ("view.delete", "admin", "Waiting"),
    ]


def test_who_made_a_shared_view_and_only_watches_now_changes_it_no_more(tenant: Tenant, reviewer: Person) -> None:
    view = save(member(reviewer, tenant), shared=True)
    Membership.objects.filter(person=reviewer).update(role=Role.VIEWER)
    with pytest.raises(SavedView.DoesNotExist):
        saved_views.delete(member=member(reviewer, tenant), pk=view.pk)


def test_what_is_ones_own_is_nobody_elses_not_even_an_administrators(
    tenant: Tenant, viewer: Person, admin: Person
) -> None:
    view = save(member(viewer, tenant))
    with pytest.raises(SavedView.DoesNotExist):
        saved_views.delete(member=member(admin, tenant), pk=view.pk)
    assert not AuditEntry.objects.filter(action__startswith="view.").exists()
    saved_views.delete(member=member(viewer, tenant), pk=view.pk)
    assert not SavedView.objects.exists()


def test_a_view_of_another_tenant_is_not_there(tenant: Tenant, other_tenant: Tenant, admin: Person) -> None:
    view = save(member(admin, tenant), shared=True)
    elsewhere = Membership(tenant=other_tenant, person=admin, role=Role.ADMIN)
    with pytest.raises(SavedView.DoesNotExist):
        saved_views.rename(member=elsewhere, pk=view.pk, name="Theirs")
