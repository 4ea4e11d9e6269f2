"""Tests of second factors, of their rule for administrators, and of a server without sign-in by password."""

import base64
import json
import re
import time
from collections.abc import Iterator
from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from allauth.mfa.recovery_codes.internal.auth import RecoveryCodes
from allauth.mfa.totp.internal.auth import TOTP, format_hotp_value, hotp_value
from allauth.socialaccount.models import SocialAccount
from django.core.cache import cache
from django.test import Client

from handoffaudit.accounts import people
from handoffaudit.accounts.models import AuditEntry, Person, Role, Tenant
from tests.conftest import PASSWORD
from tests.pages import select, text_of, texts

KEY = base64.b32encode(b"twenty bytes of key!").decode()
CREDENTIAL = {
    "id": "AAAA",
    "rawId": "AAAA",
    "type": "public-key",
    "response": {"clientDataJSON": "e30", "attestationObject": "oA", "authenticatorData": "AA", "signature": "AA"},
    "clientExtensionResults": {},
}


@pytest.fixture(autouse=True)
def no_failures_yet() -> Iterator[None]:
    cache.clear()
    yield
    cache.clear()


def code(key: str = KEY, steps: int = 0) -> str:
    return format_hotp_value(hotp_value(key, int(time.time()) // 30 + steps))


def with_app(person: Person) -> Person:
    TOTP.activate(person, KEY)
    RecoveryCodes.activate(person)
    return person


def enter_password(client: Client, name: str = "viewer", **more: str) -> Any:
    return client.post("/sign-in/", {"login": name, "password": PASSWORD} | more)


def is_signed_in(client: Client) -> bool:
    return "_auth_user_id" in client.session


def confirmed(client: Client, after: str) -> str:
    """Enter the password that a page asks for, and return where the product leads then."""
    asked = client.get(after)
    assert asked.status_code == 302, asked.text
    assert asked["Location"].startswith("/security/confirm/")
    return str(client.post(asked["Location"], {"password": PASSWORD, "next": after})["Location"])


def actions(tenant: Tenant) -> list[tuple[str, str]]:
    entries = AuditEntry.objects.filter(tenant=tenant).order_by("number")
    return [(one.action, one.detail.get("factor", "")) for one in entries]


def test_the_password_alone_signs_nobody_in_who_has_an_app(client: Client, viewer: Person) -> None:
    with_app(viewer)
    response = enter_password(client, next="/t/acme/traces/")
    assert response["Location"] == "/sign-in/code/"
    assert not is_signed_in(client)
    assert client.get("/t/acme/").status_code == 302
    page = client.get("/sign-in/code/")
    assert "no-store" in page["Cache-Control"]
    assert "One more step to sign in as viewer." in page.text
    response = client.post("/sign-in/code/", {"code": code()})
    assert response["Location"] == "/t/acme/traces/"
    assert is_signed_in(client)


@pytest.mark.parametrize("given", ["", "000000", "x" * 10_000, "\x00", "\uff11" * 6, "-1", " "])
def test_a_wrong_code_is_refused(client: Client, viewer: Person, given: str) -> None:
    with_app(viewer)
    enter_password(client)
    response = client.post("/sign-in/code/", {"code": given})
    assert response.status_code == 200
    assert not is_signed_in(client)


def test_a_code_works_once(viewer: Person) -> None:
    with_app(viewer)
    now = code()
    first, second = Client(), Client()
    for client in (first, second):
        enter_password(client)
        client.post("/sign-in/code/", {"code": now})
    assert is_signed_in(first)
    assert not is_signed_in(second)


@pytest.mark.parametrize("steps", [-2, -1, 1, 2])
def test_codes_of_other_times_do_not_work(client: Client, viewer: Person, steps: int) -> None:
    with_app(viewer)
    enter_password(client)
    client.post("/sign-in/code/", {"code": code(steps=steps)})
    assert not is_signed_in(client)


def test_five_wrong_codes_lock_the_person_for_every_address(viewer: Person) -> None:
    with_app(viewer)
    for number in range(5):
        client = Client(REMOTE_ADDR=f"203.0.113.{number}")
        enter_password(client)
        assert client.post("/sign-in/code/", {"code": "000000"}).status_code == 200
    enter_password(client := Client(REMOTE_ADDR="203.0.113.99"))
    response = client.post("/sign-in/code/", {"code": code()})
    assert response.status_code == 429
    assert "Too many failed attempts" in response.text
    assert not is_signed_in(client)


def test_a_recovery_code_works_once(viewer: Person) -> None:
    with_app(viewer)
    [recovery, *_] = Authenticator.objects.get(type="recovery_codes").wrap().get_unused_codes()
    for expected in (True, False):
        enter_password(client := Client())
        client.post("/sign-in/code/", {"code": recovery})
        assert is_signed_in(client) is expected


def test_a_sign_in_can_be_cancelled_between_its_steps(client: Client, viewer: Person) -> None:
    with_app(viewer)
    enter_password(client)
    client.post("/sign-out/")
    assert client.get("/sign-in/code/")["Location"] == "/sign-in/"


def test_a_one_time_link_does_not_replace_the_second_factor(client: Client, tenant: Tenant, viewer: Person) -> None:
    with_app(viewer)
    Person.objects.filter(pk=viewer.pk).update(last_login="2026-01-01T00:00:00Z")
    viewer.refresh_from_db()
    path = people.new_link(tenant=tenant, person=viewer, actor="admin").path
    response = client.post(path, {"password": "a long pass phrase 42", "again": "a long pass phrase 42"})
    assert response["Location"] == "/sign-in/code/"
    assert not is_signed_in(client)


def test_an_app_is_set_up_with_the_password_and_a_code_and_recorded(
    client: Client, tenant: Tenant, viewer: Person, django_capture_on_commit_callbacks: Any
) -> None:
    enter_password(client)
    assert confirmed(client, "/security/app/") == "/security/app/"
    page = client.get("/security/app/")
    [image] = select(page, "img")
    assert (image.attributes["src"] or "").startswith("data:image/svg+xml;base64,")
    key = text_of(page, ".door-key")
    assert client.post("/security/app/", {"code": "000000"}).status_code == 200
    with django_capture_on_commit_callbacks(execute=True):
        assert client.post("/security/app/", {"code": code(key)})["Location"] == "/security/codes/"
    codes = texts(client.get("/security/codes/"), ".door-codes li")
    assert len(set(codes)) == 10
    assert all(re.fullmatch(r"\d{8}", one) for one in codes)
    # They are shown once, as keys and links are.
    assert not texts(client.get("/security/codes/"), ".door-codes li")
    assert "10 left" in client.get("/security/").text
    added = {("person.factor_add", "authenticator app"), ("person.factor_add", "recovery codes")}
    assert set(actions(tenant)) == added


def test_the_key_of_an_app_is_not_readable_in_the_database(viewer: Person, settings: Any) -> None:
    with_app(viewer)
    assert KEY not in str(Authenticator.objects.get(type="totp").data)
    settings.SECRET_KEY = "another key of the tests that is long enough and protects nothing"
    enter_password(client := Client())
    # Neither the right code nor the code of an empty key works with another secret key.
    for given in (code(), code("")):
        client.post("/sign-in/code/", {"code": given})
    assert not is_signed_in(client)


def test_an_app_is_removed_with_a_confirmation_and_its_codes_go(client: Client, tenant: Tenant, viewer: Person) -> None:
    with_app(viewer)
    client.force_login(viewer)
    assert client.post("/security/app/remove/").status_code == 302
    assert Authenticator.objects.count() == 2
    client.post("/security/confirm/", {"password": PASSWORD, "next": "/security/app/remove/"})
    client.post("/security/app/remove/")
    assert not Authenticator.objects.exists()
    assert [action for action, _ in actions(tenant)] == ["person.factor_remove"] * 2


def test_new_recovery_codes_replace_the_old_ones(
    client: Client, tenant: Tenant, viewer: Person, django_capture_on_commit_callbacks: Any
) -> None:
    with_app(viewer)
    before = Authenticator.objects.get(type="recovery_codes").wrap().get_unused_codes()
    client.force_login(viewer)
    confirmed(client, "/security/codes/new/")
    with django_capture_on_commit_callbacks(execute=True):
        client.post("/security/codes/new/")
    assert set(before).isdisjoint(texts(client.get("/security/codes/"), ".door-codes li"))
    assert actions(tenant) == [("person.factor_renew", "recovery codes")]


def test_a_confirmation_lasts_five_minutes(client: Client, viewer: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    client.force_login(viewer)
    confirmed(client, "/security/app/")
    later = time.time() + 301
    monkeypatch.setattr("allauth.account.internal.flows.reauthentication.time.time", lambda: later)
    assert client.get("/security/app/").status_code == 302


def test_wrong_passwords_of_a_confirmation_are_limited(client: Client, viewer: Person) -> None:
    client.force_login(viewer)
    answers = [client.post("/security/confirm/", {"password": "wrong"}) for _ in range(12)]
    assert "This is not your password" in answers[0].text
    assert "Too many failed attempts" in answers[5].text
    assert answers[-1].status_code == 429
    assert "Too many attempts" in answers[-1].text


def test_a_passkey_of_somebody_else_is_not_there(client: Client, viewer: Person, admin: Person) -> None:
    passkey = Authenticator.objects.create(user=admin, type="webauthn", data={"name": "Laptop", "credential": {}})
    client.force_login(viewer)
    confirmed(client, f"/security/passkeys/{passkey.pk}/remove/")
    assert client.post(f"/security/passkeys/{passkey.pk}/remove/").status_code == 404
    assert Authenticator.objects.count() == 1


HOSTILE = [
    "",
    "null",
    "[]",
    "7",
    "{}",
    '{"id": 1}',
    "[" * 100_000,
    "[" * 9_000,
    "x" * 100_000,
    json.dumps(CREDENTIAL),
    json.dumps(CREDENTIAL | {"response": None}),
    json.dumps(CREDENTIAL | {"rawId": "not base64 \x00"}),
    json.dumps(CREDENTIAL | {"response": CREDENTIAL["response"] | {"userHandle": "AAAA", "clientDataJSON": "x"}}),
    json.dumps(CREDENTIAL | {"response": {"userHandle": "OTk5OTk5OTk5OTk5OTk5OTk5OTk5OTk5"}}),
]


@pytest.mark.parametrize("credential", HOSTILE)
def test_a_forged_passkey_signs_nobody_in(client: Client, viewer: Person, credential: str) -> None:
    options = client.get("/sign-in/passkey/", headers={"accept": "application/json"}).json()
    assert options["request_options"]["publicKey"]["userVerification"] == "required"
    response = client.post("/sign-in/passkey/", {"credential": credential}, follow=True)
    assert "This passkey is not known here" in response.text
    assert not is_signed_in(client)


@pytest.mark.parametrize("credential", HOSTILE)
def test_a_forged_passkey_is_not_added_and_confirms_nothing(client: Client, viewer: Person, credential: str) -> None:
    with_app(viewer)
    enter_password(client)
    assert client.post("/sign-in/code/", {"credential": credential}).status_code == 200
    assert not is_signed_in(client)
    client.force_login(viewer)
    confirmed(client, "/security/passkeys/add/")
    client.get("/security/passkeys/add/")
    response = client.post("/security/passkeys/add/", {"name": "x", "credential": credential})
    # A credential that is too large is refused unread.
    assert response.status_code == (400 if len(credential) > 64 * 1024 else 200)
    assert response.status_code == 400 or select(response, "[data-passkey-error]:not([hidden])")
    assert not Authenticator.objects.filter(type="webauthn").exists()


def test_a_large_form_is_not_kept_for_after_the_confirmation(client: Client, viewer: Person) -> None:
    client.force_login(viewer)
    assert client.post("/security/app/", {"code": "x" * 70_000}).status_code == 400
    assert client.post("/security/app/", {"code": "x" * 6_000}).status_code == 302
    assert len(client.session.encode(dict(client.session))) < 20_000


@pytest.mark.parametrize("way", ["page", "htmx"])
def test_an_administrator_sets_up_a_second_factor_before_anything_else(
    client: Client, admin: Person, settings: Any, way: str
) -> None:
    settings.ADMIN_SECOND_FACTOR = True
    enter_password(client, "admin")
    if way == "htmx":
        assert client.get("/t/acme/", headers={"HX-Request": "true"})["HX-Refresh"] == "true"
        return
    assert client.get("/t/acme/")["Location"] == "/security/"
    assert client.post("/t/acme/settings/people/invite/", {"name": "x", "role": "admin"})["Location"] == "/security/"
    assert "Administrators need a second factor" in client.get("/security/").text
    with_app(admin)
    assert client.get("/t/acme/").status_code == 200
    assert "Administrators need a second factor" not in client.get("/security/").text


def test_recovery_codes_alone_are_no_second_factor(client: Client, admin: Person, settings: Any) -> None:
    settings.ADMIN_SECOND_FACTOR = True
    RecoveryCodes.activate(admin)
    client.force_login(admin)
    assert client.get("/t/acme/")["Location"] == "/security/"


def test_the_rule_is_about_passwords(client: Client, admin: Person, settings: Any) -> None:
    settings.ADMIN_SECOND_FACTOR, settings.PASSWORD_SIGN_IN = True, False
    client.force_login(admin)
    assert client.get("/t/acme/").status_code == 200


def test_the_rule_is_for_administrators_only(client: Client, reviewer: Person, settings: Any) -> None:
    settings.ADMIN_SECOND_FACTOR = True
    client.force_login(reviewer)
    assert client.get("/t/acme/").status_code == 200


def test_an_administrator_resets_the_factors_of_a_member(as_admin: Client, tenant: Tenant, viewer: Person) -> None:
    with_app(viewer)
    assert "Reset second factor of viewer" in text_of(as_admin.get("/t/acme/settings/"))
    response = as_admin.post(f"/t/acme/settings/people/{viewer.pk}/factors/", follow=True)
    assert "signs in without a second factor" in response.text
    assert "Reset second factor" not in text_of(response)
    assert not Authenticator.objects.exists()
    entry = AuditEntry.objects.get(tenant=tenant)
    assert (entry.action, entry.actor, entry.target, entry.detail) == (
        "person.factor_reset",
        "admin",
        "viewer",
        {"removed": 2},
    )


def test_one_tenants_administrator_does_not_weaken_another_tenants_member(
    as_admin: Client, tenant: Tenant, stranger: Person
) -> None:
    people.join(tenant=tenant, person=stranger, role=Role.VIEWER, actor="admin")
    with_app(stranger)
    response = as_admin.post(f"/t/acme/settings/people/{stranger.pk}/factors/")
    assert response.status_code == 409
    assert "handoffaudit sign-in-link" in response.text
    assert Authenticator.objects.count() == 2


def test_who_comes_back_under_an_old_name_has_no_old_factors(tenant: Tenant, admin: Person, viewer: Person) -> None:
    with_app(viewer)
    people.remove(tenant=tenant, person=viewer, actor="admin")
    people.invite(tenant=tenant, name="viewer", role=Role.VIEWER, actor="admin")
    assert not Authenticator.objects.exists()


@pytest.fixture
def no_passwords(settings: Any) -> None:
    settings.PASSWORD_SIGN_IN = False
    settings.OIDC_ISSUER = "https://login.example.com"
    settings.OIDC_NAME = "Acme"


@pytest.mark.usefixtures("no_passwords")
class TestWithoutPasswords:
    def test_the_form_is_gone_and_its_address_refuses(self, client: Client, viewer: Person) -> None:
        page = client.get("/sign-in/")
        assert texts(page, "a.button--primary") == ["Sign in with Acme"]
        assert not select(page, "form")
        response = enter_password(client)
        assert response.status_code == 403
        assert "switched off. Sign in with Acme." in response.text
        assert not is_signed_in(client)

    def test_passkeys_and_new_passwords_are_gone_too(self, client: Client, viewer: Person) -> None:
        assert client.get("/sign-in/passkey/", headers={"accept": "application/json"}).status_code == 404
        assert client.post("/sign-in/passkey/", {"credential": "{}"}).status_code == 404
        client.force_login(viewer)
        assert client.post("/password/", {"current": PASSWORD}).status_code == 403
        assert "/password/" not in client.get("/security/").text

    def test_nobody_is_invited_and_no_link_is_made(self, as_admin: Client, tenant: Tenant, viewer: Person) -> None:
        page = as_admin.get("/t/acme/settings/")
        assert "People become members when they sign in with Acme." in page.text
        assert "Create invite link" not in page.text
        assert "New link" not in page.text
        response = as_admin.post("/t/acme/settings/people/invite/", {"name": "x", "role": "viewer"})
        assert response.status_code == 400
        assert as_admin.post(f"/t/acme/settings/people/{viewer.pk}/link/").status_code == 409
        assert not Person.objects.filter(username="x").exists()

    def test_a_link_of_the_operator_signs_in_once_for_half_a_day(
        self, client: Client, tenant: Tenant, viewer: Person
    ) -> None:
        path = people.make_operator_link(person=viewer, actor="root (command line)", drop_factors=False)
        page = client.get(path)
        assert texts(page, "button") == ["Sign in as viewer"]
        assert client.post(path)["Location"] == "/"
        assert is_signed_in(client)
        assert client.session.get_expiry_age() <= 12 * 3600
        ends, session = client.session.get_expiry_date(), client.session
        session.save()
        assert client.session.get_expiry_date() == ends
        assert Client().post(path).status_code == 410
        assert [action for action, _ in actions(tenant)] == ["person.link", "person.link_used"]

    def test_a_link_asks_for_the_second_factor_unless_it_was_reset(
        self, client: Client, tenant: Tenant, viewer: Person
    ) -> None:
        with_app(viewer)
        path = people.make_operator_link(person=viewer, actor="root", drop_factors=False)
        assert client.post(path)["Location"] == "/sign-in/code/"
        path = people.make_operator_link(person=viewer, actor="root", drop_factors=True)
        assert Client().post(path)["Location"] == "/"
        assert AuditEntry.objects.filter(action="person.link").last().detail == {"second_factors_removed": 2}

    def test_an_administrator_of_the_provider_is_enough_for_no_first_link(self, tenant: Tenant, admin: Person) -> None:
        # The password of this administrator does not count any more.
        assert people.make_first_link() is not None
        SocialAccount.objects.create(provider="oidc", uid="1", user=admin)
        assert people.make_first_link() is None
