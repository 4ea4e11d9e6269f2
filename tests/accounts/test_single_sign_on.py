"""Tests of sign-ins through the provider at the same time as other changes."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from allauth.socialaccount.models import SocialAccount
from django.db import connections

from handoffaudit.accounts import audit, people, single_sign_on, tenants
from handoffaudit.accounts.models import Membership, Person, Role, Tenant
from handoffaudit.accounts.single_sign_on import Identity
from tests.handoffs.support import interrupted


@pytest.fixture
def roles(settings: Any) -> None:
    settings.OIDC_ISSUER = "https://login.example.com"
    settings.OIDC_ROLE_CLAIM = "groups"
    settings.OIDC_ROLES = {"crew": ["reviewer@acme", "viewer@globex"]}
    settings.OIDC_ALLOWED_DOMAINS = ["example.com"]


def identity(subject: str, email: str) -> Identity:
    return Identity("https://login.example.com", subject, email, {"groups": ["crew"]})


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("roles")
@pytest.mark.parametrize("count", [1, 3])
def test_first_sign_ins_at_the_same_time_make_each_person_once(count: int) -> None:
    made = [tenants.create(slug=slug, name=slug, actor="tests") for slug in ("globex", "acme")]

    def come_in(number: int) -> int:
        try:
            return single_sign_on.admit(identity(f"ada{number % count}", f"ada{number % count}@example.com")).person.pk
        finally:
            connections.close_all()

    with ThreadPoolExecutor(6) as pool:
        found = set(pool.map(come_in, range(12)))
    assert len(found) == count
    assert (Person.objects.count(), SocialAccount.objects.count()) == (count, count)
    assert Membership.objects.count() == 2 * count
    assert [audit.verify(tenant) for tenant in made] == [None, None]


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("roles")
def test_who_is_invited_by_another_tenant_during_a_sign_in_joins_only_that_tenant(
    tenant: Tenant, other_tenant: Tenant, settings: Any
) -> None:
    """Otherwise, the link of the other tenant would lead into this one."""
    settings.OIDC_ROLES = {"crew": [f"reviewer@{tenant.slug}"]}
    account, person = identity("ada", "ada@example.com"), Person.objects.create_user("ada")
    SocialAccount.objects.create(provider=single_sign_on.PROVIDER, uid=account.uid, user=person)
    invited, admitted = interrupted(
        lambda: people.invite(tenant=other_tenant, name="ada", role=Role.ADMIN, actor="bob"),
        lambda: single_sign_on.admit(account),
        "DELETE FROM",
    )
    assert isinstance(invited, people.Invitation)
    assert admitted.person != person
    assert list(person.tenants.all()) == [other_tenant]
