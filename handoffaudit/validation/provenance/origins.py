"""The wrong values of a trace, each once, and how many findings each agent caused."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from handoffaudit.validation.provenance.attribution import Attributed, Step
from handoffaudit.validation.provenance.value_forms import Form, forms_of

_IN_TURN: Final = {"grounding.number": 0, "grounding.date": 1, "grounding.identifier": 2, "grounding.name": 3}
# A word that a source does not say is more often another way to put it than wrong.
_WEAKEST: Final = "grounding.wording"


@dataclass(frozen=True, slots=True)
class Origin:
    """One wrong value: `step` is where it stands first, `flagged` where something was found of it, `carriers` where
    else it stands after `step`. All are indexes into the trace."""

    value: str
    codes: tuple[str, ...]
    step: int
    from_outside: bool
    flagged: tuple[int, ...]
    carriers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Share:
    """How many findings of an agent's handoffs it caused, and how many it passed on."""

    agent: str
    caused: int
    passed_on: int

    @property
    def total(self) -> int:
        return self.caused + self.passed_on


def origins(attributed: Iterable[Attributed]) -> list[Origin]:
    """In the order in which they came up; of one step, as they were found."""
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
    """Of every source of the trace, in the order of their first handoffs."""
    counts = {step.source: [0, 0] for step in steps}
    for one in attributed:
        counts[steps[one.step].source][0 if one.caused else 1] += 1
    return [Share(agent, caused, passed_on) for agent, (caused, passed_on) in counts.items()]


def first_wrong(attributed: Sequence[Attributed]) -> Attributed | None:
    """The finding that the others may follow from: of the earliest origin, a value that nobody outside brought before
    anything else, and of several first a number, then what is carried furthest; mere words come after all other values.
    None where nothing was found."""
    own = [one for one in attributed if one.flaw.value and not one.from_outside]
    return min(own or attributed, key=_weight, default=None)


def _weight(one: Attributed) -> tuple[int, ...]:
    is_weak = one.flaw.code == _WEAKEST and not any(sign.isdigit() for sign in one.flaw.value)
    return is_weak, one.origin, _IN_TURN.get(one.flaw.code, len(_IN_TURN)), -len(one.carriers), one.step
