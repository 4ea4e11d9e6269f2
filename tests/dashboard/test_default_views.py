"""Tests of the shipped views of lists and of the default view."""

import re
from collections.abc import Callable
from uuid import UUID

import pytest
from django.db import connection
from django.http import QueryDict
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from handoffaudit.accounts.models import DefaultView, Person, SavedView, Tenant
from handoffaudit.dashboard.view_actions import LISTS, check_query
from handoffaudit.dashboard.view_tabs import BUILT_IN
from handoffaudit.diagnostics.group_queries import GroupFilters
from handoffaudit.handoffs.models import Handoff
from tests.dashboard.log_lines import health, moment, take
from tests.pages import links

SignIn = Callable[[Person], Client]
Submit = Callable[..., Handoff]
LIST = "/t/acme/handoffs/"
OPENING = "/t/acme/views/opening/"
ADDRESSES = {
    "handoffs": LIST,
    "review": "/t/acme/review/",
    "groups": "/t/acme/groups/",
    "traces": "/t/acme/traces/",
    "logs": "/t/acme/diagnostics/logs/",
}


def choose(client: Client, view: str, page: str = "handoffs", **more: str):
    return client.post(OPENING, {"page": page, "view": view, **more})


def test_every_built_in_view_is_written_as_its_list_writes_it() -> None:
    assert set(BUILT_IN) == set(LISTS) == set(ADDRESSES)
    for page, views in BUILT_IN.items():
        assert len({view.pk for view in views}) == len({view.name for view in views}) == len(views)
        for view in views:
            assert QueryDict(check_query(LISTS[page], view.query)) == QueryDict(view.query), view


def test_a_view_of_the_last_hours_is_not_called_today_or_this_week() -> None:
    """A day has another beginning for each reader, and a week begins on Monday."""
    for view in (view for views in BUILT_IN.values() for view in views):
        assert not re.search("today|this week", f"{view.name} {view.why}", re.IGNORECASE)


@pytest.mark.parametrize("page", sorted(BUILT_IN))
def test_what_a_list_opens_with_is_asked_for_once(sign_in: SignIn, viewer: Person, held: Handoff, page: str) -> None:
    client = sign_in(viewer)
    with CaptureQueriesContext(connection) as queries:
        client.get(ADDRESSES[page])
    assert sum('FROM "accounts_defaultview"' in query["sql"] for query in queries.captured_queries) == 1


@pytest.mark.parametrize("page", sorted(BUILT_IN))
def test_built_in_views_open_and_offer_neither_to_be_saved_nor_changed(
    sign_in: SignIn, admin: Person, held: Handoff, page: str
) -> None:
    client = sign_in(admin)
    for view in BUILT_IN[page]:
        answer = client.get(f"{ADDRESSES[page]}?{view.query}")
        assert answer.status_code == 200
        views = answer.context["saved" if page == "review" else "views"] if "first" not in answer.context else None
        if views is not None and not isinstance(views, list):
            assert views.current.view == view
            assert "Save view" not in answer.text
            assert "Edit view" not in answer.text


def test_a_list_opens_with_what_a_person_chose_and_the_address_says_so(
    sign_in: SignIn, viewer: Person, held: Handoff
) -> None:
    client = sign_in(viewer)
    assert client.get(LIST).status_code == 200
    answer = choose(client, "waiting", query="type=message")
    assert answer["Location"] == f"{LIST}?type=message"
    opened = client.get(LIST)
    assert opened["Location"] == f"{LIST}?state=held&saved=waiting"
    page = client.get(opened["Location"])
    assert page.context["views"].current.opens
    # All is still a click away, also from filters that are cleared.
    assert f'href="{LIST}?saved=all"' in page.text
    everything = client.get(f"{LIST}?saved=all")
    assert (everything.status_code, everything.context["views"].current) == (200, None)
    assert client.get(f"{LIST}?state=&type=")["Location"] == f"{LIST}?saved=all"
    part = client.get(f"{LIST}?state=", headers={"HX-Request": "true", "HX-Target": "results"})
    assert part["HX-Push-Url"] == f"{LIST}?saved=all"
    # Other addresses are left alone.
    assert client.get(f"{LIST}?state=rejected").status_code == 200
    assert client.get(LIST, headers={"HX-Request": "true", "HX-Target": "results"}).status_code == 200


def test_findings_that_open_with_a_status_have_the_other_ones_a_click_away(sign_in: SignIn, viewer: Person) -> None:
    client = sign_in(viewer)
    client.post("/t/acme/views/make/", {"page": "groups", "name": "Every", "query": "status=all"})
    pk = SavedView.objects.get().pk
    choose(client, str(pk), page="groups")
    bare = ADDRESSES["groups"]
    assert client.get(bare)["Location"] == f"{bare}?status=all&saved={pk}"
    for query in ("status=all", f"status=all&saved={pk}", "status=muted&agent=planner"):
        context = client.get(f"{bare}?{query}").context
        (to_open,) = [href for name, _, href in context["statuses"] if name == "open"]
        there = client.get(to_open)
        assert (there.status_code, there.context["filters"].status) == (200, "open")
    narrowed = client.get(f"{bare}?agent=planner").context["unnarrowed"]
    assert client.get(narrowed).context["filters"] == GroupFilters()


def test_everybodys_view_opens_for_those_without_a_choice_and_none_is_one(
    client: Client, admin: Person, viewer: Person, held: Handoff
) -> None:
    client.force_login(admin)
    client.post("/t/acme/views/make/", {"page": "handoffs", "name": "Held", "query": "state=held", "shared": "on"})
    pk = SavedView.objects.get().pk
    choose(client, str(pk), everybody="on")
    client.force_login(viewer)
    assert client.get(LIST)["Location"] == f"{LIST}?state=held&saved={pk}"
    assert "as for everybody: Held" in client.get(f"{LIST}?saved=all").text
    choose(client, "all")
    assert client.get(LIST).status_code == 200
    choose(client, "")
    assert client.get(LIST)["Location"] == f"{LIST}?state=held&saved={pk}"
    assert choose(client, "all", everybody="on").status_code == 403
    client.force_login(admin)
    choose(client, "all", everybody="on")
    client.force_login(viewer)
    assert client.get(LIST).status_code == 200


def test_a_view_of_the_queue_stays_one_while_it_is_searched(sign_in: SignIn, reviewer: Person, held: Handoff) -> None:
    current = sign_in(reviewer).get("/t/acme/review/?view=passed_on&q=planner").context["saved"].current
    assert (current.view.pk, current.modified) == ("passed-on", True)


@pytest.mark.parametrize("page", sorted(BUILT_IN))
def test_every_list_can_open_with_a_view(sign_in: SignIn, viewer: Person, held: Handoff, page: str) -> None:
    client, view = sign_in(viewer), BUILT_IN[page][0]
    choose(client, view.pk, page=page)
    assert client.get(ADDRESSES[page])["Location"] == f"{ADDRESSES[page]}?{view.query}&saved={view.pk}"


def test_what_is_no_view_of_the_list_is_refused(client: Client, admin: Person, viewer: Person, held: Handoff) -> None:
    client.force_login(admin)
    client.post("/t/acme/views/make/", {"page": "handoffs", "name": "Mine", "query": "state=held"})
    client.force_login(viewer)
    for view in (str(SavedView.objects.get().pk), "nothing"):
        choose(client, view)
        assert "Not changed" in client.get(f"{LIST}?saved=all").text
    assert choose(client, "waiting", page="settings").status_code == 404
    assert not DefaultView.objects.exists()


def test_a_built_in_view_that_is_gone_leaves_the_list_as_it_is(sign_in: SignIn, viewer: Person, held: Handoff) -> None:
    DefaultView.objects.create(tenant=held.tenant, person=viewer, page="handoffs", built_in="of-long-ago")
    assert sign_in(viewer).get(LIST).status_code == 200


@pytest.mark.parametrize("page", ["handoffs", "traces", "logs"])
def test_new_rows_are_shown_in_the_list_that_counted_them(
    sign_in: SignIn, viewer: Person, tenant: Tenant, submit: Submit, page: str
) -> None:
    take(tenant, health(moment(1)))
    submit(trace_id="run-1")
    client = sign_in(viewer)
    choose(client, BUILT_IN[page][0].pk, page=page)
    asks = [client.get(f"{ADDRESSES[page]}?saved=all").context["live"]]
    # A removed filter leaves the list without filters, too.
    emptied = {"HX-Request": "true", "HX-Target": "lines" if page == "logs" else "results"}
    asks.append(client.get(ADDRESSES[page], headers=emptied).context["live"])
    take(tenant, health(timezone.now()))
    submit(trace_id="run-2")
    for ask in asks:
        (show,) = links(client.get(ask, headers={"X-Live": "1"}), "#live-number a")
        assert client.get(show).status_code == 200


def test_the_way_back_from_a_row_leads_to_the_list_that_it_was_in(
    sign_in: SignIn, admin: Person, held: Handoff
) -> None:
    client = sign_in(admin)
    choose(client, "rejected-today")
    (row,) = links(client.get(f"{LIST}?saved=all"), ".row-link")
    assert client.get(client.get(row).context["list_context"].back).context["handoffs"] == [held]
    chosen = {"select": f"{held.pk}:{held.version}", "query": "", "confirmed": "1"}
    done = client.post("/t/acme/handoffs/selected/judge-again/", chosen)
    assert client.get(done["Location"]).context["handoffs"] == [held]


def test_links_to_the_whole_queue_do_not_open_its_default_view(
    sign_in: SignIn, reviewer: Person, held: Handoff
) -> None:
    client, queue = sign_in(reviewer), ADDRESSES["review"]
    choose(client, "mine", page="review")
    whole = client.get(f"{queue}?view=all")
    filtered = client.get(f"{queue}?type={held.handoff_type}")
    unreadable = client.get(f"{queue}?age=never")
    asked = client.post(f"{queue}several/", {"select": f"{held.pk}:{held.version}"})
    done = client.post(f"{queue}several/run/", {"select": f"{held.pk}:{held.version}", "decision": "decline"})
    to_queue = "main a.button[href*='/review/']:not([href*='several'])"
    found = {
        "new": links(whole, "#queue-news a"),
        "without the filter": links(filtered, ".chips a.chip"),
        "unreadable": links(unreadable, ".queue-whole a"),
        "back": links(asked, to_queue),
        "done": links(done, to_queue),
        "unreadable selection": links(client.post(f"{queue}several/", {"age": "never"}), to_queue),
        "unreadable decision": links(
            client.post(f"{queue}several/run/", {"age": "never", "decision": "decline"}), to_queue
        ),
        "overview": links(client.get("/t/acme/"), "#attention a[href*='/review/']"),
        "nothing to undo": [client.post(f"{queue}undo/", {"view": "all"})["Location"]],
    }
    assert all(found.values()), found
    for name, addresses in found.items():
        assert {client.get(one).status_code for one in addresses} == {200}, (name, addresses)


def test_links_to_all_handoffs_do_not_open_the_default_view(sign_in: SignIn, viewer: Person, tenant: Tenant) -> None:
    client = sign_in(viewer)
    choose(client, "rejected-today")
    pages = ("review/?view=all", "groups/", "agents/", f"handoffs/{UUID(int=0)}/")
    found = [link for page in pages for link in links(client.get(f"/t/acme/{page}"), "main a.button") if LIST in link]
    assert len(found) == len(pages)
    assert {client.get(link).status_code for link in found} == {200}
