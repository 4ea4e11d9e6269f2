"""Tests of the pages of agents: map, matrix, lists, the page of one agent, declared routes and their history."""

from datetime import timedelta
from typing import Any
from urllib.parse import unquote

import pytest
from django.test import Client
from django.utils import timezone
from django.utils.html import escape

from handoffaudit.accounts.models import Tenant
from handoffaudit.dashboard.agents.declared import format_duration
from handoffaudit.dashboard.navigation import build_agent_url
from handoffaudit.diagnostics import attribution
from handoffaudit.handoffs import counts, recount
from handoffaudit.handoffs.models import Handoff
from handoffaudit.policy import kinds
from handoffaudit.policy.agents import ANYBODY, parse_routes_text, routes_to_text
from tests.dashboard.conftest import Submit
from tests.diagnostics.test_attribution import RIGHT, WRONG, step
from tests.handoffs.support import judged
from tests.pages import Element, links, only, raw_text, select, text_of, texts

PAGE = "/t/acme/agents/"
MAP, MATRIX = f"{PAGE}?show=map", f"{PAGE}?show=matrix"
DECLARED = "/t/acme/declared/"
HTMX = {"HX-Request": "true", "HX-Target": "declared"}
ODD = ["a/b", "/a/", "../x", ".", "a b", "Ärger → ✓", "x" * 200, "50%?#&", "a\nb", "history", "<b>&amp;", "a//b"]

pytestmark = pytest.mark.django_db


@pytest.fixture
def crew(tenant: Tenant) -> Tenant:
    for source, target in [("analyst", "writer"), ("writer", "editor")]:
        judged(tenant, step(source, target, WRONG), trace_id="t", context=RIGHT)
    attribution.run()
    return tenant


def count(
    tenant: Tenant, source: str, target: str, number: int = 1, state: str = "accepted", ago: timedelta = timedelta()
) -> None:
    hour = (timezone.now() - ago).replace(minute=0, second=0, microsecond=0)
    counts.apply(counts.Deltas({(counts.CountKey(tenant.pk, hour, "x", source, target), state, ""): number}))


def declare(tenant: Tenant, text: str) -> None:
    version = kinds.agents.current(tenant).version
    kinds.agents.save(tenant=tenant, base_version=version, rows=parse_routes_text(text), actor="ada")


def shown(client: Client, address: str = PAGE, status: int = 200) -> str:
    response = client.get(address)
    assert response.status_code == status, response.content[:300]
    return response.content.decode()


def section(page: str, anchor: str) -> Element:
    return only(page, f'section.card[aria-labelledby="{anchor}"]')


def test_without_handoffs_the_page_says_what_to_do(as_viewer: Client) -> None:
    assert "No handoffs in this period" in shown(as_viewer)


def test_map_and_matrix_lead_to_the_handoffs_between_two(crew: Tenant, as_viewer: Client) -> None:
    page, matrix = (shown(as_viewer, f"{PAGE}?period=24h&show={part}") for part in ("map", "matrix"))
    for part in (section(page, "map"), section(matrix, "matrix")):
        addresses = links(part, 'a[href^="/t/acme/handoffs/?source=analyst&target=writer"]')
        assert addresses
        listed = shown(as_viewer, addresses[0])
        assert listed.count('class="row-link"') == 1
    assert "As a table" in text_of(section(page, "map"))


@pytest.mark.parametrize(
    ("show", "tab", "part"), [("", "List", "agents"), ("map", "Map", "map"), ("matrix", "Matrix", "matrix")]
)
def test_each_tab_has_one_part_and_keeps_it_in_another_period(
    crew: Tenant, as_viewer: Client, show: str, tab: str, part: str
) -> None:
    page = shown(as_viewer, f"{PAGE}?period=24h&show={show}")
    assert texts(page, ".tabs [aria-current=page]") == [tab]
    assert [name for name in ("agents", "map", "matrix") if select(page, f'section[aria-labelledby="{name}"]')] == [
        part
    ]
    assert links(page, ".tabs a")[:3] == [PAGE, MAP, MATRIX]
    following = f"&show={show}" if show else ""
    assert links(page, ".period a")[1].startswith(f"?period=7d{following}")
    assert len(select(page, ".period-form [name=show]")) == bool(show)


def test_a_name_with_blanks_at_its_ends_leads_to_its_handoffs(as_viewer: Client, submit: Submit) -> None:
    handoff = submit(source_agent_id=" planner\n", call_chain=[" planner\n"])
    page = as_viewer.get("/t/acme/agents/?period=24h").text
    (address,) = [link for link in links(page) if "/handoffs/?source=" in link]
    answer = as_viewer.get(address)
    assert answer.context["handoffs"] == [handoff]
    # The filter in force keeps the blanks, as the address of a saved view does.
    assert "source=%22+planner%0A%22" in answer.context["query"]


def test_the_most_blocked_route_leads_to_its_handoffs_from_the_first_on(tenant: Tenant, as_viewer: Client) -> None:
    count(tenant, "analyst", "writer", 9)
    count(tenant, "analyst", "editor", 9, "approved")
    assert not select(shown(as_viewer), ".agents-worst")
    count(tenant, "writer", "editor", 2, "rejected")
    count(tenant, "writer", "printer", 3, "held")
    count(tenant, "writer", "printer", 5)
    page = shown(as_viewer)
    assert "writer" in text_of(page, ".agents-worst")
    wanted = "source=writer&target=printer&state=rejected&state=held&state=declined&sort=oldest"
    assert links(page, ".agents-worst a") == [f"/t/acme/handoffs/?{wanted}"]


def test_a_period_that_cannot_be_read_is_named(as_viewer: Client) -> None:
    assert "use a number of hours or days" in shown(as_viewer, f"{PAGE}?period=soon", 400)


def test_many_agents_are_folded_and_the_matrix_is_bounded(tenant: Tenant, as_viewer: Client) -> None:
    for number in range(45):
        count(tenant, f"agent-{number:02}", f"agent-{(number * 7 + 1) % 45:02}", number + 1)
    assert "31 others" in text_of(section(shown(as_viewer, MAP), "map"))
    matrix = section(shown(as_viewer, MATRIX), "matrix")
    assert len(select(matrix, "[scope=row]")) == 20
    assert len(select(matrix, ".agents-matrix-head")) == 20
    numbers = [int(number) for number in texts(matrix, "a, b") if number.isdecimal()]
    assert sum(numbers) == sum(range(1, 46))


def test_an_agent_that_is_called_others_is_not_the_others(tenant: Tenant, as_viewer: Client) -> None:
    for number in range(40):
        count(tenant, f"agent-{number:02}", "others", 100 - number)
    matrix = section(shown(as_viewer, MATRIX), "matrix")
    assert select(matrix, 'a[href^="/t/acme/agents/others/"][title=others]')


def test_the_heads_of_columns_sort_the_agents_and_keep_the_period(tenant: Tenant, as_viewer: Client) -> None:
    count(tenant, "b", "a", 3)
    count(tenant, "a", "C", 2)
    count(tenant, "a", "b", 2, "rejected")

    def names(query: str) -> list[str]:
        return texts(section(shown(as_viewer, f"{PAGE}?{query}"), "agents"), "tbody .row-link")

    orders = {"": "abC", "name": "abC", "-name": "Cba", "sent": "Cba", "-sent": "abC", "received": "bCa"}
    # Nothing that C sent was judged, so it comes last in both directions.
    orders |= {"accepted": "abC", "-accepted": "baC"}
    for sort, expected in orders.items():
        assert "".join(names(f"period=24h&sort={sort}")) == expected, sort
    page = shown(as_viewer, f"{PAGE}?period=24h&sort=-sent")
    assert texts(page, "[aria-sort=descending]") == ["Sent"]
    heads = links(section(page, "agents"), "thead a")
    assert heads[:2] == [f"{PAGE}?period=24h&sort=name#sort-name", f"{PAGE}?period=24h&sort=sent#sort-sent"]
    assert len(heads) == 7
    assert links(page, ".period a")[1] == "?period=7d&sort=-sent"
    assert only(page, ".period-form [name=sort]").attributes["value"] == "-sent"
    assert only(page, "#selected [name=query]").attributes["value"] == "period=24h&sort=-sent"
    # The period that was chosen last is kept.
    assert names("sort=-name") == ["C", "b", "a"]
    heads = links(section(shown(as_viewer, f"{PAGE}?sort=name"), "agents"), "thead a")
    assert heads[0].startswith(f"{PAGE}?period=24h&")
    assert "use one of most" in shown(as_viewer, f"{PAGE}?sort=role", 400)


def test_each_number_of_an_agent_has_the_name_of_its_column(tenant: Tenant, as_viewer: Client) -> None:
    """Narrow screens show rows as cards, whose numbers have these names in place of the heads."""
    count(tenant, "a", "b", 2)
    page = section(shown(as_viewer), "agents")
    row = select(page, "tbody tr")[0]
    assert [one.attributes["data-label"] for one in select(row, "td.end")] == texts(page, "th.end")
    # A table that is laid out as cards has no rows and cells without these.
    roles = [one.attributes.get("role") for one in select(row, "tr > th, tr > td")]
    assert roles == ["rowheader"] + 7 * ["cell"]


def test_declared_against_seen(crew: Tenant, as_admin: Client) -> None:
    assert "Declare all seen" in text_of(section(shown(as_admin, MAP), "never-declared"))
    declare(crew, "analyst -> writer, critic")
    page = shown(as_admin, MAP)
    assert "editor" in text_of(section(page, "never-declared"))
    assert "critic" in text_of(section(page, "never-seen"))
    assert "a typo of" not in text_of(section(page, "unknown"))
    assert select(section(shown(as_admin, MATRIX), "matrix"), ".agents-cell--undeclared")


def test_an_unknown_agent_comes_with_the_name_it_may_be_meant_for(tenant: Tenant, as_viewer: Client) -> None:
    count(tenant, "planner", "writter")
    declare(tenant, "planner -> writer")
    unknown = section(shown(as_viewer, MAP), "unknown")
    assert "writter" in text_of(unknown)
    assert "a typo of writer" in text_of(unknown)
    assert texts(unknown, 'a[href^="/t/acme/agents/writer/"]') == ["writer"]


@pytest.mark.parametrize("name", ODD)
def test_an_agent_has_a_page_whatever_its_name_is(name: str, tenant: Tenant, as_viewer: Client) -> None:
    handoff = judged(tenant, step("planner", "writer", "Look."))
    Handoff.objects.filter(pk=handoff.pk).update(source_agent_id=name)
    recount.recount()
    address = build_agent_url("acme", name)
    path = unquote(address.partition("?")[0])
    assert not {"..", ".", ""} & set(path.removeprefix("/t/acme/agents/").rstrip("/").split("/")[:-1])
    listed = shown(as_viewer)
    assert escape(build_agent_url("acme", name, {"period": "7d"})) in listed
    page = shown(as_viewer, address)
    assert "No such agent" not in page
    assert "writer" in text_of(section(page, "hands-to"))


def test_the_page_of_one_says_what_it_caused_and_from_whom_it_got_the_rest(crew: Tenant, as_viewer: Client) -> None:
    writer = shown(as_viewer, f"{PAGE}writer/")
    assert "analyst" in text_of(section(writer, "origins"))
    assert links(section(writer, "codes"), 'a[href*="grounding."]')
    assert select(section(writer, "over-time"), '[class*="inherited"]')
    assert "editor" in text_of(section(writer, "hands-to"))
    assert "analyst" in text_of(section(writer, "gets-from"))
    assert writer.count('class="row-link"') == 2
    analyst = shown(as_viewer, f"{PAGE}analyst/")
    assert "No inherited findings" in text_of(section(analyst, "origins"))


@pytest.mark.parametrize("address", [f"{PAGE}?agent=%00", f"{PAGE}a%00b/"])
def test_no_agent_has_a_name_that_postgresql_refuses(address: str, tenant: Tenant, as_viewer: Client) -> None:
    assert "No such agent" in shown(as_viewer, address, 404)


def test_an_unknown_agent_is_404_with_names_like_it(crew: Tenant, as_viewer: Client) -> None:
    page = shown(as_viewer, f"{PAGE}writter/", 404)
    assert "No such agent" in page
    assert f'href="{PAGE}writer/"' in page


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(None, ""), (0.42, "0.4 s"), (0, "0 s"), (12.3, "12 s"), (90, "1.5 min"), (7200, "2 h"), (200_000, "2.3 d")],
)
def test_times_are_written_short(seconds: float | None, words: str) -> None:
    assert format_duration(seconds) == words


def save(client: Client, text: str, base: int = 0, **more: Any) -> Any:
    return client.post(f"{DECLARED}save/", {"text": text, "base_version": base, **more})


def test_lines_are_saved_and_shown_with_their_history(tenant: Tenant, as_admin: Client) -> None:
    assert save(as_admin, "planner -> writer, critic\n* -> archive", note="the crew").status_code == 302
    assert routes_to_text(kinds.agents.current(tenant).rows) == "planner -> critic, writer\n* -> archive"
    page = shown(as_admin, DECLARED)
    assert f'href="{PAGE}critic/"' in page
    assert "anybody" in page
    assert save(as_admin, "planner -> writer, editor", 1).status_code == 302
    history = shown(as_admin, "/t/acme/policies/history/?kind=agents")
    assert "targets added: <ins>editor</ins>" in history
    assert "targets deleted: <del>critic</del>" in history
    assert "the crew" in history
    assert as_admin.post(f"{DECLARED}revert/", {"to_version": 1, "base_version": 2}).status_code == 302
    assert routes_to_text(kinds.agents.current(tenant).rows) == "planner -> critic, writer\n* -> archive"


def test_a_wrong_line_is_named_and_what_was_typed_stays(tenant: Tenant, as_admin: Client) -> None:
    response = save(as_admin, "planner -> writer\nno arrow here")
    page = response.content.decode()
    assert response.status_code == 400
    assert "line 2" in page
    assert "no arrow here" in page
    assert kinds.agents.current(tenant).version == 0


def test_a_save_on_an_old_view_overwrites_nothing(tenant: Tenant, as_admin: Client) -> None:
    declare(tenant, "planner -> critic")
    response = save(as_admin, "planner -> writer")
    assert response.status_code == 409
    assert "ada saved version 1 while you were editing" in response.content.decode()
    assert routes_to_text(kinds.agents.current(tenant).rows) == "planner -> critic"
    assert save(as_admin, "planner -> writer", 1).status_code == 302


def test_all_that_was_seen_fills_the_draft_and_saves_nothing(tenant: Tenant, as_admin: Client) -> None:
    declare(tenant, "boss -> planner\nwriter -> *")
    for source, target in [("planner", "a, b"), ("writer", "editor"), (ANYBODY, "x"), ("planner", "zed")]:
        count(tenant, source, target)
    page = shown(as_admin, f"{DECLARED}?seen=1")
    assert raw_text(page, "textarea") == 'boss -> planner\nplanner -> "a, b", zed\nwriter -> *'
    assert "2 routes seen in the last 30 days are added" in text_of(page)
    assert kinds.agents.current(tenant).version == 1


def test_what_was_seen_long_ago_is_not_offered(tenant: Tenant, as_admin: Client) -> None:
    count(tenant, "planner", "writer", ago=timedelta(days=60))
    assert "Every route seen in the last 30 days is declared already." in shown(as_admin, f"{DECLARED}?seen=1")


def test_a_route_of_any_agent_to_any_agent_leaves_nothing_to_offer(tenant: Tenant, as_admin: Client) -> None:
    declare(tenant, "boss -> planner\n* -> *")
    count(tenant, "planner", "writer")
    page = shown(as_admin, f"{DECLARED}?seen=1")
    assert raw_text(page, "textarea") == "* -> *\nboss -> planner"
    assert "Every route seen in the last 30 days is declared already." in page


def test_htmx_gets_the_part_alone(tenant: Tenant, as_admin: Client) -> None:
    part = as_admin.get(f"{DECLARED}?edit=1", headers=HTMX).content.decode()
    assert "<textarea" in part
    assert "<html" not in part


def test_a_viewer_gets_no_editor(tenant: Tenant, as_viewer: Client) -> None:
    assert "<textarea" not in shown(as_viewer, f"{DECLARED}?edit=1")


def test_the_overview_names_the_busiest(crew: Tenant, as_viewer: Client) -> None:
    page = shown(as_viewer, "/t/acme/")
    assert f"{PAGE}writer/?period=24h" in links(page, "section[aria-labelledby=busiest] a")
