"""Tests of the saved views above a list: the selected view, and plain forms that keep and change views."""

from collections.abc import Callable

import pytest
from django.test import Client

from handoffaudit.accounts.models import Person, SavedView
from handoffaudit.handoffs.models import Handoff

SignIn = Callable[[Person], Client]
LIST = "/t/acme/handoffs/"
MAKE = "/t/acme/views/make/"


def made(client: Client, name: str = "Held", query: str = "state=held", page: str = "handoffs", **more: str):
    return client.post(MAKE, {"page": page, "name": name, "query": query, **more})


def test_a_view_is_kept_and_opens_by_its_link(sign_in: SignIn, viewer: Person, held: Handoff) -> None:
    client = sign_in(viewer)
    narrowed = client.get(f"{LIST}?state=held&source=planner")
    assert 'value="state=held&amp;source=planner"' in narrowed.text
    answer = made(client, query="state=held&source=planner")
    view = SavedView.objects.get()
    assert answer["Location"] == f"{LIST}?state=held&source=planner&saved={view.pk}"
    page = client.get(answer["Location"])
    assert page.context["handoffs"] == [held]
    assert "The view Held is saved." in page.text
    current = page.context["views"].current
    assert (current.view, current.modified) == (view, False)
    # It is in force by its filters, too, however one came there.
    assert client.get(f"{LIST}?state=held&source=planner").context["views"].current.view == view
    assert client.get(LIST).context["views"].current is None


def test_other_filters_in_a_view_show_as_modified_and_can_become_the_views(
    sign_in: SignIn, viewer: Person, held: Handoff
) -> None:
    client = sign_in(viewer)
    made(client)
    view = SavedView.objects.get()
    page = client.get(f"{LIST}?state=held&type=message&saved={view.pk}")
    assert page.context["views"].current.modified
    assert "modified" in page.text
    change = f"/t/acme/views/{view.pk}/"
    answer = client.post(change, {"action": "update", "query": "state=held&type=message"})
    assert answer["Location"] == f"{LIST}?state=held&type=message&saved={view.pk}"
    client.post(change, {"action": "rename", "name": "Messages"})
    view.refresh_from_db()
    assert (view.name, view.query) == ("Messages", "state=held&type=message")
    assert client.post(change, {"action": "delete"})["Location"] == f"{LIST}?state=held&type=message"
    assert not SavedView.objects.exists()


def test_links_of_the_list_stay_in_the_view(sign_in: SignIn, viewer: Person, held: Handoff) -> None:
    client = sign_in(viewer)
    made(client)
    pk = SavedView.objects.get().pk
    page = client.get(f"{LIST}?state=held&saved={pk}&type=")
    assert page["Location"] == f"{LIST}?state=held&saved={pk}"
    part = client.get(
        f"{LIST}?state=held&type=message&saved={pk}", headers={"HX-Request": "true", "HX-Target": "results"}
    )
    assert part["HX-Push-Url"] == f"{LIST}?state=held&type=message&saved={pk}"
    assert 'id="views" hx-swap-oob="true"' in part.text
    assert f'href="{LIST}?state=held&amp;saved={pk}"' in part.text


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("state=lost", "state is"),
        ("next=//evil.example", "the list has no such filter"),
        ("&".join(f"a{number}=1" for number in range(2000)), "at most"),
    ],
)
def test_only_filters_of_the_list_are_kept(
    sign_in: SignIn, viewer: Person, held: Handoff, query: str, told: str
) -> None:
    client = sign_in(viewer)
    answer = made(client, query=query)
    assert answer["Location"] == LIST
    assert told in client.get(LIST).text
    assert not SavedView.objects.exists()


def test_what_a_page_has_besides_its_filters_is_left_out(sign_in: SignIn, viewer: Person, held: Handoff) -> None:
    made(sign_in(viewer), query=f"cursor={held.pk}&saved=7&state=held&since=7d&type=")
    assert SavedView.objects.get().query == "state=held&since=7d"


def test_a_list_that_is_not_there_has_no_views(sign_in: SignIn, viewer: Person, held: Handoff) -> None:
    assert made(sign_in(viewer), page="settings").status_code == 404


def test_a_name_that_is_taken_is_told_and_the_filters_stay(sign_in: SignIn, viewer: Person, held: Handoff) -> None:
    client = sign_in(viewer)
    made(client)
    answer = made(client, query="state=rejected")
    assert answer["Location"] == f"{LIST}?state=rejected"
    assert "choose another name" in client.get(answer["Location"]).text


def test_a_shared_view_says_whose_it_is(sign_in: SignIn, reviewer: Person, viewer: Person, held: Handoff) -> None:
    made(sign_in(reviewer), shared="on")
    client = sign_in(viewer)
    page = client.get(f"{LIST}?state=held")
    assert "Shared with everybody by reviewer" in page.text
    assert "Edit view" not in page.text
    assert client.post(f"/t/acme/views/{SavedView.objects.get().pk}/", {"action": "delete"}).status_code == 403


def test_somebody_elses_view_narrows_the_list_and_is_not_named(
    sign_in: SignIn, reviewer: Person, viewer: Person, held: Handoff
) -> None:
    maker = sign_in(reviewer)
    made(maker, name="Secret plans")
    # What is said to the one who made it is read by that one.
    maker.get(LIST)
    pk = SavedView.objects.get().pk
    client = sign_in(viewer)
    page = client.get(f"{LIST}?state=held&saved={pk}")
    assert page.context["handoffs"] == [held]
    assert "Secret plans" not in page.text
    assert client.post(f"/t/acme/views/{pk}/", {"action": "delete"}).status_code == 404


@pytest.mark.parametrize(
    ("page", "query"),
    [
        ("traces", "state=held&agent=planner"),
        ("logs", "kind=gate&since=24h&q=refused"),
        ("review", "view=mine&type=message"),
        ("groups", "status=muted&code=chain.circular"),
    ],
)
def test_other_lists_have_views_too(sign_in: SignIn, viewer: Person, held: Handoff, page: str, query: str) -> None:
    client = sign_in(viewer)
    answer = made(client, page=page, query=query)
    assert SavedView.objects.get().page == page
    shown = client.get(answer["Location"])
    assert shown.status_code == 200
    assert "Edit view" in shown.text
