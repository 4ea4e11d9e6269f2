"""Template tags for icons and the components of pages; each template in `components/` says how its tag is used."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import pairwise
from typing import Any

from django.template import Context, Library
from django.template.loader import get_template
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

from handoffaudit.dashboard.access import current_zone, to_local
from handoffaudit.dashboard.safe_text import readable
from handoffaudit.handoffs.counts import UNVERIFIED
from handoffaudit.handoffs.models import Handoff
from handoffaudit.validation.layers import CATALOGUE, FAMILIES, entry_of

register = Library()

STATE_TONES = {
    "received": "quiet",
    "validating": "quiet",
    "accepted": "good",
    "approved": "good",
    "rejected": "bad",
    "declined": "bad",
    "held": "wait",
    "superseded": "quiet",
}
SEVERITY_TONES = {"info": "quiet", "warning": "wait", "error": "bad", "critical": "bad"}
NONE = mark_safe('<span class="none">\u2013</span>')
_GRAVEST_FIRST = ("critical", "error", "warning", "info")


# Most rows of a list contain the same few states, rule codes and routes, so each is rendered once in a process.
# The result depends only on the arguments.
@register.simple_tag
@lru_cache(maxsize=32)
def state(value: str) -> SafeString:
    return _render("components/state.html", {"state": value, "tone": STATE_TONES[value]})


@register.simple_tag
@lru_cache(maxsize=32)
def severity(value: str) -> SafeString:
    return _render("components/severity.html", {"severity": value, "tone": SEVERITY_TONES[value]})


@register.simple_tag
@lru_cache(maxsize=512)
def code(value: str, level: str = "") -> SafeString:
    return _render("components/code.html", _code(value, level))


def _render(template: str, context: dict[str, Any]) -> SafeString:
    return SafeString(get_template(template).render(context))


def _code(value: str, level: str = "") -> dict[str, str]:
    entry = entry_of(value)
    shown = level or entry.severity.value
    return {
        "code": value,
        "title": code_title(value),
        "what": entry.what,
        "severity": shown,
        "tone": SEVERITY_TONES[shown],
    }


@register.simple_tag
def codes(values: Iterable[str], shown: int = 2) -> SafeString:
    return _codes(tuple(values), shown)


@lru_cache(maxsize=1024)
def _codes(values: tuple[str, ...], shown: int) -> SafeString:
    # A list row has room for few rule codes, so the most severe codes come first.
    every = [_code(value) | ({"tone": "quiet"} if value == UNVERIFIED else {}) for value in sorted(values, key=gravity)]
    more = [one["title"] for one in every[shown:]]
    return _render("components/codes.html", {"codes": every[:shown], "more": len(more), "more_titles": ", ".join(more)})


def gravity(value: str) -> tuple[int, bool]:
    """Return the sort key of a rule code: by severity, and among equals the codes that hold a handoff first.

    The code for an unverified handoff is last, because without an LLM key nearly every row has that code.
    """
    entry = entry_of(value)
    level = len(_GRAVEST_FIRST) if value == UNVERIFIED else _GRAVEST_FIRST.index(entry.severity.value)
    return level, not entry.holds


@register.filter
def code_title(value: str) -> str:
    """Return the title of a rule code. A code of a custom layer has no title, so return the code itself.

    All codes of business rules share one title, and so do the codes of schemas. The last part of the code is added:
    `Breaks a business rule: total`.
    """
    if value in CATALOGUE:
        return CATALOGUE[value].title
    title, made_for = entry_of(value).title, value.rpartition(".")[2]
    return f"{title}: {readable(made_for)}" if value.partition(".")[0] in FAMILIES else readable(value)


@register.simple_block_tag
def placeholder(content: str, title: str, icon: str = "handoffs", link: str = "", link_text: str = "") -> SafeString:
    """Render what a page shows instead of an empty list: a title, the text of the block, and a link."""
    context = {"title": title, "text": content.strip(), "icon_name": icon, "link": link, "link_text": link_text}
    return _render("components/empty.html", context)


def options(values: Iterable[str], chosen: str = "", kind: str = "") -> SafeString:
    """Render the options of a list of suggestions, or the options of a long select without its first option.

    If `kind` is `"codes"`, the options show the titles of the rule codes. The chosen value is always an option, even if
    it is not among the values.
    """
    values = list(values)
    if chosen and chosen not in values:
        values.append(chosen)
    return mark_safe("".join(_option_of(value, kind, is_chosen=value == chosen) for value in values))  # noqa: S308


# Most requests show the same few agents, types and rule codes.
@lru_cache(maxsize=4096)
def _option_of(value: str, kind: str, *, is_chosen: bool) -> SafeString:
    return option(value, code_title(value) if kind == "codes" else readable(value), is_chosen=is_chosen)


@lru_cache(maxsize=512)
def option(value: str, label: str, *, is_chosen: bool) -> SafeString:
    return format_html('<option value="{}"{}>{}</option>', value, " selected" if is_chosen else "", label)


@register.simple_tag
@lru_cache(maxsize=2048)
def agent_pair(source: str, target: str) -> SafeString:
    # A name with a direction character would swap the source and the target on the page.
    return _render("components/agent_pair.html", {"source": readable(source), "target": readable(target)})


# Each entry holds the value, the title, the spoken label and the icon; the first entry is the default.
SWITCHES = {
    "theme": (
        ("system", "As the system", "System theme", "auto"),
        ("light", "Light", "Light theme", "sun"),
        ("dark", "Dark", "Dark theme", "moon"),
    ),
    "density": (
        ("comfortable", "Comfortable", "Comfortable density", "roomy"),
        ("compact", "Compact", "Compact density", "compact"),
    ),
}


@register.inclusion_tag("components/switch.html", takes_context=True)
def switch(context: Context, name: str, where: str = "") -> dict[str, Any]:
    return {
        "name": name,
        "label": name.capitalize() + where,
        "chosen": context[name] or SWITCHES[name][0][0],
        "choices": SWITCHES[name],
        "who": context["who"],
        "next": context["request"].get_full_path(),
    }


@dataclass(frozen=True, slots=True)
class _Unit:
    name: str
    seconds: int


_UNITS = (_Unit("d", 86_400), _Unit("h", 3_600), _Unit("min", 60), _Unit("s", 1))


def _short(span: timedelta) -> str:
    seconds = max(0, int(span.total_seconds()))
    for unit, smaller in pairwise(_UNITS):
        if seconds >= unit.seconds:
            whole, rest = divmod(seconds, unit.seconds)
            part = rest // smaller.seconds
            # The smaller unit matters in "1 d 4 h" and not in "12 d 4 h".
            return f"{whole} {unit.name} {part} {smaller.name}" if part and whole < 4 else f"{whole} {unit.name}"
    return f"{seconds} s"


@register.simple_tag
def time(value: datetime | None) -> SafeString:
    """Render a moment in the reader's time zone in short form, with the full moment in UTC and its age on hover.

    Usage: `{% time handoff.received_at %}` in lists and facts, `{% moment at %}` in sentences, and `{% age at %}` for
    an age as text.
    """
    return _render_time(value) if value else NONE


def _render_time(value: datetime, more: str = "") -> SafeString:
    """Render a moment. `more` is appended to the title and read aloud by screen readers."""
    now = timezone.now()
    local, today = to_local(value), to_local(now)
    value = value.astimezone(UTC)
    if local.date() == today.date():
        shown = f"{local:%H:%M:%S}"
    else:
        shown = f"{local.day} {local:%b %H:%M}" if local.year == today.year else f"{local.day} {local:%b %Y}"
    # The markup contains no text from a sender or a user.
    return mark_safe(  # noqa: S308
        f'<time class="time" datetime="{value.isoformat()}" title="{value:%Y-%m-%d %H:%M:%S} UTC, '
        f'{_short(now - value)} ago{more}">{shown}</time>' + (f'<span class="hidden">{more}</span>' if more else "")
    )


@register.simple_tag
def moment(value: datetime | None) -> SafeString:
    """Render a moment in a sentence in the reader's time zone, with UTC on hover: `{% moment holder.until %}`."""
    if value is None:
        return NONE
    local, value = to_local(value), value.astimezone(UTC)
    return format_html(
        '<time datetime="{}" title="{} UTC">{} {}</time>',
        value.isoformat(),
        f"{value:%Y-%m-%d %H:%M:%S}",
        f"{local.day} {local:%b %Y, %H:%M}",
        local.tzname(),
    )


@register.filter
def clock(value: datetime) -> str:
    """Return the time of a moment in the reader's time zone, for texts that are read aloud."""
    return f"{to_local(value):%H:%M:%S}"


@register.simple_tag
def zone_name() -> SafeString:
    """Render the short name of the reader's time zone, for the head of a column of times: `{% zone_name %}`."""
    zone = current_zone()
    title = "Coordinated Universal Time" if zone is UTC else f"{zone}; UTC on hover"
    return format_html('<abbr title="{}">{}</abbr>', title, to_local(timezone.now()).tzname())


@register.simple_tag
def handoff_time(handoff: Handoff) -> SafeString:
    """Render the time of a handoff in short form.

    If the sender gave an earlier time (`sent_at`), that time is shown, and the time of receipt on hover.
    """
    received = f"; received {handoff.received_at:%Y-%m-%d %H:%M:%S} UTC" if handoff.sent_at else ""
    return _render_time(handoff.at, received)


@register.simple_tag
def age(value: datetime | None) -> SafeString | str:
    """Render the age of a moment as "3 h 12 min", with the moment as its title: `{% age handoff.received_at %}`."""
    if value is None:
        return ""
    return format_html(
        '<time class="time" datetime="{}" title="{}">{}</time>',
        value.isoformat(),
        f"{value:%Y-%m-%d %H:%M:%S} UTC",
        _short(timezone.now() - value),
    )


@register.simple_tag
@lru_cache(maxsize=1024)
def score(value: float | None) -> SafeString:
    tone = "quiet" if value is None else "good" if value >= 0.9 else "wait" if value >= 0.6 else "bad"
    return _render("components/score.html", {"score": value, "tone": tone})


@register.simple_tag
def bar(share: float, tone: str = "accent") -> SafeString:
    """Render a bar that fills a share of its width: `{% bar 0.42 "bad" %}`. Write its number as text beside it."""
    width = f"{max(0.0, min(1.0, share)) * 100:.1f}%"
    return format_html(
        '<svg class="bar" height="6" aria-hidden="true"><rect class="bar-track" width="100%" height="6" rx="3"/>'
        '<rect class="bar-fill bar-fill--{}" width="{}" height="6" rx="3"/></svg>',
        tone,
        width,
    )


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
    "compliance": "M2 2.5h12v11H2ZM2 6.2h12M2 9.8h12M6 2.5v11M10 2.5v11",
    "logs": "M3 2h10v12H3ZM5.25 5.25h5.5M5.25 8h5.5M5.25 10.75h3.5",
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
    "up": "M4 10.25L8 6.25l4 4",
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
