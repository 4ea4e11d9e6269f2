"""Fills that differ in pattern as well as in colour, so that they are distinct in grey."""

from collections.abc import Iterable

from handoffaudit.drawing.svg import element

FILLS = {
    "accepted": "#1a7f37",
    "approved": "#4ac26b",
    "held": "#bf8700",
    "rejected": "#d1242f",
    "declined": "#a40e26",
    "received": "#6e7781",
    "validating": "#6e7781",
    "superseded": "#8c959f",
    "over": "#d1242f",
    "answered": "#1a7f37",
    "cached": "#4ac26b",
    "skipped": "#8c959f",
    "failed": "#d1242f",
    "used": "#1a7f37",
    "file_missing": "#d1242f",
    "json_parse_error": "#bf8700",
    "schema_invalid": "#8250df",
    "other": "#8c959f",
    "blocked": "#d1242f",
    "handoffs": "#4f6bd8",
    "caused": "#d1242f",
    "passed-on": "#bf8700",
}
_MARKS = {
    "approved": ("M0 3H6",),
    "held": ("M1.5 1.5h1.5M4.5 4.5h1.5",),
    "rejected": ("M-1 1L1 -1M0 6L6 0M5 7L7 5",),
    "declined": ("M-1 1L1 -1M0 6L6 0M5 7L7 5", "M0 0L6 6"),
    "received": ("M3 0V6",),
    "validating": ("M3 0V6", "M0 3H6"),
    "superseded": ("M0 0L6 6",),
    "over": ("M-1 1L1 -1M0 6L6 0M5 7L7 5",),
    "cached": ("M0 3H6",),
    "skipped": ("M0 0L6 6",),
    "failed": ("M-1 1L1 -1M0 6L6 0M5 7L7 5",),
    "file_missing": ("M-1 1L1 -1M0 6L6 0M5 7L7 5",),
    "json_parse_error": ("M1.5 1.5h1.5M4.5 4.5h1.5",),
    "schema_invalid": ("M3 0V6",),
    "other": ("M0 0L6 6",),
    "blocked": ("M-1 1L1 -1M0 6L6 0M5 7L7 5",),
    "caused": ("M-1 1L1 -1M0 6L6 0M5 7L7 5",),
    "passed-on": ("M1.5 1.5h1.5M4.5 4.5h1.5",),
}
_SIZE = 6
_OTHER = "#57606a"


def definitions(prefix: str, names: Iterable[str]) -> str:
    """Return the patterns of these names. Their IDs begin with `prefix`."""
    patterns = [_pattern(prefix, name) for name in names]
    return element("defs", *patterns) if patterns else ""


def paint(prefix: str, name: str) -> str:
    """Return the value of a `fill` attribute that uses the pattern of a name."""
    return f"url(#{prefix}-fill-{name})"


def _pattern(prefix: str, name: str) -> str:
    colour = FILLS.get(name, _OTHER)
    marks = [
        element("path", d=path, stroke="#ffffff", stroke_opacity=0.75, stroke_width=1.2, fill="none")
        for path in _MARKS.get(name, ())
    ]
    return element(
        "pattern",
        element("rect", width=_SIZE, height=_SIZE, fill=colour, class_=f"fill-{name}"),
        *marks,
        id=f"{prefix}-fill-{name}",
        width=_SIZE,
        height=_SIZE,
        patternUnits="userSpaceOnUse",
    )
