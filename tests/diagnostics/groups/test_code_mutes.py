"""Tests of mutes of a rule code: its groups, later groups, the end, the undo, and other tenants."""

import uuid
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.utils import timezone

from handoffaudit.accounts import Refused
from handoffaudit.accounts.models import AuditEntry, Tenant
from handoffaudit.diagnostics import attribution, group_store
from handoffaudit.diagnostics.group_members import GroupedFindings, group_key, muted_handoffs
from handoffaudit.diagnostics.group_queries import GroupFilters, list_groups
from handoffaudit.diagnostics.models import CodeMute, FindingGroup
from handoffaudit.handoffs.models import Handoff
from tests.diagnostics.groups.support import found, group
from tests.handoffs.support import circular, interrupted, judged

pytestmark = pytest.mark.django_db

CODE = "chain.circular"
INSERTS = 'INTO "diagnostics_findinggroup"'


def mute(tenant: Tenant, **changes: str) -> CodeMute:
    values = {"code": CODE, "days": "30", "note": "Known.", "actor": "rui", **changes}
    return group_store.mute_code(tenant=tenant, **values)


def unmute(tenant: Tenant) -> bool:
    return group_store.unmute_code(tenant=tenant, code=CODE, actor="rui")


def test_a_line_break_of_a_form_counts_as_one_character(tenant: Tenant) -> None:
    found(tenant, 1)
    note = "x\r\n" * (group_store.LONGEST_NOTE // 2 - 1) + "xx"
    assert mute(tenant, note=note).note == note.replace("\r", "")


def test_all_groups_of_the_code_leave_lists_and_the_queue_and_no_verdict_changes(tenant: Tenant) -> None:
    (handoff,) = found(tenant, 1)
    before = Handoff.objects.values_list("state", "verdict", "version").get(pk=handoff.pk)
    mute(tenant)
    one = group(tenant)
    assert (one.muted_by, one.muted_note, one.muted_until, one.muted_by_code) == ("rui", "Known.", None, True)
    assert list_groups(tenant, GroupFilters()).items == []
    assert handoff.pk in muted_handoffs(tenant)
    assert Handoff.objects.values_list("state", "verdict", "version").get(pk=handoff.pk) == before


def test_a_later_group_is_muted_too(tenant: Tenant) -> None:
    found(tenant, 1)
    mute(tenant)
    FindingGroup.objects.all().delete()
    found(tenant, 1)
    assert group(tenant).muted_by_code


def test_the_undo_restores_only_what_the_mute_of_the_code_muted(tenant: Tenant) -> None:
    found(tenant, 1)
    own = FindingGroup.objects.create(
        tenant=tenant, code=CODE, path_shape="x", key="x", number=1, first_seen=timezone.now(), last_seen=timezone.now()
    )
    group_store.mute_group(tenant=tenant, group=own.pk, until="good", note="Mine.", actor="ada")
    mute(tenant)
    assert group_store.unmute_code(tenant=tenant, code=CODE, actor="rui")
    own.refresh_from_db()
    assert (own.muted_by, own.muted_at is None) == ("ada", False)
    assert group(tenant, path_shape="target_agent_id").muted_at is None
    assert not group_store.unmute_code(tenant=tenant, code=CODE, actor="rui")
    actions = AuditEntry.objects.order_by("id").values_list("action", flat=True)
    assert [action for action in actions if action.startswith("code.")] == ["code.mute", "code.unmute"]


def test_the_mute_ends_by_itself_and_a_second_one_prolongs_it(tenant: Tenant) -> None:
    found(tenant, 1)
    mute(tenant)
    until = mute(tenant, days="90", note="Longer.").until
    assert until > timezone.now() + timedelta(days=89)
    assert group(tenant).muted_note == "Longer."
    group_store.end_code_mutes()
    assert group(tenant).muted_at
    CodeMute.objects.update(until=timezone.now())
    group_store.end_code_mutes()
    assert group(tenant).muted_at is None
    assert not CodeMute.objects.exists()


def test_a_mute_that_is_prolonged_as_it_ends_stays(tenant: Tenant) -> None:
    found(tenant, 1)
    mute(tenant)
    CodeMute.objects.update(until=timezone.now())
    prolonged = []

    def prolong(execute: Any, sql: str, *given: Any) -> Any:
        result = execute(sql, *given)
        if not prolonged and "codemute" in sql:
            prolonged.append(sql)
            mute(tenant, days="90")
        return result

    with connection.execute_wrapper(prolong):
        group_store.end_code_mutes()
    assert prolonged
    assert CodeMute.objects.get().until > timezone.now() + timedelta(days=89)
    assert group(tenant).muted_by_code


@pytest.mark.django_db(transaction=True)
def test_a_mute_and_a_new_group_at_the_same_time_leave_no_group_out(tenant: Tenant) -> None:
    found(tenant, 1)
    judged(tenant, circular())
    FindingGroup.objects.update(key="another place")
    number, made = interrupted(attribution.run, lambda: mute(tenant), INSERTS)
    assert number
    assert isinstance(made, CodeMute)
    assert set(FindingGroup.objects.filter(code=CODE).values_list("muted_by_code", flat=True)) == {True}
    assert FindingGroup.objects.filter(code=CODE).count() == 2


@pytest.mark.django_db(transaction=True)
def test_the_end_of_a_mute_and_a_new_group_at_the_same_time_leave_no_group_muted(tenant: Tenant) -> None:
    found(tenant, 1)
    mute(tenant)
    judged(tenant, circular())
    FindingGroup.objects.update(key="another place")
    number, ended = interrupted(attribution.run, lambda: unmute(tenant), INSERTS)
    assert number
    assert ended is True
    assert FindingGroup.objects.filter(code=CODE).count() == 2
    assert not FindingGroup.objects.filter(muted_by_code=True).exists()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("ends", [False, True])
def test_a_mute_and_growing_groups_do_not_lock_each_other_out(tenant: Tenant, *, ends: bool) -> None:
    places = {group_key(CODE, path): True for path in ("a", "b")}

    @transaction.atomic
    def regroup() -> None:
        group_store.regroup(tenant.pk, {uuid.uuid4(): GroupedFindings(timezone.now(), ("a", "b"), places)})

    regroup()
    if ends:
        mute(tenant)
    # By the index of the code, PostgreSQL now finds the first group last.
    FindingGroup.objects.filter(path_shape="a").update(last_seen=timezone.now() + timedelta(days=1))
    answers = interrupted(regroup, lambda: (unmute if ends else mute)(tenant), 'UPDATE "diagnostics_findinggroup"')
    assert not [one for one in answers if isinstance(one, Exception)]
    assert list(FindingGroup.objects.values_list("number", "muted_by_code")) == [(2, not ends)] * 2


def test_nothing_of_another_tenant_is_muted(tenant: Tenant, other_tenant: Tenant) -> None:
    found(other_tenant, 1, tenant_id=other_tenant.slug)
    with pytest.raises(Refused, match="No finding has the rule code"):
        mute(tenant)
    found(tenant, 1)
    mute(tenant)
    assert group(other_tenant).muted_at is None
    assert not group_store.unmute_code(tenant=other_tenant, code=CODE, actor="x")
    assert group(tenant).muted_at


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"days": "31"}, "days"),
        ({"days": ""}, "days"),
        ({"note": " "}, "note"),
        ({"note": "x" * 1001}, "note"),
        ({"note": "\x00"}, "note"),
        ({"code": "\x00"}, "code"),
        ({"code": "no.such"}, "code"),
    ],
)
def test_wrong_input_is_named_and_mutes_nothing(tenant: Tenant, changes: dict[str, str], field: str) -> None:
    found(tenant, 1)
    with pytest.raises(Refused) as refused:
        mute(tenant, **changes)
    assert refused.value.field == field
    assert not CodeMute.objects.exists()


def test_the_number_of_muted_codes_is_bounded(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    found(tenant, 1)
    monkeypatch.setattr(group_store, "MOST_CODE_MUTES", 0)
    with pytest.raises(Refused, match="unmute one"):
        mute(tenant)
