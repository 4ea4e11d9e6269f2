"""Tests of the reader's time zone, and of the period that is kept across pages."""

from datetime import UTC, datetime

import pytest
from django.test import Client

from handoffaudit.accounts.models import Person, Tenant
from handoffaudit.dashboard import access
from handoffaudit.dashboard.templatetags import ui
from handoffaudit.handoffs.models import Event, Handoff
from handoffaudit.handoffs.review import queue
from tests.dashboard.handoff_page import payload, store
from tests.pages import attributes, texts

pytestmark = pytest.mark.django_db

LIST = "/t/acme/handoffs/"
COMPLIANCE, REASONS = "/t/acme/diagnostics/compliance/", "/t/acme/diagnostics/"


@pytest.fixture
def vik(viewer: Person) -> Client:
    client = Client()
    client.force_login(viewer)
    return client


@pytest.fixture
def handoff(tenant: Tenant) -> Handoff:
    handoff = store(tenant, payload())
    # Summer time in Paris: two hours ahead of UTC.
    Handoff.objects.filter(pk=handoff.pk).update(received_at=datetime(2025, 7, 1, 23, 30, tzinfo=UTC))
    return handoff


def received(client: Client, handoff: Handoff) -> tuple[str, str]:
    """Return the time of receipt as the page of the handoff shows it, and its title."""
    page = client.get(f"{LIST}{handoff.pk}/")
    place = '#facts time[datetime^="2025-07-01T23:30"]'
    return texts(page, place)[0], attributes(page, place, "title")[0]


def test_times_are_in_the_zone_of_the_browser_with_utc_on_hover(vik: Client, handoff: Handoff) -> None:
    assert received(vik, handoff)[0] == "1 Jul 2025"
    vik.cookies["time_zone"] = "Europe/Paris"
    shown, title = received(vik, handoff)
    assert shown == "2 Jul 2025"
    assert title.startswith("2025-07-01 23:30:00 UTC")
    [zone] = attributes(vik.get(LIST), "th.col-time abbr", "title")
    assert zone == "Europe/Paris; UTC on hover"


def test_times_that_are_read_aloud_are_in_the_zone_of_the_browser(vik: Client, handoff: Handoff) -> None:
    Event.objects.filter(handoff=handoff.pk).update(at=datetime(2025, 7, 1, 23, 30, tzinfo=UTC))
    vik.cookies["time_zone"] = "Europe/Paris"
    labels = attributes(vik.get(f"{LIST}{handoff.pk}/"), '[aria-label^="Link to the change"]', "aria-label")
    assert labels
    assert all(label.endswith(", 01:30:00") for label in labels)


def test_the_choice_of_the_person_goes_first(vik: Client, viewer: Person, handoff: Handoff) -> None:
    vik.cookies["time_zone"] = "Europe/Paris"
    saved = vik.post("/t/acme/preferences/time-zone/", {"zone": "America/New_York"}, follow=True)
    assert "Pages show times in America/New_York." in saved.text
    assert texts(saved, "#id_zone option[selected]") == ["America/New_York"]
    assert received(vik, handoff)[0] == "1 Jul 2025"
    vik.post("/t/acme/preferences/time-zone/", {"zone": ""})
    assert received(vik, handoff)[0] == "2 Jul 2025"


@pytest.mark.parametrize("name", ["../../../etc/passwd", "x" * 5000, "Europe", "Europe/Paris\n", "\u0661"])
def test_what_is_no_time_zone_is_refused_and_a_cookie_with_it_is_ignored(
    vik: Client, viewer: Person, handoff: Handoff, name: str
) -> None:
    refused = vik.post("/t/acme/preferences/time-zone/", {"zone": name}, follow=True)
    assert "is not a time zone. Choose one of the list" in refused.text
    viewer.refresh_from_db()
    assert viewer.time_zone == ""
    if name.isascii() and name.isprintable():
        vik.cookies["time_zone"] = name
    assert received(vik, handoff)[0] == "1 Jul 2025"


def test_the_zone_of_one_reader_ends_with_the_request() -> None:
    moment = datetime(2025, 7, 1, 23, 30, tzinfo=UTC)
    with access.use_zone(access.ZoneInfo("Europe/Paris")):
        assert "2 Jul 2025, 01:30 CEST" in ui.moment(moment)
        assert "2025-07-01 23:30:00 UTC" in ui.moment(moment)
    assert "1 Jul 2025, 23:30 UTC" in ui.moment(moment)


def test_what_a_person_decided_today_begins_at_their_midnight(
    vik: Client, handoff: Handoff, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    load = queue.load_progress
    monkeypatch.setattr(
        queue, "load_progress", lambda *args, **options: asked.append(options) or load(*args, **options)
    )
    vik.cookies["time_zone"] = "Europe/Paris"
    assert vik.get("/t/acme/review/").status_code == 200
    assert {str(options["zone"]) for options in asked} == {"Europe/Paris"}


def test_a_period_is_kept_across_pages_and_for_this_person_alone(vik: Client, admin: Person, tenant: Tenant) -> None:
    assert vik.get(COMPLIANCE).context["window"].period == "7d"
    vik.get(REASONS, {"period": "30d"})
    assert vik.get(COMPLIANCE).context["window"].period == "30d"
    assert vik.get("/t/acme/agents/").context["window"].period == "30d"
    vik.get(COMPLIANCE, {"since": "2026-02-01", "until": "2026-02-03"})
    assert vik.get(REASONS).context["window"].span == "2026-02-01 00:00 to 2026-02-03 00:00"
    other = Client()
    other.force_login(admin)
    assert other.get(COMPLIANCE).context["window"].period == "7d"


@pytest.mark.parametrize("kept", ["x", 7, {"period": "9999999999d"}, {"since": "never"}, [1]])
def test_a_period_that_is_not_understood_is_neither_kept_nor_used(vik: Client, tenant: Tenant, kept: object) -> None:
    vik.get(COMPLIANCE, {"period": "30d"})
    assert vik.get(COMPLIANCE, {"period": "yesterday"}).status_code == 400
    assert vik.get(COMPLIANCE).context["window"].period == "30d"
    session = vik.session
    session["period"] = kept
    session.save()
    assert vik.get(COMPLIANCE).context["window"].period == "7d"
