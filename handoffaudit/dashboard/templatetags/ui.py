"""Template tags for the components of pages; each template in `components/` says how its tag is used."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import pairwise
from typing import Any

from django.template import Context, Library
from django.template.loader import get_template
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

from handoffaudit.dashboard.safe_text import readable
from handoffaudit.handoffs.counts import UNVERIFIED
from handoffaudit.validation.catalogue import CATALOGUE, FAMILIES, entry_of

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
_NONE = mark_safe('<span class="none">\u2013</span>')
_GRAVEST_FIRST = ("critical", "error", "warning", "info")


# Most rows of a list contain the same few states, rule codes and pairs, so each is rendered once in a process.
# The result depends only on the arguments.
@register.simple_tag
@lru_cache(maxsize=32)
def state(value: str) -> SafeString:
    return _rendered("components/state.html", {"state": value, "tone": STATE_TONES[value]})


@register.simple_tag
@lru_cache(maxsize=32)
def severity(value: str) -> SafeString:
    return _rendered("components/severity.html", {"severity": value, "tone": SEVERITY_TONES[value]})


@register.simple_tag
@lru_cache(maxsize=512)
def code(value: str, level: str = "") -> SafeString:
    return _rendered("components/code.html", _code(value, level))


def _rendered(template: str, context: dict[str, Any]) -> SafeString:
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
    return _rendered(
        "components/codes.html", {"codes": every[:shown], "more": len(more), "more_titles": ", ".join(more)}
    )


def gravity(value: str) -> tuple[int, bool]:
    """Return the sort key of a rule code: by severity, and among equals the codes that hold a handoff first.

    The code for an unverified handoff is last, because without an LLM key nearly every row has that code.
    """
    entry = entry_of(value)
    level = len(_GRAVEST_FIRST) if value == UNVERIFIED else _GRAVEST_FIRST.index(entry.severity.value)
    return level, not entry.holds


@register.filter
def code_title(value: str) -> str:
    """Return the title of a rule code; for a family with the member: `Breaks a business rule: total`."""
    if value in CATALOGUE:
        return CATALOGUE[value].title
    title, made_for = entry_of(value).title, value.rpartition(".")[2]
    return f"{title}: {readable(made_for)}" if value.partition(".")[0] in FAMILIES else readable(value)


def options(values: Iterable[str], chosen: str = "", kind: str = "") -> SafeString:
    """Render the options of a long select after its first option, or of a list of suggestions.

    With `"codes"` as the third argument the options show titles. The chosen value is always an option, even
    if it is not among the values.
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
    return _rendered("components/agent_pair.html", {"source": readable(source), "target": readable(target)})


# Each entry holds the value, the title, the spoken label and the icon; the first entry is the default.
SWITCHES = {
    "theme": (
        ("system", "As the system", "Theme as the system", "auto"),
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
    """Render a moment in UTC in short form, with the full moment and its age on hover.

    Usage: `{% time handoff.received_at %}`. `{% age moment %}` renders an age as text.
    """
    if not value:
        return _NONE
    now = timezone.now()
    if value.date() == now.date():
        shown = f"{value:%H:%M:%S}"
    else:
        shown = f"{value.day} {value:%b %H:%M}" if value.year == now.year else f"{value.day} {value:%b %Y}"
    # The markup contains no text from a sender or a user.
    return mark_safe(  # noqa: S308
        f'<time class="time" datetime="{value.isoformat()}" title="{value:%Y-%m-%d %H:%M:%S} UTC, '
        f'{_short(now - value)} ago">{shown}</time>'
    )


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
    return _rendered("components/score.html", {"score": value, "tone": tone})


@register.simple_tag
def bar(share: float, tone: str = "accent") -> SafeString:
    """Render a bar that fills a share of its width, beside its number as text: `{% bar 0.42 "bad" %}`."""
    width = f"{max(0.0, min(1.0, share)) * 100:.1f}%"
    return format_html(
        '<svg class="bar" height="6" aria-hidden="true"><rect class="bar-track" width="100%" height="6" rx="3"/>'
        '<rect class="bar-fill bar-fill--{}" width="{}" height="6" rx="3"/></svg>',
        tone,
        width,
    )
