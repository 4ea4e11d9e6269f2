"""Tests of the search over a tenant: the results of the command menu, and the search page without JavaScript."""

import uuid
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test import Client

from handoffaudit.accounts.models import Person, Tenant
from handoffaudit.dashboard import search
from handoffaudit.dashboard.search import clean
from handoffaudit.diagnostics import text_index
from handoffaudit.diagnostics.agents import declare_role
from handoffaudit.handoffs import queries, stats
from handoffaudit.handoffs.models import Handoff
from handoffaudit.policy import kinds
from handoffaudit.policy.agents import ANYBODY, route_rows_of
from handoffaudit.validation.layers.chain import CIRCULAR
from tests.pages import attributes, inline_parts, links, only, select, text_of, texts
from tests.scale import cases

Submit = Callable[..., Handoff]
ADDRESS = "/t/acme/search/"
MENU = {"HX-Request": "true", "HX-Target": "command-results"}
HOSTILE = [
    "'", '"', "%", "_", "*", "\\", "\x00", "a\x00b", "' OR 1=1 --", '"; DROP TABLE x', "NEAR(", "a AND", "(", ":*",
    "!", "a" * 10_000, "word " * 2_000, "\u202eabc", "מילה", "🦆🦆🦆🦆", "<script>alert(1)</script>", "{{ 1 }}", "..",
    "../..", "\U0010ffff", "\ufffd", "%s", "%(most)s", "ffff", "0000-0000-0000", "٣٤٥٦", "\n\r\t", "{", "1e400",
]  # fmt: skip


def menu(client: Client, text: str, address: str = ADDRESS) -> Any:
    """Return the answer that the command menu gets for the text."""
    return client.get(address, {"q": text}, headers=MENU)


def found(answer: Any) -> dict[str, list[str]]:
    """Return the titles of the results by kind."""
    return {
        one.attributes["aria-label"] or "": texts(one, ".search-title")
        for one in select(answer, "[role=group][aria-label]")
    }


@pytest.mark.parametrize("length", [4, 9, 15, 24, 36])
def test_a_handoff_is_found_by_the_beginning_of_its_id(as_viewer: Client, submit: Submit, length: int) -> None:
    own, other = "5f2c8a1e-77aa-4bd0-9a41-0c1d2e3f4a5b", "6f2c8a1e-77aa-4bd0-9a41-0c1d2e3f4a5b"
    handoff, _ = submit(handoff_id=own), submit(handoff_id=other)
    assert found(menu(as_viewer, own[:length]))["Handoffs"] == [own]
    assert links(menu(as_viewer, f"  {own[:length]}…"), "a.search-hit") == [f"/t/acme/handoffs/{handoff.pk}/"]


@pytest.mark.parametrize("form", [str, lambda pk: str(pk).upper(), lambda pk: pk.hex, lambda pk: pk.hex[:20]])
def test_a_handoff_is_found_by_the_servers_id_in_any_form(
    as_viewer: Client, submit: Submit, form: Callable[[uuid.UUID], str]
) -> None:
    handoff = submit()
    assert links(menu(as_viewer, form(handoff.pk)), "a.search-hit")[0] == f"/t/acme/handoffs/{handoff.pk}/"


def test_a_result_says_state_route_and_time(as_viewer: Client, held: Handoff) -> None:
    line = text_of(menu(as_viewer, str(held.pk)), ".search-detail")
    assert "held" in line
    assert "planner" in line
    assert "writer" in line
    assert held.received_at.strftime("%H:%M:%S") in line


def test_only_the_beginning_of_an_id_matches_and_their_number_is_bounded(as_viewer: Client, submit: Submit) -> None:
    for number in range(search.MOST + 3):
        submit(handoff_id=f"run_{number}")
    submit(handoff_id="another-run_1"), submit(handoff_id="runX1")
    answer = menu(as_viewer, "run_")
    titles = found(answer)["Handoffs"]
    assert len(titles) == search.MOST
    assert text_of(answer, ".search-more") == "There are more than 6. To find others, type a longer text."
    assert all(title.startswith("run_") for title in titles)
    assert "Handoffs" not in found(menu(as_viewer, "un_1"))


@pytest.mark.parametrize("prefix", ["a", "a\ud7ff", "é", "a\U0010ffff", "\U0010ffff"])
def test_the_end_of_a_prefix_is_after_all_texts_with_it(tenant: Tenant, submit: Submit, prefix: str) -> None:
    for name in (f"{prefix}", f"{prefix}z", f"{prefix}\U0010ffff", "b", f"A{prefix}"):
        submit(handoff_id=name)
    expected = sorted(one for one in (prefix, f"{prefix}z", f"{prefix}\U0010ffff"))
    assert sorted(stats.list_by_prefix(Handoff, "handoff_id", tenant.pk, prefix, 9)) == expected


def test_traces_agents_types_and_codes_are_found(as_viewer: Client, submit: Submit) -> None:
    submit(source_agent_id="Curator", call_chain=["writer", "Curator"], handoff_type="deal_data", data={})
    Handoff.objects.update(trace_id="trace-2026-11")
    assert found(menu(as_viewer, "trace-20"))["Traces"] == ["trace-2026-11"]
    assert links(menu(as_viewer, "trace-20"), "a.search-hit") == ["/t/acme/traces/trace-2026-11/"]
    Handoff.objects.update(trace_id="D53A8F7E-049D-4F0D-910F-824BA3BF6E11")
    assert found(menu(as_viewer, "d53a8f7e"))["Traces"] == ["D53A8F7E-049D-4F0D-910F-824BA3BF6E11"]
    assert found(menu(as_viewer, "curat"))["Agents"] == ["Curator"]
    assert links(menu(as_viewer, "curat"), "a.search-hit") == ["/t/acme/agents/Curator/"]
    assert found(menu(as_viewer, "deal"))["Handoff types"] == ["deal_data"]
    by_code, by_title = menu(as_viewer, "chain.circular"), menu(as_viewer, CIRCULAR.title)
    for answer in (by_code, by_title):
        assert found(answer)["Rule codes"][0] == CIRCULAR.title
        assert "/t/acme/diagnostics/codes/chain.circular/" in links(answer, "a.search-hit")


def test_every_agent_that_the_page_of_agents_lists_is_found(
    as_viewer: Client, tenant: Tenant, submit: Submit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stats, "MENU_LENGTH", 1)
    submit(source_agent_id="alpha", call_chain=["alpha"], target_agent_id="reader-2")
    submit(source_agent_id="beta", call_chain=["beta"], target_agent_id="aide")
    rows = route_rows_of([("planner", "auditor"), ("planner", ANYBODY)])
    kinds.agents.save(tenant=tenant, base_version=0, rows=rows, actor="ann")
    declare_role(tenant, "fetcher", "observer", "ann")
    sides = {"reader": "target", "beta": "source", "audit": "declared", "fetch": "declared"}
    for text, side in sides.items():
        answer = menu(as_viewer, text)
        assert len(found(answer)["Agents"]) == 1
        assert side in text_of(answer, "[aria-label=Agents] .search-detail")
    assert "Agents" not in found(menu(as_viewer, ANYBODY))


def test_every_link_of_the_menu_opens(as_admin: Client) -> None:
    every = {
        link for text in ("", *"abcdefghijklmnopqrstuvwxyz") for link in links(menu(as_admin, text), "a.search-hit")
    }
    assert len(every) > 30
    statuses = {link: as_admin.get(link).status_code for link in every if "/codes/" not in link}
    assert {link: status for link, status in statuses.items() if status not in (200, 302)} == {}


def test_the_words_of_blocked_handoffs_are_found(as_viewer: Client, submit: Submit) -> None:
    blocked = submit(call_chain=["writer", "planner"], data={"text": "The heron nests."})
    submit(data={"text": "The heron flies."})
    text_index.run()
    answer = menu(as_viewer, "heron nes")
    assert found(answer) == {"Text in blocked handoffs": [blocked.handoff_id or str(blocked.pk)]}
    assert "rejected" in text_of(answer, ".search-detail")


def test_a_search_says_if_more_blocked_handoffs_have_the_words(
    as_viewer: Client, submit: Submit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "MOST_TEXTS", 2)
    for number in range(3):
        submit(call_chain=["writer", "planner"], data={"text": "The heron nests."})
        text_index.run()
        answer = menu(as_viewer, "heron")
        assert (len(select(answer, "a.search-hit")), len(select(answer, ".search-more"))) == (
            min(number + 1, 2),
            number // 2,
        )
    assert text_of(answer, ".search-more") == "These are the newest 2. To find older ones, add words."


def test_without_a_text_the_menu_lists_pages_and_commands(as_viewer: Client) -> None:
    assert list(found(menu(as_viewer, ""))) == ["Pages", "Commands"]


def test_pages_that_the_menu_does_not_list_are_found(as_admin: Client) -> None:
    for page in search.PAGES:
        assert found(menu(as_admin, page.label))["Pages"].count(page.label) == 1
    assert "/t/acme/diagnostics/files/" in links(menu(as_admin, "handoff files"), "a.search-hit")


def test_what_a_role_may_not_do_is_not_offered(as_viewer: Client, as_admin: Client) -> None:
    for text, kind, title in (
        ("key", "Commands", "Create API key"),
        ("import", "Commands", "Import log"),
        ("dry", "Commands", "Dry run of a policy"),
        ("audit", "Pages", "Audit log"),
        ("retention", "Pages", "Retention"),
    ):
        assert title in found(menu(as_admin, text))[kind]
        assert title not in found(menu(as_viewer, text)).get(kind, [])
        assert title not in text_of(as_viewer.get(ADDRESS, {"q": text}), "main")
    assert "Export handoffs as CSV" in found(menu(as_viewer, "export"))["Commands"]


def test_a_command_posts_and_comes_back(as_viewer: Client) -> None:
    answer = menu(as_viewer, "dark")
    button = only(answer, "button.search-hit")
    named = {name: button.attributes[name] for name in ("form", "formaction", "name", "value", "role")}
    expected = {"form": "command-form", "formaction": "/t/acme/theme/", "name": "theme", "value": "dark"}
    assert named == expected | {"role": "option"}
    page = as_viewer.get("/t/acme/handoffs/?state=held")
    assert attributes(page, "#command-form input[name=next]", "value") == ["/t/acme/handoffs/?state=held"]
    changed = as_viewer.post("/t/acme/theme/", {"theme": "dark", "next": "/t/acme/handoffs/?state=held"})
    assert changed["Location"] == "/t/acme/handoffs/?state=held"


# The index and its search, without pages, have every text by day: tests/diagnostics/test_text_index.py.
@pytest.mark.parametrize("text", cases(HOSTILE, HOSTILE[::3]))
def test_no_text_breaks_the_search(as_viewer: Client, held: Handoff, text: str) -> None:
    text_index.run()
    for answer in (menu(as_viewer, text), as_viewer.get(ADDRESS, {"q": text}, follow=True)):
        assert answer.status_code == 200
        assert inline_parts(answer) == []
        assert len(answer.content) < 100_000


def test_another_tenants_things_are_not_found(client: Client, stranger: Person, submit: Submit) -> None:
    handoff = submit(
        handoff_id="secret-1",
        source_agent_id="spy",
        call_chain=["writer", "spy"],
        handoff_type="plot",
        data={"a": "heron"},
    )
    Handoff.objects.update(trace_id="trace-1")
    text_index.run()
    client.force_login(stranger)
    for text in ("secret-1", "secret", str(handoff.pk), str(handoff.pk)[:13], "spy", "plot", "trace-", "heron"):
        assert found(menu(client, text, "/t/globex/search/")) == {}, text
        assert client.get("/t/globex/search/", {"q": text}).status_code == 200
        assert menu(client, text).status_code == 404


@pytest.mark.parametrize("text", ["only-one", "only-", " 'only-o' "])
def test_the_page_goes_straight_to_the_only_handoff_with_the_id(as_viewer: Client, submit: Submit, text: str) -> None:
    handoff = submit(handoff_id="only-one")
    answer = as_viewer.get(ADDRESS, {"q": text})
    assert (answer.status_code, answer["Location"]) == (302, f"/t/acme/handoffs/{handoff.pk}/")


def test_the_page_goes_to_an_exact_id_although_others_begin_with_it(as_viewer: Client, submit: Submit) -> None:
    handoff, _ = submit(handoff_id="run"), submit(handoff_id="run-2")
    assert as_viewer.get(ADDRESS, {"q": "run"})["Location"] == f"/t/acme/handoffs/{handoff.pk}/"
    page = as_viewer.get(ADDRESS, {"q": "ru"})
    assert texts(page, "main .search-kind")[0] == "Handoffs"
    assert set(texts(page, "main .search-title")) >= {"run", "run-2"}
    assert attributes(page, "main input[name=q]", "value") == ["ru"]


def test_the_page_has_lists_without_the_roles_of_the_menu(as_viewer: Client, held: Handoff) -> None:
    page = as_viewer.get(ADDRESS, {"q": "p"})
    assert select(page, "main a.search-hit")
    assert not select(page, "main [role=option], main [role=group]")


def test_a_search_without_matches_says_so(as_viewer: Client) -> None:
    page = as_viewer.get(ADDRESS, {"q": "nothing is named so"})
    assert text_of(page, "main .search-none") == "No matches for “nothing is named so”."
    assert text_of(menu(as_viewer, "\u202exyzzy"), ".search-none") == "No matches for “⟨U+202E⟩xyzzy”."


def test_the_old_address_redirects(as_viewer: Client) -> None:
    answer = as_viewer.get("/t/acme/handoffs/find/", {"q": "a b&c"})
    assert (answer.status_code, answer["Location"]) == (302, "/t/acme/search/?q=a+b%26c")


def test_every_page_has_the_menu_and_a_link_to_the_search(as_viewer: Client) -> None:
    for address in ("/t/acme/", "/t/acme/review/", "/t/acme/help/", "/t/acme/nothing/"):
        page = as_viewer.get(address)
        assert links(page, "a[data-open-search]") == [ADDRESS]
        field = only(page, "#command-menu input[name=q]")
        assert (field.attributes["role"], field.attributes["aria-controls"]) == ("combobox", "command-results")
        assert attributes(page, "#command-results", "role") == ["listbox"]


def test_a_slow_search_shows_what_it_found_in_time(
    as_viewer: Client, held: Handoff, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql = (
        "SELECT pg_sleep(3)"
        if connection.vendor == "postgresql"
        else "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"
    )

    def sleep(*_: Any) -> list[uuid.UUID]:
        with connection.cursor() as cursor:
            cursor.execute(sql)
        return []

    monkeypatch.setattr(search, "SECONDS", 0.1)
    monkeypatch.setattr(text_index, "search", sleep)
    answer = menu(as_viewer, "planner")
    assert "The search took too long" in answer.text
    assert found(answer)["Agents"] == ["planner"]
    assert as_viewer.get(ADDRESS, {"q": "planner"}).status_code == 200
    # The limit ends with the search.
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_sleep(0.2)" if connection.vendor == "postgresql" else "SELECT 1")


def test_the_number_of_queries_is_bounded(
    as_viewer: Client, submit: Submit, django_assert_max_num_queries: Callable[[int], Any]
) -> None:
    for number in range(search.MOST + 1):
        submit(
            handoff_id=f"agent-{number}", source_agent_id=f"agent-{number}", call_chain=["writer", f"agent-{number}"]
        )
        Handoff.objects.filter(handoff_id=f"agent-{number}").update(trace_id=f"agent-{number}")
    text_index.run()
    with django_assert_max_num_queries(26):
        assert len(select(menu(as_viewer, "agent-"), "[role=option]")) > 3 * search.MOST


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        (" a ", "a"),
        ("01a1bbc9…", "01a1bbc9"),
        ("01a1bbc9...", "01a1bbc9"),
        ("`x`", "x"),
        ("a\x00b", "ab"),
        ("x" * 999, "x" * 200),
    ],
)
def test_what_no_id_has_is_left_out(text: str, cleaned: str) -> None:
    assert clean(text) == cleaned


def test_a_prefix_uses_an_index(tenant: Tenant, submit: Submit) -> None:
    handoff = submit(handoff_id="run-1")
    assert queries.find_by_prefix(tenant, "run-", 5) == [handoff]
    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            cursor.execute(
                "EXPLAIN QUERY PLAN SELECT trace_id FROM handoffs_handoff WHERE tenant_id = 1 AND trace_id >= 'a'"
                " AND trace_id < 'b' ORDER BY trace_id LIMIT 1"
            )
            assert "handoff_by_trace" in str(cursor.fetchall())
    else:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT indexdef FROM pg_indexes WHERE indexname IN ('handoff_id_once_per_tenant', 'handoff_by_trace')"
            )
            definitions = [definition for (definition,) in cursor.fetchall()]
        assert len(definitions) == 2
        assert all("varchar_pattern_ops" in definition for definition in definitions)
