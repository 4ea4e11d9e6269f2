"""The names that the server is called by."""

from typing import Final

from django.core.exceptions import DisallowedHost
from django.http import HttpRequest

_LONGEST: Final = 100


def refusal(request: HttpRequest) -> str:
    """What is told where the server does not answer to the name that it is called by; else empty."""
    try:
        request.get_host()
    except DisallowedHost:
        name = request.META.get("HTTP_HOST", "")[:_LONGEST]
        return (
            f"This server does not answer to the name {name!r}. Its operator adds it to HANDOFFAUDIT_ALLOWED_HOSTS "
            "and starts it again."
        )
    return ""
