"""Tests of the live updates of the rows on a page of the queue."""

from collections.abc import Callable

from django.test import Client

from handoffaudit.accounts.models import Person, Tenant
from handoffaudit.handoffs.models import Handoff
from handoffaudit.handoffs.review import activity, decisions
from handoffaudit.handoffs.transitions import Actor
from tests.pages import Source, attributes

SignIn = Callable[[Person], Client]
Submit = Callable[..., Handoff]
LIVE = "/t/acme/review/live/"


def rows_of(page: Source) -> str:
    """Return the row states that the script sends for the page's rows."""
    return "~".join(attributes(page, "[data-live-row]", "data-live-row"))


def decline(handoff: Handoff) -> None:
    decisions.decide_handoff(
        tenant=handoff.tenant,
        reference=str(handoff.pk),
        decision=decisions.Decision.DECLINE,
        note="",
        actor=Actor.key("another"),
        seen_version=None,
    )


def gone(client: Client, rows: str, **query: str) -> set[str]:
    (told,) = attributes(client.get(LIVE, {**query, "rows": rows}), "[data-gone]", "data-gone")
    return set(told.split())


def test_whatever_became_of_a_row_it_hears_that_it_is_gone_and_so_once(
    sign_in: SignIn, viewer: Person, submit: Submit, held: Handoff, circular: Handoff
) -> None:
    retried = submit(call_chain=["writer", "planner"])
    client = sign_in(viewer)
    rows = rows_of(client.get("/t/acme/review/").text)
    assert len(rows.split("~")) == 3
    assert gone(client, rows) == set()
    decline(held)
    Handoff.objects.filter(pk=retried.pk).update(state="superseded")
    heard = client.get(LIVE, {"rows": rows})
    assert gone(client, rows) == {str(held.pk), str(retried.pk)}
    (seen,) = (one.removeprefix("held=") for one in attributes(heard, '[data-live-seen^="held="]', "data-live-seen"))
    assert client.get(LIVE, {"rows": rows, "held": seen}).status_code == 204


def test_what_waits_where_the_answer_lists_nothing_of_it_is_not_gone(
    sign_in: SignIn, viewer: Person, held: Handoff, circular: Handoff
) -> None:
    client = sign_in(viewer)
    rows = rows_of(client.get("/t/acme/review/").text)
    below = f"rejected:{circular.pk}"
    assert gone(client, rows, cursor=below) == set()
    decline(held)
    assert gone(client, rows, cursor=below) == {str(held.pk)}


def test_what_waits_elsewhere_in_the_queue_is_gone_from_where_it_was(
    sign_in: SignIn, reviewer: Person, tenant: Tenant, held: Handoff
) -> None:
    client = sign_in(reviewer)
    rows = rows_of(client.get("/t/acme/review/").text)
    actor = Actor.person(reviewer)
    activity.reassign(tenant=tenant, reference=str(held.pk), to=reviewer, note="Mine.", actor=actor, seen_version=None)
    assert gone(client, rows) == {str(held.pk)}
    assert gone(client, rows, view="mine") == set()


def test_rows_that_are_none_are_refused(sign_in: SignIn, viewer: Person, held: Handoff) -> None:
    assert sign_in(viewer).get(LIVE, {"rows": "x.1"}).status_code == 400
