"""The address of an agent's page, whatever its name is."""

from collections.abc import Mapping
from urllib.parse import urlencode

from django.urls import reverse

_DOTS = frozenset({".", ".."})


def address_of(slug: str, name: str, query: Mapping[str, str] | None = None) -> str:
    """Browsers take `.` and `..` between slashes for ways through folders, and servers may read two slashes as one:
    such names, and those with a line's end, stand behind a question mark."""
    parts = name.split("/")
    plain = _DOTS.isdisjoint(parts) and "" not in parts and "\n" not in name and "\r" not in name
    asked = dict(query or {}) if plain else {"agent": name, **(query or {})}
    address = reverse("dashboard:agent", args=[slug, name]) if plain else reverse("dashboard:agents", args=[slug])
    return f"{address}?{urlencode(asked)}" if asked else address
