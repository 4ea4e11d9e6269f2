import re
from collections.abc import Callable

import pytest
from django.template.loader import render_to_string
from django.test import Client

from handoffaudit.accounts.models import Membership, Person, Role, Tenant
from handoffaudit.handoffs.models import Handoff

SignIn = Callable[[Person], Client]
PAGES = ["/t/acme/", "/t/acme/handoffs/", "/t/acme/review/"]


@pytest.mark.parametrize("address", PAGES)
def test_nothing_is_inline(sign_in: SignIn, admin: Person, held: Handoff, address: str) -> None:
    page = sign_in(admin).get(address).text
    assert not re.search(r"\s(style|on[a-z]+)=", page)
    assert not re.search(r"<style|<script(?![^>]*\ssrc=)|javascript:|hx-on", page)


def test_the_policy_lets_no_inline_code_run(sign_in: SignIn, viewer: Person) -> None:
    policy = sign_in(viewer).get("/t/acme/")["Content-Security-Policy"]
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy


def test_the_number_that_waits_stands_beside_review(sign_in: SignIn, viewer: Person, held: Handoff) -> None:
    page = sign_in(viewer).get("/t/acme/handoffs/").text
    assert 'class="badge">1<span class="hidden"> waiting</span>' in page


@pytest.mark.parametrize(("address", "name"), [*zip(PAGES, ["Overview", "Handoffs", "Review"], strict=True)])
def test_the_page_one_is_on_is_marked(sign_in: SignIn, viewer: Person, address: str, name: str) -> None:
    page = sign_in(viewer).get(address).text
    (marked,) = re.findall(r'<a href="([^"]+)" aria-current="page">', page)
    assert marked == address
    assert f"<title>{name} · Acme</title>" in page


def test_settings_are_shown_to_administrators_only(sign_in: SignIn, viewer: Person, admin: Person) -> None:
    assert "/t/acme/settings/" not in sign_in(viewer).get("/t/acme/handoffs/").text
    assert "/t/acme/settings/" in sign_in(admin).get("/t/acme/handoffs/").text


def test_only_a_person_of_several_tenants_can_switch(sign_in: SignIn, viewer: Person, other_tenant: Tenant) -> None:
    client = sign_in(viewer)
    assert "/t/globex/" not in client.get("/t/acme/").text
    Membership.objects.create(tenant=other_tenant, person=viewer, role=Role.VIEWER)
    assert 'href="/t/globex/"' in client.get("/t/acme/").text


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_theme_is_kept_and_given_back_to_the_system(sign_in: SignIn, viewer: Person, theme: str) -> None:
    client = sign_in(viewer)
    answer = client.post("/t/acme/theme/", {"theme": theme, "next": "/t/acme/review/"})
    assert (answer.status_code, answer["Location"]) == (302, "/t/acme/review/")
    assert f'data-theme="{theme}"' in client.get("/t/acme/").text
    client.post("/t/acme/theme/", {"theme": "system"})
    assert "data-theme" not in client.get("/t/acme/").text


@pytest.mark.parametrize("address", ["https://evil.example/", "//evil.example/", "javascript:alert(1)", ""])
def test_the_theme_form_leads_to_no_other_site(sign_in: SignIn, viewer: Person, address: str) -> None:
    answer = sign_in(viewer).post("/t/acme/theme/", {"theme": "dark", "next": address})
    assert answer["Location"] == "/t/acme/"


def test_an_unknown_theme_in_the_cookie_changes_nothing(sign_in: SignIn, viewer: Person) -> None:
    client = sign_in(viewer)
    client.cookies["theme"] = '"><script>'
    assert "data-theme" not in client.get("/t/acme/").text


def test_the_page_for_a_broken_server_needs_neither_request_nor_database() -> None:
    page = render_to_string("500.html")
    assert "Something broke here" in page
    assert re.search(r'href="/static/css/tokens[.0-9a-f]*\.css"', page)


def test_a_list_asks_the_database_no_more_for_more_rows(
    sign_in: SignIn,
    viewer: Person,
    submit: Callable[..., Handoff],
    django_assert_max_num_queries: Callable[..., object],
) -> None:
    for _ in range(12):
        submit(judged=False)
    client = sign_in(viewer)
    with django_assert_max_num_queries(10):  # type: ignore[attr-defined]
        client.get("/t/acme/handoffs/")
