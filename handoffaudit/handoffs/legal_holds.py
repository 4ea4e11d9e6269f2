"""Legal holds: orders to keep a handoff, a trace or a whole tenant, which every removal of data obeys.

A removal begins its transaction with `share`, which takes a shared lock and reads the holds of the tenant. `place`
takes the same lock exclusively. So a removal either ends before the hold is placed, or sees the hold.
"""

import uuid
from dataclasses import dataclass
from typing import Any, Final

from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from handoffaudit.accounts import Refused, audit
from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs import db, queries
from handoffaudit.handoffs.filters import spell_traces
from handoffaudit.handoffs.models import Handoff, HoldScope, LegalHold
from handoffaudit.validation.text import is_uuid, storable, trace_name, trim

PLACED: Final = "hold.place"
LIFTED: Final = "hold.lift"
MOST_HOLDS: Final = 1_000
LONGEST_REASON: Final = 2_000
LONGEST_KEY: Final = 200
# The first key of the advisory locks of holds, by which these locks differ from all other advisory locks.
_LOCKS: Final = 0x48414C48


@dataclass(frozen=True, slots=True)
class Holds:
    """The active holds of a tenant: whether everything is held, and the held handoffs and traces.

    `traces` has each spelling of a held trace, because old handoffs may have a UUID in upper case.
    """

    tenant_id: int
    is_everything: bool
    handoffs: frozenset[uuid.UUID]
    traces: frozenset[str]

    def __bool__(self) -> bool:
        return bool(self.is_everything or self.handoffs or self.traces)

    def covers_trace(self, trace_id: str) -> bool:
        return self.is_everything or trace_name(trace_id) in self.traces

    def exclude(self, rows: "QuerySet[Any]", handoff: str = "", trace: str = "") -> "QuerySet[Any]":
        """Return the rows without held rows.

        `handoff` names the column with the key of a handoff, `trace` the column with the id of a trace. If both names
        are empty, the rows are held only if the whole tenant is held.
        """
        if self.is_everything:
            return rows.none()
        if handoff and self.handoffs:
            rows = rows.exclude(**{f"{handoff}__in": self.handoffs, f"{handoff}__isnull": False})
        if trace and self.traces:
            rows = rows.exclude(**{f"{trace}__in": self.traces, f"{trace}__isnull": False})
        elif handoff and self.traces:
            traced = Handoff.objects.filter(tenant=self.tenant_id, trace_id__in=self.traces).values("pk")
            rows = rows.exclude(**{f"{handoff}__in": traced, f"{handoff}__isnull": False})
        return rows


NO_HOLDS: Final = Holds(0, is_everything=False, handoffs=frozenset(), traces=frozenset())


def read(tenant: Tenant) -> Holds:
    """Return the active holds of a tenant."""
    active = list(LegalHold.objects.filter(tenant=tenant, lifted_at=None).values_list("scope", "key"))
    return Holds(
        tenant.pk,
        any(scope == HoldScope.TENANT for scope, _ in active),
        frozenset(uuid.UUID(key) for scope, key in active if scope == HoldScope.HANDOFF),
        spell_traces(key for scope, key in active if scope == HoldScope.TRACE),
    )


def share(tenant: Tenant) -> Holds:
    """Return the active holds of a tenant, and keep new holds out until the transaction ends.

    Call first in a transaction that removes data.
    """
    db.take_lock(_LOCKS, tenant.pk % 2**31, shared=True)
    return read(tenant)


def of_handoff(handoff: Handoff) -> LegalHold | None:
    """Return an active hold on a handoff, its trace or its tenant, or None."""
    named = Q(scope=HoldScope.TENANT) | Q(scope=HoldScope.HANDOFF, key=str(handoff.pk))
    if handoff.trace_id:
        same = "key__iexact" if is_uuid(handoff.trace_id) else "key"
        named |= Q((same, handoff.trace_id), scope=HoldScope.TRACE)
    return LegalHold.objects.filter(named, tenant=handoff.tenant_id, lifted_at=None).order_by("id").first()


def list_holds(tenant: Tenant, *, before: int | None = None, limit: int = 100) -> list[LegalHold]:
    """Return at most `limit` holds of a tenant, active and lifted, newest first; with `before`, only smaller ids."""
    rows = LegalHold.objects.filter(tenant=tenant).order_by("-id")
    return list((rows if before is None else rows.filter(id__lt=before))[:limit])


def place(*, tenant: Tenant, scope: str, key: str, reason: str, actor: str) -> LegalHold:
    """Place a hold, or return the active hold with the same scope and key.

    `key` is the id of a handoff or of a trace. For a hold on the tenant, `key` is empty or the tenant's slug. Raise
    `Refused` for an unknown scope, handoff or trace, and for any other `key` if the scope is the tenant. Also raise
    `Refused` for a missing or invalid reason, and for too many holds.
    """
    if scope not in HoldScope.values:
        raise Refused(f"{scope[:40]!r} is not a scope of a hold", "scope", f"use one of {', '.join(HoldScope.values)}.")
    reason = _check_reason(reason)
    try:
        key, name = _find(tenant, HoldScope(scope), key)
    except Refused:
        # People copy ids with blanks around them.
        key, name = _find(tenant, HoldScope(scope), key.strip())
    with transaction.atomic():
        db.take_lock(_LOCKS, tenant.pk % 2**31)
        active = LegalHold.objects.filter(tenant=tenant, lifted_at=None)
        if known := active.filter(scope=scope, key=key).first():
            return known
        if active.count() >= MOST_HOLDS:
            remedy = "lift one first; a hold on a trace or the tenant can replace holds on its handoffs."
            raise Refused(f"There are {MOST_HOLDS:,} holds already", "scope", remedy)
        made = LegalHold.objects.create(
            tenant=tenant,
            scope=scope,
            key=key,
            name=name,
            reason=reason,
            placed_by=actor[:200],
            placed_at=timezone.now(),
        )
        _record(made, actor, PLACED, {"reason": reason[:500]})
    return made


def lift(*, tenant: Tenant, hold: int, reason: str, actor: str) -> LegalHold:
    """Lift a hold. Idempotent.

    Raise `LegalHold.DoesNotExist` for an unknown hold, and `Refused` for a missing or invalid reason.
    """
    reason = _check_reason(reason)
    with transaction.atomic():
        found = LegalHold.objects.select_for_update().get(tenant=tenant, pk=hold)
        if found.lifted_at is None:
            found.lifted_at, found.lifted_by = timezone.now(), actor[:200]
            found.save(update_fields=["lifted_at", "lifted_by"])
            _record(found, actor, LIFTED, {"reason": reason[:500]})
    return found


def _find(tenant: Tenant, scope: HoldScope, key: str) -> tuple[str, str]:
    """Return the key and the name of the thing to hold. Raise `Refused` if the tenant has no such thing."""
    if scope is HoldScope.TENANT:
        if key not in {"", tenant.slug}:
            remedy = "leave the id out, or hold a handoff or a trace."
            raise Refused(f"A hold on the tenant {tenant.slug} has no id {key[:80]!r}", "key", remedy)
        return "", tenant.slug
    if not key or len(key) > LONGEST_KEY or not storable(key):
        raise Refused(
            f"A hold on a {scope} needs the id of the {scope}",
            "key",
            f"write the id, of at most {LONGEST_KEY} characters.",
        )
    if scope is HoldScope.TRACE:
        if not Handoff.objects.filter(tenant=tenant, trace_id__in=spell_traces([key])).exists():
            raise Refused(f"No handoff has the trace {key[:80]!r}", "key", "write the id of a trace.")
        # A UUID in mixed case stays as it is, because its lower case would not cover the handoffs with that spelling.
        name = trace_name(key)
        name = name if key in spell_traces([name]) else key
        return name, name
    try:
        found = queries.get(tenant, key)
    except Handoff.DoesNotExist:
        raise Refused(f"There is no handoff {key[:80]!r}", "key", "write the id of a handoff.") from None
    return str(found.pk), found.handoff_id


def _check_reason(reason: str) -> str:
    reason = trim(reason)
    if not reason or len(reason) > LONGEST_REASON or not storable(reason):
        remedy = f"write why, in at most {LONGEST_REASON:,} characters without NUL."
        raise Refused("The reason is missing or cannot be stored", "reason", remedy)
    return reason


def _record(hold: LegalHold, actor: str, action: str, detail: dict[str, Any]) -> None:
    target = f"{hold.scope} {hold.name}"
    audit.record(tenant=hold.tenant, actor=actor, action=action, target=target, detail={"hold": hold.pk, **detail})
