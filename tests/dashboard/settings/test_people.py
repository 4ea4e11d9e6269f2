from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from handoffaudit.accounts import keys, people
from handoffaudit.accounts.models import AuditEntry, Key, Membership, Person, Role, Tenant
from handoffaudit.policy.kinds import strictness
from handoffaudit.validation.config import TypePolicy
from tests.pages import raw_text, text_of

PAGE = "/t/acme/settings/"
POSTS = ["people/invite/", "people/{person}/link/", "people/{person}/role/", "people/{person}/remove/", "keys/create/"]


def role_of(person: Person, tenant: Tenant) -> str | None:
    return Membership.objects.filter(person=person, tenant=tenant).values_list("role", flat=True).first()


def shown(page: Any, element: str) -> str:
    return raw_text(page, f"#{element}")


@pytest.mark.parametrize("path", ["", "keys/", "audit/"])
def test_only_administrators_of_this_tenant_see_settings(
    viewer: Person, reviewer: Person, admin: Person, stranger: Person, path: str
) -> None:
    for person, status in ((None, 302), (viewer, 403), (reviewer, 403), (stranger, 404), (admin, 200)):
        client = Client()
        if person:
            client.force_login(person)
        assert client.get(f"{PAGE}{path}").status_code == status


@pytest.mark.parametrize("path", POSTS)
def test_only_administrators_of_this_tenant_change_settings(
    tenant: Tenant, viewer: Person, reviewer: Person, stranger: Person, path: str
) -> None:
    address = PAGE + path.format(person=viewer.pk)
    data = {"name": "x", "role": "admin", "scopes": "ingest"}
    for person, status in ((None, 302), (viewer, 403), (reviewer, 403), (stranger, 404)):
        client = Client()
        if person:
            client.force_login(person)
        assert client.post(address, data).status_code == status
    assert role_of(viewer, tenant) == "viewer"
    assert not AuditEntry.objects.exists()


@pytest.mark.parametrize("path", POSTS)
def test_changes_are_posts(as_admin: Client, viewer: Person, path: str) -> None:
    assert as_admin.get(PAGE + path.format(person=viewer.pk)).status_code == 405


def test_a_person_of_another_tenant_cannot_be_named_here(as_admin: Client, stranger: Person) -> None:
    assert "stranger" not in as_admin.get(PAGE).text
    for act in ("link", "role", "remove"):
        response = as_admin.post(f"{PAGE}people/{stranger.pk}/{act}/", {"role": "viewer"})
        assert response.status_code == 404
    assert Membership.objects.filter(person=stranger).count() == 1


def test_a_person_is_added_with_a_link_that_is_shown_once_and_works(as_admin: Client, tenant: Tenant) -> None:
    page = as_admin.post(f"{PAGE}people/invite/", {"name": "mira", "role": "reviewer"}, follow=True)
    assert page.status_code == 200
    link = shown(page, "link")
    assert link.startswith("http://testserver/welcome/")
    assert "/welcome/" not in as_admin.get(PAGE).text
    assert "link not used yet" in as_admin.get(PAGE).text
    client = Client()
    pass_phrase = {"password": "a long pass phrase 42", "again": "a long pass phrase 42"}
    client.post(link.removeprefix("http://testserver"), {"name": "mira"} | pass_phrase)
    assert client.get("/t/acme/").status_code == 200
    assert client.get(PAGE).status_code == 403


@pytest.mark.parametrize(
    ("name", "told"),
    [("", "A name is needed"), ("viewer", "of this tenant already"), ("stranger", "taken"), ("a b", "cannot be")],
)
def test_a_person_who_cannot_be_added_is_told_at_the_field(
    as_admin: Client, viewer: Person, stranger: Person, name: str, told: str
) -> None:
    page = as_admin.post(f"{PAGE}people/invite/", {"name": name, "role": "admin"})
    assert page.status_code == 400
    assert told in text_of(page, "#name_error")
    assert "/welcome/" not in page.text


def test_a_role_that_is_none_is_refused(as_admin: Client, tenant: Tenant, viewer: Person) -> None:
    assert as_admin.post(f"{PAGE}people/{viewer.pk}/role/", {"role": "owner"}).status_code == 404
    assert role_of(viewer, tenant) == "viewer"


def test_a_role_is_changed_and_holds_at_once(as_admin: Client, tenant: Tenant, viewer: Person) -> None:
    client = Client()
    client.force_login(viewer)
    assert client.get(PAGE).status_code == 403
    response = as_admin.post(f"{PAGE}people/{viewer.pk}/role/", {"role": "admin"})
    assert "viewer is admin now." in as_admin.get(response.url).text
    assert client.get(PAGE).status_code == 200


def test_who_is_removed_is_out_at_once(as_admin: Client, tenant: Tenant, viewer: Person) -> None:
    client = Client()
    client.force_login(viewer)
    assert client.get("/t/acme/").status_code == 200
    as_admin.post(f"{PAGE}people/{viewer.pk}/remove/")
    assert client.get("/t/acme/").status_code == 404


@pytest.mark.parametrize(("act", "data"), [("remove", {}), ("role", {"role": "viewer"})])
def test_the_last_administrator_is_told_why_not(
    as_admin: Client, tenant: Tenant, admin: Person, act: str, data: dict[str, str]
) -> None:
    page = as_admin.post(f"{PAGE}people/{admin.pk}/{act}/", data)
    assert page.status_code == 409
    assert "admin is the last administrator" in page.text
    assert role_of(admin, tenant) == "admin"


def test_an_administrator_may_leave_where_there_is_another(as_admin: Client, tenant: Tenant, admin: Person) -> None:
    second = Person.objects.create_user("second", password="x")
    Membership.objects.create(tenant=tenant, person=second, role=Role.ADMIN)
    assert as_admin.post(f"{PAGE}people/{admin.pk}/remove/").url == "/"
    assert as_admin.get(PAGE).status_code == 404


def test_a_new_link_is_shown_for_somebody_of_this_tenant_only(
    as_admin: Client, viewer: Person, other_tenant: Tenant
) -> None:
    assert "/welcome/" in as_admin.post(f"{PAGE}people/{viewer.pk}/link/", follow=True).text
    Membership.objects.create(tenant=other_tenant, person=viewer, role=Role.VIEWER)
    page = as_admin.post(f"{PAGE}people/{viewer.pk}/link/")
    assert page.status_code == 409
    assert "another tenant" in page.text
    assert "/welcome/" not in page.text


def make_key(client: Client, **given: Any) -> Any:
    return client.post(
        f"{PAGE}keys/create/", {"name": "ci", "scopes": ["ingest", "read"], "expires": ""} | given, follow=True
    )


def test_without_keys_the_page_says_what_to_do(as_admin: Client) -> None:
    assert "No key yet" in as_admin.get(f"{PAGE}keys/").text


def test_a_key_s_secret_is_shown_once_and_works(as_admin: Client, tenant: Tenant) -> None:
    page = make_key(as_admin)
    secret = shown(page, "secret")
    identity = keys.authenticate(secret)
    assert identity is not None
    assert identity.scopes == {"ingest", "read"}
    listed = as_admin.get(f"{PAGE}keys/").text
    assert secret not in listed
    assert secret[:11] in listed
    assert "no end" in listed


def test_the_agents_of_a_key_are_set_and_changed(as_admin: Client, tenant: Tenant) -> None:
    make_key(as_admin, agents="researcher\r\ncrew-*\r\n")
    key = Key.objects.get()
    assert key.agents == ["researcher", "crew-*"]
    assert "researcher, crew-*" in text_of(as_admin.get(f"{PAGE}keys/").text, "tbody")
    page = as_admin.post(f"{PAGE}keys/{key.pk}/agents/", {"agents": "writer"}, follow=True)
    assert "ci speaks for writer from now on" in page.text
    bad = as_admin.post(f"{PAGE}keys/{key.pk}/agents/", {"agents": "x" * 201})
    assert bad.status_code == 400
    assert "use at most 200" in bad.text
    assert Key.objects.get().agents == ["writer"]
    as_admin.post(f"{PAGE}keys/{key.pk}/agents/", {"agents": ""})
    assert "any agent" in text_of(as_admin.get(f"{PAGE}keys/").text, "tbody")
    assert make_key(as_admin, agents="\n".join(map(str, range(21)))).status_code == 400


def test_going_back_after_a_new_key_sends_no_form_again_and_shows_no_secret(as_admin: Client, tenant: Tenant) -> None:
    made = as_admin.post(f"{PAGE}keys/create/", {"name": "ci", "scopes": ["read"], "expires": ""})
    assert (made.status_code, made.url) == (302, f"{PAGE}keys/")
    stored = str(as_admin.session["once-acme-key"])
    assert as_admin.head(made.url).status_code == 200, "nobody has seen it yet"
    secret = shown(as_admin.get(made.url), "secret")
    assert keys.authenticate(secret) is not None
    assert secret not in stored
    assert secret.encode().hex() not in stored
    assert "once-acme-key" not in as_admin.session
    assert secret not in as_admin.get(made.url).text


def test_what_stands_in_a_session_alone_is_no_secret(as_admin: Client, tenant: Tenant) -> None:
    as_admin.post(f"{PAGE}keys/create/", {"name": "ci", "scopes": ["read"], "expires": ""})
    del as_admin.cookies["once-acme-key"]
    assert 'id="secret"' not in as_admin.get(f"{PAGE}keys/").text


@pytest.mark.parametrize("scope", ["review", "admin"])
def test_a_key_that_can_do_nothing_without_an_id_comes_without_a_command(as_admin: Client, scope: str) -> None:
    page = make_key(as_admin, scopes=[scope])
    assert shown(page, "secret")
    assert "curl" not in page.text


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"name": " "}, "A name is needed"),
        ({"scopes": []}, "without a scope"),
        ({"scopes": ["root"]}, "no scope"),
        ({"expires": "2001-01-01"}, "is in the past"),
        ({"expires": "soon"}, "is not a date"),
        ({"expires": "2027-02-31"}, "is not a date"),
    ],
)
def test_a_key_that_makes_no_sense_is_refused_and_the_form_kept(
    as_admin: Client, tenant: Tenant, given: dict[str, Any], told: str
) -> None:
    page = make_key(as_admin, **({"name": "kept"} | given))
    assert page.status_code == 400
    assert told in page.text
    if "name" not in given:
        assert 'value="kept"' in page.text
    assert not Key.objects.exists()


def test_a_key_ends_with_the_day_that_was_chosen(as_admin: Client, tenant: Tenant) -> None:
    day = timezone.now().date() + timedelta(days=1)
    make_key(as_admin, expires=day.isoformat())
    ends = Key.objects.get().expires_at
    assert ends is not None
    assert ends.isoformat() == f"{day}T23:59:59+00:00"


def test_a_key_is_revoked(as_admin: Client, tenant: Tenant) -> None:
    make_key(as_admin)
    key = Key.objects.get()
    response = as_admin.post(f"{PAGE}keys/{key.pk}/revoke/")
    page = as_admin.get(response.url).text
    assert "ci is revoked" in page
    assert "Revoke ci" not in page
    key.refresh_from_db()
    assert key.revoked_at is not None


def test_keys_of_another_tenant_are_not_there(as_admin: Client, other_tenant: Tenant, stranger: Person) -> None:
    key, _ = keys.create(tenant=other_tenant, name="theirs", scopes=["read"], expires_at=None, actor="stranger")
    assert "theirs" not in as_admin.get(f"{PAGE}keys/").text
    assert as_admin.post(f"{PAGE}keys/{key.pk}/revoke/").status_code == 404
    key.refresh_from_db()
    assert key.revoked_at is None


def test_the_audit_log_tells_what_was_done_newest_first(
    as_admin: Client, tenant: Tenant, other_tenant: Tenant, viewer: Person
) -> None:
    make_key(as_admin, name="first-key")
    as_admin.post(f"{PAGE}people/{viewer.pk}/role/", {"role": "reviewer"})
    strictness.upsert_row(tenant=tenant, base_version=0, row=TypePolicy("deal_data", token_budget=9), actor="admin")
    keys.create(tenant=other_tenant, name="theirs", scopes=["read"], expires_at=None, actor="stranger")
    page = as_admin.get(f"{PAGE}audit/").text
    told = ["saved strictness", "changed the role of", "made the key"]
    assert sorted(told, key=page.index) == told
    for text in ("first-key", "from: viewer; to: reviewer", "token budget", "2,000"):
        assert text in page
    assert "theirs" not in page


def test_an_empty_audit_log_says_what_will_stand_there(as_admin: Client) -> None:
    assert "Nothing yet" in as_admin.get(f"{PAGE}audit/").text


def test_the_audit_log_goes_by_pages(as_admin: Client, tenant: Tenant) -> None:
    for number in range(55):
        keys.create(tenant=tenant, name=f"key-{number}-", scopes=["read"], expires_at=None, actor="ada")
    page = as_admin.get(f"{PAGE}audit/").text
    assert "key-54-" in page
    assert "key-4-" not in page
    assert f"{PAGE}audit/?before=6" in page
    older = as_admin.get(f"{PAGE}audit/", {"before": "6"}).text
    assert "key-4-" in older
    assert 'rel="next"' not in older


@pytest.mark.parametrize("before", ["x", "-1", "9" * 5000, "", "²"])
def test_a_cursor_that_is_none_gives_the_first_page(as_admin: Client, tenant: Tenant, before: str) -> None:
    keys.create(tenant=tenant, name="mine", scopes=["read"], expires_at=None, actor="ada")
    assert "mine" in as_admin.get(f"{PAGE}audit/", {"before": before}).text


def test_the_log_is_checked_on_demand(as_admin: Client, tenant: Tenant) -> None:
    people.invite(tenant=tenant, name="mira", role=Role.VIEWER, actor="admin")
    people.invite(tenant=tenant, name="jonas", role=Role.VIEWER, actor="admin")
    assert "The log is whole" not in as_admin.get(f"{PAGE}audit/").text
    assert "The log is whole" in as_admin.get(f"{PAGE}audit/", {"check": "1"}).text
    AuditEntry.objects.filter(number=1).update(actor="nobody")
    assert "Entry 1 does not fit" in as_admin.get(f"{PAGE}audit/", {"check": "1"}).text
