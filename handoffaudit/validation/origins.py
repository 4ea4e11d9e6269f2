"""The wrong values of a trace with the steps that introduced them, and a ranking of suspect handoffs."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from handoffaudit.validation.assumptions import assumption_in
from handoffaudit.validation.issues import Severity
from handoffaudit.validation.layers.grounding.findings import BY_KIND
from handoffaudit.validation.provenance import Attributed, Step
from handoffaudit.validation.value_search import Form, forms_of

_IN_TURN: Final = {BY_KIND[kind].code: turn for turn, kind in enumerate(("number", "date", "identifier", "name"))}
# Wording that no source has is more often a paraphrase than wrong.
_WEAKEST: Final = BY_KIND["wording"].code
# A whole sentence in quotation marks is more often a figure of speech than a value.
_SOFT: Final = frozenset({BY_KIND["quote"].code, _WEAKEST})
_HARD: Final = frozenset(code.code for code in BY_KIND.values()) - _SOFT
# Programs report a failure at the beginning of their answers, and an empty result at the end.
_HEAD: Final = 300
_TAIL: Final = 60
_FAILURE = re.compile(
    r"\bexit ?code:? ?-?[1-9]|\btraceback \(most recent call|(?:error|exception):|\bfailed\b"
    r"|\b(?:not|nothing|no \w+) found\b|\bno results?\b|\b(?:http|status)\D{0,9}[45]\d\d\b|\btim(?:ed|e) ?out\b",
    re.IGNORECASE,
)
# Agents write that they did something by hand after a tool failed. Such work often has no source.
_BY_HAND = re.compile(r"(?:manually|by hand)\b")
_NOTHING = re.compile(r"\b(?:output|results?):\s*(?:\[\]|\{\}|None|null|\"\")?\s*$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Origin:
    """One wrong value. All steps are indexes into the trace.

    `step` is the first step that contains the value. `from_outside` is true if a person or a tool supplied the value at
    this step, or if the context of this step contains the value. `flagged` are the steps with a finding about the
    value, and `carriers` the steps after `step` that contain the value.
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
    # A trace can have 100,000 findings about a few values, and reading the forms of a value takes long.
    forms: dict[str, frozenset[Form]] = {}
    alike: dict[tuple[int, frozenset[Form]], list[Attributed]] = {}
    for one in attributed:
        if value := one.flaw.value:
            if value not in forms:
                forms[value] = forms_of(value)
            alike.setdefault((one.origin, forms[value]), []).append(one)
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
    """Return the shares of all source agents in the trace, in the order of their first handoffs."""
    counts = {step.source: [0, 0] for step in steps}
    for one in attributed:
        counts[steps[one.step].source][0 if one.caused else 1] += 1
    return [Share(agent, caused, passed_on) for agent, (caused, passed_on) in counts.items()]


def first_wrong(attributed: Sequence[Attributed]) -> Attributed | None:
    """Return the finding that may have caused the other findings, or None if there are no findings.

    Findings about values that did not come from outside take precedence over all other findings. Among findings of
    equal precedence, wording without a digit comes last. All other findings are ranked by their origin, the earliest
    first. Within one origin, numbers come first, then dates, identifiers, names and the rest; of one kind, the value
    with the most carriers comes first.
    """
    own = [one for one in attributed if one.flaw.value and not one.from_outside]
    return min(own or attributed, key=_weight, default=None)


def _weight(one: Attributed) -> tuple[int, ...]:
    is_weak = one.flaw.code == _WEAKEST and not any(sign.isdigit() for sign in one.flaw.value)
    return is_weak, one.origin, _IN_TURN.get(one.flaw.code, len(_IN_TURN)), -len(one.carriers), one.step


class Sign(StrEnum):
    """The signs that speak against a handoff.

    `VALUE`: the handoff introduced a value without a source, even if the finding about the value is only a note.
    `WARNED`: the finding about the value is a warning or worse. For both, quotations and wordings do not count.
    `FAILED`: the answer to the handoff reports an error or an empty result. `ASSUMED`: the handoff is the first in the
    trace whose data is said to be assumed. `BY_HAND`: the handoff is the first in the trace that says that something is
    done by hand.
    """

    VALUE = "value"
    WARNED = "warned"
    FAILED = "failed"
    ASSUMED = "assumed"
    BY_HAND = "by_hand"


@dataclass(frozen=True, slots=True)
class Suspect:
    """One suspect handoff. Handoffs of people or tools are never suspects.

    `step` is an index into the trace. `values` are the wrong values that the step introduced, spelled as they were
    first found.
    """

    step: int
    signs: tuple[Sign, ...]
    values: tuple[str, ...]


def suspects(
    steps: Sequence[Step], attributed: Sequence[Attributed], signs: Iterable[Sign] = tuple(Sign)
) -> list[Suspect]:
    """Return the handoffs with any of `signs`: the most signs first, and equal numbers in the order of the trace.

    The ranking is not a verdict: it neither holds nor rejects a handoff.
    """
    counted = frozenset(signs)
    by_step: dict[int, list[Origin]] = {}
    for one in origins(attributed):
        if not one.from_outside:
            by_step.setdefault(one.step, []).append(one)
    firsts = {
        Sign.ASSUMED: _first_own(steps, assumption_in),
        Sign.BY_HAND: _first_own(steps, lambda text: _BY_HAND.search(text.lower())),
    }
    found = [
        Suspect(at, shown, tuple(one.value for one in by_step.get(at, ())))
        for at, step in enumerate(steps)
        if not step.brings_facts
        and (shown := tuple(sign for sign in _signs(steps, at, by_step.get(at, ()), firsts) if sign in counted))
    ]
    return sorted(found, key=lambda one: -len(one.signs))


def _first_own(steps: Sequence[Step], says: Callable[[str], object]) -> int | None:
    return next((at for at, step in enumerate(steps) if not step.brings_facts and says(step.data)), None)


def _signs(
    steps: Sequence[Step], at: int, came_in: Sequence[Origin], firsts: Mapping[Sign, int | None]
) -> Iterable[Sign]:
    is_warned = any(not _SOFT.issuperset(one.codes) for one in came_in)
    if is_warned or steps[at].is_noted:
        yield Sign.VALUE
    if is_warned:
        yield Sign.WARNED
    if at + 1 < len(steps) and steps[at + 1].source == steps[at].target and _reports_failure(steps[at + 1].data):
        yield Sign.FAILED
    yield from (sign for sign, first in firsts.items() if at == first)


def _reports_failure(answer: str) -> bool:
    return bool(_FAILURE.search(answer, 0, _HEAD) or _NOTHING.search(answer[-_TAIL:]))


def notes_values(issues: Iterable[Mapping[str, Any]]) -> bool:
    """Return whether a finding of the severity `info` names a value that is in no source.

    `issues` are the findings of a verdict, in the form of the API. Quotations and wordings do not count.
    """
    return any(issue.get("severity") == Severity.INFO and issue.get("code") in _HARD for issue in issues)
