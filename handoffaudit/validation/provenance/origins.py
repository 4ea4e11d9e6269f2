"""The wrong values of a trace, each once, and the number of findings that each agent introduced."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from handoffaudit.validation.provenance.attribution import Attributed, Step
from handoffaudit.validation.provenance.value_forms import Form, forms_of

_IN_TURN: Final = {"grounding.number": 0, "grounding.date": 1, "grounding.identifier": 2, "grounding.name": 3}
# Wording that no source has is more often a paraphrase than wrong.
_WEAKEST: Final = "grounding.wording"


@dataclass(frozen=True, slots=True)
class Origin:
    """One wrong value; all steps are indexes into the trace.

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
    """The number of findings in an agent's handoffs that the agent introduced, and the number that it inherited."""

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
    """Return the finding that the others may follow from, or None without any finding.

    Values that did not come from outside take precedence over all other findings. Among them, the earliest origin wins;
    within one origin, numbers come first, then values with the most carriers. Mere wording ranks after all other
    values.
    """
    own = [one for one in attributed if one.flaw.value and not one.from_outside]
    return min(own or attributed, key=_weight, default=None)


def _weight(one: Attributed) -> tuple[int, ...]:
    is_weak = one.flaw.code == _WEAKEST and not any(sign.isdigit() for sign in one.flaw.value)
    return is_weak, one.origin, _IN_TURN.get(one.flaw.code, len(_IN_TURN)), -len(one.carriers), one.step
