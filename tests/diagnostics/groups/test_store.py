"""Tests that similar findings form one finding group, in which each handoff counts once."""

from datetime import timedelta

import orjson
import pytest
from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.diagnostics import attribution, group_store
from handoffaudit.diagnostics.models import FindingGroup, FindingGroupDay, GroupedHandoff, TracedHandoff
from handoffaudit.handoffs.models import Handoff, Verdict, new_id
from tests.diagnostics.groups.support import assert_groups_are_right, found, group, kept, routes
from tests.handoffs.support import NOT_ASKED, at_once, held, judged, payload

pytestmark = pytest.mark.django_db


def judged_again(handoff: Handoff, *issues: tuple[str, str, str]) -> None:
    """Store a later verdict with these findings, each given as rule code, severity and path."""
    told = [{"code": code, "severity": severity, "field_path": path} for code, severity, path in issues]
    later = Verdict.objects.create(
        id=new_id(),
        tenant=handoff.tenant,
        handoff=handoff,
        outcome="accepted",
        policy_version=0,
        validated_at=timezone.now(),
        content=orjson.dumps({"issues": told}).decode(),
    )
    Handoff.objects.filter(pk=handoff.pk).update(verdict=later.pk, codes=[code for code, _, _ in issues])


def test_the_same_finding_between_the_same_agents_is_one_group(tenant: Tenant) -> None:
    handoffs = found(tenant, 3)
    one = group(tenant)
    assert (one.number, routes(one)) == (3, {("researcher", "planner"): 3})
    assert (one.first_seen, one.last_seen) == (handoffs[0].received_at, handoffs[2].received_at)
    assert FindingGroupDay.objects.filter(group=one).count() >= 1
    assert_groups_are_right()


def test_another_entry_of_the_list_is_the_same_group(tenant: Tenant) -> None:
    first, second = judged(tenant, payload()), judged(tenant, payload())
    judged_again(
        first, ("schema.type", "error", "data.items[0].price"), ("schema.type", "error", "data.items[7].price")
    )
    judged_again(second, ("schema.type", "error", "data.items[3].price"))
    attribution.run()
    one = group(tenant, "schema.type")
    assert (one.path_shape, one.number) == ("data.items[*].price", 2)
    assert_groups_are_right()


def test_another_route_joins_the_group_and_another_tenant_has_its_own(tenant: Tenant, other_tenant: Tenant) -> None:
    found(tenant)
    found(tenant, 2, source_agent_id="critic", call_chain=["planner", "critic"])
    found(other_tenant, tenant_id="globex")
    assert sorted(kept().values()) == [1, 3]
    assert routes(group(tenant)) == {("researcher", "planner"): 1, ("critic", "planner"): 2}
    assert_groups_are_right()


def test_that_nobody_could_be_asked_is_no_finding(tenant: Tenant) -> None:
    handoff = judged(tenant, payload())
    judged_again(handoff, (NOT_ASKED, "warning", ""), ("tokens.near_budget", "info", ""))
    attribution.run()
    assert not FindingGroup.objects.exists()


def test_what_is_judged_again_leaves_its_groups_and_joins_others(tenant: Tenant) -> None:
    first, second = found(tenant, 2)
    judged_again(second, ("schema.type", "error", "data.total"))
    attribution.run()
    circle = group(tenant)
    assert (circle.number, circle.first_seen, circle.last_seen) == (1, first.received_at, first.received_at)
    assert group(tenant, "schema.type").number == 1
    judged_again(first)
    attribution.run()
    assert group(tenant).number == 0
    assert_groups_are_right()


def test_what_is_judged_again_the_same_way_changes_nothing(tenant: Tenant) -> None:
    (handoff,) = found(tenant)
    member = GroupedHandoff.objects.get()
    judged_again(handoff, ("chain.circular", "error", "target_agent_id"))
    attribution.run()
    assert GroupedHandoff.objects.get().pk == member.pk
    assert_groups_are_right()


def test_a_warning_decides_only_where_there_is_no_error(tenant: Tenant) -> None:
    handoff = judged(tenant, payload())
    judged_again(handoff, ("schema.type", "warning", "data.a"), ("schema.enum", "error", "data.b"))
    attribution.run()
    decisive = dict(GroupedHandoff.objects.values_list("group__code", "decisive"))
    assert decisive == {"schema.type": False, "schema.enum": True}
    judged_again(handoff, ("schema.type", "warning", "data.a"))
    attribution.run()
    assert dict(GroupedHandoff.objects.values_list("group__code", "decisive")) == {"schema.type": True}


def test_days_follow_the_handoffs(tenant: Tenant) -> None:
    first, second = found(tenant, 2)
    earlier = first.received_at - timedelta(days=2)
    judged_again(first)
    attribution.run()
    Handoff.objects.filter(pk=first.pk).update(received_at=earlier)
    first.refresh_from_db()
    judged_again(first, ("chain.circular", "error", "target_agent_id"))
    attribution.run()
    days = dict(FindingGroupDay.objects.filter(number__gt=0).values_list("day", "number"))
    assert days == {earlier.date(): 1, second.received_at.date(): 1}
    assert group(tenant).first_seen == earlier


def test_what_was_gone_over_before_there_were_groups_joins_them_by_itself(tenant: Tenant) -> None:
    found(tenant, 3)
    found(tenant, 1, source_agent_id="critic", call_chain=["planner", "critic"])
    right = kept()
    GroupedHandoff.objects.all().delete()
    FindingGroup.objects.all().delete()
    TracedHandoff.objects.update(grouped=False)
    assert attribution.anything_due()
    assert attribution.run() == 4
    assert kept() == right
    assert not attribution.anything_due()
    assert_groups_are_right()


def test_an_upgrade_in_the_middle_counts_nothing_twice(tenant: Tenant) -> None:
    handoffs = found(tenant, 3)
    TracedHandoff.objects.filter(pk__in=[handoffs[0].pk, handoffs[1].pk]).update(grouped=False)
    attribution.run()
    assert_groups_are_right()


def test_one_that_breaks_in_the_middle_leaves_nothing_half_done(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    found(tenant)
    with monkeypatch.context() as broken:
        broken.setattr(group_store, "_resize", lambda *given, **more: 1 / 0)
        found(tenant)
    assert group(tenant).number == TracedHandoff.objects.count() == GroupedHandoff.objects.count() == 1
    attribution.run()
    assert group(tenant).number == 2
    assert_groups_are_right()


def test_built_anew_they_are_right_and_keep_what_people_said(tenant: Tenant) -> None:
    found(tenant, 2)
    judged(tenant, held())
    attribution.run()
    FindingGroup.objects.filter(code="chain.circular").update(
        number=9, muted_at=timezone.now(), muted_by="rui", muted_until=12
    )
    FindingGroupDay.objects.update(number=7)
    gone = FindingGroup.objects.create(
        tenant=tenant, code="old.one", key="k", number=4, first_seen=timezone.now(), last_seen=timezone.now()
    )
    attribution.rebuild()
    assert_groups_are_right()
    one = group(tenant)
    assert (one.number, one.muted_by, one.muted_until) == (2, "rui", 5)
    assert not FindingGroup.objects.filter(pk=gone.pk).exists()


@pytest.mark.django_db(transaction=True)
def test_two_at_once_count_each_handoff_once(tenant: Tenant) -> None:
    for number in range(4):
        judged(tenant, payload(target_agent_id="planner"), trace_id=f"t{number}")
    at_once(attribution.run, attribution.run)
    attribution.run()
    assert_groups_are_right()
    TracedHandoff.objects.update(grouped=False)
    at_once(attribution.run, attribution.run)
    attribution.run()
    assert_groups_are_right()
