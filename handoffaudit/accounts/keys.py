"""API keys: made (the secret is shown once), listed, revoked."""

import secrets
from collections.abc import Iterable
from datetime import datetime

from django.db import transaction
from django.utils import timezone

from handoffaudit.accounts import audit, key_cache
from handoffaudit.accounts.errors import Refused
from handoffaudit.accounts.key_cache import KeyIdentity, authenticate
from handoffaudit.accounts.locking import lock
from handoffaudit.accounts.models import Key, Scope, Tenant

__all__ = ["KeyIdentity", "authenticate", "create", "listing", "revoke"]

PREFIX_LENGTH = 11
SHOWN_AT_MOST = 500


@transaction.atomic
def create(
    *, tenant: Tenant, name: str, scopes: Iterable[str], expires_at: datetime | None, actor: str
) -> tuple[Key, str]:
    """The new key and its secret, which cannot be read again."""
    lock(tenant)
    secret = f"{key_cache.MARK}{secrets.token_urlsafe(32)}"
    key = Key.objects.create(
        tenant=tenant,
        name=_checked_name(name),
        prefix=secret[:PREFIX_LENGTH],
        secret_hash=key_cache.digest(secret),
        scopes=_checked_scopes(scopes),
        created_by=actor[:150],
        expires_at=_checked_expiry(expires_at),
    )
    detail = {"scopes": key.scopes, "expires_at": expires_at.isoformat(timespec="minutes") if expires_at else None}
    audit.record(tenant=tenant, actor=actor, action="key.create", target=str(key), detail=detail)
    return key, secret


@transaction.atomic
def revoke(*, tenant: Tenant, key_id: int, actor: str) -> Key:
    """Revoked at once in this process, in others within `KEY_CACHE_SECONDS`. Twice is once."""
    lock(tenant)
    key = Key.objects.filter(tenant=tenant, pk=key_id).first()
    if key is None:
        raise Refused("There is no such key in this tenant: reload the list.")
    if key.revoked_at is None:
        key.revoked_at = timezone.now()
        key.save(update_fields=["revoked_at"])
        audit.record(tenant=tenant, actor=actor, action="key.revoke", target=str(key), detail={})
        transaction.on_commit(lambda: key_cache.forget(key.secret_hash))
    return key


def listing(tenant: Tenant) -> list[Key]:
    """Keys in use first, then revoked ones; newest first in each."""
    keys = Key.objects.filter(tenant=tenant).order_by("-pk")[:SHOWN_AT_MOST]
    return sorted(keys, key=lambda key: key.revoked_at is not None)


def _checked_name(name: str) -> str:
    name = name.strip()
    if not name or len(name) > 100 or not name.isprintable():
        raise Refused("A name is needed: 1 to 100 letters that say who will use the key.", "name")
    return name


def _checked_scopes(scopes: Iterable[str]) -> list[str]:
    given = set(scopes)
    unknown = sorted(given - set(Scope.values))
    allowed = ", ".join(Scope.values)
    if unknown:
        raise Refused(f"There is no scope {unknown[0]!r}: choose from {allowed}.", "scopes")
    if not given:
        raise Refused(f"A key without a scope can do nothing: choose from {allowed}.", "scopes")
    return [scope for scope in Scope.values if scope in given]


def _checked_expiry(expires_at: datetime | None) -> datetime | None:
    if expires_at is not None and expires_at <= timezone.now():
        raise Refused(f"{expires_at:%Y-%m-%d %H:%M} is past: choose a later time, or none.", "expires_at")
    return expires_at
