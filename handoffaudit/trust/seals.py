"""Seals of decisions and verdicts: the digests of their rows, and the periodic job that seals rows in batches.

A seal covers the events, verdicts and new policy versions of a tenant since the seal before it. It also covers the
newest entry of the tenant's audit log.
"""

import hashlib
import time
import uuid
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache
from typing import Any, Final

import structlog
from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import F, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.utils import timezone

from handoffaudit.accounts.models import AuditEntry, Tenant
from handoffaudit.handoffs import judge_leases, partitions
from handoffaudit.handoffs.filters import first_id_at
from handoffaudit.handoffs.leases import NamedLease, background_part, work_clock
from handoffaudit.handoffs.models import Event, State, Verdict
from handoffaudit.handoffs.webhooks.events import MOST_GAPS, Gap, close_gaps, find_arrived, find_missing
from handoffaudit.policy.models import PolicyVersion
from handoffaudit.trust import signatures
from handoffaudit.trust.models import Seal, SealKind, SealProgress, TrustLease
from handoffaudit.trust.signatures import (
    EVENT,
    POLICY,
    SEAL_PURPOSE,
    VERDICT,
    Sealed,
    SealKey,
    WrongKey,
    canonical,
    pack,
    utc,
)

# A receipt and the start of judging decide nothing. Most events are of these two kinds.
_DECIDES_NOTHING: Final = Q(from_state__in=("", State.RECEIVED), to_state__in=(State.RECEIVED, State.VALIDATING))

_EVENT: Final = ("id", "tenant_id", "handoff_id", "at", "actor_kind", "actor", "from_state", "to_state", "reason")
_VERDICT: Final = (
    *("id", "tenant_id", "handoff_id", "outcome", "policy_version", "validated_at", "content"),
    "handoff__content_hash",
)
_POLICY: Final = ("id", "tenant_id", "kind", "number", "content", "changed_by", "changed_at", "note")
_TOO_LARGE: Final = 2**63


def sealed_events() -> "QuerySet[Event]":
    """Return the events that are sealed: all but receipts and starts of judging."""
    return Event.objects.exclude(_DECIDES_NOTHING)


@dataclass(frozen=True, slots=True)
class Row:
    """A stored row as facts, which are the same on every database, and its digest."""

    sealed: Sealed
    tenant: int
    facts: dict[str, Any]


def _row(kind: int, number: int, handoff: uuid.UUID | None, tenant: int, facts: dict[str, Any]) -> Row:
    digest = hashlib.sha256(canonical(facts)).digest()
    return Row(Sealed(kind, number, handoff.int if handoff else 0, digest), tenant, facts)


# The queries below do not use `iterator()`: the callers limit the number of rows, and a cursor on the server would cost
# more than the rows. The code lists the facts one by one, because a general conversion took longer than everything else
# in sealing.
def read_events(events: "QuerySet[Event]") -> Iterator[Row]:
    """Yield events as rows, in the order of the query."""
    for pk, tenant, handoff, at, actor_kind, actor, from_state, to_state, reason in events.values_list(*_EVENT):
        facts = {
            "row": "event",
            "id": pk,
            "tenant_id": tenant,
            "handoff_id": str(handoff),
            "at": utc(at),
            "actor_kind": actor_kind,
            "actor": actor,
            "from_state": from_state,
            "to_state": to_state,
            "reason": reason,
        }
        yield _row(EVENT, pk, handoff, tenant, facts)


def read_verdicts(verdicts: "QuerySet[Verdict]") -> Iterator[Row]:
    """Yield verdicts as rows, in the order of the query. Each names the hash of the submission that was judged."""
    for pk, tenant, handoff, outcome, version, at, content, content_hash in verdicts.values_list(*_VERDICT):
        facts = {
            "row": "verdict",
            "id": str(pk),
            "tenant_id": tenant,
            "handoff_id": str(handoff),
            "outcome": outcome,
            "policy_version": version,
            "validated_at": utc(at),
            "content": content,
            "handoff__content_hash": content_hash,
        }
        yield _row(VERDICT, pk.int, handoff, tenant, facts)


def read_policies(versions: "QuerySet[PolicyVersion]") -> Iterator[Row]:
    for row in versions.values_list(*_POLICY):
        facts = {"row": "policy", **dict(zip(_POLICY, row, strict=True))}
        facts["changed_at"] = utc(facts["changed_at"])
        yield _row(POLICY, row[0], None, row[1], facts)


def read_rows(sealed: Iterable[Sealed]) -> dict[tuple[int, int], Row]:
    """Return the stored rows of a seal's list by kind and id. A row that is gone is missing in the result."""
    ids: dict[int, list[int]] = {EVENT: [], VERDICT: [], POLICY: []}
    for one in sealed:
        # A list that somebody changed may have numbers that no column holds.
        if one.kind == VERDICT or one.number < _TOO_LARGE:
            ids[one.kind].append(one.number)
    found: dict[tuple[int, int], Row] = {}
    for kind, numbers in ids.items():
        for start in range(0, len(numbers), 500):
            some = _read_kind(kind, numbers[start : start + 500])
            found |= {(kind, row.sealed.number): row for row in some}
    return found


def _read_kind(kind: int, numbers: list[int]) -> Iterator[Row]:
    if kind == EVENT:
        return read_events(Event.objects.filter(pk__in=numbers))
    if kind == VERDICT:
        return read_verdicts(Verdict.objects.filter(pk__in=[uuid.UUID(int=one) for one in numbers]))
    return read_policies(PolicyVersion.objects.filter(pk__in=numbers))


log = structlog.get_logger(__name__)

LEASE: Final = NamedLease(TrustLease, "seals")

# The largest number of new events in a batch. A batch may have as many late events (committed late) in addition.
BATCH: Final = 1000

# Seconds of work in one pass, and the share of one thread's time while handoffs wait to be judged.
_LONGEST_PASS: Final = 1.0
_SHARE: Final = 0.04

_MOST_POLICIES: Final = 200
_MOST_TENANTS: Final = 500


class _Overtaken(Exception):
    """The error for a batch that another process has sealed meanwhile."""


def seal_due() -> None:
    """Seal new rows for about a second, or in a few per cent of the time while handoffs wait to be judged."""
    held_until = LEASE.acquire()
    if held_until is None:
        return
    begun, pause = work_clock(), timedelta()
    try:
        key = signatures.load_key(settings.DATA_FOLDER)
        busy = judge_leases.is_anything_waiting()
        end = begun + (min(_LONGEST_PASS, _SHARE * settings.SWEEP_SECONDS) if busy else _LONGEST_PASS)
        is_more = True
        while is_more and work_clock() < end:
            with background_part():
                is_more = seal_batch(key)
        seal_audit_logs(key)
        if busy:
            # No worker starts a pass during the pause, because all workers together may only use `_SHARE` of the time.
            pause = timedelta(seconds=(work_clock() - begun) * (1 / _SHARE - 1))
    except WrongKey as error:
        _warn_once(str(error))
    except (_Overtaken, IntegrityError):
        log.warning("another process seals the same rows")
    finally:
        LEASE.release(held_until, pause)


@cache
def _warn_once(error: str) -> None:
    """Log why nothing is sealed, once in a process: the job runs every few seconds."""
    log.warning("nothing is sealed, because the seal key cannot be used", error=error)


@dataclass(slots=True)
class _Batch:
    """The rows to seal, grouped by tenant. `reached` is the id of the last event that was looked at."""

    reached: int
    found: dict[int, list[Sealed]] = field(default_factory=lambda: defaultdict(list))


def seal_batch(key: SealKey) -> bool:
    """Seal the next batch of events with their verdicts. Return whether there may be more.

    Raise `WrongKey` if seals need another key, or `_Overtaken` or `IntegrityError` if another process sealed the batch.
    """
    progress = SealProgress.objects.get_or_create(pk=1)[0]
    ids = list(Event.objects.filter(id__gt=progress.reached).order_by("id").values_list("id", flat=True)[:BATCH])
    gaps: list[Gap] = [(first, last, at) for first, last, at in progress.gaps]
    if not ids and not gaps:
        return False
    came = find_arrived(gaps, BATCH)
    now, batch = time.time(), _Batch(ids[-1] if ids else progress.reached)
    left = close_gaps(gaps, came, now) + find_missing(progress.reached, ids, now)
    if not ids and not came and len(left) == len(gaps):
        return False
    _collect(Q(id__gt=progress.reached, id__lte=batch.reached) | Q(id__in=came), batch)
    with transaction.atomic():
        same = SealProgress.objects.filter(pk=1, pass_number=progress.pass_number)
        if not same.update(reached=batch.reached, gaps=left[-MOST_GAPS:], pass_number=F("pass_number") + 1):
            raise _Overtaken
        _store(batch.found, batch.reached, key)
    return len(ids) == BATCH


def _collect(which: Q, batch: _Batch) -> None:
    """Read the events that match, and the verdicts that were stored together with them."""
    judged: dict[uuid.UUID, set[str]] = defaultdict(set)
    moments: set[str] = set()
    for row in read_events(sealed_events().filter(which).order_by("id")):
        batch.found[row.tenant].append(row.sealed)
        # The event of a document that cannot be read has the time of its arrival instead of the time of its verdict.
        # For such an event, `at` is empty, and matches every verdict of the handoff.
        at = "" if row.facts["from_state"] == "" else row.facts["at"]
        judged[uuid.UUID(int=row.sealed.handoff)].add(at)
        moments.add(row.facts["at"])
    if not judged:
        return
    first, last = (first_id_at(datetime.fromisoformat(one)) for one in (min(moments), max(moments)))
    made = partitions.filter_made_between(first, last)
    for row in read_verdicts(Verdict.objects.filter(made, handoff__in=list(judged)).order_by("id")):
        if judged[uuid.UUID(int=row.sealed.handoff)] & {row.facts["validated_at"], ""}:
            batch.found[row.tenant].append(row.sealed)


def seal_audit_logs(key: SealKey) -> None:
    """Seal audit logs and policy versions, but no events, of the tenants whose audit logs have new entries."""
    newest = Seal.objects.filter(tenant=OuterRef("pk")).order_by("-number").values("audit_number")[:1]
    due = Tenant.objects.filter(is_sample=False, audit_number__gt=Coalesce(Subquery(newest), 0)).order_by("pk")
    found: dict[int, list[Sealed]] = {pk: [] for pk in due.values_list("pk", flat=True)[:_MOST_TENANTS]}
    if found:
        reached = SealProgress.objects.values_list("reached", flat=True).filter(pk=1).first() or 0
        with transaction.atomic():
            _store(found, reached, key)


def _store(found: Mapping[int, Sequence[Sealed]], reached: int, key: SealKey) -> None:
    """Add one seal for each tenant. Sample tenants have no seals: their data is made up and soon removed."""
    tenants = Tenant.objects.filter(pk__in=list(found), is_sample=False).order_by("pk")
    for tenant in tenants:
        if (head := Seal.head_of(tenant)) is not None and head.current_key != key.public:
            # The progress must not pass these rows, or the right key would never seal them.
            needed = signatures.id_of(head.current_key)
            raise WrongKey(f"The seals of {tenant.slug} need the key {needed}, and this process has {key.key_id}.")
        listed = [*found[tenant.pk], *_new_policies(tenant, head)]
        make_seal(tenant, head, listed, reached, key).save(force_insert=True)


def _new_policies(tenant: Tenant, head: Seal | None) -> list[Sealed]:
    # Versions of a tenant are saved one after another under its lock, so their ids rise in the order of their commits.
    after = PolicyVersion.objects.filter(tenant=tenant, id__gt=head.last_policy if head else 0).order_by("id")
    return [row.sealed for row in read_policies(after[:_MOST_POLICIES])]


def seal_erased(tenant: Tenant, changed: Iterable[Row]) -> None:
    """Seal the new digests of rows in which an erasure replaced a value; call inside the transaction of the erasure.

    Without the right key, the rows are not sealed again, and `verify-log` names them. An erasure is a duty, and does
    not wait for the key.
    """
    listed, head = [row.sealed for row in changed], Seal.head_of(tenant)
    if not listed or head is None:
        return
    key = None
    with suppress(WrongKey):
        key = signatures.load_key(settings.DATA_FOLDER)
    if key is None or head.current_key != key.public:
        log.warning(
            "erased rows are not sealed again, because this process does not have the key of the seals",
            tenant=tenant.slug,
        )
        return
    make_seal(tenant, head, listed, head.reached, key, SealKind.ERASURE).save(force_insert=True)


def make_seal(
    tenant: Tenant,
    head: Seal | None,
    listed: Iterable[Sealed],
    reached: int,
    key: SealKey,
    kind: SealKind = SealKind.ROWS,
) -> Seal:
    """Return the tenant's next seal over these rows, signed and not stored."""
    listed = list(listed)
    events = [one.number for one in listed if one.kind == EVENT]
    verdicts = [uuid.UUID(int=one.number) for one in listed if one.kind == VERDICT]
    policies = [one.number for one in listed if one.kind == POLICY]
    audit_number, audit_hash = _audit_head(tenant)
    seal = Seal(
        tenant=tenant,
        number=head.number + 1 if head else 1,
        at=timezone.now(),
        kind=kind,
        rows=pack(listed),
        first_event=min(events, default=0),
        last_event=max(events, default=0),
        first_verdict=min(verdicts, default=None),
        last_verdict=max(verdicts, default=None),
        last_policy=max(policies, default=head.last_policy if head else 0),
        audit_number=audit_number,
        audit_hash=audit_hash,
        reached=reached,
        previous_hash=head.seal_hash if head else "",
        public_key=key.public,
        key_id=key.key_id,
    )
    seal.sign(key)
    return seal


def _audit_head(tenant: Tenant) -> tuple[int, str]:
    newest = AuditEntry.objects.filter(tenant=tenant).order_by("-number").values_list("number", "entry_hash").first()
    return newest or (0, "")


def change_key(old: SealKey | None, new: SealKey) -> int:
    """Let the key `new` sign from now on, in every tenant; return the number of tenants whose key changed.

    Without the old key, the new key signs the change alone, and `verify-log` says so. Raise `WrongKey` if the seals of
    a tenant are signed with another key than `old`.
    """
    number = 0
    with transaction.atomic():
        for tenant in Tenant.objects.filter(is_sample=False).order_by("pk"):
            head = Seal.objects.filter(tenant=tenant).order_by("-number").first()
            if head is None or head.current_key == new.public:
                continue
            if old is not None and head.current_key != old.public:
                needed = signatures.id_of(head.current_key)
                raise WrongKey(f"The seals of {tenant.slug} are signed with the key {needed}, not {old.key_id}.")
            signer = old or new
            seal = make_seal(tenant, head, (), head.reached, signer)
            seal.kind, seal.new_key = SealKind.KEY, new.public
            seal.sign(signer)
            seal.new_signature = new.sign(SEAL_PURPOSE, seal.seal_hash.encode())
            seal.save(force_insert=True)
            number += 1
    return number


def oldest_waiting(tenant: Tenant) -> tuple[int, datetime | None]:
    """Return the number of a tenant's events that wait for a seal, at most 10,000, and the time of the oldest."""
    reached = SealProgress.objects.values_list("reached", flat=True).filter(pk=1).first() or 0
    waiting = sealed_events().filter(tenant=tenant, id__gt=reached).order_by("id")[:10_000]
    times = list(waiting.values_list("at", flat=True))
    return len(times), min(times, default=None)


# A row that is committed later than rows with greater ids is also sealed later, but within this time.
LATE: Final = timedelta(minutes=5)
