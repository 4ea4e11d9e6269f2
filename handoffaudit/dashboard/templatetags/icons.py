"""Icons as SVG paths on a grid of 16 by 16; icons differ by shape and not only by colour."""

from functools import lru_cache

from django.template import Library
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

register = Library()

_RING = "M8 1.75a6.25 6.25 0 1 0 0 12.5 6.25 6.25 0 0 0 0-12.5Z"

STROKED = {
    "received": (
        "M8 1.75a6.25 6.25 0 0 1 4.4 1.8M14.2 7a6.25 6.25 0 0 1-.9 4.3M11 13.5a6.25 6.25 0 0 1-4.6.5"
        "M3.6 12.4a6.25 6.25 0 0 1-1.8-4M2.2 5.6a6.25 6.25 0 0 1 2.8-3.1"
    ),
    "validating": f"{_RING}M8 4.75V8l2.25 1.5",
    "accepted": f"{_RING}M5.25 8.25l2 2 3.5-4.25",
    "rejected": "M5.4 1.75h5.2l3.65 3.65v5.2l-3.65 3.65H5.4L1.75 10.6V5.4ZM6 6l4 4M10 6l-4 4",
    "held": f"{_RING}M6.5 5.5v5M9.5 5.5v5",
    "approved": (
        "M8 1.5l5.25 2v4.25c0 3.2-2.1 5.6-5.25 6.75-3.15-1.15-5.25-3.55-5.25-6.75V3.5ZM5.5 7.9l1.8 1.8 3.2-3.7"
    ),
    "declined": f"{_RING}M3.6 3.6l8.8 8.8",
    "superseded": "M2.5 5.5h8.25L8 2.75M13.5 10.5H5.25L8 13.25",
    "critical": "M5.4 1.75h5.2l3.65 3.65v5.2l-3.65 3.65H5.4L1.75 10.6V5.4ZM8 4.75V8.5M8 10.9v.35",
    "error": f"{_RING}M5.75 5.75l4.5 4.5M10.25 5.75l-4.5 4.5",
    "warning": "M8 2.25l6.1 11H1.9ZM8 6.5v3.25M8 11.4v.2",
    "info": f"{_RING}M8 7.25v4M8 4.75v.25",
    "passed": "M3.25 8.5l3 3.25 6.5-7.5",
    "failed": "M4 4l8 8M12 4l-8 8",
    "skipped": "M3.5 8h9",
    "arrow": "M2.5 8h10.5M9.25 4.25L13 8l-3.75 3.75",
    "overview": "M2.25 13.5V8.75M6.1 13.5V3M9.9 13.5V6.5M13.75 13.5V4.75",
    "handoffs": "M2 4.5h12M2 8h12M2 11.5h8",
    "traces": "M2 3.5h12M2 8h12M2 12.5h12M5 3.5V8M3.75 6.5L5 8l1.25-1.5M10.5 8v4.5M9.25 11l1.25 1.5L11.75 11",
    "agents": (
        "M2 4.25a1.75 1.75 0 1 0 3.5 0 1.75 1.75 0 1 0-3.5 0M10.5 4.25a1.75 1.75 0 1 0 3.5 0 1.75 1.75 0 1 0-3.5 0"
        "M6.25 12a1.75 1.75 0 1 0 3.5 0 1.75 1.75 0 1 0-3.5 0M5.5 4.25h5M4.6 5.75l2.5 4.75M11.4 5.75l-2.5 4.75"
    ),
    "review": "M2 9.5l2-6.75h8l2 6.75v3.75H2ZM2 9.5h3.75l1 1.75h2.5l1-1.75H14",
    "strictness": (
        "M2 4.5h6.25M11.75 4.5H14M2 11.5h2.25M7.75 11.5H14"
        "M8.25 4.5a1.75 1.75 0 1 0 3.5 0 1.75 1.75 0 1 0-3.5 0"
        "M4.25 11.5a1.75 1.75 0 1 0 3.5 0 1.75 1.75 0 1 0-3.5 0"
    ),
    "rules": "M2 4.25l1.25 1.25L5.5 3M2 11.25l1.25 1.25L5.5 10M8 4.5h6M8 11.5h6",
    "schemas": (
        "M6 2.25H5A1.5 1.5 0 0 0 3.5 3.75v2.5L2 8l1.5 1.75v2.5A1.5 1.5 0 0 0 5 13.75h1"
        "M10 2.25h1a1.5 1.5 0 0 1 1.5 1.5v2.5L14 8l-1.5 1.75v2.5a1.5 1.5 0 0 1-1.5 1.5h-1"
    ),
    "diagnostics": "M1.5 8.5h3l2-5.25 2.75 9.5 2-4.25h3.25",
    "prompts": "M2 3h12v8H7.5L4.5 13.75V11H2ZM5 6h6M5 8.25h4",
    "settings": (
        "M8 5.75a2.25 2.25 0 1 0 0 4.5 2.25 2.25 0 0 0 0-4.5ZM8 1.5v2M8 12.5v2M1.5 8h2M12.5 8h2"
        "M3.4 3.4l1.4 1.4M11.2 11.2l1.4 1.4M12.6 3.4l-1.4 1.4M4.8 11.2l-1.4 1.4"
    ),
    "person": "M8 2a3 3 0 1 0 0 6 3 3 0 0 0 0-6ZM2.5 14c.5-2.75 2.6-4.25 5.5-4.25s5 1.5 5.5 4.25",
    "eye": "M1.5 8S3.75 3.5 8 3.5 14.5 8 14.5 8 12.25 12.5 8 12.5 1.5 8 1.5 8ZM8 6a2 2 0 1 0 0 4 2 2 0 0 0 0-4Z",
    "clock": f"{_RING}M8 4.5V8l2.5 1.75",
    "close": "M4 4l8 8M12 4l-8 8",
    "copy": "M5.5 5.5v-3h8v8h-3M2.5 5.5h8v8h-8Z",
    "sun": (
        "M8 5.25a2.75 2.75 0 1 0 0 5.5 2.75 2.75 0 0 0 0-5.5ZM8 1v1.5M8 13.5V15M1 8h1.5M13.5 8H15"
        "M3.05 3.05l1.06 1.06M11.9 11.9l1.05 1.05M12.95 3.05L11.9 4.1M4.1 11.9l-1.05 1.05"
    ),
    "moon": "M13.5 9.75A5.75 5.75 0 0 1 6.25 2.5a5.75 5.75 0 1 0 7.25 7.25Z",
    "auto": f"{_RING}M8 1.75v12.5M9.5 4.5h3M9.5 7.25h4.25M9.5 10h3.75",
    "leave": "M6.5 13.5h-4v-11h4M10 4.75L13.25 8 10 11.25M13 8H6",
    "findings": "M2.5 2.5h4.5v4.5H2.5ZM9 2.5h4.5v4.5H9ZM2.5 9h4.5v4.5H2.5ZM9 11.25h4.5M11.25 9v4.5",
    "help": f"{_RING}M6.25 6.25a1.8 1.8 0 1 1 2.6 1.6c-.6.3-.85.65-.85 1.3M8 11.3v.15",
    "keyboard": "M1.75 4h12.5v8H1.75ZM4.25 6.5h.1M6.75 6.5h.1M9.25 6.5h.1M11.75 6.5h.1M5 9.5h6",
    "roomy": "M2.5 3h11M2.5 8h11M2.5 13h11",
    "compact": "M2.5 3.5h11M2.5 6.5h11M2.5 9.5h11M2.5 12.5h11",
    "down": "M4 6.25L8 10.25l4-4",
    "search": "M7 2.5a4.5 4.5 0 1 0 0 9 4.5 4.5 0 0 0 0-9ZM10.25 10.25l3.5 3.5",
    "from": "M2.5 2.5h11L9.25 8v5L6.75 11.5V8ZM2.5 13.5h2",
    "into": "M2.5 2.5h11L9.25 8v5L6.75 11.5V8ZM11.5 13.5h2",
    "parked": "M8 1.5l6.25 6.5L8 14.5 1.75 8ZM8 5v3.5M8 10.4v.35",
}


@register.simple_tag
@lru_cache(maxsize=256)
def icon(name: str, label: str = "") -> SafeString:
    """Render an icon: `{% icon "held" %}` is hidden from screen readers, and a second argument is its spoken label."""
    attributes = format_html('role="img" aria-label="{}"', label) if label else mark_safe('aria-hidden="true"')
    return format_html(
        '<svg class="icon" viewBox="0 0 16 16" width="16" height="16" {}><path d="{}"/></svg>',
        attributes,
        STROKED[name],
    )
