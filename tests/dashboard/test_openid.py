"""Tests of sign-in with OpenID Connect, against a provider on a real socket with real and with forged tokens."""

import base64
import json
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import jwt
import pytest
import requests
from allauth.mfa.models import Authenticator
from allauth.mfa.totp.internal.auth import TOTP
from allauth.socialaccount.models import SocialAccount
from django.contrib.sessions.models import Session
from django.core.cache import cache
from django.test import Client
from structlog.testing import capture_logs

from handoffaudit.accounts import people
from handoffaudit.accounts.models import AuditEntry, Membership, Person, Role, Tenant
from handoffaudit.dashboard.security import PasskeySignInForm
from tests.dashboard.openid_server import ADA, CLIENT, KEY, OTHER_KEY, SECRET, OpenIDServer, running, sign

START, CALLBACK = "/sign-in/oidc/", "/sign-in/oidc/callback/"


@pytest.fixture(scope="module")
def _server() -> Iterator[OpenIDServer]:
    with running() as server:
        yield server


@pytest.fixture
def provider(_server: OpenIDServer, tenant: Tenant, settings: Any) -> Iterator[OpenIDServer]:
    """Set up the sign-in: reviewers and administrators of the tenant `acme` by the claim `groups`."""
    # A test before may have changed anything.
    fresh = OpenIDServer(url=_server.url.replace("localhost", "127.0.0.1"))
    for name in vars(fresh):
        setattr(_server, name, getattr(fresh, name))
    settings.OIDC_ISSUER = _server.url
    settings.OIDC_CLIENT_ID, settings.OIDC_CLIENT_SECRET = CLIENT, SECRET
    settings.OIDC_ROLE_CLAIM = "groups"
    settings.OIDC_ROLES = {"reviewers": ["reviewer@acme"], "admins": ["admin@acme"], "everywhere": ["viewer@globex"]}
    settings.OIDC_ALLOWED_DOMAINS = ["example.com"]
    cache.clear()
    yield _server
    cache.clear()


def begin(client: Client, address: str = START) -> str:
    """Return the address of the provider's page to which the product sends the browser."""
    response = client.get(address)
    assert response.status_code == 302, response.text
    return str(response["Location"])


def at_provider(address: str) -> str:
    """Return the path to which the provider sends the browser back."""
    location = requests.get(address, allow_redirects=False, timeout=10).headers["Location"]
    return location.removeprefix("http://testserver")


def sign_in(client: Client, address: str = START) -> Any:
    return client.get(at_provider(begin(client, address)))


def signed_in(client: Client) -> Person | None:
    return Person.objects.filter(pk=client.session.get("_auth_user_id")).first()


def roles(person: Person) -> dict[str, str]:
    return dict(Membership.objects.filter(person=person).values_list("tenant__slug", "role"))


def actions(tenant: Tenant) -> list[str]:
    return list(AuditEntry.objects.filter(tenant=tenant).order_by("number").values_list("action", flat=True))


def test_the_first_sign_in_makes_a_member_with_the_role_of_the_claim(
    client: Client, provider: OpenIDServer, tenant: Tenant
) -> None:
    response = sign_in(client)
    assert (response.status_code, response["Location"]) == (302, "/")
    person = signed_in(client)
    assert person
    assert (person.username, person.email, person.has_usable_password()) == (
        "ada@example.com",
        "ada@example.com",
        False,
    )
    assert roles(person) == {"acme": "reviewer"}
    assert actions(tenant) == ["person.join", "person.sign_in"]
    assert client.get("/t/acme/").status_code == 200
    assert 0 < client.session.get_expiry_age() <= 12 * 3600


def test_the_use_of_a_session_of_the_provider_does_not_extend_it(client: Client, provider: OpenIDServer) -> None:
    sign_in(client)
    stored = Session.objects.get(pk=client.session.session_key)
    session = client.session
    session["period"] = {"period": "7d"}
    session.save()
    assert Session.objects.get(pk=stored.pk).expire_date == stored.expire_date


def test_a_member_of_the_provider_adds_a_factor_only_after_a_fresh_sign_in(
    client: Client, provider: OpenIDServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    sign_in(client)
    assert client.get("/security/passkeys/add/").status_code == 200
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 301)
    for page in ("/security/passkeys/add/", "/security/app/", "/security/codes/new/"):
        assert client.get(page)["Location"] == "/security/"
        assert client.post(page)["Location"] == "/security/"
    assert "Sign out, sign in again" in client.get("/security/").text


@pytest.mark.parametrize(("issuer", "way"), [(None, "Sign in through"), ("", "Ask an administrator for a link:")])
def test_a_passkey_alone_signs_no_member_of_the_provider_in(
    client: Client, provider: OpenIDServer, monkeypatch: pytest.MonkeyPatch, settings, issuer: str | None, way: str
) -> None:
    sign_in(client)
    passkey = Authenticator(user=signed_in(client), type="webauthn", data={"name": "Laptop", "credential": {}})
    monkeypatch.setattr(PasskeySignInForm, "is_valid", lambda form: True)
    monkeypatch.setattr(PasskeySignInForm, "cleaned_data", {"credential": passkey}, raising=False)
    settings.OIDC_ISSUER = settings.OIDC_ISSUER if issuer is None else issuer
    response = (other := Client()).post("/sign-in/passkey/", {"credential": "{}"}, follow=True)
    assert way in response.text
    assert signed_in(other) is None


def test_later_sign_ins_find_the_same_person_even_with_another_address(
    client: Client, provider: OpenIDServer, tenant: Tenant
) -> None:
    sign_in(client)
    provider.account["email"] = "ada.king@example.com"
    sign_in(other := Client())
    assert signed_in(other) == signed_in(client)
    assert SocialAccount.objects.count() == 1


def test_an_equal_subject_of_another_issuer_is_somebody_else(provider: OpenIDServer, settings: Any) -> None:
    sign_in(first := Client())
    settings.OIDC_ISSUER = provider.url = provider.url.replace("127.0.0.1", "localhost")
    sign_in(second := Client())
    assert signed_in(first) != signed_in(second) is not None


def test_state_nonce_and_pkce_are_sent_and_nothing_of_the_address_is(client: Client, provider: OpenIDServer) -> None:
    query = parse_qs(urlsplit(begin(client, f"{START}?scope=all&auth_params=prompt%3Dnone&process=connect")).query)
    assert {"state", "nonce", "code_challenge"} <= query.keys()
    assert query["code_challenge_method"] == ["S256"]
    assert sorted(query["scope"][0].split()) == ["email", "openid", "profile"]
    assert "prompt" not in query


@pytest.mark.parametrize(
    ("after", "expected"), [("/t/acme/review/", "/t/acme/review/"), ("https://evil.example/", "/")]
)
def test_next_leads_on_in_the_product_only(client: Client, provider: OpenIDServer, after: str, expected: str) -> None:
    assert sign_in(client, f"{START}?next={after}")["Location"] == expected


def sign_raw(claims: Any) -> str:
    """Sign claims of any type; `jwt.encode` would refuse some of them."""
    return jwt.api_jws.encode(json.dumps(claims).encode(), KEY, algorithm="RS256", headers={"kid": "one"})


HOSTILE = {
    "another key": lambda claims: sign(claims, OTHER_KEY),
    "another key id": lambda claims: sign(claims, kid="two"),
    "an unknown key id": lambda claims: sign(claims, kid="nine"),
    "no signature": lambda claims: jwt.encode(claims, None, algorithm="none", headers={"kid": "one"}),
    "the client secret": lambda claims: sign(claims, SECRET * 2, algorithm="HS256"),
    "another issuer": lambda claims: sign(claims | {"iss": "https://evil.example"}),
    "another audience": lambda claims: sign(claims | {"aud": "somebody"}),
    "another party": lambda claims: sign(claims | {"aud": [CLIENT, "somebody"], "azp": "somebody"}),
    "expired": lambda claims: sign(claims | {"exp": int(time.time()) - 120}),
    "no end": lambda claims: sign({name: value for name, value in claims.items() if name != "exp"}),
    "from the future": lambda claims: sign(claims | {"nbf": int(time.time()) + 900}),
    "another nonce": lambda claims: sign(claims | {"nonce": "x"}),
    "no nonce": lambda claims: sign({name: value for name, value in claims.items() if name != "nonce"}),
    "another account than userinfo": lambda claims: sign(claims | {"sub": "eve"}),
    "no subject": lambda claims: sign(claims | {"sub": ""}),
    "a subject that is a list": lambda claims: sign_raw(claims | {"sub": ["ada"]}),
    "claims that are a list": lambda claims: sign_raw([claims]),
    "not signed as a token": json.dumps,
    "a changed payload": lambda claims: ".".join(
        [*sign(claims).split(".")[:1], sign(claims | {"sub": "eve"}).split(".")[1], sign(claims).split(".")[2]]
    ),
    "no token": lambda claims: None,
    "a number": lambda claims: 7,
    "many dots": lambda claims: "." * 100_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_forged_token_signs_nobody_in(client: Client, provider: OpenIDServer, tenant: Tenant, name: str) -> None:
    provider.make_token = HOSTILE[name]
    with capture_logs() as logs:
        response = sign_in(client)
    assert response.status_code == 502
    assert "could not sign you in" in response.text
    assert signed_in(client) is None
    assert not Person.objects.exists()
    assert [one["event"] for one in logs] == ["sign_in.oidc_failed"]
    # The log names the reason, and neither tokens nor secrets.
    assert len(logs[0]["reason"]) > 20
    assert "eyJ" not in str(logs)
    assert SECRET not in str(logs)


@pytest.mark.parametrize(
    ("path", "status", "body"),
    [
        ("/token", 200, b"[]"),
        ("/token", 200, b'"access_token"'),
        ("/token", 200, b'{"access_token": 7}'),
        ("/token", 200, b"access_token=x&expires_in=y"),
        ("/token", 302, b""),
        ("/token", 500, b"<html>"),
        ("/token", 401, b'{"error": "invalid_client"}'),
        ("/token", 200, b"x" * (1024 * 1024 + 1)),
        ("/userinfo", 200, b"[" * 100_000),
        ("/userinfo", 200, b"[]"),
        ("/userinfo", 403, b"{}"),
        ("/jwks", 200, b'{"keys": 7}'),
        ("/jwks", 200, b'{"keys": [{"kty": "RSA"}]}'),
        ("/jwks", 404, b""),
    ],
)
def test_a_broken_answer_of_the_provider_signs_nobody_in(
    client: Client, provider: OpenIDServer, path: str, status: int, body: bytes
) -> None:
    provider.answers[path] = (status, body)
    response = sign_in(client)
    assert response.status_code == 502
    assert signed_in(client) is None


@pytest.mark.parametrize("path", ["/token", "/userinfo", "/jwks"])
def test_an_answer_that_drips_is_given_up(
    client: Client, provider: OpenIDServer, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("handoffaudit.accounts.openid.MOST_SECONDS", 0.2)
    provider.slow = path
    begun = time.monotonic()
    assert sign_in(client).status_code == 502
    assert time.monotonic() - begun < 2
    assert signed_in(client) is None


@pytest.mark.parametrize("path", ["/token", "/userinfo", "/jwks"])
def test_an_answer_that_breaks_off_is_not_used(client: Client, provider: OpenIDServer, path: str) -> None:
    provider.broken = path
    assert sign_in(client).status_code == 502
    assert signed_in(client) is None


@pytest.mark.parametrize(
    "found",
    [
        b"<html>",
        b"[]",
        b'{"issuer": "http://evil.example", "authorization_endpoint": "ISSUER/a", "token_endpoint": "ISSUER/t",'
        b' "jwks_uri": "ISSUER/jwks"}',
        b'{"issuer": "ISSUER", "authorization_endpoint": "ISSUER/a", "token_endpoint": "ISSUER/t",'
        b' "jwks_uri": "ftp://127.0.0.1/jwks"}',
        b'{"issuer": "ISSUER"}',
        b'{"issuer": "ISSUER", "authorization_endpoint": "javascript:alert(1)", "token_endpoint": 1, "jwks_uri": ""}',
    ],
)
def test_a_provider_that_cannot_be_used_is_told_before_anybody_leaves(
    client: Client, provider: OpenIDServer, found: bytes
) -> None:
    body = found.replace(b"ISSUER", provider.url.encode())
    provider.answers["/.well-known/openid-configuration"] = (200, body)
    response = client.get(START)
    assert response.status_code == 502
    assert "could not sign you in" in response.text


def test_a_provider_that_is_away_is_told(client: Client, provider: OpenIDServer, settings: Any) -> None:
    settings.OIDC_ISSUER = "http://127.0.0.1:9"
    with capture_logs() as logs:
        assert client.get(START).status_code == 502
    assert "ConnectionError" in logs[0]["reason"]


def test_a_client_secret_that_the_provider_does_not_know_is_named_in_the_log(
    client: Client, provider: OpenIDServer, settings: Any
) -> None:
    settings.OIDC_CLIENT_SECRET = "an old one"
    with capture_logs() as logs:
        assert sign_in(client).status_code == 502
    assert "invalid_client" in logs[0]["reason"]
    assert "an old one" not in str(logs)


def test_a_state_works_once_and_in_its_own_browser_only(client: Client, provider: OpenIDServer) -> None:
    back = at_provider(begin(client))
    assert Client().get(back).status_code == 403
    assert client.get(back).status_code == 302
    client.post("/sign-out/")
    again = client.get(back)
    assert again.status_code == 403
    assert "This sign-in is over" in again.text
    assert "was used before" in again.text
    assert signed_in(client) is None


def test_a_code_of_another_sign_in_is_refused(provider: OpenIDServer) -> None:
    """The code of an attacker does not fit the nonce and the verifier of the victim's browser."""
    attacker, victim = Client(), Client()
    code = parse_qs(urlsplit(at_provider(begin(attacker))).query)["code"][0]
    state = parse_qs(urlsplit(begin(victim)).query)["state"][0]
    assert victim.get(CALLBACK, {"code": code, "state": state}).status_code == 502
    assert signed_in(victim) is None


@pytest.mark.parametrize(
    ("answer", "status", "told"),
    [
        ({"error": "access_denied"}, 403, "You cancelled"),
        ({"error": "server_error", "error_description": "<script>alert(1)</script>"}, 502, "could not sign you in"),
        ({}, 403, "is over"),
    ],
)
def test_an_error_of_the_provider_is_told(
    client: Client, provider: OpenIDServer, answer: dict[str, str], status: int, told: str
) -> None:
    state = parse_qs(urlsplit(begin(client)).query)["state"][0]
    response = client.get(CALLBACK, answer | {"state": state})
    assert response.status_code == status
    assert told in response.text
    assert "<script>alert" not in response.text


@pytest.mark.parametrize("state", ["", "x", "\x00", "a" * 100_000])
def test_a_state_that_never_was_is_refused(client: Client, provider: OpenIDServer, state: str) -> None:
    assert client.get(CALLBACK, {"state": state, "code": "x"}).status_code == 403


REFUSED_ACCOUNTS = [
    ({"email_verified": False}, "verified"),
    ({"email_verified": None}, "verified"),
    ({"email_verified": ["true"]}, "verified"),
    ({"email_verified": "yes"}, "verified"),
    ({"email": None}, "verified"),
    ({"email": ["ada@example.com"]}, "verified"),
    ({"email": "ada@example.com@evil.org"}, "verified"),
    ({"email": "ada\x00@example.com"}, "verified"),
    ({"email": "a" * 300 + "@example.com"}, "verified"),
    ({"email": "ada@example.com.evil.org"}, "may not sign in"),
    ({"email": "ada@evil-example.com"}, "may not sign in"),
    ({"email": "ada@sub.example.com"}, "may not sign in"),
    ({"groups": []}, "no role"),
    ({"groups": ["Reviewers", "reviewers "]}, "no role"),
    ({"groups": None}, "no role"),
    ({"groups": {"reviewers": True}}, "no role"),
    ({"groups": [["reviewers"]]}, "no role"),
    ({"groups": ["reviewers", 7]}, "no role"),
    ({"groups": True}, "no role"),
    ({"groups": ["everywhere"]}, "no role"),
]


@pytest.mark.parametrize(("account", "told"), REFUSED_ACCOUNTS)
def test_who_may_not_sign_in_is_told_why_and_leaves_no_trace(
    client: Client, provider: OpenIDServer, account: dict[str, Any], told: str
) -> None:
    provider.account |= account
    with capture_logs() as logs:
        response = sign_in(client)
    assert response.status_code == 403
    assert told in response.text
    assert not Person.objects.exists()
    assert not SocialAccount.objects.exists()
    assert "sign_in.oidc_refused" in [one["event"] for one in logs]


@pytest.mark.parametrize(
    ("account", "role"),
    [
        ({"email_verified": "true"}, "reviewer"),
        ({"email_verified": 1}, "reviewer"),
        ({"email": "Ada@EXAMPLE.com"}, "reviewer"),
        ({"groups": "reviewers"}, "reviewer"),
        ({"groups": ["x", "reviewers", "admins"]}, "admin"),
        ({"groups": ["admins", *(f"group {n}" for n in range(5000))]}, "admin"),
    ],
)
def test_forms_of_claims_that_providers_use_are_read(
    client: Client, provider: OpenIDServer, account: dict[str, Any], role: str
) -> None:
    provider.account |= account
    sign_in(client)
    person = signed_in(client)
    assert person
    assert roles(person) == {"acme": role}


@pytest.mark.parametrize("name", ["realm_access.roles", "https://example.com/roles"])
def test_a_claim_may_be_nested_or_have_dots_in_its_name(
    client: Client, provider: OpenIDServer, settings: Any, name: str
) -> None:
    settings.OIDC_ROLE_CLAIM = name
    nested = {"realm_access": {"roles": ["admins"]}}
    provider.account |= nested if name.startswith("realm") else {name: ["admins"]}
    sign_in(client)
    assert roles(signed_in(client)) == {"acme": "admin"}


def test_another_claim_may_say_that_the_address_is_verified(
    client: Client, provider: OpenIDServer, settings: Any
) -> None:
    settings.OIDC_VERIFIED_CLAIM = "xms_edov"
    assert sign_in(client).status_code == 403
    provider.account["xms_edov"] = True
    assert sign_in(client).status_code == 302


def test_a_default_role_lets_others_in_too(client: Client, provider: OpenIDServer, settings: Any) -> None:
    settings.OIDC_DEFAULT_ROLE = "viewer@acme"
    provider.account["groups"] = []
    sign_in(client)
    assert roles(signed_in(client)) == {"acme": "viewer"}


def test_without_a_claim_administrators_give_the_roles_after_the_first_sign_in(
    client: Client, provider: OpenIDServer, settings: Any, tenant: Tenant, admin: Person
) -> None:
    settings.OIDC_ROLE_CLAIM, settings.OIDC_ROLES, settings.OIDC_DEFAULT_ROLE = "", {}, "viewer@acme"
    sign_in(client)
    ada = signed_in(client)
    assert ada
    people.set_role(tenant=tenant, person=ada, role=Role.REVIEWER, actor="admin")
    sign_in(Client())
    assert roles(ada) == {"acme": "reviewer"}
    people.remove(tenant=tenant, person=ada, actor="admin")
    assert sign_in(Client()).status_code == 403
    assert roles(ada) == {}


def test_without_passwords_a_former_member_is_let_back_in(
    client: Client, provider: OpenIDServer, settings: Any, tenant: Tenant, as_admin: Client
) -> None:
    settings.PASSWORD_SIGN_IN = False
    settings.OIDC_ROLE_CLAIM, settings.OIDC_ROLES, settings.OIDC_DEFAULT_ROLE = "", {}, "viewer@acme"
    sign_in(client)
    ada = signed_in(client)
    assert ada
    people.remove(tenant=tenant, person=ada, actor="admin")
    assert "Let a former member back in" in as_admin.get("/t/acme/settings/").text
    given = {"name": ada.username, "role": "reviewer"}
    page = as_admin.post("/t/acme/settings/people/invite/", given, follow=True)
    assert f"{ada.username} can sign in with" in page.text
    assert "Invite link for" not in page.text
    assert sign_in(again := Client()).status_code == 302
    assert signed_in(again) == ada
    assert roles(ada) == {"acme": "reviewer"}
    assert as_admin.post("/t/acme/settings/people/invite/", given | {"name": "eve"}).status_code == 400


def test_the_role_follows_the_claim_at_each_sign_in(
    client: Client, provider: OpenIDServer, tenant: Tenant, admin: Person
) -> None:
    sign_in(client)
    ada = signed_in(client)
    assert ada
    provider.account["groups"] = ["admins"]
    sign_in(Client())
    assert roles(ada) == {"acme": "admin"}
    provider.account["groups"] = []
    assert sign_in(Client()).status_code == 403
    # What the provider withdraws is gone although the sign-in was refused, also for sessions that are open.
    assert roles(ada) == {}
    assert client.get("/t/acme/").status_code == 404
    assert actions(tenant) == ["person.join", "person.sign_in", "person.role", "person.sign_in", "person.remove"]


@pytest.mark.parametrize("groups", [["reviewers"], []])
def test_the_last_administrator_keeps_the_role_and_everybody_learns_it(
    client: Client, provider: OpenIDServer, tenant: Tenant, groups: list[str]
) -> None:
    provider.account["groups"] = ["admins"]
    sign_in(client)
    ada = signed_in(client)
    provider.account["groups"] = groups
    with capture_logs() as logs:
        response = sign_in(again := Client())
    assert response.status_code == 302
    assert roles(ada) == {"acme": "admin"}
    assert "no longer makes you an administrator" in again.get("/t/acme/").text
    assert "sign_in.oidc_last_administrator" in [one["event"] for one in logs]
    assert "person.role_kept" in actions(tenant)


def test_memberships_of_other_tenants_stay(
    client: Client, provider: OpenIDServer, other_tenant: Tenant, stranger: Person, settings: Any
) -> None:
    settings.OIDC_ROLES = {"reviewers": ["reviewer@acme"]}
    stranger.email = "ada@example.com"
    stranger.save()
    sign_in(client)
    assert signed_in(client) == stranger
    assert roles(stranger) == {"globex": "admin", "acme": "reviewer"}


def test_an_existing_person_is_found_by_a_verified_address_of_an_allowed_domain(
    client: Client, provider: OpenIDServer, tenant: Tenant, viewer: Person, admin: Person
) -> None:
    provider.account["email"] = "Viewer@example.com"
    sign_in(client)
    assert signed_in(client) == viewer
    assert roles(viewer) == {"acme": "reviewer"}
    assert actions(tenant) == ["person.link_oidc", "person.role", "person.sign_in"]


def test_an_address_with_another_letter_that_has_the_same_upper_case_is_somebody_else(
    client: Client, provider: OpenIDServer, viewer: Person
) -> None:
    provider.account["email"] = "v\u0131ewer@example.com"
    sign_in(client)
    assert signed_in(client) not in (None, viewer)


def test_without_allowed_domains_nobody_is_taken_over(
    client: Client, provider: OpenIDServer, viewer: Person, settings: Any
) -> None:
    settings.OIDC_ALLOWED_DOMAINS = []
    provider.account["email"] = "viewer@example.com"
    sign_in(client)
    assert signed_in(client) not in (None, viewer)
    assert roles(viewer) == {"acme": "viewer"}


def test_an_account_that_another_subject_has_is_not_given_to_a_second(
    client: Client, provider: OpenIDServer, viewer: Person
) -> None:
    provider.account["email"] = "viewer@example.com"
    sign_in(client)
    provider.account["sub"] = "eve"
    sign_in(other := Client())
    assert signed_in(other) not in (None, viewer)


def test_an_address_of_several_people_is_given_to_nobody(
    client: Client, provider: OpenIDServer, viewer: Person, reviewer: Person
) -> None:
    Person.objects.update(email="ada@example.com")
    response = sign_in(client)
    assert response.status_code == 403
    assert "Several people" in response.text


def test_a_name_that_is_an_address_does_not_make_its_owner(
    client: Client, provider: OpenIDServer, tenant: Tenant, viewer: Person
) -> None:
    """Somebody may choose any name with a one-time link, also the address of somebody else."""
    Person.objects.filter(pk=viewer.pk).update(username="ADA@example.com")
    sign_in(client)
    person = signed_in(client)
    assert person
    assert person.username == "ada@example.com-2"


def test_a_disabled_account_stays_out(client: Client, provider: OpenIDServer) -> None:
    sign_in(client)
    client.post("/sign-out/")
    Person.objects.update(is_active=False)
    response = sign_in(client)
    assert response.status_code == 403
    assert "disabled" in response.text


def test_a_person_who_was_invited_again_under_the_name_is_not_the_old_one(
    client: Client, provider: OpenIDServer, tenant: Tenant, admin: Person
) -> None:
    sign_in(client)
    ada = signed_in(client)
    assert ada
    people.remove(tenant=tenant, person=ada, actor="admin")
    people.invite(tenant=tenant, name=ada.username, role=Role.VIEWER, actor="admin")
    assert not SocialAccount.objects.exists()
    sign_in(again := Client())
    assert signed_in(again) not in (None, ada)


def test_no_administrator_sets_the_password_of_somebody_whom_the_provider_may_add_to_another_tenant(
    client: Client, provider: OpenIDServer, as_admin: Client, settings: Any
) -> None:
    sign_in(client)
    address = f"/t/acme/settings/people/{client.session['_auth_user_id']}/link/"
    refused = as_admin.post(address)
    assert refused.status_code == 409
    assert "signs in through" in refused.text
    settings.OIDC_ISSUER = ""
    assert as_admin.post(address).status_code == 302


def test_the_rule_of_second_factors_is_not_for_people_of_the_provider(
    client: Client, provider: OpenIDServer, settings: Any
) -> None:
    settings.ADMIN_SECOND_FACTOR = True
    provider.account["groups"] = ["admins"]
    sign_in(client)
    assert client.get("/t/acme/settings/").status_code == 200


def test_a_second_factor_that_is_set_up_is_asked_for_after_the_provider_too(
    client: Client, provider: OpenIDServer, tenant: Tenant
) -> None:
    sign_in(client)
    TOTP.activate(signed_in(client), base64.b32encode(b"twenty bytes of key!").decode())
    before = actions(tenant)
    assert sign_in(other := Client())["Location"] == "/sign-in/code/"
    assert signed_in(other) is None
    assert actions(tenant) == before


def test_people_without_a_password_set_up_a_second_factor_without_one(client: Client, provider: OpenIDServer) -> None:
    sign_in(client)
    assert "Change your password" not in client.get("/security/").text
    assert client.get("/security/app/").status_code == 200


def test_many_starts_from_one_address_are_stopped(client: Client, provider: OpenIDServer) -> None:
    answers = [client.get(START).status_code for _ in range(31)]
    assert answers == [302] * 30 + [429]
    assert len(client.session["socialaccount_states"]) <= 11


def test_the_discovery_document_and_the_keys_are_read_once(client: Client, provider: OpenIDServer) -> None:
    sign_in(client)
    sign_in(Client())
    assert provider.asked.count("/.well-known/openid-configuration") == 1
    assert provider.asked.count("/jwks") == 1


def test_only_get_starts_and_ends_a_sign_in(client: Client, provider: OpenIDServer) -> None:
    assert client.post(START).status_code == 405
    assert client.post(CALLBACK, {"state": "x", "code": "y"}).status_code == 405


def test_without_a_provider_there_is_no_such_page(client: Client, db: None) -> None:
    assert client.get(START).status_code == 404
    assert client.get(CALLBACK).status_code == 404
    assert "Sign in with" not in client.get("/sign-in/").text


def test_the_account_of_the_tests_is_admitted() -> None:
    """The hostile accounts differ from this one in one respect each."""
    assert ADA == {"sub": "ada", "email": "ada@example.com", "email_verified": True, "groups": ["reviewers"]}
