"""The tokens as tokens.css has them, and how well each colour of text can be read on its grounds."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from django.contrib.staticfiles import finders

# Text on any ground that it stands on; what a drawing or a border says needs less.
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
    """`contrast`: the least, in either theme, on the grounds that it stands on; None: it is a ground itself."""

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
    """A size, a weight or a space; `compact` where the compact density has another value."""

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
    """Everything that is no colour."""
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
    """The contrast of two colours as WCAG 2.2 has it, from 1 to 21."""
    darker, lighter = sorted((_luminance(one), _luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(colour: str) -> float:
    red, green, blue = (_linear(int(colour[at : at + 2], 16) / 255) for at in (1, 3, 5))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _linear(channel: float) -> float:
    return channel / 12.92 if channel <= 0.04045 else float(((channel + 0.055) / 1.055) ** 2.4)
