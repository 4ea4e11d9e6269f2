"""Tests of the counts of handoff files, summed by the database."""

from datetime import timedelta

import pytest
from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.diagnostics import file_stats
from handoffaudit.diagnostics.file_reports import Effect, measure_effect, recount_days
from handoffaudit.diagnostics.file_stats import FileTally
from handoffaudit.diagnostics.models import DailyFileCount, HourlyFileCount
from handoffaudit.handoffs.periods import HOUR, window_of
from handoffaudit.handoffs.recount import Difference
from tests.diagnostics.support import NOW, counted, window_then

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("_all_hours_kept")]
DAY = window_then({"period": "24h"})


def test_only_a_file_without_a_reason_is_used(tenant: Tenant):
    counted(tenant, "a", 5)
    counted(tenant, "a", 2, "file_missing", fallback="text_fallback_ok")
    counted(tenant, "a", 1, "schema_invalid", fallback="text_fallback_fail")
    counted(tenant, "a", 3, "json_parse_error", phase="fix", source="handoff_json")
    assert file_stats.overall(tenant, DAY.since, DAY.until) == FileTally(5, 2, 3, 1, 0, 2, 1)


def test_what_logs_of_others_say_is_counted_where_it_belongs(tenant: Tenant):
    counted(tenant, "a", 4, "text_fallback_ok")
    counted(tenant, "a", 1, fallback="text_fallback_fail")
    tally = file_stats.overall(tenant, DAY.since, DAY.until)
    assert (tally.used, tally.fallback_ok, tally.fallback_failed) == (0, 4, 1)


def test_the_effect_of_the_policy_counts_what_logs_of_others_say(tenant: Tenant):
    now = timezone.now()
    counted(tenant, "a", 4, "text_fallback_ok", now=now)
    counted(tenant, "a", 3, fallback="text_fallback_fail", now=now)
    counted(tenant, "a", 2, "json_parse_error", source="handoff_json", now=now)
    counted(tenant, "a", 1, now=now)
    assert measure_effect(tenant) == Effect(total=10, failed=5, failed_if_strict=9)


def test_a_line_with_only_a_fallback_as_its_reason_counts_under_that_reason(tenant: Tenant):
    counted(tenant, "a", 4, "text_fallback_ok")
    counted(tenant, "a", 3, fallback="text_fallback_fail")
    counted(tenant, "a", 2, "other")
    counted(tenant, "a", 1, "file_missing", fallback="text_fallback_ok")
    counted(tenant, "a", 1)
    tally = file_stats.overall(tenant, DAY.since, DAY.until)
    given = {reason: number for reason, number in tally.reasons.items() if number}
    assert given == {"file_missing": 1, "text_fallback_ok": 4, "text_fallback_fail": 3, "other": 2}
    assert (tally.total, tally.unused, tally.main_reason) == (11, 10, "text_fallback_ok")
    # Tables with fixed columns add up, too.
    assert tally.file_reasons == {"file_missing": 1, "json_parse_error": 0, "schema_invalid": 0, "other": 9}
    assert [pair.tally for pair in file_stats.pairs(tenant, DAY.since, DAY.until)] == [tally]


def test_a_line_that_tells_of_a_fallback_is_not_used_whatever_source_it_names(tenant: Tenant):
    for fallback, number in (("", 1), ("text_fallback_fail", 2)):
        counted(tenant, "a", number, source="handoff_json", fallback=fallback)
    tally = file_stats.overall(tenant, DAY.since, DAY.until)
    assert (tally.used, tally.text_fallback_fail, tally.total) == (1, 2, 3)


def test_hours_outside_and_other_tenants_do_not_count(tenant: Tenant, other_tenant: Tenant):
    counted(tenant, "a", 1)
    counted(tenant, "a", 10, ago=timedelta(days=1))
    counted(tenant, "a", 100, ago=timedelta(hours=-1))
    counted(other_tenant, "a", 1000)
    assert file_stats.overall(tenant, DAY.since, DAY.until).used == 1
    assert file_stats.overall(tenant, DAY.before_since, DAY.before_until).used == 10


def test_pairs_are_told_apart_and_the_most_unused_come_first(tenant: Tenant):
    counted(tenant, "a", 9)
    counted(tenant, "b", 1, "file_missing")
    counted(tenant, "a", 2, "file_missing", phase="fix")
    found = [(pair.phase, pair.agent, pair.tally.unused) for pair in file_stats.pairs(tenant, DAY.since, DAY.until)]
    assert found == [("fix", "a", 2), ("plan", "b", 1), ("plan", "a", 0)]


def test_pairs_ever_seen_are_known_each_once_in_order(tenant: Tenant, other_tenant: Tenant):
    assert file_stats.known_pairs(tenant) == []
    for hours in range(3):
        for phase in ("plan", "fix"):
            counted(tenant, "a", 1, phase=phase, ago=timedelta(hours=hours))
    counted(tenant, "", 1, phase="plan", ago=timedelta(days=900))
    counted(other_tenant, "z", 1)
    assert file_stats.known_pairs(tenant) == [("fix", "a"), ("plan", ""), ("plan", "a")]


def test_more_pairs_than_are_listed_are_cut(tenant: Tenant, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(file_stats, "MOST_PAIRS", 3)
    for number in range(6):
        counted(tenant, f"a{number}", 1)
    assert len(file_stats.known_pairs(tenant)) == len(file_stats.pairs(tenant, DAY.since, DAY.until)) == 3


def test_stretches_of_time_have_all_that_is_in_the_window(tenant: Tenant):
    week = window_of({"period": "7d"}, NOW)
    for hours in range(0, 200, 7):
        counted(tenant, "a", 1, ago=timedelta(hours=hours))
    buckets = file_stats.over_time(tenant, week)
    assert sum(one.value.used for one in buckets) == file_stats.overall(tenant, week.since, week.until).used == 24
    assert [one.since for one in buckets] == sorted(one.since for one in buckets)


@pytest.mark.parametrize("source", ["handoff_json", "text_fallback", "x"])
@pytest.mark.parametrize("reason", ["", *file_stats.GIVEN, "x"])
def test_a_day_counts_each_file_as_its_hours_do(tenant: Tenant, source: str, reason: str):
    for number, fallback in enumerate(["", "text_fallback_ok", "text_fallback_fail", "x"]):
        counted(tenant, "a", 10**number, reason, source=source, fallback=fallback)
    midnight, noon = NOW.replace(hour=0, minute=0), NOW.replace(hour=12, minute=0)
    # The day as a whole is read from the daily counts, and half a day from the hourly counts.
    of_day = file_stats.overall(tenant, midnight, midnight + timedelta(days=1))
    assert of_day == file_stats.overall(tenant, noon, noon + 6 * HOUR) != FileTally()
    buckets = file_stats.over_time(tenant, window_of({"period": "7d"}, NOW))
    assert of_day == FileTally.of(one.value for one in buckets)


@pytest.mark.parametrize("since", [0, 5, 12, 13, 23])
@pytest.mark.parametrize("until", [0, 5, 12, 13, 23])
def test_a_period_of_days_has_exactly_its_hours(tenant: Tenant, since: int, until: int):
    begin = NOW.replace(hour=0, minute=0) - timedelta(days=3)
    for hours in range(0, 97, 1):
        counted(tenant, "a", 1, ago=timedelta(), now=begin + hours * HOUR)
    found = file_stats.overall(tenant, begin + since * HOUR, begin + timedelta(days=3, hours=until))
    assert found.used == 72 + until - since


@pytest.mark.parametrize("time_of_day", [1, 9, 15, 22])
def test_hours_after_now_do_not_count(tenant: Tenant, monkeypatch: pytest.MonkeyPatch, time_of_day: int):
    now = NOW.replace(hour=time_of_day)
    monkeypatch.setattr(file_stats.timezone, "now", lambda: now)
    counted(tenant, "a", 1, ago=timedelta(), now=now)
    counted(tenant, "a", 10, ago=-HOUR, now=now)
    counted(tenant, "a", 100, ago=timedelta(days=-1), now=now)
    week = window_of({"period": "7d"}, now)
    assert file_stats.overall(tenant, week.since, week.until).used == 1
    assert sum(one.value.used for one in file_stats.over_time(tenant, week)) == 1


def test_buckets_of_days_are_the_days(tenant: Tenant):
    month = window_then({"period": "30d"})
    for hours in range(0, 740, 5):
        counted(tenant, "a", 1, ago=timedelta(hours=hours))
    buckets = file_stats.over_time(tenant, month)
    assert sum(one.value.used for one in buckets) == file_stats.overall(tenant, month.since, month.until).used == 144
    assert {one.value.used for one in buckets[1:-1]} == {4, 5}


def test_a_recount_corrects_the_daily_counts(tenant: Tenant, other_tenant: Tenant):
    counted(tenant, "a", 3)
    counted(tenant, "b", 2, "file_missing")
    counted(other_tenant, "a", 5)
    right = sorted(DailyFileCount.objects.values_list("tenant", "agent", "used", "file_missing"))
    hours = sorted(HourlyFileCount.objects.values_list("tenant", "hour", "reason", "number"))
    assert [number for *_, number in hours] == [3, 2, 5]
    assert recount_days() == Difference(6, 0)
    DailyFileCount.objects.filter(tenant=other_tenant).delete()
    DailyFileCount.objects.filter(agent="b").update(used=7, file_missing=0)
    HourlyFileCount.objects.filter(reason="file_missing").update(number=1)
    assert recount_days(repair=False).wrong == 3
    assert recount_days() == Difference(6, 3)
    assert sorted(DailyFileCount.objects.values_list("tenant", "agent", "used", "file_missing")) == right
    assert sorted(HourlyFileCount.objects.values_list("tenant", "hour", "reason", "number")) == hours
