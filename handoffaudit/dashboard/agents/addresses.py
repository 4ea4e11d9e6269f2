"""The address of an agent's page, whatever its name is."""

from collections.abc import Mapping
from functools import lru_cache
from urllib.parse import urlencode

from django.urls import reverse

_DOTS = frozenset({".", ".."})


def address_of(slug: str, name: str, query: Mapping[str, str] | None = None) -> str:
    """Browsers take `.` and `..` between slashes for ways through folders, and servers may read two slashes as one:
    such names, and those with a line's end, stand behind a question mark."""
    address = _plain(slug, name)
    asked = dict(query or {}) if address else {"agent": name, **(query or {})}
    address = address or reverse("dashboard:agents", args=[slug])
    return f"{address}?{urlencode(asked)}" if asked else address


# A page of agents has each name several times.
@lru_cache(maxsize=2048)
def _plain(slug: str, name: str) -> str:
    """Without a query; empty where the name can't stand in a path."""
    parts = name.split("/")
    is_plain = _DOTS.isdisjoint(parts) and "" not in parts and "\n" not in name and "\r" not in name
    return reverse("dashboard:agent", args=[slug, name]) if is_plain else ""
