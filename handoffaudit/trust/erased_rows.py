"""Sealed rows that an erasure changed: their digests after the change, which the audit log anchors."""

import hashlib
import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from handoffaudit.accounts.models import AuditEntry, Tenant
from handoffaudit.handoffs.models import Event, Verdict
from handoffaudit.trust import rows
from handoffaudit.trust.models import ErasedRows
from handoffaudit.trust.sealed_list import Sealed, WrongList, pack, unpack

CONFIRMED: Final = "erasure.confirm"
DONE: Final = "erasure.done"

# The digests that a changed row may have, by its kind and id.
Erased = dict[tuple[int, int], set[bytes]]


def record(tenant: Tenant, erasure: uuid.UUID, model: type[Any], pks: Sequence[Any]) -> None:
    """Store the digests of verdicts or events that the erasure has just changed, in its transaction."""
    if not pks or model not in (Event, Verdict):
        return
    changed: Iterable[rows.Row] = (
        rows.read_events(Event.objects.filter(tenant=tenant, pk__in=pks).order_by("pk"))
        if model is Event
        else rows.read_verdicts(Verdict.objects.filter(tenant=tenant, pk__in=pks).order_by("pk"))
    )
    ErasedRows.objects.create(tenant=tenant, erasure=erasure, rows=pack(row.sealed for row in changed))


def hash_of(tenant: Tenant, erasure: uuid.UUID) -> str:
    """Return the hash of all rows that the erasure changed, for its audit entry."""
    digest = hashlib.sha256()
    for packed in _packs(tenant, erasure):
        digest.update(packed)
    return digest.hexdigest()


def list_erased(tenant: Tenant) -> tuple[Erased, list[str]]:
    """Return the digests of changed rows that the audit log vouches for, and notes about erasures at work."""
    found: Erased = {}
    notes: list[str] = []
    done = dict(
        AuditEntry.objects.filter(tenant=tenant, action=DONE)
        .values_list("target", "detail__rows_hash")
        .order_by("number")
    )
    confirmed = set(AuditEntry.objects.filter(tenant=tenant, action=CONFIRMED).values_list("target", flat=True))
    listed = ErasedRows.objects.filter(tenant=tenant).order_by("erasure").values_list("erasure", flat=True).distinct()
    for erasure in listed:
        name = str(erasure)
        if name in done and done[name] != hash_of(tenant, erasure):
            continue
        if name not in done and name in confirmed:
            notes.append(f"the erasure {name} is at work: the audit log does not have its changed rows yet")
        elif name not in done:
            continue
        for packed in _packs(tenant, erasure):
            for row in _unpack(packed):
                found.setdefault((row.kind, row.number), set()).add(row.digest)
    return found, notes


def _packs(tenant: Tenant, erasure: uuid.UUID) -> Iterator[bytes]:
    found = ErasedRows.objects.filter(tenant=tenant, erasure=erasure).order_by("id").values_list("rows", flat=True)
    for packed in found.iterator(chunk_size=100):
        yield bytes(packed)


def _unpack(packed: bytes) -> list[Sealed]:
    try:
        return list(unpack(packed))
    except WrongList:
        return []
