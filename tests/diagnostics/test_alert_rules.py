"""Tests of the alerts of alert rules: opened, raised, repeated and closed by the measured value."""

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from django.http import QueryDict
from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.diagnostics import alert_rules, removal
from handoffaudit.diagnostics.alert_rules import measure
from handoffaudit.diagnostics.models import Watermark
from handoffaudit.handoffs import alerts
from handoffaudit.handoffs.filters import Filters
from handoffaudit.handoffs.models import Alert, Handoff, State
from handoffaudit.handoffs.rates import rejection_rate
from handoffaudit.policy.alert_rules import Watched, parse_row
from handoffaudit.policy.kinds import alert_policy
from handoffaudit.validation.times import utc_text
from tests.handoffs.support import at_once, circular, held, judged, payload, submit

pytestmark = pytest.mark.django_db
MINUTE = timedelta(minutes=1)


@pytest.fixture
def now() -> datetime:
    return timezone.now()


Set = Callable[..., None]


@pytest.fixture
def watch(tenant: Tenant) -> Set:
    """Return a function that enables one alert rule and disables all others."""

    def watch(name: str, **fields: object) -> None:
        version = alert_policy.current(tenant).version
        rows = [parse_row({"name": one.value, "on": False}) for one in Watched if one != name]
        rows.append(parse_row({"name": name, "on": True, **fields}))
        alert_policy.save(tenant=tenant, base_version=version, rows=rows, actor="ada")

    return watch


def test_the_alert_of_the_rejection_rate_leads_to_what_the_rate_counts(tenant: Tenant) -> None:
    about = alerts.describe(Alert(tenant=tenant, kind=alerts.AlertKind.REJECTION_RATE))
    listed = Filters.from_query(QueryDict(about.query)).state
    assert rejection_rate(dict.fromkeys(listed, 1)).percent == 100
    assert {state for state in State if rejection_rate({state: 1, State.ACCEPTED: 1}).part} == set(listed)


def test_the_alert_about_failing_open_leads_to_the_handoffs_of_its_time(tenant: Tenant, watch: Set) -> None:
    watch("fail_open", window_minutes=30)
    at = timezone.now().replace(microsecond=0) + MINUTE
    alert = Alert(tenant=tenant, kind=alerts.AlertKind.FAIL_OPEN, opened_at=at, last_at=at + MINUTE)
    listed = Filters.from_query(QueryDict(alerts.describe(alert).query))
    assert listed == Filters(flag="unverified", state=("accepted",), since=at - 30 * MINUTE)
    alert.acknowledged_at = at + 5 * MINUTE
    assert Filters.from_query(QueryDict(alerts.describe(alert).query)).until == at + 5 * MINUTE


@pytest.fixture
def overdue(tenant: Tenant) -> Callable[[int], None]:
    """Return a function that makes the given number of holds overdue, and no others."""

    def overdue(number: int) -> None:
        rows = Handoff.objects.filter(tenant=tenant, state=State.HELD)
        rows.update(review_due_at=timezone.now() + timedelta(days=30))
        pks = list(rows.order_by("id").values_list("pk", flat=True)[:number])
        rows.filter(pk__in=pks).update(review_due_at=timezone.now() - timedelta(days=30))

    return overdue


@pytest.fixture
def holds(tenant: Tenant, watch: Set) -> None:
    """Submit five held handoffs, and enable an alert rule on overdue holds.

    The rule warns from two holds, alerts from four, resolves after 10 minutes and repeats every hour.
    """
    for _ in range(5):
        judged(tenant, held())
    watch("overdue_holds", warning=2, alert=4, clear_minutes=10, renotify_minutes=60)


def of(tenant: Tenant) -> list[tuple[str, str, float | None, bool]]:
    """Return the kind, the level, the value and the active state of each alert of the tenant."""
    rows = Alert.objects.filter(tenant=tenant).order_by("pk")
    return [(alert.kind, alert.level, alert.value, alert.acknowledged_at is None) for alert in rows]


def measured(tenant: Tenant, name: str, now: datetime) -> tuple[float | None, int]:
    row = alert_policy.current(tenant).row(name)
    assert row is not None
    found = measure(tenant, row, now)
    return found.value, found.number


def test_below_its_levels_nothing_is_said(tenant: Tenant, holds: None, overdue, now: datetime) -> None:
    overdue(1)
    alert_rules.evaluate(tenant, now)
    assert of(tenant) == []


def test_it_opens_gets_worse_and_closes_after_a_while(tenant: Tenant, holds: None, overdue, now: datetime) -> None:
    overdue(2)
    alert_rules.evaluate(tenant, now)
    assert of(tenant) == [("overdue_holds", "warning", 2.0, True)]
    overdue(4)
    alert_rules.evaluate(tenant, now + MINUTE)
    assert of(tenant) == [("overdue_holds", "alert", 4.0, True)]
    overdue(3)
    alert_rules.evaluate(tenant, now + 2 * MINUTE)
    assert of(tenant) == [("overdue_holds", "alert", 3.0, True)]
    overdue(0)
    alert_rules.evaluate(tenant, now + 11 * MINUTE)
    assert of(tenant)[0][3]
    alert_rules.evaluate(tenant, now + 12 * MINUTE)
    assert not of(tenant)[0][3]
    assert Alert.objects.get().acknowledged_by == "handoffaudit"


def test_about_its_threshold_it_does_not_flap(tenant: Tenant, holds: None, overdue, now: datetime) -> None:
    for minute in range(60):
        overdue(2 if minute % 5 == 0 else 0)
        alert_rules.evaluate(tenant, now + minute * MINUTE)
    assert len(of(tenant)) == 1
    alert = Alert.objects.get()
    assert (alert.notified_at, alert.acknowledged_at) == (alert.opened_at, None)


def test_while_it_stands_it_is_told_again(tenant: Tenant, holds: None, overdue, now: datetime) -> None:
    overdue(2)
    told = set()
    for minute in range(0, 130, 5):
        alert_rules.evaluate(tenant, now + minute * MINUTE)
        told.add(Alert.objects.get().notified_at)
    assert told == {now, now + 60 * MINUTE, now + 120 * MINUTE}


def test_what_a_person_acknowledged_is_not_opened_again_until_it_ended_or_got_worse(
    tenant: Tenant, holds: None, overdue, now: datetime
) -> None:
    overdue(2)
    alert_rules.evaluate(tenant, now)
    alerts.acknowledge(tenant=tenant, alert=Alert.objects.get().pk, actor="ada")
    for minute in range(1, 40):
        alert_rules.evaluate(tenant, now + minute * MINUTE)
    assert len(of(tenant)) == 1
    overdue(4)
    alert_rules.evaluate(tenant, now + 40 * MINUTE)
    assert [one[1] for one in of(tenant)] == ["warning", "alert"]
    alerts.acknowledge(tenant=tenant, alert=Alert.objects.latest("pk").pk, actor="ada")
    overdue(0)
    for minute in range(41, 53):
        alert_rules.evaluate(tenant, now + minute * MINUTE)
    overdue(2)
    alert_rules.evaluate(tenant, now + 53 * MINUTE)
    assert [one[3] for one in of(tenant)] == [False, False, True]


def test_switched_off_it_closes(tenant: Tenant, holds: None, overdue, watch: Set, now: datetime) -> None:
    overdue(2)
    alert_rules.evaluate(tenant, now)
    watch("queue_age")
    alert_rules.evaluate(tenant, now + MINUTE)
    assert not of(tenant)[0][3]


def test_the_rejection_rate_is_of_what_was_judged_in_the_window(tenant: Tenant, watch: Set, now: datetime) -> None:
    watch("rejection_rate", warning=0.5, alert=0.9, window_minutes=30, minimum=4)
    for document in (payload(), circular(), circular()):
        judged(tenant, document)
    submit(tenant, circular())
    now = timezone.now()
    assert measured(tenant, "rejection_rate", now) == (None, 2)
    judged(tenant, payload())
    assert measured(tenant, "rejection_rate", timezone.now()) == (0.6, 3)
    alert_rules.evaluate(tenant, timezone.now())
    assert of(tenant) == [("rejection_rate", "warning", 0.6, True)]
    assert measured(tenant, "rejection_rate", now + timedelta(minutes=31)) == (None, 0)


def test_long_windows_are_read_from_the_counts_of_hours(tenant: Tenant, watch: Set) -> None:
    watch("rejection_rate", window_minutes=120, minimum=2)
    for document in (payload(), circular()):
        judged(tenant, document)
    assert measured(tenant, "rejection_rate", timezone.now()) == (0.5, 1)


def test_the_queue_is_as_old_as_its_oldest(tenant: Tenant, watch: Set, now: datetime) -> None:
    watch("queue_age", warning=60, alert=600)
    assert measured(tenant, "queue_age", now) == (0.0, 0)
    submit(tenant, payload())
    received = Handoff.objects.get().received_at
    assert measured(tenant, "queue_age", received + timedelta(seconds=90)) == (90.0, 1)
    Handoff.objects.update(parked=True)
    assert measured(tenant, "queue_age", received + timedelta(seconds=90)) == (0.0, 0)


def test_the_queue_is_as_old_as_what_was_received_first(tenant: Tenant, now: datetime) -> None:
    submit(tenant, payload())
    received = Handoff.objects.get().received_at
    submit(tenant, payload(), sent_at=utc_text(now - timedelta(hours=1)))
    assert measured(tenant, "queue_age", received + timedelta(seconds=90)) == (90.0, 1)


@pytest.mark.parametrize("window_minutes", [30, 90])
def test_late_handoffs_count_in_the_window_of_their_receipt(
    tenant: Tenant, watch: Set, now: datetime, window_minutes: int
) -> None:
    soon = now + MINUTE
    for document, sent_at in (
        (payload(), None),
        (payload(), now - timedelta(hours=5)),
        (payload(), now - timedelta(minutes=1)),
        (circular(), now - timedelta(days=2)),
    ):
        judged(tenant, document, **({"sent_at": utc_text(sent_at)} if sent_at else {}))
    watch("rejection_rate", window_minutes=window_minutes, minimum=1)
    assert measured(tenant, "rejection_rate", soon) == (0.25, 1)
    Handoff.objects.filter(state=State.ACCEPTED).update(unverified=True)
    watch("fail_open", window_minutes=window_minutes)
    assert measured(tenant, "fail_open", soon) == (3.0, 3)
    Handoff.objects.exclude(sent_at=None).update(received_at=now - timedelta(hours=3))
    assert measured(tenant, "fail_open", soon) == (2.0, 2)


def test_the_last_handoff_may_be_a_late_one(tenant: Tenant, now: datetime) -> None:
    assert alert_rules.last_received(tenant) is None
    submit(tenant, payload())
    submit(tenant, payload(), sent_at=utc_text(now - timedelta(hours=1)))
    late = Handoff.objects.get(sent_at__isnull=False)
    assert alert_rules.last_received(tenant) == late.received_at
    submit(tenant, payload())
    assert alert_rules.last_received(tenant) == Handoff.objects.latest("id").received_at


def test_what_passed_unchecked_is_counted_in_the_window(tenant: Tenant, watch: Set) -> None:
    watch("fail_open", warning=1, alert=2, window_minutes=60)
    judged(tenant, payload())
    Handoff.objects.update(unverified=True)
    assert measured(tenant, "fail_open", timezone.now()) == (1.0, 1)
    assert measured(tenant, "fail_open", timezone.now() + timedelta(minutes=61)) == (0.0, 0)


def test_no_handoffs_may_be_well(tenant: Tenant, watch: Set) -> None:
    watch("rejection_rate", warning=0.5, minimum=1, window_minutes=10, no_data="ok", clear_minutes=0)
    judged(tenant, circular())
    now = timezone.now()
    alert_rules.evaluate(tenant, now)
    alert_rules.evaluate(tenant, now + 11 * MINUTE)
    assert of(tenant) == [("rejection_rate", "alert", 1.0, False)]


def test_no_handoffs_may_leave_it_as_it_is(tenant: Tenant, watch: Set) -> None:
    watch("rejection_rate", warning=0.5, minimum=1, window_minutes=10, no_data="keep", clear_minutes=0)
    judged(tenant, circular())
    now = timezone.now()
    alert_rules.evaluate(tenant, now)
    alert_rules.evaluate(tenant, now + 100 * MINUTE)
    assert of(tenant) == [("rejection_rate", "alert", 1.0, True)]


def test_no_handoffs_may_be_an_alert_of_its_own(tenant: Tenant, watch: Set) -> None:
    watch("rejection_rate", minimum=1, window_minutes=10, no_data="alert")
    alert_rules.evaluate(tenant, timezone.now())
    assert of(tenant) == []
    judged(tenant, payload())
    received = Handoff.objects.get().received_at
    alert_rules.evaluate(tenant, received + 9 * MINUTE)
    assert of(tenant) == []
    alert_rules.evaluate(tenant, received + 10 * MINUTE)
    assert of(tenant) == [("no_handoffs", "alert", 600.0, True)]
    alert_rules.evaluate(tenant, received + 2 * MINUTE)
    assert of(tenant) == [("no_handoffs", "alert", 600.0, False)]


def test_the_alert_of_no_handoffs_stays_when_retention_removes_the_last_one(tenant: Tenant, watch: Set) -> None:
    watch("rejection_rate", minimum=1, window_minutes=10, no_data="alert")
    received = judged(tenant, payload()).received_at
    alert_rules.evaluate(tenant, received + 10 * MINUTE)
    removal.remove_handoffs(tenant, list(Handoff.objects.values_list("pk", flat=True)), received + MINUTE)
    alert_rules.evaluate(tenant, received + 11 * MINUTE)
    assert of(tenant) == [("no_handoffs", "alert", 600.0, True)]


def test_alerts_of_events_are_told_again_each_day(tenant: Tenant, now: datetime) -> None:
    alerts.raise_alert(tenant.pk, alerts.AlertKind.WOULD_HAVE_REJECTED, 1)
    opened = Alert.objects.get().opened_at
    told = set()
    for hours in range(0, 60, 6):
        alert_rules.evaluate(tenant, opened + timedelta(hours=hours))
        told.add(Alert.objects.get().notified_at)
    assert told == {None, opened + timedelta(hours=24), opened + timedelta(hours=48)}


def test_tenants_have_their_own(tenant: Tenant, other_tenant: Tenant, holds: None, overdue, now: datetime) -> None:
    overdue(5)
    alert_rules.evaluate(other_tenant, now)
    assert not Alert.objects.exists()


def test_a_tenant_that_cannot_be_evaluated_keeps_no_other_from_being_told(
    other_tenant: Tenant, tenant: Tenant, holds: None, overdue, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert other_tenant.pk < tenant.pk

    def last_received(of: Tenant) -> datetime | None:
        if of == other_tenant:
            raise ValueError("our own bug")
        return None

    monkeypatch.setattr(alert_rules, "last_received", last_received)
    overdue(5)
    assert alert_rules.evaluate_all()
    assert [(kind, stands) for kind, _, _, stands in of(tenant)] == [("overdue_holds", True)]


def test_it_is_done_once_a_minute(tenant: Tenant) -> None:
    assert alert_rules.anything_due()
    assert alert_rules.evaluate_all()
    assert not alert_rules.anything_due()
    assert not alert_rules.evaluate_all()
    Watermark.objects.filter(name="thresholds").update(at=timezone.now() - MINUTE)
    assert alert_rules.anything_due()
    assert alert_rules.evaluate_all()


def test_a_clock_that_was_ahead_does_not_keep_alerts_back(tenant: Tenant) -> None:
    Watermark.objects.create(name="thresholds", at=timezone.now() + timedelta(days=900))
    assert alert_rules.anything_due()
    assert alert_rules.evaluate_all()
    assert not alert_rules.anything_due()


@pytest.mark.django_db(transaction=True)
def test_of_several_at_once_one_does_it(tenant: Tenant, holds: None, overdue) -> None:
    overdue(5)
    assert sorted(at_once(*[alert_rules.evaluate_all] * 4)) == [False, False, False, True]
    assert len(of(tenant)) == 1
