"""Tests of the pages of alerts: edit alert rules, active alerts, and resolved alerts."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from django.test import Client
from django.utils import timezone

from handoffaudit.accounts.models import Person, Tenant
from handoffaudit.handoffs import alerts
from handoffaudit.handoffs.alerts import AlertKind
from handoffaudit.handoffs.models import Alert, Handoff, State
from handoffaudit.policy.alert_rules import AlertRule, NoData, Watched
from handoffaudit.policy.kinds import alert_policy
from tests.pages import attributes, links, only, select, text_of, texts

SETTINGS = "/t/acme/settings/alerts/"
PAGE = "/t/acme/diagnostics/alerts/"
pytestmark = pytest.mark.django_db


@pytest.fixture
def as_admin(client: Client, admin: Person) -> Client:
    client.force_login(admin)
    return client


def form_of(page, row: str) -> dict[str, str]:
    """Return the fields that the form of an alert rule would send."""
    form = only(page, f'form:has([name=row][value="{row}"])')
    found = {one.attributes["name"]: one.attributes["value"] for one in select(form, "input[name][value]")}
    found |= dict.fromkeys(attributes(form, "input[type=checkbox][checked]", "name"), "on")
    for one in select(form, "select[name]"):
        (found[one.attributes["name"]],) = attributes(one, "option[selected]", "value")
    return found


def test_a_threshold_is_saved_as_it_stands_in_its_form(as_admin: Client, tenant: Tenant) -> None:
    sent = form_of(as_admin.get(PAGE), "rejection_rate")
    assert sent["rejection_rate-warning"] == "0.5"
    assert as_admin.post(f"{SETTINGS}save/", sent).status_code == 302
    assert alert_policy.current(tenant).version == 0
    changed = sent | {"rejection_rate-on": "on", "rejection_rate-alert": "0.95", "rejection_rate-no_data": "alert"}
    page = as_admin.post(f"{SETTINGS}save/", changed, follow=True)
    assert "Rejection rate is saved as version 1" in page.text
    row = alert_policy.current(tenant).row("rejection_rate")
    assert (row.on, row.warning, row.alert, row.no_data) == (True, 0.5, 0.95, NoData.ALERT)


def test_each_rule_is_a_sentence_and_its_form_is_folded(as_admin: Client) -> None:
    page = as_admin.get(PAGE)
    assert [one.partition(";")[0] for one in texts(page, ".card-body > p:first-child")] == [
        "Warn when the rejection rate over 60 min is at least 50.0 %",
        "Warn when the oldest handoff has waited 5 min to be judged",
        "Warn at 20 handoffs accepted in 60 min without the LLM check",
        "Warn at 10 handoffs held for longer than their type allows",
    ]
    assert len(select(page, "details.settings-rule")) == 4
    assert select(page, "details[open].settings-rule, .button--primary") == []
    refused = as_admin.post(f"{SETTINGS}save/", form_of(page, "queue_age") | {"queue_age-warning": "soon"})
    assert attributes(refused, "details[open].settings-rule [name=row]", "value") == ["queue_age"]


def test_a_viewer_reads_the_rules_beside_the_alerts_and_edits_none(
    client: Client, tenant: Tenant, viewer: Person
) -> None:
    client.force_login(viewer)
    page = client.get(PAGE)
    assert len(select(page, ".settings-card[aria-labelledby]")) == 4
    assert select(page, "#main form") == []
    moved = client.get(SETTINGS)
    assert (moved.status_code, moved["Location"]) == (302, f"{PAGE}#rules")


def test_what_makes_no_sense_is_told_at_its_field(as_admin: Client, tenant: Tenant) -> None:
    sent = form_of(as_admin.get(PAGE), "queue_age") | {"queue_age-warning": "soon", "queue_age-alert": "5000"}
    page = as_admin.post(f"{SETTINGS}save/", sent)
    assert page.status_code == 400
    assert "&#x27;soon&#x27; is not a valid level. Use a number from 10 to 86,400." in page.text
    assert 'value="soon"' in page.text
    assert 'value="5000"' in page.text
    assert alert_policy.current(tenant).version == 0


def test_a_save_on_an_old_view_overwrites_nothing(as_admin: Client, tenant: Tenant) -> None:
    sent = form_of(as_admin.get(PAGE), "queue_age")
    as_admin.post(f"{SETTINGS}save/", sent | {"queue_age-warning": "60"})
    page = as_admin.post(f"{SETTINGS}save/", sent | {"queue_age-warning": "70"})
    assert page.status_code == 409
    assert "admin saved version 1 meanwhile" in page.text
    assert alert_policy.current(tenant).row("queue_age").warning == 60


def test_the_history_tells_changes_in_words_and_goes_back(as_admin: Client, tenant: Tenant) -> None:
    sent = form_of(as_admin.get(PAGE), "queue_age")
    as_admin.post(f"{SETTINGS}save/", sent | {"queue_age-warning": "60"})
    page = as_admin.get("/t/acme/policies/history/?kind=thresholds")
    assert "Queue age" in page.text
    assert "warning from" in page.text
    as_admin.post("/t/acme/thresholds/revert/", {"to_version": "0", "base_version": "1"})
    assert alert_policy.current(tenant).row("queue_age").warning == 300


@pytest.mark.parametrize("who", ["viewer", "admin"])
def test_the_history_leads_to_the_rules_which_everybody_may_read(
    client: Client, tenant: Tenant, admin: Person, who: str, request: pytest.FixtureRequest
) -> None:
    rows = [AlertRule(Watched.FAIL_OPEN, on=True, warning=1, alert=2)]
    alert_policy.save(tenant=tenant, base_version=0, rows=rows, actor="admin", note="")
    client.force_login(request.getfixturevalue(who))
    for address, part in (("history/", ".policy-history .card:first-child"), ("compare/?from=0&to=1", ".crumbs")):
        names = only(client.get(f"/t/acme/thresholds/{address}", follow=True), part)
        assert "Alerts" in text_of(names)
        assert "/t/acme/settings/alerts/" in links(names)


def test_what_is_measured_now_stands_beside_it(as_admin: Client, submit) -> None:
    submit(judged=False)
    page = as_admin.get(PAGE)
    assert re.search(r"Now: \d+ s", text_of(page))
    assert "too few handoffs to tell" in page.text


@pytest.mark.parametrize("kind", list(AlertKind))
def test_every_kind_has_words_and_a_way(
    client: Client, tenant: Tenant, viewer: Person, submit, kind: AlertKind
) -> None:
    submit()
    now = timezone.now()
    values = {"rejection_rate": 0.51, "queue_age": 720.0, "no_handoffs": 7200.0}
    of_it = {"kind": kind.value, "opened_at": now, "last_at": now, "value": values.get(kind)}
    Alert.objects.create(tenant=tenant, level="warning", number=3, **of_it)
    client.force_login(viewer)
    for address in (PAGE, "/t/acme/"):
        page = client.get(address)
        assert page.text.count('class="note note--warning alert"') == 1
        ways = links(page, ".alert-actions > a.button:first-child")
        if kind is AlertKind.WEBHOOK_FAILING:
            # Only administrators come to the webhooks.
            assert "/settings/" not in (only(page, "#main").html or "")
        else:
            assert client.get(ways[0]).status_code == 200


def test_what_waits_says_for_whom(client: Client, tenant: Tenant, viewer: Person, submit) -> None:
    submit(judged=False)
    now = timezone.now()
    Alert.objects.create(tenant=tenant, level="alert", kind="queue_age", value=900, opened_at=now, last_at=now)
    client.force_login(viewer)
    page = client.get(PAGE)
    assert "has waited 15 min to be judged" in page.text
    assert "none runs" in page.text
    # As what waits for the model.
    Handoff.objects.update(state=State.VALIDATING, tries=1, claim_expires_at=None)
    page = client.get(PAGE)
    assert "has waited 15 min for its LLM check" in page.text
    assert "none runs" not in page.text
    assert "/t/acme/diagnostics/model/" in links(page, ".alert-actions a")
    Handoff.objects.update(state=State.ACCEPTED)
    assert "had waited 15 min to be judged" in client.get(PAGE).text


def test_an_alert_is_dated_in_the_zone_of_its_reader(as_admin: Client, tenant: Tenant) -> None:
    alerts.raise_alert(tenant.pk, AlertKind.WOULD_HAVE_REJECTED, 1)
    Alert.objects.update(opened_at=datetime(2026, 2, 15, 23, 30, tzinfo=UTC))
    as_admin.cookies["time_zone"] = "Asia/Tokyo"
    shown = text_of(as_admin.get(PAGE), ".alert")
    assert "since 16 Feb 2026, 08:30 JST, last" in shown
    assert "UTC" not in shown


def test_an_administrator_is_led_to_the_webhooks(as_admin: Client, tenant: Tenant, submit) -> None:
    submit()
    now = timezone.now()
    Alert.objects.create(tenant=tenant, level="alert", number=3, kind="webhook_failing", opened_at=now, last_at=now)
    for address in (PAGE, "/t/acme/"):
        assert "/t/acme/settings/webhooks/" in links(as_admin.get(address), "#main a")


@pytest.mark.parametrize(
    ("kind", "level", "said"),
    [
        ("rejection_rate", "warning", " It opens again if its cause ends and comes back, or if the value reaches"),
        ("rejection_rate", "alert", " It opens again if its cause ends and comes back. "),
        ("webhook_failing", "alert", " Settings"),
    ],
)
def test_the_answer_to_an_acknowledgement_says_when_the_alert_opens_again(
    as_admin: Client, tenant: Tenant, kind: str, level: str, said: str
) -> None:
    now = timezone.now()
    opened = Alert.objects.create(tenant=tenant, level=level, kind=kind, opened_at=now, last_at=now, number=1)
    page = as_admin.post(f"{PAGE}{opened.pk}/acknowledge/", {"page": "alerts"}, follow=True)
    assert f"The alert is acknowledged.{said}" in text_of(page, "main")


def test_what_is_over_is_listed_with_who_ended_it(
    client: Client, tenant: Tenant, other_tenant: Tenant, reviewer: Person
) -> None:
    client.force_login(reviewer)
    assert "No resolved alerts" in client.get(PAGE).text
    for of in (tenant, other_tenant):
        alerts.raise_alert(of.pk, AlertKind.WOULD_HAVE_REJECTED, 2)
    opened = Alert.objects.get(tenant=tenant)
    response = client.post(f"{PAGE}{opened.pk}/acknowledge/", {"page": "alerts"}, follow=True)
    assert response.redirect_chain[0][0] == PAGE
    assert "acknowledged by reviewer" in response.text
    assert "No active alerts" in response.text
    Alert.objects.filter(pk=opened.pk).update(acknowledged_by="handoffaudit")
    assert "by itself" in client.get(PAGE).text


def test_many_are_read_page_by_page(client: Client, tenant: Tenant, viewer: Person) -> None:
    now = timezone.now()
    for number in range(60):
        at = now - timedelta(hours=60 - number)
        of_it = {"opened_at": at, "last_at": at, "acknowledged_at": at, "acknowledged_by": "ada", "number": number + 1}
        Alert.objects.create(tenant=tenant, kind=AlertKind.WOULD_HAVE_REJECTED, **of_it)
    client.force_login(viewer)
    first = client.get(PAGE)
    assert first.text.count('scope="row"') == 50
    (older,) = links(first, 'a[href*="?before="]')
    assert client.get(older).text.count('scope="row"') == 10
