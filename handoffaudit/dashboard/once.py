"""A secret that the page after a form shows once, so that the form is never sent again by going back or reloading.

It is kept in two halves until then: one in the session, the other in a cookie of the browser. Neither alone says
anything, and what stands in the session is taken away as it is shown.
"""

import secrets
from urllib.parse import urlsplit

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect

from handoffaudit.dashboard.access import Who

SECONDS = 300


def shown_at(address: str, request: HttpRequest, who: Who, what: str, secret: str, about: str = "") -> HttpResponse:
    """On to `address`, which takes it with `take`. `about`: what it is the secret of."""
    raw = secret.encode()
    pad = secrets.token_bytes(len(raw))
    request.session[_name(who, what)] = [about, _mixed(raw, pad).hex()]
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


def take(request: HttpRequest, who: Who, what: str) -> tuple[str, str]:
    """What the secret is about, and the secret; empty where there is none to show."""
    if request.method != "GET":
        return "", ""
    about, half = request.session.pop(_name(who, what), ("", ""))
    pad = request.COOKIES.get(_name(who, what), "")
    try:
        return about, _mixed(bytes.fromhex(half), bytes.fromhex(pad)).decode()
    except ValueError:
        return "", ""


def _mixed(one: bytes, other: bytes) -> bytes:
    """Raises ValueError where they are not of one length."""
    return bytes(a ^ b for a, b in zip(one, other, strict=True))


def _name(who: Who, what: str) -> str:
    return f"once-{who.tenant.slug}-{what}"
