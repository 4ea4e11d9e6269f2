"""A ranking of the handoffs of a trace that went wrong, with the strongest suspects first.

The ranking is no verdict: nothing is held or rejected for it. Handoffs of people or tools are never suspects.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from handoffaudit.validation.provenance.attribution import Attributed, Step
from handoffaudit.validation.provenance.origins import Origin, origins
from handoffaudit.validation.provenance.value_forms import forms_of

_SPREAD_VALUES: Final = 3
_SPREAD_CARRIERS: Final = 2
_MEASURED: Final = frozenset({"number", "date", "day", "month", "time"})
# A whole sentence in quotation marks is a manner of speaking more often than a value.
_SOFT: Final = frozenset({"grounding.quote", "grounding.wording"})
_LONGEST: Final = 50_000
_ASSUMES = re.compile(
    r"\b(?:assum(?:e|es|ed|ing|ptions?)|simulat(?:e|es|ed|ing|ion)|hypothetical(?:ly)?|placeholders?|dummy|mock(?:ed|-up)?"
    r"|(?:sample|example|made-up|synthetic) data|let(?:'|\u2019)s say|suppos(?:e|ing))\b",
    re.IGNORECASE,
)


class Sign(StrEnum):
    """The signs that speak against a handoff."""

    VALUE = "value"
    NUMBER = "number"
    CARRIED = "carried"
    SPREAD = "spread"
    ASSUMED = "assumed"


@dataclass(frozen=True, slots=True)
class Suspect:
    """One suspect handoff.

    `step` is an index into the trace. `values` are the wrong values that the step introduced, as they were found.
    """

    step: int
    signs: tuple[Sign, ...]
    values: tuple[str, ...]


def suspects(
    steps: Sequence[Step], attributed: Sequence[Attributed], signs: Iterable[Sign] = tuple(Sign)
) -> list[Suspect]:
    """Return the handoffs that have any of `signs`, the ones with the most signs first, then the earlier ones."""
    counted = frozenset(signs)
    by_step: dict[int, list[Origin]] = {}
    for one in origins(attributed):
        if not one.from_outside:
            by_step.setdefault(one.step, []).append(one)
    found = [
        Suspect(at, shown, tuple(one.value for one in by_step.get(at, ())))
        for at, step in enumerate(steps)
        if (shown := tuple(sign for sign in _signs(step, by_step.get(at, ())) if sign in counted))
    ]
    return sorted(found, key=lambda one: -len(one.signs))


def _signs(step: Step, came_in: Sequence[Origin]) -> Iterable[Sign]:
    if step.brings_facts:
        return
    values = [one for one in came_in if not _SOFT.issuperset(one.codes)]
    if values:
        yield Sign.VALUE
    if any(kind in _MEASURED for one in values for kind, _ in forms_of(one.value)):
        yield Sign.NUMBER
    if any(one.carriers for one in came_in):
        yield Sign.CARRIED
    if sum(len(one.carriers) >= _SPREAD_CARRIERS for one in came_in) >= _SPREAD_VALUES:
        yield Sign.SPREAD
    if _ASSUMES.search(step.data, 0, _LONGEST):
        yield Sign.ASSUMED
