from collections.abc import Callable

import pytest
from django.template.loader import get_template, render_to_string
from django.test import Client

from handoffaudit.accounts.models import Membership, Person, Role, Tenant
from handoffaudit.dashboard.navigation import GROUPS
from handoffaudit.database_faults import FAULTS, Cause
from handoffaudit.handoffs.models import Handoff
from tests.pages import attributes, emptied, inline_parts, links, select, text_of, texts

SignIn = Callable[[Person], Client]
PAGES = ["/t/acme/", "/t/acme/handoffs/", "/t/acme/review/"]


@pytest.mark.parametrize("address", PAGES)
def test_nothing_is_inline(sign_in: SignIn, admin: Person, held: Handoff, address: str) -> None:
    page = sign_in(admin).get(address)
    assert inline_parts(page) == []
    assert not select(page, "script:not([src])")
    assert "javascript:" not in page.text
    assert "hx-on" not in page.text


def test_the_policy_lets_no_inline_code_run(sign_in: SignIn, viewer: Person) -> None:
    policy = sign_in(viewer).get("/t/acme/")["Content-Security-Policy"]
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy


def test_the_number_that_waits_stands_beside_review(sign_in: SignIn, viewer: Person, held: Handoff) -> None:
    page = sign_in(viewer).get("/t/acme/handoffs/").text
    assert texts(page, ".badge") == ["1 waiting"]


@pytest.mark.parametrize(("address", "name"), [*zip(PAGES, ["First steps", "Handoffs", "Review"], strict=True)])
def test_the_page_one_is_on_is_marked(sign_in: SignIn, viewer: Person, address: str, name: str) -> None:
    page = sign_in(viewer).get(address).text
    assert links(page, 'nav[aria-label="Pages"] a[aria-current=page]') == [address]
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


def test_a_density_is_kept_and_changes_no_theme(sign_in: SignIn, viewer: Person) -> None:
    client = sign_in(viewer)
    client.post("/t/acme/theme/", {"theme": "dark"})
    answer = client.post("/t/acme/theme/", {"density": "compact", "next": "/t/acme/review/"})
    assert (answer.status_code, answer["Location"]) == (302, "/t/acme/review/")
    page = client.get("/t/acme/").text
    assert 'data-theme="dark" data-density="compact"' in page
    client.post("/t/acme/theme/", {"density": "comfortable"})
    page = client.get("/t/acme/").text
    assert "data-density" not in page
    assert 'data-theme="dark"' in page


def test_each_page_of_the_menu_has_a_key_of_its_own(sign_in: SignIn, admin: Person) -> None:
    page = sign_in(admin).get("/t/acme/").text
    keys = attributes(page, "[data-go]", "data-go")
    assert len(keys) == len(set(keys)) >= 10
    assert {len(key) for key in keys} == {1}
    told = [text for text in texts(page, "dt:has(> kbd + kbd)") if text.startswith("g ")]
    assert told == [f"g {key}" for key in keys]


def test_no_section_belongs_to_two_pages() -> None:
    sections = [section for group in GROUPS for page in group.pages for section in page.sections]
    assert len(sections) == len(set(sections))


@pytest.mark.parametrize(("address", "status"), [("/t/acme/nothing/", 404), ("/t/acme/settings/keys/", 403)])
def test_a_member_keeps_the_menu_where_a_page_cannot_be(
    sign_in: SignIn, viewer: Person, address: str, status: int
) -> None:
    answer = sign_in(viewer).get(address)
    assert answer.status_code == status
    assert 'href="/t/acme/handoffs/"' in answer.text


@pytest.mark.parametrize(
    "address", ["/t/globex/nothing/", "/t/globex/settings/keys/", "/t/%00/", "/t//x/", "/nothing/"]
)
def test_who_is_no_member_is_told_nothing_of_a_tenant(
    sign_in: SignIn, viewer: Person, other_tenant: Tenant, address: str
) -> None:
    answer = sign_in(viewer).get(address)
    assert answer.status_code == 404
    assert "Globex" not in answer.text
    assert 'class="pages"' not in answer.text


@pytest.mark.parametrize("address", ["https://evil.example/", "//evil.example/", "javascript:alert(1)", ""])
def test_the_theme_form_leads_to_no_other_site(sign_in: SignIn, viewer: Person, address: str) -> None:
    answer = sign_in(viewer).post("/t/acme/theme/", {"theme": "dark", "next": address})
    assert answer["Location"] == "/t/acme/"


def test_an_unknown_theme_in_the_cookie_changes_nothing(sign_in: SignIn, viewer: Person) -> None:
    client = sign_in(viewer)
    client.cookies["theme"] = '"><script>'
    assert "data-theme" not in client.get("/t/acme/").text


@pytest.mark.parametrize(
    ("name", "heading"), [("500.html", "Something broke here"), ("503.html", "The database is not available")]
)
def test_the_pages_for_a_broken_server_need_neither_request_nor_database(name: str, heading: str) -> None:
    page = render_to_string(name, {"fault": FAULTS[Cause.AWAY]})
    assert text_of(page, "h1") == heading
    assert page.lstrip().startswith("<!DOCTYPE html>")
    assert links(page, 'link[href^="/static/css/app"][href$=".css"]')


def test_the_pages_for_a_broken_server_share_their_frame() -> None:
    pages = [render_to_string(name, {"fault": FAULTS[Cause.AWAY]}) for name in ("500.html", "503.html")]
    sources = [get_template(name).template.source for name in ("500.html", "503.html")]  # type: ignore[attr-defined]
    assert all(source.startswith('{% extends "fault_page.html" %}') and "<html" not in source for source in sources)
    frames = [emptied(page, "title, h1, p.text") for page in pages]
    assert frames[0] == frames[1]


def test_a_list_asks_the_database_no_more_for_more_rows(
    sign_in: SignIn,
    viewer: Person,
    submit: Callable[..., Handoff],
    django_assert_max_num_queries: Callable[..., object],
) -> None:
    for _ in range(12):
        submit(judged=False)
    client = sign_in(viewer)
    with django_assert_max_num_queries(14):  # type: ignore[attr-defined]
        client.get("/t/acme/handoffs/")


@pytest.mark.parametrize("address", PAGES)
def test_pages_go_out_compressed(sign_in: SignIn, viewer: Person, held: Handoff, address: str) -> None:
    client = sign_in(viewer)
    plain, small = client.get(address), client.get(address, headers={"Accept-Encoding": "gzip"})
    assert small["Content-Encoding"] == "gzip"
    assert len(small.content) < len(plain.content) / 2
    assert "Accept-Encoding" in small["Vary"]
