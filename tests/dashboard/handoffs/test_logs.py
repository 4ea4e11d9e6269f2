from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from django.test import Client
from django.utils.html import escape

from handoffaudit.accounts.models import Person, Tenant
from handoffaudit.handoffs.models import Handoff
from tests.dashboard.log_lines import gate, health, moment, take, trace

SignIn = Callable[[Person], Client]
HTMX = {"HX-Request": "true", "HX-Target": "logs"}


def of_trace(handoff: Handoff) -> Handoff:
    Handoff.objects.filter(pk=handoff.pk).update(trace_id="trace-9")
    handoff.refresh_from_db()
    return handoff


def test_without_logs_the_page_of_a_handoff_says_nothing_of_them(
    sign_in: SignIn, viewer: Person, held: Handoff
) -> None:
    assert "Log lines around it" not in sign_in(viewer).get(f"/t/acme/handoffs/{held.pk}/").text


def test_the_lines_of_its_trace_and_its_agents_around_its_time_are_asked_for_later(
    sign_in: SignIn, viewer: Person, tenant: Tenant, held: Handoff
) -> None:
    handoff = of_trace(held)
    at = handoff.received_at.replace(microsecond=0)
    take(
        tenant,
        health(at - timedelta(minutes=60), "writer"),
        health(at - timedelta(minutes=14), "writer"),
        trace(at, "another"),
        trace(at),
        gate(at, details="of nobody here"),
        health(at + timedelta(minutes=10), "reviewer"),
    )
    client = sign_in(viewer)
    address = f"/t/acme/handoffs/{handoff.pk}/logs/"
    assert f'hx-get="{address}"' in client.get(f"/t/acme/handoffs/{handoff.pk}/").text
    part = client.get(address, headers=HTMX)
    assert "<html" not in part.text
    # "another" is a trace of the same agents.
    assert [(row.kind, row.number) for row in part.context["rows"]] == [("trace", 4), ("trace", 3), ("health", 2)]
    assert "<html" in client.get(address).text


def test_without_javascript_links_lead_to_the_same_lines(
    sign_in: SignIn, viewer: Person, tenant: Tenant, held: Handoff
) -> None:
    handoff = of_trace(held)
    take(tenant, health(handoff.received_at, "writer"), health(moment(500), "writer"), trace(moment(500)))
    client = sign_in(viewer)
    page = client.get(f"/t/acme/handoffs/{handoff.pk}/")
    links = {link.text: link.address for link in page.context["logs"]["searches"]}
    assert list(links) == [
        "All lines of this trace",
        f"Lines of {handoff.source_agent_id} around this time",
        "Lines of writer around this time",
    ]
    for address in links.values():
        assert f'href="{escape(address)}"' in page.text
    assert [row.kind for row in client.get(links["All lines of this trace"]).context["rows"]] == ["trace"]
    assert [row.number for row in client.get(links["Lines of writer around this time"]).context["rows"]] == [1]


def test_what_a_sender_dated_is_looked_for_at_that_time(
    sign_in: SignIn, viewer: Person, tenant: Tenant, held: Handoff
) -> None:
    then = moment(60 * 24 * 40)
    Handoff.objects.filter(pk=held.pk).update(sender_timestamp=then)
    take(tenant, health(then, "writer"), health(held.received_at, "writer"))
    rows = sign_in(viewer).get(f"/t/acme/handoffs/{held.pk}/logs/").context["rows"]
    assert [row.at for row in rows] == [then]


@pytest.mark.parametrize("said", [datetime.min, datetime(1970, 1, 1), datetime.max])
def test_a_date_that_no_log_line_can_have_is_replaced_by_the_time_of_receipt(
    sign_in: SignIn, viewer: Person, tenant: Tenant, held: Handoff, said: datetime
) -> None:
    Handoff.objects.filter(pk=held.pk).update(sender_timestamp=said.replace(tzinfo=UTC))
    take(tenant, health(held.received_at, "writer"))
    client = sign_in(viewer)
    page = client.get(f"/t/acme/handoffs/{held.pk}/")
    addresses = [f"/t/acme/handoffs/{held.pk}/logs/", page.context["logs"]["searches"][-1].address]
    assert [len(client.get(one).context["rows"]) for one in addresses] == [1, 1]


def test_where_no_log_says_anything_that_is_said(
    sign_in: SignIn, viewer: Person, tenant: Tenant, held: Handoff
) -> None:
    take(tenant, gate(moment(900)))
    page = sign_in(viewer).get(f"/t/acme/handoffs/{held.pk}/logs/").text
    assert "No log line of this trace or of these agents was found around this time" in page
