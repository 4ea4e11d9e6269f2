"""API keys: creation (the secret is shown once), lists, revocation, authentication, and limits to agents."""

import contextlib
import hashlib
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.conf import settings
from django.db import OperationalError, transaction
from django.db.models import Q
from django.utils import timezone

from handoffaudit.accounts import Refused, audit
from handoffaudit.accounts.audit import lock_tenant
from handoffaudit.accounts.models import AuditEntry, Key, Scope, Tenant
from handoffaudit.database_faults import lock_wait
from handoffaudit.validation.tool_results import EVIDENCE, Grade

MARK = "ha_"

LONGEST_SECRET = 200

KEPT_AT_MOST = 2000

TOUCH_SECONDS = 60

# Recording the last use of a key may delay a request by at most this time.
TOUCH_MILLISECONDS = 100

MOST_PATTERNS: Final = 20

LONGEST_PATTERN: Final = 200

ANY: Final = "*"

# In this time, a refused agent is recorded once per key, and at most `MOST_AUDITED` agents of a key are recorded.
AUDIT_SECONDS: Final = 3600.0

MOST_AUDITED: Final = 20

REFUSED_ACTION: Final = "key.refuse"


@dataclass(frozen=True, slots=True)
class AgentLimit:
    """The agents that a key may speak for, as names and patterns with `*`; without any, the key speaks for all."""

    key_id: int = 0
    key_name: str = ""
    patterns: tuple[str, ...] = ()

    def allows(self, agent: str) -> bool:
        return not self.patterns or any(matches(pattern, agent) for pattern in self.patterns)

    def describe_refusal(self, agent: str, what: str) -> str:
        """Return the reason and the remedy of a refusal; `what` begins the reason, such as `The document`."""
        return (
            f"{what} names the agent {agent!r}, but the key {self.key_name!r} may speak only for "
            f"{', '.join(self.patterns)}. Use a key of that agent, or correct the name; an administrator changes the "
            "agents of a key under Settings, API keys."
        )


ANY_AGENT: Final = AgentLimit()


def matches(pattern: str, name: str) -> bool:
    """Return whether a name fits a pattern, in which each `*` stands for any text, including the empty text.

    The time is linear in the lengths, unlike that of a regular expression with several wildcards.
    """
    first, *rest = pattern.split(ANY)
    if not rest:
        return pattern == name
    *middle, last = rest
    if len(name) < len(first) + len(last) or not name.startswith(first) or not name.endswith(last):
        return False
    at, end = len(first), len(name) - len(last)
    for part in middle:
        found = name.find(part, at, end)
        if found < 0:
            return False
        at = found + len(part)
    return True


def check_patterns(given: Iterable[str]) -> list[str]:
    """Return the names and patterns without blanks around them. Empty texts and repetitions are left out.

    Raise `Refused` if there are too many, or if one is too long or has characters that cannot be shown.
    """
    patterns = list(dict.fromkeys(text for one in given if (text := one.strip())))
    if len(patterns) > MOST_PATTERNS:
        raise Refused(f"There are {len(patterns)} agents", "agents", f"name at most {MOST_PATTERNS}, or use patterns.")
    for pattern in patterns:
        if len(pattern) > LONGEST_PATTERN:
            raise Refused(
                f"The agent {pattern[:40]!r}… has {len(pattern)} characters",
                "agents",
                f"use at most {LONGEST_PATTERN}.",
            )
        if not pattern.isprintable():
            raise Refused(f"The agent {pattern!r} has characters that can't be shown", "agents", "remove them.")
    return patterns


@dataclass(frozen=True, slots=True)
class KeyIdentity:
    """The sender of a request: a key, its tenant, its scopes, the grade of its tool results, and its agents."""

    key_id: int
    tenant_id: int
    tenant_slug: str
    name: str
    scopes: frozenset[str]
    grade: Grade = Grade.SAID
    agents: AgentLimit = ANY_AGENT


@dataclass(slots=True)
class _CachedKey:
    identity: KeyIdentity
    expires_at: float
    fresh_until: float
    touch_at: float


_cache: OrderedDict[str, _CachedKey] = OrderedDict()

_guard = threading.Lock()

# Revocations and changes of a key's agents are counted, so that a key that was read before such a change is not cached
# after the change.
_revocations = 0


def digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def authenticate(secret: str) -> KeyIdentity | None:
    """Return the identity that a secret belongs to, or None if the secret is unknown, revoked or expired."""
    if not secret.startswith(MARK) or len(secret) > LONGEST_SECRET or not secret.isascii():
        return None
    secret_hash = digest(secret)
    kept = _cache.get(secret_hash)
    if kept is None or kept.fresh_until <= time.monotonic():
        kept = _load(secret_hash)
    now = time.time()
    if kept is None or kept.expires_at <= now:
        return None
    if kept.touch_at <= now:
        _touch(kept, now)
    return kept.identity


def recall(secret: str) -> KeyIdentity | None:
    """Return the identity of a secret from the cache, or None if the cache cannot give the answer of `authenticate`.

    The result is None if the secret is not cached, if the key is expired, or if the database must be read or written
    first.
    """
    kept = _cache.get(digest(secret)) if secret.isascii() else None
    if kept is None or kept.fresh_until <= time.monotonic() or min(kept.expires_at, kept.touch_at) <= time.time():
        return None
    return kept.identity


def forget_key(secret_hash: str) -> None:
    global _revocations  # noqa: PLW0603
    with _guard:
        _revocations += 1
        _cache.pop(secret_hash, None)


def _load(secret_hash: str) -> _CachedKey | None:
    revocations = _revocations
    key = Key.objects.select_related("tenant").filter(secret_hash=secret_hash, revoked_at=None).first()
    if key is None:
        with _guard:
            _cache.pop(secret_hash, None)
        return None
    used = key.last_used_at.timestamp() if key.last_used_at else 0.0
    kept = _CachedKey(
        identity=identity_of(key),
        expires_at=key.expires_at.timestamp() if key.expires_at else float("inf"),
        fresh_until=time.monotonic() + settings.KEY_CACHE_SECONDS,
        touch_at=used + TOUCH_SECONDS,
    )
    with _guard:
        if revocations == _revocations:
            _cache[secret_hash] = kept
        while len(_cache) > KEPT_AT_MOST:
            _cache.popitem(last=False)
    return kept


def identity_of(key: Key) -> KeyIdentity:
    """Return the identity of a key that was loaded with its tenant. The key may be revoked."""
    return KeyIdentity(
        key.pk,
        key.tenant_id,
        key.tenant.slug,
        key.name,
        frozenset(key.scopes),
        key.grade,
        AgentLimit(key.pk, key.name, tuple(key.agents)) if key.agents else ANY_AGENT,
    )


def _touch(kept: _CachedKey, now: float) -> None:
    # The time is set before the database is updated, so that other threads do not queue up for the same update.
    kept.touch_at = now + TOUCH_SECONDS
    moment = timezone.now()
    unstamped = Q(last_used_at=None) | Q(last_used_at__lte=moment - timedelta(seconds=TOUCH_SECONDS))
    # The request must succeed even if the database takes no writes. In this case, the first use after another
    # `TOUCH_SECONDS` records the time.
    with contextlib.suppress(OperationalError), lock_wait(TOUCH_MILLISECONDS):
        Key.objects.filter(unstamped, pk=kept.identity.key_id).update(last_used_at=moment)


__all__ = ["KeyIdentity", "authenticate", "bind", "create", "list_newest", "revoke"]

PREFIX_LENGTH = 11

SHOWN_AT_MOST = 500


@transaction.atomic
def create(
    *,
    tenant: Tenant,
    name: str,
    scopes: Iterable[str],
    expires_at: datetime | None,
    actor: str,
    seam: str = "",
    agents: Iterable[str] = (),
) -> tuple[Key, str]:
    """Create a key, and return the key with its secret, which is not stored.

    `seam` says where the user of a key with the scope `observe` captures tool results; the default is the sender's
    process. `agents` are the names and patterns of the agents that the key may speak for; without any, the key speaks
    for all agents. Raise `Refused` for a value that cannot be used.
    """
    lock_tenant(tenant)
    secret = f"{MARK}{secrets.token_urlsafe(32)}"
    checked = _check_scopes(scopes)
    key = Key.objects.create(
        tenant=tenant,
        name=_check_name(name),
        prefix=secret[:PREFIX_LENGTH],
        secret_hash=digest(secret),
        scopes=checked,
        seam=_check_seam(seam, checked),
        agents=check_patterns(agents),
        created_by=actor[:150],
        expires_at=_check_expiry(expires_at),
    )
    detail = {"scopes": key.scopes, "expires_at": expires_at.isoformat(timespec="minutes") if expires_at else None}
    if key.seam:
        detail["seam"] = key.seam
    if key.agents:
        detail["agents"] = key.agents
    audit.record(tenant=tenant, actor=actor, action="key.create", target=str(key), detail=detail)
    return key, secret


@transaction.atomic
def revoke(*, tenant: Tenant, key_id: int, actor: str) -> Key:
    """Revoke a key: immediately in this process, and within `KEY_CACHE_SECONDS` in other processes. Idempotent.

    Raise `Refused` if the tenant has no such key.
    """
    lock_tenant(tenant)
    key = Key.objects.filter(tenant=tenant, pk=key_id).first()
    if key is None:
        raise Refused("There is no such key in this tenant: reload the list.")
    if key.revoked_at is None:
        key.revoked_at = timezone.now()
        key.save(update_fields=["revoked_at"])
        audit.record(tenant=tenant, actor=actor, action="key.revoke", target=str(key), detail={})
        transaction.on_commit(lambda: forget_key(key.secret_hash))
    return key


@transaction.atomic
def bind(*, tenant: Tenant, key_id: int, agents: Iterable[str], actor: str) -> Key:
    """Set the agents that a key may speak for.

    The change takes effect immediately in this process, and within `KEY_CACHE_SECONDS` in other processes. Without any
    agent, the key speaks for all. Idempotent. Raise `Refused` if the tenant has no such key, if the key is
    revoked, or if an agent cannot be used.
    """
    lock_tenant(tenant)
    key = Key.objects.filter(tenant=tenant, pk=key_id, revoked_at=None).first()
    if key is None:
        raise Refused("There is no such key in this tenant, or it is revoked: reload the list.")
    checked = check_patterns(agents)
    if key.agents != checked:
        detail = {"before": key.agents, "agents": checked}
        key.agents = checked
        key.save(update_fields=["agents"])
        audit.record(tenant=tenant, actor=actor, action="key.bind", target=str(key), detail=detail)
        transaction.on_commit(lambda: forget_key(key.secret_hash))
    return key


def list_newest(tenant: Tenant) -> list[Key]:
    """Return the newest keys of a tenant, at most `SHOWN_AT_MOST`, with the revoked keys last."""
    keys = Key.objects.filter(tenant=tenant).order_by("-pk")[:SHOWN_AT_MOST]
    return sorted(keys, key=lambda key: key.revoked_at is not None)


def _check_name(name: str) -> str:
    name, remedy = name.strip(), "use 1 to 100 printable characters that say who will use the key."
    if not name:
        raise Refused("A name is needed", "name", remedy)
    if len(name) > 100 or not name.isprintable():
        raise Refused("The name is too long, or has characters that can't be shown", "name", remedy)
    return name


def _check_scopes(scopes: Iterable[str]) -> list[str]:
    given = set(scopes)
    unknown = sorted(given - set(Scope.values))
    allowed = ", ".join(Scope.values)
    if unknown:
        raise Refused(f"There is no scope {unknown[0]!r}: choose from {allowed}.", "scopes")
    if not given:
        raise Refused(f"A key without a scope can do nothing: choose from {allowed}.", "scopes")
    return [scope for scope in Scope.values if scope in given]


def _check_seam(seam: str, scopes: list[str]) -> str:
    if Scope.OBSERVE not in scopes:
        if seam:
            raise Refused(f"The seam {seam!r} needs the scope observe: add the scope, or leave the seam out.", "seam")
        return ""
    if seam and seam not in EVIDENCE:
        raise Refused(f"There is no seam {seam!r}: choose from {', '.join(EVIDENCE)}.", "seam")
    return seam or Grade.IN_PROCESS.value


def _check_expiry(expires_at: datetime | None) -> datetime | None:
    if expires_at is not None and expires_at <= timezone.now():
        raise Refused(f"{expires_at:%Y-%m-%d %H:%M} is in the past: choose a later time, or none.", "expires_at")
    return expires_at


_recorded_guard = threading.Lock()

# The agents whose refusal this process recorded, with the time, by key.
_recorded: dict[int, dict[str, float]] = {}


def record_refusal(tenant: Tenant, limit: AgentLimit, agent: str) -> None:
    """Record in the audit log that a key was refused because of an agent.

    In an hour, each agent of a key is recorded at most once, and at most `MOST_AUDITED` agents of a key are recorded. A
    program with the wrong key can be refused a thousand times a minute, so most calls only look into memory.
    """
    if not _is_due(limit.key_id, agent, time.monotonic()):
        return
    with transaction.atomic():
        audit.lock_tenant(tenant)
        since = timezone.now() - timedelta(seconds=AUDIT_SECONDS)
        recent = AuditEntry.objects.filter(tenant=tenant, action=REFUSED_ACTION, at__gt=since)
        known = recent.filter(detail__key=limit.key_id).values_list("detail__agent", flat=True)[:MOST_AUDITED]
        if len(known) < MOST_AUDITED and agent not in known:
            detail = {"key": limit.key_id, "agent": agent, "agents": list(limit.patterns)}
            name = f"key {limit.key_name}"
            audit.record(tenant=tenant, actor=name, action=REFUSED_ACTION, target=agent, detail=detail)


def _is_due(key_id: int, agent: str, now: float) -> bool:
    with _recorded_guard:
        recent = {name: at for name, at in _recorded.get(key_id, {}).items() if now - at < AUDIT_SECONDS}
        due = agent not in recent and len(recent) < MOST_AUDITED
        _recorded[key_id] = recent | ({agent: now} if due else {})
        return due
