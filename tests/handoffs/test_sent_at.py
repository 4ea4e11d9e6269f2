"""Tests of handoffs that were sent late, with the time of the handoff beside the document."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.diagnostics.trace_list import list_traces
from handoffaudit.diagnostics.traces import load_trace
from handoffaudit.handoffs import export, judge, queries, recount
from handoffaudit.handoffs.filters import Filters, first_id_at
from handoffaudit.handoffs.models import Event, Handoff, HourlyTotal, State, id_at
from handoffaudit.validation.times import hour_of, utc_text
from tests.handoffs.support import assert_counts_are_right, judged, payload, submit

pytestmark = pytest.mark.django_db


def before(**ago: float) -> datetime:
    return timezone.now() - timedelta(**ago)


def late(tenant: Tenant, sent: datetime, **changes: Any) -> Handoff:
    return judged(tenant, payload(**changes), trace_id="t", sent_at=utc_text(sent))


def reason(handoff: Handoff) -> str:
    return Event.objects.filter(handoff=handoff.pk).order_by("id")[0].reason


def test_a_late_handoff_stands_at_its_own_time(tenant: Tenant) -> None:
    sent = before(days=2)
    now = judged(tenant, payload(handoff_id="now"), trace_id="t")
    handoff = late(tenant, sent, handoff_id="late")
    assert (handoff.sent_at, handoff.at) == (sent, sent)
    assert timezone.now() - handoff.received_at < timedelta(minutes=1)
    assert reason(handoff) == ""
    assert [one.handoff_id for one in queries.list_handoffs(tenant, Filters()).items] == ["now", "late"]
    assert [one.handoff_id for one in queries.trace(tenant, "t")] == ["late", "now"]
    lately = Filters(since=before(days=1))
    assert [one.handoff_id for one in queries.list_handoffs(tenant, lately).items] == ["now"]
    trace = load_trace(tenant, "t")
    assert trace is not None
    assert [one.handoff.handoff_id for one in trace.handoffs] == ["late", "now"]
    seconds = trace.handoffs[1].seconds
    assert seconds is not None
    assert abs(seconds - 2 * 86400) < 60
    (listed,) = list_traces(tenant, Filters()).items
    assert (listed.started_at, listed.newest_at) == (sent, now.received_at)


def test_rates_count_it_in_the_hour_in_which_it_was_sent(tenant: Tenant) -> None:
    sent = before(days=3)
    late(tenant, sent)
    hours = HourlyTotal.objects.filter(tenant=tenant, code="").values_list("hour", flat=True)
    assert list(hours) == [hour_of(sent)]
    assert_counts_are_right()
    assert recount.recount().wrong == 0


@pytest.mark.parametrize(
    ("sent", "remark"),
    [
        (timedelta(days=-7, seconds=-30), "more than 7 days before the receipt"),
        (timedelta(days=-4000), "more than 7 days before the receipt"),
        (timedelta(minutes=4), ""),
        (timedelta(minutes=6), "after the receipt"),
        (timedelta(days=4000), "after the receipt"),
    ],
)
def test_a_time_outside_the_window_is_not_used(tenant: Tenant, sent: timedelta, remark: str) -> None:
    handoff = late(tenant, timezone.now() + sent)
    assert handoff.sent_at is None
    assert handoff.at == handoff.received_at
    assert first_id_at(handoff.received_at - timedelta(seconds=5)) < handoff.pk
    assert remark in reason(handoff)
    assert bool(remark) is bool(reason(handoff))


def test_just_within_seven_days_is_used(tenant: Tenant) -> None:
    sent = before(days=6, hours=23, minutes=59)
    assert late(tenant, sent).at == sent


@pytest.mark.parametrize(
    "odd",
    [
        "yesterday",
        "",
        "2026-02-15",
        "2026-02-15T00:15:00",
        "2026-13-45T99:99:99Z",
        "0001-01-01T00:00:00+23:59",
        "9999-12-31T23:59:59-23:59",
        "2026-02-15T00:15:00+99:00",
        "٢٠٢٦-02-15T00:15:00Z",
        "2026-02-15T00:15:00Z\x00",
        "9" * 100_000,
    ],
)
def test_an_odd_time_is_said_and_the_submission_is_kept(tenant: Tenant, odd: str) -> None:
    receipt = submit(tenant, payload(handoff_id="h"), sent_at=odd)
    assert receipt.status == 422
    (issue,) = receipt.issues
    assert (issue.code, issue.location) == ("structure.bad_format", ("sent_at",))
    assert len(issue.message) < 300
    assert submit(tenant, payload(handoff_id="h"), sent_at=utc_text(before(hours=1))).status == 202


@pytest.mark.parametrize("wrong", [7, True, {}, []])
def test_a_time_of_another_type_is_said(tenant: Tenant, wrong: Any) -> None:
    (issue,) = submit(tenant, payload(), sent_at=wrong).issues
    assert (issue.code, issue.location) == ("structure.wrong_type", ("sent_at",))


@pytest.mark.parametrize(
    "written", ["{:%Y-%m-%dT%H:%M:%S}Z", "{:%Y-%m-%dt%H:%M:%S.000001}z", "{:%Y-%m-%dT%H:%M:%S}-00:00"]
)
def test_a_time_may_be_written_in_all_forms_of_rfc_3339(tenant: Tenant, written: str) -> None:
    sent = before(hours=5)
    handoff = judged(tenant, payload(), sent_at=written.format(sent))
    assert handoff.sent_at is not None
    assert abs(handoff.sent_at - sent) <= timedelta(seconds=1)


def test_the_same_handoff_sent_again_is_stored_once(tenant: Tenant) -> None:
    sent = utc_text(before(hours=1))
    first = submit(tenant, payload(handoff_id="h"), sent_at=sent)
    again = submit(tenant, payload(handoff_id="h"), sent_at=sent)
    other_time = submit(tenant, payload(handoff_id="h"), sent_at=utc_text(before(hours=2)))
    assert [first.status, again.status, other_time.status] == [202, 200, 200]
    assert Handoff.objects.count() == 1


def test_a_chain_is_derived_in_the_order_of_the_times(tenant: Tenant) -> None:
    start = before(hours=3)
    ways = [("triage", "researcher"), ("researcher", "writer"), ("writer", "editor")]
    for at in (2, 0, 1):
        source, target = ways[at]
        document = payload(source_agent_id=source, target_agent_id=target, handoff_id=str(at), data={"n": at})
        del document["call_chain"]
        submit(tenant, document, trace_id="t", sent_at=utc_text(start + timedelta(minutes=at)))
    judge.drain()
    verdict = queries.current_verdict(queries.get(tenant, "2"))
    assert verdict is not None
    assert verdict["chain"]["derived"] == ["triage", "researcher", "writer"]


def test_an_export_keeps_the_time(tenant: Tenant) -> None:
    sent = before(hours=1)
    handoff = late(tenant, sent)
    (line,) = export.lines(tenant, Filters())
    assert line.text is not None
    assert f'"sent_at": "{utc_text(sent)}"'.encode() in line.text
    assert handoff.state == State.ACCEPTED


def test_ids_have_the_order_of_their_moments_and_then_of_arrival() -> None:
    moment = datetime(2026, 2, 15, 0, 15, 0, 123_456, tzinfo=UTC)
    ids = [id_at(moment) for _ in range(100)]
    assert ids == sorted(ids)
    assert len(set(ids)) == 100
    steps = [timedelta(), timedelta(microseconds=1), timedelta(milliseconds=1), timedelta(days=1)]
    moments = [id_at(moment + step) for step in steps]
    assert moments == sorted(moments)
    assert {one.version for one in [*ids, *moments]} == {7}
    assert all(first_id_at(moment) <= one < first_id_at(moment + timedelta(milliseconds=1)) for one in ids)
