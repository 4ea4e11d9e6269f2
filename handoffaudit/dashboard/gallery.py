"""The gallery of components, drawings and design tokens."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any
from uuid import UUID

from django.contrib.staticfiles import finders
from django.http import HttpRequest, HttpResponse
from django.urls import path, reverse
from django.utils import timezone

from handoffaudit.accounts.models import Role
from handoffaudit.dashboard.access import TenantMembership, render_page, require_role
from handoffaudit.dashboard.diagnostics.llm_health import AlertText
from handoffaudit.dashboard.templatetags.ui import STROKED
from handoffaudit.diagnostics.models import RetentionRun
from handoffaudit.drawing.agent_map import MapAgent, MapEdge, draw_agent_map
from handoffaudit.drawing.chain import Chain, draw_chain
from handoffaudit.drawing.charts import (
    ALONE,
    NARROW,
    Bar,
    Section,
    draw_sparkline,
    draw_stacked_bars,
    draw_token_sections,
)
from handoffaudit.drawing.lanes import Arrow, draw_lanes
from handoffaudit.drawing.svg import Drawing
from handoffaudit.filter_fields import FilterError
from handoffaudit.handoffs.filters import Filters
from handoffaudit.handoffs.models import Alert, Handoff, State
from handoffaudit.validation.issues import Severity

_STATES = ("accepted", "approved", "held", "rejected", "declined")

_DAYS = ((41, 2, 3, 9, 1), (52, 0, 4, 7, 0), (38, 3, 2, 12, 2), (47, 1, 6, 5, 1), (60, 2, 1, 4, 0), (33, 4, 8, 15, 3))

_ROUND = ("planner", "researcher", "writer", "researcher")

_LONG = tuple(f"agent_{number}" for number in range(1, 15))


@dataclass(frozen=True, slots=True)
class Example:
    """A drawing with its module and its use; `narrow` is the drawing for phones (None: phones show `wide`)."""

    name: str
    module: str
    use: str
    wide: Drawing
    narrow: Drawing | None = None


def examples() -> list[Example]:
    return [
        _chains("Chain", "The agents that had the work before one handoff, and an arc for a loop.", _ROUND, "writer"),
        _chains("Long chain", "The middle of a long chain is folded. The length limit is marked.", _LONG, "writer", 5),
        _lanes(),
        _map(),
        _tokens(),
        _spark(),
    ]


def bars(width: int, prefix: str) -> Drawing:
    """Return the chart of states over time."""
    days = [
        Bar(f"{number} Mar", f"{number} March", dict(zip(_STATES, day, strict=True)))
        for number, day in enumerate(_DAYS, start=1)
    ]
    return draw_stacked_bars(days, order=_STATES, width=width, height=200, title="Handoffs by state", prefix=prefix)


def charts() -> dict[str, Drawing]:
    return {"chart": bars(ALONE, "gallery-bars-wide"), "narrow_chart": bars(NARROW, "gallery-bars-narrow")}


def _chains(name: str, use: str, agents: tuple[str, ...], target: str, over: int | None = None) -> Example:
    loop = tuple(place for place, agent in enumerate(agents) if agent == target)
    shown = Chain(agents=agents, target=target, loop=loop, over_from=over)
    prefix = f"gallery-{'long' if over else 'chain'}"
    return Example(
        name,
        "drawing/chain.py",
        use,
        draw_chain(shown, width=900, prefix=prefix),
        draw_chain(shown, width=NARROW, prefix=f"{prefix}-narrow"),
    )


def _lanes() -> Example:
    arrows = [
        Arrow(1, "planner", "researcher", "accepted"),
        Arrow(2, "researcher", "writer", "held", note="1 finding", is_origin=True),
        Arrow(3, "writer", "researcher", "rejected", note="2 findings", carries=True, loops=True),
    ]
    use = "The handoffs of a trace over time, one lane per agent, and the agents that passed a wrong value on."
    return Example(
        "Lanes", "drawing/lanes.py", use, draw_lanes(arrows, width=640, prefix="gallery-lanes", standalone=True)
    )


def _map() -> Example:
    agents = [MapAgent("planner", 64), MapAgent("researcher", 91), MapAgent("writer", 43)]
    edges = [
        MapEdge("planner", "researcher", 48, 0.96, "2 s"),
        MapEdge("researcher", "writer", 27, 0.63, "9 s"),
        MapEdge("writer", "planner", 16, 1.0, "1 s"),
    ]
    use = "Routes between agents: wider for more handoffs, dashed with a cross if the acceptance rate is below 80 %."
    wide = draw_agent_map(agents, edges, width=700, prefix="gallery-map")
    return Example(
        "Agent map",
        "drawing/agent_map/",
        use,
        wide,
        draw_agent_map(agents, edges, width=NARROW, across=False, prefix="gallery-map-narrow"),
    )


def _tokens() -> Example:
    sections = [Section("context", 1_840, 1_500), Section("data", 910, 1_200), Section("evidence", 420)]
    use = "A token budget by section. The tokens of a section over its target are hatched."
    drawn = [
        draw_token_sections(sections, total=3_170, budget=4_000, width=width, prefix=f"gallery-tokens-{width}")
        for width in (640, NARROW)
    ]
    return Example("Token sections", "drawing/charts.py", use, *drawn)


def _spark() -> Example:
    days = (0, 2, 1, 4, 3, 0, 0, 5, 9, 7, 6, 12, 4, 8)
    use = "A trend in a line of a list, in the colour of its text, beside its numbers."
    return Example(
        "Sparkline", "drawing/charts.py", use, draw_sparkline(days, title="Handoffs a day", prefix="gallery-spark")
    )


# WCAG requires a higher contrast for text than for drawings and borders.
LEAST_OF_TEXT, LEAST_OF_SHAPES = 4.5, 3.0

GROUNDS = ("page", "surface", "raised", "hover")

TEXT = {
    "text": (*GROUNDS, "selected", "chosen"),
    "muted": GROUNDS,
    "accent": (*GROUNDS, "selected"),
    "accent-strong": GROUNDS,
    "good": ("surface", "good-soft"),
    "bad": ("surface", "bad-soft"),
    "wait": ("surface", "wait-soft"),
    "quiet": ("surface", "quiet-soft"),
    "on-accent": ("accent-fill", "accent-fill-hover"),
}

SHAPES = (
    "line-strong",
    "fill-good",
    "fill-bad",
    "fill-wait",
    "fill-quiet",
    "fill-accent",
    "fill-passed",
    "fill-refused",
)

_COLOUR = re.compile(r"--([a-z-]+): (?:light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\)|(#[0-9a-f]{6}));")

_OTHER = re.compile(r"--([a-z0-9-]+): ([^;]+);")


@dataclass(frozen=True, slots=True)
class Colour:
    """A colour of the design tokens.

    `contrast` is the lowest contrast of the colour, in either theme, on the backgrounds `on`. It is None for each
    colour that is neither in `TEXT` nor in `SHAPES`.
    """

    name: str
    light: str
    dark: str
    on: tuple[str, ...] = ()
    contrast: float | None = None
    least: float = LEAST_OF_TEXT

    @property
    def is_enough(self) -> bool:
        return self.contrast is None or self.contrast >= self.least


@dataclass(frozen=True, slots=True)
class Token:
    """A size, a weight or a space; `compact` is set if the compact density has another value."""

    name: str
    value: str
    compact: str = ""


@cache
def sheet() -> str:
    found = finders.find("css/tokens.css")
    return Path(str(found)).read_text(encoding="utf-8")


def colours() -> list[Colour]:
    values = {name: (light or one, dark or one) for name, light, dark, one in _COLOUR.findall(sheet())}
    return [_colour(name, values) for name in values]


def sizes() -> list[Token]:
    """Return the design tokens whose values contain no colour."""
    first, _, compact = sheet().partition('[data-density="compact"]')
    dense = dict(_OTHER.findall(compact))
    rest = [(name, value) for name, value in _OTHER.findall(first) if not re.search(r"#|rgb|light-dark", value)]
    return [Token(name, value, dense.get(name, "")) for name, value in rest]


def _colour(name: str, values: Mapping[str, tuple[str, str]]) -> Colour:
    grounds = TEXT.get(name, ("surface",) if name in SHAPES else ())
    ratios = [ratio(values[name][theme], values[ground][theme]) for ground in grounds for theme in (0, 1)]
    return Colour(
        name=name,
        light=values[name][0],
        dark=values[name][1],
        on=grounds,
        contrast=min(ratios) if ratios else None,
        least=LEAST_OF_SHAPES if name in SHAPES else LEAST_OF_TEXT,
    )


def ratio(one: str, other: str) -> float:
    """Return the contrast of two colours as WCAG 2.2 defines it, from 1 to 21."""
    darker, lighter = sorted((_luminance(one), _luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(colour: str) -> float:
    red, green, blue = (_linear(int(colour[at : at + 2], 16) / 255) for at in (1, 3, 5))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _linear(channel: float) -> float:
    return channel / 12.92 if channel <= 0.04045 else float(((channel + 0.055) / 1.055) ** 2.4)


@dataclass(frozen=True, slots=True)
class Said:
    """A message as Django gives it to `components/messages.html`."""

    level_tag: str
    text: str

    def __str__(self) -> str:
        return self.text


MESSAGES = (
    Said("success", "Approved. The sender was notified."),
    Said("warning", "2 of 14 were not decided: somebody else decided first."),
    Said("error", "Approving a rejected handoff needs a note."),
    Said("info", "A dry run of this draft is running: 40 of 200 handoffs are judged."),
)


@require_role(Role.VIEWER)
def gallery(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    now = timezone.now()
    context: dict[str, Any] = {
        "colours": colours(),
        "sizes": sizes(),
        "icons": sorted(STROKED),
        "states": [state.value for state in State],
        "severities": [severity.value for severity in Severity],
        "several": ["chain.circular", "grounding.number", "grounding.name", "chain.needs_approval"],
        "said": MESSAGES,
        "bad": FilterError("since", "yesterday", "use a number of hours or days, e.g. 24h or 7d."),
        "filter_form": Filters.form({"source": "planner", "since": "7d"}),
        "alerts": [_alert(who, now - timedelta(hours=5))],
        "held": Handoff(pk=UUID(int=0), tenant=who.tenant, state=State.HELD.value, version=1),
        "taken": RetentionRun(removed_before=now - timedelta(days=90), removed_at=now, removed_days=90),
        "moment": now - timedelta(hours=3),
        "drawings": examples(),
        "here": reverse("dashboard:gallery", args=[who.tenant.slug]),
        **charts(),
    }
    return render_page(request, "dashboard/gallery/page.html", context)


def _alert(who: TenantMembership, opened_at: Any) -> AlertText:
    alert = Alert(pk=0, tenant=who.tenant, kind="held_old", level="warning", opened_at=opened_at, last_at=opened_at)
    return AlertText(
        alert,
        "6 handoffs wait longer than their limit",
        "Nobody has decided them; their senders still wait.",
        reverse("dashboard:review", args=[who.tenant.slug]),
        "Decide them",
    )


urlpatterns = [path("gallery/", gallery, name="gallery")]
