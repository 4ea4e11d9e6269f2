"""The wrong values of a trace with the steps that introduced them, and a ranking of suspect handoffs."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from handoffaudit.validation.layers.grounding import BY_KIND
from handoffaudit.validation.provenance import Attributed, Form, Step, forms_of

_IN_TURN: Final = {BY_KIND[kind].code: turn for turn, kind in enumerate(("number", "date", "identifier", "name"))}
# Wording that no source has is more often a paraphrase than wrong.
_WEAKEST: Final = BY_KIND["wording"].code
_SPREAD_VALUES: Final = 3
_SPREAD_CARRIERS: Final = 2
_MEASURED: Final = frozenset({"number", "date", "day", "month", "time"})
# A whole sentence in quotation marks is more often a figure of speech than a value.
_SOFT: Final = frozenset({BY_KIND["quote"].code, _WEAKEST})
_LONGEST: Final = 50_000
_ASSUMES = re.compile(
    r"\b(?:assum(?:e|es|ed|ing|ptions?)|simulat(?:e|es|ed|ing|ion)|hypothetical(?:ly)?|placeholders?|dummy|mock(?:ed|-up)?"
    r"|(?:sample|example|made-up|synthetic) data|let(?:'|\u2019)s say|suppos(?:e|ing))\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Origin:
    """One wrong value. All steps are indexes into the trace.

    `step` is the first step that contains the value, `flagged` are the steps with a finding about the value, and
    `carriers` the steps after `step` that contain it.
    """

    value: str
    codes: tuple[str, ...]
    step: int
    from_outside: bool
    flagged: tuple[int, ...]
    carriers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Share:
    """The number of findings that an agent introduced, and the number that the agent inherited."""

    agent: str
    caused: int
    passed_on: int

    @property
    def total(self) -> int:
        return self.caused + self.passed_on


def origins(attributed: Iterable[Attributed]) -> list[Origin]:
    """Return the wrong values in the order of their first steps; within one step, in the order of the findings."""
    alike: dict[tuple[int, frozenset[Form]], list[Attributed]] = {}
    for one in attributed:
        if one.flaw.value:
            alike.setdefault((one.origin, forms_of(one.flaw.value)), []).append(one)
    found = [
        Origin(
            value=same[0].flaw.value,
            codes=tuple(dict.fromkeys(one.flaw.code for one in same)),
            step=same[0].origin,
            from_outside=same[0].from_outside,
            flagged=tuple(dict.fromkeys(one.step for one in same)),
            carriers=same[0].carriers,
        )
        for same in alike.values()
    ]
    return sorted(found, key=lambda one: one.step)


def shares(steps: Sequence[Step], attributed: Iterable[Attributed]) -> list[Share]:
    """Return the share of every source in the trace, in the order of their first handoffs."""
    counts = {step.source: [0, 0] for step in steps}
    for one in attributed:
        counts[steps[one.step].source][0 if one.caused else 1] += 1
    return [Share(agent, caused, passed_on) for agent, (caused, passed_on) in counts.items()]


def first_wrong(attributed: Sequence[Attributed]) -> Attributed | None:
    """Return the finding that may have caused the others, or None if there are no findings.

    Values that did not come from outside take precedence over all other findings. Among these values, the earliest
    origin wins. Within one origin, numbers come first, then values with the most carriers. Wording ranks after all
    other values.
    """
    own = [one for one in attributed if one.flaw.value and not one.from_outside]
    return min(own or attributed, key=_weight, default=None)


def _weight(one: Attributed) -> tuple[int, ...]:
    is_weak = one.flaw.code == _WEAKEST and not any(sign.isdigit() for sign in one.flaw.value)
    return is_weak, one.origin, _IN_TURN.get(one.flaw.code, len(_IN_TURN)), -len(one.carriers), one.step


class Sign(StrEnum):
    """The signs that speak against a handoff."""

    VALUE = "value"
    NUMBER = "number"
    CARRIED = "carried"
    SPREAD = "spread"
    ASSUMED = "assumed"


@dataclass(frozen=True, slots=True)
class Suspect:
    """One suspect handoff. Handoffs of people or tools are never suspects.

    `step` is an index into the trace. `values` are the wrong values that the step introduced, as they were found.
    """

    step: int
    signs: tuple[Sign, ...]
    values: tuple[str, ...]


def suspects(
    steps: Sequence[Step], attributed: Sequence[Attributed], signs: Iterable[Sign] = tuple(Sign)
) -> list[Suspect]:
    """Return the handoffs with any of `signs`, those with the most signs first, and earlier ones before later ones.

    The ranking is not a verdict: it neither holds nor rejects a handoff.
    """
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
