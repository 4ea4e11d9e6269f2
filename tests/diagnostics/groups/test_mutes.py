"""Tests of a muted finding group: it leaves the queue, and it returns by itself when it grows."""

import pytest

from handoffaudit.accounts import Refused
from handoffaudit.accounts.models import AuditEntry, Tenant
from handoffaudit.diagnostics import attribution, group_store
from handoffaudit.diagnostics.group_members import handoffs_of, muted_handoffs
from handoffaudit.diagnostics.models import FindingGroup, TracedHandoff
from handoffaudit.handoffs.models import Handoff
from tests.diagnostics.groups.support import assert_groups_are_right, found, group
from tests.diagnostics.groups.test_store import judged_again
from tests.handoffs.support import judged, payload

pytestmark = pytest.mark.django_db


def mute(tenant: Tenant, until: str = "10", code: str = "chain.circular") -> FindingGroup:
    pk = group(tenant, code).pk
    return group_store.mute_group(tenant=tenant, group=pk, until=until, note="known, mended next week", actor="rui")


@pytest.mark.parametrize(
    ("number", "until", "comes_back"),
    [
        (3, "fifth", 13),
        (100, "fifth", 120),
        (101, "fifth", 122),
        (3, "10", 13),
        (3, "50", 53),
        (30, "double", 60),
        (0, "double", 1),
        (3, "good", None),
    ],
)
def test_how_much_it_may_grow(tenant: Tenant, number: int, until: str, comes_back: int | None) -> None:
    found(tenant)
    FindingGroup.objects.update(number=number)
    assert mute(tenant, until).muted_until == comes_back


def test_it_comes_back_once_it_has_grown(tenant: Tenant) -> None:
    found(tenant, 2)
    mute(tenant, "double")
    found(tenant, 1)
    assert group(tenant).muted_at is not None
    found(tenant, 1)
    one = group(tenant)
    assert (one.muted_at, one.muted_until, one.muted_by) == (None, None, "rui")
    assert one.regressed_at is not None
    assert one.muted_note == "known, mended next week"


def test_for_good_it_stays_muted(tenant: Tenant) -> None:
    found(tenant, 1)
    mute(tenant, "good")
    found(tenant, 3)
    assert group(tenant).muted_at is not None


def test_older_handoffs_that_join_late_bring_nothing_back(tenant: Tenant) -> None:
    handoffs = found(tenant, 3)
    TracedHandoff.objects.filter(pk__in=[one.pk for one in handoffs[:2]]).update(grouped=False)
    for one in handoffs[:2]:
        group(tenant).groupedhandoff_set.filter(handoff=one.pk).delete()
    FindingGroup.objects.update(number=1)
    mute(tenant, "double")
    attribution.run()
    one = group(tenant)
    assert (one.number, one.muted_until) == (3, 4)
    assert one.muted_at is not None


def test_a_group_counted_anew_after_retention_may_grow_by_as_much_as_before(tenant: Tenant) -> None:
    handoffs = found(tenant, 5)
    mute(tenant, "10")
    Handoff.objects.filter(pk__in=[one.pk for one in handoffs[:3]]).delete()
    attribution.rebuild()
    one = group(tenant)
    assert (one.number, one.muted_until) == (2, 12)
    assert one.muted_at is not None
    assert_groups_are_right()


def test_it_is_told_in_the_log_who_muted_it_and_why(tenant: Tenant) -> None:
    found(tenant)
    mute(tenant)
    group_store.unmute_group(tenant=tenant, group=group(tenant).pk, actor="ada")
    actions = list(AuditEntry.objects.filter(tenant=tenant).order_by("number").values_list("action", "actor"))
    assert actions == [("group.mute", "rui"), ("group.unmute", "ada")]
    entry = AuditEntry.objects.get(action="group.mute")
    assert "chain.circular" in entry.target
    assert entry.detail["note"] == "known, mended next week"


def test_what_is_not_muted_stays_as_it_is(tenant: Tenant) -> None:
    found(tenant)
    group_store.unmute_group(tenant=tenant, group=group(tenant).pk, actor="ada")
    group_store.acknowledge_group(tenant=tenant, group=group(tenant).pk, actor="ada")
    assert not AuditEntry.objects.exists()


def test_the_sign_is_taken_off_by_who_has_seen_it(tenant: Tenant) -> None:
    found(tenant)
    mute(tenant, "double")
    found(tenant)
    assert group(tenant).regressed_at is not None
    group_store.acknowledge_group(tenant=tenant, group=group(tenant).pk, actor="ada")
    assert group(tenant).regressed_at is None


def test_undone_a_mute_leaves_the_sign_of_one_that_came_back(tenant: Tenant) -> None:
    found(tenant)
    mute(tenant, "double")
    found(tenant)
    mute(tenant)
    group_store.unmute_group(tenant=tenant, group=group(tenant).pk, actor="rui")
    assert group(tenant).regressed_at is not None


@pytest.mark.parametrize(
    ("until", "note", "field"),
    [("10", " ", "note"), ("10", "x" * 1001, "note"), ("10", "a\0b", "note"), ("later", "so", "until")],
)
def test_what_cannot_be_is_refused(tenant: Tenant, until: str, note: str, field: str) -> None:
    found(tenant)
    with pytest.raises(Refused) as refused:
        group_store.mute_group(tenant=tenant, group=group(tenant).pk, until=until, note=note, actor="rui")
    assert refused.value.field == field
    assert group(tenant).muted_at is None


def test_a_group_of_another_tenant_is_not_there(tenant: Tenant, other_tenant: Tenant) -> None:
    found(tenant)
    one = group(tenant)
    with pytest.raises(FindingGroup.DoesNotExist):
        group_store.mute_group(tenant=other_tenant, group=one.pk, until="10", note="no", actor="stranger")
    assert not handoffs_of(other_tenant, one.pk).exists()


def left_out(tenant: Tenant) -> set[str]:
    return set(Handoff.objects.filter(pk__in=muted_handoffs(tenant)).values_list("handoff_id", flat=True))


def test_a_handoff_is_noise_once_all_that_decides_is_muted(tenant: Tenant) -> None:
    both, one_error, warned, fine = (judged(tenant, payload(handoff_id=name)) for name in ("both", "one", "warn", "ok"))
    judged_again(both, ("schema.type", "error", "data.a"), ("schema.enum", "critical", "data.b"))
    judged_again(one_error, ("schema.type", "error", "data.a"), ("schema.length", "warning", "data.c"))
    judged_again(warned, ("schema.length", "warning", "data.c"))
    judged_again(fine)
    attribution.run()
    assert left_out(tenant) == set()
    mute(tenant, code="schema.type")
    assert left_out(tenant) == {"one"}
    mute(tenant, code="schema.length")
    assert left_out(tenant) == {"one", "warn"}
    mute(tenant, code="schema.enum")
    assert left_out(tenant) == {"one", "warn", "both"}
    group_store.unmute_group(tenant=tenant, group=group(tenant, "schema.type").pk, actor="rui")
    assert left_out(tenant) == {"warn"}
    assert_groups_are_right()


def test_mutes_of_one_tenant_leave_nothing_of_another_out(tenant: Tenant, other_tenant: Tenant) -> None:
    found(tenant)
    found(other_tenant, tenant_id=other_tenant.slug)
    mute(tenant)
    assert len(left_out(tenant)) == 1
    assert left_out(other_tenant) == set()
