import dataclasses
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connections

from handoffaudit.accounts import audit
from handoffaudit.accounts.models import AuditEntry, Tenant
from handoffaudit.policy.kinds import strictness
from handoffaudit.policy.models import PolicyVersion
from handoffaudit.policy.values import InvalidPolicy
from handoffaudit.policy.versions import Change, NoSuchVersion, Stale, Table
from handoffaudit.validation.config import Mode, Strictness, TypePolicy


def with_budget(table: Table[TypePolicy], budget: int, handoff_type: str = "deal_data") -> list[TypePolicy]:
    return [
        dataclasses.replace(row, token_budget=budget) if row.handoff_type == handoff_type else row for row in table.rows
    ]


def save(tenant: Tenant, base: int, budget: int, actor: str = "ada") -> Table[TypePolicy]:
    rows = with_budget(strictness.current(tenant), budget)
    return strictness.save(tenant=tenant, base_version=base, rows=rows, actor=actor)


def test_a_new_tenant_has_the_table_as_shipped(tenant: Tenant) -> None:
    table = strictness.current(tenant)
    assert table.version == 0
    assert {row.handoff_type: row.strictness.value for row in table.rows} == {
        "customer_info": "strict",
        "deal_data": "strict",
        "delegation": "strict",
        "handoff": "strict",
        "message": "strict",
        "research_result": "strict",
        "notification": "lenient",
        "status_update": "lenient",
        "*": "strict",
    }
    assert not PolicyVersion.objects.exists()


def test_a_save_is_a_new_version_with_who_when_and_note(tenant: Tenant, other_tenant: Tenant) -> None:
    rows = with_budget(strictness.current(tenant), 3000)
    saved = strictness.save(tenant=tenant, base_version=0, rows=rows, actor="ada", note=" more\x00room ")
    assert (saved.version, saved.changed_by, saved.note) == (1, "ada", "more room")
    assert saved.changed_at is not None
    assert strictness.current(tenant) == saved
    row = saved.row("deal_data")
    assert row is not None
    assert row.token_budget == 3000
    assert strictness.current(other_tenant).version == 0


def test_a_save_is_told_in_the_log_with_its_difference(tenant: Tenant) -> None:
    save(tenant, 0, 3000)
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.actor, entry.target) == ("strictness.save", "ada", "version 1")
    assert entry.detail["changes"] == [{"row": "deal_data", "field": "token_budget", "old": 2000, "new": 3000}]
    assert audit.verify(tenant) is None


def test_a_save_that_changes_nothing_makes_no_version(tenant: Tenant) -> None:
    table = strictness.current(tenant)
    assert strictness.save(tenant=tenant, base_version=0, rows=reversed(table.rows), actor="ada") == table
    assert not PolicyVersion.objects.exists()
    assert not AuditEntry.objects.exists()


@pytest.mark.parametrize("base", [0, 2, -1])
def test_a_save_on_another_version_is_told_and_nothing_overwritten(tenant: Tenant, base: int) -> None:
    saved = save(tenant, 0, 3000)
    with pytest.raises(Stale) as stale:
        save(tenant, base, 4000, actor="bob")
    assert stale.value.current == saved
    assert strictness.current(tenant) == saved
    assert AuditEntry.objects.count() == 1


def test_a_table_without_the_last_row_is_not_saved(tenant: Tenant) -> None:
    rows = strictness.current(tenant).rows[:-1]
    with pytest.raises(InvalidPolicy):
        strictness.save(tenant=tenant, base_version=0, rows=rows, actor="ada")
    assert not AuditEntry.objects.exists()


def test_a_row_is_added_changed_and_deleted(tenant: Tenant) -> None:
    row = TypePolicy("invoice", mode=Mode.SHADOW)
    added = strictness.upsert_row(tenant=tenant, base_version=0, row=row, actor="ada")
    assert added.row("invoice") == row
    assert added.rows[-1].handoff_type == "*"
    lenient = dataclasses.replace(row, strictness=Strictness.LENIENT)
    changed = strictness.upsert_row(tenant=tenant, base_version=1, row=lenient, actor="ada")
    assert changed.row("invoice") == lenient
    assert len(changed.rows) == len(added.rows)
    deleted = strictness.delete_row(tenant=tenant, base_version=2, name="invoice", actor="ada")
    assert deleted.row("invoice") is None
    assert deleted.version == 3


def test_the_row_for_any_other_type_can_be_changed_but_not_deleted(tenant: Tenant) -> None:
    with pytest.raises(InvalidPolicy, match="cannot be deleted"):
        strictness.delete_row(tenant=tenant, base_version=0, name="*", actor="ada")
    row = TypePolicy("*", token_budget=900)
    assert strictness.upsert_row(tenant=tenant, base_version=0, row=row, actor="ada").rows[-1] == row


def test_a_row_that_is_not_there_cannot_be_deleted(tenant: Tenant) -> None:
    with pytest.raises(InvalidPolicy, match="no such row"):
        strictness.delete_row(tenant=tenant, base_version=0, name="invoice", actor="ada")


def test_changes_of_rows_on_an_old_version_are_told(tenant: Tenant) -> None:
    save(tenant, 0, 3000)
    with pytest.raises(Stale):
        strictness.upsert_row(tenant=tenant, base_version=0, row=TypePolicy("invoice"), actor="bob")
    with pytest.raises(Stale):
        strictness.delete_row(tenant=tenant, base_version=0, name="deal_data", actor="bob")
    with pytest.raises(Stale):
        strictness.revert(tenant=tenant, to_version=0, base_version=0, actor="bob")


def test_going_back_is_a_new_version_with_the_old_rows(tenant: Tenant) -> None:
    first = save(tenant, 0, 3000)
    save(tenant, 1, 4000)
    back = strictness.revert(tenant=tenant, to_version=1, base_version=2, actor="bob")
    assert (back.version, back.rows, back.changed_by) == (3, first.rows, "bob")
    assert back.note == "Reverted to version 1"
    shipped = strictness.revert(tenant=tenant, to_version=0, base_version=3, actor="bob")
    assert shipped.rows == strictness.as_shipped.rows


def test_a_version_of_another_tenant_is_not_there(tenant: Tenant, other_tenant: Tenant) -> None:
    save(other_tenant, 0, 3000)
    with pytest.raises(NoSuchVersion):
        strictness.at_version(tenant, 1)
    with pytest.raises(NoSuchVersion):
        strictness.revert(tenant=tenant, to_version=1, base_version=0, actor="ada")


def test_the_history_tells_each_version_with_what_it_changed(tenant: Tenant) -> None:
    save(tenant, 0, 3000)
    strictness.delete_row(tenant=tenant, base_version=1, name="notification", actor="bob")
    versions = strictness.history(tenant)
    assert [version.table.version for version in versions] == [2, 1, 0]
    assert [(change.row, change.field) for change in versions[0].changes] == [("notification", "row")]
    assert versions[1].changes == [Change("deal_data", "token_budget", 2000, 3000)]
    assert versions[2].changes == []


def test_the_history_goes_by_pages(tenant: Tenant) -> None:
    for version in range(4):
        save(tenant, version, 3000 + version)
    pages, before = [], None
    while not pages or pages[-1][-1] > 0:
        page = strictness.history(tenant, before=before, limit=2)
        assert all(version.changes for version in page if version.table.version)
        pages.append([version.table.version for version in page])
        before = pages[-1][-1]
    assert pages == [[4, 3], [2, 1], [0]]
    assert strictness.history(tenant, before=0) == []


def test_the_difference_names_each_field_and_each_layer() -> None:
    old = [TypePolicy("a"), TypePolicy("gone"), TypePolicy("*")]
    new = [TypePolicy("a", layers_off=frozenset({"chain"}), confidence_floor=0.7), TypePolicy("new"), TypePolicy("*")]
    changes = strictness.difference(old, new)
    assert changes[:2] == [Change("a", "layers.chain", True, False), Change("a", "confidence_floor", 0.5, 0.7)]
    assert [(change.row, change.old is None, change.new is None) for change in changes[2:]] == [
        ("gone", False, True),
        ("new", True, False),
    ]
    assert strictness.difference(new, new) == []


@pytest.mark.django_db(transaction=True)
def test_of_many_who_save_on_one_version_one_succeeds(tenant: Tenant) -> None:
    start = threading.Barrier(6)

    def try_to(number: int) -> bool:
        start.wait()
        try:
            save(tenant, 0, 3000 + number)
        except Stale:
            return False
        finally:
            connections["default"].close()
        return True

    with ThreadPoolExecutor(6) as pool:
        saved = list(pool.map(try_to, range(6)))
    assert saved.count(True) == 1
    assert PolicyVersion.objects.count() == 1
    assert AuditEntry.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_many_who_try_again_on_the_newest_version_all_succeed_without_gaps(tenant: Tenant) -> None:
    def insist(number: int) -> int:
        try:
            while True:
                try:
                    table = strictness.current(tenant)
                    row = TypePolicy(f"type_{number}")
                    return strictness.upsert_row(
                        tenant=tenant, base_version=table.version, row=row, actor=f"person {number}"
                    ).version
                except Stale:
                    continue
        finally:
            connections["default"].close()

    with ThreadPoolExecutor(5) as pool:
        versions = list(pool.map(insist, range(5)))
    assert sorted(versions) == [1, 2, 3, 4, 5]
    names = {row.handoff_type for row in strictness.current(tenant).rows}
    assert {f"type_{number}" for number in range(5)} <= names
    assert audit.verify(tenant) is None
