"""The small parts that pages are made of. Each tag's template in `components/` says how it is used."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import pairwise
from typing import Any

from django.template import Context, Library
from django.template.loader import get_template
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

from handoffaudit.dashboard.safe_text import readable
from handoffaudit.handoffs.counts import UNVERIFIED
from handoffaudit.validation.codes import CATALOGUE, FAMILIES, entry_of

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


# A list has the same few states, codes and pairs in most of its rows: each is rendered once in a process. Nothing but
# what stands in brackets decides what these look like.
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
    # The gravest first: a list row has room for few of them.
    every = [_code(value) | ({"tone": "quiet"} if value == UNVERIFIED else {}) for value in sorted(values, key=gravity)]
    more = [one["title"] for one in every[shown:]]
    return _rendered(
        "components/codes.html", {"codes": every[:shown], "more": len(more), "more_titles": ", ".join(more)}
    )


def gravity(value: str) -> tuple[int, bool]:
    """Where a code stands among a row's; of like ones first what a handoff is held for. What was not checked is said
    last: without a key nearly every row has it."""
    entry = entry_of(value)
    level = len(_GRAVEST_FIRST) if value == UNVERIFIED else _GRAVEST_FIRST.index(entry.severity.value)
    return level, not entry.holds


@register.filter
def code_title(value: str) -> str:
    """What the catalogue calls a code; of a family, with what it was made for: `Breaks a business rule: total`."""
    if value in CATALOGUE:
        return CATALOGUE[value].title
    title, made_for = entry_of(value).title, value.rpartition(".")[2]
    return f"{title}: {readable(made_for)}" if value.partition(".")[0] in FAMILIES else readable(value)


@register.simple_tag
def options(values: Iterable[str], chosen: str = "", kind: str = "") -> SafeString:
    """`{% options known.types place.type %}`: the options of a long select, after its first one; `"codes"` as third has
    their titles. What is chosen is one of them, also where it is not among the values."""
    shown = code_title if kind == "codes" else readable
    values = list(values)
    if chosen and chosen not in values:
        values.append(chosen)
    rows = ((value, mark_safe(" selected") if value == chosen else "", shown(value)) for value in values)
    return format_html_join("", '<option value="{}"{}>{}</option>', rows)


@register.simple_tag
@lru_cache(maxsize=2048)
def agent_pair(source: str, target: str) -> SafeString:
    # A name that turns the direction of what follows would swap who hands to whom.
    return _rendered("components/agent_pair.html", {"source": readable(source), "target": readable(target)})


# Value, title, what is read out, icon. The first is as it is without a choice.
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
            # "1 d 4 h" matters, "12 d 4 h" does not.
            return f"{whole} {unit.name} {part} {smaller.name}" if part and whole < 4 else f"{whole} {unit.name}"
    return f"{seconds} s"


@register.simple_tag
def time(value: datetime | None) -> SafeString:
    """`{% time handoff.received_at %}`: a moment in UTC, short; whole, with its age, on hover. For an age in the text:
    `{% age moment %}`."""
    if not value:
        return _NONE
    now = timezone.now()
    if value.date() == now.date():
        shown = f"{value:%H:%M:%S}"
    else:
        shown = f"{value.day} {value:%b %H:%M}" if value.year == now.year else f"{value.day} {value:%b %Y}"
    # Nothing in it is anybody's text.
    return mark_safe(  # noqa: S308
        f'<time class="time" datetime="{value.isoformat()}" title="{value:%Y-%m-%d %H:%M:%S} UTC, '
        f'{_short(now - value)} ago">{shown}</time>'
    )


@register.simple_tag
def age(value: datetime | None) -> SafeString | str:
    """`{% age handoff.received_at %}`: how long ago, as "3 h 12 min", with the moment as its title."""
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
    """`{% bar 0.42 "bad" %}`: a bar of that share of the place it has; the number stands beside it as text."""
    width = f"{max(0.0, min(1.0, share)) * 100:.1f}%"
    return format_html(
        '<svg class="bar" height="6" aria-hidden="true"><rect class="bar-track" width="100%" height="6" rx="3"/>'
        '<rect class="bar-fill bar-fill--{}" width="{}" height="6" rx="3"/></svg>',
        tone,
        width,
    )
