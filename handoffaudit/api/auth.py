"""Keys: who calls, in which tenant, and whether the key may do this."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import structlog
from django.conf import settings
from django.http import HttpRequest
from ninja.security import HttpBearer

from handoffaudit import database_faults, file_damage
from handoffaudit.accounts.keys import KeyIdentity, authenticate
from handoffaudit.accounts.models import Scope, Tenant
from handoffaudit.api import refused_keys
from handoffaudit.api.problems import Problem
from handoffaudit.api.rates import RequestRate
from handoffaudit.api.reading_requests import check_length
from handoffaudit.database_faults import FAULTS, Cause
from handoffaudit.handoffs.transitions import Actor

log = structlog.get_logger(__name__)

_rate = RequestRate()


@dataclass(frozen=True, slots=True)
class Caller:
    """The key that a request came with."""

    key: KeyIdentity

    @property
    def tenant(self) -> Tenant:
        return _tenant(self.key.tenant_id, self.key.tenant_slug)

    @property
    def actor(self) -> Actor:
        return Actor.key(self.key.name)

    @property
    def named(self) -> str:
        """As the audit log and the history of policies name it."""
        return f"key {self.key.name}"


@lru_cache(maxsize=1024)
def _tenant(pk: int, slug: str) -> Tenant:
    return Tenant(pk=pk, slug=slug)


class KeyWith(HttpBearer):
    """Lets a key with this scope pass, and counts its requests against the rate."""

    openapi_bearerFormat = "ha_…"  # noqa: N815 -- the name django-ninja reads

    def __init__(self, scope: Scope, *, stores: bool = False) -> None:
        """Make the check of calls that need `scope`; `stores` where they bring something new that takes room."""
        super().__init__()
        self.scope = scope
        self.stores = stores

    def __call__(self, request: HttpRequest) -> Any:
        # The base class looks into all headers for it.
        kind, _, secret = request.META.get("HTTP_AUTHORIZATION", "").partition(" ")
        return self.authenticate(request, secret.strip()) if kind.lower() == "bearer" else None

    def authenticate(self, request: HttpRequest, token: str) -> Caller | None:
        identity = authenticate(token)
        if identity is None:
            refused_keys.log_refused(token, request)
            return None
        _count(identity)
        if self.scope not in identity.scopes:
            raise Problem(
                403,
                "The key may not do this",
                f"This needs the scope {self.scope.value}; the key {identity.name!r} has "
                f"{', '.join(sorted(identity.scopes))}.",
                scope=self.scope.value,
            )
        if self.scope is not Scope.INGEST:
            # Submissions have limits of their own.
            check_length(request, settings.MAX_BODY_BYTES)
        if self.stores:
            _check_room()
            _check_file()
        return Caller(identity)


def _check_room() -> None:
    if missing := database_faults.describe_shortage():
        log.error("handoffs are refused: the disk is nearly full", detail=missing)
        raise Problem(
            503,
            "The disk is nearly full",
            f"Nothing new is taken until there is room again. Try again in {database_faults.RETRY_SECONDS} seconds.",
            headers={"Retry-After": str(database_faults.RETRY_SECONDS)},
        )


def _check_file() -> None:
    """Refuse what would be lost when the operator restores a backup of the damaged database."""
    if file_damage.watch.is_known():
        fault = FAULTS[Cause.DAMAGED]
        log.error("the database can't be used", cause=fault.cause.value)
        raise Problem(
            503,
            "The database can't be used",
            f"The database {fault.symptom}. Try again in {fault.retry_after} seconds.",
            headers={"Retry-After": str(fault.retry_after)},
            cause=fault.cause.value,
        )


def _count(identity: KeyIdentity) -> None:
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


def caller(request: HttpRequest) -> Caller:
    """Who passed the key check."""
    found: Caller = request.auth  # type: ignore[attr-defined]
    return found
