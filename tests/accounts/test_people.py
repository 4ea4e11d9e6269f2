import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import IntegrityError, connection, connections
from django.test.utils import CaptureQueriesContext

from handoffaudit.accounts import Refused, audit, people, tenants
from handoffaudit.accounts.models import AuditEntry, Membership, Person, Role, Tenant
from handoffaudit.handoffs.transitions import SYSTEM
from tests.handoffs.support import interrupted


def role_of(person: Person, tenant: Tenant) -> str | None:
    return Membership.objects.filter(person=person, tenant=tenant).values_list("role", flat=True).first()


def token_of(path: str) -> dict[str, str]:
    _, _, uid, token, _ = path.split("/")
    return {"uid": uid, "token": token}


def actions(tenant: Tenant) -> list[tuple[str, str, str]]:
    return list(AuditEntry.objects.filter(tenant=tenant).order_by("number").values_list("action", "actor", "target"))


def test_an_invited_person_has_a_role_and_no_password_yet(tenant: Tenant) -> None:
    invitation = people.invite(tenant=tenant, name=" mira ", role=Role.REVIEWER, actor="ada")
    assert invitation.person.username == "mira"
    assert not invitation.person.has_usable_password()
    assert role_of(invitation.person, tenant) == "reviewer"
    assert invitation.path.startswith("/welcome/")
    assert actions(tenant) == [("person.invite", "ada", "mira")]


@pytest.mark.parametrize("name", ["", "  ", "a b", "x" * 151, "a\x00b", "<script>"])
def test_a_name_that_nobody_can_have_is_refused(tenant: Tenant, name: str) -> None:
    with pytest.raises(Refused) as refused:
        people.invite(tenant=tenant, name=name, role=Role.VIEWER, actor="ada")
    assert refused.value.field == "name"
    assert not Person.objects.exists()


@pytest.mark.parametrize("name", [SYSTEM.name, "HandoffAudit", "\uff53ystem", "system"])
def test_nobody_can_pass_for_the_server(tenant: Tenant, name: str) -> None:
    with pytest.raises(Refused, match="means the server"):
        people.invite(tenant=tenant, name=name, role=Role.VIEWER, actor="ada")
    link = token_of(people.invite(tenant=tenant, name="mira", role=Role.VIEWER, actor="ada").path)
    with pytest.raises(Refused, match="means the server"):
        people.accept(**link, name=name, password="correct horse battery staple")


@pytest.mark.parametrize("name", ["viewer", "VIEWER"])
def test_who_is_here_already_is_not_invited_again(tenant: Tenant, viewer: Person, name: str) -> None:
    with pytest.raises(Refused, match="a member of this tenant already"):
        people.invite(tenant=tenant, name=name, role=Role.ADMIN, actor="ada")
    assert role_of(viewer, tenant) == "viewer"


def test_a_name_of_another_tenant_is_taken_and_its_person_untouched(
    tenant: Tenant, stranger: Person, password: str
) -> None:
    with pytest.raises(Refused, match="taken"):
        people.invite(tenant=tenant, name="Stranger", role=Role.VIEWER, actor="ada")
    stranger.refresh_from_db()
    assert stranger.check_password(password)
    assert role_of(stranger, tenant) is None


def test_who_left_comes_back_without_the_old_password(
    tenant: Tenant, admin: Person, viewer: Person, password: str
) -> None:
    people.remove(tenant=tenant, person=viewer, actor="admin")
    back = people.invite(tenant=tenant, name="viewer", role=Role.REVIEWER, actor="admin").person
    assert back.pk == viewer.pk
    assert not Person.objects.get(pk=viewer.pk).check_password(password)


@pytest.mark.django_db(transaction=True)
def test_who_left_is_invited_by_one_of_two_tenants_at_once(tenant: Tenant, other_tenant: Tenant) -> None:
    """Otherwise, the link of the one tenant would lead into the other."""
    left = Person.objects.create_user("mira", password="x")
    first, second = interrupted(
        lambda: people.invite(tenant=tenant, name="mira", role=Role.ADMIN, actor="ada"),
        lambda: people.invite(tenant=other_tenant, name="Mira", role=Role.VIEWER, actor="bob"),
        'FROM "accounts_person"',
    )
    assert isinstance(first, people.Invitation)
    assert isinstance(second, Refused)
    assert "taken" in second.message
    assert list(left.tenants.all()) == [tenant]


@pytest.mark.django_db
def test_the_database_refuses_names_that_differ_in_case_only(viewer: Person) -> None:
    with pytest.raises(IntegrityError):
        Person.objects.create(username="Viewer")


def test_a_role_is_changed_and_told(tenant: Tenant, admin: Person, viewer: Person) -> None:
    people.set_role(tenant=tenant, person=viewer, role=Role.REVIEWER, actor="admin")
    assert role_of(viewer, tenant) == "reviewer"
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.target, entry.detail) == (
        "person.role",
        "viewer",
        {"from": "viewer", "to": "reviewer"},
    )


def test_the_same_role_again_is_no_change(tenant: Tenant, viewer: Person) -> None:
    people.set_role(tenant=tenant, person=viewer, role=Role.VIEWER, actor="admin")
    assert not AuditEntry.objects.exists()


def test_the_last_administrator_stays(tenant: Tenant, admin: Person, reviewer: Person) -> None:
    with pytest.raises(Refused, match="last administrator"):
        people.remove(tenant=tenant, person=admin, actor="admin")
    with pytest.raises(Refused, match="last administrator"):
        people.set_role(tenant=tenant, person=admin, role=Role.VIEWER, actor="admin")
    assert role_of(admin, tenant) == "admin"
    assert not AuditEntry.objects.exists()


def test_an_administrator_who_cannot_sign_in_yet_does_not_count(tenant: Tenant, admin: Person) -> None:
    people.invite(tenant=tenant, name="new", role=Role.ADMIN, actor="admin")
    with pytest.raises(Refused, match="last administrator"):
        people.remove(tenant=tenant, person=admin, actor="admin")


def test_with_a_second_administrator_the_first_may_go(tenant: Tenant, admin: Person, reviewer: Person) -> None:
    people.set_role(tenant=tenant, person=reviewer, role=Role.ADMIN, actor="admin")
    people.remove(tenant=tenant, person=admin, actor="reviewer")
    assert role_of(admin, tenant) is None
    assert Person.objects.filter(pk=admin.pk).exists()
    assert [action for action, _, _ in actions(tenant)] == ["person.role", "person.remove"]


def test_an_administrator_elsewhere_is_not_one_here(tenant: Tenant, admin: Person, stranger: Person) -> None:
    with pytest.raises(Refused, match="last administrator"):
        people.remove(tenant=tenant, person=admin, actor="admin")


@pytest.mark.django_db(transaction=True)
def test_two_administrators_who_remove_each_other_at_once_do_not_both_succeed(tenant: Tenant, admin: Person) -> None:
    second = Person.objects.create_user("second", password="x")
    Membership.objects.create(tenant=tenant, person=second, role=Role.ADMIN)
    start = threading.Barrier(2)

    def remove(person: Person) -> bool:
        start.wait()
        try:
            people.remove(tenant=tenant, person=person, actor="either")
        except Refused:
            return False
        finally:
            connections["default"].close()
        return True

    with ThreadPoolExecutor(2) as pool:
        removed = list(pool.map(remove, [admin, second]))
    assert sorted(removed) == [False, True]
    assert Membership.objects.filter(tenant=tenant, role=Role.ADMIN).count() == 1


def test_somebody_of_another_tenant_cannot_be_changed_from_here(tenant: Tenant, stranger: Person) -> None:
    for change in (
        lambda: people.set_role(tenant=tenant, person=stranger, role=Role.VIEWER, actor="admin"),
        lambda: people.remove(tenant=tenant, person=stranger, actor="admin"),
        lambda: people.new_link(tenant=tenant, person=stranger, actor="admin"),
    ):
        with pytest.raises(Refused):
            change()
    assert not AuditEntry.objects.exists()


def test_no_link_is_made_for_somebody_who_also_belongs_elsewhere(
    tenant: Tenant, other_tenant: Tenant, viewer: Person
) -> None:
    Membership.objects.create(tenant=other_tenant, person=viewer, role=Role.ADMIN)
    with pytest.raises(Refused, match="another tenant"):
        people.new_link(tenant=tenant, person=viewer, actor="admin")


def test_accepting_sets_name_and_password_and_is_told_in_each_tenant(tenant: Tenant, other_tenant: Tenant) -> None:
    invitation = people.invite(tenant=tenant, name="new", role=Role.VIEWER, actor="ada")
    Membership.objects.create(tenant=other_tenant, person=invitation.person, role=Role.VIEWER)
    person = people.accept(**token_of(invitation.path), name="mira", password="a long pass phrase 42")
    assert person is not None
    person.refresh_from_db()
    assert person.username == "mira"
    assert person.check_password("a long pass phrase 42")
    assert actions(tenant)[-1] == ("person.welcome", "mira", "mira")
    assert actions(other_tenant) == [("person.welcome", "mira", "mira")]
    assert audit.verify(tenant) is None


@pytest.mark.parametrize("bad", ["short1!", "password123", "8461234598761", "mira-mira"])
def test_django_s_password_rules_hold(tenant: Tenant, bad: str) -> None:
    invitation = people.invite(tenant=tenant, name="mira-mira", role=Role.VIEWER, actor="ada")
    with pytest.raises(Refused) as refused:
        people.accept(**token_of(invitation.path), name="mira-mira", password=bad)
    assert refused.value.field == "password"
    assert not Person.objects.get().has_usable_password()


def test_a_name_that_is_taken_leaves_the_link_working(tenant: Tenant, viewer: Person) -> None:
    invitation = people.invite(tenant=tenant, name="new", role=Role.VIEWER, actor="ada")
    with pytest.raises(Refused, match="taken"):
        people.accept(**token_of(invitation.path), name="Viewer", password="a long pass phrase 42")
    assert people.accept(**token_of(invitation.path), name="new", password="a long pass phrase 42") is not None


def test_a_change_of_the_password_locks_the_tenant_before_the_person(tenant: Tenant, viewer: Person) -> None:
    with CaptureQueriesContext(connection) as queries:
        people.set_password(person=viewer, password="correct horse battery", detail={})
    statements = [query["sql"] for query in queries]
    [change] = [at for at, sql in enumerate(statements) if sql.startswith('UPDATE "accounts_person"')]
    # The first query finds the tenants, and the second locks the only one.
    assert sum(sql.startswith('SELECT "accounts_tenant"') for sql in statements[:change]) == 2


@pytest.mark.django_db(transaction=True)
def test_a_link_that_two_use_at_once_works_for_one(tenant: Tenant) -> None:
    token = token_of(people.invite(tenant=tenant, name="new", role=Role.VIEWER, actor="ada").path)
    start = threading.Barrier(2)

    def use(password: str) -> bool:
        start.wait()
        try:
            return people.accept(**token, name="new", password=password) is not None
        finally:
            connections["default"].close()

    with ThreadPoolExecutor(2) as pool:
        used = list(pool.map(use, ["a long pass phrase 42", "another pass phrase 43"]))
    assert sorted(used) == [False, True]


def test_a_tenant_is_made_once_and_told(db: None) -> None:
    made = tenants.create(slug="acme", name="", actor="ada")
    assert made.name == "acme"
    assert tenants.get("acme") == made
    assert tenants.get_default() is None
    assert actions(made) == [("tenant.create", "ada", "acme")]
    for slug in ("acme", "no spaces", "", "x" * 101):
        with pytest.raises(Refused) as refused:
            tenants.create(slug=slug, name="x", actor="ada")
        assert refused.value.field == "slug"
