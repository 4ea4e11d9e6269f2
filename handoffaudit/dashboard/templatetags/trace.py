"""Template tags and filters for traces."""

from django.template import Library

from handoffaudit.dashboard.navigation import build_trace_url

register = Library()


@register.simple_tag
def trace_url(slug: str, trace_id: str) -> str:
    """Return the address of a trace: `{% trace_url who.tenant.slug handoff.trace_id as url %}`."""
    return build_trace_url(slug, trace_id)


@register.filter
def span(seconds: float | None) -> str:
    """Format a span as `0.2 s`, `4 min 10 s`, `3 h 5 min` or `2 d 4 h`; a dash where the span is unknown."""
    if seconds is None:
        return "\u2013"
    if seconds < 60:
        return f"{max(seconds, 0):.1f} s"
    whole = int(seconds)
    for size, unit, rest, small in ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            left = whole % size // rest
            return f"{whole // size:,} {unit}" + (f" {left} {small}" if left else "")
    return f"{whole} s"
