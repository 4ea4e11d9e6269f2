"""Tests that every page and report shows the rates that are recomputed from the list of handoffs."""

import csv
from collections import Counter
from datetime import timedelta
from io import StringIO

import httpx
import pytest
from django.test import Client
from django.utils import timezone

from handoffaudit.accounts.models import Person, Tenant
from handoffaudit.diagnostics import alert_rules
from handoffaudit.handoffs.review import activity
from handoffaudit.handoffs.review.decisions import Decision
from handoffaudit.handoffs.transitions import Actor
from handoffaudit.policy.alert_rules import AlertRule, Watched
from tests.diagnostics.support import decided
from tests.handoffs.support import assert_counts_are_right, circular, held, judged, payload, submit, to_itself
from tests.pages import text_of

pytestmark = pytest.mark.django_db
TYPE = "research_result"
BLOCKED = ("rejected", "held", "declined")


@pytest.fixture
def filled(tenant: Tenant, viewer: Person) -> Tenant:
    """Store handoffs in every state, with superseded attempts that were rejected or accepted."""
    for _ in range(3):
        judged(tenant, payload())
    judged(tenant, payload(), retry_of=judged(tenant, circular()).handoff_id)
    judged(tenant, circular(), retry_of=judged(tenant, payload()).handoff_id)
    judged(tenant, circular(handoff_type="note"), retry_of=judged(tenant, circular(handoff_type="note")).handoff_id)
    decided(tenant, judged(tenant, circular()), Decision.APPROVE)
    decided(tenant, judged(tenant, circular()), Decision.DECLINE)
    for document in (held(), to_itself(), b"no JSON"):
        judged(tenant, document)
    passed = judged(tenant, circular())
    actor = Actor.person(viewer)
    activity.reassign(tenant=tenant, reference=str(passed.pk), note="you", actor=actor, to=None, seen_version=None)
    submit(tenant, payload())
    return tenant


def states(api: httpx.Client, **filters: str) -> Counter[str]:
    """Count the handoffs of the list by state, page by page."""
    found: Counter[str] = Counter()
    cursor = ""
    while True:
        page = api.get("/handoffs", params={"limit": 5, "cursor": cursor, **filters}).json()
        found.update(one["state"] for one in page["items"])
        cursor = page["next"]
        if not cursor:
            return found


def rate(found: Counter[str]) -> tuple[int, int, int, int]:
    """Return the accepted, approved, blocked and total numbers, by the definition in the docs."""
    blocked = sum(found[state] for state in BLOCKED)
    return found["accepted"], found["approved"], blocked, found["accepted"] + found["approved"] + blocked


def shown(one: dict[str, int]) -> tuple[int, int, int, int]:
    return one["accepted"], one["approved"], one["stopped"], one["total"]


@pytest.mark.parametrize("period", ["24h", "7d"])
def test_every_rate_is_the_one_that_the_list_gives(
    api: httpx.Client, client: Client, viewer: Person, filled: Tenant, period: str
) -> None:
    whole, of_type = rate(states(api)), rate(states(api, type=TYPE))
    assert (whole, of_type) == ((4, 1, 7, 12), (4, 1, 5, 10))
    report = api.get("/compliance", params={"period": period}).json()["validation"]
    assert shown(report["overall"]) == whole
    assert report["overall"]["percent"] == round(100 * whole[0] / whole[3], 1)
    assert [shown(one) for one in report["by_type"]["items"] if one["type"] == TYPE] == [of_type]
    rows = csv.DictReader(StringIO(api.get("/compliance", params={"period": period, "format": "csv"}).text))
    [row] = [row for row in rows if (row["report"], row["by"]) == ("validation", "overall")]
    assert tuple(int(row[name]) for name in ("good", "approved", "stopped", "total")) == whole
    told = f"{whole[0]}/{whole[3]} ({100 * whole[0] / whole[3]:.1f}%)"
    assert told in api.get("/compliance", params={"period": period, "format": "text"}).text
    agents = api.get("/agents", params={"period": period}).json()
    handed_on = [one for one in agents["agents"] if one["name"] == "researcher"]
    assert [(one["accepted"], one["judged"]) for one in handed_on] == [(whole[0], whole[3] - 1)]

    client.force_login(viewer)
    overview = client.get("/t/acme/", {"period": period})
    judged_there = overview.context["judged"]
    assert (judged_there.accepted, judged_there.decided, judged_there.stopped, judged_there.total) == whole
    page = client.get("/t/acme/diagnostics/compliance/", {"period": period})
    assert page.context["report"].validation.overall == judged_there
    for answer in (overview, page):
        assert "Approvals count in the total only; superseded attempts are left out." in answer.text
    assert_counts_are_right()


def test_strictness_counts_the_same_final_attempts_as_compliance(
    api: httpx.Client, client: Client, viewer: Person, filled: Tenant
) -> None:
    report = api.get("/compliance", params={"period": "7d"}).json()["validation"]
    [of_type] = [one for one in report["by_type"]["items"] if one["type"] == TYPE]
    attempts = states(api, type=TYPE).total() - 1
    # Django's client comes last: after it each request of the API would close the test's connection.
    client.force_login(viewer)
    page = client.get("/t/acme/strictness/")
    [row] = [row for row in page.context["rows"] if row.name == TYPE]
    figures = row.effect.stopping
    assert (figures.total, figures.stopped, figures.judged.accepted) == (of_type["total"], 5, of_type["accepted"])
    text = text_of(page.text)
    assert f"blocked {of_type['stopped']} of {of_type['total']}" in text
    # Superseded attempts stand beside it, as a plain number.
    assert figures.attempts == attempts == 12
    assert "1 approved, 12 attempts" in text
    listed = client.get(row.effect.stopped_address).context["handoffs"]
    assert len(listed) == figures.stopped


def test_overview_and_review_agree_on_what_waits(
    api: httpx.Client, client: Client, viewer: Person, filled: Tenant
) -> None:
    found, in_queue = states(api), api.get("/review").json()["items"]
    client.force_login(viewer)
    overview = client.get("/t/acme/").context
    waiting, for_review = overview["waiting"], overview["for_review"]
    assert (waiting.held, waiting.rejected_undecided) == (found["held"], found["rejected"])
    assert for_review.number + overview["set_aside"] == found["held"] + found["rejected"]
    assert overview["set_aside"] == 1
    assert len(client.get("/t/acme/review/").context["queue"].rows) == for_review.number
    assert len(in_queue) == for_review.number


@pytest.mark.parametrize("minutes", [30, 600])
def test_the_rejection_rate_of_alerts_is_of_the_same_final_attempts(
    api: httpx.Client, filled: Tenant, minutes: int
) -> None:
    found = states(api)
    row = AlertRule(name=Watched.REJECTION_RATE, on=True, warning=0.5, alert=0.9, window_minutes=minutes, minimum=1)
    value = alert_rules.measure(filled, row, timezone.now() + timedelta(seconds=1)).value
    assert value == pytest.approx((found["rejected"] + found["declined"]) / rate(found)[3])
