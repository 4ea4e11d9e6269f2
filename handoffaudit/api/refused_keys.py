"""Keys that are refused, in the log: a sender whose key ended must not stay unseen."""

import threading
import time
from typing import Final

import structlog
from django.conf import settings
from django.http import HttpRequest
from django.utils import timezone

from handoffaudit.accounts import key_cache
from handoffaudit.accounts.keys import PREFIX_LENGTH
from handoffaudit.accounts.models import Key

log = structlog.get_logger(__name__)

EVERY_SECONDS: Final = 60.0
# Whoever makes keys up makes no more lines than this in that time.
MOST: Final = 100

_guard = threading.Lock()
_logged: dict[tuple[str, str], float] = {}


def log_refused(secret: str, request: HttpRequest) -> None:
    """At most once a minute for each beginning of a key and address. What is no key of ours may be another secret, and
    is not shown."""
    address = _address(request)
    beginning = secret[:PREFIX_LENGTH] if _looks_like_ours(secret) else ""
    if not _is_due((beginning, address), time.monotonic()):
        return
    why, name = _why(secret) if beginning else ("it is no key of this product", "")
    log.warning("a key was refused", beginning=beginning, why=why, address=address, **({"key": name} if name else {}))


def _address(request: HttpRequest) -> str:
    if settings.SECURE_PROXY_SSL_HEADER:
        # What the proxy added; all before it is what the caller says of itself.
        return str(request.META.get("HTTP_X_FORWARDED_FOR", "").rpartition(",")[2].strip()[:100])
    return str(request.META.get("REMOTE_ADDR", ""))


def _looks_like_ours(secret: str) -> bool:
    long_enough = 3 * PREFIX_LENGTH <= len(secret) <= key_cache.LONGEST_SECRET
    return secret.startswith(key_cache.MARK) and long_enough and secret.isascii() and secret.isprintable()


def _is_due(what: tuple[str, str], now: float) -> bool:
    with _guard:
        for old in [one for one, at in _logged.items() if now - at >= EVERY_SECONDS]:
            del _logged[old]
        due = what not in _logged and len(_logged) < MOST
        if due:
            _logged[what] = now
        return due


def _why(secret: str) -> tuple[str, str]:
    key = Key.objects.filter(secret_hash=key_cache.digest(secret)).select_related("tenant").first()
    if key is None:
        return "unknown here", ""
    past = key.expires_at is not None and key.expires_at <= timezone.now()
    return "revoked" if key.revoked_at else "past its end" if past else "refused", f"{key.name} of {key.tenant.slug}"
