import hashlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest
from django.db import connection, connections, transaction

from handoffaudit.accounts import audit
from handoffaudit.accounts.models import AuditEntry, Tenant


def add(tenant: Tenant, target: str = "someone") -> AuditEntry:
    with transaction.atomic():
        return audit.record(tenant=tenant, actor="ada", action="person.role", target=target, detail={"to": "admin"})


def test_entries_are_numbered_from_one_and_each_carries_the_hash_of_the_one_before(tenant: Tenant) -> None:
    first, second, third = add(tenant), add(tenant), add(tenant)
    assert [first.number, second.number, third.number] == [1, 2, 3]
    assert first.previous_hash == ""
    assert second.previous_hash == first.entry_hash
    assert third.previous_hash == second.entry_hash
    assert len({first.entry_hash, second.entry_hash, third.entry_hash}) == 3


def test_the_hash_is_sha256_of_the_previous_hash_and_the_canonical_entry(tenant: Tenant) -> None:
    add(tenant)
    entry = add(tenant)
    told = {
        "action": "person.role",
        "actor": "ada",
        "at": entry.at.astimezone(UTC).isoformat(timespec="microseconds"),
        "detail": {"to": "admin"},
        "number": 2,
        "target": "someone",
        "tenant": tenant.pk,
    }
    expected = hashlib.sha256(entry.previous_hash.encode() + b"\n" + orjson.dumps(told)).hexdigest()
    assert entry.entry_hash == expected


def test_each_tenant_has_its_own_chain(tenant: Tenant, other_tenant: Tenant) -> None:
    add(tenant)
    assert add(other_tenant).number == 1
    assert add(tenant).number == 2
    assert audit.verify(tenant) is None
    assert audit.verify(other_tenant) is None


@pytest.mark.django_db(transaction=True)
def test_an_entry_outside_a_transaction_is_refused(tenant: Tenant) -> None:
    with pytest.raises(transaction.TransactionManagementError):
        audit.record(tenant=tenant, actor="ada", action="x", target="y", detail={})
    assert not AuditEntry.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_an_entry_goes_when_its_change_is_rolled_back(tenant: Tenant) -> None:
    class ChangeFailedError(Exception):
        pass

    def change() -> None:
        with transaction.atomic():
            audit.record(tenant=tenant, actor="ada", action="x", target="y", detail={})
            raise ChangeFailedError

    with pytest.raises(ChangeFailedError):
        change()
    assert add(tenant).number == 1
    assert audit.verify(tenant) is None


def test_an_empty_log_is_whole(tenant: Tenant) -> None:
    assert audit.verify(tenant) is None


TAMPERED: list[tuple[str, Callable[[Tenant], object], int, str]] = [
    ("a changed text", lambda t: AuditEntry.objects.filter(tenant=t, number=2).update(actor="eve"), 2, "changed"),
    ("a changed detail", lambda t: AuditEntry.objects.filter(tenant=t, number=3).update(detail={}), 3, "changed"),
    ("a deleted entry", lambda t: AuditEntry.objects.filter(tenant=t, number=2).delete(), 2, "missing"),
    ("the first one deleted", lambda t: AuditEntry.objects.filter(tenant=t, number=1).delete(), 1, "missing"),
    ("the end cut off", lambda t: AuditEntry.objects.filter(tenant=t, number=4).delete(), 4, "missing"),
    ("a new hash", lambda t: AuditEntry.objects.filter(tenant=t, number=1).update(entry_hash="0" * 64), 1, "changed"),
    ("another chain", lambda t: AuditEntry.objects.filter(tenant=t, number=2).update(previous_hash=""), 2, "follow"),
]


@pytest.mark.parametrize(
    ("tamper", "number", "why"), [case[1:] for case in TAMPERED], ids=[case[0] for case in TAMPERED]
)
def test_a_log_that_was_tampered_with_is_told_at_the_first_place(
    tenant: Tenant, tamper: Callable[[Tenant], object], number: int, why: str
) -> None:
    for _ in range(4):
        add(tenant)
    tamper(tenant)
    broken = audit.verify(tenant)
    assert broken is not None
    assert broken.number == number
    assert why in broken.why


def test_a_log_whose_end_was_cut_off_still_takes_entries_and_shows_the_gap(tenant: Tenant) -> None:
    add(tenant)
    AuditEntry.objects.filter(tenant=tenant).delete()
    assert add(tenant).number == 2
    broken = audit.verify(tenant)
    assert broken is not None
    assert broken.number == 1


def test_pages_go_from_the_newest_to_the_first(tenant: Tenant, other_tenant: Tenant) -> None:
    for _ in range(5):
        add(tenant)
    add(other_tenant)
    page = audit.list_entries(tenant, limit=2)
    assert [entry.number for entry in page.items] == [5, 4]
    page = audit.list_entries(tenant, before=page.before, limit=2)
    assert [entry.number for entry in page.items] == [3, 2]
    page = audit.list_entries(tenant, before=page.before, limit=2)
    assert [entry.number for entry in page.items] == [1]
    assert page.before is None


def test_entries_are_found_by_who_what_and_when(tenant: Tenant, other_tenant: Tenant) -> None:
    with transaction.atomic():
        for number in range(1, 7):
            actor = "key ci" if number % 2 else "Ada"
            action = "key.create" if number > 3 else "keys.create"
            audit.record(tenant=tenant, actor=actor, action=action, target=str(number), detail={})
        audit.record(tenant=other_tenant, actor="Ada", action="key.create", target="theirs", detail={})
    for number in range(1, 7):
        AuditEntry.objects.filter(tenant=tenant, number=number).update(at=datetime(2026, 2, number, tzinfo=UTC))

    def found(**wanted: Any) -> list[int]:
        return [entry.number for entry in audit.list_entries(tenant, **wanted).items]

    assert found(actor="ada") == [6, 4, 2]
    assert found(kind="key") == [6, 5, 4]
    assert found(since=datetime(2026, 2, 3, tzinfo=UTC), until=datetime(2026, 2, 5, tzinfo=UTC)) == [4, 3]
    assert found(since=datetime(2026, 2, 4, 1, tzinfo=UTC)) == [6, 5]
    assert found(until=datetime(2026, 2, 1, tzinfo=UTC)) == []
    assert found(since=datetime(2027, 1, 1, tzinfo=UTC)) == []
    assert found(actor="key", kind="key", until=datetime(2026, 2, 5, 1, tzinfo=UTC)) == [5]


def test_only_so_many_entries_are_looked_through_at_once(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "MOST_LOOKED_THROUGH", 2)
    with transaction.atomic():
        for number in range(5):
            actor = "ada" if number in (0, 4) else "grace"
            audit.record(tenant=tenant, actor=actor, action="key.create", target="x", detail={})
    pages, before = [], None
    while True:
        page = audit.list_entries(tenant, actor="ada", before=before)
        pages.append([entry.number for entry in page.items])
        if page.before is None:
            break
        before = page.before
    assert pages == [[5], [], [1]]


@pytest.mark.django_db(transaction=True)
def test_numbers_have_no_gaps_and_no_doubles_when_many_write_at_once(tenant: Tenant) -> None:
    def write(thread: int) -> list[int]:
        try:
            return [add(tenant, f"{thread}-{turn}").number for turn in range(8)]
        finally:
            connections["default"].close()

    with ThreadPoolExecutor(6) as pool:
        numbers = [number for written in pool.map(write, range(6)) for number in written]
    assert sorted(numbers) == list(range(1, 49))
    assert audit.verify(tenant) is None
    connection.close()
