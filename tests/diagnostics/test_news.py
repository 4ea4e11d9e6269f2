"""Tests of the news: what is new or moved since yesterday, and what is not worth a line."""

from datetime import UTC, date, datetime, timedelta

import pytest

from handoffaudit.accounts.models import Tenant
from handoffaudit.diagnostics.news import DAYS_BEFORE, DAYS_OF_ROUTES, MOST_OF_A_KIND, has_moved, load_news
from handoffaudit.handoffs.models import DailyCount, DailyPair, HourlyTotal
from handoffaudit.handoffs.rates import Share
from handoffaudit.policy.models import PolicyVersion

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 3, 20, 15, 40, tzinfo=UTC)
TODAY, BEFORE = NOW.date(), NOW.date() - timedelta(days=5)


def count_route(tenant: Tenant, day: date, target: str, accepted: int, stopped: int = 0, superseded: int = 0) -> None:
    DailyPair.objects.create(
        tenant=tenant,
        day=day,
        source_agent_id="planner",
        target_agent_id=target,
        accepted=accepted,
        stopped=stopped,
        decided=0,
        superseded=superseded,
    )


def count_code(tenant: Tenant, day: date, code: str, number: int = 3) -> None:
    hour = datetime(day.year, day.month, day.day, 10, tzinfo=UTC)
    HourlyTotal.objects.create(tenant=tenant, hour=hour, state="rejected", code=code, number=number)
    if code:
        DailyCount.objects.create(
            tenant=tenant,
            day=day,
            source_agent_id="planner",
            handoff_type="report",
            code=code,
            accepted=0,
            decided=0,
            stopped=number,
            superseded=0,
        )


def test_a_new_tenant_has_no_news(tenant: Tenant) -> None:
    count_route(tenant, TODAY, "writer", 30)
    count_code(tenant, TODAY, "chain.circular")
    news = load_news(tenant, NOW)
    assert (bool(news), news.is_comparable, news.since) == (False, False, datetime(2026, 3, 19, tzinfo=UTC))


def test_only_what_is_new_is_told(tenant: Tenant, other_tenant: Tenant) -> None:
    for of in (tenant, other_tenant):
        count_code(of, BEFORE, "", 100)
        count_code(of, BEFORE, "chain.circular")
        count_route(of, BEFORE, "writer", 100)
    for code in ("chain.circular", "structure.empty"):
        count_code(tenant, TODAY, code)
    count_code(other_tenant, TODAY, "grounding.number")
    for target in ("writer", "editor"):
        count_route(tenant, TODAY, target, 30)
    PolicyVersion.objects.create(tenant=other_tenant, kind="strictness", number=1, content="[]", changed_by="rui")
    news = load_news(tenant, NOW)
    assert (news.codes, news.routes) == ([("structure.empty", 3)], [(("planner", "editor"), 30)])
    assert (news.rates, news.policies) == ([], [])


@pytest.mark.parametrize(("days", "is_new"), [(2, False), (DAYS_BEFORE + 2, False), (DAYS_OF_ROUTES + 2, True)])
def test_a_route_is_new_after_some_weeks_without_it(tenant: Tenant, days: int, is_new: bool) -> None:
    count_code(tenant, BEFORE, "", 100)
    count_route(tenant, TODAY - timedelta(days=days), "writer", 100)
    count_route(tenant, TODAY, "writer", 7)
    assert load_news(tenant, NOW).routes == ([(("planner", "writer"), 7)] if is_new else [])


def test_a_new_route_counts_the_handoffs_of_the_list_behind_it_and_has_two_agents(tenant: Tenant) -> None:
    count_code(tenant, BEFORE, "", 100)
    count_route(tenant, TODAY, "writer", 3, superseded=4)
    count_route(tenant, TODAY, "", 5)
    assert load_news(tenant, NOW).routes == [(("planner", "writer"), 7)]


def test_a_rate_that_fell_comes_before_one_that_rose(tenant: Tenant) -> None:
    count_code(tenant, BEFORE, "", 100)
    for target, before, now in (("writer", 95, 30), ("editor", 40, 95), ("critic", 90, 85)):
        count_route(tenant, BEFORE, target, before, 100 - before)
        count_route(tenant, TODAY, target, now, 100 - now)
    moved = load_news(tenant, NOW).rates
    assert [(one.target, one.has_fallen) for one in moved] == [("writer", True), ("editor", False)]


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        (Share(95, 100), Share(30, 100), True),
        # Too few, too little, and within chance.
        (Share(45, 49), Share(0, 100), False),
        (Share(95, 100), Share(0, 19), False),
        (Share(9_500, 10_000), Share(8_600, 10_000), False),
        (Share(60, 100), Share(9, 20), False),
        (Share(100, 100), Share(100, 100), False),
        (Share(0, 0), Share(0, 0), False),
    ],
)
def test_a_rate_moves_beyond_chance_and_by_ten_points(before: Share, now: Share, expected: bool) -> None:
    assert has_moved(before, now) is expected


def test_the_news_are_bounded(tenant: Tenant) -> None:
    count_code(tenant, BEFORE, "", 100)
    for number in range(MOST_OF_A_KIND + 3):
        count_code(tenant, TODAY, f"rules.{number}")
        count_route(tenant, TODAY, f"agent-{number}", number + 1)
        PolicyVersion.objects.create(tenant=tenant, kind="rules", number=number, content="[]", changed_by="rui")
    news = load_news(tenant, NOW)
    assert [len(news.codes), len(news.routes), len(news.policies)] == [MOST_OF_A_KIND] * 3
    assert news.routes[0] == (("planner", "agent-7"), 8)


def test_saved_policies_that_judge_nothing_push_out_no_other(tenant: Tenant) -> None:
    for number, kind in enumerate(["strictness", *["thresholds"] * MOST_OF_A_KIND], 1):
        PolicyVersion.objects.create(tenant=tenant, kind=kind, number=number, content="[]", changed_by="rui")
    assert [one.kind for one in load_news(tenant, NOW).policies] == ["strictness"]
