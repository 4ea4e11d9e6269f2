"""Tests of the counts of handoff files, summed by the database."""

from datetime import timedelta

import pytest

from handoffaudit.accounts.models import Tenant
from handoffaudit.diagnostics import file_stats
from handoffaudit.diagnostics.file_stats import FileTally
from handoffaudit.diagnostics.models import HealthCount
from handoffaudit.handoffs.periods import HOUR, window_of
from tests.diagnostics.support import NOW, counted, window_then

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("_all_hours_kept")]
DAY = window_then({"period": "24h"})


def test_only_a_file_without_a_reason_is_used(tenant: Tenant):
    counted(tenant, "a", 5)
    counted(tenant, "a", 2, "file_missing", fallback="text_fallback_ok")
    counted(tenant, "a", 1, "schema_invalid", fallback="text_fallback_fail")
    HealthCount.objects.create(
        tenant=tenant,
        hour=NOW - HOUR,
        agent="a",
        phase="fix",
        source="handoff_json",
        reason="json_parse_error",
        number=3,
    )
    assert file_stats.overall(tenant, DAY.since, DAY.until) == FileTally(5, 2, 3, 1, 0, 2, 1)


def test_what_logs_of_others_say_is_counted_where_it_belongs(tenant: Tenant):
    counted(tenant, "a", 4, "text_fallback_ok")
    counted(tenant, "a", 1, fallback="text_fallback_fail")
    tally = file_stats.overall(tenant, DAY.since, DAY.until)
    assert (tally.used, tally.fallback_ok, tally.fallback_failed) == (0, 4, 1)


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
        HealthCount.objects.create(
            tenant=tenant,
            hour=NOW - HOUR,
            agent="a",
            phase="plan",
            source="handoff_json",
            fallback=fallback,
            number=number,
        )
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
