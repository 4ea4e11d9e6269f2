"""The address of a trace's page."""

from urllib.parse import urlencode

from django.urls import reverse

_DOTS = frozenset({".", ".."})


def address_of(slug: str, trace_id: str) -> str:
    """The trace's page. Browsers take `.` and `..` between slashes for ways through folders: a trace with such an id
    has its handoffs' list."""
    if not _DOTS.isdisjoint(trace_id.split("/")):
        return f"{reverse('dashboard:handoffs', args=[slug])}?{urlencode({'trace': trace_id})}"
    return reverse("dashboard:trace", args=[slug, trace_id])
