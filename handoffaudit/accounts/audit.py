"""The audit log of a tenant: recording, verifying and listing hash-chained entries, and the lock of the tenant."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import orjson
from django.db import transaction
from django.utils import timezone

from handoffaudit.accounts.models import AuditEntry, Tenant
from handoffaudit.database_faults import is_unreadable


def lock_tenant(tenant: Tenant) -> Tenant:
    """Return the tenant's current row, locked until the transaction ends.

    Other transactions can still add rows that refer to the tenant. SQLite needs no lock, because it allows only one
    writer at a time.
    """
    return Tenant.objects.select_for_update(no_key=True).get(pk=tenant.pk)


# Entries and alerts name the server like this, so nobody else may have these names.
NAMES_OF_THE_SERVER = ("handoffaudit", "system")

BEFORE_THE_FIRST = ""

MOST_LOOKED_THROUGH = 50_000


@dataclass(frozen=True, slots=True)
class Broken:
    """The first entry that breaks the hash chain, and the reason."""

    number: int
    why: str


@dataclass(frozen=True, slots=True)
class Entries:
    """A page of entries, newest first; `before` is the cursor of the next page, which is None on the last page."""

    items: list[AuditEntry]
    before: int | None


def record(*, tenant: Tenant, actor: str, action: str, target: str, detail: Mapping[str, Any]) -> AuditEntry:
    """Add an entry to the tenant's audit log. Call this inside the transaction of the change that the entry records.

    `detail` holds JSON values only. Transactions that add entries for the same tenant wait for each other. Raise
    `TransactionManagementError` outside a transaction.
    """
    if not transaction.get_connection().in_atomic_block:
        raise transaction.TransactionManagementError("An audit entry belongs in the transaction of its change.")
    locked = lock_tenant(tenant)
    entry = AuditEntry(
        tenant=locked,
        number=locked.audit_number + 1,
        at=timezone.now(),
        actor=actor[:200],
        action=action,
        target=target[:300],
        # `verify` hashes the detail as the database returns it, so the detail takes its JSON form before it is hashed.
        detail=orjson.loads(orjson.dumps(detail)),
        previous_hash=_find_hash(locked, locked.audit_number),
    )
    entry.entry_hash = _seal(entry)
    entry.save(force_insert=True)
    Tenant.objects.filter(pk=locked.pk).update(audit_number=entry.number)
    return entry


def verify(tenant: Tenant) -> Broken | None:
    """Verify the audit log. Return None if every entry is present and unchanged, else the first broken entry."""
    newest = Tenant.objects.values_list("audit_number", flat=True).get(pk=tenant.pk)
    number, previous = 0, BEFORE_THE_FIRST
    entries = AuditEntry.objects.filter(tenant=tenant, number__lte=newest).order_by("number")
    try:
        for entry in entries.iterator(chunk_size=1000):
            number += 1
            if entry.number != number:
                return Broken(number, "the entry is missing")
            if entry.previous_hash != previous:
                return Broken(number, "it does not follow from the entry before it")
            if entry.entry_hash != _seal(entry):
                return Broken(number, "it was changed after it was written")
            previous = entry.entry_hash
    except Exception as error:
        if not is_unreadable(error):
            raise
        return Broken(_find_unreadable(tenant, max(number, 1), newest), "it was changed, and cannot be read")
    return None if number == newest else Broken(number + 1, "the entry is missing")


def _find_unreadable(tenant: Tenant, first: int, last: int) -> int:
    """Return the number of the first entry from `first` on that cannot be read, or `last` if each can be read."""
    for number in range(first, last):
        try:
            for entry in AuditEntry.objects.filter(tenant=tenant, number=number):
                _seal(entry)
        except Exception as error:
            if not is_unreadable(error):
                raise
            return number
    return last


def list_entries(
    tenant: Tenant,
    *,
    actor: str = "",
    kind: str = "",
    since: datetime | None = None,
    until: datetime | None = None,
    before: int | None = None,
    limit: int = 50,
) -> Entries:
    """Return a page of the entries that match, newest first. Empty text and None filter nothing.

    `actor` matches any part of the actor's name. `kind` matches the first part of the action (`strictness` of
    `strictness.save`). `since` is inclusive, `until` exclusive.

    `before` is a number: only entries with a smaller number are returned. For the next page, pass `Entries.before` of
    the page that was returned.

    With an actor or a kind, one call searches at most `MOST_LOOKED_THROUGH` entries. Such a page can have few entries
    or none, and still have a cursor to older entries.
    """
    newest = Tenant.objects.values_list("audit_number", flat=True).get(pk=tenant.pk)
    end = newest + 1 if before is None else min(before, newest + 1)
    if until is not None:
        end = min(end, _find_first_number(tenant, until, newest))
    first = 1 if since is None else _find_first_number(tenant, since, newest)
    start = max(first, end - MOST_LOOKED_THROUGH) if actor or kind else first
    entries = AuditEntry.objects.filter(tenant=tenant, number__gte=start, number__lt=end).order_by("-number")
    if actor:
        entries = entries.filter(actor__icontains=actor)
    if kind:
        entries = entries.filter(action__startswith=f"{kind}.")
    found = list(entries[: limit + 1])
    items = found[:limit]
    if len(found) > limit:
        return Entries(items, items[-1].number)
    return Entries(items, start if start > first else None)


def _find_first_number(tenant: Tenant, moment: datetime, newest: int) -> int:
    """Return the number of the first entry at that moment or after it, or `newest + 1` if there is none.

    Times increase with numbers, so a binary search by number finds the entry, and times need no index.
    """
    low, high = 1, newest + 1
    times = AuditEntry.objects.filter(tenant=tenant).order_by("number").values_list("at", flat=True)
    while low < high:
        middle = (low + high) // 2
        at = times.filter(number__gte=middle).first()
        if at is None or at >= moment:
            high = middle
        else:
            low = middle + 1
    return low


def get_entry(tenant: Tenant, number: int) -> AuditEntry | None:
    return AuditEntry.objects.filter(tenant=tenant, number=number).first()


def _find_hash(tenant: Tenant, number: int) -> str:
    # A missing entry must not prevent new entries: otherwise, people could no longer work. `verify` reports the gap.
    found = AuditEntry.objects.filter(tenant=tenant, number=number).values_list("entry_hash", flat=True).first()
    return found or BEFORE_THE_FIRST


def _seal(entry: AuditEntry) -> str:
    return hashlib.sha256(entry.previous_hash.encode() + b"\n" + canonical_entry(entry)).hexdigest()


def canonical_entry(entry: AuditEntry) -> bytes:
    """Return the bytes of an entry that its hash covers. The hash also covers the hash of the entry before it."""
    facts = {
        "tenant": entry.tenant_id,
        "number": entry.number,
        "at": entry.at.astimezone(UTC).isoformat(timespec="microseconds"),
        "actor": entry.actor,
        "action": entry.action,
        "target": entry.target,
        "detail": entry.detail,
    }
    return orjson.dumps(facts, option=orjson.OPT_SORT_KEYS)
