"""Leases of workers on handoffs to be judged.

Handoffs that no worker has tried are leased together. One row of `JudgeLease` names them, and their own rows do not
change before their verdicts are stored. A handoff whose worker failed or died is leased alone, in its own row
(`leases.py`), because the handoff may be the cause.

Every transaction that locks handoffs and leases locks the handoffs first, in the order of their keys. Then it locks the
leases, in the order of their tokens.
"""

import json
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache

from django.conf import settings
from django.db import connection, transaction
from django.db.models import Exists, F, Q, QuerySet
from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.database_faults import FAILURES
from handoffaudit.handoffs import attempts, db, leases, transitions
from handoffaudit.handoffs.attempts import UNTRIED
from handoffaudit.handoffs.models import Handoff, JudgeLease, LateResults, ModelCheck, State
from handoffaudit.handoffs.results import JudgedHandoff

# The first key of the advisory lock that workers hold while they take a lease.
_LOCKS = 0x4C454153


@dataclass(frozen=True, slots=True)
class Lease:
    """A lease of one worker on handoffs that no worker has tried before, or on a part of these handoffs.

    `at` is the time at which the lease began, and None for `LeaseAlone`. `is_last` is False if further parts of the
    lease are to be judged.
    """

    token: uuid.UUID
    handoffs: list[Handoff]
    at: datetime | None
    is_last: bool = True

    @property
    def alone(self) -> bool:
        """Return whether the lease is on a single handoff whose earlier lease expired or was given back."""
        return False

    def part(self, handoffs: list[Handoff], *, is_last: bool) -> "Lease":
        """Return a part of the lease."""
        return replace(self, handoffs=handoffs, is_last=is_last)

    def lock_held(self, *, ends: bool = False) -> set[uuid.UUID]:
        """Lock the handoffs and their lineages, and then the lease, until the transaction ends.

        Return the primary keys of the handoffs that this lease still holds. A handoff whose row changed since the
        worker read it is left out: an erasure, for example, increases the version. With `ends`, also delete the lease.
        """
        rows = attempts.lock(self.handoffs)
        lock = _LOCK if db.is_postgresql() else _FIND
        if not db.fetch_rows(_END if ends else lock, [_bind(self.token)]):
            return set()
        unchanged = ((one.id, rows.get(one.id), one.version) for one in self.handoffs)
        return {pk for pk, row, version in unchanged if row and row.is_untried and row.version == version}

    def hold(self, judged: Iterable[JudgedHandoff]) -> list[JudgedHandoff]:
        """Lock the handoffs and their lineages; return the judged handoffs that this lease still holds.

        The last part ends the lease. A handoff without a stored verdict is then free for every worker.
        """
        held = self.lock_held(ends=self.is_last)
        return [one for one in judged if one.handoff.id in held]

    def end(self) -> None:
        """Do nothing, because `hold` has ended the lease, in the transaction that stores the last verdicts."""

    def renew(self) -> None:
        """Extend the lease, counted from now."""
        JudgeLease.objects.filter(pk=self.token).update(expires_at=leases.compute_expiry())

    def give_back(self) -> None:
        """Give back the handoffs that this lease still holds. From now on, workers can lease each of them alone."""
        _dissolve(JudgeLease.objects.filter(pk=self.token), timezone.now())

    def undo(self) -> None:
        """Give back the handoffs as if no worker had tried them."""
        JudgeLease.objects.filter(pk=self.token).delete()

    def release(self, handoff: Handoff) -> None:
        """Give back a handoff whose judging failed, so that a worker tries the handoff again alone."""
        rows = _filter_untried().filter(Exists(JudgeLease.objects.filter(pk=self.token)), pk=handoff.pk)
        with transaction.atomic():
            # The row gets two tries: the try that every handoff of the lease gets, and the failure of this handoff.
            if leases.release(rows, handoff.tries, tries=handoff.tries + 1, state=State.VALIDATING):
                transitions.record_start([handoff], self.at or timezone.now())


class LeaseAlone(Lease):
    """A lease on a single handoff, in the row of the handoff. The statement that stores a verdict ends the lease."""

    __slots__ = ()

    @property
    def alone(self) -> bool:
        return True

    def lock_held(self, *, ends: bool = False) -> set[uuid.UUID]:
        rows = attempts.lock(self.handoffs)
        return {one.id for one in self.handoffs if (row := rows.get(one.id)) and row.claim == self.token}

    def renew(self) -> None:
        leases.renew(self._held)

    def undo(self) -> None:
        leases.undo_try(self._held)

    def release(self, handoff: Handoff) -> None:
        leases.release(self._held, handoff.tries)

    @property
    def _held(self) -> "QuerySet[Handoff]":
        return Handoff.objects.filter(pk__in=[handoff.pk for handoff in self.handoffs], claim=self.token)


_TABLE = Handoff._meta.db_table  # noqa: SLF001 -- Django's documented API
_LEASES = JudgeLease._meta.db_table  # noqa: SLF001 -- Django's documented API
_FIND = f'SELECT 1 FROM "{_LEASES}" WHERE token = %s'  # noqa: S608
_LOCK = f"{_FIND} FOR UPDATE"
_END = f'DELETE FROM "{_LEASES}" WHERE token = %s RETURNING token'  # noqa: S608
_INSERT = f'INSERT INTO "{_LEASES}" (token, at, expires_at, handoffs) VALUES (%s, %s, %s, %s)'  # noqa: S608
# The commit does not wait for the disk: if a power failure undoes the lease, a worker leases the handoffs again. If the
# machine of a worker stops during its turn, the timeout ends the turn, so that the other workers do not wait for long.
_TAKE_TURN = f"""
    SELECT set_config('synchronous_commit', 'off', TRUE),
    set_config('idle_in_transaction_session_timeout', '30s', TRUE), pg_advisory_xact_lock({_LOCKS}, 0)
"""
# Without the first test, the statement would read all handoffs of the tenant that have no trace.
_IS_FIRST_OF_TRACE = f"""(trace_id = '' OR NOT EXISTS (
    SELECT 1 FROM "{_TABLE}" AS earlier WHERE earlier.tenant_id = "{_TABLE}".tenant_id
    AND earlier.trace_id = "{_TABLE}".trace_id AND earlier.id < "{_TABLE}".id
    AND earlier.state IN ('received', 'validating') AND NOT earlier.parked
))"""  # noqa: S608


def _bind(pk: uuid.UUID) -> uuid.UUID | str:
    return pk if db.is_postgresql() else pk.hex


def take_fresh(limit: int) -> Lease | None:
    """Lease up to `limit` handoffs that no worker has tried yet, oldest first; return None if there are none."""
    return _take("TRUE", [], limit)


def take_one(pk: uuid.UUID) -> Lease | None:
    """Lease a handoff that was just stored.

    Return None if a worker has the handoff, or if earlier handoffs of its trace wait to be judged. The earlier
    handoffs come first, because the handoff is judged by the facts that they brought into the trace.
    """
    return _take(f"id = %s AND {_IS_FIRST_OF_TRACE}", [_bind(pk)], 1)


def _take(condition: str, values: list[object], limit: int) -> Lease | None:
    """Lease handoffs that no worker has tried and no other lease names."""
    token, now, expires_at = uuid.uuid4(), timezone.now(), leases.compute_expiry()
    reader, found = db.reader_of(Handoff), list[Handoff]()
    keys: list[uuid.UUID] = []
    with transaction.atomic():
        if db.is_postgresql():
            with connection.cursor() as cursor:
                # This statement waits until the worker that is taking a lease ends its transaction. The next statement
                # begins after that, so it sees the lease of that worker.
                cursor.execute(_TAKE_TURN)
            bound = [*values, limit, token, now, expires_at]
            if limit == 1:
                # A single row fits into the buffers of the connection.
                found = reader.run(_take_statement(condition, reader.columns), bound)
            else:
                keys = [pk for (pk,) in db.fetch_rows(_take_statement(condition, "id"), bound)]
        else:
            keys = [db.to_uuid(pk) for (pk,) in db.fetch_rows(_pick_statement(condition, "id"), [*values, limit])]
            if keys:
                times = map(connection.ops.adapt_datetimefield_value, (now, expires_at))
                db.execute_each(_INSERT, [[token.hex, *times, json.dumps([pk.hex for pk in keys])]])
    lease = Lease(token, found, now)
    # Several rows are read after the worker's turn, because they may not fit into the buffers of the connection. If a
    # worker read them during its turn, and froze before the last row, it would keep all other workers waiting.
    try:
        found.extend(_read(keys) if keys else [])
    except FAILURES as error:
        note_lost(lease, error)
        raise
    for handoff in found:
        handoff.state, handoff.tries = State.VALIDATING, 1
    return lease if found else None


def _read(keys: list[uuid.UUID]) -> list[Handoff]:
    reader = db.reader_of(Handoff)
    is_key, values = db.among(keys)
    return reader.run(f'SELECT {reader.columns} FROM "{_TABLE}" WHERE id {is_key} ORDER BY id', values)  # noqa: S608


@cache
def _pick_statement(condition: str, columns: str) -> str:
    # The statement sorts in the order of the index of waiting handoffs. If it sorted by id alone, PostgreSQL would read
    # all judged handoffs first.
    return f"""
        SELECT {columns} FROM "{_TABLE}" WHERE {UNTRIED} AND {condition}
        AND id NOT IN ({JudgeLease.select_handoffs().sql}) ORDER BY claim_expires_at, id LIMIT %s
    """  # noqa: S608


@cache
def _take_statement(condition: str, columns: str) -> str:
    return f"""
        WITH picked AS ({_pick_statement(condition, columns)}), taken AS (
            INSERT INTO "{_LEASES}" (token, at, expires_at, handoffs)
            SELECT %s, %s, %s, array_agg(id) FROM picked HAVING COUNT(*) > 0
        ) SELECT {columns} FROM picked
    """  # noqa: S608


def take_left_behind() -> Lease | None:
    """Lease one handoff whose earlier lease expired or was given back. Return None if there is no such handoff.

    The caller must judge no other handoff at the same time. If the worker dies, the cause is then known, and no other
    handoff is affected.
    """
    expired = JudgeLease.objects.filter(expires_at__lt=timezone.now())
    for token, expires_at in expired.order_by("expires_at").values_list("token", "expires_at"):
        # A worker may renew its lease meanwhile.
        _dissolve(expired.filter(pk=token), expires_at)
    with transaction.atomic():
        token, handoffs = leases.take_first(
            Handoff,
            "state IN ('received', 'validating') AND NOT parked AND claim_expires_at < %s AND tries <= %s",
            [timezone.now(), settings.LEASE_TRIES],
            order="claim_expires_at, id",
            limit=1,
            changes="state = 'validating', tries = tries + 1",
        )
    return LeaseAlone(token, handoffs, None) if handoffs else None


def _dissolve(rows: "QuerySet[JudgeLease]", at: datetime) -> None:
    """Delete a lease that the worker did not end. From the time `at`, workers try each of its handoffs again, alone.

    `rows` finds the lease. Handoffs that have a verdict, or failed alone already, stay as they are.
    """
    with transaction.atomic():
        lease = rows.first()
        if lease is None:
            return
        left = _filter_untried().filter(pk__in=lease.handoffs).only("id", "tenant_id")
        handoffs = list(left.select_for_update().order_by("pk"))
        # Before the handoffs were locked, another worker may have dissolved the lease, or the holder of the lease may
        # have stored its verdicts.
        if rows.delete()[0]:
            locked = Handoff.objects.filter(pk__in=[handoff.pk for handoff in handoffs])
            leases.end(locked, at=at, tries=1, state=State.VALIDATING)
            transitions.record_start(handoffs, lease.at)


def _filter_untried() -> "QuerySet[Handoff]":
    return Handoff.objects.extra(where=[UNTRIED])  # noqa: S610 -- no input in the text


def filter_waiting() -> "QuerySet[Handoff]":
    """Return the handoffs without a final verdict that are not parked."""
    # SQLite uses the partial index only if the statement repeats the condition of the index without parameters.
    return Handoff.objects.extra(where=["NOT parked AND state IN ('received', 'validating')"])


def is_any_left_behind() -> bool:
    """Return whether a handoff waits whose earlier lease expired or was given back."""
    left = filter_waiting().filter(leases.is_expired(), tries__lte=settings.LEASE_TRIES)
    return left.exists() or _is_any_expired()


def is_anything_waiting() -> bool:
    """Return whether a worker has work: a handoff that nobody has tried, or a handoff that was left behind.

    A handoff that is being judged, or that waits for the LLM, is no work for this queue.
    """
    free = leases.NEVER_LEASED & Q(tries=0) & ~Q(pk__in=JudgeLease.select_handoffs())
    return filter_waiting().filter(free | leases.is_expired()).exists() or _is_any_expired()


def _is_any_expired() -> bool:
    return JudgeLease.objects.filter(expires_at__lt=timezone.now()).exists()


def revoke_leases(tenant: Tenant, pks: Sequence[uuid.UUID] | None = None) -> None:
    """Take back the leases on these handoffs, or on all handoffs of the tenant, so that workers judge them again.

    Call after a change of the rows from which verdicts, LLM checks and repairs are made, in the same transaction or in
    a later one. Verdicts, LLM checks and repairs that are under way are then not stored.
    """
    rows, checks = Handoff.objects.filter(tenant=tenant), ModelCheck.objects.filter(tenant=tenant)
    leased = filter_waiting().filter(tenant=tenant).exclude(claim=None)
    together = dict(JudgeLease.objects.values_list("token", "handoffs"))
    # Repairs on request and verdicts with late tool results need no lease on the handoff, but a new version keeps them
    # from being stored. For the handoffs in `pks`, the new version also keeps out the verdicts of a worker that takes a
    # lease while this transaction runs.
    if pks is None:
        traces = LateResults.objects.filter(tenant=tenant).exclude(claim=None).values_list("trace_id", flat=True)
        versioned = rows.filter(trace_id__in=list(traces))
        named = rows.filter(pk__in={pk for keys in together.values() for pk in keys}).values_list("pk", flat=True)
        # One statement with both conditions would read all handoffs.
        found = {*versioned.values_list("pk", flat=True), *leased.values_list("pk", flat=True), *named}
    else:
        versioned, checks, leased = rows.filter(pk__in=pks), checks.filter(pk__in=pks), leased.filter(pk__in=pks)
        found = set(pks)
    # Workers lock handoffs in this order, too.
    list(rows.filter(pk__in=found).select_for_update().order_by("pk").values_list("pk", flat=True))
    versioned.update(version=F("version") + 1)
    now = timezone.now()
    leases.end(leased, at=now, tries=1)
    tokens = sorted(token for token, keys in together.items() if not found.isdisjoint(keys))
    if tokens:
        revoked = JudgeLease.objects.filter(pk__in=tokens)
        list(revoked.select_for_update().order_by("pk").values_list("pk", flat=True))
        # The other handoffs of these leases are judged again, too.
        revoked.delete()
    leases.end(checks.exclude(claim=None), at=now)


# The leases, by token, that this process could not use or end, because the database failed; and whether their handoffs
# are blameless.
_lost: dict[uuid.UUID, tuple[Lease, bool]] = {}


def note_lost(lease: Lease, error: BaseException) -> None:
    """Remember a lease that was lost with the database. `give_back_lost` gives it back.

    A handoff that is judged alone may be the cause of the error. Such a handoff waits for the end of its lease.
    """
    blameless = leases.is_blameless(error)
    if blameless or not lease.alone:
        _lost[lease.token] = lease, blameless


def give_back_lost() -> None:
    """Give back the leases that this process lost with the database, so that no handoff waits until they expire.

    Raise the error of the database if it still fails.
    """
    for token, (lease, blameless) in list(_lost.items()):
        if blameless:
            lease.undo()
        else:
            lease.give_back()
        _lost.pop(token, None)
