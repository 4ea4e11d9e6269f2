"""The small parts that pages are made of. Each tag's template in `components/` says how it is used."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from django.template import Context, Library
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from handoffaudit.dashboard.readable import readable
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
_GRAVEST_FIRST = ("critical", "error", "warning", "info")


@register.inclusion_tag("components/state.html")
def state(value: str) -> dict[str, str]:
    return {"state": value, "tone": STATE_TONES[value]}


@register.inclusion_tag("components/severity.html")
def severity(value: str) -> dict[str, str]:
    return {"severity": value, "tone": SEVERITY_TONES[value]}


@register.inclusion_tag("components/code.html")
def code(value: str, level: str = "") -> dict[str, str]:
    return _code(value, level)


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


@register.inclusion_tag("components/codes.html")
def codes(values: Iterable[str], shown: int = 2) -> dict[str, Any]:
    # The gravest first: a list row has room for few of them.
    every = [_code(value) | ({"tone": "quiet"} if value == UNVERIFIED else {}) for value in sorted(values, key=gravity)]
    return {"codes": every[:shown], "more": every[shown:]}


def gravity(value: str) -> int:
    """Where a code stands among a row's. What was not checked is said last: without a key nearly every row has it."""
    return len(_GRAVEST_FIRST) if value == UNVERIFIED else _GRAVEST_FIRST.index(entry_of(value).severity.value)


@register.filter
def code_title(value: str) -> str:
    """What the catalogue calls a code; of a family, with what it was made for: `Breaks a business rule: total`."""
    if value in CATALOGUE:
        return CATALOGUE[value].title
    title, made_for = entry_of(value).title, value.rpartition(".")[2]
    return f"{title}: {readable(made_for)}" if value.partition(".")[0] in FAMILIES else readable(value)


@register.inclusion_tag("components/agent_pair.html")
def agent_pair(source: str, target: str) -> dict[str, str]:
    # A name that turns the direction of what follows would swap who hands to whom.
    return {"source": readable(source), "target": readable(target)}


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


@register.inclusion_tag("components/time.html")
def time(value: datetime | None) -> dict[str, Any]:
    now = timezone.now()
    return {
        "value": value,
        "today": value is not None and value.date() == now.date(),
        "this_year": value is not None and value.year == now.year,
        "age": _short(now - value) if value else "",
    }


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


@register.inclusion_tag("components/score.html")
def score(value: float | None) -> dict[str, Any]:
    tone = "quiet" if value is None else "good" if value >= 0.9 else "wait" if value >= 0.6 else "bad"
    return {"score": value, "tone": tone}


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
