"""The erasure of one value, such as the e-mail or the name of a person, from everything that a tenant stores.

An erasure first counts the rows with the value. After a confirmation it replaces the value with a marker, row by row.
A worker does both in small batches and stores its progress with each batch, so that any process can continue.
"""

import contextlib
import hashlib
import hmac
import re
import time
import unicodedata
import uuid
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final

import orjson
import structlog
from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from handoffaudit.accounts import Refused, audit
from handoffaudit.accounts.models import Tenant
from handoffaudit.diagnostics.erasure_text import pattern_of, replace
from handoffaudit.diagnostics.models import Erasure, ErasureState, FindingGroup, Watermark
from handoffaudit.diagnostics.removal import TARGETS, ErasureTarget
from handoffaudit.handoffs import judge_leases, legal_holds, notify
from handoffaudit.handoffs.db import write_turn
from handoffaudit.handoffs.leases import NamedLease, pause_after
from handoffaudit.handoffs.transitions import SYSTEM
from handoffaudit.policy import kinds
from handoffaudit.validation.layers import CATALOGUE, FAMILIES
from handoffaudit.validation.text import storable, trim

log = structlog.get_logger(__name__)

TASK: Final = "handoffaudit.diagnostics.tasks.erase_values"
LEASE: Final = NamedLease(Watermark, "erasure.claim")
REQUESTED, CONFIRMED, CANCELLED, DONE = "erasure.request", "erasure.confirm", "erasure.cancel", "erasure.done"
SHORTEST, LONGEST = 4, 200
LONGEST_REASON: Final = 2_000
# Limits of a tenant's unfinished erasures. A counted erasure that nobody confirms ends after `EXPIRES`.
MOST_UNFINISHED: Final = 5
EXPIRES: Final = timedelta(days=7)
# A batch ends with the row that brings its texts to this size. On SQLite, nobody else can write during a batch.
BATCH_BYTES: Final = 2**19
# While handoffs wait to be judged, an erasure may take this share of one thread's time, across all processes.
_SHARE: Final = 0.2
_LONGEST_PAUSE: Final = timedelta(seconds=10)
_MOST_CODES: Final = 1_000


def request(*, tenant: Tenant, value: str, reason: str, actor: str) -> Erasure:
    """Begin to count the rows with a value, or return the value's unfinished erasure.

    Raise `Refused` for a value that cannot be erased, a reason that cannot be kept, or too many unfinished erasures.
    """
    value, reason = value.strip(), trim(reason)
    _check_value(tenant, value)
    if not reason or len(reason) > LONGEST_REASON or not storable(reason):
        remedy = f"write why, in at most {LONGEST_REASON:,} characters without NUL."
        raise Refused("The reason is missing or cannot be stored", "reason", remedy)
    if replace(reason, pattern_of(value), value.casefold()) != reason:
        # The receipt and the audit log keep the reason forever.
        remedy = "identify the request by a number instead."
        raise Refused("The reason has the value that is to be erased", "reason", remedy)
    with transaction.atomic():
        audit.lock_tenant(tenant)
        open_ones = Erasure.objects.filter(tenant=tenant, finished_at=None)
        for known in open_ones.filter(digest=digest_of(tenant, value)):
            # The digest ignores case, even of a value that is matched case-sensitively.
            if pattern_of(known.value).fullmatch(value):
                return known
        if open_ones.count() >= MOST_UNFINISHED:
            raise Refused(f"{MOST_UNFINISHED} erasures are unfinished", "value", "confirm or cancel one of them first.")
        made = Erasure.objects.create(
            tenant=tenant,
            value=value,
            digest=digest_of(tenant, value),
            reason=reason,
            requested_by=actor[:200],
            requested_at=timezone.now(),
        )
        _record(made, actor, REQUESTED)
        transaction.on_commit(lambda: notify.send(TASK))
    return made


def confirm(*, tenant: Tenant, erasure: uuid.UUID, actor: str) -> Erasure:
    """Begin to replace a counted value. Idempotent. Raise `Erasure.DoesNotExist`, or `Refused` in another state."""
    with transaction.atomic():
        found = Erasure.objects.select_for_update().get(tenant=tenant, pk=erasure)
        if found.state in (ErasureState.ERASING, ErasureState.DONE):
            return found
        if found.state != ErasureState.COUNTED:
            raise Refused(f"The erasure is {found.state}", "state", "only a counted erasure can be confirmed.")
        found.state, found.step, found.reached, found.held = ErasureState.ERASING, 0, "", {}
        found.confirmed_by, found.confirmed_at = actor[:200], timezone.now()
        found.save()
        _record(found, actor, CONFIRMED)
        transaction.on_commit(lambda: notify.send(TASK))
    return found


def cancel(*, tenant: Tenant, erasure: uuid.UUID, actor: str) -> Erasure:
    """Cancel an erasure before its confirmation. Idempotent. Raise `Erasure.DoesNotExist` or `Refused`."""
    with transaction.atomic():
        found = Erasure.objects.select_for_update().get(tenant=tenant, pk=erasure)
        if found.state == ErasureState.CANCELLED:
            return found
        if found.state not in (ErasureState.COUNTING, ErasureState.COUNTED):
            raise Refused("The value is being erased or is erased already", "state", "it cannot be cancelled.")
        _finish(found, ErasureState.CANCELLED)
        _record(found, actor, CANCELLED)
    return found


def list_erasures(tenant: Tenant, limit: int = 50) -> list[Erasure]:
    """Return the newest erasures of a tenant, with the receipts of finished erasures."""
    return list(Erasure.objects.filter(tenant=tenant).order_by("-id")[:limit])


def digest_of(tenant: Tenant, value: str) -> str:
    """Return the HMAC by which a receipt names its value. Only the holder of the secret key can recompute the HMAC."""
    folded = unicodedata.normalize("NFC", value).casefold()
    return hmac.new(settings.SECRET_KEY.encode(), f"{tenant.pk}:{folded}".encode(), hashlib.sha256).hexdigest()


def anything_due() -> bool:
    """Return whether an erasure has work to do, and no process is doing the work. Cheap enough for each sweep."""
    return LEASE.is_free() and _list_due().exists()


def run(seconds: float) -> bool:
    """Work on the erasures for `seconds`, or until no work is left or handoffs wait to be judged.

    Return False if the time is over: the caller should call the function again without a pause. Otherwise, return True,
    also if another process does the work.
    """
    held_until = LEASE.acquire()
    if held_until is None:
        return True
    end, pause = time.monotonic() + seconds, timedelta()
    failed: list[uuid.UUID] = []
    try:
        while (one := _list_due().exclude(pk__in=failed).order_by("id").first()) is not None:
            begun = time.monotonic()
            try:
                _work(one)
            except Exception:
                # The failure of one erasure must not stop other erasures. The next run tries the failed erasure again.
                log.exception("an erasure failed", tenant=one.tenant.slug, erasure=str(one.pk))
                failed.append(one.pk)
                pause = _LONGEST_PAUSE
            if judge_leases.is_anything_waiting():
                pause = pause_after(time.monotonic() - begun, _SHARE, _LONGEST_PAUSE)
                return True
            if time.monotonic() > end:
                return False
            held_until = LEASE.renew(held_until)
            if held_until is None:
                return True
    finally:
        LEASE.release(held_until, pause)
    return True


def _list_due() -> "QuerySet[Erasure]":
    """Return the erasures of all tenants that have work to do, together with their tenants."""
    at_work = Erasure.objects.filter(finished_at=None, state__in=(ErasureState.COUNTING, ErasureState.ERASING))
    expired = Erasure.objects.filter(
        finished_at=None, state=ErasureState.COUNTED, counted_at__lt=timezone.now() - EXPIRES
    )
    return (at_work | expired).select_related("tenant")


def _work(one: Erasure) -> None:
    """Process the next batch of rows. If no rows are left, end the count or the erasure. Cancel an expired erasure."""
    if one.state == ErasureState.COUNTED:
        with transaction.atomic():
            if _lock(one):
                _finish(one, ErasureState.CANCELLED)
                _record(one, SYSTEM.name, CANCELLED)
        return
    if one.step >= len(TARGETS):
        _end_phase(one)
        return
    target = TARGETS[one.step]
    erases = one.state == ErasureState.ERASING and target.changes
    with write_turn(), transaction.atomic():
        if erases and target.before is not None and not one.reached:
            target.before(one.tenant)
        holds = legal_holds.share(one.tenant)
        rows = target.list_next(one.tenant, one.reached)
        # Without the lock, a change between reading and storing a row would be lost.
        batch = _read_batch(target, rows.select_for_update(of=("self",)))
        changed = _find_changes(target, batch, pattern_of(one.value), one.value)
        free = set(changed)
        if changed and holds:
            some = target.model._default_manager.filter(pk__in=list(changed))  # noqa: SLF001 -- Django's documented API
            free = set(holds.exclude(some, target.handoff, target.trace).values_list("pk", flat=True))
        counts = {"held": len(changed) - len(free)}
        if erases:
            for pk in free:
                target.save(one.tenant, pk, changed[pk])
            target.after(one.tenant, list(free), one)
            counts["erased"] = len(free)
        elif one.state == ErasureState.COUNTING:
            counts["found"] = len(changed)
        _store_progress(one, target, counts, batch)


def _read_batch(target: ErasureTarget, rows: "QuerySet[Any]") -> list[Any]:
    """Return the first rows, at most `target.batch` of them, and none after the texts have `BATCH_BYTES`."""
    batch, size = [], 0
    found: Any = rows.only(*target.columns)[: target.batch].iterator(chunk_size=10)
    # The rows are read before the first of them is written.
    with contextlib.closing(found):
        for row in found:
            batch.append(row)
            size += sum(_measure(getattr(row, name)) for name in target.columns)
            if size >= BATCH_BYTES:
                break
    return batch


def _measure(content: Any) -> int:
    return len(orjson.dumps(content) if isinstance(content, dict | list) else content or "")


def _find_changes(
    target: ErasureTarget, rows: Sequence[Any], pattern: re.Pattern[str], value: str
) -> dict[Any, dict[str, Any]]:
    """Return the changed columns of each row that has the value, by the primary key of the row."""
    found: dict[Any, dict[str, Any]] = {}
    folded = value.casefold()
    for row in rows:
        columns = {}
        for name in target.columns:
            before = getattr(row, name)
            after = replace(before, pattern, folded) if before else before
            if after != before:
                columns[name] = after
        if columns:
            found[row.pk] = columns
    return found


def _check_value(tenant: Tenant, value: str) -> None:
    if not SHORTEST <= len(value) <= LONGEST or not storable(value) or not value.isprintable():
        remedy = f"write {SHORTEST} to {LONGEST} visible characters."
        raise Refused("The value cannot be erased", "value", remedy)
    try:
        orjson.loads(value)
    except orjson.JSONDecodeError:
        pass
    else:
        remedy = "write a text without quotes; numbers outside quotes cannot be replaced."
        raise Refused("The value is JSON, such as a number or a text in quotes", "value", remedy)
    if value.isascii() and value.replace("_", "").isalpha() and value.islower():
        remedy = "write a name with a capital letter or as the full name, or write the e-mail address."
        raise Refused("A single word in lower case may be a word of the product", "value", remedy)
    if code := _find_code(tenant, value):
        raise Refused(f"The rule code {code} has this value", "value", "erasing it would change verdicts.")


def _find_code(tenant: Tenant, value: str) -> str | None:
    """Return a rule code that the erasure of the value would change, or None."""
    pattern = pattern_of(value)
    rules = [rule.rule_id for one in kinds.load_config(tenant.pk).rules for rule in one.rules]
    found = FindingGroup.objects.filter(tenant=tenant, code__icontains=value).values_list("code", flat=True)
    known = (*CATALOGUE, *FAMILIES, *rules, *found.distinct()[:_MOST_CODES])
    return next((code for code in known if pattern.search(code)), None)


def _store_progress(one: Erasure, target: ErasureTarget, counts: dict[str, int], batch: Sequence[Any]) -> None:
    for name, number in counts.items():
        total = Counter(getattr(one, name))
        if number:
            total[target.name] += number
        setattr(one, name, dict(total))
    if batch:
        one.reached = str(batch[-1].pk)
    # A batch is also short if its texts are long, or if retention removed some of its rows before they were locked.
    # Then more rows can follow.
    if len(batch) < target.batch and not target.list_next(one.tenant, one.reached).exists():
        one.step, one.reached = one.step + 1, ""
    one.save(update_fields=["found", "erased", "held", "step", "reached"])


def _lock(one: Erasure) -> bool:
    """Lock an erasure, and return whether nobody has cancelled or confirmed it since it was read."""
    return Erasure.objects.select_for_update().filter(pk=one.pk, state=one.state).exists()


def _end_phase(one: Erasure) -> None:
    with transaction.atomic():
        if not _lock(one):
            return
        if one.state == ErasureState.COUNTING:
            one.state, one.counted_at = ErasureState.COUNTED, timezone.now()
            one.save()
            return
        _finish(one, ErasureState.DONE)
        _record(one, SYSTEM.name, DONE)
    log.info("a value was erased", tenant=one.tenant.slug, erasure=str(one.pk), rows=sum(one.erased.values()))


def _finish(one: Erasure, state: ErasureState) -> None:
    """End an erasure. Delete the value itself; the digest stays as its receipt."""
    one.state, one.value, one.finished_at = state, "", timezone.now()
    one.save()


def _record(one: Erasure, actor: str, action: str) -> None:
    detail = {"digest": one.digest, "reason": one.reason[:500]}
    detail |= {name: getattr(one, name) for name in ("found", "erased", "held") if getattr(one, name)}
    audit.record(tenant=one.tenant, actor=actor, action=action, target=str(one.pk), detail=detail)
