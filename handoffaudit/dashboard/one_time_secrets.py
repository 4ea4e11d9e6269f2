"""Secrets that are shown once, on the page after the form that created them."""

import secrets
from urllib.parse import urlsplit

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect

from handoffaudit.dashboard.access import TenantMembership

SECONDS = 300


def redirect_with_secret(
    address: str, request: HttpRequest, who: TenantMembership, what: str, secret: str, about: str = ""
) -> HttpResponse:
    """Redirect to `address`, whose view calls `take_secret`; `about` says what the secret belongs to."""
    raw = secret.encode()
    pad = secrets.token_bytes(len(raw))
    request.session[_name(who, what)] = [about, _xor(raw, pad).hex()]
    answer = HttpResponseRedirect(address)
    answer.set_cookie(
        _name(who, what),
        pad.hex(),
        max_age=SECONDS,
        path=urlsplit(address).path,
        secure=settings.SESSION_COOKIE_SECURE,
        httponly=True,
        samesite="Strict",
    )
    return answer


def take_secret(request: HttpRequest, who: TenantMembership, what: str) -> tuple[str, str]:
    """Return what the secret belongs to, and the secret; two empty strings where there is none to show."""
    if request.method != "GET":
        return "", ""
    about, half = request.session.pop(_name(who, what), ("", ""))
    pad = request.COOKIES.get(_name(who, what), "")
    try:
        return about, _xor(bytes.fromhex(half), bytes.fromhex(pad)).decode()
    except ValueError:
        return "", ""


def _xor(one: bytes, other: bytes) -> bytes:
    """Combine two byte strings with XOR; raise ValueError where their lengths differ."""
    return bytes(a ^ b for a, b in zip(one, other, strict=True))


def _name(who: TenantMembership, what: str) -> str:
    return f"once-{who.tenant.slug}-{what}"
