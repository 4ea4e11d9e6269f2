"""Limits of API keys to agents: the names and patterns that a key may speak for, and the audit of refused agents."""

import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from django.db import transaction
from django.utils import timezone

from handoffaudit.accounts import Refused, audit
from handoffaudit.accounts.models import AuditEntry, Tenant

MOST_PATTERNS: Final = 20

LONGEST_PATTERN: Final = 200

ANY: Final = "*"

# A refused agent is recorded once per key in this time, and only this many agents of a key are.
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
        """Return the reason and the remedy of a refusal; `what` names the agent, such as `the tool result`."""
        return (
            f"{what} names the agent {agent!r}, but the key {self.key_name!r} may speak only for "
            f"{', '.join(self.patterns)}. Use a key of that agent, or correct the name; an administrator changes the "
            "agents of a key under Settings, Keys."
        )


ANY_AGENT: Final = AgentLimit()


def matches(pattern: str, name: str) -> bool:
    """Return whether a name fits a pattern, in which each `*` stands for any text, also for none.

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
    """Return the names and patterns without blanks around them and without repetitions. Raises `Refused`."""
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


_guard = threading.Lock()

# The agents whose refusal this process recorded, with the time, by key.
_recorded: dict[int, dict[str, float]] = {}


def record_refusal(tenant: Tenant, limit: AgentLimit, agent: str) -> None:
    """Record in the audit log that a key was refused because of an agent, at most once per agent in an hour.

    A program with the wrong key refuses itself a thousand times a minute, so most calls only look into memory.
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
    with _guard:
        recent = {name: at for name, at in _recorded.get(key_id, {}).items() if now - at < AUDIT_SECONDS}
        due = agent not in recent and len(recent) < MOST_AUDITED
        _recorded[key_id] = recent | ({agent: now} if due else {})
        return due
