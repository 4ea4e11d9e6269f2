"""The address of a trace's page."""

from urllib.parse import urlencode

from django.urls import reverse

_DOTS = frozenset({".", ".."})


def address_of(slug: str, trace_id: str) -> str:
    """The trace's page. Browsers take `.` and `..` between slashes for ways through folders, and no page's address has
    a line's end: a trace with such an id has its handoffs' list."""
    if not _DOTS.isdisjoint(trace_id.split("/")) or "\n" in trace_id:
        return f"{reverse('dashboard:handoffs', args=[slug])}?{urlencode({'trace': trace_id})}"
    return reverse("dashboard:trace", args=[slug, trace_id])
