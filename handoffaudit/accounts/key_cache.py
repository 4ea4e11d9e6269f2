"""From a key's secret to who sends, without a query for each request."""

import contextlib
import hashlib
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass
from datetime import timedelta

from django.conf import settings
from django.db import OperationalError
from django.db.models import Q
from django.utils import timezone

from handoffaudit.accounts.models import Key
from handoffaudit.database_faults import lock_wait

MARK = "ha_"
LONGEST_SECRET = 200
KEPT_AT_MOST = 2000
TOUCH_SECONDS = 60
# Nobody waits longer for the stamp.
TOUCH_MILLISECONDS = 100


@dataclass(frozen=True, slots=True)
class KeyIdentity:
    """Who sends: a key, its tenant, and what it may do."""

    key_id: int
    tenant_id: int
    tenant_slug: str
    name: str
    scopes: frozenset[str]


@dataclass(slots=True)
class _Kept:
    identity: KeyIdentity
    expires_at: float
    fresh_until: float
    touch_at: float


_kept: OrderedDict[str, _Kept] = OrderedDict()
_guard = threading.Lock()
# Counts revocations: what was read before one must not be kept after it.
_revocations = 0


def digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def authenticate(secret: str) -> KeyIdentity | None:
    """Whose secret this is; None for a secret that is unknown, revoked or expired."""
    if not secret.startswith(MARK) or len(secret) > LONGEST_SECRET or not secret.isascii():
        return None
    secret_hash = digest(secret)
    kept = _kept.get(secret_hash)
    if kept is None or kept.fresh_until <= time.monotonic():
        kept = _load(secret_hash)
    now = time.time()
    if kept is None or kept.expires_at <= now:
        return None
    if kept.touch_at <= now:
        _touch(kept, now)
    return kept.identity


def forget(secret_hash: str) -> None:
    global _revocations  # noqa: PLW0603
    with _guard:
        _revocations += 1
        _kept.pop(secret_hash, None)


def _load(secret_hash: str) -> _Kept | None:
    revocations = _revocations
    key = Key.objects.select_related("tenant").filter(secret_hash=secret_hash, revoked_at=None).first()
    if key is None:
        with _guard:
            _kept.pop(secret_hash, None)
        return None
    used = key.last_used_at.timestamp() if key.last_used_at else 0.0
    kept = _Kept(
        identity=KeyIdentity(key.pk, key.tenant_id, key.tenant.slug, key.name, frozenset(key.scopes)),
        expires_at=key.expires_at.timestamp() if key.expires_at else float("inf"),
        fresh_until=time.monotonic() + settings.KEY_CACHE_SECONDS,
        touch_at=used + TOUCH_SECONDS,
    )
    with _guard:
        if revocations == _revocations:
            _kept[secret_hash] = kept
        while len(_kept) > KEPT_AT_MOST:
            _kept.popitem(last=False)
    return kept


def _touch(kept: _Kept, now: float) -> None:
    # Before the write, so that other threads do not queue up for the same one.
    kept.touch_at = now + TOUCH_SECONDS
    moment = timezone.now()
    unstamped = Q(last_used_at=None) | Q(last_used_at__lte=moment - timedelta(seconds=TOUCH_SECONDS))
    # Reading goes on where the database takes no writes: the next use stamps the key.
    with contextlib.suppress(OperationalError), lock_wait(TOUCH_MILLISECONDS):
        Key.objects.filter(unstamped, pk=kept.identity.key_id).update(last_used_at=moment)
