"""Tests of the page Connect: the lines of each way, keys for them, and the first handoff as it arrives."""

import re
from collections.abc import Callable

import pytest
from django.test import Client

from handoffaudit.accounts import keys
from handoffaudit.accounts.models import AuditEntry, Key, Person, Tenant
from handoffaudit.dashboard.connect_ways import EXAMPLE_KEY, EXAMPLE_SERVER, WAYS
from handoffaudit.handoffs import judge
from handoffaudit.handoffs.models import Handoff
from tests.pages import attributes, links, select, text_of, texts

SignIn = Callable[[Person], Client]
Submit = Callable[..., Handoff]
CONNECT = "/t/acme/connect/"
NAMES = [way.name for way in WAYS]


def send(secret: str) -> str:
    """Send a handoff with this key, and return its id."""
    document = {"source_agent_id": "planner", "target_agent_id": "writer", "call_chain": ["planner"]}
    document |= {"handoff_type": "message", "data": {"text": "It is done."}}
    headers = {"Authorization": f"Bearer {secret}"}
    sent = Client().post("/api/v1/handoffs", {"document": document}, "application/json", headers=headers)
    assert sent.status_code == 202, sent.text
    return str(sent.json()["id"])


def live_of(page: str) -> str:
    """Return the address that a page asks for news, with what the page shows."""
    [address], [seen] = (attributes(page, "#arrived", f"data-live{name}") for name in ("", "-seen"))
    return f"{address}&{seen}"


def test_an_empty_overview_leads_to_every_way(sign_in: SignIn, admin: Person) -> None:
    page = sign_in(admin).get("/t/acme/")
    assert "No handoffs yet" in page.text
    assert links(page, ".button-list a") == [f"{CONNECT}?with={name}" for name in NAMES]
    assert "Waiting for the next handoff" in text_of(page)
    assert 'action="/t/acme/sample/"' in page.text


def test_an_empty_sample_is_on_its_way_and_leads_to_no_way(sign_in: SignIn, admin: Person, tenant: Tenant) -> None:
    Tenant.objects.filter(pk=tenant.pk).update(is_sample=True)
    page = sign_in(admin).get("/t/acme/")
    assert "The sample is loading" in page.text
    assert not select(page, "#arrived, .button-list")


def test_the_former_address_leads_here(sign_in: SignIn, viewer: Person) -> None:
    assert sign_in(viewer).get("/t/acme/start/")["Location"] == CONNECT


@pytest.mark.parametrize("name", NAMES)
def test_a_way_has_lines_with_the_address_and_says_what_it_can_do(name: str, sign_in: SignIn, viewer: Person) -> None:
    page = sign_in(viewer).get(CONNECT, {"with": name}, headers={"host": "localhost:8123"})
    lines = "\n".join(texts(page, "pre.snippet"))
    assert "http://localhost:8123" in lines
    assert EXAMPLE_KEY in lines
    assert EXAMPLE_SERVER not in lines
    way = next(way for way in WAYS if way.name == name)
    assert links(page, 'nav[aria-label="Ways to connect"] a[aria-current=page]') == [f"?with={name}"]
    assert texts(page, "aside li") == [*way.sees, *way.misses, *way.gate]
    assert any("top" in said for said in way.gate)


def test_the_address_is_the_public_one(sign_in: SignIn, viewer: Person, settings: object) -> None:
    settings.PUBLIC_URL = "https://audit.example.com"
    assert "https://audit.example.com/api/v1/handoffs" in sign_in(viewer).get(CONNECT, {"with": "curl"}).text


@pytest.mark.parametrize("number", [0, 1])
def test_the_commands_have_nothing_that_a_shell_expands(number: int, sign_in: SignIn, viewer: Person) -> None:
    command = [text for text in texts(sign_in(viewer).get(CONNECT, {"with": "curl"}), "pre.snippet") if "curl" in text]
    unquoted = re.sub(r"'[^']*'", "", command[number])
    # zsh takes an unquoted question mark for a pattern, and double quotes leave an exclamation mark to the history.
    assert not set(unquoted) & set('?*[]{}!&$"')


@pytest.mark.parametrize("name", NAMES)
def test_a_click_creates_a_key_with_the_scopes_of_the_way(
    name: str, sign_in: SignIn, admin: Person, tenant: Tenant
) -> None:
    page = sign_in(admin).post(f"{CONNECT}key/", {"with": name}, follow=True)
    way = page.context["way"]
    assert way.name == name
    identity = keys.authenticate(page.context["secret"])
    assert identity is not None
    assert (identity.tenant_slug, identity.name, identity.scopes) == ("acme", way.label, set(way.scopes))
    assert identity.grade == ("in_process" if way.observes else "said")
    assert page.context["secret"] in "".join(snippet.text for snippet in page.context["snippets"])
    assert EXAMPLE_KEY not in page.text
    assert AuditEntry.objects.filter(tenant=tenant, action="key.create", actor=admin.username).exists()


def test_the_secret_goes_along_to_another_way_and_is_gone_after_a_reload(sign_in: SignIn, admin: Person) -> None:
    client = sign_in(admin)
    page = client.post(f"{CONNECT}key/", {"with": "python"}, follow=True)
    [secret] = attributes(page, 'nav input[name="secret"]', "value")
    assert attributes(page, 'nav button[name="with"]', "value") == NAMES
    page = client.post(f"{CONNECT}key/use/", {"with": "curl", "secret": secret}, follow=True)
    assert secret in text_of(page, "#code-1")
    again = client.get(page.request["PATH_INFO"], {"with": "curl"})
    assert secret not in again.text
    assert EXAMPLE_KEY in text_of(again, "#code-1")
    assert "Its secret was shown once" in again.text


def test_a_new_key_of_the_keys_page_goes_along(sign_in: SignIn, admin: Person) -> None:
    client = sign_in(admin)
    made = {"name": "crew", "scopes": ["ingest"]}
    page = client.post("/t/acme/settings/keys/create/", made, follow=True)
    [address] = attributes(page, 'form:has(button[name="with"])', "action")
    [secret] = attributes(page, 'input[name="secret"]', "value")
    page = client.post(address, {"with": "langgraph", "secret": secret}, follow=True)
    assert f"export HANDOFFAUDIT_KEY={secret}" in text_of(page, "#install")
    assert "Waiting for the first handoff with the key crew" in text_of(page, "#arrived")


def test_a_key_that_cannot_send_leads_to_no_way(sign_in: SignIn, admin: Person) -> None:
    made = {"name": "reader", "scopes": ["read"]}
    page = sign_in(admin).post("/t/acme/settings/keys/create/", made, follow=True)
    assert not select(page, 'button[name="with"]')


@pytest.mark.parametrize("theirs", [True, False])
def test_only_a_valid_key_of_the_tenant_goes_along(
    theirs: bool, sign_in: SignIn, admin: Person, tenant: Tenant, other_tenant: Tenant
) -> None:
    made, secret = keys.create(
        tenant=other_tenant if theirs else tenant, name="x", scopes=["ingest"], expires_at=None, actor="tests"
    )
    if not theirs:
        keys.revoke(tenant=tenant, key_id=made.pk, actor="tests")
    page = sign_in(admin).post(f"{CONNECT}key/use/", {"with": "curl", "secret": secret}, follow=True)
    assert "This key is unknown or revoked" in page.text
    assert secret not in page.text


def test_keys_of_one_way_have_names_of_their_own(sign_in: SignIn, admin: Person) -> None:
    client = sign_in(admin)
    for _ in range(3):
        client.post(f"{CONNECT}key/", {"with": "curl"})
    assert list(Key.objects.order_by("pk").values_list("name", flat=True)) == ["curl", "curl 2", "curl 3"]


@pytest.mark.parametrize("who", ["viewer", "reviewer"])
def test_who_may_not_create_a_key_is_told_whom_to_ask(
    who: str, sign_in: SignIn, admin: Person, request: pytest.FixtureRequest
) -> None:
    client = sign_in(request.getfixturevalue(who))
    page = client.get(CONNECT)
    assert f"{CONNECT}key/" not in page.text
    assert admin.username in page.text
    for address in ("key/", "key/use/"):
        assert client.post(f"{CONNECT}{address}").status_code == 403
    assert not Key.objects.exists()


def test_the_page_hears_of_the_next_handoff_and_of_its_verdict(
    sign_in: SignIn, viewer: Person, submit_to: Submit, tenant: Tenant
) -> None:
    submit_to(tenant)
    client = sign_in(viewer)
    ask = live_of(client.get(CONNECT).text)
    assert client.get(ask).status_code == 204, "an earlier handoff is no news"
    submit_to(tenant, judged=False)
    came = client.get(ask).text
    assert "is being judged" in text_of(came, "#arrived")
    judge.drain()
    settled = client.get(live_of(came)).text
    assert "The next agent may start" in text_of(settled, "#arrived").replace("Accepted: t", "T")
    assert not attributes(settled, "#arrived", "data-live")
    [after] = [href for href in links(settled, ".next-links a") if "since=" in href]
    assert "Waiting for the next handoff" in text_of(client.get(after))


def test_a_held_handoff_leads_to_its_decision(
    sign_in: SignIn, reviewer: Person, submit_to: Submit, held: Handoff
) -> None:
    page = sign_in(reviewer).get(CONNECT, {"since": "1"})
    assert f"/t/acme/review/{held.pk}/" in links(page, ".next-links a")
    assert "a person decides" in text_of(page, "#arrived")


def test_a_new_key_sees_its_own_first_handoff_arrive(
    sign_in: SignIn, admin: Person, submit_to: Submit, tenant: Tenant
) -> None:
    client = sign_in(admin)
    page = client.post(f"{CONNECT}key/", {"with": "curl"}, follow=True)
    assert "Waiting for the first handoff with the key curl" in text_of(page, "#arrived")
    ask = live_of(page.text)
    submit_to(tenant)
    assert client.get(ask).status_code == 204, "another key sent that one"
    sent = send(page.context["secret"])
    judge.drain()
    assert f"/t/acme/handoffs/{sent}/" in links(client.get(ask).text, ".next-links a")


def test_a_key_that_sent_something_else_is_noticed(sign_in: SignIn, admin: Person) -> None:
    client = sign_in(admin)
    page = client.post(f"{CONNECT}key/", {"with": "curl"}, follow=True)
    assert "no handoff was stored" not in page.text
    headers = {"Authorization": f"Bearer {page.context['secret']}"}
    assert Client().post("/api/v1/handoffs/batch", "[]", "application/json", headers=headers).status_code < 500
    assert "no handoff was stored" in text_of(client.get(CONNECT), "#arrived")


def test_a_trace_is_not_told_to_have_no_handoff_before_it_is_quiet(sign_in: SignIn, admin: Person) -> None:
    client = sign_in(admin)
    page = client.post(f"{CONNECT}key/", {"with": "opentelemetry"}, follow=True)
    headers = {"Authorization": f"Bearer {page.context['secret']}"}
    assert Client().post("/api/v1/otlp/traces", "{}", "application/json", headers=headers).status_code == 200
    said = text_of(client.get(CONNECT, {"with": "opentelemetry"}), "#arrived")
    assert "appear when it has been quiet for 10 seconds" in said
    assert "no handoff was stored" not in said


@pytest.mark.parametrize("query", [{"key": "x"}, {"key": "9" * 30}, {"since": "-1"}, {"with": "cobol"}, {"key": "999"}])
def test_an_address_that_makes_no_sense_is_no_error(query: dict[str, str], sign_in: SignIn, viewer: Person) -> None:
    client = sign_in(viewer)
    assert client.get(CONNECT, query).status_code == 200
    assert client.get(f"{CONNECT}arrived/", query).status_code == 200


@pytest.mark.parametrize("query", ["connect langgraph", "tool results curl", "resume openai"])
def test_the_help_finds_the_ways(query: str, sign_in: SignIn, viewer: Person) -> None:
    found = sign_in(viewer).get("/t/acme/help/", {"q": query}).context["found"]
    assert any(hit.kind == "page" and hit.href.startswith(f"{CONNECT}?with=") for hit in found)
