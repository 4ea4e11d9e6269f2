"""Provenance of findings along a trace: the agent that introduced each value, found by a search of all steps."""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from handoffaudit.validation.agents import SourceRole, guess_role
from handoffaudit.validation.issues import is_counted
from handoffaudit.validation.layers import semantic
from handoffaudit.validation.layers.grounding import sources_of
from handoffaudit.validation.layers.grounding.mentions import is_order, puts_out
from handoffaudit.validation.layers.grounding.records import leaves
from handoffaudit.validation.record import Record
from handoffaudit.validation.value_search import YEARLESS, Form, ValueSearch, forms_of

LONGEST_DATA: Final = 100_000

LONGEST_CONTEXT: Final = 300_000


# The metadata fields in which layers store the value of a finding.
_VALUES: Final = ("text", "quote")

_CUT: Final = "…"

# No agent causes this finding.
_NOT_ASKED: Final = semantic.UNAVAILABLE.code


@dataclass(frozen=True, slots=True)
class Flaw:
    """A finding of one step.

    `value` is the wrong value as the document writes it, or an empty text if the finding is about no value.
    """

    code: str
    path: str
    value: str = ""
    severity: str = "warning"


@dataclass(frozen=True, slots=True)
class Step:
    """One handoff of a trace.

    `data` holds all texts and numbers of the handoff's data, one per line, and `context` the texts and numbers of the
    handoff's context and evidence. `brings_facts` is true if the values come from outside: if the source is a
    person or an observer, or if the role of the source is not declared and the handoff is an order without sources or
    the output of a program.
    `is_noted` is true if a finding of the severity `info` names a value that is in no source.
    """

    key: str
    source: str
    target: str
    data: str
    context: str = ""
    flaws: tuple[Flaw, ...] = ()
    brings_facts: bool = False
    is_noted: bool = False


def step_of(
    key: str,
    record: Record,
    flaws: Sequence[Flaw] = (),
    role: SourceRole | None = None,
    *,
    is_noted: bool = False,
) -> Step:
    """Return the record as a step.

    Only the first 100,000 characters of the data and the first 300,000 characters of the context count. Without `role`,
    the role of the source is guessed from the record alone.
    """
    role = role or guess_role(record).role
    return Step(
        key=key,
        source=record.source_agent_id,
        target=record.target_agent_id,
        data=_join_texts((source.text for source in leaves(record.data, "")), LONGEST_DATA),
        context=_join_texts((source.text for source in sources_of(record)), LONGEST_CONTEXT),
        flaws=tuple(flaws),
        brings_facts=not role.is_worker or (not role.is_declared and (is_order(record) or puts_out(record))),
        is_noted=is_noted,
    )


def _join_texts(texts: Iterable[str], most: int) -> str:
    kept, room = [], most
    for text in texts:
        if room <= 0:
            break
        kept.append(text[:room])
        room -= len(text) + 1
    return "\n".join(kept)


def flaws_of(issues: Iterable[Mapping[str, Any]]) -> tuple[Flaw, ...]:
    """Return the findings of severity warning and above, once for each wrong value of a finding.

    `issues` are the findings of a verdict in the form of the API. The finding that the LLM was unavailable is excluded,
    because it is not about the handoff.
    """
    return tuple(
        Flaw(str(issue["code"]), str(issue.get("field_path") or ""), value, str(issue["severity"]))
        for issue in issues
        if is_counted(str(issue.get("severity"))) and issue["code"] != _NOT_ASKED
        for value in _values(issue)
    )


def _values(issue: Mapping[str, Any]) -> Iterator[str]:
    """Yield the values of an issue; a single empty text if the issue is about no value."""
    metadata = issue.get("metadata") or {}
    listed = [one["text"] for one in metadata.get("values") or () if isinstance(one.get("text"), str)]
    single = next((metadata[name] for name in _VALUES if isinstance(metadata.get(name), str)), "")
    yield from map(_whole_words, listed or [single])


def _whole_words(found: str) -> str:
    # The last word of a value that was cut may not be whole.
    return found[:-1].rpartition(" ")[0] or found[:-1] if found.endswith(_CUT) else found


MOST_STEPS: Final = 1_000

MOST_VALUES: Final = 20_000

_INDEX = re.compile(r"\[\d+\]")


@dataclass(frozen=True, slots=True)
class Attributed:
    """One finding of the step at `step`, with its origin. All steps are indexes into the trace.

    `origin` is the earliest step that contains the value. For a finding without a value, `origin` is the earliest step
    with the same code at the same kind of place. `caused` is true if the source of this step introduced the finding.
    The source did so in this step, or in an earlier step of its own that did not receive the value. `from_outside` is
    true if a person or a tool supplied the value at `origin`, or if the context of that step contains the value.
    `carriers` are the steps after the origin that contain the value or have the same finding.
    """

    step: int
    flaw: Flaw
    caused: bool
    origin: int
    from_outside: bool = False
    carriers: tuple[int, ...] = ()


def attribute(steps: Sequence[Step]) -> list[Attributed]:
    """Return every finding of the first 1,000 steps with its origin, in order.

    Values are compared by meaning: `1,200` equals 1200, and `120` does not contain 12. Beyond 20,000 different values,
    findings are treated as findings without a value.
    """
    steps = steps[:MOST_STEPS]
    values = _Values(steps)
    places_of: dict[tuple[str, str], list[int]] = {}
    for at, step in enumerate(steps):
        for flaw in step.flaws:
            places = places_of.setdefault(_likeness(flaw), [])
            if not places or places[-1] != at:
                places.append(at)
    # Equal findings share their steps. A trace can have 100,000 findings, each with 1,000 steps.
    alike = {likeness: (places[0], tuple(places[1:])) for likeness, places in places_of.items()}
    return [
        values.attribute(at, flaw) or _by_likeness(steps, at, values.limit(flaw), *alike[_likeness(flaw)])
        for at, step in enumerate(steps)
        for flaw in step.flaws
    ]


def find_tainted(steps: Sequence[Step], attributed: Iterable[Attributed]) -> dict[int, tuple[str, ...]]:
    """Return the steps that inherited wrong values from earlier steps, each with these values.

    The values are spelled as they were first found, in the order of the findings. Values from outside are excluded.
    """
    found: dict[int, dict[str, None]] = {}
    # Many findings of a long trace have the same value with the same carriers.
    seen: set[tuple[str, int]] = set()
    for one in attributed:
        value = one.flaw.value
        if value and not one.from_outside and (value, one.origin) not in seen:
            seen.add((value, one.origin))
            # A value without forms cannot be searched for, so no step is known to contain the value.
            for at in one.carriers if forms_of(value) else ():
                found.setdefault(at, {})[value] = None
    return {at: tuple(found[at]) for at in sorted(found) if at < len(steps)}


def _likeness(flaw: Flaw) -> tuple[str, str]:
    return flaw.code, _INDEX.sub("[]", flaw.path)


def _by_likeness(steps: Sequence[Step], at: int, flaw: Flaw, origin: int, carriers: tuple[int, ...]) -> Attributed:
    caused = _causes(steps, at, origin, from_outside=False)
    return Attributed(at, flaw, caused=caused, origin=origin, carriers=carriers)


def _causes(steps: Sequence[Step], at: int, origin: int, *, from_outside: bool) -> bool:
    """Return whether the source of a step introduced the finding.

    A source that repeats its own earlier value, which it did not receive from outside, introduced the value.
    """
    source = steps[at].source
    return origin == at or (bool(source) and steps[origin].source == source and not from_outside)


class _Values:
    """An index of the steps that contain each value of a finding."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self._steps = steps
        written = dict.fromkeys(flaw.value for step in steps for flaw in step.flaws if flaw.value)
        self._forms = {value: forms_of(value) for value in list(written)[:MOST_VALUES]}
        self._search = ValueSearch(form for forms in self._forms.values() for form in forms)
        self._places: dict[Form, list[int]] = {}
        self._flagged: set[tuple[int, frozenset[Form]]] = set()
        for at, step in enumerate(steps if self._forms else ()):
            for form in self._search.find_in(step.data):
                self._places.setdefault(form, []).append(at)
            for forms in {self._forms.get(flaw.value, frozenset()) for flaw in step.flaws}:
                self._flagged.add((at, forms))
                # A layer found the value in this step, even if the search above did not find it. The form of a date
                # without its year is left out, because the same day of another year has this form, too.
                for form in forms:
                    if form[0] != YEARLESS:
                        self._places.setdefault(form, []).append(at)
        self._of_forms: dict[frozenset[Form], tuple[int, ...]] = {}
        self._later: dict[tuple[frozenset[Form], int], tuple[int, ...]] = {}
        self._given: dict[int, frozenset[Form]] = {}

    def attribute(self, at: int, flaw: Flaw) -> Attributed | None:
        forms = self._forms.get(flaw.value)
        if not forms:
            return None
        places = self._places_of(forms)
        origin = min(places[0], at) if places else at
        from_outside = self._is_given(origin, forms)
        return Attributed(
            at,
            flaw,
            caused=_causes(self._steps, at, origin, from_outside=from_outside),
            origin=origin,
            from_outside=from_outside,
            carriers=self._carriers_of(forms, origin),
        )

    def limit(self, flaw: Flaw) -> Flaw:
        """Return the finding, without its value if the value is beyond `MOST_VALUES`."""
        return flaw if not flaw.value or flaw.value in self._forms else replace(flaw, value="")

    def _carriers_of(self, forms: frozenset[Form], origin: int) -> tuple[int, ...]:
        if (forms, origin) not in self._later:
            places = self._places_of(forms)
            self._later[forms, origin] = places[bisect_right(places, origin) :]
        return self._later[forms, origin]

    def _places_of(self, forms: frozenset[Form]) -> tuple[int, ...]:
        if forms not in self._of_forms:
            self._of_forms[forms] = tuple(sorted({at for form in forms for at in self._places.get(form, ())}))
        return self._of_forms[forms]

    def _is_given(self, at: int, forms: frozenset[Form]) -> bool:
        """Return whether the step received the value instead of introducing it.

        A value that a layer flagged in the step was not in the step's context, so the step did not receive the value.
        """
        if (at, forms) in self._flagged:
            return False
        if self._steps[at].brings_facts:
            return True
        if at not in self._given:
            self._given[at] = self._search.find_in(self._steps[at].context)
        return not forms.isdisjoint(self._given[at])
