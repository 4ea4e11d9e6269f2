"""Authentication of API requests: keys and scopes, the request rate, and the log of refused keys.

Each process counts the requests of a key by itself. The library `limits` would start a thread for most requests, or ask
Redis for each request (`docs/decisions/0001-dependencies.md`).
"""

import math
import threading
import time
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import structlog
from django.conf import settings
from django.http import HttpRequest
from django.utils import timezone
from ninja.security import HttpBearer

from handoffaudit import database_faults, sqlite_file
from handoffaudit.accounts import keys
from handoffaudit.accounts.keys import PREFIX_LENGTH, KeyIdentity, authenticate
from handoffaudit.accounts.models import Key, Scope, Tenant
from handoffaudit.api.errors import Problem
from handoffaudit.api.requests import check_length, decode_body
from handoffaudit.database_faults import FAULTS, Cause
from handoffaudit.handoffs.transitions import Actor

WINDOW_SECONDS = 60


class RequestRate:
    """Request counts by key, in windows of 60 seconds that start with the first request of a key.

    Only two numbers are stored for each key.
    """

    def __init__(self) -> None:
        self._counted: dict[int, tuple[float, int]] = {}
        self._lock = threading.Lock()

    def seconds_to_wait(self, key_id: int, most: int) -> int:
        """Count a request, and return the seconds until the next window; 0 if the request is within the rate."""
        now = time.monotonic()
        with self._lock:
            began, number = self._counted.get(key_id, (now, 0))
            if now - began >= WINDOW_SECONDS:
                began, number = now, 0
            self._counted[key_id] = (began, number + 1)
        return 0 if number < most else math.ceil(began + WINDOW_SECONDS - now)


log = structlog.get_logger(__name__)

LOG_EVERY_SECONDS: Final = 60.0

# The largest number of lines in `LOG_EVERY_SECONDS`, so that invented keys do not flood the log.
MOST_LOGGED: Final = 100

_guard = threading.Lock()

_logged: dict[tuple[str, str], float] = {}


def log_refused(secret: str, request: HttpRequest) -> None:
    """Log a refused API key with the reason, at most once a minute for each key prefix and address.

    All keys together cause at most `MOST_LOGGED` lines a minute. If the secret does not look like a key of this
    product, it may be a secret of another product. So the line has no part of it.
    """
    address = _address(request)
    beginning = secret[:PREFIX_LENGTH] if _looks_like_ours(secret) else ""
    if not _is_due((beginning, address), time.monotonic()):
        return
    why, name = _why(secret) if beginning else ("the key does not look like a key of this product", "")
    log.warning("a key was refused", beginning=beginning, why=why, address=address, **({"key": name} if name else {}))


def _address(request: HttpRequest) -> str:
    if settings.SECURE_PROXY_SSL_HEADER:
        # The proxy appends the last address. The caller controls all addresses before the last one.
        return str(request.META.get("HTTP_X_FORWARDED_FOR", "").rpartition(",")[2].strip()[:100])
    return str(request.META.get("REMOTE_ADDR", ""))


def _looks_like_ours(secret: str) -> bool:
    long_enough = 3 * PREFIX_LENGTH <= len(secret) <= keys.LONGEST_SECRET
    return secret.startswith(keys.MARK) and long_enough and secret.isascii() and secret.isprintable()


def _is_due(what: tuple[str, str], now: float) -> bool:
    """Return whether a line about this key prefix and address may be logged now, and remember the line."""
    with _guard:
        for old in [one for one, at in _logged.items() if now - at >= LOG_EVERY_SECONDS]:
            del _logged[old]
        due = what not in _logged and len(_logged) < MOST_LOGGED
        if due:
            _logged[what] = now
        return due


def _why(secret: str) -> tuple[str, str]:
    key = Key.objects.filter(secret_hash=keys.digest(secret)).select_related("tenant").first()
    if key is None:
        return "unknown here", ""
    past = key.expires_at is not None and key.expires_at <= timezone.now()
    return "revoked" if key.revoked_at else "expired" if past else "refused", f"{key.name} of {key.tenant.slug}"


_rate = RequestRate()


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller of a request, identified by an API key."""

    key: KeyIdentity

    @property
    def tenant(self) -> Tenant:
        return _tenant(self.key.tenant_id, self.key.tenant_slug)

    @property
    def actor(self) -> Actor:
        return Actor.key(self.key.name, self.key.agents)

    @property
    def named(self) -> str:
        """Return the name of the caller for the audit log and the history of policies."""
        return f"key {self.key.name}"


@lru_cache(maxsize=1024)
def _tenant(pk: int, slug: str) -> Tenant:
    return Tenant(pk=pk, slug=slug)


# The entry of `request.META` with the identity of the key and the time at which the key was checked. The check comes
# before the body is read.
IDENTITY: Final = "handoffaudit.identity"
# A key is checked again if its last check is older than this: somebody may revoke the key while a slow body arrives.
IDENTITY_SECONDS: Final = 0.5


def _identify(request: HttpRequest, token: str) -> KeyIdentity | None:
    identity, checked_at = request.META.get(IDENTITY) or (None, 0.0)
    return identity if time.monotonic() - checked_at < IDENTITY_SECONDS else authenticate(token)


class KeyWith(HttpBearer):
    """Authentication by a key with one of the given scopes; counts the requests of the key against the rate."""

    openapi_bearerFormat = "ha_…"  # noqa: N815 -- the name django-ninja reads

    def __init__(self, scope: Scope, *others: Scope, stores: bool = False, decodes: bool = True) -> None:
        """Require one of the scopes; `stores` marks calls that store new data and therefore need free disk space.

        `decodes` is False for a call that decompresses its body itself.
        """
        super().__init__()
        self.scope = scope
        self.scopes = (scope, *others)
        self.stores = stores
        self.decodes = decodes

    def __call__(self, request: HttpRequest) -> Any:
        if self.decodes:
            decode_body(request)
        # `HttpBearer.__call__` would be slower, because it goes through all headers to find this header.
        kind, _, secret = request.META.get("HTTP_AUTHORIZATION", "").partition(" ")
        return self.authenticate(request, secret.strip()) if kind.lower() == "bearer" else None

    def authenticate(self, request: HttpRequest, token: str) -> Caller | None:
        identity = _identify(request, token)
        if identity is None:
            log_refused(token, request)
            return None
        self.count(request, identity)
        if identity.scopes.isdisjoint(self.scopes):
            raise Problem(
                403,
                "The key may not do this",
                f"This call needs the scope {' or '.join(self.scopes)}; the key {identity.name!r} has "
                f"{', '.join(sorted(identity.scopes))}.",
                scope=self.scope.value,
            )
        if self.scope is not Scope.INGEST:
            # The calls that submit handoffs have their own limits.
            check_length(request, settings.MAX_BODY_BYTES)
        if self.stores:
            _check_room()
            _check_file()
        return Caller(identity)

    def count(self, request: HttpRequest, identity: KeyIdentity) -> None:
        """Count the request against the rate of the key. Raise `Problem` if the key is over its rate."""
        most = settings.RATE_PER_MINUTE
        wait = _rate.seconds_to_wait(identity.key_id, most)
        if wait:
            raise Problem(
                429,
                "Too many requests",
                f"The key {identity.name!r} may make {most:,} requests per minute. Try again in {wait} seconds.",
                headers={"Retry-After": str(wait)},
                limit=f"{most}/minute",
            )


# Checking the free space takes a tenth of the time of a submission, so the result is used for this long. In this
# time, senders write much less than the space that must stay free.
ROOM_KNOWN_SECONDS: Final = 0.1

_room_known_until = 0.0


def _check_room() -> None:
    global _room_known_until  # noqa: PLW0603 -- one for the process
    if (now := time.monotonic()) < _room_known_until:
        return
    _room_known_until = now + ROOM_KNOWN_SECONDS
    if missing := database_faults.describe_shortage():
        _room_known_until = 0.0
        log.error("handoffs are refused: the disk is nearly full", detail=missing)
        raise Problem(
            503,
            "The disk is nearly full",
            f"Nothing new is stored until there is free space. Try again in {database_faults.RETRY_SECONDS} seconds.",
            headers={"Retry-After": str(database_faults.RETRY_SECONDS)},
        )


def _check_file() -> None:
    """Refuse data while the database is damaged, because the data would be lost when a backup is restored."""
    if sqlite_file.damage_watch.is_known():
        fault = FAULTS[Cause.DAMAGED]
        log.error("the database can't be used", cause=fault.cause.value)
        raise Problem(
            503,
            "The database can't be used",
            f"The database {fault.symptom}. Try again in {fault.retry_after} seconds.",
            headers={"Retry-After": str(fault.retry_after)},
            cause=fault.cause.value,
        )


def caller(request: HttpRequest) -> Caller:
    """Return the caller that the key check accepted."""
    found: Caller = request.auth  # type: ignore[attr-defined]
    return found
