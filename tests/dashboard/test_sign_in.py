from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.tokens import PasswordResetTokenGenerator
from django.core.cache import cache
from django.test import Client
from django.urls import NoReverseMatch, reverse

from handoffaudit.accounts import people
from handoffaudit.accounts.models import AuditEntry, Person, Role, Tenant
from tests.pages import inline_parts, select, text_of

NEW = "a long pass phrase 42"
HOME = "/t/acme/"


@pytest.fixture(autouse=True)
def no_failures_yet() -> Iterator[None]:
    cache.clear()
    yield
    cache.clear()


def sign_in(client: Client, name: str, password: str, **more: Any) -> Any:
    return client.post("/sign-in/", {"login": name, "password": password} | more)


def is_signed_in(client: Client) -> bool:
    return "_auth_user_id" in client.session


@pytest.mark.parametrize("name", ["viewer", "VIEWER", " viewer "])
def test_name_and_password_sign_in_whatever_the_case_of_the_name(
    client: Client, viewer: Person, password: str, name: str
) -> None:
    response = sign_in(client, name, password)
    assert response.status_code == 302
    assert is_signed_in(client)
    assert client.get(response.url).headers["Location"] == HOME


@pytest.mark.parametrize("name", ["viewer", "nobody", "viewer@example.com"])
def test_a_wrong_name_and_a_wrong_password_are_told_alike(
    client: Client, viewer: Person, name: str, password: str
) -> None:
    wrong = "wrong" if name == "viewer" else password
    response = sign_in(client, name, wrong)
    assert "name or the password is wrong" in response.text
    assert not is_signed_in(client)


def test_the_session_is_a_new_one_after_signing_in(client: Client, viewer: Person, password: str) -> None:
    planted = client.session
    planted["planted"] = "before"
    planted.save()
    client.cookies["sessionid"] = planted.session_key
    before = planted.session_key
    sign_in(client, "viewer", password)
    assert client.session.session_key != before
    assert not type(planted)(before).exists(before)


def test_no_page_is_kept_by_a_browser_or_framed(client: Client, db: None) -> None:
    response = client.get("/sign-in/")
    assert "no-store" in response.headers["Cache-Control"]
    assert response.headers["X-Frame-Options"] == "DENY"
    assert "default-src 'none'" in response.headers["Content-Security-Policy"]
    assert "unsafe" not in response.headers["Content-Security-Policy"]
    assert inline_parts(response) == []
    assert not select(response, "script:not([src])")


@pytest.mark.parametrize("way", ["query", "form"])
@pytest.mark.parametrize(
    "after", ["https://evil.example/", "//evil.example/", "javascript:alert(1)", "\\\\evil.example"]
)
def test_next_leads_to_no_other_host(client: Client, viewer: Person, password: str, after: str, way: str) -> None:
    if way == "form":
        response = sign_in(client, "viewer", password, next=after)
    else:
        response = client.post("/sign-in/", {"login": "viewer", "password": password}, query_params={"next": after})
    assert response.status_code == 302
    assert response.url == "/"


def test_next_leads_on_in_the_product(client: Client, viewer: Person, password: str) -> None:
    page = client.get("/t/acme/strictness/", follow=True)
    assert 'name="next" value="/t/acme/strictness/"' in page.text
    assert sign_in(client, "viewer", password, next="/t/acme/strictness/").url == "/t/acme/strictness/"


def test_five_failures_lock_a_name_and_say_for_how_long(client: Client, viewer: Person, password: str) -> None:
    for _ in range(5):
        assert sign_in(client, "viewer", "wrong").status_code == 200
    locked = sign_in(client, "viewer", password)
    assert locked.status_code == 429
    assert "Too many failed attempts. Try again in 5 minutes." in locked.text
    assert not is_signed_in(client)


def test_the_lock_ends(client: Client, viewer: Person, password: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from allauth.core.internal import ratelimit

    for _ in range(5):
        sign_in(client, "viewer", "wrong")
    later = ratelimit.time.time() + 301
    monkeypatch.setattr(ratelimit.time, "time", lambda: later)
    sign_in(client, "viewer", password)
    assert is_signed_in(client)


@pytest.mark.parametrize(
    "names",
    [
        ["viewer", "VIEWER", "Viewer", "vIEWER", " viewer"],
        ["viewer\t", "viewer ", "vieWer", "  VIEWER  ", "viewer"],
        ["v\u0131ewer"] * 5,
    ],
)
def test_the_lock_is_not_dodged_by_another_case_or_space(
    client: Client, viewer: Person, password: str, names: list[str]
) -> None:
    for name in names:
        sign_in(client, name, "wrong")
    for name in ("viewer", "ViEwEr", " viewer"):
        assert sign_in(client, name, password).status_code == 429
    assert not is_signed_in(client)


def test_the_lock_is_not_dodged_by_another_host_name_of_ours(client: Client, viewer: Person, password: str) -> None:
    for _ in range(5):
        client.post("/sign-in/", {"login": "viewer", "password": "wrong"}, headers={"host": "localhost"})
    there = client.post("/sign-in/", {"login": "viewer", "password": password}, headers={"host": "127.0.0.1"})
    assert there.status_code == 429


def test_ten_failures_lock_an_address_for_a_minute(client: Client, viewer: Person, password: str) -> None:
    for number in range(10):
        sign_in(client, f"guess{number}", "wrong")
    locked = sign_in(client, "viewer", password)
    assert locked.status_code == 429
    assert "one minute" in locked.text
    elsewhere = Client(REMOTE_ADDR="203.0.113.9")
    sign_in(elsewhere, "viewer", password)
    assert is_signed_in(elsewhere)


def test_signing_in_between_does_not_wipe_out_failures(
    client: Client, viewer: Person, admin: Person, password: str
) -> None:
    for _ in range(4):
        sign_in(client, "viewer", "wrong")
    sign_in(client, "viewer", password)
    client.post("/sign-out/")
    sign_in(client, "viewer", "wrong")
    assert sign_in(client, "viewer", password).status_code == 429


def test_somebody_switched_off_cannot_sign_in(client: Client, viewer: Person, password: str) -> None:
    Person.objects.filter(pk=viewer.pk).update(is_active=False)
    response = client.post("/sign-in/", {"login": "viewer", "password": password}, follow=True)
    assert "is disabled" in response.text
    assert not is_signed_in(client)


def test_signing_out_takes_a_post_and_a_get_asks(client: Client, viewer: Person, password: str) -> None:
    sign_in(client, "viewer", password)
    page = client.get("/sign-out/")
    assert "Sign out?" in page.text
    assert is_signed_in(client)
    assert client.post("/sign-out/").url == "/sign-in/"
    assert not is_signed_in(client)
    assert client.get(HOME).status_code == 302


def test_who_is_signed_in_needs_no_sign_in_page(client: Client, viewer: Person, password: str) -> None:
    sign_in(client, "viewer", password)
    assert client.get("/sign-in/").url == "/"


def test_a_post_without_the_csrf_token_is_refused(viewer: Person, password: str) -> None:
    client = Client(enforce_csrf_checks=True)
    assert sign_in(client, "viewer", password).status_code == 403


@pytest.mark.parametrize(
    "name", ["account_signup", "account_reset_password", "account_email", "account_change_password", "account_inactive"]
)
def test_no_other_page_of_allauth_is_mounted(name: str) -> None:
    with pytest.raises(NoReverseMatch):
        reverse(name)


def invited(tenant: Tenant) -> str:
    return people.invite(tenant=tenant, name="new", role=Role.REVIEWER, actor="admin").path


def fill(client: Client, path: str, **given: str) -> Any:
    return client.post(path, {"name": "mira", "password": NEW, "again": NEW} | given)


def test_a_one_time_link_leads_to_a_name_a_password_and_inside(client: Client, tenant: Tenant) -> None:
    path = invited(tenant)
    assert 'value="new"' in client.get(path).text
    response = fill(client, path)
    assert response.status_code == 302
    assert is_signed_in(client)
    assert client.get(HOME).status_code == 200
    client.post("/sign-out/")
    sign_in(client, "mira", NEW)
    assert is_signed_in(client)


def test_looking_at_a_link_does_not_use_it_up(client: Client, tenant: Tenant) -> None:
    path = invited(tenant)
    for _ in range(3):
        assert client.get(path).status_code == 200
    assert fill(client, path).status_code == 302


def test_a_used_link_says_what_to_do(client: Client, tenant: Tenant) -> None:
    path = invited(tenant)
    fill(client, path)
    other = Client()
    for response in (other.get(path), fill(other, path, password="eve takes over 43", again="eve takes over 43")):
        assert response.status_code == 410
        assert "does not work any more" in response.text
    assert not is_signed_in(other)
    assert Person.objects.get(username="mira").check_password(NEW)


def test_an_old_link_is_gone(client: Client, tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    path = invited(tenant)
    later = datetime.now() + timedelta(days=4)
    monkeypatch.setattr(PasswordResetTokenGenerator, "_now", lambda self: later)
    assert client.get(path).status_code == 410


@pytest.mark.django_db
def test_a_link_that_never_was_is_gone(client: Client) -> None:
    assert client.get("/welcome/abc/def/").status_code == 410


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"again": "something else"}, "The two passwords differ"),
        ({"password": "short", "again": "short"}, "too short"),
        ({"password": "password1234", "again": "password1234"}, "too common"),
        ({"password": "20261121202611", "again": "20261121202611"}, "entirely numeric"),
        ({"name": "Viewer"}, "is taken"),
        ({"name": "a b"}, "cannot be used"),
        ({"name": ""}, "required"),
    ],
)
def test_what_is_wrong_is_told_and_the_link_still_works(
    client: Client, tenant: Tenant, viewer: Person, given: dict[str, str], told: str
) -> None:
    path = invited(tenant)
    response = fill(client, path, **given)
    assert response.status_code == 200
    assert told in response.text
    assert not is_signed_in(client)
    assert NEW not in response.text
    assert fill(client, path).status_code == 302


def test_a_link_takes_over_from_whoever_is_signed_in_here(client: Client, tenant: Tenant, viewer: Person) -> None:
    client.force_login(viewer)
    before = client.session.session_key
    fill(client, invited(tenant))
    assert client.session["_auth_user_id"] == str(Person.objects.get(username="mira").pk)
    assert client.session.session_key != before


def test_a_new_link_for_a_lost_password_keeps_the_name_and_ends_sessions(
    client: Client, tenant: Tenant, viewer: Person, password: str
) -> None:
    sign_in(client, "viewer", password)
    viewer.refresh_from_db()
    path = people.new_link(tenant=tenant, person=viewer, actor="admin").path
    other = Client()
    assert 'name="name"' not in other.get(path).text
    fill(other, path, name="somebody")
    viewer.refresh_from_db()
    assert viewer.username == "viewer"
    assert viewer.check_password(NEW)
    assert client.get(HOME).status_code == 302


@pytest.mark.django_db
def test_the_first_link_makes_an_administrator_who_can_work(client: Client) -> None:
    path = people.make_first_link()
    assert path is not None
    fill(client, path, name="admin")
    assert client.get("/t/default/settings/").status_code == 200


def change(client: Client, current: str, new: str = NEW, again: str = NEW) -> Any:
    return client.post("/password/", {"current": current, "password": new, "again": again})


def test_one_s_own_password_is_changed_and_other_sessions_end(client: Client, viewer: Person, password: str) -> None:
    other = Client()
    sign_in(client, "viewer", password)
    sign_in(other, "viewer", password)
    before = client.session.session_key
    assert change(client, password).status_code == 302
    assert client.get(HOME).status_code == 200
    assert client.session.session_key != before
    assert other.get(HOME).status_code == 302
    viewer.refresh_from_db()
    assert viewer.check_password(NEW)
    assert AuditEntry.objects.get(action="person.password").actor == "viewer"


def test_a_password_is_not_changed_without_the_current_one(client: Client, viewer: Person, password: str) -> None:
    client.force_login(viewer)
    assert "not your current password" in change(client, "wrong").text
    assert "passwords differ" in change(client, password, again="x").text
    assert "too short" in change(client, password, "abc", "abc").text
    for _ in range(5):
        change(client, "wrong")
    assert "Too many failed attempts" in change(client, password).text
    viewer.refresh_from_db()
    assert viewer.check_password(password)


@pytest.mark.django_db
def test_the_password_page_needs_a_sign_in(client: Client) -> None:
    assert client.get("/password/").url == "/sign-in/?next=/password/"


def test_what_a_name_and_a_password_have_to_be_is_said_before_anything_is_wrong(client: Client, tenant: Tenant) -> None:
    page = client.get(invited(tenant)).text
    assert "At least 8 characters" in page
    assert "no spaces" in text_of(page, "#id_name_helptext")
    assert page.count("<li>") == 4
    assert "Your password" not in page
