"""Tests of first sign-ins that happen at the same time."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from allauth.socialaccount.models import SocialAccount
from django.db import connections

from handoffaudit.accounts import audit, single_sign_on, tenants
from handoffaudit.accounts.models import Membership, Person
from handoffaudit.accounts.single_sign_on import Identity


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
@pytest.mark.parametrize("people", [1, 3])
def test_first_sign_ins_at_the_same_time_make_each_person_once(people: int) -> None:
    made = [tenants.create(slug=slug, name=slug, actor="tests") for slug in ("globex", "acme")]

    def come_in(number: int) -> int:
        try:
            return single_sign_on.admit(
                identity(f"ada{number % people}", f"ada{number % people}@example.com")
            ).person.pk
        finally:
            connections.close_all()

    with ThreadPoolExecutor(6) as pool:
        found = set(pool.map(come_in, range(12)))
    assert len(found) == people
    assert (Person.objects.count(), SocialAccount.objects.count()) == (people, people)
    assert Membership.objects.count() == 2 * people
    assert [audit.verify(tenant) for tenant in made] == [None, None]
