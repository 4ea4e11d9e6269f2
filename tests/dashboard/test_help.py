"""Tests of the help: codes, guides, the API's reference, and the search in them."""

import ast
import html
import re
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from django.test import Client
from django.urls import reverse

from handoffaudit.accounts.models import Person, Role, Tenant
from handoffaudit.cli.main import command
from handoffaudit.dashboard import help_guides, help_pages
from handoffaudit.dashboard.access import TenantMembership
from handoffaudit.dashboard.review.page import KEYS
from handoffaudit.problem_types import PROBLEM_TYPES, type_of
from handoffaudit.validation.layers import CATALOGUE, FAMILIES
from handoffaudit.validation.layers.chain import CIRCULAR_WITH_REASON
from tests.pages import attributes, links, raw_text, select, text_of, texts
from tests.scale import cases

SignIn = Callable[[Person], Client]
DOCS = Path(__file__).parents[2] / "docs"
HELP = "/t/acme/help/"
GUIDES = [guide.name for guide in help_guides.GUIDES]
LOOKED_UP = [page.name for page in help_guides.LOOKED_UP]


def somebody(role: Role) -> TenantMembership:
    return TenantMembership(Person(), Tenant(slug="acme"), role)


@pytest.fixture
def client_of_viewer(sign_in: SignIn, viewer: Person) -> Client:
    return sign_in(viewer)


def test_each_guide_that_a_template_names_exists() -> None:
    link = re.compile(r'help_guide" who\.tenant\.slug "([^"]+)"')
    templates = (DOCS.parent / "templates").rglob("*.html")
    named = {name for one in templates for name in link.findall(one.read_text(encoding="utf-8"))}
    assert named
    assert named <= {*GUIDES, *LOOKED_UP}


# The pages without an account and the list of codes have every code by day.
@pytest.mark.parametrize("code", cases([*CATALOGUE, *FAMILIES], [*[*CATALOGUE][::5], *FAMILIES]))
def test_every_code_has_a_page_with_its_example(code: str, client_of_viewer: Client) -> None:
    page = client_of_viewer.get(f"/t/acme/diagnostics/codes/{code}/")
    assert page.status_code == 200
    assert page.context["example"].code == code
    before, after = page.context["sides"]
    assert before.document
    assert after.document
    assert "Why it matters" in page.text


def test_what_differs_is_marked_on_both_sides(client_of_viewer: Client) -> None:
    page = client_of_viewer.get("/t/acme/diagnostics/codes/structure.bad_enum/")
    before, after = page.context["sides"]
    assert [line.text for line in before.document if line.marked] == ['"problem_type": "implement"']
    assert [line.text for line in after.document if line.marked] == ['"problem_type": "implementation"']


def test_the_list_of_codes_leads_to_each(client_of_viewer: Client) -> None:
    page = client_of_viewer.get(f"{HELP}codes/")
    for code in (*CATALOGUE, *FAMILIES):
        assert f'href="/t/acme/diagnostics/codes/{code}/"' in page.text


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("circular reason", f"{CIRCULAR_WITH_REASON.title} chain.circular_with_reason"),
        ("batch", "POST /api/v1/handoffs/batch"),
        ("HANDOFFAUDIT_PUBLIC_URL", None),
        ("webhook signature", "Check the signature (Webhooks and e-mail)"),
        ("forgot password", "Troubleshooting"),
        ("restore", None),
    ],
)
def test_a_search_finds_codes_calls_guides_and_what_is_looked_up(
    query: str, first: str | None, client_of_viewer: Client
) -> None:
    page = client_of_viewer.get(HELP, {"q": query})
    assert first in (None, page.context["found"][0].title)
    assert client_of_viewer.get(page.context["found"][0].href).status_code == 200


def test_help_has_the_keys_of_review_and_every_page_says_so(sign_in: SignIn, reviewer: Person) -> None:
    page = sign_in(reviewer).get(HELP).text
    assert 'id="keys-of-review"' in page
    for key in KEYS:
        assert html.escape(key.does) in page
    assert f"{HELP}#keys-of-review" in links(page, "dialog#page-keys a")


def test_a_search_without_a_find_says_what_to_do(client_of_viewer: Client) -> None:
    page = client_of_viewer.get(HELP, {"q": "zebra <b>"})
    assert page.context["found"] == []
    assert "Try fewer words" in page.text
    assert text_of(page, "h2#found") == "Nothing found for “zebra <b>”"


@pytest.mark.parametrize("name", GUIDES)
def test_a_guide_is_its_file_rendered(name: str, client_of_viewer: Client) -> None:
    page = client_of_viewer.get(f"{HELP}guide/{name}/")
    assert page.status_code == 200
    for section in help_guides.sections(name):
        assert f'<h2 id="{section.anchor}">' in page.text
        assert f'href="#{section.anchor}"' in page.text


@pytest.mark.parametrize("name", GUIDES)
def test_a_guide_has_links(name: str) -> None:
    assert 'href="/t/acme/' in str(help_guides.render_guide(name, somebody(Role.VIEWER), "http://testserver"))


def test_what_operators_look_up_has_pages(client_of_viewer: Client) -> None:
    home = client_of_viewer.get(HELP).text
    for name in LOOKED_UP:
        assert f'href="{HELP}guide/{name}/"' in home
        page = client_of_viewer.get(f"{HELP}guide/{name}/").text
        for section in help_guides.sections(name):
            assert f'<h2 id="{section.anchor}">' in page
        assert html.escape(help_guides.read_introduction(name).partition(" ")[0], quote=False) in page


def test_links_of_pages_lead_where_a_viewer_may_look(client_of_viewer: Client) -> None:
    pages = [client_of_viewer.get(f"{HELP}guide/{name}/") for name in (*GUIDES, *LOOKED_UP)]
    hrefs = {one.partition("#")[0] for page in pages for one in links(page, 'article [href^="/"]')}
    assert len(hrefs) > len(pages)
    assert {href: status for href in hrefs if (status := client_of_viewer.get(href).status_code) != 200} == {}


@pytest.mark.parametrize(("name", "page"), [("webhooks", "retention"), ("operator", "settings")])
def test_a_page_is_linked_for_who_may_open_it(name: str, page: str) -> None:
    link = f'<a href="{reverse(f"dashboard:{page}", args=["acme"])}">'
    full, cut = (
        help_guides.render_guide(name, somebody(role), "http://testserver") for role in (Role.ADMIN, Role.REVIEWER)
    )
    assert link in full
    assert link not in cut
    assert raw_text(str(full), "body") == raw_text(str(cut), "body")


@pytest.mark.parametrize("name", GUIDES)
def test_what_a_guide_gives_to_copy_is_for_this_server(name: str, client_of_viewer: Client) -> None:
    page = client_of_viewer.get(f"{HELP}guide/{name}/").text
    assert "127.0.0.1" not in page
    assert '"tenant_id": "default"' not in html.unescape(page)
    boxes = attributes(page, 'pre.snippet[id^="example-"]', "id")
    assert attributes(page, '[data-copy^="example-"]', "data-copy") == boxes
    assert len(boxes) == len(select(page, "pre"))


def test_what_the_guide_of_developers_gives_to_copy_names_the_public_address(
    client_of_viewer: Client, settings
) -> None:
    settings.PUBLIC_URL = "https://audit.example.com"
    page = client_of_viewer.get(f"{HELP}guide/developer/").text
    assert "export HANDOFFAUDIT_URL=https://audit.example.com" in page


def test_a_page_named_in_bold_is_a_link_to_it(client_of_viewer: Client) -> None:
    page = client_of_viewer.get(f"{HELP}guide/reviewer/")
    assert '<a href="/t/acme/review/">Review</a>' in page.text


@pytest.mark.parametrize("name", GUIDES)
def test_commands_named_in_a_guide_exist(name: str) -> None:
    for line in re.findall(r"handoffaudit ((?:[a-z-]+ ?)+(?:--[a-z]+)?)", _code_of(name)):
        words = line.split()
        one: click.Command = command
        while isinstance(one, click.Group) and words and not words[0].startswith("--"):
            found = one.get_command(click.Context(one), words.pop(0))
            assert found is not None, line
            one = found
        options = {option for parameter in one.params for option in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= options


@pytest.mark.parametrize("name", GUIDES)
def test_addresses_named_in_a_guide_exist(name: str) -> None:
    paths = {call.path for call in help_pages.operations()}
    named = re.findall(r"/api/v1/[a-z-]+", (DOCS / f"guide-{name}.md").read_text())
    assert {path for path in named if path not in paths} == set()


def test_the_reference_has_every_call_and_what_it_takes(client_of_viewer: Client) -> None:
    index = client_of_viewer.get(f"{HELP}api/")
    for call in help_pages.operations():
        address = reverse("dashboard:help_call", args=["acme", call.name])
        assert f'href="{address}"' in index.text
        page = client_of_viewer.get(address)
        assert page.status_code == 200
        assert call.path in page.text
        assert {field.name for field in call.parameters} <= set(texts(page, "code"))
        for answer in call.answers:
            assert f'id="answer-{answer.status}"' in page.text
    names = [call.name for call in help_pages.operations()]
    assert len(names) == len(set(names))


def test_what_is_not_there_is_not_found(client_of_viewer: Client) -> None:
    assert client_of_viewer.get(f"{HELP}guide/nobody/").status_code == 404
    assert client_of_viewer.get(f"{HELP}api/no_call/").status_code == 404


def _code_of(name: str) -> str:
    text = (DOCS / f"guide-{name}.md").read_text()
    blocks = re.findall(r"^(?: {4}| {6})(?! )(.*)$", text, re.MULTILINE)
    return "\n".join([*blocks, *re.findall(r"`([^`]+)`", text)])


def test_a_call_of_the_reference_names_the_readers_tenant(client_of_viewer: Client) -> None:
    page = client_of_viewer.get(f"{HELP}api/submit_handoff/")
    assert '"tenant_id": "acme"' in page.context["curl"]
    assert "<code>handoff_id</code>" in page.text


def test_the_type_of_a_problem_is_read_without_an_account(client: Client, client_of_viewer: Client) -> None:
    inside = client_of_viewer.get(f"{HELP}problems/").text
    for one in PROBLEM_TYPES.values():
        page = client.get(type_of(one.title))
        assert page.status_code == 200
        assert html.escape(one.remedy) in page.text
        assert f'href="{type_of(one.title)}"' in inside
        assert f'id="{one.name}"' in inside
    assert client.get("/help/problems/no-such/").status_code == 404
    assert type_of("Method Not Allowed") == "about:blank"


def test_each_problem_of_the_api_has_a_page() -> None:
    titles = set()
    for path in (DOCS.parent / "handoffaudit" / "api").glob("*.py"):
        for call in ast.walk(ast.parse(path.read_text())):
            match call:
                case ast.Call(func=ast.Name("Problem" | "problem_response"), args=[_, ast.Constant(str(title)), *_]):
                    titles.add(title)
    assert len(titles) > 20
    assert titles <= PROBLEM_TYPES.keys()


@pytest.mark.parametrize("code", [*CATALOGUE, *FAMILIES, "business_rule.range.no/such rule", "schema.minimum"])
def test_a_code_is_read_without_an_account(code: str, client: Client) -> None:
    page = client.get(reverse("help_code", args=[code]))
    assert page.status_code == 200
    assert page.context["entry"].why in html.unescape(page.text)
    assert "/t/" not in page.text


def test_codes_of_nobody_are_not_found(client: Client, db: None) -> None:
    for code in ("mine.own", "../chain", "x\x00", "%2e"):
        assert client.get(reverse("help_code", args=[code])).status_code == 404


def test_help_with_and_without_an_account_lead_to_each_other(client_of_viewer: Client) -> None:
    for public, inside in (
        ("/help/codes/", f"{HELP}codes/"),
        ("/help/problems/", f"{HELP}problems/"),
        ("/help/codes/chain.circular/", "/t/acme/diagnostics/codes/chain.circular/"),
    ):
        assert f'href="{public}"' in client_of_viewer.get(inside).text
        assert f'href="{inside}"' in client_of_viewer.get(public).text
        assert "/t/acme/" not in Client().get(public).text
    assert all(f'href="/help/codes/{code}/"' in Client().get("/help/codes/").text for code in CATALOGUE)
