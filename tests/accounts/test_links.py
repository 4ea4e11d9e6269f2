from contextlib import AbstractContextManager, nullcontext
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.tokens import PasswordResetTokenGenerator
from django.utils import timezone

from handoffaudit import observability
from handoffaudit.accounts import audit, people
from handoffaudit.accounts.models import Membership, Person, Role, Tenant


def used(path: str) -> Person | None:
    _, _, uid, token, _ = path.split("/")
    return people.find_by_link(uid, token)


def test_a_link_finds_its_person(viewer: Person) -> None:
    assert used(people.make_link(viewer)) == viewer


def test_a_link_dies_with_a_new_password(viewer: Person) -> None:
    path = people.make_link(viewer)
    viewer.set_password("another pass phrase 43")
    viewer.save()
    assert used(path) is None


def test_a_link_dies_with_a_sign_in(viewer: Person) -> None:
    path = people.make_link(viewer)
    viewer.last_login = timezone.now()
    viewer.save()
    assert used(path) is None


def test_a_newer_link_replaces_an_older_one(viewer: Person) -> None:
    older, newer = people.make_link(viewer), people.make_link(viewer)
    assert used(older) is None
    assert used(newer) == viewer


def test_a_link_dies_after_three_days(viewer: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    path = people.make_link(viewer)
    real = datetime.now()
    monkeypatch.setattr(PasswordResetTokenGenerator, "_now", lambda self: real + timedelta(days=2, hours=23))
    assert used(path) == viewer
    monkeypatch.setattr(PasswordResetTokenGenerator, "_now", lambda self: real + timedelta(days=3, minutes=1))
    assert used(path) is None


def test_a_link_of_one_person_does_not_open_another(viewer: Person, admin: Person) -> None:
    _, _, viewer_uid, _, _ = people.make_link(viewer).split("/")
    _, _, _, admin_token, _ = people.make_link(admin).split("/")
    assert people.find_by_link(viewer_uid, admin_token) is None


def test_somebody_switched_off_cannot_use_a_link(viewer: Person) -> None:
    path = people.make_link(viewer)
    Person.objects.filter(pk=viewer.pk).update(is_active=False)
    assert used(path) is None


@pytest.mark.parametrize("uid", ["", "x", "AAAA", "%%%", "LTE", "OTk5OTk5OTk5OTk5OTk5OTk5OTk5OTk5", "é"])
@pytest.mark.django_db
def test_what_is_no_link_finds_nobody(uid: str) -> None:
    assert people.find_by_link(uid, "abc-def") is None


@pytest.mark.django_db
def test_the_first_start_makes_the_default_tenant_and_its_administrator() -> None:
    path = people.make_first_link()
    assert path is not None
    person = used(path)
    assert person is not None
    assert person.username == "admin"
    membership = Membership.objects.get()
    assert (membership.tenant.slug, membership.role) == ("default", Role.ADMIN)
    assert audit.verify(membership.tenant) is None


@pytest.mark.django_db
def test_a_second_start_gives_a_new_link_to_the_same_person() -> None:
    first, second = people.make_first_link(), people.make_first_link()
    assert first is not None
    assert second is not None
    assert used(first) is None
    assert used(second) == Person.objects.get()
    assert Tenant.objects.count() == 1


@pytest.mark.django_db
def test_a_disabled_person_keeps_the_name_of_the_first_administrator() -> None:
    for name in ("Admin", "admin2"):
        Person.objects.create(username=name, is_active=False)
    path = people.make_first_link()
    assert path is not None
    person = used(path)
    assert person is not None
    assert person.username == "admin3"
    assert not Membership.objects.exclude(person=person).exists()


@pytest.mark.django_db
def test_once_an_administrator_has_a_password_there_is_no_link() -> None:
    path = people.make_first_link()
    assert path is not None
    _, _, uid, token, _ = path.split("/")
    people.accept(uid=uid, token=token, name="mira", password="a long pass phrase 42")
    assert people.make_first_link() is None


@pytest.mark.django_db
def test_a_reviewer_with_a_password_is_no_administrator(reviewer: Person) -> None:
    path = people.make_first_link()
    assert path is not None
    person = used(path)
    assert person is not None
    assert person != reviewer


def test_a_link_stays_out_of_logs_and_spans(viewer: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    path = people.make_link(viewer)
    token = path.split("/")[3]
    event = {"event": f"Internal Server Error: {path}", "path": path}
    assert token not in str(observability.without_secrets(None, "error", event))
    begun: list[Any] = []

    class Tracer:
        def start_as_current_span(self, *arguments: Any) -> AbstractContextManager[None]:
            return nullcontext(begun.extend(arguments))

    monkeypatch.setattr(observability, "_tracer", Tracer())
    with observability.trace_request({"REQUEST_METHOD": "GET", "PATH_INFO": path}, lambda *_: None):
        pass
    assert begun[-1]["url.path"].startswith("/welcome/")
    assert token not in str(begun)
