"""Tests of the updates of an open page: only newer rows, and no writes to the database."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.sessions.models import Session
from django.db import connection
from django.db.models import F
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from handoffaudit.accounts.models import Person, Tenant
from handoffaudit.diagnostics import attribution
from handoffaudit.diagnostics.models import Watermark
from handoffaudit.handoffs import judge
from handoffaudit.handoffs.models import Handoff, HourlyTotal
from tests.dashboard.live_page import decline, polled, seen_by
from tests.diagnostics.groups.support import group
from tests.pages import attributes, links, select, text_of, texts

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
    client = sign_in(viewer)
    for rows in (f"{foreign.pk.hex}.0", f"{foreign.pk.hex}.0.found"):
        assert asked(client, rows=rows).status_code == 204


@pytest.mark.parametrize(
    "page", ["connect/arrived", "diagnostics/logs/new", "traces/run-7", "live", "groups", "review/live"]
)
def test_each_page_refuses_numbers_that_cannot_be_read(
    sign_in: SignIn, viewer: Person, held: Handoff, page: str
) -> None:
    Handoff.objects.update(trace_id="run-7")
    known = {"after": "2026-02-15T10:00:00Z" if "logs" in page else "00000000-0000-0000-0000-000000000000"}
    answer = sign_in(viewer).get(f"/t/acme/{page}/", known | {"waiting": "x"}, headers={"X-Live": "1"})
    assert answer.status_code == 400


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


def test_a_decision_comes_to_what_needs_attention(sign_in: SignIn, reviewer: Person, held: Handoff) -> None:
    client, asking = sign_in(reviewer), {"X-Live": "1"}
    page = client.get("/t/acme/")
    seen = {"seen": page.context["seen"], "waits": page.context["waits"], "waiting": 1}
    assert attributes(page, "#attention", "data-live-seen") == [f"waits={seen['waits']}"]
    assert client.get("/t/acme/", seen, headers=asking).status_code == 204
    sent = {"decision": "decline", "note": "no", "version": held.version}
    assert client.post(f"/t/acme/handoffs/{held.pk}/decide/", sent).status_code == 302
    newer = client.get("/t/acme/", seen, headers=asking)
    assert "nothing to decide" in text_of(newer, "#attention")
    assert attributes(newer, "#attention", "data-live-seen") != attributes(page, "#attention", "data-live-seen")


def test_a_decision_comes_to_the_chart_and_the_lists_of_the_overview(
    sign_in: SignIn, reviewer: Person, circular: Handoff, held: Handoff
) -> None:
    client, asking = sign_in(reviewer), {"X-Live": "1"}
    page = client.get("/t/acme/")
    seen = seen_by(page)
    assert client.get("/t/acme/", seen, headers=asking).status_code == 204
    sent = {"decision": "approve", "note": "fine", "version": held.version}
    assert client.post(f"/t/acme/handoffs/{held.pk}/decide/", sent).status_code == 302
    newer = client.get("/t/acme/", seen, headers=asking)
    for name in ("chart-wide", "chart-narrow", "chart-numbers", "top-codes", "top-agents"):
        assert len(select(newer, f"#{name}")) == len(select(page, f"#{name}")) == 1
    assert "approved" in text_of(newer, "#chart-numbers")
    assert len(select(newer, "#top-codes li")) == len(select(page, "#top-codes li"))
    assert client.get("/t/acme/", seen | seen_by(newer), headers=asking).status_code == 204


def test_a_list_of_the_overview_keeps_its_number_of_rows(
    sign_in: SignIn, viewer: Person, held: Handoff, submit: Submit
) -> None:
    client = sign_in(viewer)
    seen = seen_by(client.get("/t/acme/"))
    submit(source_agent_id="critic", call_chain=["critic"])
    newer = client.get("/t/acme/", seen, headers={"X-Live": "1"})
    assert len(select(newer, "#top-agents li")) == int(seen["agents_rows"])
    assert seen_by(newer)["agents_rows"] == seen["agents_rows"]
    assert client.get("/t/acme/", seen | {"agents_rows": "x"}, headers={"X-Live": "1"}).status_code == 400


def test_the_first_handoff_of_a_period_only_changes_the_text_in_place_of_the_chart(
    sign_in: SignIn, viewer: Person, submit: Submit
) -> None:
    HourlyTotal.objects.update(hour=F("hour") - timedelta(days=60))
    submit()
    HourlyTotal.objects.update(hour=F("hour") - timedelta(days=60))
    client = sign_in(viewer)
    page = client.get("/t/acme/")
    seen = seen_by(page)
    assert "No handoffs came" in text_of(page, "#over-time-none")
    submit()
    newer = client.get("/t/acme/", seen, headers={"X-Live": "1"})
    assert links(newer, "#over-time-none a") == ["?period=24h"]
    assert not select(newer, "#chart-wide")
    assert "over-time-none" not in client.get("/t/acme/", seen | seen_by(newer), headers={"X-Live": "1"}).text


def test_a_decision_comes_to_the_numbers_of_findings(
    sign_in: SignIn, reviewer: Person, tenant: Tenant, circular: Handoff, held: Handoff
) -> None:
    client, asking = sign_in(reviewer), {"X-Live": "1"}
    attribution.run()
    address = "/t/acme/groups/"
    page = client.get(address)
    assert attributes(page, "[data-live]", "data-live") == [address]
    seen = seen_by(page) | {"rows": "~".join(attributes(page, "[data-live-row]", "data-live-row"))}
    with CaptureQueriesContext(connection) as queries:
        assert client.get(address, seen, headers=asking).status_code == 204
    # Session, person, membership, groups, their waiting handoffs, whether anything is muted, the number of the menu.
    assert len(queries) <= 8
    sent = {"decision": "decline", "note": "no", "version": circular.version}
    assert client.post(f"/t/acme/handoffs/{circular.pk}/decide/", sent).status_code == 302
    newer = client.get(address, seen, headers=asking)
    changed = group(tenant)
    assert texts(newer, f"#waiting-{changed.pk}") == ["\u2013"]
    assert attributes(newer, "[data-live-row]", "data-live-row") == [f"{changed.pk}.0"]
    foreign = {"rows": f"{changed.pk + 1000}.5~x.1~{'9' * 30}.1"}
    assert client.get(address, foreign, headers=asking).status_code == 204
    # Another way to write the number of a group is answered with the number as the page writes it.
    forged = client.get(address, {"rows": f"00{changed.pk}.0"}, headers=asking)
    assert attributes(forged, "[data-live-row]", "data-live-row") == [f"{changed.pk}.0"]


@pytest.mark.parametrize("headers", [{}, {"HX-Request": "true", "HX-Target": "panel"}])
def test_a_decision_comes_to_the_page_of_a_finding_and_to_its_panel(
    sign_in: SignIn, reviewer: Person, tenant: Tenant, circular: Handoff, held: Handoff, headers: dict[str, str]
) -> None:
    client = sign_in(reviewer)
    attribution.run()
    address = f"/t/acme/groups/{group(tenant).pk}/"
    page = client.get(address, headers=headers)
    assert attributes(page, "[data-live]", "data-live") == [address]
    with CaptureQueriesContext(connection) as queries:
        assert polled(client, address, page).status_code == 204
    # Session, person, membership, the group, its waiting handoffs, its newest handoffs, their states, decided handoffs,
    # their events, the states shown, whether anything is muted, the number of the menu.
    assert len(queries) <= 12
    decline(client, circular)
    newer = polled(client, address, page)
    assert texts(newer, "#group-waits") == ["\u2013"]
    assert texts(newer, f"#state-newest-{circular.pk.hex}") == ["declined"]
    assert "1 declined" in text_of(newer, "#group-decided")
    assert len(select(newer, "#group-decided li")) == 1
    assert len(select(newer, "#group-button")) == (0 if headers else 1)
    assert polled(client, address, newer).status_code == 204


def test_a_decision_comes_to_the_newest_handoffs_below_a_line_of_findings(
    sign_in: SignIn, reviewer: Person, tenant: Tenant, circular: Handoff
) -> None:
    client = sign_in(reviewer)
    attribution.run()
    number = group(tenant).pk
    below = client.get(f"/t/acme/groups/{number}/newest/", headers={"HX-Request": "true"})
    assert polled(client, "/t/acme/groups/", below).status_code == 204
    decline(client, circular)
    assert texts(polled(client, "/t/acme/groups/", below), f"#state-{number}-{circular.pk.hex}") == ["declined"]


def test_a_decision_comes_to_the_other_pages_with_handoffs(
    sign_in: SignIn, reviewer: Person, submit: Submit, circular: Handoff
) -> None:
    client = sign_in(reviewer)
    Handoff.objects.filter(pk=circular.pk).update(trace_id="t-1")
    trace, panel = "/t/acme/traces/t-1/", {"HX-Request": "true", "HX-Target": "panel"}
    passed = submit()
    pair = f"/t/acme/handoffs/{circular.pk}/compare/?with={passed.pk}"
    shown = {
        f"state-trace-{circular.pk.hex}": trace,
        f"state-found-{circular.pk.hex}": f"/t/acme/search/?q={str(circular.pk)[:7]}",
        f"state-shown-{circular.pk.hex}": pair,
        f"state-{circular.pk.hex}": "/t/acme/agents/planner/",
    }
    pages = [(name, client.get(address)) for name, address in shown.items()]
    pages.append((f"state-trace-{circular.pk.hex}", client.get(trace, headers=panel)))
    pages.append((f"state-{circular.pk.hex}", client.get("/t/acme/diagnostics/codes/chain.circular/")))
    decline(client, circular)
    for name, page in pages:
        asked = [*attributes(page, "[data-live]", "data-live"), LIVE][0]
        assert texts(page, f"#{name}")[0].split()[0] == "rejected", name
        newer = polled(client, asked, page).text
        assert f'id="{name}"' in newer
        assert "declined" in newer


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
