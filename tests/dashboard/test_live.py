"""Tests of the updates of an open page: only newer rows, and no writes to the database."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.sessions.models import Session
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from handoffaudit.accounts.models import Person, Tenant
from handoffaudit.diagnostics.models import Watermark
from handoffaudit.handoffs import judge
from handoffaudit.handoffs.models import Handoff
from tests.pages import select, texts

SignIn = Callable[[Person], Client]
Submit = Callable[..., Handoff]
LIVE = "/t/acme/live/"
NEW = "/t/acme/handoffs/new/"


def token(handoff: Handoff) -> str:
    return f"{handoff.pk.hex}.{handoff.version}"


def asked(client: Client, **what: Any):
    return client.get(NEW, what)


def test_a_page_says_what_it_has_so_that_it_can_be_told_what_is_newer(
    sign_in: SignIn, viewer: Person, held: Handoff, submit: Submit
) -> None:
    accepted = submit()
    page = sign_in(viewer).get("/t/acme/handoffs/?source=planner")
    assert f'data-live="{NEW}?source=planner&amp;after={accepted.pk}"' in page.text
    assert f'data-live-row="{token(held)}"' in page.text
    # Accepted handoffs are final, so the page stops asking about them.
    assert token(accepted) not in page.text
    assert 'data-live-seen="waiting=1"' in page.text
    assert 'data-live-seen="number=0"' in page.text


def test_nothing_is_answered_where_nothing_changed(sign_in: SignIn, viewer: Person, held: Handoff) -> None:
    client = sign_in(viewer)
    quiet = asked(client, after=held.pk, rows=token(held), waiting=1, number=0)
    assert (quiet.status_code, quiet.content) == (204, b"")
    assert client.get(LIVE, {"waiting": 1}).status_code == 204
    assert client.get(LIVE).status_code == 204


def test_a_row_that_was_judged_is_told_and_the_others_are_not(
    sign_in: SignIn, viewer: Person, submit: Submit, held: Handoff
) -> None:
    waits = submit(judged=False)
    seen = token(waits)
    judge.drain()
    answer = asked(sign_in(viewer), rows=f"{seen}~{token(held)}", waiting=1)
    assert answer.status_code == 200
    for part in ("state", "codes", "score", "tokens"):
        assert f'id="{part}-{waits.pk.hex}"' in answer.text
    assert "accepted" in answer.text
    assert held.pk.hex not in answer.text
    assert "data-live-row" not in answer.text


def test_the_number_in_the_menu_follows(sign_in: SignIn, viewer: Person, held: Handoff) -> None:
    client = sign_in(viewer)
    for address in (LIVE, NEW):
        answer = client.get(address, {"waiting": 0})
        assert texts(answer, "#waiting") == ["1 waiting"]


def test_the_count_of_new_rows_is_told_once(sign_in: SignIn, viewer: Person, submit: Submit) -> None:
    seen = submit(judged=False)
    client = sign_in(viewer)
    submit(judged=False)
    first = asked(client, after=seen.pk, number=0)
    assert 'data-live-seen="number=1"' in first.text
    assert 'data-live-say="1 new handoff"' in first.text
    assert asked(client, after=seen.pk, number=1).status_code == 204
    Handoff.objects.exclude(pk=seen.pk).delete()
    assert 'data-live-seen="number=0"' in asked(client, after=seen.pk, number=1).text


def test_rows_of_another_tenant_are_not_told(
    sign_in: SignIn, viewer: Person, other_tenant: Tenant, submit_to: Submit
) -> None:
    foreign = submit_to(other_tenant)
    assert asked(sign_in(viewer), rows=f"{foreign.pk.hex}.0").status_code == 204


@pytest.mark.parametrize(
    "what", [{"rows": "x"}, {"rows": "x.1"}, {"number": "many"}, {"waiting": "-1"}, {"after": "x"}, {"state": "lost"}]
)
def test_what_cannot_be_read_is_refused_in_few_words(
    sign_in: SignIn, viewer: Person, tenant: Tenant, what: dict[str, str]
) -> None:
    answer = asked(sign_in(viewer), **({"after": "00000000-0000-0000-0000-000000000000"} | what))
    assert answer.status_code == 400
    assert len(answer.content) < 200


def test_asking_writes_nothing_and_reads_little(sign_in: SignIn, viewer: Person, held: Handoff) -> None:
    client = sign_in(viewer)
    sessions = list(Session.objects.values())
    with CaptureQueriesContext(
        connection,
    ) as queries:
        answer = asked(client, after=held.pk, rows=token(held), waiting=1, number=0)
    assert answer.status_code == 204
    assert not answer.cookies
    assert all(query["sql"].lstrip().upper().startswith("SELECT") for query in queries.captured_queries)
    # Session, person, membership, new rows, rows shown, whether anything is muted, waiting.
    assert len(queries) <= 7
    assert list(Session.objects.values()) == sessions


def test_who_was_signed_out_is_told_to_load_the_page(client: Client, tenant: Tenant) -> None:
    answer = client.get(LIVE, headers={"HX-Request": "true"})
    assert "HX-Refresh" in answer.headers


def test_the_numbers_of_the_overview_follow(sign_in: SignIn, viewer: Person, held: Handoff, submit: Submit) -> None:
    client = sign_in(viewer)
    page = client.get("/t/acme/?period=7d")
    seen = {"period": "7d", "seen": page.context["seen"], "waiting": 1}
    assert 'data-live="?period=7d"' in page.text
    assert f'data-live-seen="seen={page.context["seen"]}"' in page.text
    asking = {"X-Live": "1"}
    assert client.get("/t/acme/", seen, headers=asking).status_code == 204
    submit()
    newer = client.get("/t/acme/", seen, headers=asking)
    assert newer.text.strip().startswith("<section")
    assert 'id="figures"' in newer.text
    assert "<h2" not in newer.text


def test_an_overview_left_open_is_told_once_that_no_worker_runs_and_that_one_runs_again(
    sign_in: SignIn, viewer: Person, held: Handoff, submit: Submit
) -> None:
    waits = submit(judged=False)
    client = sign_in(viewer)
    page = client.get("/t/acme/")
    assert select(page, '[data-live] [data-live-seen="gone=0"]')
    seen = {"seen": page.context["seen"], "waiting": 1, "gone": 0}
    asking = {"X-Live": "1"}
    assert client.get("/t/acme/", seen, headers=asking).status_code == 204
    Handoff.objects.filter(pk=waits.pk).update(received_at=timezone.now() - timedelta(minutes=2))
    gone = client.get("/t/acme/", seen, headers=asking).text
    assert gone.count("data-live-seen=") == gone.count('data-live-seen="gone=1"') == 1
    assert "No worker is running; handoffs are queued</b>: none seen yet." in gone
    assert client.get("/t/acme/", seen | {"gone": 1}, headers=asking).status_code == 204
    Watermark.objects.create(name="worker", at=timezone.now())
    back = client.get("/t/acme/", seen | {"gone": 1}, headers=asking).text
    assert 'data-live-seen="gone=0"' in back
    assert 'data-live-say="Handoffs are judged again."' in back
    assert "No worker runs" not in back
